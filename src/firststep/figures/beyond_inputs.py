"""Beyond Gaussian inputs: inputs of other laws against the theory of Gaussian ones.

All laws have mean zero; all but the power law have covariance I. Left: tanh learns tanh with
readout ones, alpha0 = 2, step 2. Right: relu learns sin with a Gaussian readout, alpha0 = 2, step
1, noise 0.1. beta = 1, ridge 0.05. rademacher: signs; student-t: i.i.d. entries with heavy tails (5
degrees of freedom); mixture: two clusters at +-1.5 along a random direction; elliptical-t: Gaussian
inputs times one heavy-tailed factor a sample (5 degrees of freedom), so that norms do not
concentrate; power-law: Gaussian with covariance eigenvalues j^-1. Differences from the theory of
N(0, I) are in the table (column ``relative``); only the Gaussian points enter the verdict. For the
power law the theory of a given layer, which knows the covariance, is drawn as well: each network is
predicted from its own weights, and z is that of the differences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from firststep import plots
from firststep.figures.core import Bench, Figure, legend_below, measured, networks
from firststep.figures.cui_common import SAMPLES
from firststep.figures.shape import Curve, Panel, Row, Scale, draw_points, family, learns
from firststep.figures.verdict import row_of
from firststep.problem import Problem
from firststep.simulation.running.layer import first_layer
from firststep.sweep.engine import results_of
from firststep.theory.given_layer.predict import predict_features

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from firststep.typing import Array, Float

LAWS = {
    "gaussian": ("blue", "o"),
    "rademacher": ("green", "^"),
    "student-t:5": ("sky", "v"),
    "mixture:1.5": ("pink", "D"),
    "elliptical-t:5": ("red", "s"),
    "power-law:1": ("orange", "X"),
}
POWER_LAW = "power-law:1"
KNOWN = f"{POWER_LAW}, from its weights and covariance"
APART = 1.045  # factor between the places of two laws at one alpha: their points stay readable


def odd(alpha: float) -> Problem:
    look = {"readout": "ones", "init": "sphere"}
    return learns("tanh", "tanh", alpha=alpha, alpha0=2.0, step=2.0, ridge=0.05, **look)


def bent(alpha: float) -> Problem:
    return learns("relu", "sin", alpha=alpha, alpha0=2.0, step=1.0, ridge=0.05, noise=0.1)


def laws(problem: Callable[[float], Problem]) -> list[Curve]:
    gaussian, *others = family(problem, {law: {} for law in LAWS}, tuple(LAWS.values()))
    return [
        gaussian,
        *(
            replace(each, style="None", judged=False, options={"inputs": each.label})
            for each in others
        ),
    ]


PANELS = (
    Panel(
        laws(odd),
        SAMPLES,
        title="tanh learns tanh, readout ones",
        yticks=(0.8, 1, 1.2, 1.5, 2, 3, 4, 6),
    ),
    Panel(
        laws(bent),
        SAMPLES,
        title="relu learns sin, Gaussian readout",
        yticks=(0.9, 1, 1.1, 1.2, 1.4, 1.6),
    ),
)


def covariance(dimension: int) -> Float[Array, "d d"]:
    """That of power-law:1: eigenvalues j^-1 scaled to trace d."""
    values = 1 / np.arange(1, dimension + 1)
    return np.diag(values * dimension / values.sum())


@dataclass(frozen=True)
class FromWeights:
    """The job of a worker: the predicted risk of a network of a point."""

    problems: tuple[Problem, ...]
    seed: int

    def __call__(self, place: int, replicate: int) -> float:
        problem = self.problems[place]
        layer = first_layer(problem, None, self.seed, replicate, inputs=POWER_LAW)
        prediction = predict_features(
            layer.after,
            problem,
            layer.teacher,
            initial=layer.before,
            directions=1,
            covariance=covariance(len(layer.teacher)),
        )
        return float(prediction.risk)


class WithCovariance(Figure):
    """The curves, and the theory of given layers for the power law."""

    def compute(self, bench: Bench) -> list[Row]:
        return [*super().compute(bench), *self._from_weights(bench)]

    def _from_weights(self, bench: Bench) -> Iterator[Row]:
        shown = [
            (panel, replace(curve, label=KNOWN, bulk="given layer", judged=True), point)
            for panel in self.panels(bench.scale)
            for curve in panel.curves
            if curve.label == POWER_LAW
            for point in self.points(panel, curve, bench.scale)
        ]
        job = FromWeights(tuple(point.units[0].problem for *_, point in shown), self.seed)
        found = networks(job, len(shown), bench.scale.replicates)
        for (panel, curve, (x, units)), risks in zip(shown, found, strict=True):
            yield row_of(
                panel,
                curve,
                x,
                problem=units[0].problem,
                simulated=measured(units, results_of(units, bench.store), "risk"),
                theory=np.array(risks),
                seed=self.seed,
            )

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Drawing) -> None:
        """Risk over the theory of N(0, I), the laws side by side."""
        middle = (len(LAWS) - 1) / 2
        for panel, axes, mine in self.placed(rows, scale, drawing):
            gaussian = {row["x_value"]: row["theory"] for row in mine if row["curve"] == "gaussian"}
            relative = [_over(row, gaussian[row["x_value"]]) for row in mine]
            plots.level(axes, 1.0, "theory of N(0, I)", "blue")
            for place, (law, look) in enumerate(LAWS.items()):
                some = [row for row in relative if row["curve"] == law]
                draw_points(axes, some, law, look, shift=APART ** (place - middle))
            known = [row for row in relative if row["curve"] == KNOWN]
            x = [row["x_value"] * APART**middle for row in known]
            ratio = [row["theory"] for row in known]
            plots.curve(axes, x, ratio, "orange", label=KNOWN, style=":")
            axes.set(
                xscale="log",
                yscale="log",
                xlabel=SAMPLES.label,
                ylabel="test risk / theory of N(0, I)",
            )
            axes.set_title(panel.title, fontsize=10)
            plots.plain_ticks(axes, SAMPLES.ticks, panel.yticks)
        legend_below(drawing, scale, self.legend_columns, f"points: simulation, {scale.words}")


def _over(row: Row, level: float) -> Row:
    """A row with its risks divided by one of them."""
    return row | {name: row[name] / level for name in ("simulated", "standard_error", "theory")}


FIGURE = WithCovariance(
    name="beyond-inputs",
    title="Other inputs against the theory of Gaussian ones",
    source="firststep, after [Cui]",
    caption=(
        "Independent entries, light-tailed or heavy-tailed, and a mixture of two clusters follow "
        "the theory of N(0, I). Inputs whose norms do not concentrate do not, for relu (risk up to "
        "1.5 times the theory; a saturating student hides it). Nor do inputs with a covariance far "
        "from the identity: told the covariance, the theory of the given layer (dotted) follows "
        "them."
    ),
    panels=lambda _: PANELS,
    quick=Scale(dimension=300, replicates=8, points=4),
    full=Scale(dimension=600, replicates=12, points=5, full=True),
    size=(5.6, 4.2),
    legend_columns=4,
)
