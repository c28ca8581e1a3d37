"""The best ridge and the best step, against the amount of data: what theory chooses, and what choosing well is worth.

tanh learns tanh with label noise 0.3; alpha0 = alpha (as many samples in the step as in the fit), beta = 1, readout ones, rows on
the sphere. ``firststep.optimal`` minimises the predicted risk at the dimension of the simulations over ridge and step together,
and for random features over the ridge; the optima are flat, three digits are kept (so every machine simulates the same problems).
Between the amounts of data where it was run the logarithms of ridge and step are interpolated. Networks are simulated at the
optimum, at the fixed choice step 1, ridge 0.01, and without a step at the best ridge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator

from firststep import plots
from firststep.figures.core import Curve, Panel, Scale
from firststep.figures.cui_common import SharedLegend
from firststep.problem import Problem
from firststep.theory.one_step.optimum import optimal

RANGE = (0.5, 16.0)
TICKS = (0.5, 1, 2, 4, 8, 16)
RANGES = {"ridge": (1e-3, 10.0), "step": (0.1, 20.0)}
FIXED = {"step": 1.0, "ridge": 0.01}


def problem(alpha: float, **changes: float) -> Problem:
    base = Problem(
        student="tanh",
        teacher="tanh",
        alpha=alpha,
        beta=1,
        noise=0.3,
        readout="ones",
        init="sphere",
        **FIXED,
    )
    return base.replace(**changes)


@cache
def best(dimension: int, count: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """alpha, and there the optimal step and ridge, and the optimal ridge without a step."""
    alphas = np.round(np.geomspace(*RANGE, count), 3)
    both = [optimal(problem(alpha, dimension=dimension), ranges=RANGES) for alpha in alphas]
    still = [
        optimal(
            problem(alpha, dimension=dimension, alpha0=0.0),
            "ridge",
            ranges={"ridge": RANGES["ridge"]},
        )
        for alpha in alphas
    ]
    found = {
        "step": [each.values["step"] for each in both],
        "ridge": [each.values["ridge"] for each in both],
    }
    found["still"] = [each.values["ridge"] for each in still]
    return alphas, {
        name: np.array([float(f"{value:.3g}") for value in values])
        for name, values in found.items()
    }


def between(scale: Scale, name: str) -> Callable[[float], float]:
    """The optimal value as a function of alpha."""
    alphas, found = best(scale.dimension, scale.points)
    smooth = PchipInterpolator(np.log(alphas), np.log(found[name]))
    nodes = dict(zip(map(float, alphas), map(float, found[name]), strict=True))
    return lambda alpha: nodes.get(float(alpha)) or float(np.exp(smooth(np.log(alpha))))


def panels(scale: Scale) -> Sequence[Panel]:
    alphas, _ = best(scale.dimension, scale.points)
    step, ridge, still = (between(scale, name) for name in ("step", "ridge", "still"))
    label = r"samples per dimension $\alpha = \alpha_0$"
    curves = [
        Curve(
            "step and ridge optimal",
            lambda a: problem(a, step=step(a), ridge=ridge(a)),
            alphas,
            color="blue",
        ),
        Curve("step 1, ridge 0.01", problem, alphas, color="orange", marker="s", style="--"),
        Curve(
            "no step, ridge optimal",
            lambda a: problem(a, ridge=still(a)),
            alphas,
            model="random-features",
            color="grey",
            marker="v",
            style="-.",
        ),
    ]
    bound = [(problem(1.0).kernel_lower_bound, "kernel lower bound")]
    return [
        Panel(
            curves,
            "alpha",
            label,
            title="risk",
            xticks=TICKS,
            yticks=(0.02, 0.05, 0.1, 0.2, 0.4),
            levels=bound,
            legend=None,
        ),
        _chosen(
            scale,
            "optimal step",
            r"step size $\tilde\eta$",
            {"step": ("blue", "o", "-")},
            (0.6, 1, 1.5, 2, 3),
            label,
        ),
        _chosen(
            scale,
            "optimal ridge",
            r"ridge $\lambda$",
            {"ridge": ("blue", "o", "-"), "still": ("grey", "v", "-.")},
            (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1),
            label,
        ),
    ]


def _chosen(
    scale: Scale,
    title: str,
    ylabel: str,
    names: dict[str, tuple[str, str, str]],
    yticks: Sequence[float],
    xlabel: str,
) -> Panel:
    """What ``optimal`` found, and the curve through it."""

    def draw(axes: Any) -> None:
        alphas, found = best(scale.dimension, scale.points)
        dense = np.geomspace(*RANGE, 61)
        for name, (color, marker, style) in names.items():
            value = between(scale, name)
            plots.curve(axes, dense, [value(alpha) for alpha in dense], color, style=style)
            axes.plot(
                alphas,
                found[name],
                marker,
                color=plots.COLORS[color],
                markersize=5,
                markerfacecolor="white",
            )

    return Panel(
        (), "alpha", xlabel, ylabel, title, xticks=TICKS, yticks=yticks, legend=None, decorate=draw
    )


FIGURE = SharedLegend(
    name="optimal-step-and-ridge",
    title="The best step and the best ridge",
    source="firststep",
    caption=(
        "With more data the best step grows and the best ridge falls; a network that takes the best step needs a ridge of its own, "
        "larger than that of random features. A fixed choice loses most at both ends: with little data its ridge is far too small, "
        "with much data its step is too short. Open symbols: the optima that the theory found."
    ),
    panels=panels,
    quick=Scale(dimension=400, replicates=12, points=6),
    full=Scale(dimension=1000, replicates=24, points=9, full=True),
    size=(4.4, 3.9),
    legend_columns=4,
)
