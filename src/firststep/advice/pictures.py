"""The pictures of an advice: risks, the learned function, its columns, the learning curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firststep import plots
from firststep.advice.measured import MEAN, NO_STEP, ONE_STEP

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from firststep.advice.record import Advice

LONGEST = 24  # letters of a column's name


def draw(found: Advice) -> Figure:
    """Four pictures in one figure."""
    plots.require()
    with plots.blank(10.5, 8.0) as drawing:
        risks, function, columns, curve = plots.grid(drawing, 4, 2)
        _risks(risks, found)
        _function(function, found)
        _columns(columns, found)
        _curve(curve, found)
        return drawing


def _risks(axes: Axes, found: Advice) -> None:
    """Mean squared errors on rows held out, over the variance of the target."""
    measured = found.measured
    names = [name for name in measured.risks if name != MEAN]
    intervals = [measured.risks[name].scaled(1 / measured.variance) for name in names]
    for place, (name, each) in enumerate(zip(names, intervals, strict=True)):
        color = "blue" if name == found.recommended.model else "grey"
        axes.errorbar(
            [each.value],
            [place],
            xerr=[[each.value - each.low], [each.high - each.value]],
            fmt="o",
            capsize=3,
            color=plots.COLORS[color],
        )
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel("squared error on new rows / variance of the target")
    axes.set_title("risk, 95 % intervals")


def _function(axes: Axes, found: Advice) -> None:
    direction = found.direction
    plots.points(
        axes,
        direction.kappa.tolist(),
        direction.mean.tolist(),
        direction.mean_error.tolist(),
        label="mean of the target",
        color="blue",
        marker="o",
    )
    slope = float(np.sqrt(direction.explained_linear))
    plots.curve(
        axes, direction.kappa, slope * direction.kappa, "grey", label="its linear part", style="--"
    )
    axes.set_xlabel("projection on the direction of the other half of the rows")
    axes.set_ylabel(f"{_short(found.target)}, standard units")
    axes.set_title("what is learned along the direction")
    axes.legend()


def _columns(axes: Axes, found: Advice) -> None:
    leading = found.direction.leading_columns()
    places = range(len(leading))
    shares, errors = [share for _, share, _ in leading], [error for _, _, error in leading]
    colors = [plots.COLORS["blue" if share > 0 else "orange"] for share in shares]
    axes.barh(places, shares, xerr=errors, color=colors, ecolor=plots.COLORS["grey"], capsize=2)
    axes.set_yticks(places, [_short(found.columns[place]) for place, _, _ in leading])
    axes.invert_yaxis()
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("share of the squared direction, with its sign (± one error)")
    axes.locator_params(axis="x", nbins=5)
    axes.set_title("the columns that make it up")


def _curve(axes: Axes, found: Advice) -> None:
    for name, color, marker in ((NO_STEP, "orange", "s"), (ONE_STEP, "blue", "o")):
        points = found.curve.points.get(name)
        if points is None:
            continue
        rows = [point.rows for point in points]
        beside = 0.97 if name == NO_STEP else 1.03  # so that no point hides another
        ahead = [point for point in points if point.rows >= found.rows]
        low, high = ([getattr(p.predicted, end) for p in ahead] for end in ("low", "high"))
        axes.fill_between(
            [p.rows for p in ahead], low, high, color=plots.COLORS[color], alpha=0.18, linewidth=0
        )
        values = [point.predicted.value for point in ahead]
        plots.curve(axes, [p.rows for p in ahead], values, color, label=f"{name}, predicted")
        seen = [point for point in points if point.measured is not None]
        axes.errorbar(
            [beside * point.rows for point in seen],
            [point.measured.value for point in seen if point.measured],
            yerr=np.array(
                [
                    (p.measured.value - p.measured.low, p.measured.high - p.measured.value)
                    for p in seen
                    if p.measured
                ]
            ).T.reshape(2, -1),
            fmt=marker,
            capsize=3,
            color=plots.COLORS[color],
            label=f"{name}, measured",
        )
        axes.set_xscale("log")
        axes.set_xticks(rows, [f"{each}" for each in rows])
        axes.set_xticks([], minor=True)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("rows")
    axes.set_ylabel("risk / variance of the target")
    axes.set_title("learning curve")
    axes.legend(fontsize=8)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
