"""Surefoot trains legged robots in thousands of parallel environments, and every run proves what it
learned.

    import surefoot

    run = surefoot.train("walk-flat", seed=1, until=0.95)
    run.verdict, run.success, run.ledger, run.policy

Verbs: `plan`, `train`, `resume`, `evaluate`, `compare`, `promote`, `replay`, `report`, `audit`,
`postmortem`. Things: `Run`, `Plan`, `Policy`, `SurefootError`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surefoot.api import (
        Plan,
        Policy,
        Run,
        SurefootError,
        audit,
        compare,
        evaluate,
        plan,
        postmortem,
        promote,
        replay,
        report,
        resume,
        train,
    )

__version__ = "0.1.0"

__all__ = [
    "Plan",
    "Policy",
    "Run",
    "SurefootError",
    "__version__",
    "audit",
    "compare",
    "evaluate",
    "plan",
    "postmortem",
    "promote",
    "replay",
    "report",
    "resume",
    "train",
]


def __getattr__(name: str) -> Any:
    """Imports the API when one of its names is first asked for: `import surefoot` itself is quick."""
    if name not in __all__:
        raise AttributeError(f"module 'surefoot' has no attribute '{name}'")
    return getattr(import_module("surefoot.api"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
