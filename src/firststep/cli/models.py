"""``firststep models``."""

from __future__ import annotations

from firststep.simulation.kinds import MODELS


def models() -> int:
    """List the models that simulate and baselines can run."""
    for name, meaning in MODELS.where("meaning").items():
        print(f"{name:<22}{meaning}")
    return 0
