"""[Cui]: risk against samples, for step batches of several sizes, matched and mismatched activations.

The student tanh with the teachers tanh and sin has the readout of the paper's experiments: all ones, rows on the sphere, step
eta_tilde = 3, lambda = 0.1 in the paper's convention (ridge 0.1 beta/alpha in ours), beta = 1. The third panel, relu learning
tanh, has signs: with all ones every relu neuron bends the same way along the spike, so their mean cannot follow an odd teacher,
whatever the batch. The step 3 is the paper's for tanh and sin; alpha0 in {0.5, 2, 8} and the range of alpha are chosen here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from firststep.figures.core import Curve, Panel, Scale
from firststep.figures.cui_common import LOOKS, SharedLegend
from firststep.problem import Problem

RANGE = (0.5, 8.0)
BATCHES = (0.5, 2.0, 8.0)  # alpha0


def problem(sigma: str, sigma_star: str, readout: str, alpha: float, alpha0: float) -> Problem:
    return Problem.from_cui(
        sigma=sigma,
        sigma_star=sigma_star,
        alpha=alpha,
        alpha0=alpha0,
        beta=1.0,
        eta_tilde=3.0,
        lambda_=0.1,
        readout=readout,
    )


def panels(scale: Scale) -> Sequence[Panel]:
    return [
        _panel(scale, "tanh", "tanh", "ones", (0.02, 0.03, 0.05, 0.1, 0.2, 0.3)),
        _panel(scale, "tanh", "sin", "ones", (0.04, 0.06, 0.1, 0.2, 0.3, 0.4)),
        _panel(scale, "relu", "tanh", "signs", (0.02, 0.03, 0.05, 0.1, 0.2, 0.4)),
    ]


def _panel(
    scale: Scale, sigma: str, sigma_star: str, readout: str, yticks: Sequence[float]
) -> Panel:
    at = np.round(np.geomspace(*RANGE, scale.points), 3)

    def curve(alpha0: float, color: str, marker: str) -> Curve:
        label = rf"step on $\alpha_0 = {alpha0:g}$"
        return Curve(
            label,
            lambda alpha: problem(sigma, sigma_star, readout, alpha, alpha0),
            at,
            color=color,
            marker=marker,
        )

    still = Curve(
        "no step",
        lambda alpha: problem(sigma, sigma_star, readout, alpha, 1.0),
        at,
        model="random-features",
        color="grey",
        marker="v",
    )
    curves = [curve(alpha0, *look) for alpha0, look in zip(BATCHES, LOOKS, strict=False)]
    bound = problem(sigma, sigma_star, readout, 1.0, 1.0).kernel_lower_bound
    return Panel(
        [*curves, still],
        "alpha",
        r"samples per dimension $\alpha = n/d$",
        title=f"{sigma} learns {sigma_star}, readout {readout}",
        xticks=(0.5, 1, 2, 4, 8),
        yticks=yticks,
        levels=[(bound, "kernel lower bound")],
        legend=None,
    )


FIGURE = SharedLegend(
    name="cui-learning-curves",
    title="Learning curves after one large step",
    source="[Cui] learning curves",
    caption=(
        "The larger the batch of the gradient step, the better the spike points at the teacher and the lower the risk; with enough "
        "step data it falls below what any kernel reaches. The same large step on a small batch (alpha0 = 0.5) hurts: its noise "
        "outweighs what it learns. A student that differs from the teacher learns it all the same."
    ),
    panels=panels,
    quick=Scale(dimension=400, replicates=12, points=5),
    full=Scale(dimension=1000, replicates=20, points=8, full=True),
    size=(4.4, 3.9),
)
