"""``predict``: the one verb of the theory."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firststep.errors import InvalidParameter, NotConverged, nearest
from firststep.problem import Problem, choice, number
from firststep.results import versions
from firststep.theory.one_step.moments import Model, Numbers
from firststep.theory.one_step.prediction import CONVERGED, NOT_RESOLVED, Prediction
from firststep.theory.one_step.solve import Point, solve
from firststep.theory.student import polynomial_degrees, residual_moments, slope_constants

Array = NDArray[np.float64]

BULKS = ("exact", "isotropic")
# The fields that may be arrays, with the smallest value allowed and whether it is excluded.
NUMERIC: dict[str, tuple[float, bool]] = {
    "alpha": (0.0, True),
    "beta": (0.0, True),
    "alpha0": (0.0, False),
    "step": (0.0, False),
    "ridge": (0.0, True),
    "noise": (0.0, False),
}
TINY = 1e-6  # the shortest large step whose features can be told from rounding
_COVERED = (
    "the theory is for one step on fresh Gaussian data; simulate(...) runs what it does not cover"
)


def predict(problem: Problem, *, bulk: str = "exact", **fields: Any) -> Any:
    """The exact asymptotic risk of a problem, and what explains it: a ``Prediction``.

    ``bulk="exact"`` is the true network. ``bulk="isotropic"`` replaces the covariance of the trained rows by a multiple of the
    identity: the spiked random features model of [Cui], which ``simulate(model="spiked")`` draws.

    Any of alpha, beta, alpha0, step, ridge and noise may be given as arrays, which are broadcast and solved together; several ridge
    values in the problem are an array too. With JAX arrays that are being differentiated or traced the answer is a
    ``Differentiable`` whose risk and training_error are JAX arrays.

    d = infinity: the large step (step_exponent 0.5), the small step (0) or none. Finite ``dimension``: any exponent, with the
    corrections of order 1/d from the mean of the features. A single problem that cannot be solved raises ``NotConverged``.
    """
    begin = time.perf_counter()
    bulk = choice("bulk", bulk, BULKS)
    refuse_unknown(fields)
    if any(_is_traced(value) for value in fields.values()):
        from firststep.theory.one_step.differentiable import trace

        return trace(problem, bulk, fields)
    values, shape = broadcast(problem, fields)
    check_regime(problem, values)
    points = _solve(problem, bulk, values)
    given = {name: values[name].reshape(shape) for name in fields} if shape != () or fields else {}
    if isinstance(problem.ridge, tuple) and "ridge" not in fields:
        given["ridge"] = values["ridge"].reshape(shape)
    shown = problem
    if shape == () and fields:
        shown, given = problem.replace(**{name: float(values[name][0]) for name in fields}), {}
    result = Prediction(
        shown,
        bulk,
        given,
        shape,
        tuple(points),
        step_constants(problem, values),
        lambda: random_features(problem, values),
        time.perf_counter() - begin,
        versions(),
    )
    if shape == () and result.status != CONVERGED:
        raise NotConverged(_failure(result))
    return result


def refuse_unknown(fields: Mapping[str, Any]) -> None:
    for name in fields:
        if name in ("reuse", "steps", "batches", "inputs"):
            raise InvalidParameter(name, "left out of predict", fields[name], _COVERED)
        if name not in NUMERIC:
            raise InvalidParameter(
                name, "one of " + ", ".join(NUMERIC), fields[name], nearest(name, NUMERIC)
            )


def _is_traced(value: Any) -> bool:
    module = type(value).__module__ or ""
    return module.startswith(("jax", "jaxlib")) and hasattr(value, "aval")


def broadcast(
    problem: Problem, fields: Mapping[str, Any]
) -> tuple[dict[str, Array], tuple[int, ...]]:
    """Every numeric field as a flat array, and their common shape. alpha0 follows alpha where the problem leaves it open."""
    raw = {name: _numbers(name, given) for name, given in given_fields(problem, fields).items()}
    try:
        shape = np.broadcast_shapes(*(values.shape for values in raw.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {values.shape}" for name, values in raw.items() if values.ndim)
        raise InvalidParameter("fields", "arrays that broadcast together", shapes) from None
    return {name: np.broadcast_to(values, shape).ravel() for name, values in raw.items()}, shape


def given_fields(problem: Problem, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Every numeric field as it was given; alpha0 follows alpha where the problem leaves it open."""
    values = {name: fields.get(name, getattr(problem, name)) for name in NUMERIC}
    if "alpha0" not in fields and "alpha0" not in problem.model_fields_set and "alpha" in fields:
        values["alpha0"] = fields["alpha"]
    return values


def refuse_outside(name: str, values: Array) -> None:
    """Say so if a value is not finite or below what the field allows."""
    low, strict = NUMERIC[name]
    worst = values[~(np.isfinite(values) & ((values > low) if strict else (values >= low)))]
    if worst.size:
        hint = (
            "the theory takes the limit ridge -> 0 at a ridge such as 1e-8"
            if name == "ridge" and worst.flat[0] == 0
            else ""
        )
        raise InvalidParameter(
            name, f"finite and {'>' if strict else '>='} {low:g}", float(worst.flat[0]), hint
        )


def _numbers(name: str, given: Any) -> Array:
    low, strict = NUMERIC[name]
    if np.ndim(given) == 0:
        checked = number(name, given, low, strict=strict and name != "ridge")
        values = np.array(checked)
    else:
        try:
            values = np.array(given, dtype=float)
        except (TypeError, ValueError):
            raise InvalidParameter(name, "numbers", given) from None
    refuse_outside(name, values)
    if values.size == 0:
        raise InvalidParameter(name, "at least one number", "none")
    return values


def check_regime(problem: Problem, values: Mapping[str, Array]) -> None:
    """Refuse what has no limit."""
    steps = bool(np.any((values["alpha0"] > 0) & (values["step"] > 0)))
    if steps and problem.dimension == math.inf and problem.step_exponent not in (0.0, 0.5):
        hint = "give a finite dimension; at d = infinity the theory has the small step (0) and the large step (0.5)"
        raise InvalidParameter(
            "step-exponent", "0 or 0.5 at d = infinity", problem.step_exponent, hint
        )
    tiny = values["step"][(values["step"] > 0) & (values["step"] < TINY)]
    if tiny.size and problem.dimension == math.inf and problem.step_exponent == 0.5:
        hint = "any large step, however short, learns freely at d = infinity; small steps have step-exponent 0, or a finite dimension"
        raise InvalidParameter(
            "step", f"0, or at least {TINY:g} at d = infinity", float(tiny.flat[0]), hint
        )


def model_of(problem: Problem, bulk: str, steps: bool) -> Model:
    """What does not change in a batch. In the small-step limit the bulk stays isotropic.

    The common mode of |x|^2 is a correction at finite d; at d = infinity it is left where the mean features are small, along the
    mean of the readout, unless the student has a mean itself and fits that direction freely. The network's own output counts at
    finite d; the spiked model takes no step and has none.
    """
    readout, constants = problem.readout, slope_constants(problem.student)
    infinite = problem.dimension == math.inf
    small_limit = infinite and problem.step_exponent == 0
    bends = abs(problem.student.moments.quadratic) > 1e-10 * math.sqrt(
        problem.student.moments.second_moment
    )
    common = (
        (small_limit and steps and bends and readout.mean != 0 and constants.mean == 0)
        if infinite
        else True
    )
    free = None
    if infinite and readout.is_gaussian and steps and not small_limit:
        free = polynomial_degrees(problem.student) if constants.slope != 0 else (0.0, -1.0)
    return Model(
        problem.student,
        problem.teacher,
        constants,
        bulk == "isotropic" or small_limit,
        problem.init == "gaussian",
        readout.mean,
        readout.second_moment,
        steps,
        common,
        not infinite and steps and bulk == "exact",
        free,
    )


def numbers_of(problem: Problem, values: Mapping[str, Any], steps: bool) -> Numbers:
    """etat = step N^(exponent - 1/2) with N = beta d; at d = infinity the small step has etat = 0 and its eta apart."""
    alpha, beta, alpha0, step, ridge, noise = (values[name] for name in NUMERIC)
    nothing = 0 * step
    if problem.dimension == math.inf:
        dimension = None
        rate = step if problem.step_exponent == 0.5 else nothing
        spike = step if problem.step_exponent == 0 else nothing
    else:
        dimension = problem.dimension + nothing
        rate, spike = step * (beta * problem.dimension) ** (problem.step_exponent - 0.5), nothing
    if not steps:
        rate, spike, alpha0 = nothing, nothing, nothing + 1.0
    return Numbers(alpha, beta, alpha0, ridge, noise, rate, spike, dimension)


def _solve(problem: Problem, bulk: str, values: Mapping[str, Array]) -> list[Point]:
    """Problems with and without a step are different models."""
    moving = moves(problem, values)
    points: list[Point | None] = [None] * moving.size
    for steps in (False, True):
        places = np.flatnonzero(moving == steps)
        if places.size:
            some = {name: each[places] for name, each in values.items()}
            found = solve(
                model_of(problem, bulk, steps), problem.readout, numbers_of(problem, some, steps)
            )
            for place, point in zip(places, found, strict=True):
                points[place] = point
    return [point for point in points if point is not None]


def moves(problem: Problem, values: Mapping[str, Array]) -> Array:
    """Whether the step changes anything: it needs samples, a size, and labels that are not all equal to the output."""
    _, residual = residual_moments(
        problem.teacher, problem.readout.mean * problem.student.moments.mean, values["noise"]
    )
    return np.asarray((values["alpha0"] > 0) & (values["step"] > 0) & (residual > 1e-25))


def random_features(problem: Problem, values: Mapping[str, Array]) -> Array:
    """R0 of every point; equal ones are solved once."""
    still = np.stack([values[name] for name in ("alpha", "beta", "ridge", "noise")], axis=1)
    unique, places = np.unique(still, axis=0, return_inverse=True)
    one = np.ones(len(unique))
    some = dict(
        zip(("alpha", "beta", "ridge", "noise"), unique.T, strict=True), alpha0=one, step=0 * one
    )
    points = solve(
        model_of(problem, "exact", False), problem.readout, numbers_of(problem, some, False)
    )
    risks = np.array(
        [point.risk if point.converged and point.resolved else math.nan for point in points]
    )
    return np.asarray(risks[places.ravel()])


def step_constants(problem: Problem, values: Mapping[str, Array]) -> dict[str, Array]:
    """|v|, r and the mean of c over neurons; nan, 0 and 1 without a step."""
    constants, readout = slope_constants(problem.student), problem.readout
    moving = moves(problem, values)
    numbers = numbers_of(problem, values, True)
    alpha0 = np.where(moving, values["alpha0"], 1.0)
    first, second = residual_moments(
        problem.teacher, readout.mean * constants.mean, values["noise"]
    )
    norm = np.sqrt(problem.teacher.moments.linear**2 + second / alpha0)
    square = constants.growth(first, second, alpha0)
    variance = (
        1
        + 2 * numbers.rate * readout.mean * constants.linear * first
        + numbers.rate**2 * readout.second_moment * square
    )
    return {
        "gradient_norm": np.where(moving, norm, np.nan),
        "spike_strength": np.where(moving, numbers.rate * constants.slope * norm, 0.0),
        "bulk_variance": np.where(moving, variance, 1.0),
    }


def _failure(result: Prediction) -> str:
    point = result.points[0]
    if result.status == NOT_RESOLVED:
        error = point.quadrature_error / max(abs(point.risk), 1e-300)
        return (
            f"the integrals could not be resolved: the risk is known to a relative {error:.1e} only, and is not returned; "
            "try a smaller step or a smoother activation"
        )
    return (
        f"the equations did not converge: the residual stayed at {point.residual:.1e}, and no number is returned; "
        "try a larger ridge or a smaller step"
    )
