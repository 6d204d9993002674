"""What an episode that was played again says, for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from rich.console import Console

from surefoot.printing.terminal import plain_table, say

if TYPE_CHECKING:
    from surefoot.replays import Verdict

SHOWN = (
    "column", "engine", "scenario", "key", "family", "member", "command_vx", "command_vy", "command_wz",
    "friction", "payload_kg", "terrain", "success", "reason", "lived_s", "velocity_error_mps",
    "yaw_error_radps", "peak_tilt_rad", "torque_saturation", "recovery_s", "label", "cause",
)  # fmt: skip
"""What is told of an episode."""


def print_replay(
    console: Console, panel: str, row: Mapping[str, Any], verdict: Verdict | None, video: str = ""
) -> None:
    """Prints an episode's row, whether it is what was recorded, and what is said of its video."""
    table = plain_table(f"Episode {row['scenario']} of {panel}", "", "")
    for k in SHOWN:
        table.add_row(k, value_text(row[k]))
    console.print(table, highlight=False)
    if verdict:
        say(console, _sentence(verdict), markup=True)
    if video:
        say(console, video)


def _sentence(v: Verdict) -> str:
    if v.holds:
        return "[green]Verified:[/green] the same states to the bit, the same label, the same figures."
    label = "the same label" if v.same_label else "another label"
    far = "unknown" if v.largest_difference is None else f"{v.largest_difference:.2g} m or rad"
    return (
        f"[red]Not the same:[/red] states {'agree' if v.same_states else f'differ by up to {far}'}, {label}; "
        f"figures that differ: {', '.join(v.differing) or 'none'}."
    )


def value_text(value: Any, digits: int = 4) -> str:
    """Writes a value of a row; a figure that is not finite was not measured."""
    if isinstance(value, Real) and not isinstance(value, Integral):
        return "not measured" if not math.isfinite(value) else f"{value:.{digits}g}"
    return str(value) or "-"
