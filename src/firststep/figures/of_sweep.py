"""A picture of any sweep: one quantity along one axis, theory as lines, simulation as points with one standard error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from firststep import plots
from firststep.errors import InvalidParameter, nearest
from firststep.sweep.experiment import Experiment
from firststep.sweep.grid import Axis
from firststep.sweep.run import Sweep
from firststep.sweep.table import NUMBERS

MOST_LINES = 7
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


def _same(value: Any, wanted: str) -> bool:
    try:
        return math.isclose(float(value), float(wanted), rel_tol=1e-9)
    except (TypeError, ValueError):
        return str(value) == wanted


def draw(
    sweep: Sweep,
    axes: Any,
    x: str | None = None,
    y: str = "risk",
    where: Mapping[str, str] | None = None,
) -> None:
    """The sweep on matplotlib axes."""
    experiment = sweep.experiment
    along = choose_x(experiment, x)
    if y not in NUMBERS:
        raise InvalidParameter("y", "one of " + ", ".join(NUMBERS), y, nearest(y, NUMBERS))
    rows = [row for row in matching(sweep.summary(), where or {}) if y in row["mean"]]
    if not rows:
        raise InvalidParameter(
            "y", "computed for at least one point", y, "run the sweep first, or choose other points"
        )
    together = next(axis.values for axis in experiment.axes if along in axis.values)
    others = [name for axis in experiment.axes for name in axis.values if name not in together]
    lines: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        lines.setdefault(tuple(row[name] for name in others), []).append(row)
    if len(lines) > MOST_LINES:
        varying = [
            name for place, name in enumerate(others) if len({key[place] for key in lines}) > 1
        ]
        hint = (
            "fix some of "
            + ", ".join(varying)
            + f", for instance --where {varying[0]}={next(iter(lines))[others.index(varying[0])]}"
        )
        raise InvalidParameter(
            "where",
            f"given so that at most {MOST_LINES} lines are left",
            f"{len(lines)} lines",
            hint,
        )
    _draw_lines(
        axes,
        lines,
        [name for i, name in enumerate(others) if len({key[i] for key in lines}) > 1],
        others,
        along,
        y,
    )
    values = [row[along] for row in rows]
    positive = min(values) > 0 and max(values) > 8 * min(values)
    heights = [row["mean"][y] for row in rows]
    axes.set(
        xlabel=along.replace("_", " "),
        ylabel=y.replace("_", " "),
        xscale="log" if positive else "linear",
    )
    if min(heights) > 0 and max(heights) > 8 * min(heights):
        axes.set_yscale("log")
    plots.readable_logs(axes)
    fixed = ", ".join(f"{name} = {value}" for name, value in (where or {}).items())
    axes.set_title(experiment.name + (f" ({fixed})" if fixed else ""), fontsize=10)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)


def _draw_lines(
    axes: Any,
    lines: Mapping[tuple[Any, ...], Sequence[Any]],
    varying: list[str],
    others: list[str],
    along: str,
    y: str,
) -> None:
    """A colour for every line, or for every model where there is one line only; a marker for every model.

    Random features know nothing of the step: what is the same for several lines is drawn once, in
    grey.
    """
    models = list(
        dict.fromkeys(
            row["model"] for rows in lines.values() for row in rows if row["verb"] == "simulate"
        )
    )
    colors = [color for color in plots.COLORS if color != "grey"]
    styles: dict[str, str] = {}
    drawn: set[tuple[Any, ...]] = set()
    for (key, rows), color in zip(lines.items(), colors, strict=False):
        label = ", ".join(f"{name} = {_short(key[others.index(name)])}" for name in varying)
        kinds: dict[tuple[str, str, str, str], list[Any]] = {}
        for row in sorted(rows, key=lambda row: row[along]):
            kinds.setdefault(
                (row["verb"], row["model"], row["bulk"], str(row["dimension"])), []
            ).append(row)
        several = len({(verb, dimension) for verb, _, _, dimension in kinds}) > len(
            {verb for verb, *_ in kinds}
        )
        for (verb, model, bulk, dimension), mine in kinds.items():
            size = f", d = {dimension}" if several else ""
            place, mean = [row[along] for row in mine], [row["mean"][y] for row in mine]
            if verb == "predict":
                styles[f"theory, {bulk} bulk"] = _STYLES[bulk]
                plots.curve(
                    axes,
                    place,
                    mean,
                    color,
                    label=None if models else _join(label, size.lstrip(", ")),
                    style=_STYLES[bulk],
                )
                still = tuple(row["mean"].get("random_features_risk", math.nan) for row in mine)
                if (
                    y == "risk"
                    and "random-features" in models
                    and bulk == "exact"
                    and still not in drawn
                ):
                    drawn.add(still)
                    styles["theory, no step"] = ":"
                    plots.curve(axes, place, still, "grey", style=":")
                continue
            if model == "random-features":
                if tuple(mean) in drawn:
                    continue
                drawn.add(tuple(mean))
            shade = (
                "grey"
                if model == "random-features"
                else color
                if len(lines) > 1
                else colors[models.index(model) % len(colors)]
            )
            marker = plots.MARKERS[models.index(model) % len(plots.MARKERS)]
            words = model + size if model == "random-features" else _join(label, model + size)
            error = [row["standard_error"][y] for row in mine]
            plots.points(axes, place, mean, error, label=words, color=shade, marker=marker)
    for words, style in styles.items():
        plots.style_key(axes, words, style)


def _join(*words: str) -> str:
    return ": ".join(word for word in words if word)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def write(
    sweep: Sweep,
    path: Path,
    x: str | None = None,
    y: str = "risk",
    where: Mapping[str, str] | None = None,
) -> Path:
    """The picture as a file; the ending of its name chooses the format."""
    plots.require()
    with plots.figure(6.4, 4.6) as (drawing, axes):
        draw(sweep, axes, x, y, where)
        return plots.save(drawing, path)
