"""[Ba] Figure 3(b): risk against N/d after a small step, tanh learns relu.

From the caption: d = 512, 50 runs, psi1 = n/d = 5, ridge 1e-2, noise 0.1, kernel lower bound dashed. Assumption 1 asks for a
teacher of mean zero, so the teacher is relu less its mean. The paper does not give the steps or the range: eta = 0 (random
features), 2, 4, 8 and N/d from 0.5 to 8. Lines are the theory at the dimension of the simulation; at d = 512 they differ from
the limit d -> infinity of Theorem 5 by less than 1 %.
"""

from __future__ import annotations

from collections.abc import Sequence

from firststep.figures.ba_common import LOOKS, spaced
from firststep.figures.core import Curve, Figure, Panel, Scale
from firststep.problem import Problem

BASE = dict(sigma="tanh", sigma_star="centered(relu)", psi1=5.0, lambda_=1e-2, sigma_epsilon=0.1)
STEPS = (2, 4, 8)
RANGE = (0.5, 8.0)


def problem(psi2: float, eta: float) -> Problem:
    return Problem.from_ba(psi2=psi2, eta=eta, **BASE)


def panels(scale: Scale) -> Sequence[Panel]:
    at = spaced(*RANGE, scale.points)
    (color, marker), *looks = LOOKS
    still = Curve(
        r"$\eta = 0$ (random features)",
        lambda x: problem(x, 1),
        at,
        model="random-features",
        color=color,
        marker=marker,
    )
    moved = [
        Curve(
            rf"$\eta = {eta}$", lambda x, eta=eta: problem(x, eta), at, color=color, marker=marker
        )  # type: ignore[misc]
        for eta, (color, marker) in zip(STEPS, looks, strict=False)
    ]
    bound = problem(1, 1).kernel_lower_bound
    return [
        Panel(
            [still, *moved],
            "psi2",
            r"neurons per dimension $\psi_2 = N/d$",
            yscale="linear",
            xticks=(0.5, 1, 2, 4, 8),
            yticks=(0.1, 0.15, 0.2, 0.25, 0.3),
            levels=[(bound, "kernel lower bound")],
            legend="upper right",
        )
    ]


FIGURE = Figure(
    name="ba-fig3b",
    title=r"The gain of a small step fades with the width: tanh learns ReLU, $n = 5d$",
    source="[Ba] Figure 3(b)",
    caption=(
        "A small step helps narrow networks most; as the width grows, all steps fall onto random features. Points: "
        "simulation with one standard error; lines: theory at the same d."
    ),
    panels=panels,
    quick=Scale(dimension=256, replicates=8, points=5),
    full=Scale(dimension=512, replicates=50, points=7, full=True),
    size=(6.4, 4.8),
)
