"""[Cui], second experiment: a student that is its teacher, and students that are not.

Teachers tanh, sin and relu, each learned by the students tanh, sin, tanh(z + 0.5) and relu after a step on alpha0 = 8 and without
one. beta = 1, eta_tilde = 2, lambda = 0.1 in the paper's convention, rows on the sphere. The readout is signs, so that the neurons
of the one-sided relu bend both ways along the spike (for odd students all ones gives the same risk). The paper compares sigma =
sigma* = tanh with sigma != sigma*; the other pairs and the numbers are chosen here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from firststep.figures.core import Curve, Panel, Scale
from firststep.figures.cui_common import LOOKS, SharedLegend
from firststep.problem import Problem

STUDENTS = ("tanh", "sin", "tanh(z + 0.5)", "relu")
TEACHERS = {
    "tanh": (0.03, 0.05, 0.1, 0.2, 0.4),
    "sin": (0.05, 0.1, 0.2, 0.4),
    "relu": (0.1, 0.2, 0.3, 0.5),
}
RANGE = (0.5, 8.0)


def problem(student: str, teacher: str, alpha: float, alpha0: float) -> Problem:
    return Problem.from_cui(
        sigma=student,
        sigma_star=teacher,
        alpha=alpha,
        alpha0=alpha0,
        beta=1.0,
        eta_tilde=2.0,
        lambda_=0.1,
        readout="signs",
    )


def panels(scale: Scale) -> Sequence[Panel]:
    return [_panel(scale, teacher, ticks) for teacher, ticks in TEACHERS.items()]


def _panel(scale: Scale, teacher: str, yticks: Sequence[float]) -> Panel:
    at = np.round(np.geomspace(*RANGE, scale.points), 3)
    dense = np.geomspace(*RANGE, 21)

    def trained(student: str, color: str, marker: str) -> Curve:
        return Curve(
            f"student {student}",
            lambda a: problem(student, teacher, a, 8.0),
            at,
            color=color,
            marker=marker,
        )

    def still(student: str, color: str) -> Curve:
        return Curve(
            f"_{student} without a step",
            lambda a: problem(student, teacher, a, 0.0),
            line=dense,
            model=None,
            color=color,
            style=":",
        )

    curves = [trained(student, *look) for student, look in zip(STUDENTS, LOOKS, strict=False)]
    curves += [still(student, color) for student, (color, _) in zip(STUDENTS, LOOKS, strict=False)]
    bound = problem(teacher, teacher, 1.0, 1.0).kernel_lower_bound
    return Panel(
        curves,
        "alpha",
        r"samples per dimension $\alpha = n/d$",
        title=f"teacher {teacher} (dotted: no step)",
        xticks=(0.5, 1, 2, 4, 8),
        yticks=yticks,
        levels=[(bound, "kernel lower bound")],
        legend=None,
    )


FIGURE = SharedLegend(
    name="cui-activations",
    title="One step helps students that are not their teacher",
    source="[Cui] activation experiment",
    caption=(
        "Every student gains from the step, whether its activation is the teacher's or not; what is left tells how well copies of "
        "the student along the spike, of both signs, imitate the teacher. The sin student learns sin best, and below the kernel "
        "bound; odd students cannot learn the even half of relu and stay far above the others there."
    ),
    panels=panels,
    quick=Scale(dimension=400, replicates=8, points=5),
    full=Scale(dimension=1000, replicates=20, points=6, full=True),
    size=(4.4, 3.9),
)
