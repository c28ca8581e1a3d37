"""What is simulated: the model, the training of the first layer, the sizes. All of it static, so that it can key compiled code."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from firststep.activations import Activation
from firststep.errors import InvalidParameter
from firststep.inputs import GAUSSIAN, InputLaw
from firststep.problem import MAX_SIZE, Problem, Sizes, choice, whole
from firststep.readouts import ReadoutLaw

NETWORK_MODELS = ("network", "spiked", "conditional", "gaussian", "random-features")
BASELINES = ("random-features", "ntk", "inner-product-kernel", "distance-kernel", "linear")
MODELS = (*NETWORK_MODELS, *BASELINES[1:])
TRAINED = ("network", "conditional", "gaussian")  # models that really take the gradient step
PARAMETERIZATIONS = ("mean-field", "ntk")
BATCHES = ("fresh", "same")
OPTIMIZERS = ("gradient", "momentum", "adam")
FEATURES = "features"  # the model of simulate_features: weights that are given
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

    ``steps`` steps of the ``optimizer`` (see ``optimizers``), on a fresh batch each or on the same one. ``reuse``: the readout is
    fitted on the step's own data. ``parameterization``: mean-field is f = (1/sqrt N) a.s(W^T x) of [Ba] (1.1) with
    W1 = W0 + eta sqrt N G0; ntk omits the 1/sqrt N, both in f and in front of G0, and its natural step exponent is 0.
    """

    steps: int = 1
    batches: str = "fresh"
    reuse: bool = False
    parameterization: str = "mean-field"
    optimizer: str = "gradient"

    @classmethod
    def checked(
        cls,
        steps: Any,
        batches: Any,
        reuse: Any = False,
        parameterization: Any = "mean-field",
        optimizer: Any = "gradient",
    ) -> Training:
        if not isinstance(reuse, bool):
            raise InvalidParameter("reuse", "True or False", reuse)
        made = cls(
            whole("steps", steps, 1),
            choice("batches", batches, BATCHES),
            reuse,
            choice("parameterization", parameterization, PARAMETERIZATIONS),
            choice("optimizer", optimizer, OPTIMIZERS),
        )
        if made.reuse and made.steps > 1 and made.batches == "fresh":
            raise InvalidParameter(
                "batches", "same when reuse is combined with several steps", "fresh"
            )
        return made


def test_set_size(asked: Any, sizes: Sizes) -> int:
    """Samples of a test set: as many as asked for, or max(2000, 4 d)."""
    return (
        max(2000, 4 * sizes.dimension)
        if asked is None
        else whole("test-samples", asked, 2, MAX_SIZE)
    )


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
    inputs: InputLaw = GAUSSIAN
    teacher_terms: tuple[
        Activation, ...
    ] = ()  # further terms of the teacher, each with a direction of its own

    @property
    def step_rows(self) -> int:
        """Rows of data that the steps of one replicate see."""
        steps = self.training.steps if self.training.batches == "fresh" else 1
        return steps * self.sizes.step_samples if self.takes_step and self.model in TRAINED else 0

    @property
    def is_primal(self) -> bool:
        """Solve in the space of features (n >= N) rather than of samples."""
        return self.sizes.samples >= self.sizes.width

    def memory(self, itemsize: int) -> int:
        """Bytes one replicate needs at its peak beyond the interpreter, rather a little too many than too few."""
        d, n, width = self.sizes.dimension, self.sizes.samples, self.sizes.width
        return self._memory_of_inputs(itemsize) + self._memory_of_model(d, n, width, itemsize)

    def _memory_of_inputs(self, itemsize: int) -> int:
        """The array of the law, as it is held and as it is used."""
        return 0 if self.inputs.held is None else (8 + itemsize) * self.inputs.held.array.size

    def _memory_of_model(self, d: int, n: int, width: int, itemsize: int) -> int:
        block = min(self.block, max(n, self.sizes.step_samples, self.test_samples))
        working = (6 if self.inputs.is_gaussian else 8) * block * max(width, d) + 2 * (
            n + self.sizes.step_samples
        )
        if self.model in ("inner-product-kernel", "distance-kernel"):
            return itemsize * (n * d + 3 * block * n) + 8 * 6 * n * n
        if self.model == "ntk":
            return itemsize * (n * d + n * width + d * width + 3 * block * n) + 8 * 4 * n * n
        if self.model == "linear":
            return itemsize * (3 * block * d + min(n, d) * d) + 8 * 2 * min(n, d) ** 2
        state = {"gradient": 0, "momentum": 1, "adam": 4}[self.training.optimizer] + (
            self.training.steps > 1
        )
        step = (3 + state) * d * width if self.takes_step else d * width
        table = 2 * d * width + 1000 * width if self.model == "conditional" else 0
        small = min(n, width)
        fit = d * width + (0 if self.is_primal else n * width)
        return max(
            itemsize * (step + table + working), itemsize * (fit + working) + 8 * 4 * small * small
        )


def make_design(
    problem: Problem,
    model: str,
    training: Training,
    sizes: Sizes,
    test_samples: int,
    block: int,
    kernel: Activation | None,
    inputs: InputLaw = GAUSSIAN,
    teacher_terms: tuple[Activation, ...] = (),
) -> Design:
    """The design of a problem, refusing combinations that mean nothing."""
    choice("model", model, MODELS)
    if training != Training() and model not in TRAINED:
        hint = (
            "steps, batches, reuse, parameterization and optimizer change how a network is trained"
        )
        raise InvalidParameter(
            "model", "one of " + ", ".join(TRAINED) + " with these training options", model, hint
        )
    if teacher_terms and model == "spiked":
        raise InvalidParameter(
            "model",
            "any but spiked with teacher-terms",
            model,
            "its spike is that of a single-index teacher",
        )
    takes_step = problem.takes_step and model in (*TRAINED, "spiked")
    if training.reuse and (not takes_step or sizes.samples != sizes.step_samples):
        hint = f"reuse fits the readout on the {sizes.step_samples} samples of the step; alpha is {problem.alpha:g}"
        raise InvalidParameter("alpha0", "equal to alpha with reuse", f"{problem.alpha0:g}", hint)
    design = Design(
        model,
        training,
        sizes,
        problem.student,
        problem.teacher,
        problem.readout,
        problem.init,
        takes_step,
        test_samples,
        block,
        kernel,
        inputs,
        teacher_terms,
    )
    check_directions(design)
    check_rows(design, problem)
    return design


def features_design(
    problem: Problem,
    sizes: Sizes,
    test_samples: int,
    block: int,
    inputs: InputLaw,
    teacher_terms: tuple[Activation, ...],
) -> Design:
    """The design of a ridge fit on weights that are given."""
    design = Design(
        FEATURES,
        Training(),
        sizes,
        problem.student,
        problem.teacher,
        problem.readout,
        problem.init,
        False,
        test_samples,
        block,
        None,
        inputs,
        teacher_terms,
    )
    check_rows(design, problem)
    return design


def check_directions(design: Design) -> None:
    """Orthonormal directions need room."""
    if len(design.teacher_terms) >= design.sizes.dimension:
        allowed = f"fewer than the dimension, {design.sizes.dimension}"
        raise InvalidParameter("teacher-terms", allowed, f"{len(design.teacher_terms)} terms")


def check_rows(design: Design, problem: Problem) -> None:
    """The size of a law that comes with an array, and enough rows for disjoint data sets."""
    law, d = design.inputs, design.sizes.dimension
    if law.dimension is not None and law.dimension != d:
        raise InvalidParameter(
            "dimension", f"{law.dimension}, the number of columns of the inputs", d
        )
    if law.kind != "data" or law.held is None:
        return
    rows, tests, step = law.held.array.shape[0], design.test_samples, design.step_rows
    fit = 0 if design.training.reuse else design.sizes.samples
    if fit + tests + step <= rows:
        return
    follows = (
        fit > 0 and step > 0 and "alpha0" not in problem.model_fields_set
    )  # then the batches grow with alpha too
    per_alpha = d * (1 + step // design.sizes.step_samples if follows else 1)
    room = (rows - tests - (step if fit > 0 and not follows else 0)) / per_alpha
    parts = f"{fit} for the fit, {tests} for the test, {step} for the steps"
    fits = (
        f"alpha up to {math.floor(1000 * room) / 1000:g} would fit"
        if room * d >= 1
        else "test-samples and alpha0 leave none"
    )
    raise InvalidParameter(
        "inputs", f"an array of at least {fit + tests + step} rows ({parts})", f"{rows} rows", fits
    )
