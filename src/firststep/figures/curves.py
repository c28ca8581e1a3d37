"""The picture of ``Curves``: theory as lines with their finite-size error, networks as points."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from firststep import plots
from firststep.curves import Curves, Point
from firststep.figures.spectra import prepare

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from firststep.typing import Array, Float

COLORS = ("blue", "orange", "green", "red", "pink", "sky", "grey")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SYMBOLS = {
    "alpha": r"samples of the fit, $\alpha = n/d$",
    "beta": r"width, $\beta = N/d$",
    "alpha0": r"samples of the step, $\alpha_0 = n_0/d$",
    "step": r"step size, $\tilde\eta$",
    "ridge": r"ridge, $\lambda$",
    "noise": r"label noise, $\sigma_\varepsilon$",
    "dimension": "dimension, $d$",
}
LINE = 110  # characters of the command below the picture
DECADES = 5.0  # of ratios from which the axis is a logarithmic one


def write(found: Curves, path: Path, command: str) -> tuple[Path, Path]:
    """The picture, with the command that made it below and inside, and its data as CSV."""
    prepare(path)
    question = found.question
    with plots.figure() as (drawing, axes):
        for place, by in enumerate(question.by_values or (None,)):
            points = [point for point in found.points if point.by == by]
            label = "" if by is None else f"{question.by} = {by:g}"
            _draw(axes, found, points, (place, label))
        values = np.array(question.values)
        if np.all(values > 0) and values.max() > DECADES * values.min():
            axes.set_xscale("log")
        heights = _heights(found)
        if heights.size and np.all(heights > 0) and heights.max() > DECADES * heights.min():
            axes.set_yscale("log")
        axes.set(xlabel=SYMBOLS.get(question.axis, question.axis.replace("_", " ")))
        axes.set_ylabel("test risk" if found.measure == "risk" else "error rate")
        problem = question.problem
        size = r"$\infty$" if problem.dimension == math.inf else f"{problem.dimension:g}"
        size = "" if question.axis == "dimension" else f", d = {size}"
        axes.set_title(f"{problem.student} learns {problem.teacher}{size}", fontsize=10)
        plots.readable_logs(axes)
        axes.legend(fontsize=8)
        lines = "\n".join(textwrap.wrap(command, LINE))
        drawing.supxlabel(lines, fontsize=5, color="0.45", x=0.01, ha="left", parse_math=False)
        return plots.save(drawing, path, command), found.to_csv(path.with_suffix(".csv"))


def _draw(axes: Axes, found: Curves, points: list[Point], look: tuple[int, str]) -> None:
    place, label = look
    color, marker = COLORS[place % len(COLORS)], MARKERS[place % len(MARKERS)]
    if found.has_theory:
        known = [point for point in points if np.isfinite(point.theory)]
        x, y = [point.value for point in known], [point.theory for point in known]
        plots.curve(axes, x, y, color, label=label or "theory")
        sized = [point for point in known if np.isfinite(point.model_error)]
        if sized:
            x, y, error = (_column(sized, name) for name in ("value", "theory", "model_error"))
            plots.band(axes, x, y, error, color)
    if found.has_networks:
        words = "" if found.has_theory and label else label or "networks, one standard error"
        x, y, error = (_column(points, name) for name in ("value", "simulated", "standard_error"))
        plots.points(axes, x, y, error, label=words, color=color, marker=marker)


def _column(points: list[Point], name: str) -> list[float]:
    return [getattr(point, name) for point in points]


def _heights(found: Curves) -> Float[Array, " numbers"]:
    numbers = [n for point in found.points for n in (point.theory, point.simulated)]
    return np.array([each for each in numbers if np.isfinite(each)])
