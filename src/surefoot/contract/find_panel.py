"""Finds the panel that a result was measured on, by its name and digest, wherever this machine has it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from surefoot.contract.errors import SurefootError
from surefoot.contract.panel import Panel
from surefoot.contract.panel_files import load_panel
from surefoot.contract.second_panel import SECOND, second_panel

_CUT = re.compile(r"\+(\d+)families")


def find_panel(digest: str, names: Iterable[str]) -> Panel | None:
    """Returns the panel whose digest is `digest`, looked for under `names` (a panel's name or its file, also
    cut or dealt anew); None where this machine has no such panel. A name proves nothing, the digest does."""
    for panel in _candidates(names):
        if panel.digest == digest:
            return panel
    return None


def _candidates(names: Iterable[str]) -> Iterator[Panel]:
    names = list(dict.fromkeys(names))
    # A task names the panel's file, its results the panel, which may be cut or dealt anew: try each of both.
    cuts = [int(m[1]) for n in names if (m := _CUT.search(n))]
    for name in names:
        base = _CUT.sub("", name.removesuffix(SECOND)) if not name.endswith(".json") else name
        try:
            panel = load_panel(base)
        except SurefootError:  # it is not here, or was changed: then nobody can check rows against it
            continue
        whole = [panel]
        for count in cuts:
            try:
                whole.append(panel.with_families(count))
            except SurefootError:  # it has fewer
                continue
        for p in whole:
            yield p
            if any(n.endswith(SECOND) for n in names):
                yield second_panel(p)
