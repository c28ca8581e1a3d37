"""[Ba] Figure 3(a): risk against n/d after a small step, tanh learns softplus.

From the caption: d = 512, 50 runs, psi2 = N/d = 2, ridge 1e-4, noise 0.25, kernel lower bound
dashed. Assumption 1 asks for a teacher of mean zero, so the teacher is softplus less its mean. The
paper does not give the steps or the range: eta = 0 (random features), 2, 4, 8 and n/d from 0.5 to
16, across the peak at n = N. Lines are the theory at the dimension of the simulation; at d = 512
they differ from the limit d -> infinity of Theorem 5 by less than 1 %.
"""

from __future__ import annotations

from firststep.figures.ba_common import SAMPLES, ba, small_steps
from firststep.figures.core import Figure
from firststep.figures.shape import Panel, Scale
from firststep.problem import Problem


def problem(psi1: float, eta: float) -> Problem:
    pair = "tanh", "centered(softplus)"
    return ba(*pair, psi1=psi1, eta=eta, lambda_=1e-4, sigma_epsilon=0.25)


PANEL = Panel(
    small_steps(problem),
    SAMPLES,
    yticks=(0.02, 0.05, 0.1, 0.2, 0.5, 1),
    bound=problem(1, 1),
    legend="upper right",
)
FIGURE = Figure(
    name="ba-fig3a",
    title=r"A small step always helps: tanh learns softplus, $N = 2d$",
    source="[Ba] Figure 3(a)",
    caption=(
        "The larger the small step, the lower the risk, at every number of samples; no small step "
        "crosses the kernel lower bound. Points: simulation with one standard error; lines: theory "
        "at the same d."
    ),
    panels=lambda _: [PANEL],
    quick=Scale(dimension=256, replicates=8, points=6),
    full=Scale(dimension=512, replicates=50, points=8, full=True),
    size=(6.4, 4.8),
)
