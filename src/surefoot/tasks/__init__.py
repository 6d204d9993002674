"""Tasks: contracts bound to pure functions of the robot's state."""

from surefoot.tasks.apart import check_apart
from surefoot.tasks.registry import BUILT_IN, task, task_names
from surefoot.tasks.sparse import SPARSE, sparse
from surefoot.tasks.task import Ground, Task, TaskState, View, advance
from surefoot.tasks.velocity import TROT, TROT_REWARDS, WALK_REWARDS, reweighted, velocity_task

__all__ = [
    "BUILT_IN",
    "SPARSE",
    "TROT",
    "TROT_REWARDS",
    "WALK_REWARDS",
    "Ground",
    "Task",
    "TaskState",
    "View",
    "advance",
    "check_apart",
    "reweighted",
    "sparse",
    "task",
    "task_names",
    "velocity_task",
]
