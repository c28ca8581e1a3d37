"""[Cui]: risk against samples, for step batches of several sizes, and for a student that is not the teacher."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from firststep.figures.core import Curve, Figure, Panel, Scale
from firststep.problem import Problem

BASE = dict(beta=1.0, eta_tilde=1.0, lambda_=0.1, readout="ones", init="sphere")
LOOKS = (("blue", "o"), ("orange", "s"), ("green", "^"), ("red", "D"))
RANGE = (0.5, 8.0)


def curves(sigma: str, sigma_star: str, scale: Scale) -> list[Curve]:
    at = np.round(np.geomspace(*RANGE, scale.points), 3)

    def problem(alpha: float, alpha0: float) -> Problem:
        return Problem.from_cui(sigma=sigma, sigma_star=sigma_star, alpha=alpha, alpha0=alpha0, **BASE)

    steps = [
        Curve(rf"$\alpha_0 = {alpha0:g}$", lambda a, a0=alpha0: problem(a, a0), at, color=color, marker=marker)  # type: ignore[misc]
        for alpha0, (color, marker) in zip((0.5, 2.0, 8.0), LOOKS, strict=False)
    ]
    still = Curve("no step", lambda a: problem(a, 1.0), at, model="random-features", color="grey", marker="v")
    return [*steps, still]


def panels(scale: Scale) -> Sequence[Panel]:
    return [_panel(scale, *pair) for pair in (("tanh", "tanh"), ("tanh", "sin"), ("relu", "tanh"))]


def _panel(scale: Scale, sigma: str, sigma_star: str) -> Panel:
    bound = Problem.from_cui(sigma=sigma, sigma_star=sigma_star, alpha=1, alpha0=1, **BASE).kernel_lower_bound
    return Panel(
        curves(sigma, sigma_star, scale), "alpha", r"samples per dimension $\alpha = n/d$", title=f"{sigma} learns {sigma_star}",
        xticks=(0.5, 1, 2, 4, 8), levels=[(bound, "kernel lower bound")],
    )  # fmt: skip


FIGURE = Figure(
    name="cui-learning-curves",
    title="Learning curves after one large step",
    source="[Cui] learning curves",
    caption=(
        "The larger the batch of the gradient step, the better the spike points at the teacher and the lower the risk. With a "
        "small batch (alpha0 = 0.5) the step helps little; a student that differs from the teacher is learned all the same."
    ),
    panels=panels,
    quick=Scale(dimension=300, replicates=6, points=5),
    full=Scale(dimension=1000, replicates=20, points=9, full=True),
)  # fmt: skip
