"""Lists the libraries there are, what each needs, and how it treats an episode that ran out of time."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from importlib.metadata import version

from surefoot.contract import LEARNERS, SurefootError, Timeouts, unknown


@dataclass(frozen=True)
class Library:
    """Describes a learner that somebody else maintains."""

    name: str
    title: str
    adapter: str
    """Module that trains with it; imported in the worker only."""
    extra: str
    """The extra of this package that installs it; empty: nothing to install."""
    package: str
    needs: str
    """Module that the package installs."""
    release: str
    """Versions that the adapter is written for begin with this."""
    timeouts: str
    """What it does, as it comes, where an episode runs out of time."""
    correctable: bool
    """Whether that is wrong, and the adapter can put it right."""

    @property
    def version(self) -> str | None:
        """The version of the package that is installed; None for a learner of our own."""
        return version(self.package) if self.package else None

    def handling(self, timeouts: Timeouts) -> Timeouts:
        """Returns what is done where `timeouts` is asked for: a library that is right needs no correction."""
        return timeouts if self.correctable else "stock"

    def check(self) -> None:
        """Refuses a library that is not installed, or is another than the adapter was written for."""
        if not self.package:
            return
        install = f"pip install 'surefoot[{self.extra}]'"
        if importlib.util.find_spec(self.needs) is None:
            raise SurefootError(f"--learner {self.name} needs {self.title}; install it with: {install}")
        installed = version(self.package)
        if not installed.startswith(self.release):
            raise SurefootError(
                f"--learner {self.name} is written for {self.package} {self.release}x and {installed} is "
                f"installed; install the right one with: {install}"
            )


LIBRARIES = {
    library.name: library
    for library in (
        Library(
            "rsl_rl",
            "RSL-RL",
            "surefoot.learners.libraries.rsl_rl",
            "rsl-rl",
            "rsl-rl-lib",
            "rsl_rl",
            "5.5.",
            "adds gamma V(s_t), the value of the observation before the last step, to the last reward",
            True,
        ),
        Library(
            "skrl",
            "skrl",
            "surefoot.learners.libraries.skrl",
            "skrl",
            "skrl",
            "skrl",
            "2.1.",
            "does not see the end: value and advantage of the next episode's start flow back across it",
            True,
        ),
        Library(
            "rl_games",
            "rl_games",
            "surefoot.learners.libraries.rl_games",
            "rl-games",
            "rl-games",
            "rl_games",
            "1.6.",
            "adds gamma V(s_t), the value of the observation before the last step, to the last reward",
            True,
        ),
        Library(
            "sb3",
            "Stable-Baselines3",
            "surefoot.learners.libraries.sb3",
            "sb3",
            "stable-baselines3",
            "stable_baselines3",
            "2.9.",
            "adds gamma V of the final observation to the last reward, which is right",
            False,
        ),
        Library(
            "tianshou",
            "Tianshou",
            "surefoot.learners.libraries.tianshou",
            "tianshou",
            "tianshou",
            "tianshou",
            "2.0.",
            "bootstraps from the value of the final observation, which is right",
            False,
        ),
        Library(
            "cleanrl",
            "CleanRL-style single file",
            "surefoot.learners.libraries.cleanrl",
            "",
            "",
            "",
            "",
            "treats it as if the robot had fallen: nothing is bootstrapped",
            True,
        ),
    )
}


def find_learner(name: str) -> Library | None:
    """Returns the library of that name, installed or not; None for `ppo`, Surefoot's own."""
    if name not in LEARNERS:
        raise unknown("learner", name, LEARNERS)
    return LIBRARIES.get(name)
