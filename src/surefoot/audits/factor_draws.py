"""Are the factors of training drawn as the contract says: over their whole ranges, evenly, each by itself, at
their levels?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import stdtr

from surefoot.audits.case import Case
from surefoot.audits.chance import kolmogorov_smirnov
from surefoot.audits.detector import Detector, Found
from surefoot.audits.fresh_lives import FreshLives, fresh_lives
from surefoot.audits.twin import rotation
from surefoot.contract import TaskContract
from surefoot.env import OBSERVATION_LIMIT

PUSH_EVERY_S = 5.0
"""Training pushes once in every window of this length."""
OUTSIDE = 1e-4
"""Share of a range by which rounding may leave it."""
LIFE = {"payload": "payload_kg", "com": "com_m", "strength": "strength"}
FIELDS = {v: k for k, v in LIFE.items()} | {"friction": "friction", "kp_scale": "gains", "kd_scale": "gains"}
FEWEST = 8
"""Pairs below which nothing is said of a correlation."""
Columns = dict[str, np.ndarray]


def look(case: Case) -> list[Found]:
    """Tests what several hundred environments drew for life and for five episodes each."""
    lives, plan = fresh_lives(case), case.robot
    contract, seeds = plan.task.contract, plan.seeds
    life, episodes = for_life(lives, contract), per_episode(lives, contract, plan.recipe.control_hz, case)
    families = np.arange(lives.first, lives.first + len(life["strength"])) // (seeds.envs // seeds.families)
    return [
        *_levels(lives, contract, families, episodes),
        *_ranges(life | {k: v.ravel() for k, v in episodes.items()}, _family(lives, contract, families)),
        *_apart(life, episodes, contract.stratify),
        *_noise(case, lives, contract),
    ]


def _unit(x: np.ndarray, low: float, high: float) -> np.ndarray | None:
    """Returns places in a range, 0 to 1; None for a range without width."""
    return (np.asarray(x, np.float64) - low) / (high - low) if high > low else None


def for_life(lives: FreshLives, contract: TaskContract) -> Columns:
    """Returns the places [N] of what environments keep for life in their ranges, by component."""
    d = lives.begun[0].declared
    out: dict[str, np.ndarray | None] = {}
    for name, field in LIFE.items():
        value = np.asarray(d[f"parameters.{field}"]).reshape(len(d["episode"]), -1)
        for k, column in enumerate(value.T):
            out[f"{name} {'xyz'[k]}" if name == "com" else name] = _unit(column, *contract.factor(name).train)
    for name in ("kp_scale", "kd_scale"):
        out[name] = _unit(d[f"parameters.{name}"], *contract.factor("gains").train)
    return {k: v for k, v in out.items() if v is not None}


def _family(lives: FreshLives, contract: TaskContract, families: np.ndarray) -> Columns:
    friction = lives.begun[0].declared["parameters.friction"]
    first = np.unique(families, return_index=True)[1]
    there = _unit(friction[first], *contract.factor("friction").train)
    return {} if there is None else {"friction": there}


def per_episode(lives: FreshLives, contract: TaskContract, hz: float, case: Case) -> Columns:
    """Returns the places [episodes, N] in their ranges of what is drawn for each episode, by component."""
    train = {f.name: f.train for f in contract.factors}
    pose = np.asarray(case.robot.task.robot.default_pose)
    columns: dict[str, list[np.ndarray | None]] = {}
    for b in lives.begun:
        d, r = b.declared, b.robot
        push, when = d["script.push_velocity"].astype(float), d["script.push_step"].astype(float)
        speed, angle = np.hypot(push[..., 0], push[..., 1]), np.arctan2(push[..., 1], push[..., 0])
        window = round(PUSH_EVERY_S * hz)
        turned = _world(r)
        one = {
            "delay": _unit(d["parameters.delay_s"], *train["delay"]),
            "noise": _unit(d["script.noise_scale"], *train["noise"]),
            "yaw": _yaw(r["quaternion"]),
        }
        if train["push"][1] > train["push"][0]:
            for k in range(push.shape[1]):
                one[f"push {k + 1}"] = _unit(speed[:, k], *train["push"])
                one[f"direction of push {k + 1}"] = (angle[:, k] / (2 * np.pi)) % 1.0
                one[f"time of push {k + 1}"] = (when[:, k] + 0.5 - k * window) / window
        for k in range(3):
            one[f"velocity {'xyz'[k]}"] = _unit(turned[:, k], *train["velocity"])
            one[f"rotation {'xyz'[k]}"] = _unit(r["angular_velocity"][:, k], *train["velocity"])
        for j in range(len(pose)):
            one[f"offset of joint {j + 1}"] = _unit(r["joint_position"][:, j] - pose[j], *train["pose"])
        for name, value in one.items():
            columns.setdefault(name, []).append(value)
    return {k: np.stack(v) for k, v in columns.items() if all(x is not None for x in v)}  # type: ignore[arg-type]


def _yaw(q: np.ndarray) -> np.ndarray:
    yaw = np.arctan2(2 * (q[:, 0] * q[:, 3] + q[:, 1] * q[:, 2]), 1 - 2 * (q[:, 2] ** 2 + q[:, 3] ** 2))
    return np.asarray((yaw.astype(np.float64) / (2 * np.pi)) % 1.0)


def _world(robot: Columns) -> np.ndarray:
    out: np.ndarray = np.einsum(
        "nij,nj->ni", rotation(robot["quaternion"]), robot["linear_velocity"].astype(float)
    )
    return out


def _levels(
    lives: FreshLives, contract: TaskContract, families: np.ndarray, episodes: Columns
) -> Iterator[Found]:
    """What is for life stays, what is per episode is new each time, and a family shares its friction."""
    first = lives.begun[0].declared
    level = {f.name: f.level for f in contract.factors}
    for k, name in FIELDS.items():
        if level[name] == "episode":
            continue
        now = [b.declared[f"parameters.{k}"] for b in lives.begun]
        changed = int(np.any([(x != now[0]).reshape(len(x), -1).any(1) for x in now], 0).sum())
        if changed:
            yield Found(
                f"'{k}' is for an environment's life and changes from episode to episode in {changed}."
            )
    friction = first["parameters.friction"]
    spread = [len(np.unique(friction[families == f])) for f in np.unique(families)]
    if level["friction"] == "family" and max(spread) > 1:
        yield Found("Families do not share their friction: some have several.")
    for name, u in episodes.items():
        kept = int((u[1:] == u[:-1]).sum())
        if kept > max(3, 0.02 * u[1:].size) and "time" not in name:
            yield Found(f"'{name}' is drawn for each episode and stays the same in {kept} of {u[1:].size}.")


def _ranges(many: Columns, few: Columns) -> Iterator[Found]:
    """Values lie in their ranges, reach their ends, and are spread evenly."""
    every = many | few
    p: dict[str, tuple[float, str]] = {}
    for name, u in every.items():
        if (u < -OUTSIDE).any() or (u > 1 + OUTSIDE).any():
            out = int(((u < -OUTSIDE) | (u > 1 + OUTSIDE)).sum())
            yield Found(f"'{name}' lies outside its declared range in {out} of {u.size} draws.")
            continue
        n = u.size
        tests = {
            f"the highest part of its range is never drawn: nothing above {100 * u.max():.0f}%": u.max() ** n,
            f"the lowest part of its range is never drawn: nothing below {100 * u.min():.0f}%": (1 - u.min())
            ** n,
            "it is not drawn evenly": kolmogorov_smirnov(np.clip(u, 0, 1)),
        }
        for text, chance in tests.items():
            p[f"'{name}': {text}."] = (float(chance), text)
    least = min(p, key=lambda k: p[k][0], default=None)
    if least is not None:
        yield Found(least, p=min(1.0, p[least][0] * len(p)))


def _apart(life: Columns, episodes: Columns, dealt: tuple[str, ...]) -> Iterator[Found]:
    """No factor follows another, its neighbour's (but where neighbours are dealt different ones), or its own
    of the episode before."""
    rows = len(next(iter(episodes.values())))
    columns = {k: np.tile(v, rows) for k, v in life.items()} | {k: v.ravel() for k, v in episodes.items()}
    counts = {k: len(life[k]) if k in life else columns[k].size for k in columns}
    names = list(columns)
    x = np.array([columns[k] - columns[k].mean() for k in names])
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    r = x @ x.T
    both = np.array(
        [
            [min(counts[a], counts[b]) if a in life and b in life else columns[a].size for b in names]
            for a in names
        ]
    )
    chance = np.where(both < FEWEST, 1.0, _chance(r, np.maximum(both, FEWEST)))
    chance[np.tril_indices(len(names))] = 1.0
    tests = {
        f"'{names[i]}' and '{names[j]}' are drawn together (correlation {r[i, j]:.2f})": chance[i, j]
        for i, j in zip(*np.triu_indices(len(names), 1), strict=True)
    }
    for name, u in (life | episodes).items():
        wide = np.atleast_2d(u)
        a, b = wide[:, 1:].ravel(), wide[:, :-1].ravel()
        if name not in dealt:
            tests[f"'{name}' of neighbouring environments is alike"] = _pair(a, b)
        if len(wide) > 1:
            tests[f"'{name}' follows the episode before"] = _pair(wide[1:].ravel(), wide[:-1].ravel())
    least = min(tests, key=lambda k: tests[k])
    yield Found(
        f"Factors are not drawn independently: {least}.", p=min(1.0, float(tests[least]) * len(tests))
    )


def _pair(a: np.ndarray, b: np.ndarray) -> float:
    if len(a) < FEWEST or a.std() == 0 or b.std() == 0:
        return 1.0
    return float(_chance(np.corrcoef(a, b)[0, 1], np.array(len(a))))


def _chance(r: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Returns the two-sided chance of a correlation of n independent pairs."""
    r = np.clip(np.abs(r), 0, 1 - 1e-12)
    out: np.ndarray = 2 * stdtr(n - 2, -r * np.sqrt((n - 2) / (1 - r**2)))
    return out


def _noise(case: Case, lives: FreshLives, contract: TaskContract) -> Iterator[Found]:
    """Noise of every sensor reaches its half-width, times the episode's scale, and never more."""
    size = [t.size for t in contract.observation]
    scale, width = (
        np.repeat([getattr(t, k) for t in contract.observation], size) for k in ("scale", "noise")
    )
    sensor = width > 0
    if not sensor.any():
        return
    z, bare = [], []
    for one in lives.lived:
        obs, clean = (x[:, : len(width)].astype(float) for x in (one.obs, one.critic))
        inside = (np.abs(obs) < OBSERVATION_LIMIT - 1e-3) & (np.abs(clean) < OBSERVATION_LIMIT - 1e-3)
        share = np.where(inside & sensor, (obs - clean) / np.where(sensor, scale * width, 1.0), np.nan)
        bare.append(share)
        z.append(share / one.after["script.noise_scale"].astype(float)[:, None])
    every = np.stack(z)[..., sensor]  # [T, N, S]
    of_env = np.moveaxis(every, 1, 0).reshape(every.shape[1], -1)
    count = (~np.isnan(of_env)).sum(1)
    most = np.nanmax(np.abs(of_env), axis=1)
    flat = np.nanmax(np.abs(np.stack(bare)[..., sensor]), axis=(0, 2))
    drawn = "randomisation" if flat.std() < 0.02 else "observation"
    above = most > 1 + 2e-3
    if above.any():
        text = (
            f"Noise of sensors is larger than its half-width times the episode's scale in {int(above.sum())}"
        )
        yield Found(f"{text} of {len(most)} environments, by up to {most.max():.2f}.", cause=drawn)
    else:
        p = float(min(1.0, len(most) * np.min(np.minimum(most, 1.0) ** count)))
        text = f"Noise of sensors stays below {100 * most.min():.0f}% of its half-width times the scale of"
        yield Found(f"{text} the episode in some environments.", p=p, cause=drawn)


DETECTORS = (
    Detector(
        name="factor-draws",
        kind="proof",
        cause="randomisation",
        asks="Is every factor drawn over its whole range, evenly, independently of the others, and anew as "
        "often as its level says?",
        statistic="places in their ranges of what up to 256 environments drew for life and for five "
        "episodes: extremes, Kolmogorov-Smirnov, correlations between factors, neighbours and "
        "episodes, exact copies",
        threshold="ranges and levels exactly; else p over all tests (Bonferroni) at the common error rate",
        means="Training saw less, or something else, than the contract promises.",
        remedy="Look at the named factor's draw: its range, its channel, and the level it is drawn at.",
        look=look,
        needs=("robot",),
    ),
)
