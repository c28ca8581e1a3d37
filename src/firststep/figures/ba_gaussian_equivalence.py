"""[Ba] Theorem 3 and Appendix A.1: where trained features have a Gaussian equivalent, and not.

The network s(W^T x) against its Gaussian equivalent, the noisy linear features c1 W^T x + mu2 z of
[Ba] section 4.1 on the same trained weights W. Left: one step of growing size eta, with the theory
of the network at the dimension of the simulation, and Theorem 5 at d = infinity, the risk both
models share where the equivalence holds. The Gaussian model has no other theory here, so it is not
judged. Right: more and more steps of eta = 4, each on a fresh batch of n samples; the theory is of
the first step only. The paper gives no parameters in its text: erf learns erf, psi2 = N/d = 2 and
noise 0.1 as in Figure 3(c), psi1 = n/d = 8, ridge 1e-2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from firststep import plots
from firststep.figures.ba_common import ba, joined, spaced
from firststep.figures.core import Figure
from firststep.figures.shape import Axis, Curve, Panel, Scale
from firststep.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 2.0  # psi2 = N/d
ETAS = (0.5, 128.0)
ETA = 4.0  # of each of several steps
COUNTS = (1.0, 2.0, 4.0, 8.0, 16.0)
NETWORK, GAUSSIAN = "network", "Gaussian equivalent"
TICKS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1)


def problem(eta: float) -> Problem:
    return ba("erf", "erf", psi1=8.0, psi2=WIDTH, eta=eta, lambda_=1e-2)


def several(_: float) -> Problem:
    """x is the number of steps."""
    return problem(ETA)


# Both panels show the network, and beside it the Gaussian model, which has no theory.
gaussian = partial(Curve, GAUSSIAN, model="gaussian", bulk=None, color="orange", marker="s")
repeated: dict[str, Any] = dict(at=COUNTS, bulk=None, options=lambda x: {"steps": int(x)})
ONE_STEP = Panel(
    [
        Curve(NETWORK, problem),
        gaussian(problem),
        Curve(
            r"Theorem 5, $d = \infty$",
            problem,
            line=spaced(*ETAS, 61),
            model=None,
            color="orange",
            line_dimension=math.inf,
        ),
    ],
    Axis(
        "eta",
        r"size $\eta$ of the step",
        ETAS,
        ticks=(0.5, 1, 2, 4, 8, 16, 32, 64, 128),
        spaced=spaced,
    ),
    title="one step",
    yticks=TICKS[3:],
    bound=problem(1),
    legend="lower left",
)
SEVERAL_STEPS = Panel(
    [
        Curve(NETWORK, several, **repeated),
        gaussian(several, **repeated),
        Curve("theory of one step", several, line=(0.8, 1.25), model=None),
    ],
    Axis("steps", rf"number of steps of size $\eta = {ETA:g}$", ticks=COUNTS),
    title=rf"several steps, $\eta = {ETA:g}$",
    yticks=TICKS,
    ylim=(0.002, 0.11),
    bound=problem(1),
    legend="lower left",
    decorate=joined,
)


def panels(scale: Scale) -> Sequence[Panel]:
    large = math.sqrt(WIDTH * scale.dimension)

    def mark(axes: Axes) -> None:
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

    return [replace(ONE_STEP, decorate=mark), SEVERAL_STEPS]


FIGURE = Figure(
    name="ba-gaussian-equivalence",
    title=(
        "The trained features are Gaussian only while the weights have moved little: "
        "erf learns erf, $n = 8d$, $N = 2d$"
    ),
    source="[Ba] Theorem 3, Appendix A.1",
    caption=(
        "After one small step the network and the noisy linear model on the same weights have one "
        "risk. Where the step approaches sqrt(N), or after enough small steps, the network falls "
        "below the kernel lower bound, which the linear model cannot."
    ),
    panels=panels,
    quick=Scale(dimension=256, replicates=5, points=6),
    full=Scale(dimension=512, replicates=30, points=9, full=True),
    size=(5.6, 4.5),
)
