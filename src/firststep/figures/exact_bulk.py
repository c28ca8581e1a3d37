"""Where spiked random features are not the network: the bulk that the step itself makes.

The gradient step leaves more than a spike: the rest of the weights is correlated through the step's
own data. [Cui]'s spiked model keeps only its size (isotropic bulk). With few step samples and a
large step it is 20 to 30 % too low. Parameters: alpha = 2 (left, middle), beta = 1, label noise
0.1, rows on the sphere; relu stands for relu minus its Gaussian mean. Left: relu learns tanh,
readout signs, alpha0 = 0.5, ridge 0.01. Middle: the same at step 4 against alpha0. Right: tanh
learns tanh, readout ones, alpha0 = 0.5, step 4, ridge 0.1, no noise, against alpha.
"""

from __future__ import annotations

from collections.abc import Callable

from firststep.figures.core import Figure
from firststep.figures.cui_common import CENTERED_RELU, spiked
from firststep.figures.shape import Axis, Curve, Panel, Scale, learns
from firststep.problem import Problem

SMALL = dict(alpha0=0.5, step=4, init="sphere")  # the batch of a large step
RELU = learns(CENTERED_RELU, "tanh", alpha=2, ridge=0.01, noise=0.1, readout="signs", **SMALL)
TANH = learns("tanh", "tanh", alpha=3, ridge=0.1, readout="ones", **SMALL)
TICKS = (0.25, 0.5, 1, 2, 4, 8)
STEP = Axis("step", r"step size $\tilde\eta$", (0.25, 8.0), TICKS)
BATCH = Axis("alpha0", r"step samples per dimension $\alpha_0$", (0.25, 8.0), TICKS)
SAMPLES = Axis("alpha", r"samples per dimension $\alpha$", (0.5, 8.0), TICKS[1:])


def models(problem: Callable[[float], Problem]) -> list[Curve]:
    return [
        Curve("network, exact theory", problem),
        spiked("spiked model, isotropic theory", problem),
    ]


PANELS = (
    Panel(
        models(lambda x: RELU.replace(step=x)),
        STEP,
        title=r"relu learns tanh, $\alpha_0 = 0.5$",
        yticks=(0.25, 0.3, 0.35, 0.4),
    ),
    Panel(
        models(lambda x: RELU.replace(alpha0=x)),
        BATCH,
        title=r"relu learns tanh, $\tilde\eta = 4$",
        yticks=(0.1, 0.2, 0.3, 0.4, 0.5),
    ),
    Panel(
        models(lambda x: TANH.replace(alpha=x)),
        SAMPLES,
        title=r"tanh learns tanh, $\alpha_0 = 0.5$, $\tilde\eta = 4$",
        yticks=(0.18, 0.2, 0.25, 0.3),
        ylim=(0.17, 0.34),
    ),
)
FIGURE = Figure(
    name="exact-bulk",
    title="The bulk matters: spiked random features are not always the network",
    source="firststep",
    caption=(
        "Networks (circles) follow the exact theory; the spiked model (squares) follows its own, "
        "isotropic theory. With a small batch and a large step they differ by more than a quarter: "
        "the step also orders the weights orthogonal to its spike along its own samples. With many "
        "step samples or short steps the two agree."
    ),
    panels=lambda _: PANELS,
    quick=Scale(dimension=400, replicates=8, points=6),
    full=Scale(dimension=1500, replicates=20, points=8, full=True),
    size=(4.4, 3.9),
    legend_columns=2,
)
