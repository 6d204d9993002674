"""Claims about packages outside the tree: the example trains, its source counts, mistakes get a sentence."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

import surefoot
from surefoot.contract import SeedPlan, SurefootError, columns, load_panel
from surefoot.contract.perturb import perturb_all
from surefoot.env import VecEnv
from surefoot.env.scenarios import TrainSampler
from surefoot.evidence.compare import Comparison, Refusal, compare
from surefoot.robots import RobotSpec
from surefoot.robots import robot as find_robot
from surefoot.runs import RunFolder
from surefoot.runs.results import load_result
from surefoot.tasks import WALK_REWARDS, Task, reweighted, task_names, velocity_task
from surefoot.tasks import task as find_task
from surefoot.terrain import Atlas
from surefoot.training.plan_makers import make_plan
from tiny import surefoot as run_cli

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "surefoot-example"
PACKAGE = EXAMPLE / "surefoot_example"
EXTENDING = ROOT / "docs" / "guides" / "extending.md"
BY_PATH = "surefoot_example.tasks:prance_flat"
TINY = (
    "--envs",
    "16",
    "--families",
    "4",
    "--horizon",
    "8",
    "--eval-families",
    "2",
    "--quiet",
    "--tracker",
    "none",
    "--perturb",
    "none",
)
FEET = ("FR_foot", "FL_foot", "RR_foot", "RL_foot")

Use = Callable[[Path], None]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Use]:
    """Makes a folder importable, as if it had just been installed; forgets its modules afterwards."""
    own = re.compile(r"(surefoot_example|my_package|broken)(\.|$)")

    def forget() -> None:
        for name in [n for n in sys.modules if own.match(n)]:
            del sys.modules[name]

    def on_path(folder: Path) -> None:
        forget()
        monkeypatch.syspath_prepend(folder)
        importlib.invalidate_caches()

    yield on_path
    forget()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example installed in it by pip, or laid out as pip does where there is no pip."""
    folder = tmp_path_factory.mktemp("installed")
    source, target = folder / "source", folder / "site"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    if find_spec("pip") and find_spec("setuptools"):
        command = (
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
            "--no-build-isolation",
        )
        done = subprocess.run((*command, "--target", target, source), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return target
    shutil.copytree(source / "surefoot_example", target / "surefoot_example")
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    install(target, project["name"], project["entry-points"])
    return target


def install(target: Path, name: str, points: dict[str, dict[str, str]]) -> None:
    info = target / f"{name.replace('-', '_')}-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in table.items()) for group, table in points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))


def edited(folder: Path, file: str, old: str, new: str) -> Path:
    """A copy of the example in which one passage of a file reads differently."""
    shutil.copytree(PACKAGE, folder / "surefoot_example", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "surefoot_example" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return folder


def ledger(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]


def record(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "run.json").read_text())
    return found


# ---- the example trains


def test_example_trains_from_the_path_and_its_term_is_in_the_ledger(
    use: Use, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    use(EXAMPLE)
    run = tmp_path / "run"
    assert run_cli("train", BY_PATH, *TINY, "--updates", "3", "--out", run) == 0
    rows = ledger(run)
    assert [r["update"] for r in rows] == [1, 2, 3]
    assert all(r["reward.prance"] > 0 for r in rows), "exploring feet leave the ground in every update"
    frozen = record(run)
    assert frozen["status"] == "finished"
    assert frozen["contract"]["robot"] == "prancer"
    assert frozen["contract"]["robot_digest"] == find_robot("surefoot_example.robot:prancer").digest
    assert frozen["confirmation"]["episodes"] > 0, "evaluated on the panel like any built-in task"

    # The run belongs to this very function: with another one of that name it is not continued.
    use(edited(tmp_path / "changed", "terms.py", "carried.mean(1)", "carried.amax(1)"))
    capsys.readouterr()
    assert run_cli("train", "--resume", run, "--updates", "4") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "The contract of surefoot_example.tasks:prance_flat has changed" in said
    assert "Traceback" not in said
    assert len(ledger(run)) == 3


def test_installed_example_trains_by_its_name(site: Path, use: Use, tmp_path: Path) -> None:
    """In a process of its own that knows the example only from the installed distribution."""
    path = os.pathsep.join((str(site), str(Path(surefoot.__file__).parents[1])))
    done = subprocess.run(
        (sys.executable, "-m", "surefoot", "train", "prance-flat", *TINY, "--updates", "2", "--out", "run"),
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "reward.prance" in ledger(tmp_path / "run")[-1]
    use(EXAMPLE)
    assert record(tmp_path / "run")["contract_digest"] == find_task(BY_PATH).contract.digest, (
        "one task, two ways to name it"
    )


def test_installed_names_are_found(site: Path, use: Use) -> None:
    use(site)
    assert "prance-flat" in task_names()
    assert find_task("prance-flat").robot.digest == find_robot("prancer").digest
    with pytest.raises(SurefootError, match="did you mean 'prance-flat'"):
        find_task("prance-flta")


# ---- what counts


def test_term_source_is_in_the_contract(use: Use, tmp_path: Path) -> None:
    def found(folder: Path) -> Any:
        use(folder)
        return find_task(BY_PATH).contract

    plain = found(EXAMPLE)
    same = found(edited(tmp_path / "same", "tasks.py", "high steps", "high steps, still"))
    other = found(edited(tmp_path / "other", "terms.py", "carried.mean(1)", "carried.amax(1)"))
    assert same.digest == plain.digest, "prose outside the terms does not count"
    assert other.source_digest != plain.source_digest
    assert other.digest != plain.digest
    assert other.model_copy(update={"source_digest": plain.source_digest}) == plain, (
        "nothing but the source differs"
    )


def test_term_parameters_and_robot_file_are_in_the_contract(use: Use, tmp_path: Path) -> None:
    use(EXAMPLE)
    plain = make_plan(BY_PATH)
    use(edited(tmp_path / "height", "tasks.py", '"height_m": 0.08', '"height_m": 0.09'))
    height = make_plan(BY_PATH)
    assert height.training_id != plain.training_id
    assert height.construct_id == plain.construct_id, "rewards do not decide who may be compared"
    use(edited(tmp_path / "heavy", "prancer.xml", 'mass="4.2"', 'mass="4.3"'))
    heavy = make_plan(BY_PATH)
    assert heavy.task.contract.robot_digest != plain.task.contract.robot_digest
    assert heavy.construct_id != plain.construct_id


# ---- mistakes get a sentence


BROKEN = """
from surefoot.contract import RewardTerm
from surefoot.robots import robot
from surefoot.tasks import velocity_task

def forgotten():
    rewards = (RewardTerm(name="prance", weight=1.0), RewardTerm(name="torque", weight=-1e-4))
    return velocity_task("forgotten", robot=robot("go1"), panel="walk-flat-v1", rewards=rewards)

def not_a_task():
    return 3
"""


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("broken:forgotten", "Task 'forgotten' names prance without a function; add it to its terms."),
        ("broken:not_a_task", "gave a int; it must be a surefoot Task or a function returning one"),
        ("broken:missing", "module 'broken' has no 'missing'"),
        ("no_such_package.tasks:walk", "module 'no_such_package' is not installed"),
    ],
)
def test_broken_task_is_refused_with_a_sentence(
    use: Use, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, sentence: str
) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    use(tmp_path)
    assert run_cli("train", name, *TINY, "--updates", "1", "--out", tmp_path / "run") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert sentence in said
    assert "Traceback" not in said
    assert not (tmp_path / "run").exists()


def describe(**changes: Any) -> RobotSpec:
    given: dict[str, Any] = {
        "path": PACKAGE / "prancer.xml",
        "feet": FEET,
        "default_pose": (0.0, 0.8, -1.5) * 4,
        "kp": 25.0,
    }
    given |= {"kd": 0.6} | changes
    return RobotSpec.from_mjcf(given.pop("path"), **given)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"path": "nowhere.xml"}, "There is no MJCF file 'nowhere.xml'; give the path"),
        (
            {"feet": ("FR_foot", "FL_foot", "RR_foot", "RL_toe")},
            "no geom below the trunk named 'RL_toe'; it has: .*RL_foot",
        ),
        ({"feet": FEET[::-1]}, "give them as: FR_foot, FL_foot, RR_foot, RL_foot"),
        ({"default_pose": {"FR_hip": 0.0}}, "default_pose has no value for: FR_thigh"),
        ({"default_pose": (0.0, 0.8, -1.5)}, "default_pose has 3 values for 12 joints"),
        (
            {"default_pose": (0.0, 0.8, 0.0) * 4},
            "puts joint 'FR_calf' at 0 rad, outside its range -2.6 to -0.4",
        ),
        ({"trunk": "torso"}, "no body 'torso'; it has: body"),
        ({"kp": -1.0}, "kp of joint 'FR_hip' is -1; give a finite value above zero"),
    ],
)
def test_robot_mistakes_say_what_to_do(changes: dict[str, Any], sentence: str) -> None:
    describe()
    with pytest.raises(SurefootError, match=sentence):
        describe(**changes)


def test_robot_without_torque_limits_is_refused(tmp_path: Path) -> None:
    bare = tmp_path / "bare.xml"
    bare.write_text(
        re.sub(r"<actuator>.*</actuator>", "", (PACKAGE / "prancer.xml").read_text(), flags=re.DOTALL)
    )
    with pytest.raises(SurefootError, match=r"no torque limit for: FR_hip.*pass torque_limit_nm"):
        describe(path=bare)
    assert describe(path=bare, torque_limit_nm=16.0).torque_limit_nm == (16.0,) * 12


def test_robot_with_two_joints_per_leg_walks_without_the_terms_that_need_three(tmp_path: Path) -> None:
    text = (PACKAGE / "prancer.xml").read_text()
    for pattern in (
        r'<joint name="\w+_hip" class="hip"/>',
        r'<motor name="\w+_hip".*?/>',
        r"<keyframe>.*</keyframe>",
    ):
        text = re.sub(pattern, "", text, flags=re.DOTALL)
    (tmp_path / "eight.xml").write_text(text)
    eight = describe(path=tmp_path / "eight.xml", default_pose=(0.8, -1.5) * 4)
    with pytest.raises(SurefootError, match="has 8 joints for 4 feet"):
        velocity_task("eight", robot=eight, panel="walk-flat-v1")
    rewards = reweighted(WALK_REWARDS, drop=("pose",))
    stepped(velocity_task("eight", robot=eight, panel="walk-flat-v1", rewards=rewards)).close()


# ---- perturbations


SWAP = """
from surefoot.contract import PERTURBATIONS, Perturbation
def swap(scenario, strength):
    return scenario.model_copy(update={"family": scenario.family + 1})
about = dict(unit="1", doc="", default=(1.0,), sweep=(1.0,), neutral=None, change=swap)
swapped = Perturbation(name="swapped", form="swapped_{strength:g}", **about)
misnamed = Perturbation(name="other", form="other_{strength:g}", **about)
bare = PERTURBATIONS[0].model_copy(update={"name": "bare"})
push = Perturbation(name="push", form="push_{strength:g}", **about)
"""


def test_perturbations_that_break_the_rules_are_refused(use: Use, tmp_path: Path) -> None:
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "__init__.py").write_text(SWAP)
    points = {k: f"my_package:{k}" for k in ("swapped", "misnamed", "bare", "push", "gone")}
    install(tmp_path, "my-package", {"surefoot.perturbations": points})
    use(tmp_path)
    panel = load_panel("walk-flat-v1")
    assert columns(panel, ("push",))[0].name == "push_1.0", "built-in names mean the built-in things"
    for name, says in (
        ("misnamed", "must be called as its entry point"),
        ("bare", "must have a `change`"),
        ("gone", "cannot be loaded"),
        ("nothing", "nothing"),
    ):
        with pytest.raises(SurefootError, match=says):
            columns(panel, (name,))
    (column,) = columns(panel, ("swapped",))
    with pytest.raises(SurefootError, match="family, member, half and terrain kept"):
        perturb_all(panel.scenarios, column)


def test_a_perturbation_of_another_package_becomes_a_column(use: Use, tiny_run: Path, tmp_path: Path) -> None:
    code = re.search(r"```python\n# my_package/perturbations.py\n(.*?)```", EXTENDING.read_text(), re.DOTALL)
    assert code is not None
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "__init__.py").touch()
    file = tmp_path / "my_package" / "perturbations.py"
    file.write_text(code[1])
    points = {"backpack": "my_package.perturbations:backpack"}
    install(tmp_path, "my-package", {"surefoot.perturbations": points})
    results = []
    for name in ("one", "two"):
        use(tmp_path)
        run = tmp_path / name
        shutil.copytree(tiny_run, run)
        shutil.rmtree(next((run / "panels").glob("*/confirmation")))
        assert run_cli("evaluate", run, "--perturb", "backpack", "--no-baselines", "--json") == 0
        results.append(load_result(RunFolder.open(run), column="backpack_2kg"))
        file.write_text(code[1].replace("0.05", "0.06"))
    source = [c.source for c in results[0].summary.columns]
    assert [bool(s) for s in source] == [False, False, True]
    assert isinstance(compare(results[0], results[0], column="backpack_2kg"), Comparison)
    refused = compare(*results, column="backpack_2kg")
    assert isinstance(refused, Refusal)
    assert [f.name for f in refused.differs] == ["perturbation backpack_2kg.shift"]
    assert not refused.offered


# ---- the documentation


def stepped(task: Task) -> VecEnv:
    """A robot of every class and friction after three steps of exploration."""
    atlas = Atlas.build(task.tiles) if task.tiles else None
    seeds = SeedPlan(root=1, split="train", families=27, envs=27)
    sampler = TrainSampler(task.contract, task.robot, seeds, 50.0, atlas, torch.device("cpu"))
    env = VecEnv(task, sampler, task.on("mujoco").plant, atlas=atlas)
    for _ in range(3):
        assert torch.isfinite(env.step(env.exploration).reward).all()
    return env


def test_code_in_the_documentation_works(use: Use, tmp_path: Path) -> None:
    text = EXTENDING.read_text()
    blocks = re.findall(r"```python\n# (my_package/\w+\.py)\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == text.count("```python"), "every block says which file it is"
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "__init__.py").touch()
    shutil.copy(PACKAGE / "prancer.xml", tmp_path / "my_package")
    for file, code in blocks:
        (tmp_path / file).write_text(code)
    toml = "\n".join(re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL))
    install(tmp_path, "my-package", tomllib.loads(toml)["project"]["entry-points"])
    use(tmp_path)

    env = stepped(find_task("prance"))
    assert "prance" in env.reward_names
    env.close()
    panel = load_panel("walk-flat-v1")
    assert [c.name for c in columns(panel, ("backpack",), sweep=True)] == [
        "backpack_1kg", "backpack_2kg", "backpack_4kg",
    ]  # fmt: skip
    (heavy,) = columns(panel, ("backpack_3kg",))
    before, after = panel.scenarios[5], perturb_all(panel.scenarios, heavy)[5]
    assert after.payload_kg == before.payload_kg + 3.0
    assert after.com_m[0] == before.com_m[0] - 0.05
    assert (after.family, after.member, after.pushes) == (before.family, before.member, before.pushes)
    assert "backpack" not in {c.perturbation for c in columns(panel, ("all",))}
    with pytest.raises(SurefootError, match="goes from 1 to 4 kg"):
        columns(panel, ("backpack_9kg",))
    rough = find_task("my_package.terrain:walk_gravel")
    env = stepped(rough)
    gravel = [k for k, t in enumerate(rough.tiles) if t.cls == "gravel"]
    assert len(gravel) == 10
    assert set(env.script.tile.tolist()) & set(gravel), "some robot stands on gravel"
    env.close()
