"""The functions of kappa that a prediction of a single problem has, and the parts of its risk."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.activations import Activation
from firststep.problem import Problem
from firststep.theory.binary import BinaryLabels
from firststep.theory.one_step.error_split import ErrorSplit
from firststep.theory.one_step.solve import Point
from firststep.theory.teacher import TermSum, given_mean, given_variance

if TYPE_CHECKING:
    from firststep.typing import Array, Bool, Float

CONVERGED = "converged"  # the status of a point whose numbers may be used
SHOWN_TO = 5.0  # |kappa| up to which functions are shown: beyond, there is next to no input
FUNCTIONS = ("kappa", "learned_function", "target_function", "linear_coefficient", "error_by_kappa")


class FunctionsOfKappa:
    """Of a single point; they are those of its fit at every kappa."""

    problem: Problem
    shape: tuple[int, ...]
    points: tuple[Point, ...]

    @property
    def _teacher(self) -> Activation | TermSum:
        raise NotImplementedError

    @property
    def status(self) -> Any:
        raise NotImplementedError

    @property
    def _point(self) -> Point:
        if self.shape != ():
            told = "the functions of kappa belong to single points: use prediction[i]"
            raise AttributeError(told)
        if self.status != CONVERGED:
            raise AttributeError(f"the point is {self.status}: it has no functions of kappa")
        return self.points[0]

    @cached_property
    def _inside(self) -> Bool[Array, " K"]:
        return np.abs(self._point.kappa) <= SHOWN_TO

    @property
    def _target(self) -> Activation | BinaryLabels | TermSum:
        """The mean of a label as a function of the teacher's coordinate, or its terms."""
        problem = self.problem
        return BinaryLabels.of(problem) if problem.labels.is_binary else self._teacher

    @property
    def kappa(self) -> Float[Array, " K"]:
        """kappa = x . v/|v| (x . theta without a step), from -5 to 5.

        With several terms and without a step theta is the direction of their linear parts,
        sum_b c*_b theta_b over its length.
        """
        return self._point.kappa[self._inside]

    @property
    def learned_function(self) -> Float[Array, " K"]:
        """m(kappa) = E[prediction | kappa]."""
        return self._learned(self._point)[self._inside]

    def _learned(self, point: Point) -> Float[Array, " K"]:
        """Without a step kappa is the teacher's own direction, on which t is the coefficient."""
        if self.problem.moves_weights:
            return point.learned
        along = point.linear_coefficient
        return point.learned + (along[0] if along.ndim == 2 else along) * point.kappa

    @property
    def target_function(self) -> Float[Array, " K"]:
        """E[y | kappa]."""
        if self.problem.moves_weights:
            return self._point.target.h0[self._inside]
        return self.teacher_function

    @property
    def teacher_function(self) -> Float[Array, " K"]:
        """E[y | z] where the teacher's own coordinate z has the values of ``kappa``: what there is
        to be learned, and the target where the alignment is one.

        With several terms z is the coordinate of their linear parts.
        """
        return self._without_step(self.kappa)

    def _without_step(self, kappa: Float[Array, " K"]) -> Float[Array, " K"]:
        target = self._target
        return given_mean(target, kappa) if isinstance(target, TermSum) else target.evaluate(kappa)

    @property
    def linear_coefficient(self) -> Float[Array, "*m K"]:
        """t(kappa): the prediction's coefficient on the rest of the teacher's direction, zeta.

        With several terms a row for each of their rotated directions: first the rest of the one
        that the linear parts have together, then those across it.
        """
        found = self._point.linear_coefficient[..., self._inside]
        if self.problem.moves_weights:
            return found
        if found.ndim == 2:
            return np.concatenate([0 * found[:1], found[1:]])
        return np.zeros_like(found)

    @property
    def error_by_kappa(self) -> Float[Array, " K"]:
        """E[(prediction - s*)^2 | kappa]; its Gaussian mean is the risk."""
        point = self._point
        if self.problem.moves_weights:
            return (point.error - point.label_variance)[self._inside]
        known = (self._without_step(point.kappa) - self._learned(point)) ** 2
        if isinstance(self._target, TermSum):  # of which kappa leaves more unknown than elsewhere
            known = known + given_variance(self._target, point.kappa)
        return (known + point.risk - np.sum(point.omega * known))[self._inside]

    @cached_property
    def error_split(self) -> ErrorSplit:
        """Where the risk comes from."""
        total = self._teacher.moments.second_moment
        target = self._target
        if isinstance(target, BinaryLabels):
            total = 1 - target.total_variance
        return ErrorSplit.of(self._point, total)
