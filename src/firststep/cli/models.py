"""``firststep models``."""

from __future__ import annotations

from firststep.simulation.design import MODEL_MEANINGS


def models() -> int:
    """List the models that simulate and baselines can run."""
    for name, meaning in MODEL_MEANINGS.items():
        print(f"{name:<22}{meaning}")
    return 0
