"""Beyond one step: risk along training, measured and predicted from the weights of every moment.

Networks are trained on a fresh batch a step; after each the readout is fitted on fresh data, and its risk is predicted from the
weights alone (``predict_features``), conditioning on no direction (the Gaussian equivalent: noisy linear features), on one, and on
as many as the gaps of the singular values of W - W0 show. Left: tanh learns tanh. Middle: relu learns z^2 - 1, which has no linear
part, so that the first step finds nothing and later ones find the teacher along a second direction. Right: relu learns tanh with
steps so large that training diverges. Gaussian readout, alpha = 2, beta = 1.2, noise 0.1, ridge 0.1. Every network is compared with
its own prediction: z is the mean of the differences over their standard error. The verdict is on the rule's number of directions,
without the right panel, which is there to fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from firststep import plots
from firststep.figures.core import Curve, Figure, Row, Scale, row_of
from firststep.figures.cui_common import legend_below
from firststep.problem import Problem
from firststep.results import Estimate
from firststep.simulation.running.execute import available_cores
from firststep.simulation.running.given import simulate_features
from firststep.simulation.running.layer import FirstLayer, training_path
from firststep.simulation.running.workers import Workers
from firststep.store import Store
from firststep.sweep.engine import Watcher
from firststep.sweep.executors import Executor
from firststep.theory.given_layer.predict import predict_features

SHOWN = (0, 1, 2, 3, 4, 6, 8, 10)  # steps
DRAWS = 3  # data sets on which every network is measured
# What is conditioned on, with its colour and line.
KINDS = {
    "Gaussian equivalent": (0, "grey", ":"),
    "one direction": (1, "blue", "--"),
    "as many as stand out": ("auto", "orange", "-"),
}


@dataclass(frozen=True)
class Case:
    """One panel."""

    title: str
    student: str
    teacher: str
    step: float
    alpha0: float
    judged: bool

    @property
    def problem(self) -> Problem:
        return Problem(
            student=self.student,
            teacher=self.teacher,
            alpha=2.0,
            beta=1.2,
            alpha0=self.alpha0,
            step=self.step,
            ridge=0.1,
            noise=0.1,
        )


CASES = (
    Case("tanh learns tanh, step 1", "tanh", "tanh", 1.0, 2.0, True),
    Case(r"relu learns $z^2 - 1$, step 1", "relu", "z**2-1", 1.0, 4.0, True),
    Case("relu learns tanh, step 6: too large", "relu", "tanh", 6.0, 2.0, False),
)


@dataclass(frozen=True)
class Network:
    """The job of a worker: networks are numbered through all panels."""

    scale: Scale
    seed: int

    def __call__(self, number: int) -> list[dict[str, float]]:
        """The measured and the predicted risks of one network after each number of steps."""
        place, replicate = divmod(number, self.scale.replicates)
        problem = CASES[place].problem
        path = training_path(problem, self.scale.dimension, self.seed, replicate, steps=max(SHOWN))
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
                found[kind] = found["as many as stand out"]
                continue
            prediction = predict_features(
                layer.after, problem, layer.teacher, initial=layer.before, directions=directions
            )
            found[kind] = float(prediction.risk)
            found.setdefault("count", prediction.directions.count)
        return found


class AlongTraining(Figure):
    """Curves over the number of steps, from the weights of trained networks."""

    def compute(
        self,
        scale: Scale,
        store: Store,
        executor: Executor | None = None,
        watch: Watcher | None = None,
    ) -> list[Row]:
        numbers = range(len(CASES) * scale.replicates)
        with Workers(min(available_cores(), len(numbers))) as workers:
            found = dict(workers.run(Network(scale, self.seed), numbers))
        networks = [found[number] for number in numbers]
        each = scale.replicates
        return [
            row
            for place, case in enumerate(CASES)
            for row in self._case(case, scale, networks[place * each :][:each])
        ]

    def _case(self, case: Case, scale: Scale, networks: Sequence[Any]) -> Iterator[Row]:
        for place, steps in enumerate(SHOWN):
            found = [network[place] for network in networks]
            measured = np.array([each["measured"] for each in found])
            for kind in KINDS:
                judged = case.judged and kind == "as many as stand out"
                curve = Curve(kind, lambda _: case.problem, model="network", judged=judged)
                predicted = np.array([each[kind] for each in found])
                problem = case.problem.replace(dimension=scale.dimension)
                mean, estimate = float(predicted.mean()), Estimate(measured)
                row = row_of(
                    case.title,
                    curve,
                    "steps",
                    steps,
                    estimate,
                    mean,
                    "given layer",
                    problem,
                    self.seed,
                    predicted,
                )
                yield {**row, "directions": float(np.mean([each["count"] for each in found]))}

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Any) -> None:
        for case, axes in zip(CASES, plots.grid(drawing, len(CASES), self.columns), strict=True):
            mine = [row for row in rows if row["panel"] == case.title]
            for kind, (_, color, style) in reversed(KINDS.items()):
                some = [row for row in mine if row["curve"] == kind]
                plots.curve(
                    axes,
                    [row["x_value"] for row in some],
                    [row["theory"] for row in some],
                    color,
                    kind,
                    style,
                )
            x, mean, error = (
                [row[name] for row in some] for name in ("x_value", "simulated", "standard_error")
            )
            plots.points(axes, x, mean, error, label="networks", color="red", marker="o")
            axes.set(yscale="log", xlabel="gradient steps", ylabel="test risk")
            axes.set_title(case.title, fontsize=10)
            plots.readable_logs(axes)
        title = f"lines: prediction from the weights; points: networks, d = {scale.dimension}, mean ± s.e. of {scale.replicates}"
        legend_below(drawing, scale, 4, title)

    def shape(self, scale: Scale) -> tuple[float, float]:
        return self.size[0] * len(CASES), self.size[1]


FIGURE = AlongTraining(
    name="beyond-multi-step",
    title="Several steps: what the weights predict, and when one direction is not enough",
    source="firststep",
    caption=(
        "Noisy linear features fail as soon as the network learns more than a linear function. Conditioning on one direction is "
        "enough while one direction is learned (left). A teacher without a linear part is found along a second direction: one is "
        "wrong in between, those that stand out are right (middle). When the steps diverge everything is off, by a few per cent "
        "with all directions that stand out (right)."
    ),
    panels=lambda scale: (),
    quick=Scale(dimension=200, replicates=5),
    full=Scale(dimension=800, replicates=8, full=True),
    size=(4.4, 3.9),
)
