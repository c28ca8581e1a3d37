"""Beyond one index: what one step learns of a teacher that is a sum of two terms.

y = s_1(<x, theta_1>) + s_2(<x, theta_2>) + noise with orthonormal directions, relu student,
Gaussian readout, beta = 1, step 2, noise 0.1. Left: the cosines of the step's direction v with both
directions, for the two-ReLU teacher of [Ba] Figure 2 and for relu plus the even term (z^2 - 1)/2.
Middle: the risk for the two-ReLU teacher, alpha0 = 4, ridge 0.05, with a step and without. Right:
where the risk with the step comes from. Lines are ``predict`` at the networks' size; what the
weights of each network predict (one direction) stands beside its risk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from firststep import plots
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
from firststep.theory.one_step.predict import predict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from firststep.theory.one_step.prediction import Prediction
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


PARTS = Panel((), SAMPLES_AXIS, title="where it comes from")
# Parts of the risk with their words and looks, from the largest.
SPLIT = {
    "out_of_reach": ("out of reach of one step", "grey", "--"),
    "fluctuation": ("scatter of the fit", "orange", "-"),
    "across": ("across the step", "green", "-"),
    "along": ("along the step", "blue", "-"),
}
LINE = 33  # points of a theory line


def problem(alpha: float, alpha0: float, second: str = "relu") -> Problem:
    return learns(
        "relu",
        "relu",
        teacher_terms=(second,),
        alpha=alpha,
        alpha0=alpha0,
        step=2.0,
        ridge=0.05,
        noise=0.1,
    )


def theory(axis: Axis, scale: Scale, second: str = "relu") -> Prediction:
    """Along a line of the axis, at the size of the networks."""
    dense = np.geomspace(min(axis.ticks), max(axis.ticks), LINE)
    asked = problem(1.0, STEP_SAMPLES, second).replace(dimension=scale.dimension)
    along: dict[str, Any] = {axis.name: dense}
    found: Prediction = predict(asked, **along)
    return found


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
            overlaps = simulate(problem(1.0, x, second), d, **options).teacher_overlaps.mean
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
    """Cosines and risks against ``predict``, risks also against predictions from the weights."""

    def compute(self, bench: Bench) -> list[Row]:
        scale = bench.scale
        found = networks(Network(scale.dimension, self.seed), len(PLACES), scale.replicates)
        rows = []
        for place, values in zip(PLACES, found, strict=True):
            shown = _cosines_at if place.panel is DIRECTIONS else _risks_at
            for curve, simulated, expected in shown(place, np.array(values), scale):
                row = row_of(
                    place.panel,
                    curve,
                    place.x,
                    problem=curve.sized(place.x, scale),
                    simulated=simulated,
                    theory=expected,
                    seed=self.seed,
                )
                rows.append(row)
        return rows

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Drawing) -> None:
        left, middle, right = plots.grid(drawing, 3, 3)
        _draw_cosines(rows, left, scale)
        _draw_risks(rows, middle, scale)
        _draw_parts(right, scale)


def _cosines_at(
    place: Place, values: Float[Array, "replicates terms"], scale: Scale
) -> Iterator[Compared]:
    name = next(label for label, (term, _) in TEACHERS.items() if term == place.second)
    asked = partial(problem, 1.0, second=place.second)
    found = predict(asked(place.x).replace(dimension=scale.dimension)).alignments
    for term, expected in enumerate(map(float, found)):
        curve = Curve(
            f"{name}, term {term + 1}",
            asked,
            quantity="teacher_overlaps",
            # A cosine of 0 is compared with its own scatter, which the verdict's relative bound
            # does not know.
            judged=abs(expected) > 1e-9,
        )
        yield curve, values[:, term], expected


def _risks_at(
    place: Place, values: Float[Array, "replicates risks"], scale: Scale
) -> Iterator[Compared]:
    measured, predicted, still = values.T
    asked = partial(problem, alpha0=STEP_SAMPLES)
    found = predict(asked(place.x).replace(dimension=scale.dimension))
    yield Curve("one step", asked), measured, found.risk
    weights = Curve("one step, from the weights", asked, bulk="given layer")
    yield weights, measured, predicted
    yield no_step("no step", asked), still, found.random_features_risk


def _draw_cosines(rows: Sequence[Row], axes: Axes, scale: Scale) -> None:
    for name, (second, (color, marker)) in TEACHERS.items():
        line = theory(BATCH_AXIS, scale, second)
        for term in (0, 1):
            label = f"{name}, term {term + 1}"
            mine = [row for row in rows if row["curve"] == label]
            # The equal cosines of two equal terms lie on each other.
            shift, face = (1.04, "^" if marker == "o" else "v") if term else (1 / 1.04, marker)
            draw_points(axes, mine, label, (color, face), shift=shift)
            style = "--" if term else "-"
            plots.curve(axes, line.fields["alpha0"], line.alignments[:, term], color, style=style)
    axes.set(xscale="log", xlabel=BATCH_AXIS.label, ylabel=r"$\langle \hat v, \theta_j\rangle$")
    axes.set_title("the step's direction: relu learns a sum of two terms", fontsize=10)
    plots.plain_ticks(axes, BATCHES, ())
    axes.legend(fontsize=8, loc="upper left")


def _draw_risks(rows: Sequence[Row], axes: Axes, scale: Scale) -> None:
    line = theory(SAMPLES_AXIS, scale)
    x = line.fields["alpha"]
    numbers = (line.risk, line.random_features_risk, line.model_error)
    risk, still, error = (np.asarray(each) for each in numbers)
    for label, look, y in (("one step", ("blue", "o"), risk), ("no step", ("grey", "v"), still)):
        draw_points(axes, [row for row in rows if row["curve"] == label], label, look)
        plots.curve(axes, x, y, look[0])
    plots.band(axes, x, risk, error, "blue")
    mine = [row for row in rows if row["curve"] == "one step, from the weights"]
    places, weights = columns(mine, "x_value", "theory")
    axes.plot(places, weights, "x", color="black", markersize=5, label="predicted from the weights")
    plots.level(axes, line.kernel_lower_bound, "kernel lower bound")
    axes.set(xscale="log", yscale="log", xlabel=SAMPLES_AXIS.label, ylabel="test risk")
    axes.set_title(r"the risk: relu learns relu + relu, $\alpha_0 = 4$", fontsize=10)
    plots.readable_logs(axes)
    plots.plain_ticks(axes, SAMPLES, ())
    axes.legend(fontsize=8)


def _draw_parts(axes: Axes, scale: Scale) -> None:
    line = theory(SAMPLES_AXIS, scale)
    x, parts = line.fields["alpha"], [line[i].error_split for i in range(len(line))]
    for name, (label, color, style) in SPLIT.items():
        y = [getattr(each, name) for each in parts]
        plots.curve(axes, x, y, color, label=label, style=style)
    axes.set(xscale="log", yscale="log", xlabel=SAMPLES_AXIS.label, ylabel="part of the risk")
    axes.set_title("where the risk with the step comes from", fontsize=10)
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
        "learns a function of that one direction, and of all others what is linear: the rest is "
        "out of reach, however many samples there are. Lines: theory at the size of the networks; "
        "crosses: what the weights of each network predict."
    ),
    panels=lambda _: [DIRECTIONS, RISK, PARTS],
    quick=Scale(dimension=300, replicates=8),
    full=Scale(dimension=800, replicates=16, full=True),
)
