"""Pure data, frozen before a run: task contract, recipe and accounting, seed plan, factors and strata,
panels, digests."""

from surefoot.contract.digests import canonical, digest, text_digest
from surefoot.contract.errors import SurefootError, unknown
from surefoot.contract.factors import Factor, Strata
from surefoot.contract.identity import (
    METRICS_VERSION,
    construct,
    construct_fields,
    construct_id,
    evaluation_plant,
    training_id,
)
from surefoot.contract.model import Frozen
from surefoot.contract.panel import (
    Half,
    Panel,
    Push,
    Scenario,
    Terrain,
    as_half,
    dump_panel,
    load_panel,
    panel_names,
    parse_panel,
)
from surefoot.contract.panels import MAKERS, make_panel
from surefoot.contract.plant import EVALUATION_PLANT, FAST_PLANT, TRAINING_PLANT, Plant
from surefoot.contract.recipe import Accounting, Recipe, account
from surefoot.contract.seeds import (
    RNG_VERSION,
    Channel,
    Disjointness,
    SeedPlan,
    Split,
    prove_disjoint,
    user_channel,
)
from surefoot.contract.task import (
    ActionSpec,
    CommandSpec,
    ObservationTerm,
    Prior,
    RewardTerm,
    Safety,
    Success,
    TaskContract,
    Termination,
)

__all__ = [
    "EVALUATION_PLANT",
    "FAST_PLANT",
    "MAKERS",
    "METRICS_VERSION",
    "RNG_VERSION",
    "TRAINING_PLANT",
    "Accounting",
    "ActionSpec",
    "Channel",
    "CommandSpec",
    "Disjointness",
    "Factor",
    "Frozen",
    "Half",
    "ObservationTerm",
    "Panel",
    "Plant",
    "Prior",
    "Push",
    "Recipe",
    "RewardTerm",
    "Safety",
    "Scenario",
    "SeedPlan",
    "Split",
    "Strata",
    "Success",
    "SurefootError",
    "TaskContract",
    "Termination",
    "Terrain",
    "account",
    "as_half",
    "canonical",
    "construct",
    "construct_fields",
    "construct_id",
    "digest",
    "dump_panel",
    "evaluation_plant",
    "load_panel",
    "make_panel",
    "panel_names",
    "parse_panel",
    "prove_disjoint",
    "text_digest",
    "training_id",
    "unknown",
    "user_channel",
]
