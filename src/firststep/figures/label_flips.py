"""Wrong labels: what regularisation is for.

A share of the labels is turned round. tanh students learn sign(z), readout ones, rows on the
sphere, alpha = 3, beta = 1, alpha0 = 4, step 1. Left: the error rate of logistic loss against the
share, with next to no ridge and with the best one; test labels are flipped as well, so the share
itself is the Bayes error. Right: the ridge that ``firststep.optimal`` finds for the error rate, for
logistic and square loss and without a step. Between the shares where it was run its logarithm is
interpolated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator

from firststep import plots
from firststep.figures.core import Figure
from firststep.figures.shape import Axis, Curve, Panel, Scale, bayes_line, learns, no_step
from firststep.problem import Problem
from firststep.theory.one_step.optimum import optimal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from firststep.typing import Array, Float

FLIPS = Axis(
    "flip",
    "share of flipped labels",
    (0.0, 0.3),
    (0, 0.1, 0.2, 0.3),
    spaced=np.linspace,
    scale="linear",
)
LITTLE = 1e-4
RANGE = {"ridge": (1e-4, 100.0)}  # smaller ones are not distinguished from the first


class Kind(NamedTuple):
    """A classifier whose ridge is chosen, and its look."""

    label: str
    loss: str
    alpha0: float
    look: tuple[str, str, str]  # colour, marker, style


LOGISTIC = Kind("logistic, best ridge", "logistic", 4.0, ("blue", "o", "-"))
SQUARE = Kind("square, best ridge", "square", 4.0, ("orange", "s", "--"))
STILL = Kind("logistic, no step, best ridge", "logistic", 0.0, ("grey", "v", "-."))
KINDS = (LOGISTIC, SQUARE, STILL)


def problem(flip: float, kind: Kind = LOGISTIC, ridge: float = LITTLE) -> Problem:
    fields = {"loss": kind.loss, "alpha0": kind.alpha0, "ridge": ridge}
    labels = {"labels": "sign", "flip": flip, "readout": "ones", "init": "sphere"}
    return learns("tanh", "z", alpha=3.0, **fields, **labels)


@cache
def best(kind: Kind, dimension: int, count: int) -> Float[Array, " flips"]:
    """The optimal ridge at every share; three digits: every machine simulates the same problems."""
    asked = [problem(flip, kind).replace(dimension=dimension) for flip in FLIPS.points(count)]
    found = [optimal(each, "ridge", ranges=RANGE).values["ridge"] for each in asked]
    return np.array([float(f"{ridge:.3g}") for ridge in found])


def chosen(kind: Kind, scale: Scale) -> Callable[[float], float]:
    """The optimal ridge as a function of the share."""
    flips, ridges = FLIPS.points(scale.points), best(kind, scale.dimension, scale.points)
    smooth = PchipInterpolator(flips, np.log(ridges))
    nodes = dict(zip(flips, map(float, ridges), strict=True))
    return lambda flip: nodes.get(float(flip)) or float(np.exp(smooth(flip)))


def with_best(kind: Kind, scale: Scale) -> Callable[[float], Problem]:
    ridge = chosen(kind, scale)
    return lambda flip: problem(flip, kind, ridge(flip))


def panels(scale: Scale) -> Sequence[Panel]:
    shown: dict[str, Any] = dict(quantity="error_rate")
    color, marker, style = LOGISTIC.look
    curves = [
        Curve("logistic, ridge 0.0001", problem, color="red", marker="D", style=":", **shown),
        Curve(
            LOGISTIC.label,
            with_best(LOGISTIC, scale),
            color=color,
            marker=marker,
            style=style,
            **shown,
        ),
        Curve(
            SQUARE.label,
            with_best(SQUARE, scale),
            color=SQUARE.look[0],
            marker=SQUARE.look[1],
            style=SQUARE.look[2],
            **shown,
        ),
        no_step(STILL.label, with_best(STILL, scale), style=STILL.look[2], **shown),
        bayes_line(problem),
    ]
    return [
        Panel(curves, FLIPS, ylabel="test error rate", title="error rate", yscale="linear"),
        Panel((), FLIPS, ylabel=r"ridge $\lambda$", title="best ridge", decorate=drawn(scale)),
    ]


def drawn(scale: Scale) -> Callable[[Axes], None]:
    """Decoration: what ``optimal`` found, and the curves through it."""

    def draw(axes: Axes) -> None:
        flips, dense = FLIPS.points(scale.points), np.linspace(*FLIPS.ends, 61)
        for kind in KINDS:
            ridge, (color, marker, style) = chosen(kind, scale), kind.look
            plots.curve(axes, dense, [ridge(flip) for flip in dense], color, style=style)
            found = best(kind, scale.dimension, scale.points)
            look: dict[str, Any] = dict(markersize=5, markerfacecolor="white")
            axes.plot(flips, found, marker, color=plots.COLORS[color], **look)
        plots.readable_logs(axes)

    return draw


FIGURE = Figure(
    name="label-flips",
    title="Wrong labels: what regularisation is for",
    source="firststep",
    caption=(
        "A fit with next to no ridge believes every label, and the gain of the step is lost: with "
        "a fifth of the labels wrong it is no better than random features at their best ridge. The "
        "more labels are wrong, the larger is the best ridge, sixty times as large at 0.3 as at 0 "
        "after a step, eight times without one. At its best ridge least squares is as good a "
        "classifier as logistic regression. Open symbols: the optima that the theory found."
    ),
    panels=panels,
    quick=Scale(dimension=300, replicates=8, points=4),
    full=Scale(dimension=500, replicates=10, points=7, full=True),
    size=(4.8, 4.2),
    legend_columns=3,
)
