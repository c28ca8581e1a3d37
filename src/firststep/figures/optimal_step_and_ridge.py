"""The best ridge and the best step against the amount of data, and what choosing well is worth.

tanh learns tanh with label noise 0.3; alpha0 = alpha (as many samples in the step as in the fit),
beta = 1, readout ones, rows on the sphere. ``firststep.optimal`` minimises the predicted risk at
the dimension of the simulations over ridge and step together, and for random features over the
ridge; the optima are flat, three digits are kept (so every machine simulates the same problems).
Between the amounts of data where it was run the logarithms of ridge and step are interpolated.
Networks are simulated at the optimum, at the fixed choice step 1, ridge 0.01, and without a step at
the best ridge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.interpolate import PchipInterpolator

from firststep import plots
from firststep.figures.core import Figure
from firststep.figures.shape import Axis, Curve, Panel, Scale, learns, no_step
from firststep.problem import Problem
from firststep.theory.one_step.optimum import optimal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from firststep.typing import Array, Float

RANGE = (0.5, 16.0)
SAMPLES = Axis(
    "alpha", r"samples per dimension $\alpha = \alpha_0$", RANGE, ticks=(0.5, 1, 2, 4, 8, 16)
)
RANGES = {"ridge": (1e-3, 10.0), "step": (0.1, 20.0)}
FIXED = {"step": 1.0, "ridge": 0.01}


def problem(alpha: float, **changes: float) -> Problem:
    fields = {**FIXED, **changes}
    return learns("tanh", "tanh", alpha=alpha, noise=0.3, readout="ones", init="sphere", **fields)


@cache
def best(dimension: int, count: int) -> dict[str, Float[Array, " alphas"]]:
    """The optimal step and ridge at every alpha, and ``still``: the ridge without a step."""

    def found(alpha: float) -> tuple[float, float, float]:
        both = optimal(problem(alpha, dimension=dimension), ranges=RANGES)
        still = optimal(
            problem(alpha, dimension=dimension, alpha0=0.0),
            "ridge",
            ranges={"ridge": RANGES["ridge"]},
        )
        return both.values["step"], both.values["ridge"], still.values["ridge"]

    # Three digits: the optima are flat, and every machine simulates the same problems.
    rows = [[float(f"{v:.3g}") for v in found(alpha)] for alpha in SAMPLES.points(count)]
    return dict(zip(("step", "ridge", "still"), np.array(rows).T, strict=True))


def between(scale: Scale, name: str) -> Callable[[float], float]:
    """The optimal value as a function of alpha."""
    alphas, values = SAMPLES.points(scale.points), best(scale.dimension, scale.points)[name]
    smooth = PchipInterpolator(np.log(alphas), np.log(values))
    nodes = dict(zip(alphas, map(float, values), strict=True))
    return lambda alpha: nodes.get(float(alpha)) or float(np.exp(smooth(np.log(alpha))))


def panels(scale: Scale) -> Sequence[Panel]:
    step, ridge, still = (between(scale, name) for name in ("step", "ridge", "still"))
    curves = [
        Curve("step and ridge optimal", lambda a: problem(a, step=step(a), ridge=ridge(a))),
        Curve("step 1, ridge 0.01", problem, color="orange", marker="s", style="--"),
        no_step("no step, ridge optimal", lambda a: problem(a, ridge=still(a)), style="-."),
    ]
    learned, random = ("blue", "o", "-"), ("grey", "v", "-.")
    return [
        Panel(
            curves, SAMPLES, title="risk", yticks=(0.02, 0.05, 0.1, 0.2, 0.4), bound=problem(1.0)
        ),
        Panel(
            (),
            SAMPLES,
            ylabel=r"step size $\tilde\eta$",
            title="optimal step",
            yticks=(0.6, 1, 1.5, 2, 3),
            decorate=chosen(scale, {"step": learned}),
        ),
        Panel(
            (),
            SAMPLES,
            ylabel=r"ridge $\lambda$",
            title="optimal ridge",
            yticks=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1),
            decorate=chosen(scale, {"ridge": learned, "still": random}),
        ),
    ]


def chosen(scale: Scale, names: Mapping[str, tuple[str, str, str]]) -> Callable[[Axes], None]:
    """Decoration: what ``optimal`` found, and the curve through it."""

    def draw(axes: Axes) -> None:
        alphas, found = SAMPLES.points(scale.points), best(scale.dimension, scale.points)
        dense = np.geomspace(*RANGE, 61)
        look: dict[str, Any] = dict(markersize=5, markerfacecolor="white")
        for name, (color, marker, style) in names.items():
            value = between(scale, name)
            plots.curve(axes, dense, [value(alpha) for alpha in dense], color, style=style)
            axes.plot(alphas, found[name], marker, color=plots.COLORS[color], **look)

    return draw


FIGURE = Figure(
    name="optimal-step-and-ridge",
    title="The best step and the best ridge",
    source="firststep",
    caption=(
        "With more data the best step grows and the best ridge falls; a network that takes the "
        "best step needs a ridge of its own, larger than that of random features. A fixed choice "
        "loses most at both ends: with little data its ridge is far too small, with much data its "
        "step is too short. Open symbols: the optima that the theory found."
    ),
    panels=panels,
    quick=Scale(dimension=400, replicates=12, points=6),
    full=Scale(dimension=1000, replicates=24, points=9, full=True),
    size=(4.4, 3.9),
    legend_columns=4,
)
