"""[Ba] Figure 1: risk against n/d of an erf student after a small and a large step, with d/n.

The caption names the student (erf), the three models and the rate, and no number. Chosen here:
teacher erf (as in Figure 3(c), where [Ba] Corollary 8 gives the rate), psi2 = N/d = 2, ridge 1e-2,
noise 0.1, and d and the number of runs of Figure 3. The small step is eta = 4, the large one eta =
2 sqrt(N). The ridge is ten times that of Figure 3(c), which flattens the peak at n = N. Lines are
the theory at the dimension of the simulation; the guide line is 0.13 d/n, a constant chosen by eye.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from firststep.figures.ba_common import SAMPLES, ba, guide, spaced
from firststep.figures.core import Figure
from firststep.figures.shape import Curve, Panel, Scale, no_step
from firststep.problem import Problem

RANGE = (0.5, 32.0)
RATE = 0.13
AXIS = replace(SAMPLES, ends=RANGE, ticks=(0.5, 1, 2, 4, 8, 16, 32), line=spaced(*RANGE, 33))


def problem(psi1: float, eta: float = 4, exponent: float = 0) -> Problem:
    return ba("erf", "erf", psi1=psi1, eta=eta, eta_exponent=exponent, lambda_=1e-2)


PANEL = Panel(
    [
        no_step("random features (no step)", problem, color="orange", marker="s"),
        Curve(r"small step, $\eta = 4$", problem, color="pink", marker="^"),
        Curve(r"large step, $\eta = 2\sqrt{N}$", partial(problem, eta=2, exponent=0.5)),
    ],
    AXIS,
    yticks=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4),
    bound=problem(1),
    legend="lower left",
    decorate=guide(lambda x: RATE / x, (2.5, 34), r"rate $d/n$"),
)
FIGURE = Figure(
    name="ba-fig1",
    title="One large step goes below the kernel lower bound: erf learns erf",
    source="[Ba] Figure 1",
    caption=(
        "A small step lowers the risk of random features, but stays above the kernel lower bound. "
        "After a large step the risk falls below the bound and goes on falling like d/n. Points: "
        "simulation with one standard error; lines: theory at the same d."
    ),
    panels=lambda _: [PANEL],
    quick=Scale(dimension=250, replicates=8, points=7),
    full=Scale(dimension=512, replicates=50, points=9, full=True),
    size=(6.4, 4.8),
)
