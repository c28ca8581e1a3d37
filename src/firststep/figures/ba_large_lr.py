"""[Ba] Theorem 7 and Corollary 8: the large step beats the kernel lower bound where tau* is small.

Left and middle: erf learns erf and tanh learns tanh, risk against n/d after a step eta = 4 sqrt(N)
for three widths. Corollary 8 says O(d/n) for erf, where tau* = 0, and less than the kernel lower
bound for tanh, both for n/d large enough. Right: tau* of (5.1) over the kernel lower bound for
bounded students and teachers, less their mean. Theorem 7 with its factor 10 proves that the step
beats the bound for large n/d where this ratio is below 0.1. The corollary comes without numbers:
N/d = 1, 2, 4, ridge 0.1, no noise, the step and the pairs are chosen here, d = 512 as in the other
figures. Lines are the theory at the dimension of the simulation.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from firststep.figures.ba_common import SAMPLES, ba, guide, spaced
from firststep.figures.core import Bench, Figure
from firststep.figures.shape import Axis, Panel, Row, Scale, family, learns
from firststep.problem import Problem
from firststep.theory.closed_forms.bound import tau_star

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTHS = {"$N = d$": 1, "$N = 2d$": 2, "$N = 4d$": 4}
LOOKS = (("orange", "s"), ("blue", "o"), ("green", "^"))
RANGE = (1.0, 32.0)
AXIS = replace(SAMPLES, ends=RANGE, ticks=(1, 2, 4, 8, 16, 32), line=spaced(*RANGE, 17))
STUDENTS = {"erf": "erf", "tanh": "tanh", "arctan": "arctan", "sin": "sin"}
TEACHERS = {
    "erf": "erf",
    "tanh": "tanh",
    "sin": "sin",
    "$ze^{-z^2/2}$": "z*exp(-z**2/2)",
    "ReLU": "centered(relu)",
    "softplus": "centered(softplus)",
}
TABLE = r"$\tau^*$ / kernel lower bound (bold: below 0.1)"
PROVED = 0.1  # Theorem 7: 10 tau* below the bound


def problem(psi1: float, function: str, psi2: float = 1) -> Problem:
    step = {"eta": 4.0, "eta_exponent": 0.5}
    return ba(function, function, psi1=psi1, psi2=psi2, lambda_=0.1, sigma_epsilon=0.0, **step)


class Cell(NamedTuple):
    """A pair of student and teacher in the table."""

    student: str
    teacher: str
    tau: float
    bound: float

    @property
    def ratio(self) -> float:
        return self.tau / self.bound


def cells() -> list[Cell]:
    """Every pair, row by row."""
    return [
        Cell(
            student,
            teacher,
            tau_star(student, teacher).value,
            learns(student, teacher, alpha=1).kernel_lower_bound,
        )
        for student in STUDENTS.values()
        for teacher in TEACHERS.values()
    ]


def table(axes: Axes) -> None:
    """The ratios as a table on coloured cells."""
    shares = np.array([cell.ratio for cell in cells()]).reshape(len(STUDENTS), len(TEACHERS))
    axes.imshow(np.log10(np.maximum(shares, 1e-3)), cmap="cividis", vmin=-3, vmax=1, aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        text = "0" if share < 1e-12 else f"{share:.1g}" if share < 0.01 else f"{share:.2g}"
        look: dict[str, Any] = dict(
            color="white" if share < PROVED else "black",
            weight="bold" if share < PROVED else "normal",
        )
        axes.text(column, row, text, ha="center", va="center", fontsize=9.5, **look)
    axes.set_xticks(range(len(TEACHERS)), list(TEACHERS), fontsize=9)
    axes.set_yticks(range(len(STUDENTS)), list(STUDENTS), fontsize=9)
    axes.tick_params(length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)


def learning(function: str) -> Panel:
    return Panel(
        family(
            partial(problem, function=function),
            {label: {"psi2": width} for label, width in WIDTHS.items()},
            LOOKS,
        ),
        AXIS,
        title=f"{function} learns {function}",
        yticks=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2),
        ylim=(0.0014, 0.3),
        bound=problem(1, function),
        legend="lower left",
        # Corollary 8 gives the rate for erf only; its constant by eye
        decorate=guide(lambda x: 0.06 / x, (3, 34), r"rate $d/n$") if function == "erf" else None,
    )


PANELS = (
    learning("erf"),
    learning("tanh"),
    Panel(
        (),
        Axis("teacher", "teacher", scale="linear"),
        ylabel="student",
        title=TABLE,
        yscale="linear",
        decorate=table,
    ),
)


class WithTable(Figure):
    """The cells of the table are rows, too."""

    def compute(self, bench: Bench) -> list[Row]:
        more: list[Row] = [
            {
                "panel": TABLE,
                "curve": f"{cell.student} learns {cell.teacher}",
                "quantity": "tau_star",
                "theory": cell.tau,
                "judged": False,
                "score": math.nan,
                "student": cell.student,
                "teacher": cell.teacher,
                "kernel_lower_bound": cell.bound,
                "ratio": cell.ratio,
            }
            for cell in cells()
        ]
        return [*super().compute(bench), *more]


FIGURE = WithTable(
    name="ba-large-lr",
    title=(
        r"After one large step, $\eta = 4\sqrt{N}$: below the kernel lower bound "
        r"where $\tau^*$ is small"
    ),
    source="[Ba] Corollary 8",
    caption=(
        "For erf the risk falls like d/n, for tanh it falls below the kernel lower bound, both as "
        "Corollary 8 says. This depends on the pair: the table shows tau* relative to the bound; "
        "bold cells are below 0.1, where Theorem 7 proves a gain."
    ),
    panels=lambda _: PANELS,
    quick=Scale(dimension=256, replicates=6, points=5),
    full=Scale(dimension=512, replicates=20, points=6, full=True),
    size=(5.0, 4.4),
)
