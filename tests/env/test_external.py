"""Environments from outside: trained by the same trainer, judged on seeds that it never saw."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict
from gymnasium.vector import AutoresetMode, VectorEnv
from scipy.stats import t as student
from torch import Tensor

from places import GOLDEN
from surefoot.artifacts import read_table
from surefoot.cli.main import main
from surefoot.contract import (
    ExternalContract,
    SeedPlan,
    SurefootError,
    differences,
    environment_seeds,
    measurement_fields,
    prove_seeds_disjoint,
    seed_panel,
)
from surefoot.env.external import ExternalEnv, external_task
from surefoot.env.external.env import ActionScale
from surefoot.evaluation import ExternalEvaluator, external_digests
from surefoot.policy.bundle import HoldPose
from surefoot.runs import RunFolder, read_ledger
from surefoot.training.plan_makers import make_plan, robot_plan
from tiny import surefoot

LIMIT = 5


class Count(gymnasium.Env[np.ndarray, np.ndarray]):
    """Sees its seed's offset and the steps taken; ends at once when the action is at its upper bound."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float64)
    action_space = Box(np.array([-4.0, 1.0]), np.array([2.0, 3.0]), dtype=np.float64)
    dt = 0.1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.offset, self.age = self.np_random.random(), 0
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.age += 1
        return self._seen(), float(action.sum()), bool(action[0] >= 2.0), False, {}

    def _seen(self) -> np.ndarray:
        return np.array([self.offset, self.age])


class CountVector(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """The same as a vector class of its own, which resets within the step."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, num_envs: int = 1, max_episode_steps: int = LIMIT) -> None:
        make = [lambda: gymnasium.make("surefoot-test/Count-v0")] * num_envs
        self.inner = gymnasium.vector.SyncVectorEnv(make, autoreset_mode=AutoresetMode.SAME_STEP)
        self.num_envs = num_envs
        for name in (
            "single_observation_space",
            "single_action_space",
            "observation_space",
            "action_space",
        ):
            setattr(self, name, getattr(self.inner, name))

    def reset(self, **options: Any) -> Any:
        return self.inner.reset(**options)

    def step(self, actions: np.ndarray) -> Any:
        return self.inner.step(actions)


class Late(CountVector):
    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}


class Named(Count):
    observation_space = Dict({"a": Box(-1, 1, (2,))})


class Half(Count):
    action_space = Box(np.array([-1.0, -np.inf]), np.array([1.0, np.inf]), dtype=np.float64)


class Wild(Count):
    """Its third observation is no number."""

    def _seen(self) -> np.ndarray:
        return np.array([self.offset, np.nan if self.age == 3 else self.age])


@pytest.fixture(scope="module", autouse=True)
def registered() -> None:
    def register(name: str, entry: type, **more: Any) -> None:
        if f"surefoot-test/{name}-v0" not in gymnasium.registry:
            limit = {"max_episode_steps": LIMIT} | more
            gymnasium.register(f"surefoot-test/{name}-v0", entry_point=entry, **limit)

    register("Count", Count)
    register("Named", Named)
    register("Half", Half)
    register("Wild", Wild)
    register("Endless", Count, max_episode_steps=None)
    register("Vector", Count, vector_entry_point=CountVector)
    register("Late", None, vector_entry_point=Late)  # type: ignore[arg-type]


def stepped(name: str, envs: int = 4, root: int = 1, stagger: bool = False) -> ExternalEnv:
    seeds = SeedPlan(root=root, families=envs, envs=envs)
    return ExternalEnv(external_task(f"gym:surefoot-test/{name}-v0"), seeds, range(envs), "cpu", stagger)


# ---- steps


@pytest.mark.parametrize("name", ["Count", "Vector"])
def test_the_final_observation_is_the_true_one(name: str) -> None:
    """A timeout shows the episode's own last observation, while `obs` is already the next episode's first."""
    env = stepped(name)
    first = env.obs.clone()
    assert len(set(first[:, 0].tolist())) == 4, "every environment has a seed of its own"
    for t in range(1, LIMIT + 1):
        step = env.step(torch.zeros(4, 2))
        assert step.final_critic[:, 1].tolist() == [t] * 4
        assert torch.equal(step.final_critic[:, 0], first[:, 0])
    assert step.truncated.all()
    assert not step.terminated.any()
    assert env.obs[:, 1].tolist() == [0] * 4
    assert (env.obs[:, 0] != first[:, 0]).all(), "the next episode is another"
    assert env.episode.tolist() == [1] * 4


def test_a_termination_is_not_a_timeout() -> None:
    env = stepped("Count")
    step = env.step(torch.tensor([[1.0, 0.0]] * 2 + [[0.0, 0.0]] * 2))
    assert step.terminated.tolist() == [True, True, False, False]
    assert [env.reasons[k] for k in step.reason.tolist()] == ["terminated"] * 2 + ["alive"] * 2
    stats = env.episode_stats(env.stats_tensors())
    assert stats.ended[0]["family"].tolist() == [0, 1]
    assert stats.ended[0]["steps"].tolist() == [1, 1]
    assert stats.resets.tolist() == [6]


def test_what_is_not_finite_is_an_event() -> None:
    env = stepped("Wild")
    steps = [env.step(torch.zeros(4, 2)) for _ in range(3)]
    assert [env.reasons[int(s.reason[0])] for s in steps] == ["alive", "alive", "nonfinite"]
    assert steps[2].terminated.all()
    assert torch.isfinite(steps[2].final_critic).all()
    assert steps[2].reward.tolist() == [0.0] * 4
    assert env.obs[:, 1].tolist() == [0] * 4, "it was reset"


def test_first_episodes_end_apart() -> None:
    seeds = SeedPlan(root=1, families=64, envs=64)
    env = ExternalEnv(external_task("gym:surefoot-test/Count-v0"), seeds, range(64), "cpu")
    ended = [int(env.step(torch.zeros(64, 2)).truncated.sum()) for _ in range(LIMIT)]
    assert min(ended) > 0, "at every step some"


def test_actions_are_scaled_to_the_bounds() -> None:
    scale = ActionScale(external_task("gym:surefoot-test/Count-v0").contract.action, "cpu")
    scaled = scale(torch.tensor([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0], [9.0, -9.0]]))
    assert scaled.tolist() == [[-4.0, 1.0], [-1.0, 2.0], [2.0, 3.0], [2.0, 1.0]]
    reward = stepped("Count").step(torch.tensor([[-1.0, -1.0]] * 4)).reward
    assert reward.tolist() == [-3.0] * 4


def test_processes_share_the_environments_of_one() -> None:
    """Environments 2 and 3 of a plan see the same in a process of their own."""
    task, seeds = external_task("gym:surefoot-test/Count-v0"), SeedPlan(root=1, families=4, envs=4)
    whole = ExternalEnv(task, seeds, range(4), "cpu")
    part = ExternalEnv(task, seeds, range(2, 4), "cpu")
    assert torch.equal(whole.obs[2:], part.obs)
    assert torch.equal(whole.exploration[2:], part.exploration)


def test_a_module_named_before_the_environment_is_imported() -> None:
    assert external_task("gym:gymnasium:Pendulum-v1").contract.environment == "gymnasium:Pendulum-v1"


# ---- seeds


def test_no_training_seed_is_a_panels() -> None:
    panel = seed_panel(LIMIT)
    for root in (0, 1, 20_260_201, 2**32 - 1):
        train = SeedPlan(root=root, families=4096, envs=4096)
        proof = prove_seeds_disjoint(train, panel)
        assert proof.disjoint
        seeds = environment_seeds(train, range(4096))
        assert len(set(seeds)) == 4096
        assert max(seeds) < 2**30 <= min(s.seed for s in panel.scenarios)
    halves = [{s.seed for s in panel.select(h)} for h in ("selection", "confirmation")]  # type: ignore[arg-type]
    assert len(halves[0]) == len(halves[1]) == 48
    assert not halves[0] & halves[1]


def test_a_panel_is_the_same_every_time() -> None:
    task = external_task("gym:surefoot-test/Count-v0")
    panel = seed_panel(LIMIT, 8)
    one, two = (ExternalEvaluator(task, panel, "selection") for _ in range(2))
    first, again, other = one.run(HoldPose(2)), one.run(HoldPose(2)), two.run(HoldPose(2))
    for name in ("return", "steps", "states_digest"):
        assert first.rows[name].tolist() == again.rows[name].tolist() == other.rows[name].tolist()
    assert len(set(first.rows["states_digest"].tolist())) == 4, "four seeds, four episodes"
    assert first.rows["reason"].tolist() == ["timeout"] * 4
    assert first.rows["return"].tolist() == pytest.approx([LIMIT * 1.0] * 4)


@pytest.mark.parametrize(("threshold", "success"), [(None, True), (4.0, True), (6.0, False)])
def test_success_is_a_return_or_lasting(threshold: float | None, success: bool) -> None:
    task = external_task("gym:surefoot-test/Count-v0", success_return=threshold)
    rows = ExternalEvaluator(task, seed_panel(LIMIT, 4), "selection").run(HoldPose(2)).rows
    assert rows["success"].tolist() == [success] * 2
    assert rows["label"].tolist() == ["" if success else "low_return"] * 2


def test_an_episode_that_ends_early_fails_to_last() -> None:
    def full(obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return torch.ones(len(obs), 2), state

    task = external_task("gym:surefoot-test/Count-v0")
    rows = ExternalEvaluator(task, seed_panel(LIMIT, 4), "selection").run(full).rows
    assert rows["success"].tolist() == [False] * 2
    assert rows["label"].tolist() == rows["reason"].tolist() == ["terminated"] * 2
    assert rows["steps"].tolist() == [1, 1]


# ---- what is refused


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gym:CartPole-v1", "actions of the kind Discrete"),
        ("gym:surefoot-test/Named-v0", "observations of the kind Dict"),
        ("gym:surefoot-test/Half-v0", "bounds some of its actions and others not"),
        ("gym:surefoot-test/Endless-v0", "has no time limit"),
        ("gym:surefoot-test/Late-v0", "one step late"),
        ("gym:Nothing-v0", "Gymnasium has no environment 'Nothing-v0'"),
        ("gym:", "names no environment"),
        ("envpool:Go1Joystick-v1", "or Go1JoystickFlatTerrain-v1"),
        ("envpool:Pong-v5", "only flat ones"),
        ("envpool:CartPole-v1", "actions of the kind Discrete"),
    ],
)
def test_what_cannot_be_trained_is_refused_by_name(name: str, says: str) -> None:
    if name.startswith("envpool"):
        pytest.importorskip("envpool")
    with pytest.raises(SurefootError) as refusal:
        make_plan(name)
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    ("module", "name", "command"),
    [
        ("envpool", "envpool:Ant-v5", "pip install 'surefoot[envpool]'"),
        ("mjlab", "mjlab:Mjlab-Cartpole-Balance", "make mjlab"),
        ("pettingzoo", "", "pip install 'surefoot[pettingzoo]'"),
    ],
)
def test_a_missing_extra_is_one_sentence_with_its_command(
    module: str, name: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    for door in ("surefoot.zoo", "surefoot.env.pettingzoo"):
        monkeypatch.delitem(sys.modules, door, raising=False)
    with pytest.raises(SurefootError) as refusal:
        make_plan(name) if name else importlib.import_module("surefoot.zoo")
    assert command in str(refusal.value)


def test_gymnasiums_mujoco_environments_say_what_they_lack() -> None:
    """In a process of its own, which has not imported them yet."""
    code = "import sys; sys.modules['imageio'] = None\n"
    code += "from surefoot.training import make_plan\nmake_plan('gym:Ant-v5')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'surefoot[gym-mujoco]'" in done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "options",
    [
        {"learner": "sb3"},
        {"engine": "stride"},
        {"overrides": {"families": 3}},
        {"overrides": {"control_hz": 50.0}},
        {"overrides": {"eval_families": 7}},
    ],
)
def test_options_that_mean_nothing_outside_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SurefootError):
        make_plan("gym:surefoot-test/Count-v0", **options)


def test_success_return_is_only_for_outside() -> None:
    with pytest.raises(SurefootError, match="--success-return"):
        make_plan("walk-flat", success_return=3.0)


def test_studies_and_comparisons_of_learners_name_what_to_do() -> None:
    with pytest.raises(SurefootError, match="comes from outside"):
        robot_plan("gym:Pendulum-v1")


# ---- the contract


def test_the_contract_holds_versions_and_its_ids_follow_them() -> None:
    plan = make_plan("gym:InvertedPendulum-v5")
    c = plan.task.contract
    assert isinstance(c, ExternalContract)
    assert c.versions == {"gymnasium": gymnasium.__version__, "mujoco": c.versions["mujoco"]}
    assert c.success.return_at_least == 950.0
    assert (c.episode_steps, c.step_s, c.action.low, c.action.high) == (1000, 0.04, (-3.0,), (3.0,))
    assert plan.recipe.families == plan.recipe.envs
    assert plan.training_plant is None
    other = c.model_copy(update={"versions": c.versions | {"mujoco": "0.0"}})
    assert other.digest != c.digest
    fields = measurement_fields(other, plan.panel.name, plan.panel.digest, None, external_digests(plan.task))
    assert [f.name for f in differences(fields, plan.measurement)] == ["versions.mujoco"]


# ---- runs


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real training, of seconds: at its end the pole stands."""
    folder = tmp_path_factory.mktemp("outside") / "run"
    small = ["--eval-families", "16", "--updates", "25", "--quiet", "--tracker", "none"]
    with pytest.raises(SystemExit) as exit_:
        main(["train", "gym:InvertedPendulum-v5", *small, "--out", str(folder)])
    assert exit_.value.code == 0
    return folder


def test_it_learns_and_is_confirmed_on_held_out_seeds(run: Path) -> None:
    record = RunFolder.open(run).record
    assert record.status == "finished"
    confirmed = record.confirmation
    assert confirmed is not None
    assert confirmed.success >= 0.9
    assert confirmed.beats_baselines
    assert confirmed.episodes == 8
    assert confirmed.effective_episodes == 8
    assert confirmed.safety_held is None
    seeds = read_table(run / "panels" / record.panel / "confirmation" / "episodes.parquet")["seed"]
    trained = {int(k, 16) for k in record.seed_set.values()}
    assert len(trained) == record.recipe.envs
    assert not trained & set(seeds.tolist())


def test_artifacts_have_the_schema_of_any_run(run: Path) -> None:
    """The same names as the golden run of Surefoot's own simulators, ledger and tables alike."""
    golden = sorted(GOLDEN.glob("*/run.json"))[-1].parent
    written, theirs = (read_ledger(f / "ledger.jsonl")[0] for f in (run, golden))

    def own(names: Sequence[str]) -> set[str]:
        """Without those named after reward terms, ends and strata, and what a start or an evaluation adds."""
        per = ("reward.", "return.", "reset.", "stratum_return.", "honesty.", "evaluation.", "startup.")
        return {n for n in names if not n.startswith((*per, "seconds.startup", "terrain."))}

    assert own(list(theirs[0])) <= own(list(written[0]))
    for where in ("episodes", "panels"):
        tables = [sorted((f / where).rglob("*.parquet"))[0] for f in (run, golden)]
        ours, known = (own(list(read_table(t))) for t in tables)
        drawn = {"beyond", "look"}  # of panels that are drawn: an outside simulator's are seeds
        assert known - drawn <= ours, where
    for name in ("run.json", "policy.safetensors", "checkpoints/confirmed.safetensors", "report.html"):
        assert (run / name).is_file()


def test_a_policy_acts_as_its_bundle_says(run: Path) -> None:
    from surefoot.policy.bundle import read_policy

    bundle = read_policy(run / "policy.safetensors")
    assert bundle.card.box is not None
    assert (bundle.card.box.low, bundle.card.box.high) == ((-3.0,), (3.0,))
    task = external_task("gym:InvertedPendulum-v5")
    result = ExternalEvaluator(task, seed_panel(1000, 16), "confirmation").run(bundle)
    stated = read_table(run / "panels" / "outside-seeds-v1+16families" / "confirmation" / "episodes.parquet")
    own = stated["column"] == "nominal"
    assert result.rows["states_digest"].tolist() == stated["states_digest"][own].tolist()


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        (["evaluate", "{run}", "--half", "selection", "--json"], 0, '"episodes": 8'),
        (["evaluate", "{run}", "--checkpoint", "baseline:zero"], 0, "terminated 8"),
        (["compare", "{run}", "{run}"], 0, "8/8"),
        (["postmortem", "{run}"], 0, "On 8 held-out episodes"),
        (["report", "{run}"], 0, "report.html"),
        (["train", "--resume", "{run}"], 2, "train anew"),
        (["replay", "{run}", "1"], 2, "no robot to"),
        (["promote", "{run}", "{run}"], 2, "surefoot compare"),
        (["evaluate", "{run}", "--perturb", "noise"], 2, "leave out --perturb noise"),
        (["evaluate", "{run}", "--engine", "mujoco"], 2, "leave out --panel and --engine"),
        (["evaluate", "{run}", "--panel", "walk-flat-v1"], 2, "leave out --panel and --engine"),
        (["evaluate", "{run}", "--checkpoint", "baseline:open-loop-trot"], 2, "baseline:zero"),
    ],
)
def test_commands_work_on_such_a_run_or_say_what_to_do(
    run: Path, command: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([part.format(run=run) for part in command])
    out = capsys.readouterr()
    assert exit_.value.code == code
    assert says in " ".join((out.out + out.err).split())


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two seeds of one construct, and a third run that succeeds by another rule; 48 seeds to confirm on."""
    folders = [tmp_path_factory.mktemp("three") / name for name in "abc"]
    small = ["--envs", "8", "--horizon", "8", "--minibatches", "2", "--updates", "2", "--quiet"]
    small += ["--tracker", "none", "--perturb", "none"]
    for folder, own in zip(
        folders, (["--seed", "1"], ["--seed", "2"], ["--success-return", "4"]), strict=True
    ):
        with pytest.raises(SystemExit) as exit_:
            main(["train", "gym:surefoot-test/Count-v0", *small, *own, "--out", str(folder)])
        assert exit_.value.code == 0
    return folders


def returns(run: Path) -> dict[int, float]:
    rows = read_table(run / "panels" / "outside-seeds-v1" / "confirmation" / "episodes.parquet")
    return dict(zip(rows["seed"].tolist(), rows["return"].tolist(), strict=True))


def test_returns_are_compared_seed_by_seed(three: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    a, b, c = three
    assert surefoot("compare", a, b, "--json") == 0
    (comparison,) = json.loads(capsys.readouterr().out)
    d, ours, theirs = comparison["metrics"]["return"], returns(a), returns(b)
    assert ours.keys() == theirs.keys()
    gaps = np.array([theirs[s] - ours[s] for s in ours])
    assert (d["n"], d["families"], d["few"]) == (48, 48, False)
    assert d["value"] == pytest.approx(gaps.mean())
    assert (d["a"], d["b"]) == (
        pytest.approx(np.mean(list(ours.values()))),
        pytest.approx(np.mean(list(theirs.values()))),
    )
    reach = student.ppf(0.975, 47) * gaps.std(ddof=1) / 48**0.5
    assert reach > 0
    assert gaps.mean() - 2 * reach < d["low"] <= gaps.mean() - 0.999 * reach
    assert gaps.mean() + 0.999 * reach <= d["high"] < gaps.mean() + 2 * reach
    assert surefoot("compare", a, b) == 0
    assert f"{d['value']:+.3f} [{d['low']:+.3f}, {d['high']:+.3f}]" in capsys.readouterr().out
    assert surefoot("report", a, b, "--out", a.with_name("both.html")) == 0
    page = a.with_name("both.html").read_text()
    assert 'data-figure="b.difference.return"' in page
    assert f'data-value="{d["value"]!r}"' in page
    capsys.readouterr()
    assert surefoot("compare", a, c) == 3, "another rule of success is another construct"
    assert "success.return_at_least" in capsys.readouterr().out


def test_a_robots_run_and_one_from_outside_are_refused_in_a_sentence(
    three: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for pair in ((three[0], GOLDEN / "v2"), (GOLDEN / "v2", three[0])):
        assert surefoot("compare", *pair) == 3
        assert "were not measured alike" in " ".join(capsys.readouterr().out.split())


def test_few_seeds_do_not_bound_a_difference_of_returns(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert surefoot("compare", run, run, "--json") == 0
    (comparison,) = json.loads(capsys.readouterr().out)
    d = comparison["metrics"]["return"]
    assert (d["value"], d["low"], d["high"], d["few"], d["p"]) == (0.0, None, None, True, 1.0)
    assert surefoot("compare", run, run) == 0
    assert "+0.000 [unbounded]" in capsys.readouterr().out


def test_a_run_of_other_versions_is_refused(run: Path, tmp_path: Path) -> None:
    import shutil

    other = tmp_path / "run"
    shutil.copytree(run, other)
    record = json.loads((other / "run.json").read_text())
    record["contract"]["versions"]["mujoco"] = "3.0.0"
    (other / "run.json").write_text(json.dumps(record))
    from surefoot.training.restore import restore_plan

    with pytest.raises(SurefootError, match=r"pip install mujoco==3\.0\.0"):
        restore_plan(RunFolder.open(other))


def test_envpools_go1_trains(tmp_path: Path) -> None:
    """With what its critic may see; a few updates."""
    pytest.importorskip("envpool")
    folder = tmp_path / "run"
    small = ["--envs", "8", "--horizon", "16", "--minibatches", "2", "--epochs", "2", "--updates", "2"]
    small += ["--eval-families", "2", "--perturb", "none", "--quiet", "--tracker", "none"]
    with pytest.raises(SystemExit) as exit_:
        main(["train", "envpool:Go1JoystickFlatTerrain-v1", *small, "--out", str(folder)])
    assert exit_.value.code == 0
    record = RunFolder.open(folder).record
    c = record.contract
    assert isinstance(c, ExternalContract)
    assert (c.observation_size, c.critic_size, c.action.size) == (48, 171, 12)
    assert c.success.return_at_least is None
    rows, _ = read_ledger(folder / "ledger.jsonl")
    assert len(rows) == 2
    assert all(np.isfinite(r["value_loss"]) for r in rows)


def test_envpool_begins_the_episodes_of_its_seeds() -> None:
    pytest.importorskip("envpool")
    task = external_task("envpool:InvertedPendulum-v5")
    source, other = task.make([5, 6, 7], "cpu"), task.make([7, 5], "cpu")
    first = source.start()
    moved = [source.step(torch.full((3, 1), 3.0)) for _ in range(8)]
    ended = next(m for m in moved if bool(m.terminated.any()))
    assert (ended.seen[ended.terminated, 1].abs() > 0.2).all(), "the pole lies in the last observation"
    again = source.restart(torch.tensor([1]))
    assert again.shape == (1, 4)
    assert not torch.equal(again[0], first[1]), "the next episode is another"
    assert torch.equal(source.start(), first)
    assert torch.equal(other.start(), first[[2, 0]])
    source.close()
    other.close()


def test_a_plan_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["plan", "gym:Pendulum-v1", "--success-return", "-200"])
    assert exit_.value.code == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "return of at least -200" in out
    assert "gymnasium" in out


def test_an_interrupted_run_says_how_to_judge_it(run: Path) -> None:
    from surefoot.runs.hints import resume_hint

    folder = RunFolder.open(run)
    assert "evaluate" in resume_hint(folder)
    assert "--resume" not in resume_hint(folder)
