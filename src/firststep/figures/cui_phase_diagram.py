"""[Cui]: where a step helps, and where it beats every kernel: maps of the risk from theory, with simulated checks.

tanh learns sin, readout ones, rows on the sphere, lambda = 0.1 in the paper's convention (ridge 0.1 beta/alpha in ours). Left:
over the samples and the size of the step at alpha = 2, beta = 1. Right: over samples and width at alpha0 = 8, eta_tilde = 3. The
paper has no such map; the ranges are chosen here. Colours: risk divided by the kernel lower bound, which is 1 on the solid line.
Dashed line: no gain over random features. Circles: networks, in the colour of their simulated risk; they vanish in the map where
theory is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from firststep import plots
from firststep.figures.core import Curve, Panel, Row, Scale
from firststep.figures.cui_common import SharedLegend
from firststep.problem import Problem
from firststep.theory.one_step.predict import predict

LAMBDA = 0.1
BOUND = Problem(student="tanh", teacher="sin", alpha=1, beta=1).kernel_lower_bound


@dataclass(frozen=True)
class Map:
    """Two fields with their ranges, the fixed ones, and where simulations check it."""

    title: str
    fields: tuple[str, str]
    labels: tuple[str, str]
    ranges: tuple[tuple[float, float], tuple[float, float]]
    ticks: tuple[tuple[float, ...], tuple[float, ...]]
    fixed: dict[str, float]
    checks: tuple[tuple[float, float], ...]
    words: tuple[
        tuple[float, float, str, str], ...
    ]  # written on the map, from the left end, with their colour

    def problem(self, x: float, y: float) -> Problem:
        given = {**self.fixed, self.fields[0]: x, self.fields[1]: y}
        ridge = LAMBDA * given["beta"] / given["alpha"]
        return Problem(
            student="tanh", teacher="sin", ridge=ridge, readout="ones", init="sphere", **given
        )


MAPS = (
    Map(
        r"step: $\alpha = 2$, $\beta = 1$",
        ("alpha0", "step"),
        (r"step samples per dimension $\alpha_0$", r"step size $\tilde\eta$"),
        ((0.25, 32.0), (0.1, 10.0)),
        ((0.25, 1, 4, 16), (0.1, 0.3, 1, 3, 10)),
        {"alpha": 2.0, "beta": 1.0},
        ((0.5, 0.3), (0.5, 4.0), (2.0, 1.0), (4.0, 6.0), (12.0, 0.5), (12.0, 3.0)),
        (
            (0.27, 8.0, "step does harm", "black"),
            (9.0, 5.5, "beats every\nkernel", "white"),
            (0.7, 0.16, "step helps", "white"),
        ),
    ),
    Map(
        r"fit: $\alpha_0 = 8$, $\tilde\eta = 3$",
        ("alpha", "beta"),
        (r"samples per dimension $\alpha$", r"width per dimension $\beta$"),
        ((0.25, 16.0), (0.25, 4.0)),
        ((0.25, 1, 4, 16), (0.25, 0.5, 1, 2, 4)),
        {"alpha0": 8.0, "step": 3.0},
        ((0.4, 0.4), (0.4, 2.0), (1.0, 0.8), (2.5, 0.4), (2.5, 2.0), (8.0, 1.0)),
        (
            (5.0, 2.8, "beats every\nkernel", "white"),
            (0.27, 0.29, "better than random features", "white"),
        ),
    ),
)


def panels(scale: Scale) -> Sequence[Panel]:
    def curve(chosen: Map) -> Curve:
        return Curve(
            "network",
            lambda number: chosen.problem(*chosen.checks[int(number)]),
            range(len(chosen.checks)),
        )

    return [
        Panel([curve(each)], "check", each.labels[0], each.labels[1], each.title) for each in MAPS
    ]


class PhaseDiagram(SharedLegend):
    """A row is a check; the maps are theory at the dimension of the checks."""

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Any) -> None:
        from matplotlib.colors import LogNorm

        norm, shown = LogNorm(0.4, 8.0), None
        for chosen, axes in zip(MAPS, plots.grid(drawing, 2, 2), strict=True):
            x, y = (np.geomspace(*ends, scale.points) for ends in chosen.ranges)
            risk, gain = solved(chosen, x, y, scale.dimension)
            shown = axes.contourf(
                x,
                y,
                risk / BOUND,
                np.geomspace(0.4, 8.0, 41),
                norm=norm,
                cmap="viridis",
                extend="both",
            )
            axes.contour(x, y, risk / BOUND, (1.0,), colors="white", linewidths=2)
            axes.contour(x, y, gain, (0.0,), colors="white", linestyles="--", linewidths=1.5)
            mine = [row for row in rows if row["panel"] == chosen.title]
            places = ([row[name] for row in mine] for name in chosen.fields)
            colors = [row["simulated"] / BOUND for row in mine]
            axes.scatter(
                *places,
                c=colors,
                norm=norm,
                cmap="viridis",
                s=90,
                edgecolors="white",
                linewidths=1.5,
                zorder=3,
            )
            for place_x, place_y, words, color in chosen.words:
                axes.text(
                    place_x, place_y, words, va="center", color=color, fontsize=9, fontweight="bold"
                )
            axes.set(xscale="log", yscale="log", xlabel=chosen.labels[0], ylabel=chosen.labels[1])
            axes.set(xlim=chosen.ranges[0], ylim=chosen.ranges[1])
            axes.grid(False)
            plots.plain_ticks(axes, *chosen.ticks)
            axes.set_title(chosen.title, fontsize=10)
        bar = drawing.colorbar(shown, ax=drawing.axes, label="risk / kernel lower bound")
        bar.set_ticks((0.5, 1, 2, 4, 8), labels=("0.5", "1", "2", "4", "8"))
        bar.ax.minorticks_off()


def solved(
    chosen: Map, x: np.ndarray, y: np.ndarray, dimension: int
) -> tuple[np.ndarray, np.ndarray]:
    """Risk and gain on the grid."""
    across, along = np.meshgrid(x, y)
    given: dict[str, Any] = {**chosen.fixed, chosen.fields[0]: across, chosen.fields[1]: along}
    ridge = LAMBDA * given["beta"] / given["alpha"] + 0 * across
    found = predict(chosen.problem(1.0, 1.0).replace(dimension=dimension), **given, ridge=ridge)
    return np.asarray(found.risk), np.asarray(found.gain)


FIGURE = PhaseDiagram(
    name="cui-phase-diagram",
    title="Where one step helps, and where it beats every kernel",
    source="[Cui]; maps by firststep",
    caption=(
        "Left: a large step needs a large batch. To the upper left of the dashed line the step does harm; inside the solid line "
        "the network is better than any kernel with any amount of data. Right: after a good step few samples and narrow networks "
        "suffice to beat the kernels. Circles are simulated networks, filled with the colour of their own risk."
    ),
    panels=panels,
    quick=Scale(dimension=400, replicates=12, points=25),
    full=Scale(dimension=1000, replicates=24, points=49, full=True),
    size=(5.4, 4.2),
)
