"""Where the teacher lies in the spectrum of the inputs, and what one step makes of it.

Inputs N(0, Omega), eigenvalues proportional to j^-A; the squares of the teacher's components along
the eigenvectors go like j^B: B < 0 is ``decay``, B = 0 ``equal``, B > 0 ``rise``. tanh learns tanh,
alpha = alpha0 = 4, beta = 1, noise 0.1, readout ones, rows on the sphere. Left: alignment of the
step with the teacher. Middle: risk with a step and without. Right: the same for teachers along the
top or the bottom share of the eigenvectors, A = 0.3. Step and ridge are the best ones of every
problem, chosen by the theory at the dimension of the simulations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from firststep.figures.core import Figure
from firststep.figures.shape import Axis, Curve, Panel, Scale, learns, no_step
from firststep.figures.tuned import tuned
from firststep.problem import Problem

RIDGE = {"ridge": (0.005, 0.5)}
WEAK, STEEP = 0.3, 0.6
STEPS = {WEAK: (0.5, 5.0), STEEP: (0.1, 2.0)}  # where the best ones are
LOOKS = {WEAK: ("blue", "o"), STEEP: ("orange", "s")}
SIDES = {"top": ("green", "^"), "bottom": ("red", "D")}
EXPONENTS = (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
RISK_TICKS = (0.02, 0.05, 0.1, 0.2)
SHARES = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
TEACHER = Axis(
    "B",
    r"exponent $B$ of the teacher, $\theta_j^2\propto j^{B}$",
    ticks=(-2, -1, 0, 1, 2),
    scale="linear",
)
SHARE = Axis("share", "share of the eigenvectors", ticks=(0.05, 0.1, 0.2, 0.4, 1))


def overlaps(exponent: float) -> str:
    """The teacher whose squared components go like j^exponent."""
    if exponent == 0:
        return "equal"
    return f"rise:{exponent:g}" if exponent > 0 else f"decay:{-exponent:g}"


def of_share(share: float, side: str) -> str:
    return "equal" if share == 1 else f"{side}:{share:g}"


def problem(exponent: float, teacher: str, **changes: float) -> Problem:
    given = {"alpha": 4.0, "alpha0": 4.0, "noise": 0.1, "ridge": 0.1, **changes}
    law: dict[str, Any] = dict(inputs=f"power-law:{exponent:g}", teacher_overlaps=teacher)
    return learns("tanh", "tanh", readout="ones", init="sphere", **given, **law)


@cache
def best(exponent: float, teacher: str, dimension: int, steps: bool) -> Mapping[str, float]:
    """The best step and ridge, or the best ridge without a step."""
    asked = problem(exponent, teacher, dimension=dimension, alpha0=4.0 if steps else 0.0)
    ranges = {**RIDGE, "step": STEPS[exponent]} if steps else RIDGE
    values = tuned(asked, ranges, {"alpha": [4.0]})
    return {name: float(each[0]) for name, each in values.items()}


@dataclass(frozen=True)
class Along:
    """Problems along an axis; between the nodes the logarithms of what is best are interpolated."""

    exponent: float
    teacher: Callable[[float], str]
    nodes: tuple[float, ...]
    dimension: int
    steps: bool = True

    def __call__(self, x: float) -> Problem:
        found = [
            best(self.exponent, self.teacher(node), self.dimension, self.steps)
            for node in self.nodes
        ]
        near = {
            name: float(np.exp(np.interp(x, self.nodes, np.log([each[name] for each in found]))))
            for name in found[0]
        }
        chosen = found[self.nodes.index(x)] if x in self.nodes else near
        return problem(self.exponent, self.teacher(x), **chosen)


def panels(scale: Scale) -> Sequence[Panel]:
    return [_directions(scale), _risks(scale), _sides(scale)]


def _exponents(scale: Scale) -> tuple[float, ...]:
    return EXPONENTS if scale.full else EXPONENTS[::4]


def _lines(nodes: tuple[float, ...], scale: Scale, **shown: Any) -> dict[str, Any]:
    """Where a curve is simulated and drawn."""
    space = np.linspace if nodes[0] < 0 else np.geomspace
    between = space(nodes[0], nodes[-1], 25 if scale.full else len(nodes))
    return dict(at=nodes, line=sorted({*nodes, *map(float, between)}), **shown)


def _directions(scale: Scale) -> Panel:
    curves = [
        Curve(
            rf"one step, $A = {exponent:g}$",
            partial(step_of_one, exponent=exponent),
            quantity="alignment",
            **_lines(_exponents(scale), scale, color=color, marker=marker),
        )
        for exponent, (color, marker) in LOOKS.items()
    ]
    words = "alignment of the step"
    return Panel(
        curves, TEACHER, words, title="direction of the step", yscale="linear", ylim=(0, 1)
    )


def step_of_one(x: float, exponent: float) -> Problem:
    """The size of the step does not matter to its direction."""
    return problem(exponent, overlaps(x), step=1.0)


def _risks(scale: Scale) -> Panel:
    nodes = _exponents(scale)
    curves = []
    for exponent, (color, marker) in LOOKS.items():
        # On the steep spectrum the theory is several % off, and says so.
        lines = _lines(nodes, scale, judged=exponent < STEEP)
        asked = Along(exponent, overlaps, nodes, scale.dimension)
        label = rf"one step, $A = {exponent:g}$"
        curves.append(Curve(label, asked, color=color, marker=marker, **lines))
        still = no_step(f"no step, $A = {exponent:g}$", replace(asked, steps=False), **lines)
        shade = "grey" if exponent == WEAK else "pink"
        curves.append(replace(still, color=shade, style="--"))
    return Panel(curves, TEACHER, title="risk", yticks=(0.005, 0.01, *RISK_TICKS))


def _sides(scale: Scale) -> Panel:
    nodes = SHARES if scale.full else SHARES[1::4]
    curves = []
    for side, (color, marker) in SIDES.items():
        lines = _lines(nodes, scale, marker=marker)
        asked = Along(WEAK, partial(of_share, side=side), nodes, scale.dimension)
        curves.append(Curve(f"one step, {side}", asked, color=color, **lines))
        still = replace(asked, steps=False)
        curves.append(no_step(f"no step, {side}", still, style="--", **lines))
    title = rf"risk, $A = {WEAK:g}$: teacher on a share"
    return Panel(curves, SHARE, title=title, yticks=RISK_TICKS)


FIGURE = Figure(
    name="teacher-in-spectrum",
    title="Where the teacher lies in the spectrum: tanh learns tanh",
    source="firststep",
    caption=(
        "A teacher on strong directions is found best, and a step is worth most there: eight to "
        "ten times less risk at B = -2. Evenly spread (B = 0) it is found worst, the worse the "
        "steeper the spectrum: the step takes the strongest of its directions for all. On weak "
        "directions the noise of the strong ones is in the way, but a step is worth more again. On "
        "j^-0.6 the theory of the risk says that it is several per cent off (bands); its points "
        "are not judged."
    ),
    panels=panels,
    quick=Scale(dimension=150, replicates=10),
    full=Scale(dimension=500, replicates=10, full=True),
    size=(4.6, 4.0),
    legend_columns=4,
)
