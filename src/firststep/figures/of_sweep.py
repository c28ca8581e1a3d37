"""A picture of any sweep: one quantity along one axis.

Theory as lines, simulation as points with one standard error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from firststep import plots
from firststep.errors import InvalidParameter, nearest
from firststep.problem import Problem
from firststep.sweep.experiment import Experiment
from firststep.sweep.grid import Axis
from firststep.sweep.run import Sweep
from firststep.sweep.table import NUMBERS
from firststep.theory.loss_numbers import main_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LINES = 7  # as many as there are colours
WIDE = 8  # ratio of the largest to the smallest from which an axis is logarithmic
_STYLES = {"exact": "-", "isotropic": "--"}


def numeric_axes(experiment: Experiment) -> list[Axis]:
    return [
        axis
        for axis in experiment.axes
        if all(isinstance(v, int | float) for v in axis.values[axis.name])
    ]


def choose_x(experiment: Experiment, x: str | None) -> str:
    """The axis asked for, or the longest one made of numbers."""
    names = [name for axis in experiment.axes for name in axis.values]
    if x is not None:
        if x not in names:
            raise InvalidParameter(
                "x", "an axis of the experiment: " + ", ".join(names), x, nearest(x, names)
            )
        return x
    axes = numeric_axes(experiment)
    if not axes:
        raise InvalidParameter(
            "x",
            "an axis made of numbers",
            "none",
            "the experiment has no numeric axis to draw along",
        )
    return max(axes, key=len).name


def choose_y(experiment: Experiment) -> str:
    """The number that is asked of all its problems; of problems that differ in it the risk."""
    asked = {main_number(point.problem) for point in experiment.points}
    return asked.pop() if len(asked) == 1 else "risk"


def matching(
    rows: Sequence[Mapping[str, Any]], where: Mapping[str, str]
) -> list[Mapping[str, Any]]:
    """The rows with some fields fixed; numbers are compared as numbers."""
    found = list(rows)
    for name, wanted in where.items():
        values = {row[name] for row in found if name in row}
        keep = [value for value in values if _same(value, wanted)]
        if not keep:
            choices = ", ".join(sorted(str(value) for value in values)) or "nothing"
            raise InvalidParameter(f"where {name}", f"one of {choices}", wanted)
        found = [row for row in found if row.get(name) in keep]
    return found


def _same(value: float | str, wanted: str) -> bool:
    try:
        return math.isclose(float(value), float(wanted), rel_tol=1e-9)
    except (TypeError, ValueError):
        return str(value) == wanted


class Kind(NamedTuple):
    """What is drawn as one line or one set of points."""

    verb: str
    model: str
    bulk: str
    dimension: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Kind:
        return cls(row["verb"], row["model"], row["bulk"], str(row["dimension"]))


class Line(NamedTuple):
    """The rows that differ only along x and in what was computed, and the words for the rest."""

    label: str
    rows: Sequence[Mapping[str, Any]]


def draw(
    sweep: Sweep,
    axes: Axes,
    x: str | None = None,
    y: str | None = None,
    where: Mapping[str, str] | None = None,
) -> None:
    """The sweep on matplotlib axes; error rates with the Bayes error."""
    experiment = sweep.experiment
    along = choose_x(experiment, x)
    y = choose_y(experiment) if y is None else y
    if y not in NUMBERS:
        raise InvalidParameter("y", "one of " + ", ".join(NUMBERS), y, nearest(y, NUMBERS))
    rows = [row for row in matching(sweep.summary(), where or {}) if y in row["mean"]]
    if not rows:
        raise InvalidParameter(
            "y", "computed for at least one point", y, "run the sweep first, or choose other points"
        )
    lines = _lines(experiment, rows, along)
    _draw_lines(axes, lines, along, y)
    if y == "error_rate":
        _draw_bayes_errors(axes, lines, along)
    axes.set(xlabel=along.replace("_", " "), ylabel=y.replace("_", " "))
    if _is_wide([row[along] for row in rows]):
        axes.set_xscale("log")
    if _is_wide([row["mean"][y] for row in rows]):
        axes.set_yscale("log")
    plots.readable_logs(axes)
    fixed = ", ".join(f"{name} = {value}" for name, value in (where or {}).items())
    axes.set_title(experiment.name + (f" ({fixed})" if fixed else ""), fontsize=10)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)


def _is_wide(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) > WIDE * min(values)


def _lines(experiment: Experiment, rows: Sequence[Mapping[str, Any]], along: str) -> list[Line]:
    """The rows by the values of the other axes; labels name those that vary."""
    together = next(axis.values for axis in experiment.axes if along in axis.values)
    others = [name for axis in experiment.axes for name in axis.values if name not in together]
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in others), []).append(row)
    varying = [name for i, name in enumerate(others) if len({key[i] for key in groups}) > 1]
    if len(groups) > MOST_LINES:
        first = next(iter(groups))[others.index(varying[0])]
        hint = f"fix some of {', '.join(varying)}, for instance --where {varying[0]}={first}"
        allowed = f"given so that at most {MOST_LINES} lines are left"
        raise InvalidParameter("where", allowed, f"{len(groups)} lines", hint)
    return [
        Line(", ".join(f"{name} = {_short(mine[0][name])}" for name in varying), mine)
        for mine in groups.values()
    ]


def _draw_lines(axes: Axes, lines: Sequence[Line], along: str, y: str) -> None:
    """A colour for every line, or every model where there is one line; a marker for every model.

    Random features know nothing of the step: what is the same for several lines is drawn once, in
    grey.
    """
    simulated = (row for line in lines for row in line.rows if row["verb"] == "simulate")
    models = list(dict.fromkeys(row["model"] for row in simulated))
    colors = [color for color in plots.COLORS if color != "grey"]
    styles: dict[str, str] = {}
    drawn: set[tuple[Any, ...]] = set()
    for line, color in zip(lines, colors, strict=False):
        kinds: dict[Kind, list[Mapping[str, Any]]] = {}
        for row in sorted(line.rows, key=lambda row: row[along]):
            kinds.setdefault(Kind.of(row), []).append(row)
        sizes = {(kind.verb, kind.dimension) for kind in kinds}
        several = len(sizes) > len({kind.verb for kind in kinds})
        for kind, mine in kinds.items():
            size = f", d = {kind.dimension}" if several else ""
            x, mean = [row[along] for row in mine], [row["mean"][y] for row in mine]
            if kind.verb == "predict":
                label = None if models else _join(line.label, size.lstrip(", "))
                styles[f"theory, {kind.bulk} bulk"] = _STYLES[kind.bulk]
                plots.curve(axes, x, mean, color, label=label, style=_STYLES[kind.bulk])
                if y == "risk" and kind.dimension != "inf":
                    error = [row["mean"].get("model_error", math.nan) for row in mine]
                    plots.band(axes, x, mean, error, color)
                still = tuple(row["mean"].get("random_features_risk", math.nan) for row in mine)
                asked = y == "risk" and "random-features" in models and kind.bulk == "exact"
                if asked and still not in drawn:
                    drawn.add(still)
                    styles["theory, no step"] = ":"
                    plots.curve(axes, x, still, "grey", style=":")
                continue
            place, words = models.index(kind.model), _join(line.label, kind.model + size)
            shade = color if len(lines) > 1 else colors[place % len(colors)]
            if kind.model == "random-features":
                if tuple(mean) in drawn:
                    continue
                drawn.add(tuple(mean))
                shade, words = "grey", kind.model + size
            error = [row["standard_error"][y] for row in mine]
            marker = plots.MARKERS[place % len(plots.MARKERS)]
            plots.points(axes, x, mean, error, label=words, color=shade, marker=marker)
    for words, style in styles.items():
        plots.style_key(axes, words, style)


def _draw_bayes_errors(axes: Axes, lines: Sequence[Line], along: str) -> None:
    """What no classifier can beat, in grey; what is the same for several lines is drawn once."""
    drawn: set[tuple[tuple[Any, float], ...]] = set()
    for line in lines:
        rows = {row[along]: row for row in line.rows if "error_rate" in row["mean"]}
        least = tuple((x, _bayes_error(rows[x])) for x in sorted(rows))
        if least not in drawn:
            label = None if drawn else "Bayes error"
            drawn.add(least)
            x, y = zip(*least, strict=True)
            plots.curve(axes, x, y, "grey", label=label, style="-.")


def _bayes_error(row: Mapping[str, Any]) -> float:
    return Problem(**{name: row[name] for name in Problem.model_fields}).bayes_error_rate


def _join(*words: str) -> str:
    return ": ".join(word for word in words if word)


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def write(
    sweep: Sweep,
    path: Path,
    x: str | None = None,
    y: str | None = None,
    where: Mapping[str, str] | None = None,
) -> Path:
    """The picture as a file; the ending of its name chooses the format."""
    plots.require()
    with plots.figure(6.4, 4.6) as (drawing, axes):
        draw(sweep, axes, x, y, where)
        return plots.save(drawing, path)
