"""What the figures of [Ba] share: looks, points along an axis, guide lines of a rate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from firststep import plots
from firststep.figures.shape import Axis, Curve, Look, family, no_step
from firststep.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from firststep.typing import Array, Float

# From no step to the largest.
LOOKS: tuple[Look, ...] = (
    ("grey", "v"),
    ("green", "^"),
    ("orange", "s"),
    ("blue", "o"),
    ("red", "D"),
)


def ba(sigma: str, sigma_star: str, **given: float) -> Problem:
    """The setting of Figures 1 and 3: psi2 = N/d = 2 and noise 0.1, unless they are given."""
    usual = {"psi2": 2.0, "sigma_epsilon": 0.1}
    return Problem.from_ba(sigma=sigma, sigma_star=sigma_star, **{**usual, **given})


def spaced(low: float, high: float, count: int) -> list[float]:
    """Points evenly spaced in the logarithm, of few digits."""
    return [float(f"{x:.3g}") for x in np.geomspace(low, high, count)]


def around(peak: float, low: float, high: float, count: int = 21) -> list[float]:
    """Points from low to high that crowd at a peak in between."""
    share = np.linspace(0, 1, count) ** 1.5  # the power by eye: a peak looks round
    left, right = peak * (low / peak) ** share[::-1], peak * (high / peak) ** share[1:]
    return [float(x) for x in (*left, *right)]


SAMPLES = Axis(
    "psi1",
    r"samples per dimension $\psi_1 = n/d$",
    (0.5, 16.0),
    ticks=(0.5, 1, 2, 4, 8, 16),
    spaced=spaced,
    line=around(2.0, 0.5, 16.0),  # n = N where N = 2d
)


def small_steps(problem: Callable[..., Problem]) -> list[Curve]:
    """``problem(x, eta)`` without a step (random features) and for eta = 2, 4, 8."""
    still = no_step(r"$\eta = 0$ (random features)", partial(problem, eta=1))
    steps = {rf"$\eta = {eta}$": {"eta": eta} for eta in (2, 4, 8)}
    return [still, *family(problem, steps, LOOKS[1:])]


def guide(
    rate: Callable[[Float[Array, " x"]], Float[Array, " x"]],
    ends: tuple[float, float],
    label: str,
    color: str = "red",
) -> Callable[[Axes], None]:
    """Decoration: a thin dotted line of a rate, which says nothing about constants."""
    along = np.geomspace(*ends, 64)

    def draw(axes: Axes) -> None:
        axes.plot(
            along,
            rate(along),
            color=plots.COLORS[color],
            linestyle=(0, (1, 1.5)),
            linewidth=1.6,
            label=label,
        )

    return draw


def joined(axes: Axes) -> None:
    """Decoration: faint lines through simulated points, to lead the eye where theory is none."""
    for container in list(axes.containers):
        points = container[0]
        axes.plot(
            *points.get_data(), color=points.get_color(), linewidth=1, linestyle=":", alpha=0.7
        )
