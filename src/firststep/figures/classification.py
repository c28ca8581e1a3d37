"""Classifiers against samples: with a step and without, fitted by three losses.

Labels are the sign of teacher(<x, theta>) + 0.3 eps. Left: a rule that is linear in the teacher's
direction, tanh students, readout ones, next to no ridge. Right: a rule that is not, a band (class
-1 for -1.6 < <x, theta> < 0.6), relu students, Gaussian readout, a ridge. alpha0 = 4, step 1, beta
= 1, rows on the sphere. A ridge means another thing to every loss: where it is large, square loss
with ridge r, hinge (support vectors) with r/2 and logistic loss with r/4 are one classifier, and so
they are compared here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from firststep.figures.core import Figure
from firststep.figures.shape import (
    Axis,
    Curve,
    Panel,
    Scale,
    bayes_line,
    direction_line,
    family,
    learns,
)
from firststep.problem import Problem

LOSSES = {"logistic": 0.25, "square": 1.0, "hinge": 0.5}  # with their share of the ridge
SAMPLES = Axis("alpha", r"samples per dimension $\alpha$", (0.5, 16.0), (0.5, 1, 2, 4, 8, 16))
OPEN = (("blue", "v"), ("orange", "D"), ("green", "P"))  # markers of those without a step


def linear(alpha: float, loss: str = "logistic") -> Problem:
    fields = {"loss": loss, "ridge": LOSSES[loss] * 1e-3, "labels": "sign", "noise": 0.3}
    return learns("tanh", "z", alpha=alpha, alpha0=4.0, readout="ones", init="sphere", **fields)


def band(alpha: float, loss: str = "logistic") -> Problem:
    fields = {"loss": loss, "ridge": LOSSES[loss] * 0.2, "labels": "sign", "noise": 0.3}
    return learns("relu", "z**2 + z - 1", alpha=alpha, alpha0=4.0, init="sphere", **fields)


def curves(problem: Callable[..., Problem]) -> list[Curve]:
    stepped = family(
        problem, {f"{loss}, one step": {"loss": loss} for loss in LOSSES}, quantity="error_rate"
    )
    still = [
        replace(
            each,
            label=each.label.replace("one step", "no step"),
            model="random-features",
            style="-.",
            marker=marker,
        )
        for each, (_, marker) in zip(stepped, OPEN, strict=True)
    ]
    return [*stepped, *still, bayes_line(problem), direction_line(problem)]


PANELS = (
    Panel(
        curves(linear),
        SAMPLES,
        ylabel="test error rate",
        title="tanh learns sign(z), little ridge",
        yscale="linear",
        ylim=(0.0, 0.44),
    ),
    Panel(
        curves(band),
        SAMPLES,
        ylabel="test error rate",
        title=r"relu learns sign($z^2 + z - 1$), with a ridge",
        yscale="linear",
        ylim=(0.0, 0.44),
    ),
)
FIGURE = Figure(
    name="classification",
    title="What one step buys for a classifier",
    source="firststep",
    caption=(
        "Left: where samples are few and the ridge is small, least squares is the worst "
        "classifier, with a peak at n = N where it fits every label; logistic regression and "
        "support vectors need only the signs. After the step logistic regression is as good with "
        "half a sample per dimension as with seven without it. Right: without a step a network "
        "cannot find a band, being linear in the teacher's direction; after it, it goes below "
        "whatever sees the step's direction alone (dotted)."
    ),
    panels=lambda _: PANELS,
    quick=Scale(dimension=300, replicates=6, points=4),
    full=Scale(dimension=400, replicates=8, points=6, full=True),
    size=(5.0, 4.2),
    legend_columns=4,
)
