"""What the figures of [Cui] share: their axes and their setting."""

from __future__ import annotations

from functools import partial
from typing import Any

from firststep.figures.shape import Axis, Curve
from firststep.problem import Problem

CENTERED_RELU = "relu(z) - 0.3989422804014327"  # relu minus its Gaussian mean
SAMPLES = Axis(
    "alpha", r"samples per dimension $\alpha = n/d$", (0.5, 8.0), ticks=(0.5, 1, 2, 4, 8)
)


def cui(sigma: str, sigma_star: str, **given: Any) -> Problem:
    """The paper's setting: beta = 1 and lambda = 0.1 in its convention."""
    return Problem.from_cui(sigma=sigma, sigma_star=sigma_star, beta=1.0, lambda_=0.1, **given)


# The spiked model with the isotropic theory that describes it.
spiked = partial(Curve, model="spiked", color="orange", marker="s", style="--")
# Theory alone, of the network without a step.
without_step = partial(Curve, model=None, style=":")
