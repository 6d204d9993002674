"""External environments: Gymnasium's, EnvPool's and mjlab's, trained and judged as Surefoot's own are."""

from surefoot.env.external.env import ALIVE, NONFINITE, REASONS, TERMINATED, TIMEOUT, ActionScale, ExternalEnv
from surefoot.env.external.task import ExternalTask, external_task, is_external

__all__ = [
    "ALIVE",
    "NONFINITE",
    "REASONS",
    "TERMINATED",
    "TIMEOUT",
    "ActionScale",
    "ExternalEnv",
    "ExternalTask",
    "external_task",
    "is_external",
]
