"""The Python API: what `import surefoot` offers, verbs that return objects which show themselves.

In the house, below the command line, which parses, calls these and prints. Importing this imports neither
torch nor a simulator, and runs are judged, compared and reported where there is none. Main names: `plan`,
`train`, `Run`, `Policy`.
"""

from __future__ import annotations

from surefoot.api.audits import audit
from surefoot.api.plans import Plan, plan
from surefoot.api.policies import Policy
from surefoot.api.runs import Run
from surefoot.api.sessions import resume, train
from surefoot.api.verbs import compare, evaluate, postmortem, promote, replay, report
from surefoot.contract import SurefootError

__all__ = [
    "Plan",
    "Policy",
    "Run",
    "SurefootError",
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
