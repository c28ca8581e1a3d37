"""Learning curves on power-law spectra: what a step changes in their exponent.

tanh learns tanh, noise 0.1, N = 3d, readout ones, rows on the sphere. Inputs N(0, Omega) with
eigenvalues proportional to j^-A, the teacher's components equal along all eigenvectors, or along
the tenth with the largest eigenvalues. The step has as many samples as the fit, n0 = n, and the
size at which its spike is u = 1.5, or the best one (full form; simulated at n = d and 4d). The
ridge is the best one of every problem. Steps and ridges are chosen by the theory at the dimension
of the simulations. Last panel: local slopes -d log R/d log n between n = d and n = 4d; the table
also has those of the intervals below and above.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from firststep import plots
from firststep.figures.core import Bench, Figure, Point, legend_below, measured
from firststep.figures.shape import Axis, Curve, Panel, Row, Scale, draw_panel, learns
from firststep.figures.tuned import Chosen, tuned
from firststep.figures.verdict import row_of
from firststep.problem import Problem
from firststep.store import Record
from firststep.sweep.units import Wanted
from firststep.theory.one_step.predict import predict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

PLACES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
INTERVALS = ((0.25, 1.0), (1.0, 4.0), (4.0, 16.0))
SHOWN = (1.0, 4.0)  # the interval of the last panel
SPIKE = 1.5
STEEP = 0.5  # exponents from which the theory is several % off, and says so: not judged


class Case(NamedTuple):
    """A spectrum and where the teacher lies in it; the steps among which the best one is."""

    exponent: float
    overlaps: str
    title: str
    steps: tuple[float, float]

    def problem(self, alpha: float, **changes: float) -> Problem:
        law = {"inputs": f"power-law:{self.exponent:g}"} if self.exponent else {}
        given: dict[str, Any] = dict(beta=3, alpha=alpha, alpha0=alpha, noise=0.1, ridge=0.1)
        fixed: dict[str, Any] = dict(readout="ones", init="sphere", teacher_overlaps=self.overlaps)
        return learns("tanh", "tanh", **{**given, **changes}, **fixed, **law)


CASES = (
    Case(0.0, "equal", "identity", (0.2, 6.0)),
    Case(0.3, "equal", r"$j^{-0.3}$, teacher equal", (0.2, 5.0)),
    Case(0.3, "top:0.1", r"$j^{-0.3}$, teacher on top", (0.3, 3.0)),
    Case(0.6, "equal", r"$j^{-0.6}$, teacher equal", (0.1, 1.0)),
    Case(0.6, "top:0.1", r"$j^{-0.6}$, teacher on top", (0.1, 1.0)),
)
RIDGES = {"ridge": (0.003, 3.0)}
WITHOUT, FIXED, BEST = "no step", f"step with u = {SPIKE:g}", "best step"
LOOKS = {WITHOUT: ("grey", "v"), FIXED: ("blue", "o"), BEST: ("green", "^")}


@cache
def chosen(case: Case, label: str, dimension: int) -> Chosen:
    """The ridge, and the step of those that take one, at ``PLACES``."""
    problem = case.problem(1.0, dimension=dimension, step=1.0)
    fields: dict[str, Any] = {"alpha": np.array(PLACES), "alpha0": np.array(PLACES)}
    if label == WITHOUT:
        values = tuned(problem.replace(alpha0=0.0), RIDGES, {"alpha": PLACES})
        return Chosen(PLACES, values)
    if label == BEST:
        return Chosen(PLACES, tuned(problem, {**RIDGES, "step": case.steps}, fields))
    strength = np.asarray(predict(problem, **fields).spike_strength)
    steps = np.array([float(f"{each:.3g}") for each in SPIKE / strength])
    values = tuned(problem, RIDGES, {**fields, "step": steps})
    return Chosen(PLACES, {**values, "step": steps})


def asked(alpha: float, case: Case, label: str, dimension: int) -> Problem:
    found = chosen(case, label, dimension)
    changes = {name: found.between(name)(alpha) for name in found.values}
    return case.problem(alpha, **changes)


def axis(scale: Scale) -> Axis:
    """Theory lines in the quick form have fewer points."""
    return Axis(
        "alpha",
        r"samples per dimension $n/d$",
        ends=(PLACES[0], PLACES[-1]),
        ticks=PLACES,
        spaced=lambda low, high, count: np.geomspace(low, high, count),
        line=tuple(np.geomspace(PLACES[0], PLACES[-1], 25 if scale.full else 13)),
    )


def labels(scale: Scale) -> Sequence[str]:
    return tuple(LOOKS) if scale.full else (WITHOUT, FIXED)


def panels(scale: Scale) -> Sequence[Panel]:
    return [*(_panel(case, scale) for case in CASES), Panel((), axis(scale), title="slopes")]


def _panel(case: Case, scale: Scale) -> Panel:
    curves = []
    for label in labels(scale):
        color, marker = LOOKS[label]
        problem = partial(asked, case=case, label=label, dimension=scale.dimension)
        curve = Curve(label, problem, color=color, marker=marker, judged=case.exponent < STEEP)
        if label == WITHOUT:
            curve = replace(curve, model="random-features", style="--")
        # The best step is simulated where the slopes of the last panel come from.
        curves.append(replace(curve, at=SHOWN) if label == BEST else curve)
    return Panel(curves, axis(scale), title=case.title, ylim=(0.003, 0.5))


class Exponents(Figure):
    """Risks, and the slopes between their points."""

    def compute(self, bench: Bench) -> list[Row]:
        """The rows of the risks, then those of the slopes, from the same networks."""
        rows = super().compute(bench)
        for panel in self.panels(bench.scale):
            for curve in panel.curves:
                points = self.points(panel, curve, bench.scale)
                records = self.simulated([unit for each in points for unit in each.units], bench)
                mine = [r for r in rows if (r["panel"], r["curve"]) == (panel.title, curve.label)]
                theory = {row["x_value"]: row["theory"] for row in mine}
                rows.extend(self._slopes(panel, curve, points, records, theory))
        return rows

    def _slopes(
        self,
        panel: Panel,
        curve: Curve,
        points: Sequence[Point],
        records: Mapping[Wanted, Record],
        theory: Mapping[float, float],
    ) -> list[Row]:
        """-log(R(high)/R(low))/log(high/low), replicate by replicate, for every interval."""
        risks = {each.x: measured(each.units, records, "risk") for each in points}
        # As a curve of its own in the last panel, named by its spectrum.
        named = replace(curve, label=f"{panel.title}: {curve.label}", quantity="slope")
        return [
            row_of(
                replace(panel, title="slopes"),
                named,
                math.sqrt(low * high),
                problem=curve.problem(low),
                simulated=np.log(risks[low] / risks[high]) / math.log(high / low),
                theory=math.log(theory[low] / theory[high]) / math.log(high / low),
                seed=self.seed,
            )
            for low, high in INTERVALS
            if {low, high} <= {*risks}
        ]

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Drawing) -> None:
        for panel, axes, mine in self.placed(rows, scale, drawing):
            if panel.curves:
                draw_panel(panel, mine, scale, axes, legend=False)
            else:
                _draw_slopes(axes, mine, scale)
        legend_below(drawing, scale, self.legend_columns)


def _draw_slopes(axes: Axes, rows: Sequence[Row], scale: Scale) -> None:
    """One column a spectrum: simulated slopes as points, the theory's as short lines."""
    middle = math.sqrt(SHOWN[0] * SHOWN[1])
    names = labels(scale)
    for place, case in enumerate(CASES):
        for number, label in enumerate(names):
            at = place + 0.22 * (number - (len(names) - 1) / 2)
            row = next(
                r
                for r in rows
                if r["curve"] == f"{case.title}: {label}" and math.isclose(r["x_value"], middle)
            )
            color, marker = LOOKS[label]
            bar = [row["simulated"]], [row["standard_error"]]
            plots.points(axes, [at], *bar, label=label, color=color, marker=marker)
            plots.curve(axes, [at - 0.09, at + 0.09], [row["theory"]] * 2, color)
    words = [case.title.replace(", ", "\n").replace("teacher ", "") for case in CASES]
    axes.set_xticks(range(len(CASES)), words, fontsize=8)
    axes.set(ylim=(0, 1.4), ylabel="slope of the risk")
    axes.set_title(r"$-d\log R/d\log n$ from $n = d$ to $4d$", fontsize=10)


FIGURE = Exponents(
    name="learning-exponents",
    title="One step and the exponent of the learning curve: tanh learns tanh, $N = 3d$, $n_0 = n$",
    source="firststep",
    caption=(
        "With as many samples in the step as in the fit, a step makes the learning curve steeper "
        "where the spectrum is flat: from n = d to 4d by half and more for N(0, I) and j^-0.3, "
        "twice as steep for a teacher on strong directions. For j^-0.6 and a teacher on all "
        "directions it does not: the gradient follows Omega theta, which more samples do not mend. "
        "There a step of u = 1.5 spoils the curve, and the best step is a short one that lowers "
        "the risk and leaves the slope. On j^-0.6 the theory says that it is several per cent off "
        "(bands); its points are not judged."
    ),
    panels=panels,
    quick=Scale(dimension=150, replicates=6, points=4),
    full=Scale(dimension=400, replicates=8, points=4, full=True),
    size=(4.4, 3.7),
    legend_columns=3,
)
