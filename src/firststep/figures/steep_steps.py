"""Steps on steep spectra: what the gradient, a whitened, a sign and an orthogonalised step learn.

Inputs x ~ N(0, C), C diagonal with entries proportional to j^-A and trace d: A = 0 is N(0, I). One
step of the same size (Frobenius norm of W1 - W0) in four directions from the same networks and
samples, the defaults of ``simulate(..., optimizer=...)``. Left: alignment with theta, of v = X^T
r/n0 for the gradient (``alignment``), of (W1 - W0) at for the others (``update_alignment``). Right:
test risk, beside random features, which take no step. tanh learns tanh and relu learns sin, alpha0
= 2, alpha = 4, beta = 1, step 1, ridge 0.05, noise 0.1: all chosen here. Nothing has a theory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep import plots
from firststep.figures.core import Figure, legend_below
from firststep.figures.shape import Axis, Curve, Panel, Row, Scale, draw_panel, learns, no_step
from firststep.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

LOOKS = {
    "gradient": ("blue", "o"),
    "whitened": ("green", "^"),
    "sign": ("orange", "s"),
    "muon": ("red", "D"),
}
WITHOUT = "no step"
RIDGE, NOISE = 0.05, 0.1
EXPONENTS = (0.0, 1.5)


def evenly(low: float, high: float, count: int) -> list[float]:
    return [round(float(x), 3) for x in np.linspace(low, high, count)]


AXIS = Axis(
    "A",
    "exponent $A$ of the spectrum $j^{-A}$",
    ends=EXPONENTS,
    ticks=(0, 0.25, 0.5, 0.75, 1, 1.25, 1.5),
    spaced=evenly,
    scale="linear",
)


def problem(exponent: float, pair: tuple[str, str]) -> Problem:
    """The same at every exponent: what changes is the law of the inputs."""
    student, teacher = pair
    sizes = {"alpha": 4.0, "alpha0": 2.0, "step": 1.0}
    return learns(student, teacher, **sizes, ridge=RIDGE, noise=NOISE)


def options(exponent: float, optimizer: str) -> dict[str, Any]:
    """Of simulate; the gradient is left out, so that keys are those of any other sweep."""
    law = {"inputs": f"power-law:{exponent:g}"} if exponent else {}
    return {**law, **({} if optimizer == "gradient" else {"optimizer": optimizer})}


def curves(pair: tuple[str, str], quantity: Callable[[str], str]) -> list[Curve]:
    return [
        Curve(
            name,
            partial(problem, pair=pair),
            bulk=None,
            quantity=quantity(name),
            color=color,
            marker=marker,
            options=partial(options, optimizer=name),
            judged=False,
        )
        for name, (color, marker) in LOOKS.items()
    ]


def risks(pair: tuple[str, str]) -> list[Curve]:
    drawn = no_step(WITHOUT, partial(problem, pair=pair), bulk=None, judged=False)
    return [
        *curves(pair, lambda _: "risk"),
        replace(drawn, options=partial(options, optimizer="gradient")),
    ]


def of_the_step(optimizer: str) -> str:
    return "alignment" if optimizer == "gradient" else "update_alignment"


TANH, RELU = ("tanh", "tanh"), ("relu", "sin")
PANELS = (
    Panel(
        curves(TANH, of_the_step),
        AXIS,
        ylabel=r"alignment of the step with $\theta$",
        title="direction: tanh learns tanh",
        yscale="linear",
        ylim=(0, 1),
    ),
    Panel(risks(TANH), AXIS, title="tanh learns tanh", yticks=(0.01, 0.02, 0.03, 0.05, 0.1, 0.2)),
    Panel(risks(RELU), AXIS, title="relu learns sin", yticks=(0.05, 0.1, 0.2, 0.3)),
)


class Joined(Figure):
    """Points joined by thin lines: there is no theory to guide the eye."""

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Drawing) -> None:
        for panel, axes, mine in self.placed(rows, scale, drawing):
            draw_panel(panel, mine, scale, axes, legend=False)
            for color, x, y in _lines(panel, mine):
                plots.curve(axes, x, y, color, style=":")
        legend_below(drawing, scale, self.legend_columns, f"simulation, {scale.words}")


def _lines(panel: Panel, rows: Sequence[Row]) -> Iterator[tuple[str, list[float], list[float]]]:
    for curve in panel.curves:
        points = [row for row in rows if row["curve"] == curve.label]
        x, y = ([row[name] for row in points] for name in ("x_value", "simulated"))
        yield curve.color, x, y


FIGURE = Joined(
    name="steep-steps",
    title="One step on steep spectra: which direction it takes decides what it is worth",
    source="firststep",
    caption=(
        "On inputs N(0, C) the gradient follows C theta: on a steep spectrum it turns away from "
        "theta, and for tanh the step is worse than none. The whitened step is a ridge regression "
        "of the residuals: it is better even where C = I, and stays so. The sign helps where the "
        "coordinates are the axes of C, as here. The orthogonalised step gives the noise of the "
        "gradient the weight of its signal: little is learned."
    ),
    panels=lambda _: PANELS,
    quick=Scale(dimension=200, replicates=8, points=4),
    full=Scale(dimension=400, replicates=20, points=7, full=True),
    size=(4.6, 4.2),
    legend_columns=5,
)
