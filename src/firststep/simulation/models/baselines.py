"""Fixed-kernel and linear baselines of [Ba] section 3.1, on the same data as the network."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from firststep.simulation.data.rows import Data, InputArrays, Replicate
from firststep.simulation.data.teachers import draw_directions, first_direction
from firststep.simulation.fit.convex import Question, solve_losses
from firststep.simulation.fit.geometry import Dual, Primal, geometry_of
from firststep.simulation.fit.readout import explained_error
from firststep.simulation.fit.ridge import is_nearly_singular, solve_gram
from firststep.simulation.kinds import MODELS, Measured, Model
from firststep.simulation.models.measuring import (
    finish_test,
    finish_training,
    nothing_measured,
    test_sums,
    training_sums,
)
from firststep.simulation.weights.draw import draw_weights

if TYPE_CHECKING:
    from firststep.problem import Problem
    from firststep.simulation.backends import Backend, Place
    from firststep.simulation.data.rows import Key, Predictions
    from firststep.simulation.data.teachers import Directions
    from firststep.simulation.design import Design
    from firststep.typing import Array, Float


class Fit(NamedTuple):
    teacher: Directions
    fitted: tuple[Any, ...]  # what the predictions need, the solutions for all ridges last
    training_error: Float[Array, " ridges"]
    trained: tuple[Array, ...] = ()  # ``training_sums``, beyond ridge regression on real labels


class Baseline(Model):
    """A regression on the inputs themselves: no first layer is trained."""

    is_baseline = True

    def __init__(self, design: Design, backend: Backend) -> None:
        super().__init__(design, backend)
        self._arrays = InputArrays(design, backend)
        self._test = backend.compile(self._test_stage)

    def open(self, key: Key, noise: Float[Array, ""]) -> Data:
        """The data of a replicate, with its teacher drawn."""
        draws = self.backend.draws(key.key)
        teacher = draw_directions(self.backend, draws, self.design, key.metric)
        return Data(self.design, self.backend, Replicate(key, teacher, noise), draws)

    def all_rows(self, data: Data) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
        """The ridge data at once."""
        n = self.design.sizes.samples
        return data.labelled("ridge", 0, n, data.errors("ridge", n))

    @abstractmethod
    def predictions(self, data: Data, fitted: tuple[Any, ...]) -> Predictions:
        """The map from a block of inputs to predictions, count x ridges."""

    @abstractmethod
    def fit(self, problem: Problem, key: Key) -> Fit:
        """The regression of one replicate."""

    def _test_stage(self, replicate: Replicate, fitted: tuple[Any, ...]) -> tuple[Array, ...]:
        data = Data.of(self.design, self.backend, replicate)
        direction, predictions = first_direction(data.teacher), self.predictions(data, fitted)
        return test_sums(data, direction, predictions, fitted[-1].shape[1])

    def replicate(self, problem: Problem, seed: int, number: int) -> Measured:
        key = self._arrays.key(seed, number)
        found = self.fit(problem, key)
        noise = self.backend.to_device(problem.noise)
        sums = self._test(Replicate(key, found.teacher, noise), found.fitted)
        tested = finish_test(sums, self.design, self.backend)
        if found.trained:
            tested |= finish_training(found.trained, self.design, self.backend)
        return {**nothing_measured(self.design), **tested, "training_error": found.training_error}

    def fit_of(
        self,
        teacher: Directions,
        fitted: tuple[Any, ...],
        labels: Float[Array, " n"],
        predicted: Float[Array, "n ridges"],
    ) -> Fit:
        """With what is measured on the data of the fit."""
        y, f = (self.backend.to_host(each).astype(float) for each in (labels, predicted))
        error = np.mean((y[:, None] - f) ** 2, axis=0)
        sums = training_sums(self.design.targets, y, f, np)
        return Fit(teacher, fitted, error, sums)


class Points(NamedTuple):
    """Inputs as a kernel needs them."""

    inputs: Float[Array, "n d"]
    slopes: Float[Array, "n N"] | None = None  # s'(X W0), for the ntk


class KernelRidge(Baseline):
    """Kernel ridge regression in the dual: all n training points are kept, K is n x n.

    Coefficients (K + ridge)^-1 y, as printed in [Ba] (3.2).
    """

    def __init__(self, design: Design, backend: Backend) -> None:
        super().__init__(design, backend)
        self._train = backend.compile(self._train_stage)

    @abstractmethod
    def gram(self, left: Points, right: Points) -> Float[Array, "n m"]:
        """k(x, x') for all pairs."""

    def points(self, data: Data) -> Any:
        """The map from inputs to Points."""
        return Points

    @property
    def ridge_scale(self) -> float:
        """What the problem's ridge is multiplied with."""
        return 1.0

    def function(self, values: Float[Array, "n m"]) -> Float[Array, "n m"]:
        """g(values/d)."""
        assert self.design.kernel is not None
        return self.design.kernel.evaluate(values / self.design.sizes.dimension)

    def _train_stage(self, key: Key, noise: Float[Array, ""]) -> tuple[Array, Points, Array, Array]:
        data = self.open(key, noise)
        inputs, targets = self.all_rows(data)
        points = self.points(data)(inputs)
        return data.teacher, points, targets, self.gram(points, points)

    def predictions(self, data: Data, fitted: tuple[Any, ...]) -> Predictions:
        points, intercept, coefficients = fitted
        points_of = self.points(data)

        def predicted(
            inputs: Float[Array, "count d"], start: Place, count: int
        ) -> Float[Array, "count ridges"]:
            found = self.gram(points_of(inputs), points) @ coefficients
            return found if intercept is None else found + intercept

        return predicted

    def fit(self, problem: Problem, key: Key) -> Fit:
        backend = self.backend
        teacher, points, targets, gram = self._train(key, backend.to_device(problem.noise))
        shifts = tuple(self.ridge_scale * ridge for ridge in problem.ridges)
        if self.design.fit != "square":
            host, labels = (np.asarray(backend.to_host(a), float) for a in (gram, targets))
            asked = Question(problem.loss, labels, problem.intercept)
            ridges = tuple(shift / len(labels) for shift in shifts)
            found, constants = solve_losses(asked, Dual(host), ridges)
            fitted = (points, backend.to_device(constants), backend.to_device(found))
            return self.fit_of(teacher, fitted, targets, host @ found + constants)
        singular = is_nearly_singular(gram, shifts, float(np.finfo(backend.dtype).eps))
        coefficients = solve_gram(backend, gram, targets, shifts)
        if singular:  # the null space of K keeps its part of the labels
            residual = targets[:, None] - gram @ coefficients
        else:
            residual = coefficients * backend.to_device(shifts)
        if not self.design.targets.is_plain:
            predicted = targets[:, None] - residual
            return self.fit_of(teacher, (points, None, coefficients), targets, predicted)
        training_error = np.mean(backend.to_host(residual).astype(float) ** 2, axis=0)
        return Fit(teacher, (points, None, coefficients), training_error)

    @classmethod
    def memory(cls, design: Design, itemsize: int) -> int:
        d, n = design.sizes.dimension, design.sizes.samples
        return itemsize * (n * d + 3 * design.largest_block * n) + 8 * 6 * n * n


@MODELS.add
class NeuralTangent(KernelRidge):
    """Features (1/sqrt(N d)) vec(s'(W0^T x) x^T); (1/n)|y - Phi a|^2 + (ridge/N)|a|^2.

    In the dual K = (X X^T/d) o (s'(X W0) s'(X W0)^T/N), coefficients (K + n ridge/N)^-1 y.
    """

    name, meaning = "ntk", "neural-tangent random features at initialisation"

    def points(self, data: Data) -> Any:
        weights = draw_weights(self.backend, data.draws, self.design)
        student = self.design.student
        return lambda inputs: Points(inputs, student.evaluate_derivative(inputs @ weights))

    def gram(self, left: Points, right: Points) -> Float[Array, "n m"]:
        assert left.slopes is not None
        assert right.slopes is not None
        scale = self.design.sizes.dimension * self.design.sizes.width
        return (left.inputs @ right.inputs.T) * (left.slopes @ right.slopes.T) / scale

    @property
    def ridge_scale(self) -> float:
        return self.design.sizes.samples / self.design.sizes.width

    @classmethod
    def memory(cls, design: Design, itemsize: int) -> int:
        d, n, width = design.sizes.dimension, design.sizes.samples, design.sizes.width
        features = n * d + n * width + d * width + 3 * design.largest_block * n
        return itemsize * features + 8 * 4 * n * n


@MODELS.add
class InnerProductKernel(KernelRidge):
    name, meaning = "inner-product-kernel", "kernel ridge, k(x, y) = g(<x, y>/d)"
    default_kernel = "exp(z)"

    def gram(self, left: Points, right: Points) -> Float[Array, "n m"]:
        return self.function(left.inputs @ right.inputs.T)


@MODELS.add
class DistanceKernel(KernelRidge):
    name, meaning = "distance-kernel", "kernel ridge, k(x, y) = g(|x - y|^2/d)"
    default_kernel = "exp(-0.5*z)"

    def gram(self, left: Points, right: Points) -> Float[Array, "n m"]:
        products = left.inputs @ right.inputs.T
        squares = [(each.inputs * each.inputs).sum(axis=1) for each in (left, right)]
        sums = squares[0][:, None] + squares[1]
        return self.function(self.backend.xp.maximum(sums - 2 * products, 0))


@MODELS.add
class Linear(Baseline):
    """f(x) = b0 + <b, x>, (1/n)|y - b0 - X b|^2 + ridge |b|^2, in blocks; dual when n < d."""

    name, meaning = "linear", "ridge regression on the input, with intercept"

    def __init__(self, design: Design, backend: Backend) -> None:
        super().__init__(design, backend)
        self._moments = backend.compile(self._moments_stage)
        self._collect = backend.compile(self._collect_stage)

    def _moments_stage(self, key: Key, noise: Float[Array, ""]) -> tuple[Any, ...]:
        """The teacher and the sums X^T X, X^T y, sum x, sum y, |y|^2."""
        backend, data = self.backend, self.open(key, noise)
        d, n = self.design.sizes.dimension, self.design.sizes.samples
        errors = data.errors("ridge", n)

        def add_block(carry: tuple[Any, ...], start: Place, count: int) -> tuple[Any, ...]:
            inputs, targets = data.labelled("ridge", start, count, errors)
            gram, right, total, sum_y, square = carry
            return (
                backend.add_gram(gram, inputs),
                right + targets @ inputs,
                total + inputs.sum(axis=0),
                sum_y + targets.sum(),
                square + targets @ targets,
            )

        zero = tuple(map(backend.zeros, ((d, d), (d,), (d,), (), ())))
        return data.teacher, *backend.fold(add_block, zero, n, self.design.block)

    def _collect_stage(self, key: Key, noise: Float[Array, ""]) -> tuple[Array, Array, Array]:
        data = self.open(key, noise)
        return data.teacher, *self.all_rows(data)

    def predictions(self, data: Data, fitted: tuple[Any, ...]) -> Predictions:
        center, intercept, solution = fitted
        return lambda inputs, start, count: intercept + (inputs - center) @ solution

    def fit(self, problem: Problem, key: Key) -> Fit:
        backend, xp, n = self.backend, self.backend.xp, self.design.sizes.samples
        noise, shifts = backend.to_device(problem.noise), tuple(n * r for r in problem.ridges)
        if not self.design.targets.is_plain:
            return self._fit_losses(problem, *self._collect(key, noise))
        if n >= self.design.sizes.dimension:
            teacher, gram, right, total, sum_y, square = self._moments(key, noise)
            center, intercept = total / n, sum_y / n
            gram = gram - xp.outer(center, total)
            right = right - intercept * total
            solution = solve_gram(backend, gram, right, shifts)
            beyond = float(square - n * intercept**2)
            host = backend.to_host(solution)
            error = explained_error(backend.to_host(right), host, shifts, beyond) / n
        else:
            teacher, inputs, targets = self._collect(key, noise)
            center, intercept = inputs.mean(axis=0), targets.mean()
            inputs = inputs - center
            dual = solve_gram(backend, backend.outer_gram(inputs), targets - intercept, shifts)
            solution = inputs.T @ dual
            residual = backend.to_host(targets[:, None] - intercept - inputs @ solution)
            error = np.mean(residual**2, axis=0)
        return Fit(teacher, (center, intercept, solution), error)

    def _fit_losses(
        self,
        problem: Problem,
        teacher: Directions,
        inputs: Float[Array, "n d"],
        targets: Float[Array, " n"],
    ) -> Fit:
        """Any loss, on the host, from all inputs."""
        backend = self.backend
        host, labels = (np.asarray(backend.to_host(each), float) for each in (inputs, targets))
        asked, geometry = Question(problem.loss, labels, True), geometry_of(host)
        found, constants = solve_losses(asked, geometry, problem.ridges)
        solution = found if isinstance(geometry, Primal) else host.T @ found
        put, predicted = backend.to_device, host @ solution + constants
        fitted = (backend.zeros((host.shape[1],)), put(constants), put(solution))
        return self.fit_of(teacher, fitted, targets, predicted)

    @classmethod
    def memory(cls, design: Design, itemsize: int) -> int:
        n, d = design.sizes.samples, design.sizes.dimension
        small = min(n, d)
        host = 0 if design.targets.is_plain else (8 + itemsize) * n * d + 8 * 2 * small**2
        return itemsize * (3 * design.largest_block * d + small * d) + 8 * 2 * small**2 + host
