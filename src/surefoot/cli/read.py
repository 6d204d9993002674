"""`surefoot postmortem`, `report`, `serve` and `track`: what a run left, for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from tyro.conf import Positional


@dataclass(frozen=True)
class PostmortemCommand:
    """Write a run's postmortem: five sentences, each tied to a figure of an artifact, and two failures."""

    run_folder: Positional[str]
    """Run folder, as `surefoot train` printed it."""
    json: bool = False
    """Print the sentences with their evidence as one JSON object."""

    def run(self, console: Console) -> int:
        from surefoot.cli.postmortem_print import postmortem_run

        return postmortem_run(console, self.run_folder, self.json)


@dataclass(frozen=True)
class ReportCommand:
    """Write one self-contained HTML page about a run, or about several side by side. Opens from disk and
    needs no network."""

    run_folders: Positional[tuple[str, ...]]
    """Run folders, as `surefoot train` printed them."""
    out: str | None = None
    """File to write (default: report.html in the first run's folder)."""
    dollars_per_hour: float | None = None
    """Price of this machine, to state what the run cost."""

    def run(self, console: Console) -> int:
        from surefoot.reporting import write_report

        path = write_report(self.run_folders, self.out, self.dollars_per_hour)
        size = path.stat().st_size / 1e6
        console.print(f"{path} ({size:.1f} MB)", highlight=False, markup=False, soft_wrap=True)
        return 0


@dataclass(frozen=True)
class ServeCommand:
    """Serve the reports of all runs, with an index and comparisons. Read-only."""

    runs: str = "runs"
    """Folder of run folders."""
    port: int = 8642
    """Port to listen on; 0 takes a free one."""
    host: str = "127.0.0.1"
    """Address to listen on. Anything but this machine's own lets others read your runs."""
    dollars_per_hour: float | None = None
    """Price of this machine, to state what runs cost."""

    def run(self, console: Console) -> int:
        from surefoot.reporting import make_server

        server = make_server(self.runs, self.host, self.port, self.dollars_per_hour)
        console.print(f"{server.url} serves {self.runs}; stop with Ctrl-C.", highlight=False, soft_wrap=True)
        console.file.flush()  # whoever reads this through a pipe must see it before the server ends
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
        finally:
            server.server_close()
        return 0


@dataclass(frozen=True)
class TrackCommand:
    """Show a run's ledger in a dashboard, as `train --tracker` does while it trains."""

    run_folder: Positional[str]
    """Run folder, as `surefoot train` printed it."""
    tracker: Literal["tensorboard", "wandb", "mlflow"] = "tensorboard"
    """Which one; what it was shown of this run before is replaced."""

    def run(self, console: Console) -> int:
        from surefoot.training import track_run

        return track_run(console, self.run_folder, self.tracker)
