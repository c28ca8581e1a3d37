"""What is asked: a problem, or arrays of its numbers, as the equations need them.

``Model`` is what a batch of problems has in common, ``Numbers`` what differs between them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from firststep.activations import Activation
from firststep.checks import MAX_SIZE, Bounds, number, real_array
from firststep.errors import InvalidParameter, nearest
from firststep.label_faults import plain_value
from firststep.losses import Loss
from firststep.noise_laws import NoiseLaw
from firststep.numerics.library import library_of
from firststep.problem import ARRAYS, Problem
from firststep.structure import structure_of
from firststep.theory.binary import BinaryLabels, step_curvature
from firststep.theory.medium import ISOTROPIC, Medium
from firststep.theory.norms import row_spread
from firststep.theory.one_step.orders import Orders, orders_of
from firststep.theory.step import OwnOutput, Residual, residual_of
from firststep.theory.student import Parts, SlopeConstants, polynomial_parts, slope_constants
from firststep.theory.teacher import MOST, TermSum, teacher_of

if TYPE_CHECKING:
    from firststep.typing import Array, Bool, Float

BULKS = ("exact", "isotropic")
# The fields that may be arrays, with their bounds; the theory has no ridge 0.
NUMERIC: dict[str, Bounds] = {**ARRAYS, "ridge": ARRAYS["ridge"]._replace(strict=True)}
# Of a positive number: sixth powers of labels over third powers of alpha0 are still numbers.
SMALLEST, LARGEST = 1e-20, 1e20
TINY = 1e-6  # the shortest large step whose features can be told from rounding
_NO_SHIFT = 1e-10  # mean of labels, by their size, that is rounding
_NO_RESIDUAL = 1e-25  # mean square of labels that are the output up to rounding
_COVERED = (
    "the theory is for one step on fresh Gaussian data; simulate(...) runs what it does not cover"
)


class Numbers(NamedTuple):
    """The numeric fields of a batch of problems."""

    alpha: Float[Array, " batch"]
    beta: Float[Array, " batch"]
    alpha0: Float[Array, " batch"]
    ridge: Float[Array, " batch"]
    noise: Float[Array, " batch"]  # standard deviation
    step_noise: Float[Array, " batch"]  # of the step's labels: the own output is noise to them
    rate: Float[Array, " batch"]  # etat = eta/sqrt N: zero at d = infinity below exponent 1/2
    small_rate: Float[Array, " batch"]  # the step itself where etat is zero by that, else zero
    dimension: Float[Array, " batch"] | None  # d; None for infinity


class Model(NamedTuple):
    """What does not change in a batch."""

    student: Activation
    teacher: Activation | TermSum
    constants: SlopeConstants
    is_isotropic: bool  # the bulk is a multiple of the identity
    has_gaussian_rows: bool
    readout_mean: float
    readout_square: float
    readout_cube: float
    steps: bool  # whether the weights move at all
    has_common_mode: bool  # whether the shared fluctuation of |x|^2 counts
    has_own_output: bool  # whether the network's output before the step counts
    # Of the student, where the mean fits all that they span (Gaussian readout, d = infinity).
    free_parts: Parts | None
    orders: Orders | None  # of the mean features, at d = infinity below exponent 1/2
    labels: BinaryLabels | None  # None for real ones
    step_loss: Loss
    noise_law: NoiseLaw  # of real ones
    medium: Medium  # the covariance of the inputs
    draws_teacher: bool  # each network its own, of which the equations have the equal components
    is_typed: bool = False  # whether neurons are typed (``typed``)

    @property
    def row_spread(self) -> float:
        """(d/2) Var w^T Omega w of the rows before the step."""
        return row_spread(self.medium, not self.has_gaussian_rows)

    @property
    def highest_moment(self) -> int:
        """Of the labels of the step that the equations use.

        gamma and |v| have the second; the norms of neurons fluctuate by the fourth, and by the
        sixth where they share a part linear in X[yhat^3].
        """
        if not self.steps or self.is_isotropic:
            return 2
        return 6 if self.constants.cubic_fluctuation else 4

    @property
    def target(self) -> Activation | BinaryLabels | TermSum:
        """The mean of a label as a function of the teacher's coordinate, or its terms."""
        return self.labels or self.teacher

    @property
    def several(self) -> TermSum | None:
        """The terms of a teacher of several directions."""
        return self.teacher if isinstance(self.teacher, TermSum) else None

    @property
    def step_curvature(self) -> float:
        """l'' of the loss of the step, at what the network says before it."""
        return step_curvature(self.step_loss, self.offset)

    @property
    def offset(self) -> float:
        """E[at] c0, what the network says before the step."""
        return self.constants.c0 * self.readout_mean

    def residual(self, numbers: Numbers) -> Residual:
        """Moments of the labels of the step."""
        return self.residual_at(numbers.step_noise)

    def residual_at(self, step_noise: Float[Array, " batch"] | float) -> Residual:
        """The same at a standard deviation of their noise."""
        if self.labels is None:
            return residual_of(self.teacher, self.offset, step_noise)
        y, w = self.labels.step_rule(self.step_loss, self.offset, 0.0)
        second = w[0] @ y**2 + step_noise**2
        return Residual(along=w[1] @ y, first=w[0] @ y, second=second)

    def own_output(self, numbers: Numbers) -> OwnOutput | None:
        """The network's output before the step, where it counts."""
        if not self.has_own_output:
            return None
        return OwnOutput(
            width=numbers.beta * numbers.dimension,
            readout_square=self.readout_square,
            readout_cube=self.readout_cube,
            curvature=self.step_curvature,
        )


def refuse_unknown(fields: Mapping[str, object]) -> None:
    """Say so if a field cannot be given as an array."""
    for name in fields:
        if name in ("reuse", "steps", "batches"):
            raise InvalidParameter(name, "left out of predict", fields[name], _COVERED)
        if name in Problem.model_fields and name not in NUMERIC:
            allowed = "a field of the problem, which is one of all points"
            hint = f"try predict(problem.replace({name}=…))"
            raise InvalidParameter(name, allowed, fields[name], hint)
        if name not in NUMERIC:
            allowed = "one of " + ", ".join(NUMERIC)
            raise InvalidParameter(name, allowed, fields[name], nearest(name, NUMERIC))


def broadcast(
    problem: Problem, fields: Mapping[str, object]
) -> tuple[dict[str, Float[Array, " batch"]], tuple[int, ...]]:
    """Every numeric field as a flat array, and their common shape."""
    raw = {name: _numbers(name, given) for name, given in given_fields(problem, fields).items()}
    try:
        shape = np.broadcast_shapes(*(values.shape for values in raw.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in raw.items() if values.ndim)
        raise InvalidParameter("fields", "arrays that broadcast together", shapes) from None
    return {name: np.broadcast_to(values, shape).ravel() for name, values in raw.items()}, shape


def given_fields(problem: Problem, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Every numeric field as given; alpha0 follows alpha where the problem leaves it open."""
    values = {name: fields.get(name, getattr(problem, name)) for name in NUMERIC}
    follows = "alpha0" not in fields and "alpha0" not in problem.model_fields_set
    if follows and "alpha" in fields:
        values["alpha0"] = fields["alpha"]
    return values


def refuse_outside(name: str, values: Float[Array, "*shape"]) -> None:
    """Say so if a value is not finite or below what the field allows."""
    bounds = NUMERIC[name]
    inside = (values > bounds.low) if bounds.strict else (values >= bounds.low)
    worst = values[~(np.isfinite(values) & inside)]
    if not worst.size:
        _refuse_extreme(name, values)
        return
    is_zero_ridge = name == "ridge" and worst.flat[0] == 0
    hint = "the theory takes the limit ridge -> 0 at a ridge such as 1e-8" if is_zero_ridge else ""
    allowed = f"finite and {'>' if bounds.strict else '>='} {bounds.low:g}"
    raise InvalidParameter(name, allowed, float(worst.flat[0]), hint)


def _refuse_extreme(name: str, values: Float[Array, "*shape"]) -> None:
    """Say so if a power of a value that the equations need is no number any more."""
    if name == "ridge":  # has bounds of its own
        return
    extreme = values[(values > LARGEST) | ((values > 0) & (values < SMALLEST))]
    if extreme.size:
        allowed = f"0, or from {SMALLEST:g} to {LARGEST:g}, for the theory"
        raise InvalidParameter(name, allowed, float(extreme.flat[0]))


def _is_single(given: object) -> bool:
    try:
        return np.ndim(given) == 0  # type: ignore[arg-type]  # or whatever the user gave
    except ValueError:  # lists of several lengths
        return False


def _numbers(name: str, given: object) -> Float[Array, "*shape"]:
    bounds = NUMERIC[name]
    if _is_single(given):
        values = np.array(number(name, given, bounds.low, strict=bounds.strict and name != "ridge"))
    else:
        values = real_array(name, given, "numbers")
    refuse_outside(name, values)
    if values.size == 0:
        raise InvalidParameter(name, "at least one number", "none")
    return values


def check_sizes(problem: Problem, values: Mapping[str, Float[Array, " batch"]]) -> None:
    """Refuse sizes n, N, n0 that do not exist at a finite d, as a simulation does."""
    if problem.dimension == math.inf:
        return
    for name in ("alpha", "beta", "alpha0"):
        low = values[name][(values[name] > 0) & (values[name] * problem.dimension < 0.5)]
        high = values[name][values[name] * problem.dimension > MAX_SIZE]
        for worst in (*low[:1], *high[:1]):
            problem.replace(**{name: float(worst)}).sizes()  # says what is allowed


def check_regime(problem: Problem, values: Mapping[str, Float[Array, " batch"]]) -> None:
    """Refuse what has no limit."""
    step = values["step"]
    steps = bool(np.any((values["alpha0"] > 0) & (step > 0)))
    exponent, is_infinite = problem.step_exponent, problem.dimension == math.inf
    if steps and is_infinite and exponent > 0.5:
        hint = "features of longer steps have no limit; give a finite dimension"
        raise InvalidParameter("step-exponent", "from 0 to 0.5 at d = infinity", exponent, hint)
    if steps and is_infinite and exponent < 0.5:
        model_of(problem, "exact", True)  # says which exponents it has
    tiny = step[(step > 0) & (step < TINY)]
    if tiny.size and is_infinite and exponent == 0.5:
        hint = "any large step, however short, learns freely at d = infinity; "
        hint += "small steps have step-exponent 0, or a finite dimension"
        allowed = f"0, or at least {TINY:g} at d = infinity"
        raise InvalidParameter("step", allowed, float(tiny.flat[0]), hint)


def check_terms(problem: Problem) -> None:
    """Refuse several directions of the teacher where the average over networks does not know them.

    Known are ridge regression on real labels with Gaussian noise, and inputs N(0, I).
    """
    if not problem.teacher_terms:
        return
    given = ",".join(map(str, problem.teacher_terms))
    if len(problem.teacher_terms) >= MOST:
        allowed = f"at most {MOST - 1} further terms in the theory"
        raise InvalidParameter("teacher-terms", allowed, given, "simulate(...) runs more")
    hint = "simulate(...) and predict_features(...) know several terms there"
    for name in problem.beyond_plain():
        if name != "teacher_terms":
            value = plain_value(getattr(problem, name))
            allowed = f"empty with {name.replace('_', '-')} {value}, in the average over networks"
            raise InvalidParameter("teacher-terms", allowed, given, hint)


def check_loss(problem: Problem) -> None:
    """Refuse losses without such labels."""
    real = not problem.labels.is_binary
    for name, loss in (("loss", problem.loss), ("step-loss", problem.step_loss)):
        if loss.is_margin and real:
            allowed = "a loss of real labels, or labels sign or logit:SLOPE"
            raise InvalidParameter(name, allowed, str(loss))
    if problem.step_loss.name not in ("square", "logistic"):
        raise InvalidParameter("step-loss", "square or logistic", str(problem.step_loss))


def model_of(problem: Problem, bulk: str, steps: bool) -> Model:
    """What does not change in a batch. At d = infinity and exponents below 1/2 the bulk stays
    isotropic.

    The common mode of |x|^2 is a correction at finite d; at d = infinity it is left where it shares
    a direction of neuron space with a penalised function (``orders``). The network's own output
    counts at finite d; the spiked model takes no step and has none.
    """
    readout, constants = problem.readout, slope_constants(problem.student)
    infinite = problem.dimension == math.inf
    below = infinite and steps and problem.step_exponent < 0.5
    free = None
    if infinite and readout.is_gaussian and steps and not below:
        free = polynomial_parts(problem.student)
        if constants.c1 == 0:  # no spike: mean features do not depend on kappa
            free = Parts(() if constants.is_odd else (1.0,), ())
    model = Model(
        student=problem.student,
        teacher=teacher_of(problem),
        constants=constants,
        is_isotropic=bulk == "isotropic" or below,
        has_gaussian_rows=problem.init == "gaussian",
        readout_mean=readout.mean,
        readout_square=readout.second_moment,
        readout_cube=readout.third_moment,
        steps=steps,
        has_common_mode=not infinite,
        has_own_output=not infinite and steps and bulk == "exact",
        free_parts=free,
        orders=None,
        labels=BinaryLabels.of(problem) if problem.labels.is_binary else None,
        step_loss=problem.step_loss,
        noise_law=problem.noise_law,
        medium=medium_of(problem),
        draws_teacher=problem.teacher_overlaps.is_random,
    )
    return _ordered(model, problem) if below else model


def _ordered(model: Model, problem: Problem) -> Model:
    """With the orders of its mean features."""
    labels = model.residual_at(0.0)
    size = math.sqrt(max(float(labels.second), 0.0))
    orders = orders_of(
        problem.student,
        problem.readout,
        problem.step_exponent,
        is_shifted=abs(float(labels.first)) > _NO_SHIFT * size,
        has_constant=problem.intercept,
    )
    moments = problem.student.moments
    bends = abs(moments.quadratic) > 1e-10 * math.sqrt(moments.second_moment)
    shared = orders.penalised is not None and orders.penalised.shared != 0
    return model._replace(orders=orders, has_common_mode=bends and shared)


def medium_of(problem: Problem) -> Medium:
    """The covariance of the inputs of a problem."""
    structure = structure_of(problem)
    return ISOTROPIC if structure is None else Medium.of(structure)


class Regime(Protocol):
    """How the step scales: a problem has it."""

    @property
    def dimension(self) -> float: ...
    @property
    def step_exponent(self) -> float: ...


def numbers_of(
    regime: Regime, values: Mapping[str, Float[Array, " batch"]], model: Model
) -> Numbers:
    """etat = step N^(exponent - 1/2), N = beta d. At d = infinity and exponents below 1/2 it is
    zero, and the step itself is ``small_rate``.

    The labels of the step are y - f, and beyond its mean the output f is noise to them. Of binary
    labels the noise is what no function of the teacher's coordinate explains, and in the step the
    labels themselves have it.
    """
    dimension, exponent = regime.dimension, regime.step_exponent
    alpha, beta, alpha0, step, ridge, noise = (values[name] for name in NUMERIC)
    nothing = 0 * step
    noise = noise * model.noise_law.deviation
    size, rate, small_rate, step_noise = None, nothing, nothing, noise
    if model.labels is not None:
        step_noise, noise = nothing, nothing + math.sqrt(model.labels.total_variance)
    if dimension != math.inf:
        size, rate = dimension + nothing, step * (beta * dimension) ** (exponent - 0.5)
        if model.has_own_output:
            own = own_variance(model, beta * dimension) * model.step_curvature**2
            step_noise = library_of(own).xp.sqrt(step_noise**2 + own)
    elif exponent == 0.5:
        rate = step
    else:
        small_rate = step
    if not model.steps:
        rate, small_rate, alpha0 = nothing, nothing, nothing + 1.0
    return Numbers(
        alpha=alpha,
        beta=beta,
        alpha0=alpha0,
        ridge=ridge,
        noise=noise,
        step_noise=step_noise,
        rate=rate,
        small_rate=small_rate,
        dimension=size,
    )


def own_variance(model: Model, width: Float[Array, " batch"]) -> Float[Array, " batch"]:
    """tau_f^2 = (E[at^2] E[s^2] - E[at]^2 c0^2)/N, the variance of the network before its step."""
    square = model.readout_square * model.student.moments.second_moment
    return max(square - model.offset**2, 0.0) / width


def across(numbers: Numbers) -> Numbers:
    """The same sizes n, N, n0 over the d - 1 dimensions of the bulk.

    kappa is one of the d coordinates, and the mean features have all of it. At finite d the bulk is
    what is across it; with all d dimensions that direction would count twice.
    """
    d = numbers.dimension
    if d is None:
        return numbers
    left = library_of(numbers.alpha).xp.maximum(d - 1, d / 2)  # of d = 1 a half
    ratios = {name: getattr(numbers, name) * (d / left) for name in ("alpha", "beta", "alpha0")}
    return numbers._replace(dimension=left, **ratios)


def moves(problem: Problem, values: Mapping[str, Float[Array, " batch"]]) -> Bool[Array, " batch"]:
    """Whether the step has samples, a size, a readout to pull with, and labels that are not all
    equal to the output.
    """
    offset = problem.readout.mean * problem.student.moments.mean
    taken = (values["alpha0"] > 0) & (values["step"] > 0) & (problem.readout.second_moment > 0)
    if problem.labels.is_binary:
        return np.asarray(taken)
    noise = values["noise"] * problem.noise_law.deviation
    residual = residual_of(teacher_of(problem), offset, noise)
    return np.asarray(taken & (residual.second > _NO_RESIDUAL))
