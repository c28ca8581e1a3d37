"""[Ba] Figure 3(c): risk against n/d for steps eta = N^a between the small and the large one, erf learns erf.

From the caption: d = 512, 50 runs, psi2 = N/d = 2, ridge 1e-3, noise 0.1, a in [0, 1/2], kernel lower bound dashed. The paper
does not list the exponents or the range: a = 0, 1/8, 1/4, 3/8, 1/2 and n/d from 0.5 to 16, across the peak at n = N. Lines are
the theory at the dimension of the simulation: for exponents strictly between 0 and 1/2 there is none at d = infinity.
"""

from __future__ import annotations

from collections.abc import Sequence

from firststep.figures.ba_common import LOOKS, around, spaced
from firststep.figures.core import Curve, Figure, Panel, Scale
from firststep.problem import Problem

BASE = dict(sigma="erf", sigma_star="erf", psi2=2.0, eta=1.0, lambda_=1e-3, sigma_epsilon=0.1)
EXPONENTS = {
    0: "$N^{0}$",
    0.125: "$N^{1/8}$",
    0.25: "$N^{1/4}$",
    0.375: "$N^{3/8}$",
    0.5: "$N^{1/2}$",
}
RANGE = (0.5, 16.0)


def problem(psi1: float, exponent: float) -> Problem:
    return Problem.from_ba(psi1=psi1, eta_exponent=exponent, **BASE)


def panels(scale: Scale) -> Sequence[Panel]:
    at = spaced(*RANGE, scale.points)
    line = around(2.0, *RANGE)  # n = N
    curves = [
        Curve(
            rf"$\eta = $ {text}",
            lambda x, a=exponent: problem(x, a),
            at,
            line,
            color=color,
            marker=marker,
        )  # type: ignore[misc]
        for (exponent, text), (color, marker) in zip(EXPONENTS.items(), LOOKS, strict=True)
    ]
    bound = problem(1, 0).kernel_lower_bound
    return [
        Panel(
            curves,
            "psi1",
            r"samples per dimension $\psi_1 = n/d$",
            xticks=(0.5, 1, 2, 4, 8, 16),
            yticks=(0.02, 0.05, 0.1, 0.2, 0.4),
            levels=[(bound, "kernel lower bound")],
            legend="upper right",
        )
    ]


FIGURE = Figure(
    name="ba-fig3c",
    title=r"From small to large steps: erf learns erf, $N = 2d$",
    source="[Ba] Figure 3(c)",
    caption=(
        "The larger the exponent of the step, the lower the risk once there are samples enough; only the large step, "
        "N^(1/2), crosses the kernel lower bound. Points: simulation with one standard error; lines: theory at the same "
        "d."
    ),
    panels=panels,
    quick=Scale(dimension=256, replicates=7, points=6),
    full=Scale(dimension=512, replicates=50, points=6, full=True),
    size=(6.4, 4.8),
)
