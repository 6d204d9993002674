"""A confirmation in looks: as much of the panel's list as the verdict takes."""

from __future__ import annotations

from surefoot.contract import TRAINED, DrawnPanel, Half, SurefootError
from surefoot.evaluation import Watch, engines_for, look_until_decided, unwatched
from surefoot.policy import Policy
from surefoot.statistics import PanelResult
from surefoot.training.plan import Plan, RobotPlan


def check_sequential(plan: Plan, half: Half = "confirmation") -> RobotPlan:
    """Returns the plan; refused where its panel cannot grow."""
    if isinstance(plan, RobotPlan) and half == "confirmation" and isinstance(plan.panel, DrawnPanel):
        count, least = len(plan.panel.select("confirmation")), plan.panel.draw.selection
        if count >= least:
            return plan
        raise SurefootError(
            f"--sequential looks at a list that grows, and one that begins with {count} scenarios would "
            f"number them anew: below {least} the selection half is as short as the list; use "
            f"--scenarios {least} or more, or leave out one of the two."
        )
    raise SurefootError(
        f"--sequential looks at the confirmation half of a drawn panel (version 2) as it grows, and this "
        f"is the {half} half of {plan.panel.name}; leave it out."
    )


def look(
    plan: Plan,
    policy: Policy,
    half: Half,
    *,
    engine: str = "auto",
    name: str = TRAINED,
    watch: Watch = unwatched,
) -> tuple[RobotPlan, PanelResult]:
    """Plays the nominal column in looks, until the verdict is decided; returns the plan on the panel as long
    as it was then, and the column."""
    own, hz = check_sequential(plan, half), plan.recipe.control_hz
    first = engines_for(engine, own.task, own.panel, hz)[0]
    panel, found = look_until_decided(own.task, own.panel, hz, policy, first, name=name, watch=watch)
    return own.on_panel(panel), found
