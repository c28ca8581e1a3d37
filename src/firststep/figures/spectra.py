"""Drawings of spectra: the simulated histogram, the predicted density, and outliers as markers.

``python -m firststep.figures.spectra FOLDER`` makes the pictures of docs/spectra.md.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep import plots
from firststep.errors import InvalidParameter
from firststep.figures.shape import learns
from firststep.problem import Problem
from firststep.results import with_error
from firststep.spectrum import Spectrum, distance, is_wide, spectrum
from firststep.theory.spectrum.law import SpectralLaw, spectral_law

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from firststep.typing import Array, Float

ENDINGS = (".png", ".pdf", ".svg")
REACH = 2.5  # times the edge of the bulk: an outlier beyond would leave little room for the bulk
LABELS = {"weights": r"singular value of $W_1$", "kernel": r"eigenvalue of $F^TF/n$"}


def prepare(path: Path) -> None:
    """Find out before the work whether the picture can be drawn and written."""
    if path.suffix.lower() not in ENDINGS:
        raise InvalidParameter("out", "a file name that ends in " + ", ".join(ENDINGS), str(path))
    plots.require()
    plots.prepare(path.parent)


def draw(
    axes: Axes, found: Spectrum, other: SpectralLaw | None = None, legend: bool = True
) -> None:
    """One spectrum; ``other``: a second law, dashed.

    A wide one is drawn on a logarithmic axis, as a density of the logarithm. Outliers beyond a
    linear axis are written, not drawn.
    """
    law, wide = found.law, is_wide(found.law)
    near = [value for value in law.outliers if wide or value < REACH * law.edges[1]]
    reach = 1.15 * max(law.edges[1], found.bins[-1], *near)
    if wide:
        axes.set_xscale("log")
    heights = _heights(found, wide)
    label = f"{found.replicates} networks"
    axes.stairs(heights, found.bins, fill=True, color=plots.COLORS["sky"], alpha=0.55, label=label)
    for each, color, style in ((law, "blue", "-"), (other, "red", "--")):
        if each is not None:
            density = each.density * (each.values if wide else 1.0)
            plots.curve(axes, each.values, density, color, label=f"{each.bulk} bulk", style=style)
    # A density may be infinite at 0, which must not set the height of the picture.
    shown = law.density * law.values if wide else law.density[law.values > 0.02 * law.edges[1]]
    top = 1.12 * max(float(heights.max()), float(shown.max()))
    _draw_outliers(axes, found, reach, top)
    axes.set(xlim=(0.7 * found.bins[0] if wide else 0, reach), ylim=(0, top), xlabel=LABELS[law.of])
    axes.set_ylabel("density of the logarithm" if wide else "density")
    if wide:
        plots.readable_logs(axes)
    if legend:
        axes.legend(fontsize=8, loc="upper right")


def _heights(found: Spectrum, wide: bool) -> Float[Array, " bins"]:
    """The histogram as a density, of the logarithm if it is wide."""
    if not wide:
        return found.histogram
    low, high = found.bins[:-1], found.bins[1:]
    return found.histogram * (high - low) / np.log(high / low)


def _draw_outliers(axes: Axes, found: Spectrum, reach: float, top: float) -> None:
    """Those within reach as markers at the foot, the others in words below the legend."""
    inside = [level for level in found.outliers if level.theory < reach]
    outside = [level for level in found.outliers if level.theory >= reach]
    if inside:
        size = 0.03 * top
        axes.plot(
            [each.theory for each in inside],
            [size] * len(inside),
            "v",
            color=plots.COLORS["blue"],
            label="outlier, theory",
        )
        axes.errorbar(
            [each.simulated for each in inside],
            [2.5 * size] * len(inside),
            xerr=[each.standard_error for each in inside],
            fmt="o",
            markersize=4,
            capsize=2.5,
            color=plots.COLORS["orange"],
            label="outlier, networks",
        )
    if outside:
        lines = ["outliers beyond:" if len(outside) > 1 else "outlier beyond:"]
        lines += [
            f"theory {each.theory:.4g}, networks {with_error(each.simulated, each.standard_error)}"
            for each in outside
        ]
        axes.text(
            0.98,
            0.72,
            "\n".join(lines) + r" $\rightarrow$",
            transform=axes.transAxes,
            ha="right",
            va="top",
            fontsize=8,
            bbox=dict(facecolor="white", edgecolor="none", alpha=0.85, pad=2),
        )


def write(found: Spectrum, path: Path) -> tuple[Path, Path]:
    """The picture, and what it shows as CSV beside it."""
    prepare(path)
    with plots.figure() as (drawing, axes):
        draw(axes, found)
        axes.set_title(
            f"{found.problem.student} learns {found.problem.teacher}, d = {found.sizes.dimension}",
            fontsize=10,
        )
        return plots.save(drawing, path), found.to_csv(path.with_suffix(".csv"))


class Scene(NamedTuple):
    title: str
    of: str
    problem: Problem


_LARGE = dict(alpha0=0.5, step=4, readout="signs", init="sphere")
_RELU = learns("centered(relu)", "tanh", alpha=2, noise=0.1, **_LARGE)
_SMALL = dict(alpha0=1, step=3, step_exponent=0)
_TANH = learns("tanh", "tanh", alpha=2, beta=0.5, noise=0.1, **_SMALL)
SCENES = (
    Scene("weights, small step: tanh learns tanh", "weights", _TANH),
    Scene("weights, large step: relu learns tanh", "weights", _RELU),
    Scene("kernel, small step: tanh learns tanh", "kernel", _TANH),
    Scene("kernel, large step: relu learns tanh", "kernel", _RELU),
)


def overview(folder: Path, dimension: int = 1000, replicates: int = 4) -> Path:
    """Both matrices after a small and a large step, with exact and isotropic bulk."""
    with plots.blank(10.5, 7.6) as drawing:
        for axes, scene in zip(plots.grid(drawing, 4, 2), SCENES, strict=True):
            found = spectrum(scene.problem, scene.of, dimension, replicates)
            other = spectral_law(found.law.problem, scene.of, "isotropic")
            draw(axes, found, other, legend=scene is SCENES[3])
            apart = distance(other, found.simulated)
            words = f"{found.distance:.4f} (exact), {apart:.4f} (isotropic)"
            title = f"{scene.title}\nKolmogorov-Smirnov distance {words}"
            axes.set_title(title, fontsize=9.5)
            print(found, flush=True)
        return plots.save(drawing, folder / "spectra-overview.png")


if __name__ == "__main__":
    overview(Path(sys.argv[1]))
