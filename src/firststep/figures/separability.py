"""Where a network can separate two classes: the threshold as a phase diagram.

Fewer samples than a threshold can all be given their class by some readout, and then the training
error rate of a fit with next to no ridge is 0; more cannot. tanh networks, readout ones, rows on
the sphere, alpha0 = 4; labels sign(<x, theta>), 5 % of them flipped; squared hinge loss, ridge
1e-5. Left: without a step, over samples and width. Middle: after a step, over samples and its size,
beta = 1. Right: along the samples at beta = 1, with the smallest and with a larger ridge.

Solid line: where the training error rate of the theory jumps. Dashed, for random features: a
threshold that is known independently of it. Random features are Gaussian as far as a linear fit can
tell, and whether points can be separated does not change with a linear map, so Theorem 2.1 of
[Candes and Sur 2018] (arXiv:1804.09753) holds for N Gaussian features of which one, g, carries the
share R of the teacher's coordinate:

    N/n = min_t E (t y g - Z)_+^2,    P(y = 1 | g) = p + (1 - 2 p) Phi(R g/sqrt(1 - R^2)),
    R^2 = 1 - z m,    1 = z m + beta m/(1 + m),    z = (m2 - c0^2 - c1^2)/c1^2,

with g, Z ~ N(0, 1), p the flips and m the trace of (W W^T + z)^-1/d (Marchenko-Pastur). Narrow
networks know nothing of the labels, R = 0, and it is Cover's n = 2 N (1965; dotted).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from firststep import plots
from firststep.figures.core import Figure, legend_below
from firststep.figures.shape import Axis, Curve, Panel, Row, Scale, draw_panel, learns
from firststep.numerics.quadrature import REACH, gaussian_panels
from firststep.problem import Problem
from firststep.theory.one_step.predict import predict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from firststep.typing import Array, Float

FLIP = 0.05
LITTLE, MORE = 1e-5, 1e-3  # ridges: with the first the threshold is within 3 % of its limit
COVER = 2.0  # n/N of labels that say nothing
JUMPED = 0.03  # a training error rate about half-way up the jump
HALVINGS = 6  # of the bracket of a threshold: to 0.5 % of n/N
PATH = tuple(np.geomspace(1.0, LITTLE, 11))
KNOWN: dict[str, Any] = dict(color=plots.COLORS["red"], linestyle="--", linewidth=1.6)
COLORS: dict[str, Any] = dict(cmap="viridis", vmin=0.0, vmax=0.2)


def problem(ratio: float, beta: float = 1.0, step: float = 0.0, ridge: float = LITTLE) -> Problem:
    """At n/N = ``ratio``; without a step where its size is 0."""
    return learns(
        "tanh",
        "z",
        alpha=ratio * beta,
        beta=beta,
        alpha0=4.0 if step else 0.0,
        step=step,
        ridge=ridge,
        readout="ones",
        init="sphere",
        loss="squared-hinge",
        labels="sign",
        flip=FLIP,
    )


def known_threshold(asked: Problem) -> float:
    """n/N of random features at d = infinity, for teacher z: the equations above."""
    moments = asked.student.moments
    z = moments.nonlinear_variance / moments.linear**2
    half = (z + asked.beta - 1) / 2
    share = 1 - (math.sqrt(half**2 + z) - half)  # R^2 = 1 - z m, m from its quadratic equation
    g, mass = gaussian_panels(np.linspace(-REACH, REACH, 69), 10)
    positive = asked.flip + (1 - 2 * asked.flip) * ndtr(g * math.sqrt(share / (1 - share)))

    def missed(t: float) -> float:
        found = 0.0
        for sign, probability in ((1, positive), (-1, 1 - positive)):
            a = t * sign * g
            density = np.exp(-(a**2) / 2) / math.sqrt(2 * math.pi)
            found += float(np.sum(mass * probability * ((1 + a**2) * ndtr(a) + a * density)))
        return found

    # t < 0, since y g > 0 is the likelier; -1 or so, and far more only for labels that are certain
    best = minimize_scalar(missed, bounds=(-20.0, 0.0), method="bounded", options={"xatol": 1e-10})
    return 1 / float(best.fun)


@dataclass(frozen=True)
class Map:
    """Samples per neuron along x, a field along y, and where simulations check it."""

    title: str
    y: Axis
    problem: Callable[[float, float], Problem]  # of n/N and y
    checks: tuple[tuple[float, float], ...]

    def check(self, number: float) -> Problem:
        return self.problem(*self.checks[int(number)])

    def training_error_rate(
        self, ratios: Float[Array, " places"], ys: Float[Array, " places"], dimension: float
    ) -> Float[Array, " places"]:
        """At many places; nan where the equations were not solved."""
        asked = self.problem(1.0, 1.0).replace(dimension=dimension)
        beta = ys if self.y.name == "beta" else asked.beta + 0 * ys
        fields: dict[str, Any] = {"alpha": ratios * beta, self.y.name: ys}
        found = predict(asked, **fields)
        rates = np.array(found.training_error_rate)
        for place in np.flatnonzero(np.isnan(rates)):  # from large ridges down, one by one
            again = self.problem(float(ratios[place]), float(ys[place]))
            path = predict(again.replace(dimension=dimension), ridge=np.array(PATH))
            rates[place] = path.training_error_rate[-1]
        return rates


RATIOS = Axis("ratio", r"samples per neuron $n/N$", (1.0, 6.0), scale="linear")
MAPS = (
    Map(
        title="training error rate without a step",
        y=Axis("beta", r"width per dimension $\beta$", (0.7, 4.0), (0.7, 1, 2, 4)),
        problem=lambda ratio, beta: problem(ratio, beta),
        checks=((1.5, 1.0), (2.3, 2.0), (3.6, 0.9), (4.2, 1.5), (5.4, 2.6), (5.4, 0.9)),
    ),
    Map(
        title=r"after a step: $\beta = 1$, $\alpha_0 = 4$",
        y=Axis("step", r"step size $\tilde\eta$", (0.1, 3.0), (0.1, 0.3, 1, 3)),
        problem=lambda ratio, step: problem(ratio, step=step),
        checks=((1.5, 0.3), (2.5, 1.5), (4.3, 0.3), (4.3, 1.5), (5.2, 2.5), (5.4, 0.6)),
    ),
)
AWAY = 0.2  # of the logarithm of n/N: nearer to a threshold networks of one size differ widely


def crossing(label: str, step: float, ridge: float, look: tuple[str, str, str]) -> Curve:
    """A line across the threshold, judged where the fit has a ridge or the threshold is far."""
    color, marker, style = look
    edge = known_threshold(problem(1.0))
    return Curve(
        label,
        lambda ratio: problem(ratio, step=step, ridge=ridge),
        quantity="training_error_rate",
        color=color,
        marker=marker,
        style=style,
        judged=lambda ratio: ridge > LITTLE or abs(math.log(ratio / edge)) > AWAY,
    )


CROSSINGS = Panel(
    [
        crossing(f"no step, ridge {LITTLE:g}", 0.0, LITTLE, ("orange", "s", "-")),
        crossing(f"one step, ridge {LITTLE:g}", 1.0, LITTLE, ("blue", "o", "-")),
        crossing(f"no step, ridge {MORE:g}", 0.0, MORE, ("pink", "D", "--")),
        crossing(f"one step, ridge {MORE:g}", 1.0, MORE, ("sky", "^", "--")),
    ],
    replace(RATIOS, spaced=np.linspace, ends=(1.5, 6.0)),
    ylabel="training error rate",
    title=r"across the threshold: $\beta = 1$, $\tilde\eta = 1$",
    yscale="linear",
)
PANELS = (
    *(
        Panel(
            [Curve("network", each.check, range(len(each.checks)), quantity="training_error_rate")],
            Axis("check", each.y.label),
            title=each.title,
        )
        for each in MAPS
    ),
    CROSSINGS,
)


class Separability(Figure):
    """Two maps with checks, and lines across the threshold."""

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Drawing) -> None:
        *maps, last = self.placed(rows, scale, drawing)
        for chosen, (_, axes, mine) in zip(MAPS, maps, strict=True):
            shown = draw_map(chosen, mine, scale, axes)
        drawing.colorbar(shown, ax=[axes for _, axes, _ in maps])
        panel, axes, mine = last
        draw_panel(panel, mine, scale, axes, legend=False)
        axes.axvline(known_threshold(problem(1.0)), **KNOWN)
        legend_below(drawing, scale, 5)


def draw_map(chosen: Map, rows: Sequence[Row], scale: Scale, axes: Axes) -> Any:
    """Colours of the theory, its threshold, those that are known, and the checks."""
    across = np.linspace(*RATIOS.ends, scale.points * 3 + 1)
    up = np.geomspace(*chosen.y.ends, scale.points * 2)
    ratios, ys = (each.ravel() for each in np.meshgrid(across, up))
    rates = chosen.training_error_rate(ratios, ys, scale.dimension).reshape(len(up), -1)
    shown = axes.pcolormesh(across, up, rates, shading="gouraud", **COLORS)
    edge = threshold(chosen, across, up, rates, scale.dimension)
    axes.plot(edge, up, color="white", linewidth=2)
    known = [known_threshold(chosen.problem(1.0, y)) for y in up]
    axes.plot(known, up, label="threshold of random features, known", **KNOWN)
    axes.axvline(COVER, color="white", linestyle=":", linewidth=1.6)
    axes.scatter(
        [chosen.checks[int(row["x_value"])][0] for row in rows],
        [chosen.checks[int(row["x_value"])][1] for row in rows],
        c=[row["simulated"] for row in rows],
        s=90,
        edgecolors="white",
        linewidths=1.5,
        zorder=3,
        **COLORS,
    )
    axes.set(yscale="log", xlabel=RATIOS.label, ylabel=chosen.y.label)
    axes.set(xlim=RATIOS.ends, ylim=chosen.y.ends)
    axes.grid(False)
    plots.plain_ticks(axes, (1, 2, 3, 4, 5, 6), chosen.y.ticks)
    axes.set_title(chosen.title, fontsize=10)
    return shown


def threshold(
    chosen: Map,
    across: Float[Array, " x"],
    up: Float[Array, " y"],
    rates: Float[Array, "y x"],
    dimension: float,
) -> Float[Array, " y"]:
    """n/N where the training error rate jumps, between two columns of the map; nan: nowhere."""
    beyond = rates > JUMPED
    first = np.argmax(beyond, axis=1)
    found = np.any(beyond, axis=1) & (first > 0)
    low, high = across[np.maximum(first - 1, 0)], across[first]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        outside = chosen.training_error_rate(middle, up, dimension) > JUMPED
        low, high = np.where(outside, low, middle), np.where(outside, middle, high)
    return np.where(found, (low + high) / 2, math.nan)


FIGURE = Separability(
    name="separability",
    title="Which samples a network can separate",
    source="firststep; thresholds without a step after Cover and after Candes and Sur",
    caption=(
        "Left of the white line the networks get all samples right. Without a step the theory of "
        "any loss gives the threshold that is known for Gaussian features (dashed, within the 3 % "
        "that the ridge costs); narrow networks know nothing of the labels and come near Cover's "
        "n = 2N (dotted). A step moves it to more samples. Circles are simulated networks in the "
        "colour of their own training error rate. Right: it jumps where the ridge is small; "
        "networks with the smallest ridge enter the verdict away from the threshold."
    ),
    panels=lambda _: PANELS,
    quick=Scale(dimension=200, replicates=6, points=4),
    full=Scale(dimension=400, replicates=8, points=8, full=True),
    size=(4.9, 4.2),
)
