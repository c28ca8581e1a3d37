"""[Cui]: what the network has learned along the spike, m(kappa) = E[prediction | kappa].

kappa is the coordinate of the input along the step's spike. Above, tanh learns the odd, oscillating
sin(1.5 z); below, relu learns sin(z + 0.7), which is neither odd nor even; readouts all ones, signs
and Gaussian. beta = 1, alpha = 8, alpha0 = 16, eta_tilde = 3, lambda = 0.1 in the paper's
convention, rows on the sphere. The paper shows that the shapes mu0(kappa) of the neurons, one per
value of the readout, are what can be learned; the teachers and the numbers are chosen here.

Simulated predictions are averaged over test samples in bins of kappa, the theory over the same bins
with the weight of the normal distribution. Bins with fewer than 30 samples a replicate are left
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.interpolate import CubicSpline

from firststep import plots
from firststep.compare import at_size
from firststep.figures.core import Bench, Figure, legend_below
from firststep.figures.cui_common import cui
from firststep.figures.shape import LOOKS, Axis, Curve, Panel, Row, Scale, draw_points
from firststep.figures.verdict import row_of
from firststep.simulation.models.observables import KAPPA_CENTERS, KAPPA_EDGES
from firststep.theory.one_step.predict import predict
from firststep.theory.one_step.prediction import Prediction

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from firststep.typing import Array, Float

READOUTS = ("ones", "signs", "gaussian")
PAIRS = (("tanh", "sin(1.5*z)"), ("relu", "sin(z + 0.7)"))
FEWEST = 30  # test samples of a replicate in a bin that is shown: below, its mean is noise
KAPPA = Axis("kappa", r"coordinate along the spike $\kappa$", scale="linear")


def panel(student: str, teacher: str, readout: str, look: tuple[str, str]) -> Panel:
    problem = cui(student, teacher, alpha=8.0, alpha0=16.0, eta_tilde=3.0, readout=readout)
    curve = Curve(
        f"student {student}",
        lambda _: problem,
        (0.0,),  # one simulation makes the whole curve
        quantity="learned_function",
        color=look[0],
        marker=look[1],
    )
    return Panel(
        [curve],
        KAPPA,
        ylabel=r"$m(\kappa)$",
        title=f"{student} learns {teacher}, readout {readout}",
        yscale="linear",
        xlim=(-3, 3),
        ylim=(-1.45, 1.45),
    )


PANELS = tuple(
    panel(student, teacher, readout, look)
    for (student, teacher), look in zip(PAIRS, LOOKS, strict=False)
    for readout in READOUTS
)


def over_bins(prediction: Prediction) -> Float[Array, " bins"]:
    """The learned function of the theory, averaged over each bin with the normal weight."""
    learned = CubicSpline(prediction.kappa, prediction.learned_function)
    inside, weight = np.polynomial.legendre.leggauss(8)  # exact to degree 15: a bin is narrow
    half = np.diff(KAPPA_EDGES)[:, None] / 2
    kappa = KAPPA_CENTERS[:, None] + half * inside
    weight = weight * np.exp(-(kappa**2) / 2)
    return (weight * learned(kappa)).sum(axis=1) / weight.sum(axis=1)


class LearnedFunction(Figure):
    """A row is a bin of kappa."""

    def compute(self, bench: Bench) -> list[Row]:
        shown = []
        for panel in self.panels(bench.scale):
            (curve,) = panel.curves
            (point,) = self.points(panel, curve, bench.scale)
            shown.append((panel, curve, point.units))
        records = self.simulated([unit for *_, units in shown for unit in units], bench)
        rows = []
        for panel, curve, units in shown:
            arrays = [records[unit.wanted[0]].arrays for unit in units]
            learned = np.array([each["learned_function"] for each in arrays], float)
            counts = np.array([each["kappa_counts"] for each in arrays], float)
            theory = over_bins(predict(at_size(units[0].problem, None, "network")))
            rows += [
                row_of(
                    panel,
                    curve,
                    x,
                    problem=units[0].problem,
                    simulated=learned[:, i],
                    theory=float(theory[i]),
                    seed=self.seed,
                )
                for i, x in enumerate(KAPPA_CENTERS)
                if counts[:, i].min() >= FEWEST
            ]
        return rows

    def draw(self, rows: Sequence[Row], scale: Scale, drawing: Drawing) -> None:
        kappa = np.linspace(KAPPA_EDGES[0], KAPPA_EDGES[-1], 121)
        for panel, axes, mine in self.placed(rows, scale, drawing):
            (curve,) = panel.curves
            theory = predict(curve.problem(0.0).replace(dimension=scale.dimension))
            target, learned = (
                CubicSpline(theory.kappa, y)(kappa)
                for y in (theory.target_function, theory.learned_function)
            )
            words = r"teacher given $\kappa$, $E[y\,|\,\kappa]$"
            plots.curve(axes, kappa, target, "grey", label=words, style="--")
            plots.curve(axes, kappa, learned, curve.color)
            draw_points(axes, mine, curve.label, (curve.color, curve.marker))
            axes.set(xlim=panel.xlim, ylim=panel.ylim, xlabel=KAPPA.label, ylabel=panel.ylabel)
            axes.set_title(panel.title, fontsize=10)
        legend_below(drawing, scale, self.legend_columns)


FIGURE = LearnedFunction(
    name="cui-learned-function",
    title="What is learned of the teacher along the spike",
    source="[Cui] learned functions",
    caption=(
        "All ones: every neuron has the same shape along the spike, and the network learns a "
        "multiple of it. Signs: the shape and its mirror image, which are the same for the odd "
        "tanh and two for relu. Gaussian readouts: a continuum of widths, from which tanh bends "
        "back as the teacher does, and relu a kinked line."
    ),
    panels=lambda _: PANELS,
    quick=Scale(dimension=400, replicates=8, points=1, options={"test_samples": 8000}),
    full=Scale(dimension=1500, replicates=20, points=1, options={"test_samples": 20000}, full=True),
    size=(4.2, 3.1),
    legend_columns=5,
)
