"""[Cui], first experiment: how well the spike points at the teacher, against the step's samples.

Student tanh, readout all ones, rows on the sphere, beta = 1, alpha = 2, lambda = 0.1 in the paper's
convention, step eta_tilde = 2. The paper varies alpha0; the teachers, the noise and the other
numbers are chosen here. The relu teacher has a mean, which the student does not know before the
step: the residual is then the whole label and the alignment the lower for it.
"""

from __future__ import annotations

import numpy as np

from firststep.figures.core import Figure
from firststep.figures.cui_common import cui, stilled
from firststep.figures.shape import Axis, Panel, Scale, family
from firststep.problem import Problem

RANGE = (0.125, 16.0)
TEACHERS = (("tanh", 0.0), ("tanh", 1.0), ("relu", 0.0))  # with the noise of the labels
BATCH = Axis(
    "alpha0",
    r"step samples per dimension $\alpha_0 = n_0/d$",
    RANGE,
    ticks=(0.125, 0.25, 0.5, 1, 2, 4, 8, 16),
    spaced=np.geomspace,
)


def problem(alpha0: float, teacher: str, noise: float) -> Problem:
    return cui("tanh", teacher, alpha=2.0, alpha0=alpha0, eta_tilde=2.0, noise=noise)


MEMBERS = {
    f"teacher {teacher}" + (f", noise {noise:g}" if noise else ""): {
        "teacher": teacher,
        "noise": noise,
    }
    for teacher, noise in TEACHERS
}
RISKS = family(problem, MEMBERS)
PANELS = (
    Panel(
        family(problem, MEMBERS, quantity="alignment"),
        BATCH,
        ylabel=r"alignment $\gamma = \langle\theta, v\rangle/|v|$",
        title="the spike finds the teacher",
        yscale="linear",
        ylim=(0, 1.02),
    ),
    Panel(
        [*RISKS, *stilled(RISKS, RANGE)],
        BATCH,
        title="and the risk falls (dotted: no step)",
        yticks=(0.03, 0.05, 0.1, 0.2, 0.3, 0.5),
        ylim=(0.02, 0.8),
    ),
)
FIGURE = Figure(
    name="cui-alignment",
    title="More data in the step: a better direction and a lower risk",
    source="[Cui] alignment experiment",
    caption=(
        "The alignment of the spike with the teacher grows with alpha0 from nothing to one, slower "
        "where the labels hold more that is not linear in the teacher's direction (noise, a mean). "
        "The risk falls with it. A step on too few samples does harm: where the dotted line of the "
        "network without a step is the lower one."
    ),
    panels=lambda _: PANELS,
    quick=Scale(dimension=400, replicates=16, points=8),
    full=Scale(dimension=1000, replicates=24, points=8, full=True),
    size=(5.0, 4.0),
    legend_columns=4,
)
