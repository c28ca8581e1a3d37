"""[Cui], third experiment: risk against the size of the step, its optimum, and steps that are too large.

tanh learns tanh with readout ones, and relu learns tanh with readout signs, after steps on three batches. beta = 1, alpha = 2,
rows on the sphere, lambda = 0.1 in the paper's convention; the paper asks for the best step between feature learning and
stability, the numbers are chosen here. Stars: the optimal step of the theory (``firststep.optimal``) at the dimension of the
simulations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from firststep.figures.core import Curve, Panel, Scale
from firststep.figures.cui_common import LOOKS, SharedLegend
from firststep.plots import COLORS
from firststep.problem import Problem
from firststep.theory.one_step.optimum import optimal

BATCHES = (0.5, 2.0, 8.0)  # alpha0
RANGE = (0.05, 20.0)
PAIRS = (("tanh", "ones"), ("relu", "signs"))
TICKS = (0.05, 0.2, 1, 5, 20)


def problem(student: str, readout: str, alpha0: float, step: float) -> Problem:
    return Problem.from_cui(
        sigma=student,
        sigma_star="tanh",
        alpha=2.0,
        alpha0=alpha0,
        beta=1.0,
        eta_tilde=step,
        lambda_=0.1,
        readout=readout,
    )


def curves(scale: Scale, student: str, readout: str) -> list[Curve]:
    at = np.round(np.geomspace(*RANGE, scale.points), 4)

    def curve(alpha0: float, color: str, marker: str) -> Curve:
        label = rf"step on $\alpha_0 = {alpha0:g}$"
        return Curve(
            label,
            lambda step: problem(student, readout, alpha0, step),
            at,
            color=color,
            marker=marker,
        )

    return [curve(alpha0, *look) for alpha0, look in zip(BATCHES, LOOKS, strict=False)]


@cache
def best(student: str, readout: str, alpha0: float, dimension: int) -> tuple[float, float]:
    """The optimal step and its risk."""
    found = optimal(
        problem(student, readout, alpha0, 1.0).replace(dimension=dimension),
        "step",
        ranges={"step": RANGE},
    )
    return found.values["step"], found.risk


def panels(scale: Scale) -> Sequence[Panel]:
    return [_panel(scale, student, readout) for student, readout in PAIRS]


def _panel(scale: Scale, student: str, readout: str) -> Panel:
    def stars(axes: Any) -> None:
        for alpha0, (color, _) in zip(BATCHES, LOOKS, strict=False):
            step, risk = best(student, readout, alpha0, scale.dimension)
            look = dict(markersize=13, markeredgecolor="black", linestyle="none", zorder=5)
            axes.plot([step], [risk], "*", color=COLORS[color], **look)
        axes.plot([], [], "*", color="white", **look, label="optimal step")

    still = Curve(
        "no step",
        lambda step: problem(student, readout, 0.0, 1.0),
        line=RANGE,
        model=None,
        color="grey",
        style=":",
    )
    bound = problem(student, readout, 1.0, 1.0).kernel_lower_bound
    return Panel(
        [*curves(scale, student, readout), still],
        "step",
        r"step size $\tilde\eta$",
        title=f"{student} learns tanh, readout {readout}",
        xticks=TICKS,
        yticks=(0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5),
        levels=[(bound, "kernel lower bound")],
        legend=None,
        decorate=stars,
    )


FIGURE = SharedLegend(
    name="cui-step-size",
    title="The size of the step: too small to learn, too large to generalise",
    source="[Cui] learning-rate experiment",
    caption=(
        "A short step leaves random features. A longer one learns the teacher's direction, the better the larger its batch, and "
        "the risk has a minimum. Beyond it the bulk of the weights grows with the noise of the gradient: on a small batch the "
        "network is soon worse than without any step, while larger batches allow steps several times as long."
    ),
    panels=panels,
    quick=Scale(dimension=400, replicates=12, points=7),
    full=Scale(dimension=1000, replicates=20, points=9, full=True),
    size=(5.4, 4.2),
    legend_columns=6,
)
