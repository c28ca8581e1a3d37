"""Beyond Gaussian inputs: the same experiment with inputs of other laws, against the theory of Gaussian ones.

All laws have mean zero; all but the power law have covariance I. Left: tanh learns tanh with readout ones, alpha0 = 2, step 2.
Right: relu learns sin with a Gaussian readout, alpha0 = 2, step 1, noise 0.1. beta = 1, ridge 0.05. rademacher: signs; student-t:
i.i.d. entries with heavy tails (5 degrees of freedom); mixture: two clusters at +-1.5 along a random direction; elliptical-t:
Gaussian inputs times one heavy-tailed factor a sample (5 degrees of freedom), so that norms do not concentrate; power-law: Gaussian
with covariance eigenvalues j^-1. Differences from the theory of N(0, I) are in the table (column ``relative``); only the Gaussian
points enter the verdict. For the power law the theory of a given layer, which knows the covariance, is drawn as well: each network
is predicted from its own weights, and z is that of the differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from firststep import plots
from firststep.figures.core import Curve, Panel, Row, Scale, measured, row_of
from firststep.figures.cui_common import SharedLegend, legend_below
from firststep.problem import Problem
from firststep.results import Estimate
from firststep.simulation.running.execute import available_cores
from firststep.simulation.running.layer import first_layer
from firststep.simulation.running.workers import Workers
from firststep.store import Store
from firststep.sweep.engine import Watcher, results_of
from firststep.sweep.executors import Executor
from firststep.theory.given_layer.predict import predict_features

LAWS = (
    ("gaussian", "blue", "o"),
    ("rademacher", "green", "^"),
    ("student-t:5", "sky", "v"),
    ("mixture:1.5", "pink", "D"),
    ("elliptical-t:5", "red", "s"),
    ("power-law:1", "orange", "X"),
)
KNOWN = "power-law:1, from its weights and covariance"


def odd(alpha: float) -> Problem:
    return Problem(
        student="tanh",
        teacher="tanh",
        alpha=alpha,
        beta=1.0,
        alpha0=2.0,
        step=2.0,
        ridge=0.05,
        readout="ones",
        init="sphere",
    )


def bent(alpha: float) -> Problem:
    return Problem(
        student="relu",
        teacher="sin",
        alpha=alpha,
        beta=1.0,
        alpha0=2.0,
        step=1.0,
        ridge=0.05,
        noise=0.1,
    )


def panels(scale: Scale) -> Sequence[Panel]:
    return [
        _panel(scale, odd, "tanh learns tanh, readout ones", (0.8, 1, 1.2, 1.5, 2, 3, 4, 6)),
        _panel(scale, bent, "relu learns sin, Gaussian readout", (0.9, 1, 1.1, 1.2, 1.4, 1.6)),
    ]


def _panel(
    scale: Scale, problem: Callable[[float], Problem], title: str, yticks: Sequence[float]
) -> Panel:
    at = np.round(np.geomspace(0.5, 8.0, scale.points), 3)
    curves = [
        Curve(
            law,
            problem,
            at,
            bulk="exact",
            color=color,
            marker=marker,
            style="-" if law == "gaussian" else "None",
            judged=law == "gaussian",
            options={} if law == "gaussian" else {"inputs": law},
        )
        for law, color, marker in LAWS
    ]
    return Panel(
        curves,
        "alpha",
        r"samples per dimension $\alpha = n/d$",
        title=title,
        xticks=(0.5, 1, 2, 4, 8),
        yticks=yticks,
        legend=None,
    )


def covariance(dimension: int) -> Any:
    """That of power-law:1: eigenvalues j^-1 scaled to trace d."""
    values = 1 / np.arange(1, dimension + 1)
    return np.diag(values * dimension / values.sum())


@dataclass(frozen=True)
class FromWeights:
    """The job of a worker: the predicted risk of a network, numbered through all points of a curve."""

    problems: tuple[Problem, ...]
    replicates: int
    seed: int

    def __call__(self, number: int) -> float:
        place, replicate = divmod(number, self.replicates)
        problem = self.problems[place]
        layer = first_layer(problem, None, self.seed, replicate, inputs="power-law:1")
        known = covariance(len(layer.teacher))
        return float(
            predict_features(
                layer.after,
                problem,
                layer.teacher,
                initial=layer.before,
                directions=1,
                covariance=known,
            ).risk
        )


class WithCovariance(SharedLegend):
    """The curves, and the theory of given layers for the power law."""

    def compute(
        self,
        scale: Scale,
        store: Store,
        executor: Executor | None = None,
        watch: Watcher | None = None,
    ) -> list[Row]:
        rows = super().compute(scale, store, executor, watch)
        with Workers(available_cores()) as workers:
            for panel in self.panels(scale):
                rows += self._from_weights(panel, scale, store, workers)
        return rows

    def _from_weights(
        self, panel: Panel, scale: Scale, store: Store, workers: Workers
    ) -> Iterator[Row]:
        curve = next(each for each in panel.curves if each.label == "power-law:1")
        known = Curve(KNOWN, curve.problem, curve.at, options=curve.options, color=curve.color)
        points = self._units(curve, scale)
        jobs = FromWeights(
            tuple(units[0].problem for _, units in points), scale.replicates, self.seed
        )
        predictions = dict(workers.run(jobs, range(len(points) * scale.replicates)))
        for place, (x, units) in enumerate(points):
            records = results_of(units, store)
            values = np.array(
                [measured(records[wanted], "risk") for unit in units for wanted in unit.wanted]
            )
            theory = np.array(
                [
                    predictions[place * scale.replicates + number]
                    for number in range(scale.replicates)
                ]
            )
            estimate, mean, problem = Estimate(values), float(theory.mean()), units[0].problem
            yield row_of(
                panel.title,
                known,
                panel.x,
                x,
                estimate,
                mean,
                "given layer",
                problem,
                self.seed,
                theory,
            )

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Any) -> None:
        """Risk over the theory of N(0, I), the laws side by side."""
        for panel, axes in zip(
            self.panels(scale), plots.grid(drawing, 2, self.columns), strict=True
        ):
            mine = [row for row in rows if row["panel"] == panel.title]
            theory = {row["x_value"]: row["theory"] for row in mine if row["curve"] == "gaussian"}
            plots.level(axes, 1.0, "theory of N(0, I)", "blue")
            for place, (law, color, marker) in enumerate(LAWS):
                some = [row for row in mine if row["curve"] == law]
                x = [row["x_value"] * 1.045 ** (place - 2.5) for row in some]
                mean, error = (
                    [row[name] / theory[row["x_value"]] for row in some]
                    for name in ("simulated", "standard_error")
                )
                plots.points(axes, x, mean, error, label=law, color=color, marker=marker)
            known = [row for row in mine if row["curve"] == KNOWN]
            ratio = [row["theory"] / theory[row["x_value"]] for row in known]
            plots.curve(
                axes, [row["x_value"] * 1.045**2.5 for row in known], ratio, "orange", KNOWN, ":"
            )
            axes.set(
                xscale="log",
                yscale="log",
                xlabel=panel.xlabel,
                ylabel="test risk / theory of N(0, I)",
            )
            axes.set_title(panel.title, fontsize=10)
            plots.plain_ticks(axes, panel.xticks, panel.yticks)
        title = f"points: simulation, d = {scale.dimension}, mean ± s.e. of {scale.replicates}"
        legend_below(drawing, scale, self.legend_columns, title)


FIGURE = WithCovariance(
    name="beyond-inputs",
    title="Other inputs against the theory of Gaussian ones",
    source="firststep, after [Cui]",
    caption=(
        "Independent entries, light-tailed or heavy-tailed, and a mixture of two clusters follow the theory of N(0, I). Inputs "
        "whose norms do not concentrate do not, for relu (risk up to 1.5 times the theory; a saturating student hides it). "
        "Nor do inputs with a covariance far from the identity: told the covariance, the theory of the given layer (dotted) "
        "follows them."
    ),
    panels=panels,
    quick=Scale(dimension=300, replicates=8, points=4),
    full=Scale(dimension=600, replicates=12, points=5, full=True),
    size=(5.6, 4.2),
    legend_columns=4,
)
