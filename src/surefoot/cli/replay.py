"""`surefoot replay`: the three ways to live an episode again."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from tyro.conf import Positional

from surefoot.contract import SurefootError

TAKES = {
    "RUN EPISODE": ("where", "verify", "perturb", "engine", "video"),
    "--trace": ("engine", "envs", "checkpoint"),
    "--family": ("split", "envs", "checkpoint"),
}
"""The options of each way to replay."""


@dataclass(frozen=True)
class ReplayCommand:
    """Live an episode again: from its row (RUN EPISODE), a failure in many environments (--trace FILE), or a
    seed family (RUN --family K)."""

    run_folder: Positional[str] = ""
    """Run folder. Not needed with a --trace that lies in one."""
    episode: Positional[str] = ""
    """Scenario number of the panel, or the name of a trace (nominal-00017)."""
    where: str = "confirmation"
    """Which evaluation of the run: confirmation, selection-update-000100, or what `surefoot evaluate`
    wrote."""
    verify: bool = False
    """Compare states, label and figures with what was recorded; exit code 1 where they differ."""
    perturb: str | None = None
    """Column to replay, e.g. friction_0.3 or baseline:random (default: nominal)."""
    engine: str | None = None
    """Simulator (default: the one that the row was recorded on)."""
    video: str | None = None
    """Write the episode as .mp4, .gif, .webp or animated .png; needs an offscreen GL (EGL or OSMesa)."""
    trace: str | None = None
    """A trace (npz, or JSON of the same layout): its commands, pushes, terrain and start in --envs
    environments with the declared factors moved."""
    family: int | None = None
    """Seed family to rerun."""
    split: Literal["train", "eval"] = "train"
    """Of the family: train (training plant and engine) or eval (the panel's)."""
    envs: int | None = None
    """Environments for --trace (default 256) or --family (default 16)."""
    checkpoint: str = "confirmed"
    """Policy for --trace and --family: confirmed, best, latest, a file, or a baseline."""
    json: bool = False
    """Print one JSON object instead of tables."""

    def run(self, console: Console) -> int:
        if self.video and "MUJOCO_GL" not in os.environ and "DISPLAY" not in os.environ:
            os.environ["MUJOCO_GL"] = "egl"  # before MuJoCo is imported: it looks only then
        from surefoot.replays import episode as replaying

        given = [bool(self.episode), self.trace is not None, self.family is not None]
        if sum(given) != 1:
            raise SurefootError(
                "Say one thing to replay: RUN EPISODE (a scenario's number), --trace FILE, or RUN --family K."
            )
        self._check_options()
        if self.trace is not None:
            return replaying.replay_trace(
                console,
                self.run_folder or None,
                self.trace,
                256 if self.envs is None else self.envs,
                self.engine or "auto",
                self.checkpoint,
                self.json,
            )
        if self.family is not None:
            envs = 16 if self.envs is None else self.envs
            return replaying.replay_family(
                console, self.run_folder, self.family, self.split, envs, self.checkpoint, self.json
            )
        return replaying.replay_episode(
            console,
            self.run_folder,
            self.episode,
            self.where,
            self.perturb,
            self.engine,
            self.verify,
            self.video,
            self.json,
        )

    def _check_options(self) -> None:
        """What is replayed otherwise than with an option that was given would not be what was asked for."""
        way = (
            "--trace" if self.trace is not None else "--family" if self.family is not None else "RUN EPISODE"
        )
        for option in dataclasses.fields(self):
            takers = [of for of, takes in TAKES.items() if option.name in takes]
            if takers and way not in takers and getattr(self, option.name) != option.default:
                raise SurefootError(
                    f"--{option.name} is for {' and '.join(takers)}, not for {way}; leave it out."
                )
