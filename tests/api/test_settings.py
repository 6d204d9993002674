"""What may be asked of a run is checked by name and type, and comes back from a file as it was asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import surefoot
from surefoot.api.settings import KNOWN, PlanFile, RecipeFields, RunSettings, Settings
from surefoot.cli.options import RunOptions
from surefoot.contract import LEARNERS, Recipe, SurefootError

IDS = {"surefoot": "0.1.0", "contract_digest": "c" * 64, "construct_id": "d" * 64, "training_id": "e" * 64}


def test_settings_are_the_recipe_and_what_a_session_takes() -> None:
    recipe = {k: f.annotation for k, f in Recipe.model_fields.items()}
    assert get_type_hints(RecipeFields) == recipe
    others = {k: f.annotation for k, f in Settings.model_fields.items() if k not in ("task", "recipe")}
    assert get_type_hints(RunSettings) == recipe | others
    assert not set(recipe) & set(others)


def test_the_command_line_asks_for_nothing_else() -> None:
    assert set(RunOptions.__dataclass_fields__) <= set(KNOWN)


def test_a_signature_lists_every_setting() -> None:
    import inspect

    for verb in (surefoot.plan, surefoot.train):
        assert set(KNOWN) <= set(inspect.signature(verb).parameters)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"env": 5}, "did you mean 'envs'"),
        ({"sed": 5}, "did you mean 'seed'"),
        ({"qqqqqq": 5}, "choose one of"),
        ({"overrides": {"envs": 5}}, "There is no setting 'overrides'"),
        ({"envs": "512"}, "envs is '512'"),
        ({"envs": True}, "envs is True"),
        ({"envs": 5.5}, "envs is 5.5"),
        ({"hidden": 64}, "hidden is 64"),
        ({"hidden": ("a",)}, "hidden.0 is 'a'"),
        ({"precision": "fp8"}, "precision is 'fp8'"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"entropy": float("inf")}, "entropy is inf"),
        ({"minutes": float("nan")}, "use a positive number"),
        ({"control_hz": float("inf")}, "use 200, 100, 50, 40 or 25"),
        ({"seed": "1"}, "seed is '1'"),
        ({"seed": None}, "seed is None"),
        ({"learner": "dqn"}, "learner is 'dqn'"),
        ({"device": 0}, "device is 0"),
        ({"perturb": 3}, "perturb is 3"),
        ({"baselines": "no"}, "baselines is 'no'"),
        ({"updates": 0}, "--updates is 0"),
        ({"envs": 0}, "--envs is 0"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**32}, "seed"),
        ({"perturb": "hurricane"}, "hurricane"),
        ({"engine": "bullet"}, "bullet"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_bad_settings_are_refused_in_a_sentence(given: dict[str, Any], says: str) -> None:
    with pytest.raises(SurefootError) as refusal:
        surefoot.plan("tiny:walk", **given)
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("task", [None, 5, b"walk-flat", ["walk-flat"]])
def test_a_task_is_a_name(task: Any) -> None:
    with pytest.raises(SurefootError):
        surefoot.plan(task)


def test_numpy_and_lists_are_welcome() -> None:
    asked = Settings.of(
        "t", {"envs": np.int64(64), "gamma": np.float64(0.9), "hidden": [8, 8], "perturb": ["push"]}
    )
    assert asked.recipe == {"envs": 64, "gamma": 0.9, "hidden": (8, 8)}
    assert asked.perturb == ("push",)
    assert Settings.of("t", {"hidden": np.array([4, 4]), "perturb": "push"}).perturb == ("push",)


def values(annotation: Any) -> st.SearchStrategy[Any]:
    known: dict[Any, st.SearchStrategy[Any]] = {
        int: st.integers(-(2**31), 2**53),
        bool: st.booleans(),
        float: st.floats(allow_nan=False, allow_infinity=False),
        float | None: st.none() | st.floats(allow_nan=False, allow_infinity=False),
        str: st.sampled_from(["none", "window:3", "gru:8"]),
        tuple[int, ...]: st.lists(st.integers(1, 4096), max_size=4).map(tuple),
    }
    return known[annotation] if annotation in known else st.sampled_from(annotation.__args__)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_plan_file_comes_back_as_it_was(data: st.DataObject, tmp_path: Path) -> None:
    recipe = {k: values(f.annotation) for k, f in Recipe.model_fields.items()}
    asked = {
        "task": st.text(),
        "recipe": st.fixed_dictionaries({}, optional=recipe),
        "seed": st.integers(0, 2**32 - 1),
        "engine": st.text(),
        "learner": st.sampled_from(LEARNERS),
        "success_return": values(float | None),
        "updates": st.none() | st.integers(),
        "minutes": values(float | None),
        "until": values(float | None),
        "perturb": st.lists(st.text()).map(tuple),
        "baselines": st.booleans(),
    }
    file = PlanFile(**data.draw(st.fixed_dictionaries(asked)), **IDS)
    path = tmp_path / "plan.json"
    path.unlink(missing_ok=True)
    file.save(path)
    again = PlanFile.load(path)
    assert again == file
    assert again.recipe == file.recipe, "equal, and of the same types"
    assert {k: type(v) for k, v in again.recipe.items()} == {k: type(v) for k, v in file.recipe.items()}


def whole() -> dict[str, Any]:
    return {"schema_version": 1, "task": "tiny:walk", "recipe": {"envs": 16}, "seed": 1, **IDS}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not JSON"),
        (b"\x80\x02garbage", "is not JSON"),
        (b"[1, 2]", "should hold a JSON object"),
        (b"null", "should hold a JSON object"),
        (b'{"task": NaN}', "is not JSON"),
        (whole() | {"schema_version": 2}, "upgrade Surefoot"),
        (whole() | {"schema_version": "1"}, "schema_version"),
        ({k: v for k, v in whole().items() if k != "schema_version"}, "'schema_version' is missing"),
        ({k: v for k, v in whole().items() if k != "training_id"}, "'training_id' is missing"),
        (whole() | {"colour": "red"}, "'colour'"),
        (whole() | {"recipe": {"env": 16}}, "did you mean 'envs'"),
        (whole() | {"recipe": {"envs": "16"}}, "envs is '16'"),
        (whole() | {"recipe": []}, "'recipe'"),
        (whole() | {"seed": "1"}, "'seed'"),
        (whole() | {"seed": True}, "'seed'"),
        (whole() | {"task": 5}, "'task'"),
        (whole() | {"learner": "dqn"}, "'learner'"),
        (whole() | {"out": "elsewhere"}, "'out'"),
    ],
)
def test_bad_files_are_refused_in_a_sentence(content: Any, says: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(SurefootError) as refusal:
        surefoot.train(config=path, out=tmp_path / "run")
    assert says in str(refusal.value)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["plan.json"]


def test_a_file_that_is_not_there_or_is_there_already(tmp_path: Path) -> None:
    with pytest.raises(SurefootError, match="nowhere"):
        surefoot.train(config=tmp_path / "nowhere.json")
    kept = tmp_path / "kept.json"
    kept.write_text("mine")
    with pytest.raises(SurefootError, match="already exists"):
        surefoot.plan("tiny:walk").save(kept)
    assert kept.read_text() == "mine"
    with pytest.raises(SurefootError, match="minutes is inf"):
        surefoot.plan("tiny:walk", minutes=float("inf")).save(tmp_path / "endless.json")
    with pytest.raises(SurefootError):
        surefoot.plan("tiny:walk").save(kept / "below-a-file.json")
