"""The shape of a figure: curves of problems along an axis, points of simulation, lines of theory.

A panel is an axis, the curves along it and, where it says something, the bound of all kernels. None
of it depends on how much is computed: ``Scale`` says that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from firststep import plots
from firststep.compare import BULKS
from firststep.problem import Problem
from firststep.sweep.units import alike, solve_together

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from firststep.theory.one_step.prediction import Prediction
    from firststep.typing import Array, Float

Row = dict[str, Any]  # a line of the table of a figure
Look = tuple[str, str]  # colour and marker
LOOKS: tuple[Look, ...] = (
    ("blue", "o"),
    ("orange", "s"),
    ("green", "^"),
    ("red", "D"),
    ("pink", "v"),
)
LINE_POINTS = 41  # of a theory line: enough that it looks smooth at the size of a panel
AS_THE_MODEL = "as the model"
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Scale:
    """How much a figure computes."""

    dimension: int
    replicates: int
    points: int = 8  # simulated points of a curve
    options: Mapping[str, Any] = field(default_factory=dict)  # of simulate: backend, device, dtype
    full: bool = False

    @property
    def words(self) -> str:
        """Of its simulations, for a legend."""
        return f"d = {self.dimension}, mean ± s.e. of {self.replicates}"


def learns(student: str, teacher: str, **given: Any) -> Problem:
    """The problem of a pair; beta = 1 unless it is given."""
    return Problem(student=student, teacher=teacher, **{"beta": 1.0, **given})


def rounded(low: float, high: float, count: int, decimals: int = 3) -> list[float]:
    """Points evenly spaced in the logarithm, of few decimals."""
    return [float(x) for x in np.round(np.geomspace(low, high, count), decimals)]


@dataclass(frozen=True)
class Axis:
    """What runs along x: its name in the table, its words, its range, and where theory is drawn."""

    name: str
    label: str
    ends: tuple[float, float] = (1.0, 1.0)  # no matter where curves say themselves where they are
    ticks: Sequence[float] = ()
    spaced: Callable[[float, float, int], Iterable[float]] = rounded
    line: Sequence[float] | None = None  # None: densely between the simulated points
    scale: str = "log"

    def points(self, count: int) -> list[float]:
        """Where curves are simulated that do not say it themselves."""
        return [float(x) for x in self.spaced(*self.ends, count)]


@dataclass(frozen=True)
class Curve:
    """One quantity along x: simulated points, a theory line, or both."""

    label: str
    problem: Callable[[float], Problem]  # at x, and at d = infinity unless it says otherwise
    at: Sequence[float] | None = None  # where it is simulated; None: the points of its axis
    line: Sequence[float] | None = None  # where theory is drawn; None: as its axis says
    model: str | None = "network"  # what is simulated, None: nothing
    bulk: str | None = AS_THE_MODEL  # the theory drawn: exact, isotropic, None: none
    quantity: str = "risk"
    color: str = "blue"
    marker: str = "o"
    style: str = "-"
    # Of simulate (steps, batches, kernel, ...), whether differences from theory enter the verdict,
    # and d of the simulation if not that of the scale: values, or functions of x.
    options: Mapping[str, Any] | Callable[[float], Mapping[str, Any]] = field(default_factory=dict)
    judged: bool | Callable[[float], bool] = True
    dimension: int | Callable[[float], int] | None = None
    line_dimension: float | None = None  # d of the theory line; None: that of the simulation

    @property
    def theory(self) -> str | None:
        """The bulk of its theory."""
        if self.bulk != AS_THE_MODEL:
            return self.bulk
        return BULKS.get(self.model) if self.model else "exact"

    def sized(self, x: float, scale: Scale) -> Problem:
        """The problem that is simulated at x."""
        return self.problem(x).replace(dimension=at_x(self.dimension, x) or scale.dimension)


# Random features, simulated and predicted.
no_step = partial(Curve, model="random-features", color="grey", marker="v")


def at_x(value: _Value | Callable[[float], _Value], x: float) -> _Value:
    """A value that may be a function of x."""
    return value(x) if callable(value) else value


def bayes_line(problem: Callable[[float], Problem]) -> Curve:
    """The error rate that no classifier can beat."""
    return _least("Bayes error", problem, "bayes_error_rate", "--")


def direction_line(problem: Callable[[float], Problem]) -> Curve:
    """The least error rate of whoever sees of an input only its place along the step."""
    return _least("least error along the step", problem, "direction_error_rate", ":")


def _least(label: str, problem: Callable[[float], Problem], quantity: str, style: str) -> Curve:
    return Curve(label, problem, model=None, quantity=quantity, color="grey", style=style)


def family(
    problem: Callable[..., Problem],
    members: Mapping[str, Mapping[str, Any]],
    looks: Sequence[Look] = LOOKS,
    **shown: Any,
) -> list[Curve]:
    """Curves of one ``problem(x, ...)``: for each label the other arguments, and the next look.

    ``shown``: what all of them have besides, as in ``Curve``.
    """
    return [
        Curve(label, partial(problem, **arguments), color=color, marker=marker, **shown)
        for (label, arguments), (color, marker) in zip(
            members.items(), looks[: len(members)], strict=True
        )
    ]


class Line(NamedTuple):
    """A line of the theory, and how far networks of that size may be from it."""

    x: Float[Array, " x"]
    y: Float[Array, " x"]
    error: Float[Array, " x"] | None


@dataclass(frozen=True)
class Panel:
    """Axes and what is in them."""

    curves: Sequence[Curve]
    axis: Axis
    ylabel: str = "test risk"
    title: str = ""
    yscale: str = "log"
    yticks: Sequence[float] = ()
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | None = None
    bound: Problem | None = None  # its kernel lower bound is drawn
    legend: str = "best"  # where it stands, if the figure has no common one
    decorate: Callable[[Axes], None] | None = None  # anything else, on the axes

    def at(self, curve: Curve, scale: Scale) -> Sequence[float]:
        """Where a curve is simulated."""
        if curve.at is not None:
            return curve.at
        return self.axis.points(scale.points) if curve.model else ()

    def line(self, curve: Curve, scale: Scale) -> Line:
        """The theory line of a curve."""
        x = np.asarray(self._line_places(curve, scale), float)
        problems = []
        for each in map(float, x):
            problem = curve.sized(each, scale)
            if curve.line_dimension:
                problem = problem.replace(dimension=curve.line_dimension)
            if curve.model == "random-features":
                problem = problem.replace(alpha0=0.0)
            problems.append(problem)
        bulk, error = curve.theory or "exact", None
        if curve.quantity == "risk" and bulk == "exact" and problems[0].dimension != math.inf:
            error = predicted(problems, "model_error", bulk)
        return Line(x, predicted(problems, curve.quantity, bulk), error)

    def _line_places(self, curve: Curve, scale: Scale) -> Sequence[float] | Float[Array, " x"]:
        for given in (curve.line, self.axis.line):
            if given is not None:
                return given
        # What is not simulated is drawn where the rest of its panel is.
        at = self.at(curve, scale) or self.axis.points(scale.points)
        if len(at) < 2:
            return at
        space = np.geomspace if self.axis.scale == "log" else np.linspace
        return space(min(at), max(at), LINE_POINTS)


def predicted(problems: Sequence[Problem], quantity: str, bulk: str) -> Float[Array, " problems"]:
    """A quantity of the theory; problems that differ only in numbers are solved together."""
    values = np.full(len(problems), np.nan)
    for places, found in _solved(tuple(problems), bulk):
        values[places] = np.broadcast_to(getattr(found, quantity), len(places))
    return values


@lru_cache(maxsize=64)  # a figure that is made again with more replicates has the same theory
def _solved(problems: tuple[Problem, ...], bulk: str) -> list[tuple[list[int], Prediction]]:
    groups = alike(problems).values()
    return [(each, solve_together([problems[place] for place in each], bulk)) for each in groups]


def columns(rows: Sequence[Row], *names: str) -> list[list[float]]:
    """Some columns of a table."""
    return [[row[name] for row in rows] for name in names]


def draw_points(
    axes: Axes, rows: Sequence[Row], label: str, look: Look, shift: float = 1.0
) -> None:
    """Simulated means of rows with one standard error; x times ``shift``, to tell them apart."""
    x, mean, error = columns(rows, "x_value", "simulated", "standard_error")
    color, marker = look
    x = [shift * each for each in x] if shift != 1 else x
    plots.points(axes, x, mean, error, label=label, color=color, marker=marker)


def draw_panel(
    panel: Panel, rows: Sequence[Row], scale: Scale, axes: Axes, legend: bool = True
) -> None:
    """Theory as lines in bands of their finite-size error, simulation as points with one standard
    error, the bound dashed.
    """
    for curve in panel.curves:
        mine = [row for row in rows if row["curve"] == curve.label]
        if curve.theory is not None:
            line, label = panel.line(curve, scale), None if mine else curve.label
            plots.curve(axes, line.x, line.y, curve.color, label=label, style=curve.style)
            if line.error is not None:
                plots.band(axes, line.x, line.y, line.error, curve.color)
        if mine:
            draw_points(axes, mine, curve.label, (curve.color, curve.marker))
    if panel.bound is not None:
        plots.level(axes, panel.bound.kernel_lower_bound, "kernel lower bound")
    axes.set(
        xscale=panel.axis.scale, yscale=panel.yscale, xlabel=panel.axis.label, ylabel=panel.ylabel
    )
    if panel.xlim:
        axes.set_xlim(panel.xlim)
    if panel.ylim:
        axes.set_ylim(panel.ylim)
    plots.readable_logs(axes)
    plots.plain_ticks(axes, panel.axis.ticks, panel.yticks)
    if panel.title:
        axes.set_title(panel.title, fontsize=10)
    if panel.decorate is not None:
        panel.decorate(axes)
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, loc=panel.legend)
