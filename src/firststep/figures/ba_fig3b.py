"""[Ba] Figure 3(b): risk against N/d after a small step, tanh learns relu.

From the caption: d = 512, 50 runs, psi1 = n/d = 5, ridge 1e-2, noise 0.1, kernel lower bound
dashed. Assumption 1 asks for a teacher of mean zero, so the teacher is relu less its mean. The
paper does not give the steps or the range: eta = 0 (random features), 2, 4, 8 and N/d from 0.5 to
8. Lines are the theory at the dimension of the simulation; at d = 512 they differ from the limit d
-> infinity of Theorem 5 by less than 1 %.
"""

from __future__ import annotations

from firststep.figures.ba_common import ba, small_steps, spaced
from firststep.figures.core import Figure
from firststep.figures.shape import Axis, Panel, Scale
from firststep.problem import Problem

WIDTH = Axis(
    "psi2",
    r"neurons per dimension $\psi_2 = N/d$",
    (0.5, 8.0),
    ticks=(0.5, 1, 2, 4, 8),
    spaced=spaced,
)


def problem(psi2: float, eta: float) -> Problem:
    return ba("tanh", "centered(relu)", psi1=5.0, psi2=psi2, eta=eta, lambda_=1e-2)


PANEL = Panel(
    small_steps(problem),
    WIDTH,
    yscale="linear",
    yticks=(0.1, 0.15, 0.2, 0.25, 0.3),
    bound=problem(1, 1),
    legend="upper right",
)
FIGURE = Figure(
    name="ba-fig3b",
    title=r"The gain of a small step fades with the width: tanh learns ReLU, $n = 5d$",
    source="[Ba] Figure 3(b)",
    caption=(
        "A small step helps narrow networks most; as the width grows, all steps fall onto random "
        "features. Points: simulation with one standard error; lines: theory at the same d."
    ),
    panels=lambda _: [PANEL],
    quick=Scale(dimension=256, replicates=8, points=5),
    full=Scale(dimension=512, replicates=50, points=7, full=True),
    size=(6.4, 4.8),
)
