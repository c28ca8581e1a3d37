"""Theory beside simulation: the rows of a figure's table, and the verdict over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.stats

from firststep.figures.shape import Curve, Panel, Row, at_x
from firststep.problem import Problem
from firststep.results import Estimate
from firststep.writing import write_csv

if TYPE_CHECKING:
    from firststep.typing import Array, Float

CLOSE = 0.015  # relative difference that is agreement whatever the standard error
SIGNIFICANCE = 0.01  # chance that one of all points of a figure is called apart although it is not
COLUMNS = (
    "panel",
    "curve",
    "quantity",
    "model",
    "x",
    "x_value",
    "simulated",
    "standard_error",
    "replicates",
    "theory",
    "bulk",
    "difference",
    "relative",
    "z",
    "score",
    "judged",
    "seed",
    *Problem.model_fields,
)


@dataclass(frozen=True)
class Verdict:
    """How theory and simulation compare over a figure.

    ``score`` of a point is its z with the heavier tails of few replicates taken out: the Gaussian
    quantile of its Student t. A point is apart if it differs by more than 1.5 % and its score has
    less than a 1 % chance to occur anywhere in the figure.
    """

    points: int
    largest_z: float
    largest_score: float
    limit: float
    largest_relative: float
    apart: tuple[Row, ...]

    @property
    def agrees(self) -> bool:
        return not self.apart

    def __str__(self) -> str:
        if not self.points:
            return "no point has both theory and simulation"
        word = "agree" if self.agrees else f"DISAGREE at {len(self.apart)} points"
        lines = [
            f"{self.points} points with theory and simulation: {word}",
            f"  largest |z|                   {self.largest_z:.2f}",
            f"  largest score (Gaussian)      {self.largest_score:.2f}, limit {self.limit:.2f}",
            f"  largest relative difference   {100 * self.largest_relative:.2f} %",
        ]
        apart = (
            f"  apart: {row['curve']}, {row['x']} = {row['x_value']:g}: "
            f"theory {row['theory']:.6g}, "
            f"simulation {row['simulated']:.6g} ± {row['standard_error']:.2g}, z {row['z']:+.1f}"
            for row in self.apart
        )
        return "\n".join([*lines, *apart])


def judge(rows: Sequence[Row]) -> Verdict:
    """The verdict over the rows that are judged."""
    both = [row for row in rows if row["judged"] and math.isfinite(row["score"])]
    count = len(both)
    limit = float(scipy.stats.norm.isf(SIGNIFICANCE / (2 * count))) if count else math.nan

    def largest(name: str) -> float:
        return max((abs(row[name]) for row in both), default=math.nan)

    return Verdict(
        points=count,
        largest_z=largest("z"),
        largest_score=largest("score"),
        limit=limit,
        largest_relative=largest("relative"),
        apart=tuple(
            row for row in both if abs(row["relative"]) > CLOSE and abs(row["score"]) > limit
        ),
    )


def score(z: float, replicates: int) -> float:
    """The Gaussian quantile of a Student t with replicates - 1 degrees of freedom."""
    if not math.isfinite(z) or replicates < 2:
        return math.nan
    tail = float(scipy.stats.t.sf(abs(z), replicates - 1))
    return math.copysign(float(scipy.stats.norm.isf(max(tail, 1e-300))), z)  # isf(0) is infinite


def row_of(
    panel: Panel,
    curve: Curve,
    x: float,
    *,
    problem: Problem,
    simulated: Float[Array, " replicates"],
    theory: float | Float[Array, " replicates"],
    seed: int,
) -> Row:
    """A line of the table.

    ``theory`` is one prediction, or one for every replicate: then z is that of the differences.
    """
    measured, count = Estimate(simulated), len(simulated)
    mean, error = float(measured.mean), float(measured.standard_error)
    level, spread = float(np.mean(theory)), error
    if np.ndim(theory):
        spread = float(Estimate(theory - simulated).standard_error)
    difference = level - mean
    z = difference / spread if spread > 0 else math.nan
    return {
        "panel": panel.title,
        "curve": curve.label,
        "quantity": curve.quantity,
        "model": curve.model,
        "x": panel.axis.name,
        "x_value": x,
        "simulated": mean,
        "standard_error": error,
        "replicates": count,
        "theory": level,
        "bulk": curve.theory,
        "difference": difference,
        "relative": difference / mean if mean else math.nan,
        "z": z,
        "score": score(z, count),
        "judged": at_x(curve.judged, x),
        "seed": seed,
        **problem.all_values(),
    }


def write_table(rows: Sequence[Row], path: Path) -> None:
    """The rows as CSV; what is not there is left empty."""
    names = [*COLUMNS, *sorted({name for row in rows for name in row} - set(COLUMNS))]

    def cell(value: object) -> object:
        return None if isinstance(value, float) and math.isnan(value) else value

    write_csv(path, [names, *([cell(row.get(name)) for name in names] for row in rows)])
