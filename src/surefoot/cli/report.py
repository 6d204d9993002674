"""`surefoot report` and `serve`: what a run left, as pages for people."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console

from surefoot.cli.parser import Positional
from surefoot.printing import say


@dataclass(frozen=True)
class ReportCommand:
    """Write one self-contained HTML page about a run, or about several side by side. Opens from disk and
    needs no network.

    Example: surefoot report runs/RUN

    Example (two runs on one page): surefoot report runs/A runs/B --out both.html
    """

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
        say(console, f"{path} ({size:.1f} MB)")
        return 0


@dataclass(frozen=True)
class ServeCommand:
    """Serve the reports of all runs, with an index and comparisons. Read-only.

    Example: surefoot serve --runs runs
    """

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
        say(console, f"{server.url} serves {self.runs}; stop with Ctrl-C.")
        console.file.flush()  # whoever reads this through a pipe must see it before the server ends
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
        finally:
            server.server_close()
        return 0
