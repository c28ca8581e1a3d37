"""What ``predict`` returns for arrays of JAX where labels are binary or the loss another one.

The numbers are those of the NumPy solver, with derivatives hung on them that ``loss_response``
computes at the solution. So values must be known: outside of jit and vmap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from firststep.errors import InvalidParameter
from firststep.problem import Problem
from firststep.theory.one_step.differentiable import known_values
from firststep.theory.one_step.loss_response import NUMBERS, slopes_of
from firststep.theory.one_step.prediction import Prediction
from firststep.theory.one_step.question import broadcast, given_fields

if TYPE_CHECKING:
    from firststep.typing import Array, Float


@dataclass(frozen=True, eq=False)
class DifferentiableLosses:
    """Numbers to differentiate, once; nan where there is no such number or no solution.

    ``prediction`` is the whole answer at these values, in NumPy.
    """

    prediction: Prediction
    risk: Float[Array, "*shape"]
    test_loss: Float[Array, "*shape"]
    training_loss: Float[Array, "*shape"]
    error_rate: Float[Array, "*shape"]
    training_error_rate: Float[Array, "*shape"]
    output_alignment: Float[Array, "*shape"]


def known_fields(fields: Mapping[str, Any]) -> dict[str, Float[Array, "*shape"] | float]:
    """The numbers behind the fields, or what speaks against that."""
    known: dict[str, Float[Array, "*shape"] | float] = {}
    for name, value in fields.items():
        found = known_values(value)
        if found is None or found.ndim > np.ndim(value):  # vmap adds an axis
            hint = "leave predict out of jit and vmap; arrays will do"
            allowed = "known where it is used, with binary labels or another loss"
            raise InvalidParameter(name, allowed, "a traced value", hint)
        known[name] = found if found.ndim else float(found)
    return known


def differentiable(
    problem: Problem, found: Prediction, fields: Mapping[str, Any]
) -> DifferentiableLosses:
    """A prediction at known fields as numbers to differentiate by those that JAX traces."""
    given = given_fields(problem, fields)
    traced = [name for name, value in given.items() if isinstance(value, jax.core.Tracer)]
    values, shape = broadcast(problem, known_fields(given))
    with jax.enable_x64(True):
        slopes = slopes_of(problem, found.bulk, values, found.points, traced)
        slopes = slopes.reshape(len(NUMBERS), len(traced), *shape)
        at = [jnp.asarray(given[name], float) for name in traced]
        shown = {
            name: _hung(np.asarray(getattr(found, name)), slopes[i], at)
            for i, name in enumerate(NUMBERS)
        }
        if not problem.labels.is_binary:  # no such number, and nothing for a chain rule to meet
            for name in ("error_rate", "training_error_rate"):
                shown[name] = jnp.full(shape, jnp.nan)
    return DifferentiableLosses(prediction=found, **shown)


def _hung(
    value: Float[Array, "*shape"],
    slopes: Float[Array, "traced *shape"],
    at: list[Float[Array, "*some"]],
) -> Float[Array, "*shape"]:
    """A known value, with known derivatives by ``at``."""

    def change(
        at: tuple[Float[Array, "*some"], ...], moves: tuple[Float[Array, "*some"], ...]
    ) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        each = (_once(slope, *at) * move for slope, move in zip(slopes, moves, strict=True))
        return jnp.asarray(value), sum(each, jnp.zeros_like(value))

    number = jax.custom_jvp(lambda *at: jnp.asarray(value))
    number.defjvp(change)
    return number(*at)


def _refuse_second(at: tuple[Any, ...], moves: tuple[Any, ...]) -> tuple[Any, Any]:
    hint = "differences of first derivatives will do"
    allowed = "a first one, with binary labels or another loss"
    raise InvalidParameter("derivative", allowed, "a second one", hint)


_once = jax.custom_jvp(lambda slope, *at: jnp.asarray(slope))  # a number without derivative
_once.defjvp(_refuse_second)
