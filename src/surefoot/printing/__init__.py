"""Printing: results as tables and sentences for people, on any rich console (a terminal, a notebook).

In the house, below whatever shows results: the Python API and the command line print the same. Importing this
imports nothing but rich. Main names: `say`, `plain_table`, `print_plan`, `print_summary`.
"""

from __future__ import annotations

from surefoot.printing.audits import print_audit, print_detector, print_detectors
from surefoot.printing.comparison import forest_bar, print_comparison, print_looks, print_refusal
from surefoot.printing.display import ConsoleObserver, StudyProgress
from surefoot.printing.fleet import print_fleet
from surefoot.printing.panels import power_rows
from surefoot.printing.promotion import print_decision, print_decisions, print_lineage, print_promotion
from surefoot.printing.replays import SHOWN, print_replay, value_text
from surefoot.printing.tables import print_plan, print_summary, verdicts
from surefoot.printing.terminal import continued, make_console, plain_table, say, say_commands
from surefoot.printing.verification import print_verification, said_chance

__all__ = [
    "SHOWN",
    "ConsoleObserver",
    "StudyProgress",
    "continued",
    "forest_bar",
    "make_console",
    "plain_table",
    "power_rows",
    "print_audit",
    "print_comparison",
    "print_decision",
    "print_decisions",
    "print_detector",
    "print_detectors",
    "print_fleet",
    "print_lineage",
    "print_looks",
    "print_plan",
    "print_promotion",
    "print_refusal",
    "print_replay",
    "print_summary",
    "print_verification",
    "said_chance",
    "say",
    "say_commands",
    "value_text",
    "verdicts",
]
