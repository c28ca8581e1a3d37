"""What is simulated: the model, the training of the first layer, the sizes.

All of it is static, so that it can key compiled code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from firststep.activations import Activation
from firststep.checks import MAX_SIZE, choice, number, whole
from firststep.errors import InvalidParameter
from firststep.inputs import GAUSSIAN, InputLaw, StructuredInputs, TeacherOverlaps, input_law
from firststep.label_laws import LabelLaw
from firststep.losses import Loss
from firststep.noise_laws import NoiseLaw
from firststep.problem import Problem, Sizes
from firststep.readouts import ReadoutLaw
from firststep.records import Record
from firststep.simulation.kinds import MODELS, OPTIMIZERS, Model, Optimizer
from firststep.structure import LARGEST
from firststep.teacher_terms import teacher_terms as terms_of

PARAMETERIZATIONS = ("mean-field", "ntk")
BATCHES = ("fresh", "same")
DAMPING = 0.1
# Options of the training that a result always keeps where a step was taken.
TOLD_OF_STEPS = ("steps", "batches", "reuse", "optimizer")


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidParameter("reuse", "True or False", value)
    return value


class Training(Record):
    """How the first layer is trained.

    ``steps`` steps of the ``optimizer`` (see ``weights.optimizers``), on a fresh batch each or on
    the same one. ``reuse``: the readout is fitted on the step's own data. ``parameterization``:
    mean-field is f = (1/sqrt N) a.s(W^T x) of [Ba] (1.1) with W1 = W0 + eta sqrt N G0; ntk omits
    the 1/sqrt N, both in f and in front of G0, and its natural step exponent is 0.
    ``weight_decay``: every step multiplies W by 1 - step * weight_decay, beside what the optimizer
    adds. ``damping``: mu of the whitened steps, (C + mu (tr C/d) I)^-1.
    """

    steps: Annotated[int, BeforeValidator(lambda v: whole("steps", v, 1))] = Field(
        default=1, description="number of gradient steps"
    )
    batches: Annotated[str, BeforeValidator(lambda v: choice("batches", v, BATCHES))] = Field(
        default="fresh", description="fresh batch for every step, or the same one"
    )
    reuse: Annotated[bool, BeforeValidator(_truth)] = Field(
        default=False, description="fit the readout on the step's own data"
    )
    parameterization: Annotated[
        str, BeforeValidator(lambda v: choice("parameterization", v, PARAMETERIZATIONS))
    ] = Field(default="mean-field", description=" or ".join(PARAMETERIZATIONS))
    optimizer: Annotated[str, BeforeValidator(lambda v: OPTIMIZERS.checked(v).name)] = Field(
        default="gradient", description="what moves the weights, by its name"
    )
    weight_decay: Annotated[float, BeforeValidator(lambda v: number("weight-decay", v, 0))] = Field(
        default=0.0, description="every step multiplies the weights by 1 - step * this"
    )
    damping: Annotated[float, BeforeValidator(lambda v: number("damping", v, 0))] = Field(
        default=DAMPING, description="mu of whitened steps, (C + mu (tr C/d) I)^-1"
    )

    @model_validator(mode="after")
    def _one_batch_to_reuse(self) -> Training:
        if self.reuse and self.steps > 1 and self.batches == "fresh":
            raise InvalidParameter(
                "batches", "same when reuse is combined with several steps", "fresh"
            )
        return self

    @model_validator(mode="after")
    def _damping_of_what_is_whitened(self) -> Training:
        if self.damping != DAMPING and not OPTIMIZERS[self.optimizer].covariance:
            names = " or ".join(OPTIMIZERS.where("covariance"))
            raise InvalidParameter(
                "damping",
                f"left at {DAMPING:g} with optimizer {self.optimizer}",
                self.damping,
                f"it is for {names}",
            )
        return self

    def told(self) -> dict[str, object]:
        """What a result keeps: fields that came later where they matter."""
        told = {name: getattr(self, name) for name in TOLD_OF_STEPS}
        if self.weight_decay:
            told["weight_decay"] = self.weight_decay
        if OPTIMIZERS[self.optimizer].covariance:
            told["damping"] = self.damping
        return told


def test_set_size(asked: object, sizes: Sizes) -> int:
    """Samples of a test set: as many as asked for, or max(2000, 4 d)."""
    if asked is None:
        return max(2000, 4 * sizes.dimension)
    return whole("test-samples", asked, 2, MAX_SIZE)


@dataclass(frozen=True)
class Targets:
    """What is fitted to what: the law of the labels, the losses of the fit and of the step."""

    labels: LabelLaw
    flip: float
    threshold: float
    noise_law: NoiseLaw
    loss: Loss
    step_loss: Loss
    intercept: bool
    is_plain: bool  # all of it at the defaults: ridge regression on real labels

    @classmethod
    def of(cls, problem: Problem) -> Targets:
        names = [each.name for each in fields(cls)]
        return cls(**{name: getattr(problem, name) for name in names})

    @property
    def is_ridge(self) -> bool:
        """Whether the fit has a closed form without a constant."""
        return self.loss.name == "square" and not self.intercept


@dataclass(frozen=True)
class Design:
    """Everything that fixes the shape of the computation; eta, noise and ridges are not in it."""

    model: type[Model]
    training: Training
    sizes: Sizes
    student: Activation
    teacher: Activation
    readout: ReadoutLaw
    init: str
    takes_step: bool
    test_samples: int
    block: int
    targets: Targets
    kernel: Activation | None = None  # g of the kernel baselines
    inputs: InputLaw = GAUSSIAN
    teacher_terms: tuple[Activation, ...] = ()  # further ones, each with a direction of its own
    fit: str = "square"  # how the readout is fitted: a name in ``fit.readout.FITS``
    # Where the teacher lies in the spectrum of the inputs; none: uniform on the unit sphere.
    overlaps: TeacherOverlaps | None = None

    @property
    def optimizer(self) -> type[Optimizer]:
        return OPTIMIZERS[self.training.optimizer]

    @property
    def step_rows(self) -> int:
        """Rows of data that the steps of one replicate see."""
        steps = self.training.steps if self.training.batches == "fresh" else 1
        return steps * self.sizes.step_samples if self.takes_step and self.model.trains else 0

    @property
    def is_primal(self) -> bool:
        """Solve in the space of features (n >= N) rather than of samples."""
        return self.sizes.samples >= self.sizes.width

    def memory(self, itemsize: int) -> int:
        """Bytes one replicate needs at its peak, rather a little too many than too few."""
        held = self.inputs.held  # an array of the law: as it is held and as it is used
        data = 0 if held is None else (8 + itemsize) * held.array.size
        return data + self.model.memory(self, itemsize)

    @property
    def largest_block(self) -> int:
        """Rows of data that are really handled at a time."""
        sizes = self.sizes
        return min(self.block, max(sizes.samples, sizes.step_samples, self.test_samples))


def chosen_data(
    problem: Problem, inputs: object = None, terms: object = None
) -> tuple[InputLaw, tuple[Activation, ...]]:
    """The law of the inputs and the further terms of the teacher: those given to a verb, or the
    problem's own.
    """
    law = problem.inputs if inputs is None else input_law(inputs)
    if law != problem.inputs and not problem.inputs.is_gaussian:
        allowed = f"left out where the problem has inputs {problem.inputs}"
        raise InvalidParameter("inputs", allowed, str(law))
    given = terms_of(terms)
    if given and problem.teacher_terms and given != problem.teacher_terms:
        own = ",".join(map(str, problem.teacher_terms))
        allowed = f"left out where the problem has teacher-terms {own}"
        raise InvalidParameter("teacher-terms", allowed, ",".join(map(str, given)))
    return law, given or problem.teacher_terms


def own_structure(problem: Problem, law: InputLaw) -> TeacherOverlaps | None:
    """Where the teacher lies in the spectrum, if the problem has one; a law with a spectrum that is
    given to a verb leaves the teacher as it is.
    """
    if law != problem.inputs or not isinstance(law, StructuredInputs):
        return None
    return problem.teacher_overlaps


def refuse_model(
    model: type[Model], law: InputLaw, overlaps: TeacherOverlaps | None, several: bool
) -> None:
    """Say so of a model that is not made for such data."""
    if several and not model.several_terms:
        hint = "its spike is that of a single-index teacher"
        raise InvalidParameter(
            "model", f"any but {model.name} with teacher-terms", model.name, hint
        )
    if overlaps is not None and not model.knows_spectra:
        hint = "its spike and its bulk are those of inputs N(0, I)"
        allowed = f"any but {model.name} with inputs {law}"
        raise InvalidParameter("model", allowed, model.name, hint)


def make_design(
    problem: Problem,
    model: str | type[Model],
    training: Training,
    sizes: Sizes,
    test_samples: int,
    block: int,
    kernel: Activation | None = None,
    inputs: InputLaw | None = None,
    teacher_terms: tuple[Activation, ...] = (),
) -> Design:
    """The design of a problem, refusing combinations that mean nothing. Call it with keywords."""
    law, terms = chosen_data(problem, inputs, teacher_terms)
    overlaps = own_structure(problem, law)
    kind = MODELS.checked(model) if isinstance(model, str) else model
    takes_step = problem.takes_step and kind.has_step
    _check_training(problem, kind, training, sizes, takes_step)
    refuse_model(kind, law, overlaps, several=bool(terms))
    if takes_step and OPTIMIZERS[training.optimizer].covariance == "law":
        _check_covariance(law, training)
    targets = Targets.of(problem)
    design = Design(
        model=kind,
        training=training,
        sizes=sizes,
        student=problem.student,
        teacher=problem.teacher,
        readout=problem.readout,
        init=problem.init,
        takes_step=takes_step,
        test_samples=test_samples,
        block=block,
        kernel=kernel,
        inputs=law,
        teacher_terms=terms,
        targets=targets,
        fit="square" if targets.is_ridge else "convex",
        overlaps=overlaps,
    )
    if kind.draws_teacher:
        check_directions(terms, sizes)
    check_rows(design, problem)
    return design


def _check_training(
    problem: Problem, model: type[Model], training: Training, sizes: Sizes, takes_step: bool
) -> None:
    if training != Training() and not model.trains:
        allowed = "one of " + ", ".join(MODELS.where("trains")) + " with these training options"
        *others, last = Training.model_fields
        hint = f"{', '.join(others)} and {last}"
        raise InvalidParameter(
            "model", allowed, model.name, f"{hint} change how a network is trained"
        )
    if takes_step and problem.step * training.weight_decay > 1:
        raise InvalidParameter(
            "weight-decay",
            f"at most 1/step = {1 / problem.step:.4g}",
            training.weight_decay,
            "every step multiplies the weights by 1 - step * weight-decay",
        )
    if training.reuse and (not takes_step or sizes.samples != sizes.step_samples):
        hint = f"reuse fits the readout on the {sizes.step_samples} samples of the step"
        raise InvalidParameter(
            "alpha0",
            "equal to alpha with reuse",
            f"{problem.alpha0:g}",
            f"{hint}; alpha is {problem.alpha:g}",
        )


def _check_covariance(law: InputLaw, training: Training) -> None:
    if not law.knows_covariance:
        others = [n for n, whose in OPTIMIZERS.where("covariance").items() if whose == "batch"]
        raise InvalidParameter(
            "inputs",
            f"a law that knows its covariance with optimizer {training.optimizer}",
            law,
            f"{' or '.join(others)} takes that of the step's own samples",
        )


def check_directions(terms: tuple[Activation, ...], sizes: Sizes) -> None:
    """Orthonormal directions need room."""
    if len(terms) >= sizes.dimension:
        allowed = f"fewer than the dimension, {sizes.dimension}"
        raise InvalidParameter("teacher-terms", allowed, f"{len(terms)} terms")


def check_rows(design: Design, problem: Problem) -> None:
    """The size of a law that comes with an array, and enough rows for disjoint data sets."""
    law, d = design.inputs, design.sizes.dimension
    law.refuse_dimension(d)
    if isinstance(law, StructuredInputs) and d > LARGEST:
        raise InvalidParameter("dimension", f"at most {LARGEST:.0e} with inputs {law}", d)
    rows, tests, step = law.available_rows, design.test_samples, design.step_rows
    fit = 0 if design.training.reuse else design.sizes.samples
    if rows is None or fit + tests + step <= rows:
        return
    # where alpha0 follows alpha, the batches grow with alpha too
    follows = fit > 0 and step > 0 and "alpha0" not in problem.model_fields_set
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
