"""[Ba] Proposition 2: the first gradient is of rank one up to C log^2(n)/sqrt(n) of its norm.

A = (c1/(n sqrt(N))) X^T y a^T. Left: n, d and N grow together, as the proposition has it, n = 2d
and N = d, for three pairs of student and teacher of mean zero; the guide lines are the proved rate
and 1/sqrt(n), both with constants chosen by eye. Right: d and N = d fixed and only n grows; the
error then ends near 1/sqrt(N), which is the network's own output in the residual of the step (the
part along W0 a). The proposition comes without a figure: the pairs, the ratios, the sizes and the
noise 0.1 are chosen here. The relative error does not depend on the size of the step. Nothing here
has a theory beyond the rate; the ridge fit is not used and kept small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from firststep import plots
from firststep.figures.ba_common import guide, spaced
from firststep.figures.core import Figure
from firststep.figures.shape import Axis, Curve, Panel, Scale, family, learns
from firststep.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAIRS = (("tanh", "tanh"), ("erf", "centered(relu)"), ("centered(softplus)", "erf"))
LOOKS = (("blue", "o"), ("orange", "s"), ("green", "^"))
RATIO = 2.0  # n/d where all grow
RATIOS = (0.25, 32.0)  # n/d where only n grows
LEAST = 64  # smallest d
YLABEL = r"$\|G_0 - A\|\,/\,\|G_0\|$"
YTICKS = (0.02, 0.03, 0.05, 0.1, 0.2, 0.3)
YLIM = (0.02, 0.36)


def problem(x: float, pair: tuple[str, str], alpha0: float | None = None) -> Problem:
    """x is alpha0 = n/d where it is not fixed."""
    student, teacher = pair
    step = {"alpha0": alpha0 or x, "step": 1, "step_exponent": 0}
    return learns(student, teacher, alpha=0.1, ridge=1, noise=0.1, **step)


# Points of the measured relative error, without theory.
errors = partial(
    family, problem, looks=LOOKS, bulk=None, quantity="rank_one_error", options={"test_samples": 2}
)


def together(samples: Sequence[float]) -> list[Curve]:
    """x is n; n, d and N grow together."""
    members = {
        " learns ".join(pair).replace("centered(", "centred ").replace(")", ""): {
            "pair": pair,
            "alpha0": RATIO,
        }
        for pair in PAIRS
    }
    return errors(members, at=samples, dimension=lambda n: round(n / RATIO))


def alone(sizes: Sequence[int]) -> list[Curve]:
    """x is n/d; only n grows, at several d = N."""
    members = {f"$d = N = {size}$": {"pair": PAIRS[0]} for size in sizes}
    curves = errors(members, at=spaced(*RATIOS, 8))
    return [replace(each, dimension=size) for each, size in zip(curves, sizes, strict=True)]


def panels(scale: Scale) -> Sequence[Panel]:
    samples = [RATIO * LEAST * 2**power for power in range(scale.points)]
    sizes = [scale.dimension // 4, scale.dimension // 2, scale.dimension]
    ends = (0.85 * samples[0], 1.18 * samples[-1])

    def rates(axes: Axes) -> None:
        proved = r"proved rate $\log^2 n/\sqrt{n}$"
        guide(lambda n: 0.15 * np.log(n) ** 2 / np.sqrt(n), ends, proved, "grey")(axes)
        guide(lambda n: 1.25 / np.sqrt(n), ends, r"$1/\sqrt{n}$")(axes)

    def floors(axes: Axes) -> None:
        for size, (color, _) in zip(sizes, LOOKS, strict=True):
            label = r"$1/\sqrt{N}$" if size == sizes[-1] else None
            axes.axhline(
                size**-0.5, color=plots.COLORS[color], linestyle="--", linewidth=1, label=label
            )

    return [
        Panel(
            together(samples),
            Axis("n", "samples $n$ of the step", ticks=samples),
            ylabel=YLABEL,
            title=r"all grow: $n = 2d$, $N = d$",
            yticks=YTICKS,
            ylim=YLIM,
            legend="lower left",
            decorate=rates,
        ),
        Panel(
            alone(sizes),
            Axis("n/d", "samples per dimension $n/d$", ticks=(0.25, 0.5, 1, 2, 4, 8, 16, 32)),
            ylabel=YLABEL,
            title="only $n$ grows: tanh learns tanh",
            yticks=YTICKS,
            ylim=YLIM,
            legend="upper right",
            decorate=floors,
        ),
    ]


FIGURE = Figure(
    name="ba-rank-one",
    title=r"The first gradient is almost of rank one: what is left decays like $1/\sqrt{n}$",
    source="[Ba] Proposition 2",
    caption=(
        "Left: where n, d and N grow together, the part of the gradient that is not A decays like "
        "1/sqrt(n), faster than the proved rate by its logarithms. Right: at fixed d and N more "
        "samples help only down to about 1/sqrt(N)."
    ),
    panels=panels,
    quick=Scale(dimension=512, replicates=6, points=5),
    full=Scale(dimension=1024, replicates=20, points=6, full=True),
    size=(5.6, 4.5),
)
