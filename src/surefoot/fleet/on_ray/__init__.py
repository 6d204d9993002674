"""A fleet that runs: actors on Ray, the learner's side, and training with both."""

from surefoot.fleet.on_ray.trainer import FleetTrainer

__all__ = ["FleetTrainer"]
