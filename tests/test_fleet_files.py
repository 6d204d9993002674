"""The files that start a fleet elsewhere are what their readers accept, and name what is there."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray
import yaml

from places import ROOT

FLEET = ROOT / "examples" / "fleet"


def kuberay() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FLEET / "kuberay.yaml").read_text()))


def test_the_clusters_file_is_what_ray_up_takes() -> None:
    schema = json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text())
    config = yaml.safe_load((FLEET / "cluster.yaml").read_text())
    jsonschema.validate(config, schema)
    assert config["max_workers"] == len(config["provider"]["worker_ips"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(config | {"max_worker": 3}, schema)


def test_the_manifest_has_what_a_cluster_needs_and_is_closed_to_others() -> None:
    cluster, claim, policy = kuberay()
    pods = {"head": cluster["spec"]["headGroupSpec"]["template"]["spec"]}
    pods |= {g["groupName"]: g["template"]["spec"] for g in cluster["spec"]["workerGroupSpecs"]}
    assert [c["kind"] for c in (cluster, claim, policy)] == [
        "RayCluster", "PersistentVolumeClaim", "NetworkPolicy",
    ]  # fmt: skip
    for name, pod in pods.items():
        (container,) = pod["containers"]
        mounted, there = {m["name"] for m in container["volumeMounts"]}, {v["name"] for v in pod["volumes"]}
        assert mounted == there, name
        assert container["resources"]["requests"] == container["resources"]["limits"], "or actors are unequal"
        assert {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"} in container["env"]
    claims = [
        v["persistentVolumeClaim"]["claimName"]
        for v in pods["head"]["volumes"]
        if len(v) > 1 and "emptyDir" not in v
    ]
    assert claims == [claim["metadata"]["name"]]
    assert policy["spec"]["podSelector"]["matchLabels"] == {"ray.io/cluster": cluster["metadata"]["name"]}
    assert policy["spec"]["ingress"], "else not even its own pods are let in"


def test_versions_are_those_that_are_pinned() -> None:
    pins = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert kuberay()[0]["spec"]["rayVersion"] == pins["ray"]


def test_the_image_copies_what_is_there_and_installs_an_extra_that_is() -> None:
    text = (FLEET / "Containerfile").read_text()
    steps = re.sub(r"\\\n", " ", text)
    for line in re.findall(r"^COPY (?:--\S+ )*(.+)$", steps, re.MULTILINE):
        *sources, _ = line.split()
        assert all((ROOT / s).exists() for s in sources), line
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.findall(r'"\.\[(\w+)\]"', text)) <= extras.keys()
    words = {line.split()[0] for line in steps.splitlines() if line.strip() and not line.startswith("#")}
    assert words <= {"FROM", "RUN", "COPY", "WORKDIR", "USER", "ENV", "ARG", "CMD"}
