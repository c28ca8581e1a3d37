"""What a prediction says of networks of finite size, at every point of it: by which equations, and
how far they may be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.problem import Problem
from firststep.results import per_cent
from firststep.theory.loss_numbers import has_other_loss
from firststep.theory.one_step.model_error import ModelError
from firststep.theory.one_step.question import model_of
from firststep.theory.one_step.solve import Point
from firststep.theory.one_step.typed import PLAIN, TYPED

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from firststep.typing import Array, Float

    Values = float | Float[Array, "*shape"]  # a float of a single point

NEARBY = 1000  # d of the networks that a number at d = infinity is compared with
NOT_THE_NETWORK = "the isotropic bulk is another model than the network"
NO_NETWORKS = f"there are no networks of d = {NEARBY}"


def sized_numbers(problem: Problem) -> dict[str, str]:
    """The finite-size errors of a prediction, with the numbers they are about."""
    main = {"model_error": "test_loss" if has_other_loss(problem) else "risk"}
    rate = {"error_rate_model_error": "error_rate"} if problem.labels.is_binary else {}
    return {**main, **rate}


class FiniteSize:
    """What a prediction says of its equations at finite d, and of its own finite-size error."""

    problem: Problem
    bulk: str
    shape: tuple[int, ...]
    points: tuple[Point, ...]
    nearby: Callable[[], Any]  # the same prediction at d = 1000, when asked

    @property
    def gradient_norm(self) -> Values:
        raise NotImplementedError

    def _shaped(self, values: ArrayLike) -> Values:
        raise NotImplementedError

    @property
    def is_typed(self) -> bool:
        """Whether the neurons of some point are typed."""
        return any(point.is_typed for point in self.points)

    @property
    def neurons(self) -> Any:
        """Which equations: "plain", or "typed" where a spectrum is steep (docs/theory.md, section
        11). A word, or an array of words.
        """
        words = [TYPED if point.is_typed else PLAIN for point in self.points]
        return words[0] if self.shape == () else np.array(words).reshape(self.shape)

    @property
    def model_error_of(self) -> str:
        """What ``model_error`` is about: risk, or test_loss with another loss or a constant."""
        return self.sized["model_error"]

    @property
    def sized(self) -> dict[str, str]:
        """The finite-size errors there are, with the numbers they are about."""
        return sized_numbers(self.problem)

    @cached_property
    def _own_errors(self) -> tuple[ModelError, ...]:
        return self._model_errors(self.model_error_of)

    @cached_property
    def _rate_errors(self) -> tuple[ModelError, ...]:
        if not self.problem.labels.is_binary:
            return tuple(ModelError(math.nan, "") for _ in self.points)
        return self._model_errors("error_rate")

    def _model_errors(self, of: str) -> tuple[ModelError, ...]:
        """Of every point; nan where there is none."""
        if self.problem.dimension != math.inf:
            nothing = ModelError(math.nan, NOT_THE_NETWORK if self.bulk != "exact" else "")
            found = ((p.model_error(of) if p.is_good else None) for p in self.points)
            return tuple(each or nothing for each in found)
        other = self.nearby()
        if other is None:
            return tuple(ModelError(math.nan, NO_NETWORKS) for _ in self.points)
        beyond = (
            each.relative if self.bulk == "exact" else 0.0 for each in other._model_errors(of)
        )
        here, there = (np.ravel(getattr(each, of)) for each in (self, other))
        told = _approach(self.problem)
        return tuple(
            _from_the_limit(limit, finite, more, "" if math.isnan(length) else told)
            for limit, finite, more, length in zip(
                here, there, beyond, np.ravel(self.gradient_norm), strict=True
            )
        )

    def _absolute(self, errors: Sequence[ModelError], of: str) -> Values:
        relative = np.array([each.relative for each in errors])
        return self._shaped(relative * np.abs(np.ravel(getattr(self, of))))

    @property
    def model_error(self) -> Values:
        """Estimate of how far the risk of networks is from this one; with another loss or a free
        constant, the test loss.

        At finite d: of networks of that size (nine in ten are nearer). At d = infinity: of networks
        of d = 1000. nan for the isotropic bulk at finite d, which is another model.
        """
        return self._absolute(self._own_errors, self.model_error_of)

    @property
    def error_rate_model_error(self) -> Values:
        """The same for the 0-1 error of binary labels; nan for real ones."""
        return self._absolute(self._rate_errors, "error_rate")

    @cached_property
    def _told(self) -> tuple[tuple[str, ModelError], ...]:
        """By point what is said of: the first error, or that of the error rate if it is flagged
        alone.
        """
        main = ((self.model_error_of, error) for error in self._own_errors)
        rate = (("error_rate", error) for error in self._rate_errors)
        if not self.problem.labels.is_binary:
            return tuple(main)
        pairs = zip(main, rate, strict=True)
        return tuple(b if b[1].is_flagged and not a[1].is_flagged else a for a, b in pairs)

    @property
    def model_error_reason(self) -> Any:
        """The largest part of it, in words; an array of them for an array."""
        reasons = [error.reason for _, error in self._told]
        return reasons[0] if self.shape == () else np.array(reasons).reshape(self.shape)

    @property
    def is_flagged(self) -> Any:
        """Whether one of them is above 3 %, or not known."""
        flags = [error.is_flagged for _, error in self._told]
        return flags[0] if self.shape == () else np.array(flags).reshape(self.shape)

    @property
    def doubted(self) -> tuple[str, ModelError]:
        """Of a single point: which of its numbers is doubted most, and its finite-size error."""
        return self._told[0]

    def trust(self) -> str:
        """A line on the model error of a single point."""
        name, (relative, reason) = self.doubted
        if self.problem.dimension == math.inf or math.isnan(relative) or not self.is_flagged:
            return f"finite-size error: {reason}"
        number = "" if name == "risk" else f"the {name.replace('_', ' ')} "
        return f"{number}may be {per_cent(relative)} off: {reason}; check it or simulate"


def _approach(problem: Problem) -> str:
    """How fast networks come near the limit, where that is slow: between the small and the large
    step.
    """
    if not 0 < problem.step_exponent < 0.5:
        return ""
    orders = model_of(problem, "exact", True).orders
    return "" if orders is None else f", which they approach as d^-{orders.approach:.2g}"


def _from_the_limit(limit: float, finite: float, more: float, told: str) -> ModelError:
    """Of networks of d = 1000, with the doubts ``more`` about them."""
    gap = abs(finite - limit) + more * abs(finite)
    side = "above" if finite > limit else "below"
    reason = f"networks of d = {NEARBY} are {side} the limit{told}"
    return ModelError(gap / abs(limit) if limit else math.nan, reason)
