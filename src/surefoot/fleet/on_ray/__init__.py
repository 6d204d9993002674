"""A fleet that runs: actors on Ray, the learner's side, and training with both."""

from surefoot.fleet.on_ray.measure import Curve, Measured, measure
from surefoot.fleet.on_ray.predict import Predicted, better_codec, changes, predict
from surefoot.fleet.on_ray.trainer import FleetTrainer

__all__ = ["Curve", "FleetTrainer", "Measured", "Predicted", "better_codec", "changes", "measure", "predict"]
