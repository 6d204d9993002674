"""A task's contract as a person would say it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from surefoot.contract import Panel, Recipe, RewardTerm, TaskContract


def contract_prose(c: TaskContract, recipe: Recipe, panel: Panel) -> tuple[str, ...]:
    """Writes a paragraph each: what it is asked, sees and does; what it is told; paid for; when it ends;
    success; what varies."""
    scenarios = panel.select("confirmation")
    sees = _list(f"{_plain(t.name)} ({t.size})" for t in c.observation)
    privileged = _list(_plain(t.name) for t in c.privileged)
    prior = (
        f"It is handed a prior: a gait clock of {c.prior.clock_hz:g} Hz"
        + (f", and a scripted lift of its feet by {c.prior.lift_rad:g} rad" if c.prior.lift_rad else "")
        + "; what it does is added to that."
        if c.prior
        else "It is handed neither a gait clock nor a motion to start from."
    )
    return (
        f"{c.name}: a {c.robot} follows a commanded velocity (forward, sideways, turning). "
        f"{recipe.control_hz:g} times a second it sees {c.observation_size} numbers, some of them noisy: "
        f"{sees}. It answers with {c.action.size} joint targets: the default pose plus "
        f"{c.action.scale_rad:g} rad times its action, which is clipped to {c.action.clip:g}.",
        f"{prior} While it is trained, and only then, its critic also sees {privileged}.",
        f"{reward_prose(c.rewards)} The sum of a step is not allowed below {c.reward_floor:g}, but for what "
        "is added once."
        if c.reward_floor is not None
        else reward_prose(c.rewards),
        f"An episode ends early when: {_list((t.doc or _plain(t.name) for t in c.terminations), ' or ')}. "
        f"Otherwise it lasts {c.episode_s:g} s in training and {panel.episode_s:g} s on the panel.",
        f"What a success is: {c.success.doc}. The safety constraint: {c.safety.doc} at most "
        f"{100 * c.safety.limit:g}%.",
        f"Training draws {_list(_plain(f.name) for f in c.factors)} anew, by seed family, robot or episode. "
        f"Results are stated on {len(scenarios)} held-out scenarios in "
        f"{len({x.family for x in scenarios})} seed families (the confirmation half of {panel.name}), drawn "
        "from seeds that training cannot reach, each played once without exploration noise.",
    )


def reward_prose(rewards: Sequence[RewardTerm]) -> str:
    steady, once = [t for t in rewards if not t.event], [t for t in rewards if t.event]
    text = f"It is paid, per second: {_list(f'{_plain(t.name)} {t.weight:+g}' for t in steady)}."
    if once:
        text += f" Once, when it happens: {_list(f'{_plain(t.name)} {t.weight:+g}' for t in once)}."
    return text.replace("-", "\N{MINUS SIGN}")


def _plain(name: str) -> str:
    return name.replace("_", " ")


def _list(parts: Iterable[str], last: str = " and ") -> str:
    *most, end = list(parts)
    return f"{', '.join(most)}{last}{end}" if most else end
