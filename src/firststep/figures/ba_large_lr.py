"""[Ba] section 5, Theorem 7 and Corollary 8: the large step beats the kernel lower bound where tau* is small.

Left and middle: erf learns erf and tanh learns tanh, risk against n/d after a step eta = 4 sqrt(N) for three widths. Corollary
8 says O(d/n) for erf, where tau* = 0, and less than the kernel lower bound for tanh, both for n/d large enough. Right: tau* of
(5.1) over the kernel lower bound for bounded students and teachers, less their mean. Theorem 7 with its factor 10 proves that the
step beats the bound for large n/d where this ratio is below 0.1. The corollary comes without numbers: N/d = 1, 2, 4, ridge 0.1,
no noise, the step and the pairs are chosen here, d = 512 as in the other figures. Lines are the theory at the dimension of the
simulation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from firststep.figures.ba_common import guide, spaced
from firststep.figures.core import Curve, Figure, Panel, Row, Scale
from firststep.problem import Problem
from firststep.store import Store
from firststep.sweep.engine import Watcher
from firststep.sweep.executors import Executor
from firststep.theory.closed_forms.bound import tau_star

BASE = dict(eta=4.0, eta_exponent=0.5, lambda_=0.1)
WIDTHS = (
    (1, "$N = d$", "orange", "s"),
    (2, "$N = 2d$", "blue", "o"),
    (4, "$N = 4d$", "green", "^"),
)
RANGE = (1.0, 32.0)
RATES = {"erf": 0.06, "tanh": None}  # of the guide line, by eye
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


def problem(function: str, psi1: float, psi2: float) -> Problem:
    return Problem.from_ba(sigma=function, sigma_star=function, psi1=psi1, psi2=psi2, **BASE)


def ratios() -> list[tuple[str, str, float, float]]:
    """Student, teacher, tau* and the kernel lower bound."""
    found = []
    for student in STUDENTS.values():
        for teacher in TEACHERS.values():
            bound = Problem(student=student, teacher=teacher, alpha=1, beta=1).kernel_lower_bound
            found.append((student, teacher, tau_star(student, teacher).value, bound))
    return found


def table(axes: Any) -> None:
    """The ratios as a table on coloured cells."""
    shares = np.array([tau / bound for *_, tau, bound in ratios()]).reshape(
        len(STUDENTS), len(TEACHERS)
    )
    axes.imshow(np.log10(np.maximum(shares, 1e-3)), cmap="cividis", vmin=-3, vmax=1, aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        text = "0" if share < 1e-12 else f"{share:.1g}" if share < 0.01 else f"{share:.2g}"
        look = dict(
            color="white" if share < PROVED else "black",
            weight="bold" if share < PROVED else "normal",
        )
        axes.text(column, row, text, ha="center", va="center", fontsize=9.5, **look)
    axes.set_xticks(range(len(TEACHERS)), list(TEACHERS), fontsize=9)
    axes.set_yticks(range(len(STUDENTS)), list(STUDENTS), fontsize=9)
    axes.tick_params(length=0)
    axes.grid(False)
    axes.spines[:].set_visible(False)


def _learning(function: str, scale: Scale) -> Panel:
    at, line = spaced(*RANGE, scale.points), spaced(*RANGE, 17)
    curves = [
        Curve(
            label, lambda x, w=width: problem(function, x, w), at, line, color=color, marker=marker
        )  # type: ignore[misc]
        for width, label, color, marker in WIDTHS
    ]
    bound, rate = problem(function, 1, 1).kernel_lower_bound, RATES[function]
    return Panel(
        curves,
        "psi1",
        r"samples per dimension $\psi_1 = n/d$",
        title=f"{function} learns {function}",
        xticks=(1, 2, 4, 8, 16, 32),
        yticks=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2),
        ylim=(0.0014, 0.3),
        levels=[(bound, "kernel lower bound")],
        legend="lower left",
        decorate=guide(lambda x: rate / x, (3, 34), r"rate $d/n$") if rate else None,
    )


def panels(scale: Scale) -> Sequence[Panel]:
    cells = Panel(
        [], "teacher", "teacher", "student", TABLE, "linear", "linear", legend=None, decorate=table
    )
    return [_learning("erf", scale), _learning("tanh", scale), cells]


class WithTable(Figure):
    """The cells of the table are rows, too."""

    def compute(
        self,
        scale: Scale,
        store: Store,
        executor: Executor | None = None,
        watch: Watcher | None = None,
    ) -> list[Row]:
        cells: list[Row] = [
            {
                "panel": TABLE,
                "curve": f"{student} learns {teacher}",
                "quantity": "tau_star",
                "theory": tau,
                "judged": False,
                "score": math.nan,
                "student": student,
                "teacher": teacher,
                "kernel_lower_bound": bound,
                "ratio": tau / bound,
            }
            for student, teacher, tau, bound in ratios()
        ]
        return [*super().compute(scale, store, executor, watch), *cells]


FIGURE = WithTable(
    name="ba-large-lr",
    title=r"After one large step, $\eta = 4\sqrt{N}$: below the kernel lower bound where $\tau^*$ is small",
    source="[Ba] Corollary 8",
    caption=(
        "For erf the risk falls like d/n, for tanh it falls below the kernel lower bound, both as Corollary 8 says. This "
        "depends on the pair: the table shows tau* relative to the bound; bold cells are below 0.1, where Theorem 7 "
        "proves a gain."
    ),
    panels=panels,
    quick=Scale(dimension=256, replicates=6, points=5),
    full=Scale(dimension=512, replicates=20, points=6, full=True),
    size=(5.0, 4.4),
)
