"""What the figures of [Cui] share: their axes and their setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from firststep.figures.shape import Axis, Curve
from firststep.problem import Problem

CENTERED_RELU = "relu(z) - 0.3989422804014327"  # relu minus its Gaussian mean
SAMPLES = Axis(
    "alpha", r"samples per dimension $\alpha = n/d$", (0.5, 8.0), ticks=(0.5, 1, 2, 4, 8)
)


def cui(sigma: str, sigma_star: str, **given: float | str) -> Problem:
    """The paper's setting: beta = 1 and lambda = 0.1 in its convention."""
    return Problem.from_cui(sigma=sigma, sigma_star=sigma_star, beta=1.0, lambda_=0.1, **given)


# The spiked model with the isotropic theory that describes it.
spiked = partial(Curve, model="spiked", color="orange", marker="s", style="--")
# Theory alone, of the network without a step.
without_step = partial(Curve, model=None, style=":")


def stilled(curves: Sequence[Curve], line: Sequence[float]) -> list[Curve]:
    """The theory of the same problems without a step: dotted lines, not in the legend."""

    def still(x: float, problem: Callable[[float], Problem]) -> Problem:
        return problem(x).replace(alpha0=0.0)

    return [
        without_step(
            f"_{each.label}", partial(still, problem=each.problem), line=line, color=each.color
        )
        for each in curves
    ]
