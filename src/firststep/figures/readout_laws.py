"""The law of the readout: how many shapes the neurons offer along the spike.

A neuron of readout value a carries the spike a times over. Equal values (ones) give one shape to
learn the teacher with, two values two, a Gaussian law a continuum. Left: tanh learns sin against
the step. Middle: the same against the samples of the ridge fit at step 2. Right: relu learns tanh
against the step, where the sign of the readout decides. The discrete laws are signs (-1 and 1) and
the values 1 and 3 with equal weights; note that the latter has second moment 5, so the same step
moves its weights 2.2 times as far. beta = 1, alpha = 4, alpha0 = 8, ridge 0.03, rows on the sphere,
no noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from firststep.figures.core import Figure
from firststep.figures.shape import Axis, Panel, Scale, family, learns
from firststep.problem import Problem

LAWS = {"ones": "all ones", "signs": "signs", "gaussian": "Gaussian", "1:0.5,3:0.5": "1 or 3"}
DASHED = "readout signs"  # often on top of another


def axis(name: str, label: str, low: float, high: float, ticks: Sequence[float]) -> Axis:
    return Axis(name, label, (low, high), ticks, line=tuple(np.geomspace(low, high, 81)))


STEP = axis("step", r"step size $\tilde\eta$", 0.25, 8.0, (0.25, 0.5, 1, 2, 4, 8))
SAMPLES = axis("alpha", r"samples per dimension $\alpha$", 0.5, 16.0, (0.5, 1, 2, 4, 8, 16))


def problem(x: float, student: str, teacher: str, along: str, law: str = "ones") -> Problem:
    fields = dict(alpha=4, alpha0=8, step=2, ridge=0.03, readout=law, init="sphere")
    return learns(student, teacher, **{**fields, along: x})


def panel(along: Axis, student: str, teacher: str, **shown: Any) -> Panel:
    asked = partial(problem, student=student, teacher=teacher, along=along.name)
    curves = family(asked, {f"readout {words}": {"law": law} for law, words in LAWS.items()})
    return Panel(
        [replace(each, style="--") if each.label == DASHED else each for each in curves],
        along,
        bound=asked(1.0),
        **shown,
    )


TICKS = (0.03, 0.05, 0.1, 0.15)
PANELS = (
    panel(STEP, "tanh", "sin", title="tanh learns sin", yticks=TICKS),
    panel(SAMPLES, "tanh", "sin", title=r"tanh learns sin, $\tilde\eta = 2$", yticks=TICKS),
    panel(STEP, "relu", "tanh", title="relu learns tanh", yticks=(0.03, 0.05, 0.1, 0.2, 0.3)),
)
FIGURE = Figure(
    name="readout-laws",
    title="Readout laws: one shape, two, or many",
    source="firststep",
    caption=(
        "For the odd student ones and signs are the same thing; several sizes of readout (1 or 3, "
        "Gaussian) give shapes of several widths and a lower risk with less dependence on the "
        "step. For the one-sided relu only laws with both signs learn tanh; with the values 1 and "
        "3 the bump near step 2 is where both kinds of neuron have the same shape, and no more is "
        "learned than with ones."
    ),
    panels=lambda _: PANELS,
    quick=Scale(dimension=400, replicates=6, points=6),
    full=Scale(dimension=1000, replicates=20, points=6, full=True),
    size=(4.4, 3.9),
    legend_columns=5,
)
