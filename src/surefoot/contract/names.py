"""Names that rows and files use for what there is exactly one of."""

from __future__ import annotations

NOMINAL = "nominal"
"""The column of a panel whose scenarios are as they are."""
TRAINED = "trained"
"""What rows call the policy that was trained, beside the baselines' names."""
REFERENCE = "mujoco"
"""The engine that results are stated on."""
