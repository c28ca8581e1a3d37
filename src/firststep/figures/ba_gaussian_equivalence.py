"""[Ba] Theorem 3 and Appendix A.1: where the Gaussian equivalence of the trained features holds, and where it breaks.

The network s(W^T x) against its Gaussian equivalent, the noisy linear features c1 W^T x + mu2 z of [Ba] section 4.1 on the same
trained weights W. Left: one step of growing size eta, with the theory of the network at the dimension of the simulation, and
Theorem 5 at d = infinity, the risk both models share where the equivalence holds. The Gaussian model has no other theory here,
so it is not judged. Right: more and more steps of eta = 4, each on a fresh batch of n samples; the theory is of the first step
only. The paper gives no parameters in its text: erf learns erf, psi2 = N/d = 2 and noise 0.1 as in Figure 3(c), psi1 = n/d = 8,
ridge 1e-2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from firststep import plots
from firststep.figures.ba_common import joined, spaced
from firststep.figures.core import Curve, Figure, Panel, Scale
from firststep.problem import Problem
from firststep.sweep.units import Replicate

BASE = dict(sigma="erf", sigma_star="erf", psi1=8.0, psi2=2.0, lambda_=1e-2, sigma_epsilon=0.1)
ETAS = (0.5, 128.0)
ETA = 4.0  # of each of several steps
NETWORK, GAUSSIAN = "network", "Gaussian equivalent"
TICKS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1)
COUNTS = (1.0, 2.0, 4.0, 8.0, 16.0)


def problem(eta: float) -> Problem:
    return Problem.from_ba(eta=eta, **BASE)


class ManySteps(Figure):
    """Of a curve with the option ``steps``, x is the number of steps."""

    def _units(self, curve: Curve, scale: Scale) -> list[tuple[float, list[Replicate]]]:
        units = super()._units(curve, scale)
        if "steps" not in curve.options:
            return units
        return [
            (x, [replace(unit, options={**unit.options, "steps": int(x)}) for unit in some])
            for x, some in units
        ]


def panels(scale: Scale) -> Sequence[Panel]:
    levels = [(problem(1).kernel_lower_bound, "kernel lower bound")]
    at = spaced(*ETAS, scale.points)
    large = math.sqrt(BASE["psi2"] * scale.dimension)  # type: ignore[operator]

    def mark(axes: Any) -> None:
        axes.axvline(large, color=plots.COLORS["grey"], linewidth=1, linestyle=":")
        axes.text(
            0.93 * large,
            0.985,
            r"$\eta = \sqrt{N}$",
            transform=axes.get_xaxis_transform(),
            va="top",
            ha="right",
            fontsize=9,
        )

    growing = [
        Curve(NETWORK, problem, at),
        Curve(GAUSSIAN, problem, at, model="gaussian", bulk=None, color="orange", marker="s"),
        Curve(
            r"Theorem 5, $d = \infty$",
            problem,
            line=spaced(*ETAS, 61),
            model=None,
            color="orange",
            style="-",
            line_dimension=math.inf,
        ),
    ]
    repeated = [
        Curve(NETWORK, lambda x: problem(ETA), COUNTS, bulk=None, options={"steps": "x"}),
        Curve(
            GAUSSIAN,
            lambda x: problem(ETA),
            COUNTS,
            model="gaussian",
            bulk=None,
            color="orange",
            marker="s",
            options={"steps": "x"},
        ),
    ]
    first = Curve(
        "theory of one step", lambda x: problem(ETA), line=(0.8, 1.25), model=None, color="blue"
    )
    return [
        Panel(
            growing,
            "eta",
            r"size $\eta$ of the step",
            title="one step",
            xticks=(0.5, 1, 2, 4, 8, 16, 32, 64, 128),
            yticks=TICKS[3:],
            levels=levels,
            legend="lower left",
            decorate=mark,
        ),
        Panel(
            [*repeated, first],
            "steps",
            rf"number of steps of size $\eta = {ETA:g}$",
            title=rf"several steps, $\eta = {ETA:g}$",
            xticks=COUNTS,
            yticks=TICKS,
            ylim=(0.002, 0.11),
            levels=levels,
            legend="lower left",
            decorate=joined,
        ),
    ]


FIGURE = ManySteps(
    name="ba-gaussian-equivalence",
    title=r"The trained features are Gaussian only while the weights have moved little: erf learns erf, $n = 8d$, $N = 2d$",
    source="[Ba] Theorem 3, Appendix A.1",
    caption=(
        "After one small step the network and the noisy linear model on the same weights have one risk. Where the step "
        "approaches sqrt(N), or after enough small steps, the network falls below the kernel lower bound, which the "
        "linear model cannot."
    ),
    panels=panels,
    quick=Scale(dimension=256, replicates=5, points=6),
    full=Scale(dimension=512, replicates=30, points=9, full=True),
    size=(5.6, 4.5),
)
