"""The one door for a first layer that is given: what the verbs about it accept and refuse.

Features s(W^T x + b), labels y = s*(<x, theta>) + sum_j s_j(<x, theta_j>) + noise * eps, inputs
x ~ N(0, C). Directions of the teacher have norm 1; they need not be orthogonal to each other. Where
the problem has a spectrum of its inputs, C = Omega, and directions have theta^T Omega theta = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.checks import choice, real_array
from firststep.errors import InvalidParameter
from firststep.inputs import StructuredInputs, checked_covariance
from firststep.problem import Problem
from firststep.structure import eigenvalues_of
from firststep.teacher_terms import teacher_terms as terms_of

if TYPE_CHECKING:
    from firststep.activations import Activation
    from firststep.problem import Sizes
    from firststep.typing import Array, Float

# How far from 1 the norm of a direction may be: what single precision or printed digits leave.
UNIT = 1e-4
HOST = "detach it and move it to the host first?"  # of what is no array of NumPy


@dataclass(frozen=True, eq=False)
class GivenLayer:
    """The arguments of a verb about a given layer, checked; every neuron is a column."""

    problem: Problem
    weights: Float[Array, "d N"]
    teachers: Float[Array, "d J"]  # theta first
    terms: tuple[Activation, ...]  # of every direction, the problem's teacher first
    initial: Float[Array, "d N"] | None
    bias: Float[Array, " N"] | None
    covariance: Float[Array, "d d"] | None  # none: the identity
    sizes: Sizes

    @classmethod
    def checked(
        cls,
        *,
        weights: object,
        problem: object,
        teacher: object,
        teacher_terms: object = (),
        initial: object = None,
        bias: object = None,
        covariance: object = None,
        neurons: str = "columns",
    ) -> GivenLayer:
        """The layer, or an ``InvalidParameter`` that says which argument is wrong."""
        if not isinstance(problem, Problem):
            raise InvalidParameter(
                "problem", "a Problem", problem, "the order is weights, problem, teacher"
            )
        choice("neurons", neurons, ("columns", "rows"))
        terms = (problem.teacher, *_terms(problem, teacher_terms))
        columns = _columns("weights", weights, neurons)
        dimension, width = columns.shape
        teachers = _teachers(teacher, len(terms), columns, neurons)
        if dimension < 2:
            raise InvalidParameter("weights", "of at least 2 inputs", _shape(np.asarray(weights)))
        sizes = _sizes(problem, dimension, width)
        own = _own_covariance(problem, dimension)
        _refuse_lengths(teachers, own)
        start = None if initial is None else _columns("initial", initial, neurons)
        if start is not None and start.shape != columns.shape:
            allowed = f"of the shape of the weights, {np.asarray(weights).shape}"
            raise InvalidParameter("initial", allowed, f"{np.asarray(initial).shape}")
        shifts = None if bias is None else _array("bias", bias, 1)
        if shifts is not None and len(shifts) != width:
            raise InvalidParameter(
                "bias", f"{width} numbers, one for every neuron", f"{len(shifts)} numbers"
            )
        return cls(
            problem=problem,
            weights=columns,
            teachers=teachers,
            terms=terms,
            initial=start,
            bias=shifts,
            covariance=_covariance(covariance, own, problem, dimension),
            sizes=sizes,
        )


def _sizes(problem: Problem, dimension: int, width: int) -> Sizes:
    """The problem's whole numbers at the dimension of the weights, which must have its width."""
    if problem.dimension not in (math.inf, dimension):
        raise InvalidParameter(
            "dimension", f"{dimension}, as the weights have it, or inf", f"{problem.dimension:g}"
        )
    sizes = problem.sizes(dimension)
    if sizes.width != width:
        raise InvalidParameter(
            "beta",
            f"N/d = {width}/{dimension} for these weights",
            f"{problem.beta:g}",
            f"problem.replace(beta={width / dimension!r}) has it",
        )
    return sizes


def _teachers(
    source: Any, count: int, weights: Float[Array, "d N"], neurons: str
) -> Float[Array, "d J"]:
    """The directions of the teacher as columns, each of norm 1."""
    dimension, width = weights.shape
    given = real_array("teacher", source, "numbers", HOST)
    column = count == 1 and given.shape == (dimension, 1)
    found = _array("teacher", given, 2 if count > 1 or column else 1)
    found = found if found.ndim == 2 else found[:, None]
    if found.shape != (dimension, count):
        other, one = ("rows", "row") if neurons == "columns" else ("columns", "column")
        hint = f'one neuron a {one}? try neurons="{other}"' if len(found) == width else ""
        allowed = f"of {dimension} numbers, one an input" + (
            f", and {count} columns, one a term" if count > 1 else ""
        )
        raise InvalidParameter("teacher", allowed, f"an array of shape {given.shape}", hint)
    return found


def _refuse_lengths(teachers: Float[Array, "d J"], own: Float[Array, "d d"] | None) -> None:
    """Say so of a direction that is not of length 1, as the problem's inputs see it."""
    seen = teachers if own is None else np.sqrt(np.diag(own))[:, None] * teachers
    norms = np.linalg.norm(seen, axis=0)
    worst = float(norms[np.argmax(np.abs(norms - 1))])
    if abs(worst - 1) > UNIT:
        what = "norm" if own is None else "standard deviation"
        allowed = "a direction of norm 1"
        if own is not None:
            allowed = "a direction along which the problem's inputs have the variance 1"
        raise InvalidParameter(
            "teacher", allowed, f"one of {what} {worst:.6g}", f"divide it by its {what}"
        )


def _terms(problem: Problem, given: object) -> tuple[Activation, ...]:
    """Those that are given, or the problem's own."""
    terms, own = terms_of(given), problem.teacher_terms
    if terms and own and terms != own:
        allowed = f"left out where the problem has teacher-terms {','.join(map(str, own))}"
        raise InvalidParameter("teacher-terms", allowed, ",".join(map(str, terms)))
    return terms or own


def _own_covariance(problem: Problem, dimension: int) -> Float[Array, "d d"] | None:
    """Omega of the problem's inputs; none where they have no spectrum."""
    law = problem.inputs
    if not isinstance(law, StructuredInputs):
        return None
    return np.diag(eigenvalues_of(law, dimension))


def _covariance(
    given: object, own: Float[Array, "d d"] | None, problem: Problem, dimension: int
) -> Float[Array, "d d"] | None:
    """The one that is given, or the problem's own."""
    if given is None:
        return own
    found = checked_covariance(given, dimension)
    if own is not None and not np.allclose(found, own, rtol=UNIT, atol=UNIT):
        allowed = f"left out where the problem has inputs {problem.inputs}"
        raise InvalidParameter("covariance", allowed, "another matrix")
    return found if own is None else own


def _columns(parameter: str, source: object, neurons: str) -> Float[Array, "d N"]:
    found = _array(parameter, source, 2)
    return found.T if neurons == "rows" else found


def _array(parameter: str, source: object, axes: int) -> Float[Array, ...]:
    words = {1: "a vector", 2: "a matrix"}[axes]
    array = real_array(parameter, source, f"{words} of numbers", HOST)
    if array.ndim != axes or array.size == 0:
        raise InvalidParameter(parameter, f"{words} of numbers", _shape(array))
    if not np.all(np.isfinite(array)):
        count = int(np.sum(~np.isfinite(array)))
        raise InvalidParameter(
            parameter, f"{words} of finite numbers", f"an array with {count} that are not finite"
        )
    return array


def _shape(array: Float[Array, "..."]) -> str:
    return f"an array of shape {array.shape}"
