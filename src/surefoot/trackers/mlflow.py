"""Shows runs in MLflow, an optional extra (its slim build is enough), at MLFLOW_TRACKING_URI. Without one
nothing leaves the machine, and a file store goes to <run>/mlflow."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from surefoot.contract import digest
from surefoot.trackers.tracker import numbers, words

EXPERIMENT = "surefoot"
URI = "MLFLOW_TRACKING_URI"
IDENTITY = "surefoot.run"
"""The tag by which a run is found again."""

MOST = 1000
"""How many metrics MLflow takes at a time."""


def load() -> Any:
    """Imports MLflow, which then decides whether it reports its use: without a server it does not."""
    if not os.environ.get(URI):
        # It also wants to be told that a file store is meant.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow

    return mlflow


class MLflow:
    """Shows one run there; see `Tracker`."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        where = os.environ.get(URI)
        mlflow = load()
        self._entities = mlflow.entities
        self._client = client = mlflow.MlflowClient(where or (folder / "mlflow").absolute().as_uri())
        same = digest([config["id"], config["created"]])
        existing = client.get_experiment_by_name(EXPERIMENT)
        experiment = existing.experiment_id if existing else client.create_experiment(EXPERIMENT)
        for earlier in client.search_runs([experiment], f"tags.`{IDENTITY}` = '{same}'"):
            client.delete_run(earlier.info.run_id)
        run = client.create_run(experiment, run_name=folder.name, tags={IDENTITY: same})
        self._id = run.info.run_id
        params = {k: v for k, v in config.items() if isinstance(v, str)} | {
            f"recipe.{k}": v for k, v in config["recipe"].items()
        }
        client.log_batch(self._id, params=[mlflow.entities.Param(k, str(v)) for k, v in params.items()])
        client.log_dict(self._id, dict(config), "run.json")

    @staticmethod
    def check() -> None:
        """Asks the server, which must answer; a file store is made when the run has a folder."""
        where = os.environ.get(URI)
        if where:
            load().MlflowClient(where).get_experiment_by_name(EXPERIMENT)

    def log(self, row: Mapping[str, Any]) -> None:
        step, now = int(row["samples"]), int(1000 * time.time())
        metrics = [self._entities.Metric(k, v, now, step) for k, v in numbers(row).items()]
        tags = [self._entities.RunTag(k, v) for k, v in words(row).items()]
        for k in range(0, len(metrics), MOST):
            self._client.log_batch(self._id, metrics=metrics[k : k + MOST], tags=tags)

    def close(self) -> None:
        self._client.set_terminated(self._id)
