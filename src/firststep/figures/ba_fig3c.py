"""[Ba] Figure 3(c): risk against n/d for steps eta = N^a from small to large, erf learns erf.

From the caption: d = 512, 50 runs, psi2 = N/d = 2, ridge 1e-3, noise 0.1, a in [0, 1/2], kernel
lower bound dashed. The paper does not list the exponents or the range: a = 0, 1/8, 1/4, 3/8, 1/2
and n/d from 0.5 to 16, across the peak at n = N. Lines are the theory at the dimension of the
simulation: for exponents strictly between 0 and 1/2 there is none at d = infinity.
"""

from __future__ import annotations

from firststep.figures.ba_common import LOOKS, SAMPLES, ba
from firststep.figures.core import Figure
from firststep.figures.shape import Panel, Scale, family
from firststep.problem import Problem

EXPONENTS = {"0": 0, "1/8": 0.125, "1/4": 0.25, "3/8": 0.375, "1/2": 0.5}


def problem(psi1: float, exponent: float) -> Problem:
    return ba("erf", "erf", psi1=psi1, eta_exponent=exponent, lambda_=1e-3)


PANEL = Panel(
    family(
        problem,
        {rf"$\eta = $ $N^{{{text}}}$": {"exponent": a} for text, a in EXPONENTS.items()},
        LOOKS,
    ),
    SAMPLES,
    yticks=(0.02, 0.05, 0.1, 0.2, 0.4),
    bound=problem(1, 0),
    legend="upper right",
)
FIGURE = Figure(
    name="ba-fig3c",
    title=r"From small to large steps: erf learns erf, $N = 2d$",
    source="[Ba] Figure 3(c)",
    caption=(
        "The larger the exponent of the step, the lower the risk once there are samples enough; "
        "only the large step, N^(1/2), crosses the kernel lower bound. Points: simulation with one "
        "standard error; lines: theory at the same d."
    ),
    panels=lambda _: [PANEL],
    quick=Scale(dimension=256, replicates=7, points=6),
    full=Scale(dimension=512, replicates=50, points=6, full=True),
    size=(6.4, 4.8),
)
