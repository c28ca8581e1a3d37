"""[Ba] Figure 1: risk against n/d of an erf student after one step, small and large, with the d/n rate.

The caption names the student (erf), the three models and the rate, and no number. Chosen here: teacher erf (as in Figure 3(c),
where [Ba] Corollary 8 gives the rate), psi2 = N/d = 2, ridge 1e-2, noise 0.1, and d and the number of runs of Figure 3. The
small step is eta = 4, the large one eta = 2 sqrt(N). The ridge is ten times that of Figure 3(c), which flattens the peak at n =
N. Lines are the theory at the dimension of the simulation; the guide line is 0.13 d/n, a constant chosen by eye.
"""

from __future__ import annotations

from collections.abc import Sequence

from firststep.figures.ba_common import guide, spaced
from firststep.figures.core import Curve, Figure, Panel, Scale
from firststep.problem import Problem

BASE = dict(sigma="erf", sigma_star="erf", psi2=2.0, lambda_=1e-2, sigma_epsilon=0.1)
RANGE = (0.5, 32.0)
RATE = 0.13


def problem(psi1: float, eta: float, exponent: float) -> Problem:
    return Problem.from_ba(psi1=psi1, eta=eta, eta_exponent=exponent, **BASE)


def panels(scale: Scale) -> Sequence[Panel]:
    at, line = spaced(*RANGE, scale.points), spaced(*RANGE, 33)
    still = Curve(
        "random features (no step)",
        lambda x: problem(x, 4, 0),
        at,
        line,
        "random-features",
        color="orange",
        marker="s",
    )
    small = Curve(
        r"small step, $\eta = 4$", lambda x: problem(x, 4, 0), at, line, color="pink", marker="^"
    )
    large = Curve(
        r"large step, $\eta = 2\sqrt{N}$",
        lambda x: problem(x, 2, 0.5),
        at,
        line,
        color="blue",
        marker="o",
    )
    bound = problem(1, 4, 0).kernel_lower_bound
    return [
        Panel(
            [still, small, large],
            "psi1",
            r"samples per dimension $\psi_1 = n/d$",
            xticks=(0.5, 1, 2, 4, 8, 16, 32),
            yticks=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4),
            levels=[(bound, "kernel lower bound")],
            legend="lower left",
            decorate=guide(lambda x: RATE / x, (2.5, 34), r"rate $d/n$"),
        )
    ]


FIGURE = Figure(
    name="ba-fig1",
    title="One large step goes below the kernel lower bound: erf learns erf",
    source="[Ba] Figure 1",
    caption=(
        "A small step lowers the risk of random features, but stays above the kernel lower bound. After a large step the "
        "risk falls below the bound and goes on falling like d/n. Points: simulation with one standard error; lines: "
        "theory at the same d."
    ),
    panels=panels,
    quick=Scale(dimension=250, replicates=8, points=7),
    full=Scale(dimension=512, replicates=50, points=9, full=True),
    size=(6.4, 4.8),
)
