"""[Cui], first experiment: how well the spike points at the teacher, and what it brings, against the samples of the step.

Student tanh, readout all ones, rows on the sphere, beta = 1, alpha = 2, lambda = 0.1 in the paper's convention, step eta_tilde =
2. The paper varies alpha0; the teachers, the noise and the other numbers are chosen here. The relu teacher has a mean, which the
student does not know before the step: the residual is then the whole label and the alignment the lower for it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from firststep.figures.core import Curve, Panel, Scale
from firststep.figures.cui_common import LOOKS, SharedLegend
from firststep.problem import Problem

RANGE = (0.125, 16.0)
TEACHERS = (("tanh", 0.0), ("tanh", 1.0), ("relu", 0.0))  # with the noise of the labels
TICKS = (0.125, 0.25, 0.5, 1, 2, 4, 8, 16)


def problem(teacher: str, noise: float, alpha0: float) -> Problem:
    return Problem.from_cui(
        sigma="tanh",
        sigma_star=teacher,
        alpha=2.0,
        alpha0=alpha0,
        beta=1.0,
        eta_tilde=2.0,
        lambda_=0.1,
        noise=noise,
    )


def curves(scale: Scale, quantity: str) -> list[Curve]:
    at = np.geomspace(*RANGE, scale.points)

    def curve(teacher: str, noise: float, color: str, marker: str) -> Curve:
        label = f"teacher {teacher}" + (f", noise {noise:g}" if noise else "")
        return Curve(
            label,
            lambda a0: problem(teacher, noise, a0),
            at,
            quantity=quantity,
            color=color,
            marker=marker,
        )

    return [curve(*teacher, *look) for teacher, look in zip(TEACHERS, LOOKS, strict=False)]


def gains(scale: Scale) -> list[Curve]:
    """The risk of the same networks, and of the same fit without the step."""

    def still(teacher: str, noise: float, color: str) -> Curve:
        return Curve(
            f"_no step, {teacher} {noise:g}",
            lambda a0: problem(teacher, noise, 0.0),
            line=RANGE,
            model=None,
            color=color,
            style=":",
        )

    return [
        *curves(scale, "risk"),
        *(still(*t, color) for t, (color, _) in zip(TEACHERS, LOOKS, strict=False)),
    ]


def panels(scale: Scale) -> Sequence[Panel]:
    x, label = "alpha0", r"step samples per dimension $\alpha_0 = n_0/d$"
    return [
        Panel(
            curves(scale, "alignment"),
            x,
            label,
            r"alignment $\gamma = \langle\theta, v\rangle/|v|$",
            "the spike finds the teacher",
            yscale="linear",
            xticks=TICKS,
            ylim=(0, 1.02),
            legend=None,
        ),
        Panel(
            gains(scale),
            x,
            label,
            title="and the risk falls (dotted: no step)",
            xticks=TICKS,
            legend=None,
            yticks=(0.03, 0.05, 0.1, 0.2, 0.3, 0.5),
            ylim=(0.02, 0.8),
        ),
    ]


FIGURE = SharedLegend(
    name="cui-alignment",
    title="More data in the step: a better direction and a lower risk",
    source="[Cui] alignment experiment",
    caption=(
        "The alignment of the spike with the teacher grows with alpha0 from nothing to one, slower where the labels hold more that "
        "is not linear in the teacher's direction (noise, a mean). The risk falls with it. A step on too few samples does harm: "
        "where the dotted line of the network without a step is the lower one."
    ),
    panels=panels,
    quick=Scale(dimension=400, replicates=16, points=8),
    full=Scale(dimension=1000, replicates=24, points=8, full=True),
    size=(5.0, 4.0),
    legend_columns=4,
)
