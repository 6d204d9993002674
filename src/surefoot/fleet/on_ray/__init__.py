"""A fleet that runs: actors on Ray, the learner's side, and training with both."""

from surefoot.fleet.on_ray.cluster import Cluster
from surefoot.fleet.on_ray.crowd import Crowd
from surefoot.fleet.on_ray.curves import Curve, fit
from surefoot.fleet.on_ray.measure import Measured, measure
from surefoot.fleet.on_ray.predict import Place, Predicted, amortised, better_codec, changes, predict, shared
from surefoot.fleet.on_ray.trainer import FleetTrainer

__all__ = [
    "Cluster",
    "Crowd",
    "Curve",
    "FleetTrainer",
    "Measured",
    "Place",
    "Predicted",
    "amortised",
    "better_codec",
    "changes",
    "fit",
    "measure",
    "predict",
    "shared",
]
