"""What `surefoot postmortem` prints."""

from __future__ import annotations

import json

from rich.console import Console

from surefoot.artifacts import plain
from surefoot.evidence import as_text, write_postmortem
from surefoot.runs import RunFolder


def postmortem_run(console: Console, folder: str, as_json: bool) -> int:
    found = write_postmortem(RunFolder.open(folder))
    if as_json:
        print(json.dumps(plain(found), indent=2))
    else:
        console.print(as_text(found), markup=False, highlight=False, soft_wrap=True)
    return 0
