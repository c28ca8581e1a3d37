"""A budget of samples: how many of them the step should have, and how many the fit.

tanh learns tanh, noise 0.1, beta = 1, readout ones, rows on the sphere; n0 + n is given, and n0 is
a share of it. Step and ridge are the best ones of every split, chosen by the theory at the
dimension of the simulations (between the splits where that was done their logarithms are
interpolated). Left: N(0, I); middle: a power-law spectrum; stars: the best split; dashed levels: no
step, all samples in the fit. Right: the best split against the budget, by the theory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from firststep import plots
from firststep.figures.core import Figure, legend_below
from firststep.figures.shape import LOOKS, Axis, Curve, Panel, Row, Scale, draw_panel, learns
from firststep.figures.tuned import Chosen, tuned
from firststep.problem import Problem
from firststep.theory.one_step.predict import predict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from firststep.typing import Array, Float

SHARES = (0.1, 0.25, 0.4, 0.55, 0.7, 0.82, 0.93)
DENSE = np.linspace(SHARES[0], SHARES[-1], 31)
RANGES = {"ridge": (0.005, 10.0), "step": (0.1, 6.0)}
RIDGE = {"ridge": (0.003, 3.0)}
SPECTRA = {
    "N(0, I)": ({}, ("blue", "o")),
    r"$j^{-0.3}$": ({"inputs": "power-law:0.3"}, ("orange", "s")),
}
SPLIT = Axis(
    "share",
    "share of the samples given to the step",
    ticks=(0, 0.2, 0.4, 0.6, 0.8, 1),
    line=tuple(DENSE),
    scale="linear",
)
RISK_TICKS = (0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3)


def budgets(scale: Scale) -> Sequence[float]:
    """(n0 + n)/d."""
    return (1.0, 2.0, 4.0, 8.0, 16.0) if scale.full else (2.0, 8.0)


def simulated_at(scale: Scale) -> Sequence[float]:
    return SHARES if scale.full else SHARES[1::2]


def problem(share: float, budget: float, spectrum: str, **changes: float) -> Problem:
    sizes = {"alpha0": share * budget, "alpha": (1 - share) * budget, "noise": 0.1, "ridge": 0.1}
    fixed: dict[str, Any] = dict(readout="ones", init="sphere", **SPECTRA[spectrum][0])
    return learns("tanh", "tanh", **{**sizes, **changes}, **fixed)


@cache
def chosen(budget: float, spectrum: str, dimension: int) -> Chosen:
    """The best step and ridge of the splits."""
    shares = np.array(SHARES)
    fields = {"alpha0": shares * budget, "alpha": (1 - shares) * budget}
    asked = problem(0.5, budget, spectrum, dimension=dimension, step=1.0)
    return Chosen(SHARES, tuned(asked, RANGES, fields))


def best_at(share: float, budget: float, spectrum: str, dimension: int) -> Problem:
    found = chosen(budget, spectrum, dimension)
    changes = {name: found.between(name)(share) for name in RANGES}
    return problem(share, budget, spectrum, **changes)


class Split(NamedTuple):
    """The best one of a budget: the share of the step, its risk, and that of no step at all."""

    share: float
    risk: float
    without: float


@cache
def best_split(budget: float, spectrum: str, dimension: int) -> Split:
    asked = best_at(0.5, budget, spectrum, dimension).replace(dimension=dimension)
    found = chosen(budget, spectrum, dimension)
    along: dict[str, Any] = {"alpha0": DENSE * budget, "alpha": (1 - DENSE) * budget}
    along |= {name: np.array([found.between(name)(x) for x in DENSE]) for name in RANGES}
    risks = np.asarray(predict(asked, **along).risk)
    share, risk = _lowest(DENSE, np.log(risks))
    still = problem(0.0, budget, spectrum, dimension=dimension)
    ridge = tuned(still, RIDGE, {"alpha": [budget]})["ridge"]
    return Split(share, float(np.exp(risk)), float(predict(still, ridge=ridge[0]).risk))


def _lowest(x: Float[Array, " x"], y: Float[Array, " x"]) -> tuple[float, float]:
    """The vertex of the parabola through the least of evenly spaced points and its neighbours."""
    place = int(np.clip(np.argmin(y), 1, len(x) - 2))
    fit = np.polynomial.Polynomial.fit(x[place - 1 : place + 2], y[place - 1 : place + 2], 2)
    (vertex,) = np.real(fit.deriv().roots())
    at = float(np.clip(vertex, x[0], x[-1]))
    return at, float(fit(at))


def panel(spectrum: str, scale: Scale) -> Panel:
    curves = []
    for budget, (color, marker) in zip(budgets(scale), LOOKS, strict=False):
        asked = partial(best_at, budget=budget, spectrum=spectrum, dimension=scale.dimension)
        label = named(budget)
        at = simulated_at(scale)
        curves.append(Curve(label, asked, at=at, color=color, marker=marker))
    decorate = partial(_stars, spectrum=spectrum, scale=scale)
    title = f"inputs {spectrum}"
    return Panel(curves, SPLIT, title=title, xlim=(0, 1), yticks=RISK_TICKS, decorate=decorate)


def named(budget: float) -> str:
    return rf"$n_0 + n = {budget:g}\,d$"


def _stars(axes: Axes, spectrum: str, scale: Scale) -> None:
    """The best splits, and the levels of no step at all."""
    look: dict[str, Any] = dict(markersize=13, markeredgecolor="black", linestyle="none", zorder=5)
    for budget, (color, _) in zip(budgets(scale), LOOKS, strict=False):
        found = best_split(budget, spectrum, scale.dimension)
        axes.plot([found.share], [found.risk], "*", color=plots.COLORS[color], **look)
        axes.axhline(found.without, linestyle="--", linewidth=1, color=plots.COLORS[color])
    axes.plot([], [], "*", color="white", **look, label="best split")
    plots.style_key(axes, "no step", "--")


class Budget(Figure):
    """The risks of splits, and the best split of every budget."""

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Drawing) -> None:
        for shown, axes, mine in self.placed(rows, scale, drawing):
            if shown.curves:
                draw_panel(shown, mine, scale, axes, legend=False)
            else:
                _draw_best(axes, scale)
        legend_below(drawing, scale, self.legend_columns)


def _draw_best(axes: Axes, scale: Scale) -> None:
    for spectrum, (_, (color, marker)) in SPECTRA.items():
        x = budgets(scale)
        shares = [best_split(each, spectrum, scale.dimension).share for each in x]
        look: dict[str, Any] = dict(marker=marker, markerfacecolor="white", markersize=6)
        axes.plot(x, shares, color=plots.COLORS[color], label=f"inputs {spectrum}", **look)
    axes.set(xscale="log", ylim=(0, 1), xlabel=r"budget $(n_0 + n)/d$")
    axes.set(ylabel="best share of the step")
    axes.set_title("the best split, by the theory", fontsize=10)
    plots.plain_ticks(axes, budgets(scale), ())


FIGURE = Budget(
    name="sample-budget",
    title="A budget of samples: what the step should have and what the fit",
    source="firststep",
    caption=(
        "Half of the samples or more should go to the step: from 4d on two thirds to three "
        "quarters for N(0, I), half to three fifths for j^-0.3, where the step cannot point at the "
        "teacher however many it has. With fewer samples the minimum is broad and further to the "
        "right. A tenth of the budget more or less costs a few per cent; a step with a tenth of it "
        "doubles the risk for N(0, I). Every split drawn is better than no step with all samples "
        "in the fit (dashed)."
    ),
    panels=lambda scale: [*(panel(each, scale) for each in SPECTRA), Panel((), SPLIT)],
    quick=Scale(dimension=150, replicates=10, points=3),
    full=Scale(dimension=400, replicates=20, points=7, full=True),
    size=(4.6, 4.0),
    legend_columns=4,
)
