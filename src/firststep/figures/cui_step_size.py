"""[Cui], third experiment: risk against the size of the step, its optimum, and too large steps.

tanh learns tanh with readout ones, and relu learns tanh with readout signs, after steps on three
batches. beta = 1, alpha = 2, rows on the sphere, lambda = 0.1 in the paper's convention; the paper
asks for the best step between feature learning and stability, the numbers are chosen here. Stars:
the optimal step of the theory (``firststep.optimal``) at the dimension of the simulations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from firststep.figures.core import Figure
from firststep.figures.cui_common import cui, without_step
from firststep.figures.shape import LOOKS, Axis, Panel, Scale, family, rounded
from firststep.plots import COLORS
from firststep.problem import Problem
from firststep.theory.one_step.optimum import optimal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BATCHES = (0.5, 2.0, 8.0)  # alpha0
RANGE = (0.05, 20.0)
PAIRS = (("tanh", "ones"), ("relu", "signs"))
STEP = Axis(
    "step",
    r"step size $\tilde\eta$",
    RANGE,
    ticks=(0.05, 0.2, 1, 5, 20),
    spaced=partial(rounded, decimals=4),
)


def problem(step: float, student: str, readout: str, alpha0: float = 1.0) -> Problem:
    return cui(student, "tanh", alpha=2.0, alpha0=alpha0, eta_tilde=step, readout=readout)


@cache
def best(student: str, readout: str, alpha0: float, dimension: int) -> tuple[float, float]:
    """The optimal step and its risk."""
    question = problem(1.0, student, readout, alpha0).replace(dimension=dimension)
    found = optimal(question, "step", ranges={"step": RANGE})
    return found.values["step"], found.risk


def panel(scale: Scale, student: str, readout: str) -> Panel:
    taken = partial(problem, student=student, readout=readout)

    def stars(axes: Axes) -> None:
        look: dict[str, Any] = dict(
            markersize=13, markeredgecolor="black", linestyle="none", zorder=5
        )
        for alpha0, (color, _) in zip(BATCHES, LOOKS, strict=False):
            step, risk = best(student, readout, alpha0, scale.dimension)
            axes.plot([step], [risk], "*", color=COLORS[color], **look)
        axes.plot([], [], "*", color="white", **look, label="optimal step")

    steps = {rf"step on $\alpha_0 = {alpha0:g}$": {"alpha0": alpha0} for alpha0 in BATCHES}
    still = without_step("no step", lambda _: taken(1.0, alpha0=0.0), line=RANGE, color="grey")
    return Panel(
        [*family(taken, steps), still],
        STEP,
        title=f"{student} learns tanh, readout {readout}",
        yticks=(0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5),
        bound=taken(1.0),
        decorate=stars,
    )


def panels(scale: Scale) -> Sequence[Panel]:
    return [panel(scale, student, readout) for student, readout in PAIRS]


FIGURE = Figure(
    name="cui-step-size",
    title="The size of the step: too small to learn, too large to generalise",
    source="[Cui] learning-rate experiment",
    caption=(
        "A short step leaves random features. A longer one learns the teacher's direction, the "
        "better the larger its batch, and the risk has a minimum. Beyond it the bulk of the "
        "weights grows with the noise of the gradient: on a small batch the network is soon worse "
        "than without any step, while larger batches allow steps several times as long."
    ),
    panels=panels,
    quick=Scale(dimension=400, replicates=12, points=7),
    full=Scale(dimension=1000, replicates=20, points=9, full=True),
    size=(5.4, 4.2),
    legend_columns=6,
)
