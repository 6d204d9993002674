"""Instructions of an H200 in a Newton iteration of stride's Go1 on the plane, read from the machine code.

    python benchmarks/machine_code.py --nvdisasm PATH      a minute; writes machine_code.json beside it

It takes no GPU: Warp has a compiler for CUDA. nvdisasm is part of the CUDA toolkit (and of Triton's wheel,
under triton/backends/nvidia/bin).

Counted is the shortest way through a loop, from its first instruction to the jump back: what is rare (other
contacts than those of feet, joints beyond a limit) lies in branches that it does not take, nor does an
iteration take a turn of the line search. `loop` is all that stands between the two, `counted` what flops.py,
run before, counts of the same program; `sums as written` is an iteration without the order of sums.py.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import tempfile
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

from engines import PLANTS
from fetching import sums_as_written
from surefoot.artifacts import write_json
from surefoot.compiler import Target
from surefoot.engines.stride import StrideEngine
from surefoot.engines.stride.warp_kernels import make_control_step
from surefoot.robots import robot
from surefoot.terrain import Atlas

SCHEMA_VERSION = 1
ARCHITECTURE = 90
ROBOT = "go1"


class Lanes(StrideEngine):
    """An engine of the CPU that also has the text for CUDA."""

    def _hot(self, heightfield: bool) -> bool:
        return not heightfield  # as on CUDA

    def _step_source(self, policy: np.ndarray, target: Target) -> str:
        self.cuda_text = super()._step_source(policy, Target("lanes", cuda=True))
        return super()._step_source(policy, target)


@dataclass(frozen=True)
class Listing:
    """Instructions in order, and to which of them each may go on."""

    text: list[str]
    after: list[list[int]]

    @classmethod
    def read(cls, listing: str) -> Listing:
        text: list[str] = []
        labels: dict[str, int] = {}
        for line in listing.splitlines():
            if label := re.match(r"\s*(\.L_\w+):", line):
                labels[label[1]] = len(text)
            elif instruction := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", line):
                text.append(instruction[1])
        after = []
        for i, instruction in enumerate(text):
            jump = re.search(r"\bBRA\b.*`\((\.L_\w+)\)", instruction)
            ends = bool(jump) or re.search(r"\b(EXIT|RET)\b", instruction)
            following = [] if ends and not instruction.startswith("@") else [i + 1]
            after.append([labels[jump[1]], *following] if jump else following)
        return cls(text, after)

    def loops(self) -> list[tuple[int, int]]:
        """First instruction and jump back of each."""
        return [(to, i) for i, after in enumerate(self.after) for to in after if to < i]

    def shortest(self, first: int, last: int) -> list[int]:
        """The way from one to the other within what lies between them that has the fewest instructions."""
        before = {first: first}
        waiting = deque([first])
        while waiting:
            here = waiting.popleft()
            new = [to for to in self.after[here] if first <= to <= last and to not in before]
            before |= dict.fromkeys(new, here)
            waiting += new
        way = [last]
        while way[-1] != first:
            way.append(before[way[-1]])
        return way[::-1]


def compiled(plant: str, folder: Path, atlas: Atlas | None = None) -> Path:
    """The binary for an H200."""
    engine = Lanes(robot(ROBOT), PLANTS[plant], 8, atlas=atlas, threads=1)
    module = make_control_step(engine.cuda_text, cuda=True).module
    engine.close()
    return wp.compile_aot_module(module, arch=ARCHITECTURE, module_dir=folder, use_ptx=False)[0]


def figures(listing: Listing) -> dict[str, Any]:
    """Of the loops in which lanes speak: a turn of the line search, within an iteration, within a step."""
    speaking = [i for i, x in enumerate(listing.text) if "SHFL" in x]
    out: list[dict[str, int]] = []
    inner = range(0)
    for first, last in sorted(listing.loops(), key=lambda ends: ends[1] - ends[0]):
        own = [i for i in speaking if first <= i <= last and i not in inner]
        if own:
            # a warp that waits for others goes around its loop without a word
            way = [*listing.shortest(first, own[0]), *listing.shortest(own[0], last)[1:]]
            of_way = sum(i in speaking for i in way)
            out.append({"instructions": len(way), "shuffles": of_way, "loop": last - first + 1})
            inner = range(first, last + 1)
    return dict(zip(("turn of the line search", "iteration", "physics step"), out[:3], strict=True))


def read(plant: str, nvdisasm: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = [nvdisasm, "-c", str(compiled(plant, Path(folder)))]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return figures(Listing.read(text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nvdisasm", default="nvdisasm", help="where it is, if not on the path")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    args = parser.parse_args()
    if shutil.which(args.nvdisasm) is None:
        parser.error(f"{args.nvdisasm} is no program here: say where nvdisasm is with --nvdisasm PATH")
    counted = json.loads(Path(__file__).with_name("flops.json").read_text())["plants"]
    plants = {}
    for plant in ("plain", "evaluation"):
        plants[plant] = read(plant, args.nvdisasm) | {"counted": counted[plant]["lane"]}
        with sums_as_written():
            plants[plant]["sums as written"] = read(plant, args.nvdisasm)["iteration"]
    document = {
        "schema_version": SCHEMA_VERSION,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"warp-lang": version("warp-lang")},
        "robot": ROBOT,
        "ground": "plane",
        "architecture": ARCHITECTURE,
        "plants": plants,
    }
    write_json(args.out, document)
    print(json.dumps(plants, indent=1))
    print(f"Wrote {args.out}")


if __name__ == "__main__":
    main()
