"""Does the best step stay where it is as the network grows?

The step is step * N^s: s = 1/2 moves every row of the first layer by a length that does not depend
on N (mean-field), s = 0 by one that falls like 1/sqrt(N) (NTK). tanh learns tanh, alpha = alpha0 =
4, noise 0.1, readout ones, rows on the sphere. Upper row: risk against the step in both scalings at
several widths, each with the ridge that is best with its best step, stars at the best step; right:
what a step is worth that was tuned at the narrowest network and kept, beside the best step of every
width (ridge tuned for each). Lower row, theory alone: the best step against the width and against
the dimension, here also on power-law spectra, and the spike u that it makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep import plots
from firststep.figures.core import Figure
from firststep.figures.shape import LOOKS, Axis, Curve, Panel, Row, Scale, draw_panel, learns
from firststep.figures.tuned import Chosen, tuned
from firststep.problem import Problem
from firststep.theory.one_step.predict import predict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing


MEAN_FIELD, NTK = 0.5, 0.0
KEPT = {
    MEAN_FIELD: (r"$\tilde\eta$ kept (mean-field)", "green", "^"),
    NTK: (r"$\eta$ kept (NTK)", "red", "D"),
}
RIDGE = (0.01, 1.0)
STEPS = (0.8, 5.0)  # where the best ones of N(0, I) are
# Of the best step, where risks are simulated: others in each scaling, so that no network is twice.
FACTORS = {MEAN_FIELD: (0.1, 0.3, 1.0, 2.0, 4.0), NTK: (0.1, 0.2, 0.5, 1.5, 4.0)}
# Spectra of the last panels: their exponent, where their best steps are, their colour and marker.
SPECTRA = {
    "N(0, I)": (0.0, (0.8, 5.0), ("blue", "o")),
    r"$j^{-0.3}$": (0.3, (0.5, 4.0), ("orange", "s")),
    r"$j^{-0.6}$": (0.6, (0.01, 2.0), ("pink", "v")),
}
WIDTH = Axis("beta", r"width $N/d$", ticks=(0.25, 0.5, 1, 2, 4, 8))
RISK_TICKS = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3)


def widths(scale: Scale) -> tuple[float, ...]:
    """N/d, the narrowest first: where the step is tuned that is kept."""
    return (0.25, 0.5, 1.0, 2.0, 4.0, 8.0) if scale.full else (0.5, 1.0, 4.0)


def shown(scale: Scale) -> Sequence[float]:
    """The widths whose risk is drawn against the step."""
    return (0.25, 1.0, 2.0, 8.0) if scale.full else widths(scale)


def sizes(scale: Scale) -> Sequence[int]:
    return (100, 200, 400, 800, 1600, 3200, 6400) if scale.full else (100, 800)


def problem(step: float, exponent: float = MEAN_FIELD, **changes: Any) -> Problem:
    given: dict[str, Any] = dict(alpha=4.0, alpha0=4.0, ridge=0.1, noise=0.1, readout="ones")
    fixed: dict[str, Any] = dict(init="sphere", step=step, step_exponent=exponent)
    return learns("tanh", "tanh", **{**given, **changes}, **fixed)


@cache
def best(scale_widths: tuple[float, ...], dimension: int) -> Chosen:
    """The best step, step_exponent 1/2, and ridge of every width."""
    ranges = {"ridge": RIDGE, "step": STEPS}
    asked = problem(1.0, dimension=dimension)
    return Chosen(scale_widths, tuned(asked, ranges, {"beta": scale_widths}))


@cache
def kept(scale_widths: tuple[float, ...], dimension: int, exponent: float) -> Chosen:
    """The step that is best at the narrowest width, in the scaling of the exponent, at all others.

    As a step of exponent 1/2, and the best ridge with it.
    """
    narrow = best(scale_widths, dimension).values["step"][0]
    shorter = (np.array(scale_widths) / scale_widths[0]) ** (exponent - MEAN_FIELD)
    steps = np.array([float(f"{each:.3g}") for each in narrow * shorter])
    fields: dict[str, Any] = {"beta": np.array(scale_widths), "step": steps}
    values = tuned(problem(1.0, dimension=dimension), {"ridge": RIDGE}, fields)
    return Chosen(scale_widths, {**values, "step": steps})


def root(width: float, dimension: int) -> float:
    """sqrt(N)."""
    return math.sqrt(width * dimension)


def against_step(x: float, width: float, exponent: float, scale: Scale) -> Problem:
    ridge = best(widths(scale), scale.dimension).between("ridge")(width)
    return problem(x, exponent, beta=width, ridge=ridge)


def against_width(x: float, found: Callable[[], Chosen]) -> Problem:
    values = found()
    return problem(values.between("step")(x), beta=x, ridge=values.between("ridge")(x))


def _step_panel(exponent: float, scale: Scale) -> Panel:
    """The risk against the step in one scaling, at multiples of every best step."""
    d, chosen = scale.dimension, best(widths(scale), scale.dimension)
    curves, stars = [], []
    for width, (color, marker) in zip(shown(scale), LOOKS, strict=False):
        unit = chosen.between("step")(width) * (1 if exponent == MEAN_FIELD else root(width, d))
        at = [float(f"{factor * unit:.3g}") for factor in FACTORS[exponent]]
        line = [float(x) for x in np.geomspace(at[0], at[-1], 25)]
        asked = partial(against_step, width=width, exponent=exponent, scale=scale)
        label = f"$N/d = {width:g}$"
        curves.append(Curve(label, asked, at=at, line=line, color=color, marker=marker))
        stars.append((unit, asked, color))
    words, title = _words(exponent)
    axis = Axis("step", words)
    decorate = partial(_stars, stars=stars, dimension=d)
    return Panel(curves, axis, title=title, yticks=RISK_TICKS, decorate=decorate)


def _words(exponent: float) -> tuple[str, str]:
    if exponent == MEAN_FIELD:
        return r"step $\tilde\eta$", r"$\eta=\tilde\eta\,\sqrt{N}$ (mean-field): it transfers"
    return r"step $\eta$", r"$\eta$ as it is (NTK): it does not"


def _stars(
    axes: Axes, stars: Sequence[tuple[float, Callable[[float], Problem], str]], dimension: int
) -> None:
    look: dict[str, Any] = dict(markersize=13, markeredgecolor="black", linestyle="none", zorder=5)
    for unit, asked, color in stars:
        risk = float(predict(asked(unit).replace(dimension=dimension)).risk)
        axes.plot([unit], [risk], "*", color=plots.COLORS[color], **look)
    axes.plot([], [], "*", color="white", **look, label="best step")


def _width_panel(scale: Scale) -> Panel:
    at, d = widths(scale), scale.dimension
    found = {"best step": (partial(best, at, d), "blue", "o")}
    for exponent, (label, color, marker) in KEPT.items():
        found[label] = (partial(kept, at, d, exponent), color, marker)
    line = [float(x) for x in np.geomspace(at[0], at[-1], 25)]
    curves = [
        Curve(
            label,
            partial(against_width, found=chosen),
            at=at,
            line=line,
            color=color,
            marker=marker,
        )
        for label, (chosen, color, marker) in found.items()
    ]
    title = f"a step tuned at $N = {at[0]:g}\\,d$, kept"
    ticks = [each for each in RISK_TICKS if each < 0.2]
    return Panel(curves, WIDTH, title=title, yticks=ticks, legend="lower left")


@cache
def by_size(spectrum: str, dimension: int) -> tuple[float, float]:
    """The best step at N = d, exponent 1/2, and its spike u."""
    exponent, steps, _ = SPECTRA[spectrum]
    law: dict[str, Any] = {"inputs": f"power-law:{exponent:g}"} if exponent else {}
    asked = problem(1.0, dimension=dimension, **law)
    values = tuned(asked, {"ridge": RIDGE, "step": steps}, {"beta": [1.0]})
    step, ridge = float(values["step"][0]), float(values["ridge"][0])
    return step, float(predict(asked.replace(step=step, ridge=ridge)).spike_strength)


def _draw_by_width(axes: Axes, scale: Scale) -> None:
    """The best step in both scalings, relative to that at N = d."""
    at, d = widths(scale), scale.dimension
    steps = best(at, d).values["step"]
    roots = np.array([root(width, d) for width in at])
    middle = at.index(1.0)
    look: dict[str, Any] = dict(markerfacecolor="white", markersize=6)
    for words, y, color, marker in (
        (r"$\tilde\eta$, mean-field", steps, "blue", "o"),
        (r"$\eta$, NTK", steps * roots, "red", "D"),
    ):
        axes.plot(at, y / y[middle], marker, ls="-", color=plots.COLORS[color], label=words, **look)
    axes.set(xscale="log", yscale="log", xlabel=WIDTH.label, ylabel="best step / that at $N = d$")
    axes.set_title("against the width", fontsize=10)
    plots.plain_ticks(axes, at, (0.5, 1, 2, 4))
    axes.legend(fontsize=8)


def _draw_by_size(axes: Axes, scale: Scale, which: int) -> None:
    """The best step (0) or its spike (1) against the dimension; at N = d."""
    x = sizes(scale)
    look: dict[str, Any] = dict(markerfacecolor="white", markersize=6)
    for spectrum, (_, _, (color, marker)) in SPECTRA.items():
        y = [by_size(spectrum, d)[which] for d in x]
        axes.plot(x, y, marker, ls="-", color=plots.COLORS[color], label=spectrum, **look)
    axes.set(xscale="log", yscale="log", xlabel="dimension $d = N$")
    axes.set_ylabel(r"best step $\tilde\eta$" if which == 0 else "spike $u$ of the best step")
    axes.set_title("against the dimension" + (": the spike" if which else ""), fontsize=10)
    if which:
        axes.set_ylim(0.15, 2)
    plots.readable_logs(axes)
    plots.plain_ticks(
        axes, x, (0.05, 0.1, 0.2, 0.5, 1, 2, 3) if which == 0 else (0.2, 0.3, 0.5, 1, 2)
    )
    axes.legend(fontsize=8)


class Transfer(Figure):
    """The lower row is theory alone."""

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Drawing) -> None:
        lower: list[Callable[[Axes], None]] = [
            partial(_draw_by_width, scale=scale),
            partial(_draw_by_size, scale=scale, which=0),
            partial(_draw_by_size, scale=scale, which=1),
        ]
        placed = list(self.placed(rows, scale, drawing))
        for each, axes, mine in placed[:3]:
            draw_panel(each, mine, scale, axes)
        for draw, (_, axes, _) in zip(lower, placed[3:], strict=True):
            draw(axes)


def panels(scale: Scale) -> Sequence[Panel]:
    empty = [Panel((), WIDTH, title=f"lower {place}") for place in range(3)]
    return [_step_panel(MEAN_FIELD, scale), _step_panel(NTK, scale), _width_panel(scale), *empty]


FIGURE = Transfer(
    name="step-transfer",
    title="Does the best step stay where it is as the network grows? tanh learns tanh",
    source="firststep",
    caption=(
        "The best step eta = etat sqrt(N) has the same etat at every width, within 15 % from N = "
        "d/4 to 8d, and at every dimension: what a narrow network is tuned to can be kept. eta "
        "itself cannot: it grows like sqrt(N), and one that is kept leaves wide networks at 2.6 "
        "times the best risk. On power-law spectra etat does not transfer from dimension to "
        "dimension either, since the gradient grows with the leading eigenvalues; the spike u that "
        "the best step makes nearly does for j^-0.3, and shrinks for j^-0.6. Lower row: theory."
    ),
    panels=panels,
    quick=Scale(dimension=200, replicates=8),
    full=Scale(dimension=400, replicates=8, full=True),
    size=(4.6, 3.8),
)
