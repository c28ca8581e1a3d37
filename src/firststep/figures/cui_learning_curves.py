"""[Cui]: risk against samples, for step batches of several sizes and several activations.

The student tanh with the teachers tanh and sin has the readout of the paper's experiments: all
ones, rows on the sphere, step eta_tilde = 3, lambda = 0.1 in the paper's convention (ridge 0.1
beta/alpha in ours), beta = 1. The third panel, relu learning tanh, has signs: with all ones every
relu neuron bends the same way along the spike, so their mean cannot follow an odd teacher, whatever
the batch. The step 3 is the paper's for tanh and sin; alpha0 in {0.5, 2, 8} and the range of alpha
are chosen here.
"""

from __future__ import annotations

from collections.abc import Sequence

from firststep.figures.core import Figure
from firststep.figures.cui_common import SAMPLES, cui
from firststep.figures.shape import Panel, Scale, family, no_step
from firststep.problem import Problem

BATCHES = (0.5, 2.0, 8.0)  # alpha0


def panel(sigma: str, sigma_star: str, readout: str, yticks: Sequence[float]) -> Panel:
    def problem(alpha: float, alpha0: float = 1.0) -> Problem:
        return cui(sigma, sigma_star, alpha=alpha, alpha0=alpha0, eta_tilde=3.0, readout=readout)

    steps = {rf"step on $\alpha_0 = {alpha0:g}$": {"alpha0": alpha0} for alpha0 in BATCHES}
    return Panel(
        [*family(problem, steps), no_step("no step", problem)],
        SAMPLES,
        title=f"{sigma} learns {sigma_star}, readout {readout}",
        yticks=yticks,
        bound=problem(1.0),
    )


PANELS = (
    panel("tanh", "tanh", "ones", (0.02, 0.03, 0.05, 0.1, 0.2, 0.3)),
    panel("tanh", "sin", "ones", (0.04, 0.06, 0.1, 0.2, 0.3, 0.4)),
    panel("relu", "tanh", "signs", (0.02, 0.03, 0.05, 0.1, 0.2, 0.4)),
)
FIGURE = Figure(
    name="cui-learning-curves",
    title="Learning curves after one large step",
    source="[Cui] learning curves",
    caption=(
        "The larger the batch of the gradient step, the better the spike points at the teacher and "
        "the lower the risk; with enough step data it falls below what any kernel reaches. The "
        "same large step on a small batch (alpha0 = 0.5) hurts: its noise outweighs what it "
        "learns. A student that differs from the teacher learns it all the same."
    ),
    panels=lambda _: PANELS,
    quick=Scale(dimension=400, replicates=12, points=5),
    full=Scale(dimension=1000, replicates=20, points=8, full=True),
    size=(4.4, 3.9),
    legend_columns=5,
)
