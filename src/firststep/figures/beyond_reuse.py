"""Beyond fresh data: the readout fitted on the batch that the step has already seen.

The theory takes fresh samples for the readout. Here the n = alpha d samples of the step serve the
readout as well, and are compared with n fresh ones, and with the same n samples split into halves,
one for the step and one for the readout. Gaussian readout, step 2, beta = 1, noise 0.3, two ridges
and two students; alpha runs from 0.5 to 16. Differences of the reused points from the fresh-data
theory are in the table (column ``relative``) and do not enter the verdict.
"""

from __future__ import annotations

from firststep.figures.core import Figure
from firststep.figures.shape import Axis, Curve, Panel, Scale, learns, no_step
from firststep.problem import Problem

SAMPLES = Axis(
    "alpha",
    r"samples per dimension $\alpha$ (fresh: for each)",
    (0.5, 16.0),
    ticks=(0.5, 1, 2, 4, 8, 16),
)


def panel(student: str, ridge: float) -> Panel:
    def problem(alpha: float) -> Problem:
        return learns(student, "tanh", alpha=alpha, step=2.0, ridge=ridge, noise=0.3)

    again = Curve(
        "the step's samples again",
        problem,
        bulk="exact",
        color="orange",
        marker="s",
        style="None",
        judged=False,
        options={"reuse": True},
    )
    return Panel(
        [
            Curve("as many fresh samples for the readout", problem),
            again,
            Curve("one half for each", lambda x: problem(x / 2), color="green", marker="^"),
            no_step("no step", problem),
        ],
        SAMPLES,
        title=f"{student} learns tanh, ridge {ridge:g}",
    )


PANELS = (panel("tanh", 0.01), panel("tanh", 1.0), panel("relu", 0.1))
FIGURE = Figure(
    name="beyond-reuse",
    title="One batch for both: the readout fitted on the step's own data",
    source="firststep",
    caption=(
        "Using the step's samples again is better than splitting them into halves, at every point. "
        "Against as many fresh samples it loses a few per cent where the ridge is large or samples "
        "are many, and wins where both are small: there the fit of fresh samples is dominated by "
        "its variance. Lines: exact theory of fresh data; the squares have none."
    ),
    panels=lambda _: PANELS,
    quick=Scale(dimension=300, replicates=10, points=5),
    full=Scale(dimension=600, replicates=16, points=7, full=True),
    size=(4.4, 3.9),
    legend_columns=5,
)
