"""[Cui]: how fast finite networks approach the asymptotic theory.

tanh learns tanh: beta = 1, alpha = 2, alpha0 = 8, eta_tilde = 1, lambda = 0.1 in the paper's convention, readout ones, rows on the
sphere. The paper compares simulations of one size with d = infinity; the numbers are chosen here. Lines: the theory at finite d,
which has the corrections of order 1/d from the mean of the features and from the output of the network before its step; the spiked
model takes no step and has only the first. At d = 100 these corrections are a quarter of the risk and what is left out shows
(2 to 3 % of the risk at d = 100, 2 % for the network at 200): both are shown from d = 100 and judged from d = 400 on. The number
of replicates is inversely proportional to d.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from firststep import plots
from firststep.figures.core import Curve, Panel, Row, Scale, predicted
from firststep.figures.cui_common import SharedLegend, legend_below
from firststep.problem import Problem
from firststep.store import Store
from firststep.sweep.engine import Watcher
from firststep.sweep.executors import Executor
from firststep.sweep.units import Replicate

SMALLEST = 100  # d
JUDGED_FROM = 400  # d
PROBLEM = Problem.from_cui(
    sigma="tanh", sigma_star="tanh", alpha=2.0, alpha0=8.0, beta=1.0, eta_tilde=1.0, lambda_=0.1
)


def panels(scale: Scale) -> Sequence[Panel]:
    at = [
        scale.dimension // 2**k
        for k in reversed(range(int(math.log2(scale.dimension / SMALLEST)) + 1))
    ]
    curves = [
        Curve(
            "network, exact theory", lambda d: PROBLEM.replace(dimension=int(d)), at, color="blue"
        ),
        Curve(
            "spiked model, isotropic theory",
            lambda d: PROBLEM.replace(dimension=int(d)),
            at,
            model="spiked",
            color="orange",
            marker="s",
            style="--",
        ),
    ]
    return [
        Panel(curves, "d", "dimension $d$", title="risk"),
        Panel((), "d", "dimension $d$", title="distance"),
    ]


@cache
def limit(bulk: str) -> float:
    """The risk at d = infinity."""
    return float(predicted([PROBLEM], "risk", bulk)[0])


class FiniteSize(SharedLegend):
    """x is the dimension of the simulation."""

    def _units(self, curve: Curve, scale: Scale) -> list[tuple[float, list[Replicate]]]:
        return [
            (
                d,
                [
                    Replicate(curve.problem(d), str(curve.model), self.seed, i, scale.options)
                    for i in range(count(scale, d))
                ],
            )
            for d in curve.at
        ]

    def compute(
        self,
        scale: Scale,
        store: Store,
        executor: Executor | None = None,
        watch: Watcher | None = None,
    ) -> list[Row]:
        rows = super().compute(scale, store, executor, watch)
        return [{**row, "judged": row["x_value"] >= JUDGED_FROM} for row in rows]

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Any) -> None:
        first, second = plots.grid(drawing, 2, 2)
        curves = self.panels(scale)[0].curves
        dense = np.unique(np.round(np.geomspace(min(curves[0].at), max(curves[0].at), 25)))
        for curve in curves:
            line = predicted([curve.problem(d) for d in dense], "risk", str(curve.theory))
            end = limit(str(curve.theory))
            mine = [row for row in rows if row["curve"] == curve.label]
            x, mean, error = (
                [row[name] for row in mine] for name in ("x_value", "simulated", "standard_error")
            )
            plots.curve(first, dense, line, curve.color, style=curve.style)
            plots.points(first, x, mean, error, curve.label, curve.color, curve.marker)
            plots.curve(second, dense, abs(line - end) / end, curve.color, style=curve.style)
            away, spread = (
                [abs(value - end) / end for value in mean],
                [value / end for value in error],
            )
            plots.points(second, x, away, spread, curve.label, curve.color, curve.marker)
        plots.level(first, limit("exact"), r"$d = \infty$")
        plots.curve(second, dense, 5 / dense, "grey", r"$\propto 1/d$", ":")
        first.set(xscale="log", xlabel="dimension $d$", ylabel="test risk")
        second.set(
            xscale="log",
            yscale="log",
            xlabel="dimension $d$",
            ylabel=r"$|R(d) - R(\infty)|\,/\,R(\infty)$",
            ylim=(0.003, 0.4),
        )
        plots.plain_ticks(first, curves[0].at, ())
        plots.plain_ticks(second, curves[0].at, (0.005, 0.01, 0.02, 0.05, 0.1, 0.2))
        legend_below(
            drawing,
            scale,
            self.legend_columns,
            f"lines: theory; points: simulation, mean ± s.e. of {scale.replicates} or more",
        )

    def shape(self, scale: Scale) -> tuple[float, float]:
        return 2 * self.size[0], self.size[1]


def count(scale: Scale, dimension: float) -> int:
    """Replicates at a dimension: those of the scale at its own, more at smaller ones."""
    return round(scale.replicates * scale.dimension / dimension)


FIGURE = FiniteSize(
    name="cui-finite-size",
    title="Finite networks approach the theory as 1/d",
    source="[Cui] finite-size simulations",
    caption=(
        "Left: the risk at several dimensions and its limit. Right: the distance from the limit, which falls as 1/d. The network "
        "is nearer to it than the spiked model, because its step also removes part of what it said before the step; the theory at "
        "finite d knows both."
    ),
    panels=panels,
    quick=Scale(dimension=800, replicates=20, points=4),
    full=Scale(dimension=1600, replicates=40, points=5, full=True),
    size=(5.2, 4.0),
    legend_columns=4,
)
