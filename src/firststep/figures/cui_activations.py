"""[Cui], second experiment: a student that is its teacher, and students that are not.

Teachers tanh, sin and relu, each learned by the students tanh, sin, tanh(z + 0.5) and relu after a
step on alpha0 = 8 and without one. beta = 1, eta_tilde = 2, lambda = 0.1 in the paper's convention,
rows on the sphere. The readout is signs, so that the neurons of the one-sided relu bend both ways
along the spike (for odd students all ones gives the same risk). The paper compares sigma = sigma* =
tanh with sigma != sigma*; the other pairs and the numbers are chosen here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from firststep.figures.core import Figure
from firststep.figures.cui_common import SAMPLES, cui, stilled
from firststep.figures.shape import Panel, Scale, family
from firststep.problem import Problem

STUDENTS = ("tanh", "sin", "tanh(z + 0.5)", "relu")
TEACHERS = {
    "tanh": (0.03, 0.05, 0.1, 0.2, 0.4),
    "sin": (0.05, 0.1, 0.2, 0.4),
    "relu": (0.1, 0.2, 0.3, 0.5),
}
LINE = tuple(np.geomspace(0.5, 8.0, 21))


def problem(alpha: float, student: str, teacher: str) -> Problem:
    return cui(student, teacher, alpha=alpha, alpha0=8.0, eta_tilde=2.0, readout="signs")


def panel(teacher: str, yticks: Sequence[float]) -> Panel:
    students = {f"student {each}": {"student": each} for each in STUDENTS}
    curves = family(partial(problem, teacher=teacher), students)
    return Panel(
        [*curves, *stilled(curves, LINE)],
        SAMPLES,
        title=f"teacher {teacher} (dotted: no step)",
        yticks=yticks,
        bound=problem(1.0, teacher, teacher),
    )


PANELS = tuple(panel(teacher, yticks) for teacher, yticks in TEACHERS.items())
FIGURE = Figure(
    name="cui-activations",
    title="One step helps students that are not their teacher",
    source="[Cui] activation experiment",
    caption=(
        "Every student gains from the step, whether its activation is the teacher's or not; what "
        "is left tells how well copies of the student along the spike, of both signs, imitate the "
        "teacher. The sin student learns sin best, and below the kernel bound; odd students cannot "
        "learn the even half of relu and stay far above the others there."
    ),
    panels=lambda _: PANELS,
    quick=Scale(dimension=400, replicates=8, points=5),
    full=Scale(dimension=1000, replicates=20, points=6, full=True),
    size=(4.4, 3.9),
    legend_columns=5,
)
