"""The law of the readout: how many shapes the neurons offer along the spike.

A neuron of readout value a carries the spike a times over. Equal values (ones) give one shape to learn the teacher with, two
values two, a Gaussian law a continuum. Left: tanh learns sin against the step. Middle: the same against the samples of the ridge
fit at step 2. Right: relu learns tanh against the step, where the sign of the readout decides. The discrete laws are signs (-1 and
1) and the values 1 and 3 with equal weights; note that the latter has second moment 5, so the same step moves its weights 2.2
times as far. beta = 1, alpha = 4, alpha0 = 8, ridge 0.03, rows on the sphere, no noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from firststep.figures.core import Curve, Panel, Scale
from firststep.figures.cui_common import LOOKS, SharedLegend
from firststep.problem import Problem

LAWS = {"ones": "all ones", "signs": "signs", "gaussian": "Gaussian", "1:0.5,3:0.5": "1 or 3"}
STYLES = {"signs": "--"}  # often on top of another


def problem(student: str, teacher: str, law: str, **changes: float) -> Problem:
    base = Problem(
        student=student,
        teacher=teacher,
        alpha=4,
        beta=1,
        alpha0=8,
        step=2,
        ridge=0.03,
        readout=law,
        init="sphere",
    )
    return base.replace(**changes)


def curves(at: Any, of: Callable[[str, float], Problem]) -> list[Curve]:
    def curve(law: str, words: str, color: str, marker: str) -> Curve:
        line = np.geomspace(min(at), max(at), 81)
        return Curve(
            f"readout {words}",
            lambda x: of(law, x),
            at,
            line,
            color=color,
            marker=marker,
            style=STYLES.get(law, "-"),
        )

    return [
        curve(law, words, *look) for (law, words), look in zip(LAWS.items(), LOOKS, strict=False)
    ]


def panels(scale: Scale) -> Sequence[Panel]:
    steps = np.round(np.geomspace(0.25, 8.0, scale.points), 3)
    samples = np.round(np.geomspace(0.5, 16.0, scale.points), 3)
    bound = "kernel lower bound"
    sine = [(problem("tanh", "sin", "ones").kernel_lower_bound, bound)]
    tanh = [(problem("relu", "tanh", "ones").kernel_lower_bound, bound)]
    return [
        Panel(
            curves(steps, lambda law, x: problem("tanh", "sin", law, step=x)),
            "step",
            r"step size $\tilde\eta$",
            title="tanh learns sin",
            xticks=(0.25, 0.5, 1, 2, 4, 8),
            yticks=(0.03, 0.05, 0.1, 0.15),
            levels=sine,
            legend=None,
        ),
        Panel(
            curves(samples, lambda law, x: problem("tanh", "sin", law, alpha=x)),
            "alpha",
            r"samples per dimension $\alpha$",
            title=r"tanh learns sin, $\tilde\eta = 2$",
            xticks=(0.5, 1, 2, 4, 8, 16),
            yticks=(0.03, 0.05, 0.1, 0.15),
            levels=sine,
            legend=None,
        ),
        Panel(
            curves(steps, lambda law, x: problem("relu", "tanh", law, step=x)),
            "step",
            r"step size $\tilde\eta$",
            title="relu learns tanh",
            xticks=(0.25, 0.5, 1, 2, 4, 8),
            yticks=(0.03, 0.05, 0.1, 0.2, 0.3),
            levels=tanh,
            legend=None,
        ),
    ]


FIGURE = SharedLegend(
    name="readout-laws",
    title="Readout laws: one shape, two, or many",
    source="firststep",
    caption=(
        "For the odd student ones and signs are the same thing; several sizes of readout (1 or 3, Gaussian) give shapes of several "
        "widths and a lower risk with less dependence on the step. For the one-sided relu only laws with both signs learn tanh; "
        "with the values 1 and 3 the bump near step 2 is where both kinds of neuron have the same shape, and no more is learned "
        "than with ones."
    ),
    panels=panels,
    quick=Scale(dimension=400, replicates=6, points=6),
    full=Scale(dimension=1000, replicates=20, points=6, full=True),
    size=(4.4, 3.9),
)
