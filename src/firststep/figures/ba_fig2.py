"""[Ba] Figure 2: paths of the neurons in two coordinates, mean-field against NTK.

From the caption: two ReLU neurons as the teacher, a two-layer ReLU student, d = 512, n/d = N/d =
10, gradient descent until the training loss is below 1e-3, dark colour early and bright colour
late. The rest is chosen here. The teacher is relu(<x, t1>) + relu(<x, t2>) with t1, t2 orthonormal
in the plane of the first two coordinates, the plane that is drawn; its labels have no noise. The
loss is mean((y - f)^2)/2. The first layer is trained by full-batch gradient descent on one set of n
samples, the readout a_i ~ N(0, 1/N) stays as drawn, as in [Ba] section 2.1. Mean-field: f = sum_i
a_i relu(<w_i, x>)/sqrt(N), step sqrt(N)/2; NTK: f without 1/sqrt(N), step 1, from the same weights.
Single precision. 150 neurons are drawn, at no more than 80 moments each.

The theory is that of one step. The dotted line is the direction in which it says that the first
gradient points, sum_b gamma_b t_b in this plane with gamma_b = c*_b/|v| of ``predict`` for these
two terms: half-way between the neurons of the teacher.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.figures.core import Bench, Figure
from firststep.figures.shape import Axis, Panel, Row, Scale, learns
from firststep.predicting import predict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from firststep.typing import Array, Float

RATIO = 10  # n/d and N/d
ANGLES = np.deg2rad([20.0, 110.0])  # of the teacher's neurons in the plane
ENOUGH = 1e-3  # training loss at which the descent stops
MOST_STEPS = 2000  # a descent that stalls is reported instead of running on
NEURONS, MOMENTS = 150, 80  # drawn
TITLES = {"mean-field": "mean-field parameterisation", "ntk": "NTK parameterisation"}
# What the descent begins with: its first step is one of a network on n0 = n samples.
FIRST_STEP = learns("relu", "relu", teacher_terms=("relu",), alpha=RATIO, beta=RATIO, ridge=0.1)
PLANE = Axis("step", r"$\langle w_i, e_1\rangle$")


@dataclass(frozen=True)
class Data:
    """What both networks start from."""

    inputs: Float[Array, "n d"]
    labels: Float[Array, " n"]
    weights: Float[Array, "d N"]
    readout: Float[Array, " N"]

    @classmethod
    def drawn(cls, dimension: int, seed: int) -> Data:
        generator = np.random.default_rng([seed, dimension])
        count = RATIO * dimension
        inputs = generator.standard_normal((count, dimension), dtype=np.float32)
        weights = generator.standard_normal((dimension, count), dtype=np.float32)
        weights = weights / np.float32(math.sqrt(dimension))
        readout = generator.standard_normal(count, dtype=np.float32) / np.float32(math.sqrt(count))
        along = inputs[:, :2] @ np.array([np.cos(ANGLES), np.sin(ANGLES)], np.float32)
        return cls(inputs, np.maximum(along, 0).sum(axis=1), weights, readout)


def descend(data: Data, parameterization: str) -> Iterator[tuple[float, Float[Array, "2 N"]]]:
    """Loss and first two coordinates of all weights, before every step and at the end."""
    width, samples = len(data.readout), len(data.labels)
    mean_field = parameterization == "mean-field"
    scale = np.float32(1 / math.sqrt(width) if mean_field else 1.0)
    rate = np.float32((math.sqrt(width) / 2 if mean_field else 1.0) / samples)
    weights = data.weights.copy()
    for _ in range(MOST_STEPS):
        features = data.inputs @ weights
        active = features > 0
        features *= active
        residual = data.labels - scale * (features @ data.readout)
        loss = float(np.mean(residual**2)) / 2
        yield loss, weights[:2].copy()
        if loss < ENOUGH:
            return
        np.multiply.outer(residual, data.readout, out=features)
        features *= active
        weights += rate * (data.inputs.T @ features)
    raise RuntimeError(f"{parameterization}: the loss is still {loss:.2g} after {MOST_STEPS} steps")


class Trajectories(Figure):
    """Paths in a plane instead of curves."""

    def compute(self, bench: Bench) -> list[Row]:
        data = Data.drawn(bench.scale.dimension, self.seed)
        return [row for name in TITLES for row in self._paths(name, data)]

    def _paths(self, name: str, data: Data) -> Iterator[Row]:
        states = list(descend(data, name))
        # Squares: the first steps, in which most happens, are drawn more densely.
        roots = np.linspace(0, math.sqrt(len(states) - 1), MOMENTS).round(6)
        shown = np.unique(roots**2 // 1).astype(int)
        for neuron in range(NEURONS):
            for step in [*shown[:-1], len(states) - 1]:
                loss, plane = states[step]
                yield {
                    "panel": name,
                    "curve": f"neuron {neuron}",
                    "quantity": "weights",
                    "x": "step",
                    "x_value": int(step),
                    "judged": False,
                    "score": math.nan,
                    "seed": self.seed,
                    "student": "relu",
                    "teacher": "two relu neurons",
                    "alpha": RATIO,
                    "beta": RATIO,
                    "dimension": len(data.weights),
                    "neuron": neuron,
                    "loss": loss,
                    "readout": float(data.readout[neuron]) * math.sqrt(len(data.readout)),
                    "first_coordinate": float(plane[0, neuron]),
                    "second_coordinate": float(plane[1, neuron]),
                }

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Drawing) -> None:
        for panel, axes, mine in self.placed(rows, scale, drawing):
            bundle = _draw_paths(axes, _paths_of(mine))
            _draw_first_step(axes, scale.dimension)
            axes.set_title(f"{TITLES[panel.title]}, {mine[-1]['x_value']} steps", fontsize=10)
            axes.set(xlabel=PLANE.label, ylabel=panel.ylabel)
        bar = drawing.colorbar(
            bundle, ax=axes, label="steps done", shrink=0.9, ticks=(0, 0.05, 0.2, 0.5, 1)
        )
        bar.ax.set_yticklabels(["start", "5 %", "20 %", "50 %", "end"])


def _paths_of(rows: Sequence[Row]) -> list[Float[Array, "moments 3"]]:
    """Step and coordinates of each neuron."""
    names = ("x_value", "first_coordinate", "second_coordinate")
    table = np.array([[row[name] for name in names] for row in rows], float)
    return np.split(table, np.flatnonzero(np.diff(table[:, 0]) < 0) + 1)


def _draw_paths(axes: Axes, paths: Sequence[Float[Array, "moments 3"]]) -> Any:
    """Paths from dark to bright, and the directions of the teacher."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    colors = LinearSegmentedColormap.from_list(
        "dark to bright", ["#1A0A38", "#0072B2", "#56B4E9", "#F0C75E"]
    )
    pieces = [np.stack([path[:-1, 1:], path[1:, 1:]], axis=1) for path in paths]
    when = [(path[:-1, 0] + path[1:, 0]) / (2 * path[-1, 0]) for path in paths]
    look: dict[str, Any] = dict(cmap=colors, norm=PowerNorm(0.4, 0, 1), linewidths=0.9)
    bundle = axes.add_collection(
        LineCollection(list(np.concatenate(pieces)), array=np.concatenate(when), **look)
    )
    starts, ends = (np.array([path[place, 1:] for path in paths]).T for place in (0, -1))
    axes.plot(*starts, ".", color=colors(0.0), markersize=3)
    axes.plot(
        *ends, "o", color=colors(1.0), markersize=3, markeredgecolor="#6B5310", markeredgewidth=0.4
    )
    middle, half = _square(np.concatenate([path[:, 1:] for path in paths]))
    far = 4 * half  # out of the picture
    for angle in ANGLES:
        end = ([0, far * math.cos(angle)], [0, far * math.sin(angle)])
        axes.plot(*end, "--", color="black", linewidth=1.4, zorder=3)
    axes.set(
        xlim=middle[0] + half * np.array([-1, 1]),
        ylim=middle[1] + half * np.array([-1, 1]),
        aspect="equal",
    )
    return bundle


def _draw_first_step(axes: Axes, dimension: int) -> None:
    """The direction of the first gradient, by the theory, across the whole picture."""
    towards = predict(FIRST_STEP, dimension=dimension).alignments
    plane = np.stack([np.cos(ANGLES), np.sin(ANGLES)]) @ towards
    far = 4 * np.ptp(axes.get_xlim()) / np.linalg.norm(plane)
    axes.plot(
        *(far * np.outer(plane, [-1, 1])),
        ":",
        color="#B04A00",
        linewidth=1.6,
        zorder=3,
        scalex=False,
        scaley=False,
        label="first step, theory",
    )
    axes.legend(loc="lower left", fontsize=8)


def _square(points: Float[Array, "points 2"]) -> tuple[Float[Array, " 2"], float]:
    """Middle and half the side of a square around the points."""
    low, high = points.min(axis=0), points.max(axis=0)
    return (low + high) / 2, 0.54 * float((high - low).max())  # a margin of 4 % on every side


FIGURE = Trajectories(
    name="ba-fig2",
    title=(
        "Neurons turn to the teacher (dashed) in mean-field and barely move in NTK: note the axes"
    ),
    source="[Ba] Figure 2",
    caption=(
        "Paths of the first-layer weights in the plane of the two ReLU neurons of the teacher "
        "(dashed directions). Mean-field: the neurons leave their initial place and turn towards "
        "the teacher. NTK: the same loss is reached with hardly a move; note the scale of the "
        "axes. Dotted: the direction of the first step by the theory, half-way between both."
    ),
    panels=lambda _: [
        Panel((), PLANE, ylabel=r"$\langle w_i, e_2\rangle$", title=name) for name in TITLES
    ],
    quick=Scale(dimension=192, replicates=1, points=1),
    full=Scale(dimension=512, replicates=1, points=1, full=True),
    size=(5.2, 4.9),
)
