"""[Cui]: the network and the models said to be equivalent to it, on one picture.

network: the real gradient step. conditional: Gaussian features given the coordinate along the
spike, on the same trained weights. spiked: isotropic bulk plus spike. gaussian: noisy linear
features of the trained weights. Left: tanh learns sin with readout ones, alpha0 = 8, eta_tilde = 3,
where the step learns a non-linear function. Right: relu minus its mean learns tanh with readout
signs, alpha0 = 0.5, eta_tilde = 4, where the bulk is far from isotropic. beta = 1, lambda = 0.1 in
the paper's convention, rows on the sphere. The paper states the equivalences; the numbers are
chosen here. The exact theory is compared with the network and with the conditional model, which has
the network's own weights; the isotropic theory with the spiked model; no theory is shown for noisy
linear features.
"""

from __future__ import annotations

from collections.abc import Callable

from firststep.figures.core import Figure
from firststep.figures.cui_common import CENTERED_RELU, SAMPLES, cui, spiked
from firststep.figures.shape import Curve, Panel, Scale
from firststep.problem import Problem


def nonlinear(alpha: float) -> Problem:
    return cui("tanh", "sin", alpha=alpha, alpha0=8.0, eta_tilde=3.0)


def small_batch(alpha: float) -> Problem:
    return cui(CENTERED_RELU, "tanh", alpha=alpha, alpha0=0.5, eta_tilde=4.0, readout="signs")


def models(problem: Callable[[float], Problem]) -> list[Curve]:
    return [
        Curve("network (line: exact theory)", problem),
        Curve(
            "conditional Gaussian model",
            problem,
            model="conditional",
            bulk="exact",
            color="green",
            marker="^",
            style="None",
        ),
        spiked("spiked model (dashed: isotropic theory)", problem),
        Curve(
            "noisy linear features", problem, model="gaussian", bulk=None, color="red", marker="D"
        ),
    ]


PANELS = (
    Panel(
        models(nonlinear),
        SAMPLES,
        title=r"tanh learns sin: $\alpha_0 = 8$, $\tilde\eta = 3$",
        yticks=(0.04, 0.06, 0.1, 0.15, 0.2),
        bound=nonlinear(1.0),
    ),
    Panel(
        models(small_batch),
        SAMPLES,
        title=r"relu learns tanh: $\alpha_0 = 0.5$, $\tilde\eta = 4$",
        yticks=(0.2, 0.25, 0.3, 0.35, 0.4),
    ),
)
FIGURE = Figure(
    name="cui-equivalence",
    title="The network and its equivalent models",
    source="[Cui] equivalent models",
    caption=(
        "The conditional Gaussian model has the risk of the network everywhere. Noisy linear "
        "features of the same weights cannot go below the kernel lower bound, which the network "
        "does, and are no better a model where the step has few samples. The spiked model with its "
        "isotropic bulk is the network where the step has many samples, and is too optimistic "
        "where it has few."
    ),
    panels=lambda _: PANELS,
    quick=Scale(dimension=400, replicates=8, points=5),
    full=Scale(dimension=1000, replicates=20, points=6, full=True),
    size=(5.6, 4.2),
    legend_columns=3,
)
