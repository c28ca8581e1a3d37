"""A step between the small and the large one: functions of the step's direction, one by one.

The step is 2 N^s. At d = infinity it learns 1 and kappa freely for any s > 0, kappa^2 for s > 1/4,
kappa^3 for s > 1/3, kappa^m for s > (m - 1)/(2m), where the student has that Hermite degree:
plateaus with jumps between them, drawn up to s = 6/13 (beyond, more than twelve functions) and at
s = 1/2; small circles are the values at the jumps, which depend on the size of the step. Finite
networks approach slowly: near a jump as a small power of d. Upper row: the risk; lower row: its
part along the step, without the small step at d = infinity: there the network's own output before
the step is as long as the step, and in finite networks part of its direction. Left: tanh learns
sin, right: relu learns relu. alpha = 2, beta = 1, alpha0 = 4, ridge 0.1, noise 0.1, Gaussian
readout, rows on the sphere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from firststep import plots
from firststep.figures.core import Figure, legend_below
from firststep.figures.shape import Axis, Curve, Panel, Row, Scale, draw_panel, learns
from firststep.predicting import predict
from firststep.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from firststep.theory.one_step.prediction import Prediction

LARGE = {10**4: "blue", 10**6: "green", 10**8: "orange"}  # d of theory lines, beside the simulated
JUMPS = tuple(0.5 - 0.5 / m for m in range(1, 14))  # s at which kappa^m becomes free
BESIDE = 1e-6  # of a jump
SAME = 1e-6  # of two plateaus: no jump between them
EXPONENT = Axis(
    "step_exponent",
    "step exponent $s$",
    (0.0, 0.5),
    (0, 0.1, 0.2, 0.3, 0.4, 0.5),
    spaced=lambda low, high, count: np.round(np.linspace(low, high, count), 3),
    line=tuple(np.linspace(0.0, 0.5, 51)),
    scale="linear",
)
PAIRS = {"tanh learns sin": ("tanh", "sin"), "relu learns relu": ("relu", "relu")}


def problem(x: float, student: str, teacher: str) -> Problem:
    fields = dict(alpha=2, alpha0=4, step=2, ridge=0.1, noise=0.1, init="sphere")
    return learns(student, teacher, readout="gaussian", step_exponent=x, **fields)


@lru_cache(maxsize=2048)
def solved(asked: Problem) -> Prediction:
    found: Prediction = predict(asked)
    return found


def risk(found: Prediction) -> float:
    return float(found.risk)


def along(found: Prediction) -> float:
    return found.error_split.along


def panel(title: str, scale: Scale) -> Panel:
    asked = partial(problem, student=PAIRS[title][0], teacher=PAIRS[title][1])
    first = Curve(f"$d = {scale.dimension}$", asked, color="red", marker="o")
    others = [
        Curve(named(d), asked, model=None, color=color, line_dimension=d)
        for d, color in LARGE.items()
    ]
    return Panel([first, *others], EXPONENT, title=title, yscale="linear")


def named(d: int) -> str:
    return f"$d = 10^{round(math.log10(d))}$"


def panels(scale: Scale) -> Sequence[Panel]:
    return [*(panel(title, scale) for title in PAIRS), *(Panel((), EXPONENT) for _ in PAIRS)]


def draw_limit(axes: Axes, curve: Curve, number: Callable[[Prediction], float]) -> None:
    """The plateaus with the jumps between them, the values at jumps, and the large step."""

    def at(x: float) -> float:
        return number(solved(curve.problem(x)))

    ends = [(a + BESIDE, b - BESIDE) for a, b in pairwise(JUMPS)]
    y = [[at(each) for each in pair] for pair in ends]
    axes.plot(np.ravel(ends), np.ravel(y), color="black", lw=1.4, label=r"$d = \infty$", zorder=4)
    sides = zip(JUMPS[1:], y, y[1:], strict=False)
    jumps = [x for x, (_, left), (right, _) in sides if abs(left - right) > SAME * abs(left)]
    ends_too = [0.5] if number is along else [0.0, 0.5]  # along the step: see the docstring
    x = [*jumps, *ends_too]
    axes.plot(x, [at(each) for each in x], "o", ms=3.5, mfc="white", mec="black", zorder=5)


def draw_along(axes: Axes, shown: Panel, scale: Scale) -> None:
    """The part of the risk along the step."""
    for curve in shown.curves:
        d = curve.line_dimension or scale.dimension
        x = np.asarray(EXPONENT.line)
        y = [along(solved(curve.problem(each).replace(dimension=int(d)))) for each in x]
        plots.curve(axes, x, y, curve.color)
    draw_limit(axes, shown.curves[0], along)
    axes.set(
        yscale="log", ylim=(1e-6, 0.15), xlabel=EXPONENT.label, ylabel="its part along the step"
    )
    plots.plain_ticks(axes, EXPONENT.ticks, ())


class Staircase(Figure):
    """The lower row is theory alone: the part along the step of the problems of the upper row."""

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Drawing) -> None:
        placed = list(self.placed(rows, scale, drawing))
        half = len(placed) // 2
        for (shown, upper, mine), (_, lower, _) in zip(placed[:half], placed[half:], strict=True):
            decorated = replace(shown, decorate=partial(_limit_of_risk, curve=shown.curves[0]))
            draw_panel(decorated, mine, scale, upper, legend=False)
            draw_along(lower, shown, scale)
        legend_below(drawing, scale, self.legend_columns)


def _limit_of_risk(axes: Axes, curve: Curve) -> None:
    draw_limit(axes, curve, risk)


FIGURE = Staircase(
    name="staircase",
    title="Between the small and the large step: one more function at a time",
    source="firststep; jumps as in arXiv:2310.07891",
    caption=(
        "At d = infinity (black) the step learns one more function of its direction at s = 0, 1/4, "
        "1/3, 3/8, ...: tanh the odd ones, relu 1, the line and the even ones. Networks follow the "
        "theory at their own d (circles); near its jumps they approach the staircase so slowly "
        "that at d of a thousand it is a smooth slope."
    ),
    panels=panels,
    quick=Scale(dimension=400, replicates=8, points=6),
    full=Scale(dimension=1000, replicates=20, points=11, full=True),
    size=(5.2, 3.7),
    columns=2,
    legend_columns=5,
)
