"""What every figure is made of: curves of problems, simulated and predicted, drawn, written and judged.

A figure says which problems it shows (``panels``) and how much of them (``quick``, ``full``). Its simulations go through the sweep
engine into a store beside the picture, so a figure that was interrupted continues where it stopped.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

from firststep import plots
from firststep.compare import BULKS, at_size
from firststep.problem import Problem
from firststep.results import Estimate, plain, versions
from firststep.store import DONE, Record, Store
from firststep.sweep.engine import Tally, Watcher, execute, results_of
from firststep.sweep.executors import Executor
from firststep.sweep.units import Replicate
from firststep.theory.one_step.predict import predict
from firststep.theory.one_step.question import NUMERIC

CLOSE = 0.015  # relative difference that is agreement whatever the standard error
SIGNIFICANCE = 0.01  # chance that one of all points of a figure is called apart although it is not
LINE_POINTS = 41


@dataclass(frozen=True)
class Scale:
    """How much a figure computes."""

    dimension: int
    replicates: int
    points: int = 8  # simulated points of a curve
    options: Mapping[str, Any] = field(default_factory=dict)  # of simulate: backend, device, dtype
    full: bool = False


@dataclass(frozen=True)
class Curve:
    """One quantity along x: simulated points, a theory line, or both."""

    label: str
    problem: Callable[
        [float], Problem
    ]  # the problem at x, at d = infinity unless it says otherwise
    at: Any = ()  # numbers: where it is simulated
    line: Any = None  # numbers: where theory is drawn; None: densely between the simulated points
    model: str | None = "network"  # what is simulated, None: nothing
    bulk: str | None = "as the model"  # the theory drawn: exact, isotropic, None: none
    quantity: str = "risk"  # a measurement, or an entry of one: "singular_values_weights.0"
    predicted: str | None = None  # the theory's name of it, if another
    color: str = "blue"
    marker: str = "o"
    style: str = "-"
    options: Mapping[str, Any] = field(
        default_factory=dict
    )  # of simulate: steps, batches, kernel, ...
    line_dimension: float | None = None  # d of the theory line; None: that of the simulation
    judged: bool = True  # whether its differences from theory enter the verdict
    dimension: int | None = None  # d of the simulation, if not that of the scale

    @property
    def theory(self) -> str | None:
        """The bulk of its theory."""
        if self.bulk != "as the model":
            return self.bulk
        return BULKS.get(self.model) if self.model else "exact"


@dataclass(frozen=True)
class Panel:
    """Axes and what is in them."""

    curves: Sequence[Curve]
    x: str  # the name of x in the table
    xlabel: str
    ylabel: str = "test risk"
    title: str = ""
    xscale: str = "log"
    yscale: str = "log"
    xticks: Sequence[float] = ()
    yticks: Sequence[float] = ()
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | None = None
    levels: Sequence[tuple[float, str]] = ()  # horizontal dashed lines with their labels
    legend: str | None = "best"
    decorate: Callable[[Any], None] | None = None  # anything else, on the axes


Row = dict[str, Any]
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

    ``score`` of a point is its z with the heavier tails of few replicates taken out: the Gaussian quantile of its Student t. A
    point is apart if it differs by more than 1.5 % and its score has less than a 1 % chance to occur anywhere in the figure.
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
            f"  apart: {row['curve']}, {row['x']} = {row['x_value']:g}: theory {row['theory']:.6g}, "
            f"simulation {row['simulated']:.6g} ± {row['standard_error']:.2g}, z {row['z']:+.1f}"
            for row in self.apart
        )
        return "\n".join([*lines, *apart])


def judge(rows: Sequence[Row]) -> Verdict:
    """The verdict over the rows that are judged."""
    both = [row for row in rows if row["judged"] and math.isfinite(row["score"])]
    count = len(both)
    limit = float(scipy.stats.norm.isf(SIGNIFICANCE / (2 * count))) if count else math.nan
    apart = tuple(row for row in both if abs(row["relative"]) > CLOSE and abs(row["score"]) > limit)

    def largest(name: str) -> float:
        return max((abs(row[name]) for row in both), default=math.nan)

    return Verdict(count, largest("z"), largest("score"), limit, largest("relative"), apart)


def score(z: float, replicates: int) -> float:
    """The Gaussian quantile of a Student t with replicates - 1 degrees of freedom."""
    if not math.isfinite(z) or replicates < 2:
        return math.nan
    tail = float(scipy.stats.t.sf(abs(z), replicates - 1))
    return math.copysign(float(scipy.stats.norm.isf(max(tail, 1e-300))), z)


@dataclass(frozen=True)
class Figure:
    """One figure: what it shows, at two scales. Figures that are more than curves override ``compute`` or ``draw``."""

    name: str
    title: str
    source: str  # where it comes from: "[Ba] Figure 1", "firststep"
    caption: str  # what to see, in two or three sentences
    panels: Callable[[Scale], Sequence[Panel]]
    quick: Scale
    full: Scale
    seed: int = 0
    size: tuple[float, float] = (5.6, 4.2)  # of one panel, inches
    columns: int = 3  # panels side by side, at most

    def compute(
        self,
        scale: Scale,
        store: Store,
        executor: Executor | None = None,
        watch: Watcher | None = None,
    ) -> list[Row]:
        """Simulate what the store lacks; one row per simulated point, theory beside it."""
        panels = self.panels(scale)
        units = [
            unit
            for panel in panels
            for curve in panel.curves
            for _, some in self._units(curve, scale)
            for unit in some
        ]
        execute(units, store, executor, experiment=f"reproduce {self.name}", watch=watch)
        records = results_of(units, store)
        return [
            row
            for panel in panels
            for curve in panel.curves
            for row in self._rows(panel, curve, scale, records)
        ]

    def _units(self, curve: Curve, scale: Scale) -> list[tuple[float, list[Replicate]]]:
        """The replicates of each simulated point."""
        if curve.model is None:
            return []
        options = {**scale.options, **curve.options}
        dimension = curve.dimension or scale.dimension
        return [
            (
                x,
                [
                    Replicate(problem, curve.model, self.seed, number, options)
                    for number in range(scale.replicates)
                ],
            )
            for x in curve.at
            for problem in [curve.problem(x).replace(dimension=dimension)]
        ]

    def _rows(
        self, panel: Panel, curve: Curve, scale: Scale, records: Mapping[Any, Record]
    ) -> list[Row]:
        rows = []
        points = self._units(curve, scale)
        problems = [units[0].problem for _, units in points]
        theory = [math.nan] * len(points)
        if curve.theory is not None and problems:
            sized = [at_size(problem, None, curve.model or "network") for problem in problems]
            theory = [
                float(v) for v in predicted(sized, curve.predicted or curve.quantity, curve.theory)
            ]
        for (x, units), value in zip(points, theory, strict=True):
            found = [
                records[wanted] for unit in units for wanted in unit.wanted if wanted in records
            ]
            values = [measured(record, curve.quantity) for record in found if record.status == DONE]
            failed = [record for record in found if record.status != DONE]
            if failed:
                raise RuntimeError(f"{curve.label}, {panel.x} = {x:g}: {failed[0].reason}")
            estimate = Estimate(np.array(values, float))
            rows.append(
                row_of(
                    panel.title,
                    curve,
                    panel.x,
                    x,
                    estimate,
                    value,
                    curve.theory,
                    units[0].problem,
                    self.seed,
                )
            )
        return rows

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Any) -> None:
        """All panels on a matplotlib figure."""
        panels = self.panels(scale)
        for panel, axes in zip(panels, plots.grid(drawing, len(panels), self.columns), strict=True):
            draw_panel(panel, [row for row in rows if row["panel"] == panel.title], scale, axes)

    def shape(self, scale: Scale) -> tuple[float, float]:
        """Width and height of the picture in inches."""
        count = len(self.panels(scale))
        columns = min(count, self.columns)
        return self.size[0] * columns, self.size[1] * math.ceil(count / columns)


def row_of(
    panel: str,
    curve: Curve,
    x_name: str,
    x: float,
    estimate: Estimate,
    theory: float,
    bulk: str | None,
    problem: Problem,
    seed: int,
    each: Any = None,
) -> Row:
    """A line of the table. ``each``: a prediction for every replicate, ``theory`` their mean; z is then that of the differences."""
    mean, error, count = float(estimate.mean), float(estimate.standard_error), len(estimate.values)
    difference = theory - mean
    spread = (
        error
        if each is None
        else float(Estimate(np.asarray(each) - estimate.values).standard_error)
    )
    z = difference / spread if spread > 0 else math.nan
    values = (
        panel,
        curve.label,
        curve.quantity,
        curve.model,
        x_name,
        x,
        mean,
        error,
        count,
        theory,
        bulk,
        difference,
        difference / mean if mean else math.nan,
        z,
        score(z, count),
        curve.judged,
        seed,
        *problem.to_dict().values(),
    )
    return dict(zip(COLUMNS, values, strict=True))


def measured(record: Record, quantity: str) -> float:
    """A number of a record, or an entry of one of its arrays."""
    name, _, place = quantity.partition(".")
    value = record.arrays[name][int(place)] if place else record.numbers[name]
    return math.nan if value is None else float(value)


def predicted(problems: Sequence[Problem], quantity: str, bulk: str) -> np.ndarray:
    """A quantity of the theory for several problems; those that differ only in numbers are solved together."""
    values = np.full(len(problems), math.nan)
    groups: dict[str, list[int]] = {}
    for place, problem in enumerate(problems):
        rest = {name: value for name, value in problem.to_dict().items() if name not in NUMERIC}
        groups.setdefault(repr(rest), []).append(place)
    for places in groups.values():
        some = [problems[place] for place in places]
        if quantity in ("outlier", "outlier_overlap"):
            values[places] = [getattr(predict(problem, bulk=bulk), quantity) for problem in some]
            continue
        fields = {name: np.array([getattr(problem, name) for problem in some]) for name in NUMERIC}
        found = predict(some[0], bulk=bulk, **fields)
        values[places] = np.broadcast_to(getattr(found, quantity), len(places))
    return values


def line_of(curve: Curve, panel: Panel, scale: Scale) -> tuple[np.ndarray, np.ndarray]:
    """x and y of the theory line of a curve."""
    if curve.line is not None:
        x = np.asarray(curve.line, float)
    elif len(curve.at) > 1:
        ends = min(curve.at), max(curve.at)
        x = (
            np.geomspace(*ends, LINE_POINTS)
            if panel.xscale == "log"
            else np.linspace(*ends, LINE_POINTS)
        )
    else:
        x = np.asarray(curve.at, float)
    d = curve.line_dimension or curve.dimension or scale.dimension
    problems = [_still(curve.problem(float(each)).replace(dimension=d), curve.model) for each in x]
    return x, predicted(problems, curve.predicted or curve.quantity, curve.theory or "exact")


def _still(problem: Problem, model: str | None) -> Problem:
    return problem.replace(alpha0=0.0) if model == "random-features" else problem


def draw_panel(panel: Panel, rows: Sequence[Row], scale: Scale, axes: Any) -> None:
    """Theory as lines, simulation as points with one standard error, bounds as dashed lines."""
    for curve in panel.curves:
        mine = [row for row in rows if row["curve"] == curve.label]
        if curve.theory is not None:
            along, level = line_of(curve, panel, scale)
            plots.curve(axes, along, level, curve.color, None if mine else curve.label, curve.style)
        if mine:
            x, mean, error = (
                [row[name] for row in mine] for name in ("x_value", "simulated", "standard_error")
            )
            plots.points(
                axes, x, mean, error, label=curve.label, color=curve.color, marker=curve.marker
            )
    for height, label in panel.levels:
        plots.level(axes, height, label)
    axes.set(xscale=panel.xscale, yscale=panel.yscale, xlabel=panel.xlabel, ylabel=panel.ylabel)
    if panel.xlim:
        axes.set_xlim(panel.xlim)
    if panel.ylim:
        axes.set_ylim(panel.ylim)
    plots.readable_logs(axes)
    plots.plain_ticks(axes, panel.xticks, panel.yticks)
    if panel.title:
        axes.set_title(panel.title, fontsize=10)
    if panel.decorate is not None:
        panel.decorate(axes)
    if panel.legend and axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, loc=panel.legend)


@dataclass(frozen=True)
class Made:
    """A finished figure: its files, its table and its verdict."""

    figure: Figure
    rows: tuple[Row, ...]
    verdict: Verdict
    files: tuple[Path, ...]


def make(
    figure: Figure,
    folder: Path,
    scale: Scale,
    executor: Executor | None = None,
    watch: Callable[[Tally], None] | None = None,
) -> Made:
    """Compute, judge, draw and write: NAME.png, .pdf, .csv, the verdict as .txt and .json, and the store .db of its simulations."""
    plots.require()
    plots.prepare(folder)
    with Store(folder / f"{figure.name}.db") as store:
        rows = figure.compute(scale, store, executor, watch)
    verdict = judge(rows)
    files = [folder / f"{figure.name}.{end}" for end in ("png", "pdf", "csv", "txt", "json")]
    with plots.blank(*figure.shape(scale)) as drawing:
        figure.draw(rows, scale, drawing)
        drawing.suptitle(figure.title, fontsize=11)
        for path in files[:2]:
            plots.save(drawing, path)
    write_table(rows, files[2])
    size = "full" if scale.full else "quick"
    about = f"{figure.name} ({figure.source}), {size}: d = {scale.dimension}, {scale.replicates} replicates, seed {figure.seed}"
    files[3].write_text(f"{about}\n{figure.caption}\n{verdict}\n", encoding="utf-8")
    files[4].write_text(
        json.dumps(summary(figure, scale, verdict), indent=1) + "\n", encoding="utf-8"
    )
    return Made(figure, tuple(rows), verdict, tuple(files))


def summary(figure: Figure, scale: Scale, verdict: Verdict) -> dict[str, Any]:
    """What was made and how theory and simulation compare, fit for JSON."""
    numbers = ("largest_z", "largest_score", "limit", "largest_relative")
    return {
        "figure": figure.name,
        "source": figure.source,
        "title": figure.title,
        "caption": figure.caption,
        "seed": figure.seed,
        "full": scale.full,
        "dimension": scale.dimension,
        "replicates": scale.replicates,
        "options": dict(scale.options),
        "points": verdict.points,
        **{name: plain(getattr(verdict, name)) for name in numbers},
        "apart": len(verdict.apart),
        "agrees": verdict.agrees,
        "versions": versions(),
    }


def write_table(rows: Sequence[Row], path: Path) -> None:
    """The rows as CSV; what is not there is left empty."""
    extra = sorted({name for row in rows for name in row} - set(COLUMNS))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*COLUMNS, *extra], restval="")
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {
                    name: "" if isinstance(value, float) and math.isnan(value) else value
                    for name, value in row.items()
                }
            )


def resized(scale: Scale, **changes: Any) -> Scale:
    """A scale with some numbers changed; None leaves them."""
    return replace(scale, **{name: value for name, value in changes.items() if value is not None})
