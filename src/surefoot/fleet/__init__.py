"""A fleet: one learner and many actors. What is here needs neither Ray nor torch; `surefoot.fleet.on_ray` has
what runs.
"""

from surefoot.fleet.codecs import PLAIN
from surefoot.fleet.options import FleetOptions, check_alone, check_resumed
from surefoot.fleet.sizing import GIGA, Sizing, calculate, exact
from surefoot.fleet.status import FleetStatus, fleet_status, fleets_in, stop_holder

__all__ = [
    "GIGA",
    "PLAIN",
    "FleetOptions",
    "FleetStatus",
    "Sizing",
    "calculate",
    "check_alone",
    "check_resumed",
    "exact",
    "fleet_status",
    "fleets_in",
    "stop_holder",
]
