"""What is typed is what is meant, or it is refused in one sentence that says what would be."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import Refused, everything
from surefoot.cli.parser import options_of, parse
from surefoot.cli.verbs import commands
from surefoot.contract import SurefootError


@pytest.fixture(autouse=True)
def _elsewhere(elsewhere: Path) -> None:
    """All of these are called in a folder of their own."""


def read(*words: str) -> object:
    """The command that these words make."""
    called = next(c for c in commands() if tuple(words[: len(c)]) == c)
    return parse(commands()[called], words[len(called) :], " ".join(called))


def test_options_words_and_switches_are_read_in_any_order() -> None:
    one = read("train", "walk-flat", "--envs", "64", "--json", "--hidden", "32", "16", "--seed", "-1")
    other = read(
        "train", "--seed=-1", "--hidden=32", "--hidden", "16", "--json", "--envs=64", "--", "walk-flat"
    )
    assert one == other
    assert one.options.hidden == (32, 16)  # type: ignore[attr-defined]
    assert one.options.seed == -1  # type: ignore[attr-defined]


def test_underscores_and_hyphens_are_alike() -> None:
    assert read("plan", "t", "--eval_families", "2") == read("plan", "t", "--eval-families", "2")


def test_what_is_not_given_is_the_default() -> None:
    for called, command in commands().items():
        needed = ["bash" if o.choices else "x" for o in options_of(command) if o.positional]
        made = parse(command, needed, " ".join(called))
        for o in options_of(command):
            if not o.positional:
                owner = made if len(o.path) == 1 else getattr(made, o.path[0])
                assert getattr(owner, o.name) == o.default


def test_switches_can_be_turned_both_ways() -> None:
    assert read("evaluate", "r", "--no-baselines") != read("evaluate", "r")
    assert read("evaluate", "r", "--baselines") == read("evaluate", "r", "--no-json") == read("evaluate", "r")


def test_a_word_after_two_hyphens_is_no_option() -> None:
    assert read("report", "--", "--help").run_folders == ("--help",)  # type: ignore[attr-defined]


BAD = (
    (["trian"], "did you mean 'train'?"),
    (["frobnicate"], "choose one of: "),
    (["--frobnicate"], "is no command"),
    (["-V"], "is no command"),
    (["--json", "train"], "is no command"),
    (["panel", "shwo"], "did you mean 'show'?"),
    (["panel", "xyzzy"], "choose one of: make, show"),
    (["study", "seeds"], "choose one of: epochs, horizon, memory, parallelism"),
    (["plan"], "needs TASK"),
    (["evaluate"], "needs RUN"),
    (["evaluate", "--perturb", "none", "runs/x"], "before --perturb, which took 'none runs/x'"),
    (["evaluate", "a", "b"], "'b' is too much"),
    (["postmortem"], "needs RUN"),
    (["promote", "a"], "--over BASELINE"),
    (["promote", "a", "b", "c"], "'c' is too much"),
    (["track"], "needs RUN"),
    (["report"], "Say which run to report"),
    (["compare"], "takes two runs or more"),
    (["compare", "a"], "takes two runs or more"),
    (["panel", "make"], "needs NAME"),
    (["completion"], "needs SHELL"),
    (["completion", "tcsh"], "SHELL cannot be 'tcsh'; choose one of: bash, zsh, fish"),
    (["completion", "powershell"], "choose one of: bash, zsh, fish"),
    (["completion", "bash", "zsh"], "'zsh' is too much"),
    (["doctor", "now"], "nothing but options; 'now' is too much"),
    (["tasks", "walk-flat"], "nothing but options"),
    (["engines", "--jsn"], "did you mean --json?"),
    (["train", "walk-flat", "--updat", "3"], "did you mean --updates?"),
    (["train", "walk-flat", "--frobnicate"], "`surefoot train --help` lists"),
    (["train", "walk-flat", "--half", "all"], "has no option --half"),
    (["train", "walk-flat", "--updates"], "--updates needs a value: --updates N"),
    (["train", "walk-flat", "--updates", "--json"], "--updates needs a value"),
    (["train", "walk-flat", "--updates", "many"], "--updates takes a whole number, not 'many'"),
    (["train", "walk-flat", "--updates", "1e3"], "takes a whole number"),
    (["train", "walk-flat", "--updates", ""], "takes a whole number, not ''"),
    (["train", "walk-flat", "--updates", "9" * 5000], "takes a whole number"),
    (["train", "walk-flat", "--envs", "1.5"], "--envs takes a whole number, not '1.5'"),
    (["train", "walk-flat", "--envs", "None"], "--envs takes a whole number"),
    (["train", "walk-flat", "--minutes", "five"], "--minutes takes a number, not 'five'"),
    (["train", "walk-flat", "--tracker", "mlflo"], "did you mean 'mlflow'?"),
    (["train", "walk-flat", "--tracker", "aim"], "choose one of: tensorboard, wandb, mlflow, none"),
    (["train", "walk-flat", "--learner", "td3"], "choose one of: ppo, rsl_rl"),
    (["train", "walk-flat", "--timeouts", "Stock"], "did you mean 'stock'?"),
    (["train", "walk-flat", "--precision", "fp16"], "did you mean"),
    (["train", "walk-flat", "--mirror", "maybe"], "--mirror cannot be 'maybe'; choose one of: True, False"),
    (["train", "walk-flat", "--hidden"], "--hidden needs a value"),
    (["train", "walk-flat", "--hidden", "64", "x"], "--hidden takes a whole number, not 'x'"),
    (["train", "walk-flat", "--json=yes"], "--json takes no value"),
    (["train", "walk-flat", "walk-rough"], "'walk-rough' is too much"),
    (["train", "walk-flat", "--perturb", "hurricane"], "choose one of: all, bias, curbs, delay"),
    (["train", "walk-flat", "--perturb", "fricton"], "did you mean 'friction'?"),
    (["train", "walk-flat", "--perturb", "friction_"], "There is no perturbation"),
    (["train", "walk-flat", "--perturb", "delay_40s"], "did you mean 'delay_40ms'?"),
    (["train", "walk-flat", "--engine", "brax"], "choose one of: mujoco, mujoco-boxes, mujoco-warp, stride"),
    (["train", ""], "Say what to train"),
    (["train", ":"], "does not name a module"),
    (["train", "gym:"], "gym:"),
    (["train", "--resume", ""], "run"),
    (["plan", "xyzzy"], "choose one of: trot-flat"),
    (["plan", "walk-flat+sparser"], "There is no task"),
    (["evaluate", "nowhere"], "There is no run folder"),
    (["replay"], "Say one thing to replay"),
    (["replay", "a", "1", "--family", "2"], "Say one thing to replay"),
    (["replay", "a", "--family", "x"], "--family takes a whole number"),
    (["replay", "a", "1", "--split", "eval"], "--split is for --family"),
    (["replay", "a", "1", "--split", "test"], "choose one of: train, eval"),
    (["replay", "--trace", "none.npz"], "does not exist"),
    (["serve", "--port", "http"], "--port takes a whole number"),
    (["serve", "--runs", ".", "--port", "99999"], "port"),
    (["serve", "--runs", "nowhere"], "nowhere"),
    (["lab", "walk-flat"], "nothing but options"),
    (["lab", "--learners", "td3", "ppo"], "choose one of: cleanrl, ppo"),
    (["lab", "--perturbation", "hurricane"], "hurricane"),
    (["lab", "--task", "wlak-flat"], "did you mean 'walk-flat'?"),
    (["compare-learners", "walk-flat", "--learners", "ppo"], "two or more learners"),
    (["compare-learners", "walk-flat", "--learners", "ppo", "sac"], "There is no learner 'sac'"),
    (["study", "parallelism"], "Say what to study"),
    (["study", "horizon", "walk-flat", "--horizons", "8"], "two"),
    (["study", "epochs", "walk-flat", "--keep", "size"], "choose one of: minibatches, minibatch-size"),
    (["panel", "show", "walk-flat-v9"], "did you mean 'walk-flat-v2'? There are: walk-anymal-flat-v1"),
    (["panel", "show", "xyzzy"], "choose one of: walk-anymal-flat-v1"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "hint"), BAD, ids=lambda x: " ".join(x)[:60] if isinstance(x, list) else ""
)
def test_bad_words_are_refused_in_a_sentence(refused: Refused, words: list[str], hint: str) -> None:
    assert hint in refused(*words)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["evaluate", "{run}", "--checkpoint", "baseline:sprint"], "choose one of: hold-pose"),
        (["evaluate", "{run}", "--perturb", "hurricane"], "choose one of: all, bias, curbs, delay"),
        (["evaluate", "{run}", "--engine", "brax"], "choose one of: mujoco"),
        (["compare", "{run}", "{run}", "--column", "friction_9"], "choose one of: "),
        (
            ["compare", "{run}", "{run}", "--panel-half", "third"],
            "choose one of: all, confirmation, selection",
        ),
        (["replay", "{run}", "12", "--where", "nowhere"], "use --where with one of: "),
        (["replay", "{run}", "99999"], "99999"),
        (["replay", "{run}", "--family", "999", "--split", "eval"], "use --family with 0 to 3"),
        (["train", "--resume", "{run}", "--envs", "64"], "give only limits"),
    ],
    ids=lambda x: " ".join(x)[:60] if isinstance(x, list) else "",
)
def test_unknown_names_about_a_run_list_the_known_ones(
    refused: Refused, tiny_run: Path, words: list[str], hint: str
) -> None:
    before = everything(tiny_run)
    assert hint in refused(*(w.format(run=tiny_run) for w in words))
    assert everything(tiny_run) == before


ANY = st.one_of(
    st.sampled_from([o.flag for c in commands().values() for o in options_of(c)]),
    st.sampled_from(
        ["-1", "--", "-", "---", "--=", "=", "0", "nan", "", " ", "'", "\\", "--no-", "--no-json"]
    ),
    st.text(max_size=6),
)


@settings(max_examples=100, deadline=None)
@given(called=st.sampled_from([*commands()]), words=st.lists(ANY, max_size=6))
def test_whatever_is_typed_is_a_command_or_a_sentence(called: tuple[str, ...], words: list[str]) -> None:
    with suppress(SurefootError):
        assert isinstance(parse(commands()[called], words, " ".join(called)), commands()[called])
