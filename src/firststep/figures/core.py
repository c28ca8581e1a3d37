"""A figure: problems simulated and predicted, drawn, written and judged.

A figure says which problems it shows (``panels``) and how much of them (``quick``, ``full``). Its
simulations go through the sweep engine into a store beside the picture, so a figure that was
interrupted continues where it stopped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from firststep import plots
from firststep.compare import at_size
from firststep.figures.shape import Curve, Panel, Row, Scale, at_x, draw_panel, predicted
from firststep.figures.verdict import Verdict, judge, row_of, write_table
from firststep.results import plain, versions
from firststep.simulation.running.execute import available_cores
from firststep.simulation.running.workers import Workers
from firststep.store import DONE, Record, Store
from firststep.sweep.engine import Watcher, execute, results_of
from firststep.sweep.executors import Executor
from firststep.sweep.units import Replicate, Wanted, describe
from firststep.writing import write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from firststep.typing import Array, Float

T = TypeVar("T")


class Bench(NamedTuple):
    """What a figure is computed with."""

    scale: Scale
    store: Store
    executor: Executor | None = None
    watch: Watcher | None = None


class Point(NamedTuple):
    """A simulated point of a curve: its x and its replicates."""

    x: float
    units: list[Replicate]


@dataclass(frozen=True)
class Figure:
    """One figure at two scales.

    Those that are more than curves override ``compute`` or ``draw``.
    """

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
    legend_columns: int = 0  # of one legend below all panels; 0: each has its own

    def compute(self, bench: Bench) -> list[Row]:
        """Simulate what the store lacks; one row per simulated point, theory beside it."""
        shown = [
            (panel, curve, self.points(panel, curve, bench.scale))
            for panel in self.panels(bench.scale)
            for curve in panel.curves
        ]
        records = self.simulated(
            [unit for *_, points in shown for point in points for unit in point.units], bench
        )
        return [
            row
            for panel, curve, points in shown
            for row in self._rows(panel, curve, points, records)
        ]

    def simulated(self, units: Sequence[Replicate], bench: Bench) -> Mapping[Wanted, Record]:
        """The records of replicates; the first that failed is an error."""
        told = f"reproduce {self.name}"
        execute(units, bench.store, bench.executor, experiment=told, watch=bench.watch)
        records = results_of(units, bench.store)
        for record in records.values():
            if record.status != DONE:
                raise RuntimeError(describe(record))
        return records

    def points(self, panel: Panel, curve: Curve, scale: Scale) -> list[Point]:
        """The simulated points of a curve."""
        if curve.model is None:
            return []
        found = []
        for x in panel.at(curve, scale):
            problem = curve.sized(x, scale)
            options = {**scale.options, **at_x(curve.options, x)}
            numbers = range(self.replicates(scale, problem.dimension))
            units = [
                Replicate(problem, curve.model, self.seed, number, options) for number in numbers
            ]
            found.append(Point(x, units))
        return found

    def replicates(self, scale: Scale, dimension: float) -> int:
        """How many networks are simulated at a point."""
        return scale.replicates

    def _rows(
        self, panel: Panel, curve: Curve, points: Sequence[Point], records: Mapping[Wanted, Record]
    ) -> list[Row]:
        problems = [point.units[0].problem for point in points]
        theory = [math.nan] * len(points)
        if curve.theory is not None and problems:
            sized = [at_size(problem, None, curve.model or "network") for problem in problems]
            theory = [float(level) for level in predicted(sized, curve.quantity, curve.theory)]
        return [
            row_of(
                panel,
                curve,
                point.x,
                problem=problem,
                simulated=measured(point.units, records, curve.quantity),
                theory=level,
                seed=self.seed,
            )
            for point, problem, level in zip(points, problems, theory, strict=True)
        ]

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Drawing) -> None:
        """All panels on a matplotlib figure."""
        for panel, axes, mine in self.placed(rows, scale, drawing):
            draw_panel(panel, mine, scale, axes, legend=not self.legend_columns)
        if self.legend_columns:
            legend_below(drawing, scale, self.legend_columns)

    def placed(
        self, rows: Sequence[Row], scale: Scale, drawing: Drawing
    ) -> Iterator[tuple[Panel, Axes, list[Row]]]:
        """Every panel with its place in the drawing and its rows."""
        panels = self.panels(scale)
        for panel, axes in zip(panels, plots.grid(drawing, len(panels), self.columns), strict=True):
            yield panel, axes, [row for row in rows if row["panel"] == panel.title]

    def shape(self, scale: Scale) -> tuple[float, float]:
        """Width and height of the picture in inches."""
        count = len(self.panels(scale))
        columns = min(count, self.columns)
        return self.size[0] * columns, self.size[1] * math.ceil(count / columns)


def measured(
    units: Sequence[Replicate], records: Mapping[Wanted, Record], quantity: str
) -> Float[Array, " replicates"]:
    """A quantity of every replicate; nan where it has none."""
    numbers = [records[wanted].numbers[quantity] for unit in units for wanted in unit.wanted]
    return np.array([math.nan if value is None else value for value in numbers], float)


def legend_below(drawing: Drawing, scale: Scale, columns: int, title: str = "") -> None:
    """One legend for all axes of a picture, below them, where it hides nothing; points first.

    Its title, unless another is given, is the size of the simulations.
    """
    pairs = [
        pair
        for axes in drawing.axes
        for pair in zip(*axes.get_legend_handles_labels(), strict=True)
    ]
    # Simulated points come with error bars: containers of several lines.
    pairs.sort(key=lambda pair: not hasattr(pair[0], "lines"))
    found = {label: handle for handle, label in pairs}
    drawing.legend(
        list(found.values()),
        list(found),
        loc="outside lower center",
        ncols=columns,
        fontsize=9,
        title=title or f"lines: theory; points: simulation, {scale.words}",
        title_fontsize=9,
    )


@dataclass(frozen=True)
class _Numbered(Generic[T]):
    """A job of a place and a replicate, for workers that count through all of them."""

    job: Callable[[int, int], T]
    replicates: int

    def __call__(self, number: int) -> T:
        return self.job(*divmod(number, self.replicates))


def networks(job: Callable[[int, int], T], places: int, replicates: int) -> list[list[T]]:
    """job(place, replicate) for every network, in other processes: a list for every place."""
    count = places * replicates
    with Workers(min(available_cores(), count)) as workers:
        found = dict(workers.run(_Numbered(job, replicates), range(count)))
    return [[found[place * replicates + i] for i in range(replicates)] for place in range(places)]


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
    watch: Watcher | None = None,
) -> Made:
    """Compute, judge, draw and write.

    The files are NAME.png, .pdf, .csv, the verdict as .txt and .json, and the store .db of the
    simulations.
    """
    plots.require()
    plots.prepare(folder)
    with Store(folder / f"{figure.name}.db") as store:
        rows = figure.compute(Bench(scale, store, executor, watch))
    verdict = judge(rows)
    files = [folder / f"{figure.name}.{end}" for end in ("png", "pdf", "csv", "txt", "json")]
    with plots.blank(*figure.shape(scale)) as drawing:
        figure.draw(rows, scale, drawing)
        drawing.suptitle(figure.title, fontsize=11)
        for path in files[:2]:
            plots.save(drawing, path)
    write_table(rows, files[2])
    about = (
        f"{figure.name} ({figure.source}), {'full' if scale.full else 'quick'}: "
        f"d = {scale.dimension}, {scale.replicates} replicates, seed {figure.seed}"
    )
    write_text(files[3], f"{about}\n{figure.caption}\n{verdict}\n")
    write_text(files[4], json.dumps(summary(figure, scale, verdict), indent=1) + "\n")
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


def resized(scale: Scale, **changes: Any) -> Scale:
    """A scale with some numbers changed; None leaves them."""
    return replace(scale, **{name: value for name, value in changes.items() if value is not None})
