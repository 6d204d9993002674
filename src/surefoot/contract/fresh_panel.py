"""A panel that is made for one decision: nobody can have chosen on it, and anybody can make it again."""

from __future__ import annotations

from surefoot.contract.digests import digest
from surefoot.contract.errors import SurefootError
from surefoot.contract.panel import Panel
from surefoot.contract.second_panel import second_panel
from surefoot.contract.seeds import WORD, prove_disjoint

FRESH = "+fresh"


def fresh_root(checkpoints: tuple[str, ...], panel: str) -> int:
    """Returns the root seed of the scenarios that decide between policies: the digest of their checkpoints,
    in any order, and the panel's name. It is known only when the policies are there."""
    return int(digest({"checkpoints": sorted(checkpoints), "panel": panel})[:8], 16) & WORD


def fresh_panel(panel: Panel, checkpoints: tuple[str, ...], scenarios: int | None = None) -> Panel:
    """Makes a panel like `panel`, of the same strata, from the root seed of `checkpoints`."""
    root = fresh_root(checkpoints, panel.name.partition("+")[0])
    made = second_panel(panel, root, f"{FRESH}-{root:08x}")
    made = made if scenarios is None else made.with_scenarios(scenarios)
    if not prove_disjoint(panel.seeds, made.seeds).disjoint:
        raise SurefootError(
            f"The scenarios of this decision would be those of {panel.name} itself (a chance of 1 in 2^32); "
            "train the candidate for another update."
        )
    return made
