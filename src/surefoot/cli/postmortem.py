"""`surefoot postmortem`: what went wrong in a run, in six sentences."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rich.console import Console

from surefoot.cli.parser import Positional
from surefoot.printing import say


@dataclass(frozen=True)
class PostmortemCommand:
    """Write a run's postmortem: six sentences, each tied to a figure of an artifact, and two failures. It
    begins with "did the policy fail, or did the batch lie?", which the audit answers.

    Example: surefoot postmortem runs/RUN
    """

    run_folder: Positional[str]
    """Run folder, as `surefoot train` printed it."""
    json: bool = False
    """Print the sentences with their evidence as one JSON object."""

    def run(self, console: Console) -> int:
        from surefoot.artifacts import plain
        from surefoot.evidence import as_text, write_postmortem
        from surefoot.runs import RunFolder

        postmortem = write_postmortem(RunFolder.open(self.run_folder))
        if self.json:
            print(json.dumps(plain(postmortem), indent=2))
        else:
            say(console, as_text(postmortem))
        return 0
