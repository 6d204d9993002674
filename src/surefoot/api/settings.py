"""What may be asked of a run, in one flat list of keyword arguments: fields of the recipe, where it trains,
who learns, when it stops, how it is judged.

`Settings` checks what was asked; `PlanFile` is the same with the ids of the plan that came of it, as
`plan.save` writes it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, get_type_hints

import numpy as np
from pydantic import ConfigDict, ValidationError, create_model, field_validator

import surefoot
from surefoot.artifacts import read_json, write_json
from surefoot.contract import Frozen, LearnerName, Recipe, SurefootError, Timeouts, unknown

if TYPE_CHECKING:
    from surefoot.fleet import FleetOptions
    from surefoot.sessions import TrainOptions
    from surefoot.training import Plan


class RecipeFields(TypedDict, total=False):
    """The fields of the recipe as keyword arguments; what is not given is the task's own."""

    envs: int
    horizon: int
    minibatches: int
    epochs: int
    control_hz: float
    decimation: int
    families: int
    eval_families: int
    hidden: tuple[int, ...]
    activation: Literal["elu"]
    memory: str
    precision: Literal["fp32", "tf32", "bf16"]
    init_std: float
    min_std: float
    max_std: float
    normalise: bool
    normaliser_window: float
    mirror: bool
    learning_rate: float
    min_learning_rate: float
    max_learning_rate: float
    target_kl: float | None
    gamma: float
    lam: float
    clip: float
    value_clip: float | None
    entropy: float
    value_coefficient: float
    max_grad_norm: float
    adam_eps: float
    evaluate_every: int
    checkpoint_every: int


class RunSettings(RecipeFields, total=False):
    """All that may be asked of a run besides its task, as keyword arguments."""

    seed: int
    engine: str
    device: str
    learner: LearnerName
    timeouts: Timeouts
    success_return: float | None
    updates: int | None
    minutes: float | None
    until: float | None
    perturb: tuple[str, ...]
    baselines: bool
    scenarios: int | None
    sequential: bool
    strict: bool
    keep_block: bool


class _Strict(Frozen):
    """Values have the type that they are declared with: "512" is not 512."""

    model_config = ConfigDict(strict=True)


_Changes = create_model(
    "_Changes",
    __base__=_Strict,
    **{name: (f.annotation, f.default) for name, f in Recipe.model_fields.items()},
)  # type: ignore[call-overload]
"""The fields of the recipe by themselves: whether they fit each other is known with the task's."""


class Settings(_Strict):
    """What is asked of a run."""

    task: str
    """A task's name, package.module:name, or an environment from outside such as gym:ID."""
    recipe: dict[str, Any] = {}
    """Fields of the recipe that are not to be the task's own."""
    seed: int = 1
    engine: str = "auto"
    device: str = "cpu"
    learner: LearnerName = "ppo"
    timeouts: Timeouts = "stock"
    success_return: float | None = None
    updates: int | None = None
    minutes: float | None = None
    until: float | None = None
    perturb: tuple[str, ...] = ("all",)
    baselines: bool = True
    scenarios: int | None = None
    sequential: bool = False
    strict: bool = False
    keep_block: bool = False

    @field_validator("recipe")
    @classmethod
    def _fields_of_the_recipe(cls, changes: dict[str, Any]) -> dict[str, Any]:
        for name in changes:
            if name not in Recipe.model_fields:
                raise unknown("field of a recipe", name, Recipe.model_fields)
        given = {k: tuple(v) if isinstance(v, list) else v for k, v in changes.items()}
        checked: Frozen = _checked(_Changes, given)
        recipe = checked.model_dump(exclude_unset=True)
        _check_finite({k: v for k, v in recipe.items() if k != "control_hz"})  # whose check names what fits
        return recipe

    @classmethod
    def of(cls, task: str, given: Mapping[str, Any]) -> Settings:
        """Checks keyword arguments; a name that there is not, or a value of another type, is refused."""
        for name in given:
            if name not in KNOWN:
                raise unknown("setting", name, KNOWN)
        values = {k: _python(v) for k, v in given.items()}
        if isinstance(values.get("perturb"), str):
            values["perturb"] = (values["perturb"],)
        recipe = {k: v for k, v in values.items() if k in Recipe.model_fields}
        others = {k: v for k, v in values.items() if k not in recipe}
        return _checked(cls, {"task": task, "recipe": recipe, **others})

    def options(
        self,
        out: str | None = None,
        tracker: str = "none",
        manifest: str | None = None,
        fleet: FleetOptions | None = None,
    ) -> TrainOptions:
        """Returns what a training session is started with."""
        from surefoot.sessions import TrainOptions

        fields = {f: getattr(self, f) for f in Settings.model_fields if f != "recipe"}
        asked = TrainOptions(**fields, overrides=self.recipe, out=out, tracker=tracker, manifest=manifest)
        return replace(asked, fleet=fleet)


KNOWN = tuple(sorted(RunSettings.__annotations__))
"""The names of all settings."""


class PlanFile(Settings):
    """What `plan.save` writes: the settings of a plan, and the ids that they came to."""

    schema_version: int = 1
    surefoot: str
    """Version that planned it."""
    contract_digest: str
    construct_id: str
    training_id: str

    @classmethod
    def of_plan(cls, settings: Settings, plan: Plan) -> PlanFile:
        return cls(
            **settings.model_dump(include=set(Settings.model_fields)),
            surefoot=surefoot.__version__,
            contract_digest=plan.task.contract.digest,
            construct_id=plan.construct_id,
            training_id=plan.training_id,
        )

    @classmethod
    def load(cls, path: str | Path) -> PlanFile:
        """Reads what `save` wrote; a file that is not one is refused in a sentence."""
        return read_json(path, cls)

    def save(self, path: str | Path) -> Path:
        """Writes a new file; one that is there is never replaced."""
        file = Path(path)
        _check_finite(dict(self))
        if file.exists():
            raise SurefootError(f"'{file}' already exists; choose another name or remove it.")
        write_json(file, self)
        return file

    def check(self, plan: Plan) -> None:
        """Refuses a plan that has other ids than this one had."""
        ids = {
            "contract digest": (self.contract_digest, plan.task.contract.digest),
            "construct id": (self.construct_id, plan.construct_id),
            "training id": (self.training_id, plan.training_id),
        }
        differ = [f"{k} {then[:12]} then, {now[:12]} now" for k, (then, now) in ids.items() if then != now]
        if differ:
            raise SurefootError(
                f"{self.task} is no longer what was planned with Surefoot {self.surefoot} "
                f"({'; '.join(differ)}): the file, the task's source, the engine that {self.engine} stands "
                f"for, a library or Surefoot itself (now {surefoot.__version__}) has changed. Plan it again, "
                "and save that."
            )


Model = TypeVar("Model", bound=Frozen)


def _checked(model: type[Model], values: Mapping[str, Any]) -> Model:
    """Validates values; the first that does not fit is refused in a sentence."""
    try:
        return model.model_validate(dict(values), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise SurefootError(f"{name} is {first['input']!r}, which is refused: {first['msg']}.") from error


def _check_finite(values: Mapping[str, Any]) -> None:
    """Refuses numbers that nothing can be computed with and no file can hold."""
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise SurefootError(f"{name} is {value}; use a finite number.")


def _python(value: Any) -> Any:
    """Returns numpy's numbers as Python's, and lists as the tuples that settings hold."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    return tuple(value) if isinstance(value, list) else value


Verb = TypeVar("Verb", bound=Callable[..., Any])


def lists_settings(verb: Verb) -> Verb:
    """Spells out `**settings` in the signature of a function, for `help` and a notebook's completion. Type
    checkers and editors read the same names from `RunSettings`."""
    signature = inspect.signature(verb)
    named = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    hints = get_type_hints(RunSettings)
    others = {k: f.default for k, f in Settings.model_fields.items()}
    spelled = [
        inspect.Parameter(k, inspect.Parameter.KEYWORD_ONLY, default=others.get(k, ...), annotation=hints[k])
        for k in [*(k for k in hints if k in others), *(k for k in hints if k not in others)]
    ]
    verb.__signature__ = signature.replace(parameters=[*named, *spelled])  # type: ignore[attr-defined]
    return verb
