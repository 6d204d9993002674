"""What a step gives: shapes and kinds, ends of one kind, true final observations."""

from __future__ import annotations

from contextlib import closing

import torch
from torch import Tensor

from surefoot.env.base import Stepwise, TrainingEnv
from surefoot.env.conformance.scaffold import (
    ENVS,
    EXPERIENCE,
    HORIZON,
    Actor,
    Check,
    Make,
    Rolled,
    empty_block,
    hold,
    live,
    roll,
    same_bits,
)


def check_shapes_and_kinds(make: Make) -> None:
    with closing(make(range(ENVS))) as env:
        c, n = env.contract, ENVS
        hold(env.num_envs == n, f"make(range({n})) builds {n} environments.")
        hold(isinstance(env.device, torch.device), "The device is a torch.device.")
        hold(env.episode_steps > HORIZON, f"Episodes are longer than rollouts of {HORIZON} steps.")
        hold(env.reasons[:2] == ("alive", "timeout"), "Reasons 0 and 1 are 'alive' and 'timeout'.")
        hold(len(set(env.reasons)) == len(env.reasons), "Reasons have names of their own.")
        hold(env.reward_names == tuple(t.name for t in c.rewards), "Reward names are the contract's.")
        hold(env.asynchronous in (True, False), "Environments say whether they are asynchronous.")
        kinds = {"obs": (n, c.observation_size), "critic": (n, c.critic_size)}
        for name, shape in kinds.items():
            _is(env, name, getattr(env, name), shape, torch.float32)
        _is(env, "age()", env.age(), (n,), torch.int64)
        hold(env.content().ndim == 2 and len(env.content()) == n, "content() is [N, K].")
        before = env.seconds + env.physics_seconds
        rolled = roll(env)
        hold(env.seconds + env.physics_seconds > before, "A rollout takes time, and the environments say so.")
        for name in EXPERIENCE:
            tensor = getattr(rolled.block, name)
            if tensor.dtype.is_floating_point:
                hold(tensor.isfinite().all(), f"A rollout writes all of the block's `{name}`, in numbers.")
        for name, shape in kinds.items():
            _is(env, name, getattr(env, name), shape, torch.float32)
            hold(getattr(env, name).isfinite().all(), f"After a rollout `{name}` has numbers.")
        step, whose, critic = rolled.finals
        _is(env, "finals.step", step, (len(step),), torch.int64)
        _is(env, "finals.env", whose, (len(step),), torch.int64)
        _is(env, "finals.critic", critic, (len(step), c.critic_size), torch.float32)


def _is(env: TrainingEnv, name: str, x: Tensor, shape: tuple[int, ...], kind: torch.dtype) -> None:
    actual = f"{list(x.shape)} {x.dtype} on {x.device}"
    promise = f"`{name}` is {list(shape)} {kind} on {env.device}; here it is {actual}."
    hold(tuple(x.shape) == shape and x.dtype == kind and x.device.type == env.device.type, promise)


def check_an_end_is_of_one_kind(make: Make) -> None:
    with closing(make(range(ENVS))) as env:
        for size in (0.0, 4.0):
            for rolled in live(env, size):
                b = rolled.block
                hold(~(b.terminated & b.truncated), "No step is both terminated and truncated.")
                hold((b.reason > 0) == rolled.ends, "A reason other than 'alive' is where an episode ends.")
                hold((b.reason == 1) == b.truncated, "'timeout' is the reason of what was truncated.")
                hold(b.reason < len(env.reasons), "Every reason has a name.")


@torch.inference_mode()
def check_ages_count_steps(make: Make) -> None:
    """An episode that ended is followed by one that begins at 0."""
    with closing(make(range(ENVS))) as env:
        age = env.age()
        for rolled in live(env):
            for ended in rolled.ends:
                age = torch.where(ended, 0, age + 1)
            hold(rolled.age == age, "Ages count the steps since an episode's first.")
        env.age().zero_()
        hold(env.age() == age, "age() is a copy.")


def check_final_observations_are_the_true_ones(make: Make) -> None:
    """The final observation of an episode that ran out of time is neither what was seen before the last step
    nor the next episode's first."""
    seen = 0
    with closing(make(range(ENVS))) as env:
        for rolled in live(env):
            b, (step, whose, critic) = rolled.block, rolled.finals
            rows = step >= 0
            named = torch.zeros_like(b.truncated)
            named[step[rows], whose[rows]] = True
            hold(torch.equal(named, b.truncated), "Finals name the steps that were truncated, and no others.")
            hold(rows.sum() == b.truncated.sum(), "Finals name each truncated step once.")
            following = torch.cat([b.critic[1:], rolled.critic[None]])
            for t, n, last in zip(step[rows].tolist(), whose[rows].tolist(), critic[rows], strict=True):
                hold(
                    not torch.equal(last, following[t, n]),
                    "The final observation is the last of its episode, not the first of the next.",
                )
                hold(
                    not torch.equal(last, b.critic[t, n]),
                    "The final observation is what the last step led to, not what it began from.",
                )
            seen += int(rows.sum())
    hold(seen > 0, "Some episode runs out of time within its steps, or these checks prove nothing.")


@torch.inference_mode()
def check_a_step_says_what_was_before_the_reset(make: Make) -> None:
    """Where an episode goes on, the final observation of a step is the next one."""
    with closing(make(range(ENVS))) as env:
        if not isinstance(env, Stepwise):
            return
        actor, ended = Actor(env), 0
        for _ in range(env.episode_steps):
            step = env.step(actor.act(env.obs, env.exploration)[0])
            on = ~(step.terminated | step.truncated)
            hold(same_bits(step.final_critic[on], env.critic[on]), "Where nothing ends, nothing is reset.")
            for n in (~on).nonzero()[:, 0].tolist():
                promise = "After an end `critic` is the next episode's first, `final_critic` the last."
                hold(not torch.equal(step.final_critic[n], env.critic[n]), promise)
            hold(env.age()[~on] == 0, "An episode that ended is followed by one that begins.")
            ended += int((~on).sum())
    hold(ended > 0, "Some episode ends within its steps, or this check proves nothing.")


@torch.inference_mode()
def check_rollouts_are_steps(make: Make) -> None:
    """The same actions, given one by one, lead to the same block; so does an actor that is asked at each
    step, where environments can be stepped."""
    with closing(make(range(ENVS))) as env:
        rolled = [roll(env, 4.0) for _ in range(2)]
    with closing(make(range(ENVS))) as env:
        for r in rolled:
            block = empty_block(env)
            final = torch.zeros_like(env.critic)
            for t, action in enumerate(r.block.action):
                last = env.step_into(block, t, action)
                final = torch.where(block.truncated[t][:, None], last, final)
            fields = tuple(n for n in EXPERIENCE if n not in ("mean", "log_prob"))
            wrong = [n for n in fields if not same_bits(getattr(r.block, n), getattr(block, n))]
            hold(not wrong, f"Steps with a rollout's actions fill the same block: {', '.join(wrong)} differ.")
            hold(same_bits(env.obs, r.obs), "After the last row what comes next is in `obs`.")
            hold(same_bits(env.critic, r.critic), "After the last row what the critic sees is in `critic`.")
            _same_finals(r, final)
    with closing(make(range(ENVS))) as env:
        if isinstance(env, Stepwise):
            _asked_at_each_step(env, Actor(env, 4.0), rolled)


def _same_finals(rolled: Rolled, final: Tensor) -> None:
    step, whose, critic = rolled.finals
    rows = step >= 0
    hold(
        same_bits(final[whose[rows]], critic[rows]), "step_into returns the final observations of a rollout."
    )


def _asked_at_each_step(env: Stepwise, actor: Actor, rolled: list[Rolled]) -> None:
    for r in rolled:
        for t in range(HORIZON):
            seen = {"obs": env.obs, "critic": env.critic}
            seen |= dict(
                zip(("action", "mean", "log_prob"), actor.act(env.obs, env.exploration), strict=True)
            )
            step = env.step(seen["action"])
            seen |= {n: getattr(step, n) for n in EXPERIENCE if n not in seen}
            wrong = [n for n in EXPERIENCE if not same_bits(getattr(r.block, n)[t], seen[n])]
            hold(not wrong, f"A rollout holds what stepping shows (step {t}): {', '.join(wrong)} differ.")


CHECKS: tuple[Check, ...] = (
    check_shapes_and_kinds,
    check_an_end_is_of_one_kind,
    check_ages_count_steps,
    check_final_observations_are_the_true_ones,
    check_a_step_says_what_was_before_the_reset,
    check_rollouts_are_steps,
)
