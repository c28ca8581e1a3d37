"""[Cui]: what the network has learned of its teacher along the spike, m(kappa) = E[prediction | kappa].

kappa is the coordinate of the input along the step's spike. Above, tanh learns the odd, oscillating sin(1.5 z); below, relu learns
sin(z + 0.7), which is neither odd nor even; readouts all ones, signs and Gaussian. beta = 1, alpha = 8, alpha0 = 16, eta_tilde =
3, lambda = 0.1 in the paper's convention, rows on the sphere. The paper shows that the shapes mu0(kappa) of the neurons, one per
value of the readout, are what can be learned; the teachers and the numbers are chosen here.

Simulated predictions are averaged over test samples in bins of kappa, the theory over the same bins with the weight of the normal
distribution. Bins with fewer than 30 samples a replicate are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from firststep import plots
from firststep.compare import at_size
from firststep.figures.core import Curve, Panel, Row, Scale, row_of
from firststep.figures.cui_common import LOOKS, SharedLegend, legend_below
from firststep.problem import Problem
from firststep.results import Estimate
from firststep.simulation.models.observables import KAPPA_CENTERS, KAPPA_EDGES
from firststep.store import DONE, Store
from firststep.sweep.engine import Watcher, execute, results_of
from firststep.sweep.executors import Executor
from firststep.theory.one_step.predict import predict
from firststep.theory.one_step.prediction import Prediction

READOUTS = ("ones", "signs", "gaussian")
PAIRS = (("tanh", "sin(1.5*z)"), ("relu", "sin(z + 0.7)"))
FEWEST = 30  # test samples of a replicate in a bin that is shown


def problem(student: str, teacher: str, readout: str) -> Problem:
    return Problem.from_cui(
        sigma=student,
        sigma_star=teacher,
        alpha=8.0,
        alpha0=16.0,
        beta=1.0,
        eta_tilde=3.0,
        lambda_=0.1,
        readout=readout,
    )


def panels(scale: Scale) -> Sequence[Panel]:
    return [
        _panel(student, teacher, readout, color, marker)
        for (student, teacher), (color, marker) in zip(PAIRS, LOOKS, strict=False)
        for readout in READOUTS
    ]


def _panel(student: str, teacher: str, readout: str, color: str, marker: str) -> Panel:
    curve = Curve(
        f"student {student}",
        lambda _: problem(student, teacher, readout),
        (0.0,),
        quantity="learned_function",
        color=color,
        marker=marker,
    )
    return Panel(
        [curve],
        "kappa",
        r"coordinate along the spike $\kappa$",
        r"$m(\kappa)$",
        f"{student} learns {teacher}, readout {readout}",
        xscale="linear",
        yscale="linear",
        legend=None,
        xlim=(-3, 3),
        ylim=(-1.45, 1.45),
    )


def over_bins(prediction: Prediction) -> np.ndarray:
    """The learned function of the theory averaged over each bin, with the weight of the normal distribution."""
    learned = CubicSpline(prediction.kappa, prediction.learned_function)
    inside, weight = np.polynomial.legendre.leggauss(8)
    half = np.diff(KAPPA_EDGES)[:, None] / 2
    kappa = KAPPA_CENTERS[:, None] + half * inside
    weight = weight * np.exp(-(kappa**2) / 2)
    return np.asarray((weight * learned(kappa)).sum(axis=1) / weight.sum(axis=1))


class LearnedFunction(SharedLegend):
    """A row is a bin of kappa."""

    def compute(
        self,
        scale: Scale,
        store: Store,
        executor: Executor | None = None,
        watch: Watcher | None = None,
    ) -> list[Row]:
        pairs = [(panel, curve) for panel in self.panels(scale) for curve in panel.curves]
        units = {id(curve): self._units(curve, scale)[0][1] for _, curve in pairs}
        everything = [unit for some in units.values() for unit in some]
        execute(everything, store, executor, experiment=f"reproduce {self.name}", watch=watch)
        records = results_of(everything, store)
        rows = []
        for panel, curve in pairs:
            found = [records[unit.wanted[0]] for unit in units[id(curve)]]
            for record in found:
                if record.status != DONE:
                    raise RuntimeError(f"{curve.label}, {panel.title}: {record.reason}")
            learned = np.array([record.arrays["learned_function"] for record in found], float)
            counts = np.array([record.arrays["kappa_counts"] for record in found], float)
            asked = units[id(curve)][0].problem
            theory = over_bins(predict(at_size(asked, None, "network")))
            rows += [
                row_of(
                    panel.title,
                    curve,
                    panel.x,
                    x,
                    Estimate(learned[:, i]),
                    float(theory[i]),
                    "exact",
                    asked,
                    self.seed,
                )
                for i, x in enumerate(KAPPA_CENTERS)
                if counts[:, i].min() >= FEWEST
            ]
        return rows

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Any) -> None:
        found = self.panels(scale)
        kappa = np.linspace(KAPPA_EDGES[0], KAPPA_EDGES[-1], 121)
        for panel, axes in zip(found, plots.grid(drawing, len(found), self.columns), strict=True):
            (curve,) = panel.curves
            theory = predict(curve.problem(0.0).replace(dimension=scale.dimension))
            mine = [row for row in rows if row["panel"] == panel.title]
            x, mean, error = (
                [row[name] for row in mine] for name in ("x_value", "simulated", "standard_error")
            )
            target, learned = (
                CubicSpline(theory.kappa, y)(kappa)
                for y in (theory.target_function, theory.learned_function)
            )
            plots.curve(
                axes, kappa, target, "grey", r"teacher given $\kappa$, $E[y\,|\,\kappa]$", "--"
            )
            plots.curve(axes, kappa, learned, curve.color)
            plots.points(
                axes, x, mean, error, label=curve.label, color=curve.color, marker=curve.marker
            )
            axes.set(xlim=panel.xlim, ylim=panel.ylim, xlabel=panel.xlabel, ylabel=panel.ylabel)
            axes.set_title(panel.title, fontsize=10)
        legend_below(drawing, scale, self.legend_columns)


FIGURE = LearnedFunction(
    name="cui-learned-function",
    title="What is learned of the teacher along the spike",
    source="[Cui] learned functions",
    caption=(
        "All ones: every neuron has the same shape along the spike, and the network learns a multiple of it. Signs: the shape and "
        "its mirror image, which are the same for the odd tanh and two for relu. Gaussian readouts: a continuum of widths, from "
        "which tanh bends back as the teacher does, and relu a kinked line."
    ),
    panels=panels,
    quick=Scale(dimension=400, replicates=8, points=1, options={"test_samples": 8000}),
    full=Scale(dimension=1500, replicates=20, points=1, options={"test_samples": 20000}, full=True),
    size=(4.2, 3.1),
)
