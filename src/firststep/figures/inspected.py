"""Drawings of a look into trained weights: singular values, the fitted law, its edge, outliers.

``python -m firststep.figures.inspected FOLDER`` makes the picture of docs/inspect.md.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep import plots
from firststep.errors import InvalidParameter, shown
from firststep.figures import spectra
from firststep.problem import Problem
from firststep.simulation.running.layer import first_layer
from firststep.trained.inspection import Inspection, LayerLook, inspect
from firststep.trained.look import Look
from firststep.writing import write_csv

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes

    from firststep.typing import Array, Float

MOST = 4  # matrices in one picture
_REACH = 3.0  # times the edge of the bulk: values beyond are written, not drawn


def prepare(path: Path) -> None:
    """Find out before the work whether the picture, or the table, can be written."""
    if path.suffix.lower() == ".csv":
        plots.prepare(path.parent)
    elif path.suffix.lower() in spectra.ENDINGS:
        spectra.prepare(path)
    else:
        allowed = "a file name that ends in " + ", ".join((*spectra.ENDINGS, ".csv"))
        raise InvalidParameter("out", allowed, str(path))


def write(found: Inspection, path: Path) -> tuple[Path, ...]:
    """The picture of the first matrices and what it shows as CSV beside it; or the table."""
    prepare(path)
    if path.suffix.lower() == ".csv":
        return (found.to_csv(path),)
    layers = [layer for layer in found.layers if layer.weights or layer.change][:MOST]
    panels = [panel for layer in layers for panel in _panels(layer)]
    if not panels:
        raise InvalidParameter("out", "given for weights that are not all zero", str(path))
    across = max(len(list(_panels(layer))) for layer in layers)
    with plots.blank(5.4 * across, 3.6 * math.ceil(len(panels) / across)) as drawing:
        for axes, (name, look) in zip(
            plots.grid(drawing, len(panels), across), panels, strict=True
        ):
            draw(axes, look)
            axes.set_title(f"{shown(name, 50)}, {look.shape[0]} x {look.shape[1]}", fontsize=10)
        data = path.with_suffix(".csv")
        write_csv(data, _lines(panels))
        return plots.save(drawing, path), data


def _panels(layer: LayerLook) -> Iterator[tuple[str, Look]]:
    if layer.weights is not None:
        yield layer.name, layer.weights
    if layer.change is not None:
        yield f"{layer.name}, change", layer.change


def _histogram(look: Look) -> tuple[Float[Array, " bins"], Float[Array, " bins+1"]]:
    """Of all values, as a density; bins over what is not far beyond the bulk."""
    values = look.fitted
    inside = values[look.count or 0 :] if look.count is not None else values
    count = int(min(60, max(10, round(2 * math.sqrt(len(inside))))))
    low, high = float(inside[-1]), float(inside[0])
    low = 0.0 if low < 0.1 * high else low
    bins = np.linspace(low, high * 1.0001 if high > low else low + 1, count + 1)
    heights = np.histogram(inside, bins)[0] / (len(values) * np.diff(bins))
    return heights, bins


def _ends(look: Look) -> Iterator[tuple[float, str]]:
    """Where the bulk ends: of noise, what 99 % of matrices are below."""
    if math.isfinite(look.threshold):
        yield look.threshold, "99 % of noise is below"
    elif math.isfinite(look.edge):
        yield look.edge, "edge, fitted"


def draw(axes: Axes, look: Look) -> None:
    """One matrix: its values, the law of noise where it is one, the edge and what is beyond."""
    heights, bins = _histogram(look)
    law = look.density
    axes.stairs(
        heights, bins, fill=True, color=plots.COLORS["sky"], alpha=0.55, label="singular values"
    )
    top = 1.2 * max(float(heights.max()), float(law[1].max()) if law is not None else 0.0)
    if law is not None:
        plots.curve(axes, *law, "blue", label=look.words)
    for place, words in _ends(look):
        axes.axvline(place, color=plots.COLORS["grey"], linestyle="--", label=words, zorder=0.9)
    end = look.edge if math.isfinite(look.edge) else float(bins[-1])
    near = [each for each in look.outliers if each.value < _REACH * end]
    far = [each for each in look.outliers if each.value >= _REACH * end]
    if near:
        places = [each.value for each in near]
        axes.plot(
            places, [0.04 * top] * len(near), "o", color=plots.COLORS["orange"], label="stands out"
        )
    reach = 1.1 * max(bins[-1], end, *(each.value for each in near))
    axes.set(xlim=(0.95 * bins[0], reach), ylim=(0, top), xlabel="singular value")
    axes.set_ylabel("density")
    axes.legend(fontsize=8, loc="upper right")
    _say(axes, look, [each.value for each in far])


def _say(axes: Axes, look: Look, far: list[float]) -> None:
    """What the drawing cannot show, in words."""
    lines = []
    if far:
        more = ", ..." if len(far) > 3 else ""
        lines.append(f"beyond: {', '.join(f'{each:.4g}' for each in far[:3])}{more}")
    if not look.is_noise:
        lines.append("no bulk of noise" if look.kind != "none" else "no bulk: no count")
    if lines:
        axes.text(
            0.98,
            0.62,
            "\n".join(lines),
            transform=axes.transAxes,
            ha="right",
            va="top",
            fontsize=8,
            bbox=dict(facecolor="white", edgecolor="none", alpha=0.85, pad=2),
        )


def _lines(panels: list[tuple[str, Look]]) -> Iterator[tuple[Any, ...]]:
    """Everything that is drawn: matrix, series, value, density or error."""
    yield "matrix", "series", "value", "density", "size", "size_error"
    for name, look in panels:
        heights, bins = _histogram(look)
        for value, height in zip((bins[1:] + bins[:-1]) / 2, heights, strict=True):
            yield name, "histogram", value, height, None, None
        if (law := look.density) is not None:
            for value, height in zip(*law, strict=True):
                yield name, "law", value, height, None, None
        for place, words in _ends(look):
            yield name, words, place, None, None, None
        for each in look.outliers:
            yield name, "outlier", each.value, None, each.size, each.size_error


def overview(folder: Path, dimension: int = 800) -> Path:
    """A first layer after three steps, and what they changed."""
    sizes = {"alpha": 2, "beta": 1.2, "alpha0": 4}
    problem = Problem(student="relu", teacher="tanh", step=1, noise=0.1, **sizes)
    layer = first_layer(problem, dimension, steps=3)
    found = inspect({"fc1.weight": layer.after.T}, {"fc1.weight": layer.before.T})
    print(found)
    return write(found, folder / "inspect.png")[0]


if __name__ == "__main__":
    overview(Path(sys.argv[1]))
