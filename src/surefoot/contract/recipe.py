"""The recipe (how a run trains) and the accounting that follows from it before a single step is taken."""

from __future__ import annotations

from typing import Literal

from surefoot.contract.errors import SurefootError
from surefoot.contract.memory import Remembers
from surefoot.contract.model import Frozen
from surefoot.contract.seeds import nearest_divisors


class Recipe(Remembers):
    """Every number that shapes training. Defaults are those of walk-flat on two CPU cores."""

    envs: int = 768
    """N, environments stepped together."""
    horizon: int = 16
    """T, control steps per update."""
    minibatches: int = 4
    epochs: int = 5
    control_hz: float = 50.0
    decimation: int = 4
    """Physics steps per control step."""
    families: int = 32
    """Seed families; the cluster of every statistic."""
    eval_families: int = 64
    hidden: tuple[int, ...] = (128, 128)
    """Widths of both networks' hidden layers."""
    activation: Literal["elu"] = "elu"
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    """Precision of matrix products, in acting and learning alike; weights stay fp32. tf32 needs a GPU."""
    init_std: float = 0.8
    min_std: float = 0.1
    max_std: float = 1.35
    normalise: bool = True
    normaliser_window: float = 2e6
    """Samples after which the observation normaliser forgets exponentially."""
    mirror: bool = True
    """A random half of the samples is reflected left to right in each epoch."""
    learning_rate: float = 1e-3
    min_learning_rate: float = 1e-4
    max_learning_rate: float = 3e-3
    target_kl: float | None = 0.02
    """Adaptive learning rate: / 1.5 above twice this, x 1.5 below half of it, per minibatch. None:
    constant."""
    gamma: float = 0.97
    lam: float = 0.9
    clip: float = 0.2
    value_clip: float | None = None
    entropy: float = 0.005
    value_coefficient: float = 1.0
    max_grad_norm: float = 1.0
    adam_eps: float = 1e-5
    evaluate_every: int = 25
    """Updates between evaluations on the selection half of the panel."""
    checkpoint_every: int = 25

    def model_post_init(self, _: object) -> None:
        for name in (
            "envs",
            "horizon",
            "minibatches",
            "epochs",
            "decimation",
            "families",
            "eval_families",
            "evaluate_every",
            "checkpoint_every",
        ):
            if getattr(self, name) < 1:
                raise SurefootError(f"--{name.replace('_', '-')} is {getattr(self, name)}; use 1 or more.")
        if not self.hidden or min(self.hidden) < 1:
            widths = " ".join(map(str, self.hidden)) or "empty"
            raise SurefootError(f"--hidden is {widths}; give widths of 1 or more, e.g. --hidden 128 128.")
        if not self.control_hz > 0:
            raise SurefootError(f"--control-hz is {self.control_hz:g}; use a positive rate, e.g. 50.")
        if self.envs % self.families:
            near = nearest_divisors(self.envs, self.families)
            raise SurefootError(
                f"{self.envs} environments cannot be split into {self.families} equal seed families; "
                f"use --families {' or '.join(str(k) for k in near)}."
            )
        if self.samples_per_update % self.minibatches:
            near = nearest_divisors(self.samples_per_update, self.minibatches)
            raise SurefootError(
                f"{self.horizon} x {self.envs} = {self.samples_per_update} samples cannot be split into "
                f"{self.minibatches} equal minibatches; "
                f"use --minibatches {' or '.join(str(k) for k in near)}."
            )
        if self.remembers.kind == "gru":
            self._check_sequences()

    def _check_sequences(self) -> None:
        if self.envs % self.minibatches:
            near = nearest_divisors(self.envs, self.minibatches)
            raise SurefootError(
                f"--memory {self.memory} learns from whole sequences, and those of {self.envs} environments "
                f"cannot be split into {self.minibatches} equal minibatches; "
                f"use --minibatches {' or '.join(str(k) for k in near)}."
            )
        if self.precision == "bf16":
            raise SurefootError(
                f"--memory {self.memory} adds up over the steps of a sequence, which bf16 is too coarse for; "
                "use --precision tf32 or fp32."
            )

    @property
    def samples_per_update(self) -> int:
        return self.horizon * self.envs


class Accounting(Frozen):
    """What the recipe means, derived, never entered."""

    rollout_shape: tuple[int, int]
    samples_per_update: int
    seconds_per_env: float
    """Robot time that each environment lives through per update."""
    aggregate_robot_seconds: float
    minibatch_size: int
    sample_reuse: int
    gradient_steps: int
    policy_lag: tuple[int, int]
    """(control steps, epochs) by which the policy may differ from the one that collected a sample, at
    most."""
    train_seed_families: int
    envs_per_seed_family: int
    eval_seed_families: int
    eval_envs: int
    strata: int
    buffer_bytes: int
    """Bytes of one rollout block in float32."""


def account(
    recipe: Recipe, observation: int, critic: int, action: int, terms: int, strata: int, eval_envs: int
) -> Accounting:
    """Derives the accounting of a recipe for observation, critic and action widths."""
    samples = recipe.samples_per_update
    # per sample: observation, critic observation, action, mean; log-probability, reward, value, next value,
    # advantage, return (float32), terminated, truncated, reason (bytes), stratum (int64), reward terms
    row = 4 * (observation + critic + 2 * action + 6 + terms) + 3 + 8
    memory = 4 * recipe.envs * recipe.remembers.numbers(observation, recipe.horizon)
    return Accounting(
        rollout_shape=(recipe.horizon, recipe.envs),
        samples_per_update=samples,
        seconds_per_env=round(recipe.horizon / recipe.control_hz, 9),
        aggregate_robot_seconds=round(samples / recipe.control_hz, 6),
        minibatch_size=samples // recipe.minibatches,
        sample_reuse=recipe.epochs,
        gradient_steps=recipe.minibatches * recipe.epochs,
        policy_lag=(recipe.horizon, recipe.epochs),
        train_seed_families=recipe.families,
        envs_per_seed_family=recipe.envs // recipe.families,
        eval_seed_families=recipe.eval_families,
        eval_envs=eval_envs,
        strata=strata,
        buffer_bytes=samples * row + memory,
    )
