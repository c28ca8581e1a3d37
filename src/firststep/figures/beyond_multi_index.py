"""Beyond one index: what one step learns of a teacher that is a sum of two terms.

y = s_1(<x, theta_1>) + s_2(<x, theta_2>) + noise with orthonormal directions, relu student, Gaussian readout, beta = 1, step 2,
noise 0.1. Left: the cosines of the step's direction v with both directions, for the two-ReLU teacher of [Ba] Figure 2 and for relu
plus the even term (z^2 - 1)/2. In the limit they are c1_j/|v|, |v|^2 = sum_j c1_j^2 + E yhat^2/alpha0 with c1_j = E z s_j(z) and
the residual yhat = y less the network's first output, as for a single index (lines). Right: the risk of the readout for the
two-ReLU teacher, alpha0 = 4, ridge 0.05, against what the weights of each network predict (line; one direction), and without a
step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from firststep import plots
from firststep.activations import activation
from firststep.figures.core import Curve, Figure, Row, Scale, row_of
from firststep.problem import Problem
from firststep.results import Estimate
from firststep.simulation.running.execute import available_cores
from firststep.simulation.running.layer import first_layer
from firststep.simulation.running.simulate import simulate
from firststep.simulation.running.workers import Workers
from firststep.store import Store
from firststep.sweep.engine import Watcher
from firststep.sweep.executors import Executor
from firststep.theory.given_layer.predict import predict_features

EVEN = "0.5*(z**2-1)"
TEACHERS = {"relu + relu": ("relu", ("blue", "o")), "relu + even": (EVEN, ("orange", "s"))}
BATCHES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
SAMPLES = (0.5, 1.0, 2.0, 4.0, 8.0)
DIRECTIONS, RISK = "directions", "risk of relu + relu"


def problem(alpha: float, alpha0: float) -> Problem:
    return Problem(
        student="relu",
        teacher="relu",
        alpha=alpha,
        beta=1.0,
        alpha0=alpha0,
        step=2.0,
        ridge=0.05,
        noise=0.1,
    )


def cosines(second: str, alpha0: float) -> tuple[float, float]:
    """c1_j/|v| of both terms. The first output of the network is E[at] c0 = 0 for a centred readout."""
    terms = [activation(each).moments for each in ("relu", second)]
    total = sum(each.mean for each in terms)
    square = (
        sum(each.second_moment - each.mean**2 for each in terms)
        + total**2
        + problem(1.0, alpha0).noise ** 2
    )
    norm = math.sqrt(sum(each.linear**2 for each in terms) + square / alpha0)
    return terms[0].linear / norm, terms[1].linear / norm


@dataclass(frozen=True)
class Network:
    """The job of a worker: one network at one point."""

    scale: Scale
    seed: int

    @property
    def points(self) -> list[tuple[str, str, float]]:
        """Panel, second term and x of every point."""
        left = [
            (DIRECTIONS, second, alpha0) for second, _ in TEACHERS.values() for alpha0 in BATCHES
        ]
        return [*left, *((RISK, "relu", alpha) for alpha in SAMPLES)]

    def __call__(self, number: int) -> tuple[float, ...]:
        place, replicate = divmod(number, self.scale.replicates)
        panel, second, x = self.points[place]
        d = self.scale.dimension
        options: dict[str, Any] = dict(
            replicates=1,
            seed=self.seed,
            first_replicate=replicate,
            workers=1,
            teacher_terms=(second,),
        )
        if panel == DIRECTIONS:
            overlaps = simulate(problem(1.0, x), d, **options).teacher_overlaps.mean
            return tuple(float(each) for each in overlaps)
        question = problem(x, 4.0)
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

    def compute(
        self,
        scale: Scale,
        store: Store,
        executor: Executor | None = None,
        watch: Watcher | None = None,
    ) -> list[Row]:
        job = Network(scale, self.seed)
        count = len(job.points) * scale.replicates
        with Workers(min(available_cores(), count)) as workers:
            found = dict(workers.run(job, range(count)))
        rows: list[Row] = []
        for place, point in enumerate(job.points):
            values = np.array(
                [found[place * scale.replicates + number] for number in range(scale.replicates)]
            )
            rows += (
                self._cosine_rows(point, values, scale)
                if point[0] == DIRECTIONS
                else self._risk_rows(point, values, scale)
            )
        return rows

    def _cosine_rows(
        self, point: tuple[str, str, float], values: Any, scale: Scale
    ) -> Iterator[Row]:
        panel, second, alpha0 = point
        name = next(label for label, (term, _) in TEACHERS.items() if term == second)
        for term, theory in enumerate(cosines(second, alpha0)):
            curve = Curve(
                f"{name}, term {term + 1}", lambda x: problem(1.0, x), quantity="teacher_overlaps"
            )
            estimate = Estimate(values[:, term])
            # a cosine of 0 is compared with its own scatter, which the verdict's relative bound does not know
            judged = abs(theory) > 1e-9
            question = problem(1.0, alpha0).replace(dimension=scale.dimension)
            row = row_of(
                panel, curve, "alpha0", alpha0, estimate, theory, "closed form", question, self.seed
            )
            yield {**row, "judged": judged}

    def _risk_rows(self, point: tuple[str, str, float], values: Any, scale: Scale) -> Iterator[Row]:
        panel, _, alpha = point
        question = problem(alpha, 4.0).replace(dimension=scale.dimension)
        curve = Curve("one step", lambda x: problem(x, 4.0))
        measured, predicted = values[:, 0], values[:, 1]
        mean, estimate = float(predicted.mean()), Estimate(measured)
        yield row_of(
            panel,
            curve,
            "alpha",
            alpha,
            estimate,
            mean,
            "given layer",
            question,
            self.seed,
            predicted,
        )
        still = Curve("no step", lambda x: problem(x, 0.0), model="random-features", judged=False)
        yield row_of(
            panel,
            still,
            "alpha",
            alpha,
            Estimate(values[:, 2]),
            math.nan,
            None,
            question,
            self.seed,
        )

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Any) -> None:
        left, right = plots.grid(drawing, 2, 2)
        dense = np.geomspace(min(BATCHES), max(BATCHES), 60)
        for name, (second, (color, marker)) in TEACHERS.items():
            for term in (0, 1):
                mine = [row for row in rows if row["curve"] == f"{name}, term {term + 1}"]
                x, mean, error = (
                    [row[key] for row in mine] for key in ("x_value", "simulated", "standard_error")
                )
                # the equal cosines of two equal terms lie on each other
                shift, face = (1.04, "^" if marker == "o" else "v") if term else (1 / 1.04, marker)
                plots.points(
                    left,
                    [each * shift for each in x],
                    mean,
                    error,
                    label=mine[0]["curve"],
                    color=color,
                    marker=face,
                )
                plots.curve(
                    left,
                    dense,
                    [cosines(second, alpha0)[term] for alpha0 in dense],
                    color,
                    None,
                    "--" if term else "-",
                )
        left.set(
            xscale="log",
            xlabel=r"step samples per dimension $\alpha_0$",
            ylabel=r"$\langle \hat v, \theta_j\rangle$",
        )
        left.set_title("the step's direction: relu learns a sum of two terms", fontsize=10)
        plots.plain_ticks(left, (0.5, 1, 2, 4, 8, 16), ())
        left.legend(fontsize=8, loc="upper left")
        for label, color, marker in (("one step", "blue", "o"), ("no step", "grey", "v")):
            mine = [row for row in rows if row["curve"] == label]
            x, mean, error = (
                [row[key] for row in mine] for key in ("x_value", "simulated", "standard_error")
            )
            plots.points(right, x, mean, error, label=label, color=color, marker=marker)
            if label == "one step":
                plots.curve(
                    right, x, [row["theory"] for row in mine], color, "predicted from the weights"
                )
        bound = 2 * activation("relu").moments.nonlinear_variance
        plots.level(right, bound, "kernel lower bound")
        right.set(
            xscale="log",
            yscale="log",
            xlabel=r"samples per dimension $\alpha = n/d$",
            ylabel="test risk",
        )
        right.set_title(r"the risk: relu learns relu + relu, $\alpha_0 = 4$", fontsize=10)
        plots.readable_logs(right)
        plots.plain_ticks(right, SAMPLES, ())
        right.legend(fontsize=8)

    def shape(self, scale: Scale) -> tuple[float, float]:
        return 2 * self.size[0], self.size[1]


FIGURE = SeveralTerms(
    name="beyond-multi-index",
    title="Two terms: one step finds the mean direction, weighted by their linear parts",
    source="firststep",
    caption=(
        "The step points along the sum of the terms' directions weighted by their linear parts: half-way between two equal "
        "terms, and not at all along an even one. After it the network learns a function of that one direction; what the weights "
        "predict is what the network does. Lines on the left: closed form."
    ),
    panels=lambda scale: (),
    quick=Scale(dimension=300, replicates=8),
    full=Scale(dimension=800, replicates=16, full=True),
)
