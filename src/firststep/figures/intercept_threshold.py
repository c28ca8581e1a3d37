"""Classes of unequal size: what a free constant is worth.

Labels are the sign of <x, theta> + 0.3 eps - threshold; logistic loss, ridge 0.01, alpha = 4, beta
= 1, alpha0 = 4, step 1, rows on the sphere, the constant not penalised. Left: tanh, readout ones,
an odd student, which has no constant of its own. Right: relu, readout signs, whose features have a
mean of their own. Dotted: what is wrong of always saying the larger class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from firststep import plots
from firststep.figures.core import Figure
from firststep.figures.shape import Axis, Curve, Panel, Scale, bayes_line, family, learns
from firststep.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOISE = 0.3
THRESHOLDS = Axis(
    "threshold",
    "threshold of the classes",
    (-1.5, 1.5),
    (-1.5, -1, -0.5, 0, 0.5, 1, 1.5),
    spaced=np.linspace,
    scale="linear",
)


def problem(
    threshold: float, student: str, readout: str, intercept: bool = False, alpha0: float = 4.0
) -> Problem:
    asked = learns(student, "z", alpha=4.0, alpha0=alpha0, ridge=0.01, noise=NOISE)
    fields = {"readout": readout, "init": "sphere", "loss": "logistic", "labels": "sign"}
    return asked.replace(**fields, threshold=threshold, intercept=intercept)


def curves(student: str, readout: str) -> Sequence[Curve]:
    asked = partial(problem, student=student, readout=readout)
    shown = family(
        asked,
        {
            "one step": {},
            "one step, intercept": {"intercept": True},
            "no step": {"alpha0": 0.0},
            "no step, intercept": {"alpha0": 0.0, "intercept": True},
        },
        looks=(("sky", "s"), ("blue", "o"), ("orange", "D"), ("red", "v")),
        quantity="error_rate",
    )
    styled = [replace(each, style="--") if "intercept" in each.label else each for each in shown]
    still = [
        replace(each, model="random-features") if "no step" in each.label else each
        for each in styled
    ]
    return [*still, bayes_line(asked)]


def larger_class(axes: Axes) -> None:
    """The error rate of always saying the larger class, P(u + noise eps < -|threshold|)."""
    thresholds = np.linspace(*THRESHOLDS.ends, 121)
    missed = ndtr(-np.abs(thresholds) / math.sqrt(1 + NOISE**2))
    plots.curve(axes, thresholds, missed, "grey", label="always the larger class", style=":")


PANELS = tuple(
    Panel(
        curves(student, readout),
        THRESHOLDS,
        ylabel="test error rate",
        title=f"{student}, readout {readout}",
        yscale="linear",
        ylim=(0.0, 0.52),
        decorate=larger_class,
    )
    for student, readout in (("tanh", "ones"), ("relu", "signs"))
)
FIGURE = Figure(
    name="intercept-threshold",
    title="Classes of unequal size: what a free constant is worth",
    source="firststep",
    caption=(
        "An odd student without a constant cannot say that one class is the larger one: far from "
        "threshold 0 it is worse than a constant answer, whatever its step. A free constant mends "
        "it. The relu network has one in the mean of its features, and the free one changes "
        "nothing (solid and dashed lines lie on each other). The step is worth most where the "
        "classes are equal."
    ),
    panels=lambda _: PANELS,
    quick=Scale(dimension=300, replicates=6, points=5),
    full=Scale(dimension=500, replicates=8, points=7, full=True),
    size=(4.8, 4.2),
    legend_columns=3,
)
