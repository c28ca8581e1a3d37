"""[Cui]: where a step helps, and where it beats every kernel: maps of the risk, with checks.

tanh learns sin, readout ones, rows on the sphere, lambda = 0.1 in the paper's convention (ridge 0.1
beta/alpha in ours). Left: over the samples and the size of the step at alpha = 2, beta = 1. Right:
over samples and width at alpha0 = 8, eta_tilde = 3. The paper has no such map; the ranges are
chosen here. Colours: risk divided by the kernel lower bound, which is 1 on the solid line. Dashed
line: no gain over random features. Circles: networks, in the colour of their simulated risk; they
vanish in the map where theory is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from firststep import plots
from firststep.figures.core import Figure
from firststep.figures.shape import Axis, Curve, Panel, Row, Scale, learns
from firststep.problem import Problem
from firststep.theory.one_step.predict import predict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from firststep.typing import Array, Float

    Places: TypeAlias = float | Float[Array, "y x"]

LAMBDA = 0.1
BOUND = learns("tanh", "sin", alpha=1).kernel_lower_bound
RATIOS = (0.4, 8.0)  # risk over the bound: the ends of the colours


class Words(NamedTuple):
    """Words on a map, from their left end."""

    x: float
    y: float
    text: str
    color: str


@dataclass(frozen=True)
class Map:
    """Two axes, named as fields, the fixed fields, and where simulations check it."""

    title: str
    x: Axis
    y: Axis
    fixed: dict[str, float]
    checks: tuple[tuple[float, float], ...]
    words: tuple[Words, ...]

    def fields(self, x: Places, y: Places) -> dict[str, Any]:
        """The fields at a place, or at many; the ridge in our convention."""
        given = {**self.fixed, self.x.name: x, self.y.name: y}
        return {**given, "ridge": LAMBDA * given["beta"] / given["alpha"]}

    def problem(self, x: float, y: float) -> Problem:
        return learns("tanh", "sin", readout="ones", init="sphere", **self.fields(x, y))

    def check(self, number: float) -> Problem:
        return self.problem(*self.checks[int(number)])


MAPS = (
    Map(
        title=r"step: $\alpha = 2$, $\beta = 1$",
        x=Axis("alpha0", r"step samples per dimension $\alpha_0$", (0.25, 32.0), (0.25, 1, 4, 16)),
        y=Axis("step", r"step size $\tilde\eta$", (0.1, 10.0), (0.1, 0.3, 1, 3, 10)),
        fixed={"alpha": 2.0, "beta": 1.0},
        checks=((0.5, 0.3), (0.5, 4.0), (2.0, 1.0), (4.0, 6.0), (12.0, 0.5), (12.0, 3.0)),
        words=(
            Words(0.27, 8.0, "step does harm", "black"),
            Words(9.0, 5.5, "beats every\nkernel", "white"),
            Words(0.7, 0.16, "step helps", "white"),
        ),
    ),
    Map(
        title=r"fit: $\alpha_0 = 8$, $\tilde\eta = 3$",
        x=Axis("alpha", r"samples per dimension $\alpha$", (0.25, 16.0), (0.25, 1, 4, 16)),
        y=Axis("beta", r"width per dimension $\beta$", (0.25, 4.0), (0.25, 0.5, 1, 2, 4)),
        fixed={"alpha0": 8.0, "step": 3.0},
        checks=((0.4, 0.4), (0.4, 2.0), (1.0, 0.8), (2.5, 0.4), (2.5, 2.0), (8.0, 1.0)),
        words=(
            Words(5.0, 2.8, "beats every\nkernel", "white"),
            Words(0.27, 0.29, "better than random features", "white"),
        ),
    ),
)
PANELS = tuple(
    Panel(
        [Curve("network", each.check, range(len(each.checks)))],
        Axis("check", each.x.label),
        ylabel=each.y.label,
        title=each.title,
    )
    for each in MAPS
)


class PhaseDiagram(Figure):
    """A row is a check; the maps are theory at the dimension of the checks."""

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Drawing) -> None:
        for chosen, axes in zip(MAPS, plots.grid(drawing, 2, 2), strict=True):
            mine = [row for row in rows if row["panel"] == chosen.title]
            shown = draw_map(chosen, mine, scale, axes)
        bar = drawing.colorbar(shown, ax=drawing.axes, label="risk / kernel lower bound")
        bar.set_ticks((0.5, 1, 2, 4, 8), labels=("0.5", "1", "2", "4", "8"))
        bar.ax.minorticks_off()


def draw_map(chosen: Map, rows: Sequence[Row], scale: Scale, axes: Axes) -> Any:
    """The map in colours with its lines, its words and its checks; the artist of the colours."""
    from matplotlib.colors import LogNorm

    colors: dict[str, Any] = dict(norm=LogNorm(*RATIOS), cmap="viridis")
    x, y = (np.geomspace(*axis.ends, scale.points) for axis in (chosen.x, chosen.y))
    risk, gain = solved(chosen, x, y, scale.dimension)
    shown = axes.contourf(x, y, risk / BOUND, np.geomspace(*RATIOS, 41), extend="both", **colors)
    axes.contour(x, y, risk / BOUND, (1.0,), colors="white", linewidths=2)
    axes.contour(x, y, gain, (0.0,), colors="white", linestyles="--", linewidths=1.5)
    axes.scatter(
        [row[chosen.x.name] for row in rows],
        [row[chosen.y.name] for row in rows],
        c=[row["simulated"] / BOUND for row in rows],
        s=90,
        edgecolors="white",
        linewidths=1.5,
        zorder=3,
        **colors,
    )
    for each in chosen.words:
        look: dict[str, Any] = dict(va="center", color=each.color, fontsize=9, fontweight="bold")
        axes.text(each.x, each.y, each.text, **look)
    axes.set(xscale="log", yscale="log", xlabel=chosen.x.label, ylabel=chosen.y.label)
    axes.set(xlim=chosen.x.ends, ylim=chosen.y.ends)
    axes.grid(False)
    plots.plain_ticks(axes, chosen.x.ticks, chosen.y.ticks)
    axes.set_title(chosen.title, fontsize=10)
    return shown


def solved(
    chosen: Map, x: Float[Array, " x"], y: Float[Array, " y"], dimension: int
) -> tuple[Float[Array, "y x"], Float[Array, "y x"]]:
    """Risk and gain on the grid."""
    across, along = np.meshgrid(x, y)
    fields = chosen.fields(across, along)
    fields["ridge"] = fields["ridge"] + 0 * across  # the same everywhere, or of the grid's shape
    found = predict(chosen.problem(1.0, 1.0).replace(dimension=dimension), **fields)
    return np.asarray(found.risk), np.asarray(found.gain)


FIGURE = PhaseDiagram(
    name="cui-phase-diagram",
    title="Where one step helps, and where it beats every kernel",
    source="[Cui]; maps by firststep",
    caption=(
        "Left: a large step needs a large batch. To the upper left of the dashed line the step "
        "does harm; inside the solid line the network is better than any kernel with any amount of "
        "data. Right: after a good step few samples and narrow networks suffice to beat the "
        "kernels. Circles are simulated networks, filled with the colour of their own risk."
    ),
    panels=lambda _: PANELS,
    quick=Scale(dimension=400, replicates=12, points=25),
    full=Scale(dimension=1000, replicates=24, points=49, full=True),
    size=(5.4, 4.2),
)
