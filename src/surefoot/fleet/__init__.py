"""A fleet: one learner and many actors. What is here needs neither Ray nor torch; `surefoot.fleet.on_ray` has
what runs.
"""

from surefoot.fleet.sizing import Sizing, calculate

__all__ = ["Sizing", "calculate"]
