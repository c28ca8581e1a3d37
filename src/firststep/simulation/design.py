"""What is simulated: the model, the training of the first layer, the sizes. All of it static, so that it can key compiled code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firststep.activations import Activation
from firststep.errors import InvalidParameter
from firststep.problem import Problem, Sizes, choice, whole
from firststep.readouts import ReadoutLaw

NETWORK_MODELS = ("network", "spiked", "conditional", "gaussian", "random-features")
BASELINES = ("random-features", "ntk", "inner-product-kernel", "distance-kernel", "linear")
MODELS = (*NETWORK_MODELS, *BASELINES[1:])
TRAINED = ("network", "conditional", "gaussian")  # models that really take the gradient step
PARAMETERIZATIONS = ("mean-field", "ntk")
BATCHES = ("fresh", "same")
DEFAULT_KERNELS = {"inner-product-kernel": "exp(z)", "distance-kernel": "exp(-0.5*z)"}

MODEL_MEANINGS = {
    "network": "the real network after its gradient step",
    "spiked": "spiked random features: isotropic bulk plus rank-one spike",
    "conditional": "conditional-Gaussian features of the trained network",
    "gaussian": "noisy linear (Gaussian equivalent) features of the trained network",
    "random-features": "the network at initialisation (conjugate kernel)",
    "ntk": "neural-tangent random features at initialisation",
    "inner-product-kernel": "kernel ridge, k(x, y) = g(<x, y>/d)",
    "distance-kernel": "kernel ridge, k(x, y) = g(|x - y|^2/d)",
    "linear": "ridge regression on the input, with intercept",
}


@dataclass(frozen=True)
class Training:
    """How the first layer is trained.

    ``steps`` gradient steps, on a fresh batch each or on the same one. ``reuse``: the readout is fitted on the step's own
    data. ``parameterization``: mean-field is f = (1/sqrt N) a.s(W^T x) of [Ba] (1.1) with W1 = W0 + eta sqrt N G0; ntk omits the
    1/sqrt N, both in f and in front of G0, and its natural step exponent is 0.
    """

    steps: int = 1
    batches: str = "fresh"
    reuse: bool = False
    parameterization: str = "mean-field"

    @classmethod
    def checked(cls, steps: Any, batches: Any, reuse: Any, parameterization: Any) -> Training:
        if not isinstance(reuse, bool):
            raise InvalidParameter("reuse", "True or False", reuse)
        made = cls(
            whole("steps", steps, 1),
            choice("batches", batches, BATCHES),
            reuse,
            choice("parameterization", parameterization, PARAMETERIZATIONS),
        )
        if made.reuse and made.steps > 1 and made.batches == "fresh":
            raise InvalidParameter("batches", "same when reuse is combined with several steps", "fresh")
        return made


@dataclass(frozen=True)
class Design:
    """Everything about a simulation that fixes the shape of the computation; the numbers eta, noise and ridge are not in it."""

    model: str
    training: Training
    sizes: Sizes
    student: Activation
    teacher: Activation
    readout: ReadoutLaw
    init: str
    takes_step: bool
    test_samples: int
    block: int
    kernel: Activation | None = None  # g of the kernel baselines

    @property
    def is_primal(self) -> bool:
        """Solve in the space of features (n >= N) rather than of samples."""
        return self.sizes.samples >= self.sizes.width

    def memory(self, itemsize: int) -> int:
        """Bytes one replicate needs at its peak beyond the interpreter, rather a little too many than too few."""
        d, n, width = self.sizes.dimension, self.sizes.samples, self.sizes.width
        block = min(self.block, max(n, self.sizes.step_samples, self.test_samples))
        working = 6 * block * max(width, d) + 2 * (n + self.sizes.step_samples)
        if self.model in ("inner-product-kernel", "distance-kernel"):
            return itemsize * (n * d + 3 * block * n) + 8 * 6 * n * n
        if self.model == "ntk":
            return itemsize * (n * d + n * width + d * width + 3 * block * n) + 8 * 4 * n * n
        if self.model == "linear":
            return itemsize * (3 * block * d + min(n, d) * d) + 8 * 2 * min(n, d) ** 2
        step = 3 * d * width if self.takes_step else d * width
        table = 2 * d * width + 1000 * width if self.model == "conditional" else 0
        small = min(n, width)
        fit = d * width + (0 if self.is_primal else n * width)
        return max(itemsize * (step + table + working), itemsize * (fit + working) + 8 * 4 * small * small)


def make_design(
    problem: Problem, model: str, training: Training, sizes: Sizes, test_samples: int, block: int, kernel: Activation | None
) -> Design:
    """The design of a problem, refusing combinations that mean nothing."""
    choice("model", model, MODELS)
    if training != Training() and model not in TRAINED:
        hint = "steps, batches, reuse and parameterization change how a network is trained"
        raise InvalidParameter("model", "one of " + ", ".join(TRAINED) + " with these training options", model, hint)
    takes_step = problem.takes_step and model in (*TRAINED, "spiked")
    if training.reuse and (not takes_step or sizes.samples != sizes.step_samples):
        hint = f"reuse fits the readout on the {sizes.step_samples} samples of the step; alpha is {problem.alpha:g}"
        raise InvalidParameter("alpha0", "equal to alpha with reuse", f"{problem.alpha0:g}", hint)
    return Design(
        model, training, sizes, problem.student, problem.teacher, problem.readout, problem.init, takes_step,
        test_samples, block, kernel,
    )  # fmt: skip
