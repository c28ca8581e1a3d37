"""Beyond one step: risk along training, measured and predicted from the weights of every moment.

Networks are trained on a fresh batch a step; after each the readout is fitted on fresh data, and
its risk is predicted from the weights alone (``predict_features``), conditioning on no direction
(the Gaussian equivalent: noisy linear features), on one, and on as many as the gaps of the singular
values of W - W0 show. Left: tanh learns tanh. Middle: relu learns z^2 - 1, which has no linear
part, so that the first step finds nothing and later ones find the teacher along a second direction.
Right: relu learns tanh with steps so large that training diverges. Gaussian readout, alpha = 2,
beta = 1.2, noise 0.1, ridge 0.1. Every network is compared with its own prediction: z is the mean
of the differences over their standard error. The verdict is on the rule's number of directions,
without the right panel, which is there to fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firststep import plots
from firststep.figures.core import Bench, Figure, legend_below, networks
from firststep.figures.shape import Axis, Curve, Panel, Row, Scale, columns, draw_points, learns
from firststep.figures.verdict import row_of
from firststep.problem import Problem
from firststep.simulation.running.given import simulate_features
from firststep.simulation.running.layer import FirstLayer, training_path
from firststep.theory.given_layer.predict import predict_features

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

SHOWN = (0, 1, 2, 3, 4, 6, 8, 10)  # steps
DRAWS = 3  # data sets on which every network is measured
RULE = "as many as stand out"
# What is conditioned on, with its colour and line.
KINDS = {
    "Gaussian equivalent": (0, "grey", ":"),
    "one direction": (1, "blue", "--"),
    RULE: ("auto", "orange", "-"),
}
STEPS = Axis("steps", "gradient steps", scale="linear")


@dataclass(frozen=True)
class Case:
    """One panel."""

    title: str
    student: str
    teacher: str
    step: float
    alpha0: float
    judged: bool = True

    @property
    def problem(self) -> Problem:
        own: dict[str, float] = dict(alpha0=self.alpha0, step=self.step)
        return learns(self.student, self.teacher, alpha=2.0, beta=1.2, ridge=0.1, noise=0.1, **own)


CASES = (
    Case("tanh learns tanh, step 1", "tanh", "tanh", step=1.0, alpha0=2.0),
    Case(r"relu learns $z^2 - 1$, step 1", "relu", "z**2-1", step=1.0, alpha0=4.0),
    Case("relu learns tanh, step 6: too large", "relu", "tanh", step=6.0, alpha0=2.0, judged=False),
)


@dataclass(frozen=True)
class Network:
    """The job of a worker: one network of a panel."""

    dimension: int
    seed: int

    def __call__(self, place: int, replicate: int) -> list[dict[str, float]]:
        """The measured and the predicted risks after each number of steps."""
        problem = CASES[place].problem
        path = training_path(problem, self.dimension, self.seed, replicate, steps=max(SHOWN))
        return [
            self._moment(problem, layer, replicate)
            for steps, layer in enumerate(path)
            if steps in SHOWN
        ]

    def _moment(self, problem: Problem, layer: FirstLayer, replicate: int) -> dict[str, float]:
        measured = simulate_features(
            layer.after,
            problem,
            layer.teacher,
            replicates=DRAWS,
            seed=self.seed,
            first_replicate=DRAWS * replicate,
            workers=1,
        )
        found: dict[str, float] = {"measured": float(measured.risk.mean)}
        for kind, (directions, *_) in reversed(KINDS.items()):
            if directions == found.get("count"):  # the rule has chosen the same
                found[kind] = found[RULE]
                continue
            prediction = predict_features(
                layer.after, problem, layer.teacher, initial=layer.before, directions=directions
            )
            found[kind] = float(prediction.risk)
            found.setdefault("count", prediction.directions.count)
        return found


class AlongTraining(Figure):
    """Curves over the number of steps, from the weights of trained networks."""

    def compute(self, bench: Bench) -> list[Row]:
        scale = bench.scale
        found = networks(Network(scale.dimension, self.seed), len(CASES), scale.replicates)
        return [
            row
            for panel, case, mine in zip(self.panels(scale), CASES, found, strict=True)
            for row in self._case(panel, case, scale, mine)
        ]

    def _case(
        self, panel: Panel, case: Case, scale: Scale, found: Sequence[Sequence[Mapping[str, float]]]
    ) -> Iterator[Row]:
        for place, steps in enumerate(SHOWN):
            mine = {name: np.array([each[place][name] for each in found]) for name in found[0][0]}
            for kind in KINDS:
                judged = case.judged and kind == RULE
                curve = Curve(kind, lambda _: case.problem, bulk="given layer", judged=judged)
                row = row_of(
                    panel,
                    curve,
                    steps,
                    problem=curve.sized(steps, scale),
                    simulated=mine["measured"],
                    theory=mine[kind],
                    seed=self.seed,
                )
                yield {**row, "directions": float(np.mean(mine["count"]))}

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Drawing) -> None:
        for panel, axes, mine in self.placed(rows, scale, drawing):
            for kind, (_, color, style) in reversed(KINDS.items()):
                some = [row for row in mine if row["curve"] == kind]
                x, theory = columns(some, "x_value", "theory")
                plots.curve(axes, x, theory, color, label=kind, style=style)
            draw_points(axes, some, "networks", ("red", "o"))  # the same for every kind
            axes.set(yscale="log", xlabel=STEPS.label, ylabel=panel.ylabel)
            axes.set_title(panel.title, fontsize=10)
            plots.readable_logs(axes)
        title = f"lines: prediction from the weights; points: networks, {scale.words}"
        legend_below(drawing, scale, self.legend_columns, title)


FIGURE = AlongTraining(
    name="beyond-multi-step",
    title="Several steps: what the weights predict, and when one direction is not enough",
    source="firststep",
    caption=(
        "Noisy linear features fail as soon as the network learns more than a linear function. "
        "Conditioning on one direction is enough while one direction is learned (left). A teacher "
        "without a linear part is found along a second direction: one is wrong in between, those "
        "that stand out are right (middle). When the steps diverge everything is off, by a few per "
        "cent with all directions that stand out (right)."
    ),
    panels=lambda _: [Panel((), STEPS, title=case.title) for case in CASES],
    quick=Scale(dimension=200, replicates=5),
    full=Scale(dimension=800, replicates=8, full=True),
    size=(4.4, 3.9),
    legend_columns=4,
)
