"""``predict``: the one verb of the theory."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.checks import choice
from firststep.errors import InvalidParameter, NotConverged
from firststep.problem import Problem
from firststep.results import versions
from firststep.structure import structure_of
from firststep.theory.loss_numbers import has_other_loss
from firststep.theory.one_step.finite_size import NEARBY
from firststep.theory.one_step.functions import CONVERGED
from firststep.theory.one_step.prediction import NOT_RESOLVED, Prediction
from firststep.theory.one_step.question import (
    BULKS,
    NUMERIC,
    across,
    broadcast,
    check_loss,
    check_regime,
    check_sizes,
    check_terms,
    model_of,
    moves,
    numbers_of,
    refuse_unknown,
)
from firststep.theory.one_step.solve import RESOLVED_LOSS, Point, solve
from firststep.theory.one_step.solve_loss import LossSolver
from firststep.theory.one_step.step_noise import check_noise
from firststep.theory.one_step.typed import AUTO, NEURONS, PLAIN, typed_model
from firststep.theory.step import StepConstants, plain_gradient_square

if TYPE_CHECKING:
    from firststep.typing import Array, Float

    Values = Mapping[str, Float[Array, " batch"]]


def predict(
    problem: Problem, *, bulk: str = "exact", neurons: object = AUTO, **fields: object
) -> Any:
    """The theory of a problem, of arrays of its numbers, or of JAX arrays of them.

    What the public ``predict`` (firststep.predicting, which says it all) asks for; it adds the
    dimension and the check.
    """
    begin = time.perf_counter()
    problem = Problem.asked(problem)
    bulk, neurons = choice("bulk", bulk, BULKS), choice("neurons", neurons, NEURONS)
    refuse_unknown(fields)
    structure_of(problem)  # refuses inputs that are no N(0, Omega), before any work
    check_terms(problem)
    if any(is_traced(value) for value in fields.values()):
        return _to_differentiate(problem, bulk, fields)
    values, shape = broadcast(problem, fields)
    check_regime(problem, values)
    check_sizes(problem, values)
    check_loss(problem)
    if np.any(moves(problem, values)):
        check_noise(problem, bulk)
    points = _solve(problem, bulk, values, may_type=neurons != PLAIN)
    given = {name: values[name].reshape(shape) for name in fields} if shape != () else {}
    if isinstance(problem.ridge, tuple) and "ridge" not in fields:
        given["ridge"] = values["ridge"].reshape(shape)
    shown = problem
    if shape == () and fields:
        shown = problem.replace(**{name: float(values[name][0]) for name in fields})
    result = Prediction(
        problem=shown,
        bulk=bulk,
        fields=given,
        shape=shape,
        points=tuple(points),
        step_constants=step_constants(problem, bulk, values),
        baseline=partial(random_features, problem, values),
        nearby=partial(_nearby, problem, bulk, {name: values[name] for name in NUMERIC}),
        again=partial(predict, bulk=bulk, neurons=neurons),
        seconds=time.perf_counter() - begin,
        versions=versions(),
    )
    if shape == () and result.status != CONVERGED:
        raise NotConverged(_failure(result))
    return result


def _to_differentiate(problem: Problem, bulk: str, fields: Mapping[str, object]) -> Any:
    """Ridge regression on real labels is solved in JAX; of the rest only derivatives are."""
    if not problem.noise_law.is_gaussian:
        hint = "its derivatives are not known: try arrays of NumPy"
        law = str(problem.noise_law)
        raise InvalidParameter("noise-law", "gaussian in arrays of JAX", law, hint)
    if set(problem.beyond_plain()) <= {"inputs", "teacher_overlaps", "teacher_terms"}:
        from firststep.theory.one_step.differentiable import trace  # it loads JAX

        return trace(problem, bulk, fields)
    from firststep.theory.one_step.loss_gradient import differentiable, known_fields

    found = predict(problem, bulk=bulk, **known_fields(fields))
    return differentiable(problem, found, fields)


def is_traced(value: object) -> bool:
    """Whether a field is an array of JAX: the answer is then one that can be differentiated."""
    module = type(value).__module__ or ""
    return module.startswith(("jax", "jaxlib")) and hasattr(value, "aval")


def _solve(problem: Problem, bulk: str, values: Values, may_type: bool) -> list[Point]:
    """Problems with and without a step are different models, and so are laws of binary labels."""
    moving = moves(problem, values)
    points: dict[int, Point] = {}
    noises = np.unique(values["noise"]) if problem.labels.is_binary else [problem.noise]
    for steps, noise in itertools.product((False, True), noises):
        chosen = moving == steps
        if len(noises) > 1:
            chosen = chosen & (values["noise"] == noise)
        places = np.flatnonzero(chosen)
        if places.size:
            some = {name: each[places] for name, each in values.items()}
            question = problem.replace(noise=float(noise))
            found = _typed(question, bulk, some) if steps and may_type else None
            found = _points(question, bulk, some, steps) if found is None else found
            points.update(zip(places, found, strict=True))
    return [points[place] for place in range(moving.size)]


def _typed(problem: Problem, bulk: str, values: Values) -> list[Point] | None:
    """Points by the equations of typed neurons, and what these do not solve by the plain ones; None
    where neurons need not be typed.
    """
    plain = model_of(problem, bulk, True)
    model = typed_model(plain, problem)
    if model is plain:
        return None
    found = solve(model, problem.readout, across(numbers_of(problem, values, model)))
    points = [replace(point, is_typed=True) for point in found]
    lost = [place for place, point in enumerate(points) if not point.is_good]
    if lost:
        some = {name: each[lost] for name, each in values.items()}
        for place, point in zip(lost, _points(problem, bulk, some, True), strict=True):
            points[place] = point
    return points


def _points(problem: Problem, bulk: str, values: Values, steps: bool) -> list[Point]:
    model = model_of(problem, bulk, steps)
    numbers = across(numbers_of(problem, values, model))
    if has_other_loss(problem):
        return LossSolver(model, problem.readout, problem.loss, problem.intercept)(numbers)
    return solve(model, problem.readout, numbers)


def _nearby(problem: Problem, bulk: str, values: Values) -> Prediction | None:
    """The same problems at a size that can be simulated; None if it has no such sizes."""
    try:
        found: Prediction = predict(problem.replace(dimension=NEARBY), bulk=bulk, **values)
    except InvalidParameter:
        return None
    return found


def random_features(problem: Problem, values: Values) -> Float[Array, " batch"]:
    """R0 of every point; equal ones are solved once."""
    names = ("alpha", "beta", "ridge", "noise")
    still = np.stack([values[name] for name in names], axis=1)
    unique, places = np.unique(still, axis=0, return_inverse=True)
    one = np.ones(len(unique))
    some = dict(zip(names, unique.T, strict=True), alpha0=one, step=0 * one)
    points = _points(problem, "exact", some, False)
    risks = [point.risk if point.is_good else math.nan for point in points]
    return np.array(risks)[places.ravel()]


def step_constants(
    problem: Problem, bulk: str, values: Values
) -> dict[str, Float[Array, " batch"]]:
    """gamma, |v|, r and the mean of c over neurons; 0, nan, 0 and 1 without a step.

    Of a teacher of several directions gamma_b = c*_b/|v| of all of them, and of the first.
    Of the step itself: what the own output adds to the direction of the spike is not in them.
    """
    moving = moves(problem, values)
    model = model_of(problem, bulk, True)
    shares = np.ones(1) if model.several is None else model.several.shares
    numbers = numbers_of(problem, values, model)
    alpha0 = np.where(moving, values["alpha0"], 1.0)
    residual = model.residual(numbers)
    step = StepConstants.of(model.constants, residual, alpha0, numbers.rate, medium=model.medium)
    norm = np.sqrt(plain_gradient_square(residual, alpha0, model.medium))
    variance = step.variance(model.readout_mean, model.readout_square)
    alignments = np.where(moving, step.direction.alignment, 0.0)[:, None] * shares
    return {
        "alignment": alignments[:, 0],
        "alignments": alignments,
        "gradient_norm": np.where(moving, norm, np.nan),
        "spike_strength": np.where(moving, step.spike, 0.0),
        "bulk_variance": np.where(moving, variance, 1.0),
    }


def _failure(result: Prediction) -> str:
    point = result.points[0]
    if result.status == NOT_RESOLVED:
        if result.problem.labels.is_binary and point.rounding > RESOLVED_LOSS:
            small = "with a ridge so large the fit says so little that its error rate is rounding"
            return f"{small}, and no number is returned; try a smaller one: it hardly matters there"
        error = point.quadrature_error / max(abs(point.risk), 1e-300)
        known = f"the risk is known to a relative {error:.1e} only, and is not returned"
        hint = "try a smaller step or a smoother activation"
        return f"the integrals could not be resolved: {known}; {hint}"
    stayed = f"the residual stayed at {point.residual:.1e}, and no number is returned"
    if not math.isfinite(point.residual):
        stayed = "no number is returned"
    hint = "try a larger ridge or a smaller step"
    if not result.problem.loss.is_smooth:  # one whose margin no sample reaches goes round
        hint = "try another ridge, a finite dimension or a smooth loss"
    return f"the equations did not converge: {stayed}; {hint}"
