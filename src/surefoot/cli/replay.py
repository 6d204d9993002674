"""`surefoot replay`: the three ways to play an episode again."""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from rich.console import Console

from surefoot.cli.parser import Positional
from surefoot.contract import SurefootError
from surefoot.printing import SHOWN, plain_table, print_replay, say, value_text

TAKES = {
    "RUN EPISODE": ("where", "verify", "perturb", "engine", "video"),
    "--trace": ("engine", "envs", "checkpoint"),
    "--family": ("split", "envs", "checkpoint"),
}
"""The options of each way to replay."""
FAMILY_COLUMNS = {
    "member": "env", "command_vx": "vx", "command_vy": "vy", "command_wz": "wz", "friction": "fric.",
    "payload_kg": "kg", "success": "success", "reason": "end", "lived_s": "s", "velocity_error_mps": "error",
    "return": "return", "label": "label",
}  # fmt: skip
"""What is told of the episodes of a family, and how that is called in its table."""


@dataclass(frozen=True)
class ReplayCommand:
    """Live an episode again: from its row (RUN EPISODE), a failure in many environments (--trace FILE), or a
    seed family (RUN --family K).

    Example (the same to the bit?): surefoot replay runs/RUN 200 --verify

    Example (bad luck, or a family of failures?): surefoot replay --trace
    runs/RUN/panels/walk-flat-v1/confirmation/traces/nominal-00012.npz

    Example: surefoot replay runs/RUN --family 3
    """

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
    """Split that the family is of: train (training plant and engine) or eval (the panel's)."""
    envs: int | None = None
    """Environments for --trace (default 256) or --family (default 16)."""
    checkpoint: str = "confirmed"
    """Policy for --trace and --family: confirmed, best, latest, a file, or a baseline."""
    json: bool = False
    """Print one JSON object instead of tables."""

    def run(self, console: Console) -> int:
        if self.video and "MUJOCO_GL" not in os.environ and "DISPLAY" not in os.environ:
            os.environ["MUJOCO_GL"] = "egl"  # before MuJoCo is imported: it looks only then
        given = [bool(self.episode), self.trace is not None, self.family is not None]
        if sum(given) != 1:
            raise SurefootError(
                "Say one thing to replay: RUN EPISODE (a scenario's number), --trace FILE, or RUN --family K."
            )
        self._check_options()
        if self.trace is not None:
            return self._trace(console, self.trace)
        return self._episode(console) if self.family is None else self._family(console, self.family)

    def _episode(self, console: Console) -> int:
        from surefoot.artifacts import plain
        from surefoot.replays import replay_episode
        from surefoot.runs import RunFolder

        replayed = replay_episode(
            RunFolder.open(self.run_folder),
            self.episode,
            where=self.where,
            perturb=self.perturb,
            engine=self.engine,
            check=self.verify,
            video=self.video,
        )
        row, verdict, frames = replayed.row, replayed.verdict, replayed.frames
        if self.json:
            out = {k: row[k] for k in SHOWN} | {"frames": frames}
            if verdict:
                out["verify"] = dataclasses.asdict(verdict) | {"holds": verdict.holds}
            print(json.dumps(plain(out), indent=2))
        else:
            video = f"{self.video}: {frames} frames" if frames else ""
            print_replay(console, replayed.panel, row, verdict, video)
        return 0 if verdict is None or verdict.holds else 1

    def _trace(self, console: Console, trace: str) -> int:
        from surefoot.replays import replay_trace
        from surefoot.runs import RunFolder
        from surefoot.statistics import percent

        report, episodes = replay_trace(
            RunFolder.open(self.run_folder) if self.run_folder else None,
            trace,
            envs=256 if self.envs is None else self.envs,
            engine=self.engine or "auto",
            checkpoint=self.checkpoint,
        )
        if self.json:
            print(json.dumps(report.model_dump(mode="json"), indent=2))
            return 0
        table = plain_table(
            f"{report.case} in {report.envs} environments on {report.engine}, factors moved", "", ""
        )
        interval = f"95% interval {percent(report.failures_low)} to {percent(report.failures_high)}"
        table.add_row("failures", f"{percent(report.failures)}  ({interval})")
        table.add_row("as it was", "failed again" if report.again else "did not fail again")
        table.add_row("recorded label", report.recorded_label or "-")
        table.add_row("labels", ", ".join(f"{k} {v}" for k, v in report.labels.items()) or "-")
        table.add_row("mean steps lived", f"{episodes.rows['steps'].mean():.0f}")
        console.print(table, highlight=False)
        say(console, f"It is {report.verdict}.")
        return 0

    def _family(self, console: Console, family: int) -> int:
        from surefoot.artifacts import plain
        from surefoot.replays import replay_family
        from surefoot.runs import RunFolder

        rows = replay_family(
            RunFolder.open(self.run_folder),
            family,
            split=self.split,
            envs=16 if self.envs is None else self.envs,
            checkpoint=self.checkpoint,
        )
        count = len(rows["success"])
        if self.json:
            print(json.dumps(plain([{k: v[i] for k, v in rows.items()} for i in range(count)]), indent=2))
            return 0
        title = f"Family {family} of split {self.split}, {count} environments, first episodes"
        table = plain_table(title, *FAMILY_COLUMNS.values())
        table.padding = (0, 1, 0, 0)
        for i in range(count):
            table.add_row(*(value_text(rows[k][i], digits=2) for k in FAMILY_COLUMNS))
        console.print(table, highlight=False)
        ends = Counter(x or "success" for x in rows["label"].tolist())
        say(console, ", ".join(f"{k} {v}" for k, v in ends.most_common()))
        return 0

    def _check_options(self) -> None:
        """Refuses options that the chosen way to replay does not take."""
        way = (
            "--trace" if self.trace is not None else "--family" if self.family is not None else "RUN EPISODE"
        )
        for option in dataclasses.fields(self):
            takers = [of for of, takes in TAKES.items() if option.name in takes]
            if takers and way not in takers and getattr(self, option.name) != option.default:
                raise SurefootError(
                    f"--{option.name} is for {' and '.join(takers)}, not for {way}; leave it out."
                )
