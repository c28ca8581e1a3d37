"""[Cui]: how fast finite networks approach the asymptotic theory.

tanh learns tanh: beta = 1, alpha = 2, alpha0 = 8, eta_tilde = 1, lambda = 0.1 in the paper's
convention, readout ones, rows on the sphere. The paper compares simulations of one size with d =
infinity; the numbers are chosen here. Lines: the theory at finite d, which has the corrections of
order 1/d from the mean of the features and from the output of the network before its step; the
spiked model takes no step and has only the first. At d = 100 these corrections are a quarter of the
risk and what is left out shows (2 to 3 % of the risk at d = 100, 2 % for the network at 200): both
are shown from d = 100 and judged from d = 400 on. The number of replicates is inversely
proportional to d.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from firststep import plots
from firststep.figures.core import Figure, legend_below
from firststep.figures.cui_common import cui, spiked
from firststep.figures.shape import Axis, Curve, Panel, Row, Scale, draw_points, predicted
from firststep.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

SMALLEST = 100  # d
JUDGED_FROM = 400  # d
PROBLEM = cui("tanh", "tanh", alpha=2.0, alpha0=8.0, eta_tilde=1.0)
SIZE = Axis("d", "dimension $d$")


def problem(d: float) -> Problem:
    return PROBLEM.replace(dimension=int(d))


def panels(scale: Scale) -> Sequence[Panel]:
    halvings = int(math.log2(scale.dimension / SMALLEST))
    at = [scale.dimension // 2**k for k in reversed(range(halvings + 1))]
    line = np.unique(np.round(np.geomspace(min(at), max(at), 25)))
    curves = [
        replace(each, at=at, line=tuple(line), dimension=int, judged=lambda d: d >= JUDGED_FROM)
        for each in (
            Curve("network, exact theory", problem),
            spiked("spiked model, isotropic theory", problem),
        )
    ]
    return [Panel(curves, SIZE, title="risk"), Panel((), SIZE, title="distance")]


@cache
def limit(bulk: str) -> float:
    """The risk at d = infinity."""
    return float(predicted([PROBLEM], "risk", bulk)[0])


class FiniteSize(Figure):
    """x is the dimension of the simulation; the second panel is made of the rows of the first."""

    def replicates(self, scale: Scale, dimension: float) -> int:
        """Those of the scale at its own dimension, more at smaller ones."""
        return round(scale.replicates * scale.dimension / dimension)

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Drawing) -> None:
        first, second = plots.grid(drawing, 2, 2)
        panel = self.panels(scale)[0]
        for curve in panel.curves:
            x, line, _ = panel.line(curve, scale)
            end = limit(str(curve.theory))
            mine = [row for row in rows if row["curve"] == curve.label]
            away = [
                {
                    **row,
                    "simulated": abs(row["simulated"] - end) / end,
                    "standard_error": row["standard_error"] / end,
                }
                for row in mine
            ]
            plots.curve(first, x, line, curve.color, style=curve.style)
            plots.curve(second, x, abs(line - end) / end, curve.color, style=curve.style)
            for axes, some in ((first, mine), (second, away)):
                draw_points(axes, some, curve.label, (curve.color, curve.marker))
        plots.level(first, limit("exact"), r"$d = \infty$")
        plots.curve(second, x, 5 / x, "grey", label=r"$\propto 1/d$", style=":")
        first.set(xscale="log", xlabel=SIZE.label, ylabel="test risk")
        second.set(
            xscale="log",
            yscale="log",
            xlabel=SIZE.label,
            ylabel=r"$|R(d) - R(\infty)|\,/\,R(\infty)$",
            ylim=(0.003, 0.4),
        )
        at = panel.at(panel.curves[0], scale)
        plots.plain_ticks(first, at, ())
        plots.plain_ticks(second, at, (0.005, 0.01, 0.02, 0.05, 0.1, 0.2))
        title = f"lines: theory; points: simulation, mean ± s.e. of {scale.replicates} or more"
        legend_below(drawing, scale, self.legend_columns, title)


FIGURE = FiniteSize(
    name="cui-finite-size",
    title="Finite networks approach the theory as 1/d",
    source="[Cui] finite-size simulations",
    caption=(
        "Left: the risk at several dimensions and its limit. Right: the distance from the limit, "
        "which falls as 1/d. The network is nearer to it than the spiked model, because its step "
        "also removes part of what it said before the step; the theory at finite d knows both."
    ),
    panels=panels,
    quick=Scale(dimension=800, replicates=20, points=4),
    full=Scale(dimension=1600, replicates=40, points=5, full=True),
    size=(5.2, 4.0),
    legend_columns=4,
)
