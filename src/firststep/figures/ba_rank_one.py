"""[Ba] Proposition 2: the first gradient is almost of rank one, ||G0 - A|| <= C log^2(n)/sqrt(n) ||G0||.

A = (c1/(n sqrt(N))) X^T y a^T. Left: n, d and N grow together, as the proposition has it, n = 2d and N = d, for three pairs of
student and teacher of mean zero; the guide lines are the proved rate and 1/sqrt(n), both with constants chosen by eye. Right: d
and N = d fixed and only n grows; the error then ends near 1/sqrt(N), which is the network's own output in the residual of the
step (the part along W0 a). The proposition comes without a figure: the pairs, the ratios, the sizes and the noise 0.1 are
chosen here. The relative error does not depend on the size of the step. Nothing here has a theory beyond the rate; the ridge
fit is not used and kept small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from firststep import plots
from firststep.figures.ba_common import guide, spaced
from firststep.figures.core import Curve, Figure, Panel, Scale
from firststep.problem import Problem
from firststep.sweep.units import Replicate

PAIRS = (("tanh", "tanh"), ("erf", "centered(relu)"), ("centered(softplus)", "erf"))
LOOKS = (("blue", "o"), ("orange", "s"), ("green", "^"))
RATIO = 2.0  # n/d where all grow
RATIOS = (0.25, 32.0)  # n/d where only n grows
LEAST = 64  # smallest d
YTICKS = (0.02, 0.03, 0.05, 0.1, 0.2, 0.3)
YLIM = (0.02, 0.36)


def curve(
    label: str, pair: tuple[str, str], at: Sequence[float], look: tuple[str, str], **more: Any
) -> Curve:
    """Points of the measured relative error; n/d is x, or as where all grow."""
    ratio = RATIO if more.get("dimension") is None else None

    def problem(x: float) -> Problem:
        return Problem(
            student=pair[0],
            teacher=pair[1],
            alpha=0.1,
            alpha0=ratio or x,
            beta=1,
            step=1,
            step_exponent=0,
            ridge=1,
            noise=0.1,
        )

    color, marker = look
    return Curve(
        label,
        problem,
        at,
        bulk=None,
        quantity="rank_one_error",
        color=color,
        marker=marker,
        options={"test_samples": 2},
        **more,
    )


def _named(pair: tuple[str, str]) -> str:
    """Student learns teacher, in words."""
    return " learns ".join(pair).replace("centered(", "centred ").replace(")", "")


class Growing(Figure):
    """Where a curve has no dimension of its own, x is n and d = n/2."""

    def _units(self, curve: Curve, scale: Scale) -> list[tuple[float, list[Replicate]]]:
        units = super()._units(curve, scale)
        if curve.dimension is not None:
            return units
        return [
            (
                x,
                [
                    replace(unit, problem=unit.problem.replace(dimension=round(x / RATIO)))
                    for unit in some
                ],
            )
            for x, some in units
        ]


def panels(scale: Scale) -> Sequence[Panel]:
    samples = [RATIO * LEAST * 2**power for power in range(scale.points)]
    ends = (0.85 * samples[0], 1.18 * samples[-1])
    together = [
        curve(_named(pair), pair, samples, look) for pair, look in zip(PAIRS, LOOKS, strict=True)
    ]
    sizes = [scale.dimension // 4, scale.dimension // 2, scale.dimension]
    alone = [
        curve(f"$d = N = {size}$", PAIRS[0], spaced(*RATIOS, 8), look, dimension=size)
        for size, look in zip(sizes, LOOKS, strict=True)
    ]

    def rates(axes: Any) -> None:
        guide(
            lambda n: 0.15 * np.log(n) ** 2 / np.sqrt(n),
            ends,
            r"proved rate $\log^2 n/\sqrt{n}$",
            "grey",
        )(axes)
        guide(lambda n: 1.25 / np.sqrt(n), ends, r"$1/\sqrt{n}$")(axes)

    def floors(axes: Any) -> None:
        for size, (color, _) in zip(sizes, LOOKS, strict=True):
            label = r"$1/\sqrt{N}$" if size == sizes[-1] else None
            axes.axhline(
                size**-0.5, color=plots.COLORS[color], linestyle="--", linewidth=1, label=label
            )

    return [
        Panel(
            together,
            "n",
            "samples $n$ of the step",
            r"$\|G_0 - A\|\,/\,\|G_0\|$",
            r"all grow: $n = 2d$, $N = d$",
            xticks=samples,
            yticks=YTICKS,
            ylim=YLIM,
            legend="lower left",
            decorate=rates,
        ),
        Panel(
            alone,
            "n/d",
            "samples per dimension $n/d$",
            r"$\|G_0 - A\|\,/\,\|G_0\|$",
            "only $n$ grows: tanh learns tanh",
            xticks=(0.25, 0.5, 1, 2, 4, 8, 16, 32),
            yticks=YTICKS,
            ylim=YLIM,
            legend="upper right",
            decorate=floors,
        ),
    ]


FIGURE = Growing(
    name="ba-rank-one",
    title=r"The first gradient is almost of rank one: what is left decays like $1/\sqrt{n}$",
    source="[Ba] Proposition 2",
    caption=(
        "Left: where n, d and N grow together, the part of the gradient that is not A decays like 1/sqrt(n), faster than "
        "the proved rate by its logarithms. Right: at fixed d and N more samples help only down to about 1/sqrt(N)."
    ),
    panels=panels,
    quick=Scale(dimension=512, replicates=6, points=5),
    full=Scale(dimension=1024, replicates=20, points=6, full=True),
    size=(5.6, 4.5),
)
