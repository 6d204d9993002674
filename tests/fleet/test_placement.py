"""The processes of a fleet on a cluster of unequal nodes: the learner has the GPU of its node, actors are
packed on few nodes or spread over many. Nodes are processes of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from places import SOURCE, TESTS


def test_actors_are_packed_or_spread_and_the_learner_keeps_its_gpu(tmp_path: Path) -> None:
    program = Path(__file__).with_name("places_program.py")
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (SOURCE, TESTS)))},
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    both = {"service with the learner": True, "free GPUs": 0}
    assert said["pack"] == {"cores of their nodes": [3, 3, 3], "nodes": 1} | both
    assert said["spread"]["nodes"] == 3
    assert said["spread"] == said["spread"] | both
    assert said["refused"].startswith("The cluster has no room for 9 actors: ")
    assert said["fleet"]["nodes"] == 2
    assert said["fleet"]["update"] == 2
    assert len(said["fleet"]["said"]) == 1
    assert said["fleet"]["said"][0].startswith("The learner works on the CPU, and the cluster has a GPU on ")
