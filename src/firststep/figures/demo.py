"""Risk against n/d for erf learning erf, theory and simulation.

A large and a small step, random features, and the kernel lower bound, in the setting of [Ba]
figures 1 and 3(c): psi2 = N/d = 2, ridge 1e-3, noise 0.1, Gaussian readout, n0 = n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep import plots
from firststep.problem import Problem
from firststep.results import Interrupted, Simulation, aligned, with_error
from firststep.simulation.running.simulate import available_cores, simulate
from firststep.simulation.running.workers import Workers
from firststep.theory.one_step.predict import predict
from firststep.theory.one_step.prediction import Prediction
from firststep.writing import write_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALPHAS = tuple(float(alpha) for alpha in np.round(np.geomspace(0.5, 16, 11), 2))
FINE = 61  # points of a line of the theory
BASE = dict(student="erf", teacher="erf", beta=2.0, ridge=1e-3, noise=0.1)


@dataclass(frozen=True)
class Curve:
    """One set of points of the figure."""

    label: str
    model: str
    changes: dict[str, float]
    color: str
    marker: str


CURVES = (
    Curve("random features (no step)", "random-features", {}, "orange", "s"),
    Curve(r"small step, $\eta = 2$", "network", {"step": 2.0, "step_exponent": 0.0}, "green", "^"),
    Curve(
        r"large step, $\eta = \sqrt{N}$",
        "network",
        {"step": 1.0, "step_exponent": 0.5},
        "blue",
        "o",
    ),
)
PARTS = len(CURVES) * len(ALPHAS)
Row = dict[str, Any]


def prepare(folder: Path) -> None:
    """Find out before the work whether the figure can be drawn and written."""
    plots.require()
    plots.prepare(folder)


def theory(curve: Curve, alphas: Sequence[float], dimension: float) -> Prediction:
    """The theory of a curve, at the simulation's own size."""
    problem = Problem(**BASE, alpha=1.0, dimension=dimension, **curve.changes)
    if curve.model == "random-features":
        problem = problem.replace(step=0.0)
    found: Prediction = predict(problem, alpha=np.asarray(alphas))
    return found


def compute(
    dimension: Any, replicates: Any, seed: Any, progress: Callable[[int, int], None] | None = None
) -> list[Row]:
    """One row per point."""
    rows: list[Row] = []
    with Workers(available_cores()) as workers:
        for curve in CURVES:
            expected = theory(curve, ALPHAS, dimension)
            for place, alpha in enumerate(ALPHAS):
                problem = Problem(**BASE, alpha=alpha, **curve.changes)
                try:
                    found = simulate(
                        problem,
                        dimension,
                        replicates,
                        seed,
                        model=curve.model,
                        workers=workers,
                        progress=progress,
                    )
                except Interrupted:
                    raise Interrupted(
                        None,
                        f"interrupted: {len(rows)} of {PARTS} points finished, nothing written",
                    ) from None
                rows.append(_row(curve, alpha, found, expected[place]))
    return rows


def _row(curve: Curve, alpha: float, found: Simulation, theory: Prediction) -> Row:
    risk, several = found.risk, found.replicates > 1
    words = curve.label.replace("$", "").replace("\\eta", "eta").replace("\\sqrt{N}", "sqrt(N)")
    return {
        "curve": words,
        "model": curve.model,
        "alpha": alpha,
        "risk": risk.mean,
        "standard_error": risk.standard_error,
        "training_error": found.training_error.mean,
        "theory": theory.risk,
        "theory_error": theory.model_error,
        "z": (theory.risk - risk.mean) / risk.standard_error if several else math.nan,
        "kernel_lower_bound": found.kernel_lower_bound,
        "dimension": found.dimension,
        "replicates": found.replicates,
        "seed": found.seed,
    }


def _of(rows: Sequence[Row], curve: Curve) -> list[Row]:
    position = CURVES.index(curve) * len(ALPHAS)
    return list(rows[position : position + len(ALPHAS)])


def draw(rows: Sequence[Row], axes: Axes) -> None:
    for curve in CURVES:
        mine = _of(rows, curve)
        alpha, measured, deviation = (
            [row[name] for row in mine] for name in ("alpha", "risk", "standard_error")
        )
        fine = [float(a) for a in np.geomspace(min(ALPHAS), max(ALPHAS), FINE)]
        line = theory(curve, fine, rows[0]["dimension"])
        risk, error = np.ravel(line.risk), np.ravel(line.model_error)
        plots.curve(axes, fine, risk, curve.color)
        plots.band(axes, fine, risk, error, curve.color)
        plots.points(
            axes,
            alpha,
            measured,
            deviation,
            label=curve.label,
            color=curve.color,
            marker=curve.marker,
        )
    plots.level(axes, rows[0]["kernel_lower_bound"], "kernel lower bound")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel=r"samples per dimension $\alpha = n/d$",
        ylabel="test risk",
        ylim=(0.007, 0.7),
    )
    plots.plain_ticks(axes, (0.5, 1, 2, 5, 10), (0.01, 0.02, 0.05, 0.1, 0.2, 0.5))
    axes.set_title("erf learning erf: one gradient step, then ridge regression", fontsize=11)
    sizes = f"d = {rows[0]['dimension']}, N = 2d, mean ± s.e. of {rows[0]['replicates']}"
    size = f"lines: theory and its finite-size error; points: simulation,\n{sizes}"
    bound, *curves = axes.get_legend_handles_labels()[0]
    axes.legend(
        handles=[*curves, bound], title=size, title_fontsize=8, fontsize=9, loc="lower left"
    )


def write(rows: Sequence[Row], folder: Path) -> tuple[Path, Path]:
    """The figure as PNG and its data as CSV."""
    prepare(folder)
    table = folder / "demo.csv"
    write_csv(table, [list(rows[0]), *(row.values() for row in rows)])
    with plots.figure() as (drawing, axes):
        draw(rows, axes)
        return plots.save(drawing, folder / "demo.png"), table


def text(rows: Sequence[Row]) -> str:
    """The table for the terminal: a row per alpha, a column per curve."""
    lines = [["n/d", *(_of(rows, curve)[0]["curve"] for curve in CURVES)]]
    for place, alpha in enumerate(ALPHAS):
        found = [_of(rows, curve)[place] for curve in CURVES]
        cells = (
            f"{with_error(row['risk'], row['standard_error'])} (theory {row['theory']:.4f})"
            for row in found
        )
        lines.append([f"{alpha:g}", *cells])
    table = [line.removeprefix("  ") for line in aligned(lines)]
    scores = np.array([row["z"] for row in rows])
    scores = scores[np.isfinite(scores)]
    lines_below = [f"kernel lower bound {rows[0]['kernel_lower_bound']:.5f}"]
    if scores.size:
        largest = f"{np.abs(scores).max():.1f} of {scores.size} points"
        lines_below.append(f"largest |theory - simulation| in standard errors: {largest}")
    return "\n".join(["test risk, erf learning erf", *table, *lines_below])
