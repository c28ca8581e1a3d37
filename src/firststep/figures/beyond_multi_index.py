"""Beyond one index: what one step learns of a teacher that is a sum of two terms.

y = s_1(<x, theta_1>) + s_2(<x, theta_2>) + noise with orthonormal directions, relu student,
Gaussian readout, beta = 1, step 2, noise 0.1. Left: the cosines of the step's direction v with both
directions, for the two-ReLU teacher of [Ba] Figure 2 and for relu plus the even term (z^2 - 1)/2.
In the limit they are c1_j/|v|, |v|^2 = sum_j c1_j^2 + E yhat^2/alpha0 with c1_j = E z s_j(z) and
the residual yhat = y less the network's first output, as for a single index (lines). Right: the
risk of the readout for the two-ReLU teacher, alpha0 = 4, ridge 0.05, against what the weights of
each network predict (line; one direction), and without a step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from firststep import plots
from firststep.activations import activation
from firststep.figures.core import Bench, Figure, networks
from firststep.figures.shape import (
    Axis,
    Curve,
    Panel,
    Row,
    Scale,
    columns,
    draw_points,
    learns,
    no_step,
)
from firststep.figures.verdict import row_of
from firststep.problem import Problem
from firststep.simulation.running.layer import first_layer
from firststep.simulation.running.simulate import simulate
from firststep.theory.given_layer.predict import predict_features

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from firststep.typing import Array, Float

    # A curve, what was measured of it at a point, and the theory.
    Compared: TypeAlias = tuple[
        Curve, Float[Array, " replicates"], float | Float[Array, " replicates"]
    ]

EVEN = "0.5*(z**2-1)"
TEACHERS = {"relu + relu": ("relu", ("blue", "o")), "relu + even": (EVEN, ("orange", "s"))}
BATCHES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
SAMPLES = (0.5, 1.0, 2.0, 4.0, 8.0)
STEP_SAMPLES = 4.0  # alpha0 on the right
BATCH_AXIS = Axis("alpha0", r"step samples per dimension $\alpha_0$", ticks=BATCHES)
SAMPLES_AXIS = Axis("alpha", r"samples per dimension $\alpha = n/d$", ticks=SAMPLES)
DIRECTIONS = Panel((), BATCH_AXIS, title="directions")
RISK = Panel((), SAMPLES_AXIS, title="risk of relu + relu")


def problem(alpha: float, alpha0: float) -> Problem:
    return learns("relu", "relu", alpha=alpha, alpha0=alpha0, step=2.0, ridge=0.05, noise=0.1)


def cosines(second: str, alpha0: float) -> tuple[float, float]:
    """c1_j/|v| of both terms. The first output of the network is E[at] c0 = 0."""
    terms = [activation(each).moments for each in ("relu", second)]
    total = sum(each.mean for each in terms)
    square = (
        sum(each.second_moment - each.mean**2 for each in terms)
        + total**2
        + problem(1.0, alpha0).noise ** 2
    )
    norm = math.sqrt(sum(each.linear**2 for each in terms) + square / alpha0)
    return terms[0].linear / norm, terms[1].linear / norm


class Place(NamedTuple):
    """A point of a panel: x, and the second term of its teacher."""

    panel: Panel
    second: str
    x: float


PLACES = (
    *(Place(DIRECTIONS, second, x) for second, _ in TEACHERS.values() for x in BATCHES),
    *(Place(RISK, "relu", x) for x in SAMPLES),
)


@dataclass(frozen=True)
class Network:
    """The job of a worker: one network at one point."""

    dimension: int
    seed: int

    def __call__(self, place: int, replicate: int) -> tuple[float, ...]:
        panel, second, x = PLACES[place]
        d = self.dimension
        options: dict[str, Any] = dict(
            replicates=1,
            seed=self.seed,
            first_replicate=replicate,
            workers=1,
            teacher_terms=(second,),
        )
        if panel.title == DIRECTIONS.title:
            overlaps = simulate(problem(1.0, x), d, **options).teacher_overlaps.mean
            return tuple(float(each) for each in overlaps)
        question = problem(x, STEP_SAMPLES)
        found = simulate(question, d, **options)
        still = simulate(question, d, model="random-features", **options)
        layer = first_layer(question, d, self.seed, replicate, teacher_terms=(second,))
        predicted = predict_features(
            layer.after,
            question,
            layer.directions,
            teacher_terms=(second,),
            initial=layer.before,
            directions=1,
        )
        return float(found.risk.mean), float(predicted.risk), float(still.risk.mean)


class SeveralTerms(Figure):
    """Cosines against their closed form, risks against the predictions from the weights."""

    def compute(self, bench: Bench) -> list[Row]:
        scale = bench.scale
        found = networks(Network(scale.dimension, self.seed), len(PLACES), scale.replicates)
        rows = []
        for place, values in zip(PLACES, found, strict=True):
            shown = _cosines_at if place.panel is DIRECTIONS else _risks_at
            for curve, simulated, theory in shown(place, np.array(values)):
                row = row_of(
                    place.panel,
                    curve,
                    place.x,
                    problem=curve.sized(place.x, scale),
                    simulated=simulated,
                    theory=theory,
                    seed=self.seed,
                )
                rows.append(row)
        return rows

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Drawing) -> None:
        left, right = plots.grid(drawing, 2, 2)
        _draw_cosines(rows, left)
        _draw_risks(rows, right)


def _cosines_at(place: Place, values: Float[Array, "replicates terms"]) -> Iterator[Compared]:
    name = next(label for label, (term, _) in TEACHERS.items() if term == place.second)
    for term, theory in enumerate(cosines(place.second, place.x)):
        curve = Curve(
            f"{name}, term {term + 1}",
            lambda x: problem(1.0, x),
            bulk="closed form",
            quantity="teacher_overlaps",
            # A cosine of 0 is compared with its own scatter, which the verdict's relative bound
            # does not know.
            judged=abs(theory) > 1e-9,
        )
        yield curve, values[:, term], theory


def _risks_at(place: Place, values: Float[Array, "replicates risks"]) -> Iterator[Compared]:
    measured, predicted, still = values.T
    asked = partial(problem, alpha0=STEP_SAMPLES)
    yield Curve("one step", asked, bulk="given layer"), measured, predicted
    yield no_step("no step", asked, bulk=None, judged=False), still, math.nan


def _draw_cosines(rows: Sequence[Row], axes: Axes) -> None:
    dense = np.geomspace(min(BATCHES), max(BATCHES), 60)
    for name, (second, (color, marker)) in TEACHERS.items():
        for term in (0, 1):
            label = f"{name}, term {term + 1}"
            mine = [row for row in rows if row["curve"] == label]
            # The equal cosines of two equal terms lie on each other.
            shift, face = (1.04, "^" if marker == "o" else "v") if term else (1 / 1.04, marker)
            draw_points(axes, mine, label, (color, face), shift=shift)
            theory = [cosines(second, alpha0)[term] for alpha0 in dense]
            plots.curve(axes, dense, theory, color, style="--" if term else "-")
    axes.set(xscale="log", xlabel=BATCH_AXIS.label, ylabel=r"$\langle \hat v, \theta_j\rangle$")
    axes.set_title("the step's direction: relu learns a sum of two terms", fontsize=10)
    plots.plain_ticks(axes, BATCHES, ())
    axes.legend(fontsize=8, loc="upper left")


def _draw_risks(rows: Sequence[Row], axes: Axes) -> None:
    for label, look in (("one step", ("blue", "o")), ("no step", ("grey", "v"))):
        mine = [row for row in rows if row["curve"] == label]
        draw_points(axes, mine, label, look)
        if label == "one step":
            x, theory = columns(mine, "x_value", "theory")
            plots.curve(axes, x, theory, look[0], label="predicted from the weights")
    bound = 2 * activation("relu").moments.nonlinear_variance
    plots.level(axes, bound, "kernel lower bound")
    axes.set(xscale="log", yscale="log", xlabel=SAMPLES_AXIS.label, ylabel="test risk")
    axes.set_title(r"the risk: relu learns relu + relu, $\alpha_0 = 4$", fontsize=10)
    plots.readable_logs(axes)
    plots.plain_ticks(axes, SAMPLES, ())
    axes.legend(fontsize=8)


FIGURE = SeveralTerms(
    name="beyond-multi-index",
    title="Two terms: one step finds the mean direction, weighted by their linear parts",
    source="firststep",
    caption=(
        "The step points along the sum of the terms' directions weighted by their linear parts: "
        "half-way between two equal terms, and not at all along an even one. After it the network "
        "learns a function of that one direction; what the weights predict is what the network "
        "does. Lines on the left: closed form."
    ),
    panels=lambda _: [DIRECTIONS, RISK],
    quick=Scale(dimension=300, replicates=8),
    full=Scale(dimension=800, replicates=16, full=True),
)
