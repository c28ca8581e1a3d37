"""Fixed-kernel and linear baselines of [Ba] section 3.1, on the same data as the network.

ntk:                    features (1/sqrt(N d)) vec(s'(W0^T x) x^T); (1/n)|y - Phi a|^2 + (ridge/N)|a|^2, solved in the dual:
                        K = (X X^T/d) o (s'(X W0) s'(X W0)^T/N), coefficients (K + n ridge/N)^-1 y
inner-product-kernel:   K = g(<x, x'>/d), coefficients (K + ridge)^-1 y, as printed in [Ba] (3.2)
distance-kernel:        K = g(|x - x'|^2/d), likewise
linear:                 f(x) = b0 + <b, x>, (1/n)|y - b0 - X b|^2 + ridge |b|^2, intercept not penalised
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from firststep.problem import Problem
from firststep.simulation.backends import Backend
from firststep.simulation.data.rows import InputArrays, input_rows, open_draws
from firststep.simulation.data.teachers import draw_directions, first_direction, labels
from firststep.simulation.design import Design
from firststep.simulation.fit.ridge import is_nearly_singular, solve_gram
from firststep.simulation.models.network import Measured, finish_test, nothing_measured, test_sums
from firststep.simulation.weights.draw import draw_weights


class KernelRidge:
    """Kernel ridge regression in the dual: all n training points are kept, K is n x n."""

    def __init__(self, design: Design, backend: Backend) -> None:
        self.design, self.backend = design, backend
        self._arrays = InputArrays(design, backend)
        self._train = backend.compile(self._train_stage)
        self._test = backend.compile(self._test_stage)

    def _slopes(self, inputs: Any, weights: Any) -> Any:
        return self.design.student.evaluate_derivative(
            inputs @ weights, self.backend.xp, self.backend.special
        )

    def _gram(self, left: Any, left_slopes: Any, right: Any, right_slopes: Any) -> Any:
        """k(x, x') for all pairs."""
        xp, design, d = self.backend.xp, self.design, self.design.sizes.dimension
        products = left @ right.T
        if design.model == "ntk":
            return products * (left_slopes @ right_slopes.T) / (d * design.sizes.width)
        if design.model == "distance-kernel":
            squares = (left * left).sum(axis=1)[:, None] + (right * right).sum(axis=1)
            products = xp.maximum(squares - 2 * products, 0)
        assert design.kernel is not None
        return design.kernel.evaluate(products / d, xp, self.backend.special)

    def _train_stage(self, key: Any, noise: Any) -> tuple[Any, ...]:
        backend, design, draws = self.backend, self.design, open_draws(self.backend, key)
        n = design.sizes.samples
        teacher = draw_directions(backend, draws, design)
        inputs = input_rows(backend, draws, design, "ridge", 0, n)
        targets = labels(backend, design, inputs, teacher, noise, draws.vector("ridge noise", n))
        slopes = None
        if design.model == "ntk":
            slopes = self._slopes(inputs, draw_weights(backend, draws, design))
        return teacher, inputs, slopes, targets, self._gram(inputs, slopes, inputs, slopes)

    def _test_stage(
        self, key: Any, teacher: Any, inputs: Any, slopes: Any, coefficients: Any
    ) -> Any:
        backend, design, draws = self.backend, self.design, open_draws(self.backend, key)
        weights = draw_weights(backend, draws, design) if design.model == "ntk" else None

        def predictions(block: Any, start: Any, count: int) -> Any:
            block_slopes = self._slopes(block, weights) if weights is not None else None
            return self._gram(block, block_slopes, inputs, slopes) @ coefficients

        return test_sums(
            backend,
            draws,
            design,
            teacher,
            first_direction(teacher),
            predictions,
            coefficients.shape[1],
        )

    def replicate(self, problem: Problem, seed: int, number: int) -> Measured:
        """All measurements of one replicate. To be called inside ``backend.scope()``."""
        backend, sizes = self.backend, self.design.sizes
        key = self._arrays.key(seed, number)
        teacher, inputs, slopes, targets, gram = self._train(key, backend.to_device(problem.noise))
        scale = sizes.samples / sizes.width if self.design.model == "ntk" else 1.0
        shifts = tuple(scale * ridge for ridge in problem.ridges)
        singular = is_nearly_singular(gram, shifts, float(np.finfo(backend.dtype).eps))
        coefficients = solve_gram(backend, gram, targets, shifts)
        if singular:  # the null space of K keeps its part of the labels
            residual = targets[:, None] - gram @ coefficients
        else:
            residual = coefficients * backend.to_device(shifts)
        training_error = np.mean(backend.to_host(residual).astype(float) ** 2, axis=0)
        sums = self._test(key, teacher, inputs, slopes, coefficients)
        found = finish_test(sums, self.design.test_samples, backend)
        return {**nothing_measured(self.design), **found, "training_error": training_error}


class LinearRidge:
    """Ridge regression on the input, in blocks; dual when n < d."""

    def __init__(self, design: Design, backend: Backend) -> None:
        self.design, self.backend = design, backend
        self._arrays = InputArrays(design, backend)
        self._moments = backend.compile(self._moments_stage)
        self._collect = backend.compile(self._collect_stage)
        self._test = backend.compile(self._test_stage)

    def _moments_stage(self, key: Any, noise: Any) -> tuple[Any, ...]:
        """theta and the sums X^T X, X^T y, sum x, sum y, |y|^2."""
        backend, design, draws = self.backend, self.design, open_draws(self.backend, key)
        d, n = design.sizes.dimension, design.sizes.samples
        teacher = draw_directions(backend, draws, design)
        errors = draws.vector("ridge noise", n)

        def add_block(carry: tuple[Any, ...], start: Any, count: int) -> tuple[Any, ...]:
            inputs = input_rows(backend, draws, design, "ridge", start, count)
            targets = labels(
                backend, design, inputs, teacher, noise, backend.slice(errors, start, count)
            )
            gram, right, total, sum_y, square = carry
            return (
                backend.add_gram(gram, inputs),
                right + targets @ inputs,
                total + inputs.sum(axis=0),
                sum_y + targets.sum(),
                square + targets @ targets,
            )

        zero = tuple(backend.zeros(shape) for shape in ((d, d), (d,), (d,), (), ()))
        return teacher, *backend.fold(add_block, zero, n, design.block)

    def _collect_stage(self, key: Any, noise: Any) -> tuple[Any, Any, Any]:
        backend, design, draws = self.backend, self.design, open_draws(self.backend, key)
        n = design.sizes.samples
        teacher = draw_directions(backend, draws, design)
        inputs = input_rows(backend, draws, design, "ridge", 0, n)
        return (
            teacher,
            inputs,
            labels(backend, design, inputs, teacher, noise, draws.vector("ridge noise", n)),
        )

    def _test_stage(
        self, key: Any, teacher: Any, center: Any, intercept: Any, solution: Any
    ) -> Any:
        backend, draws = self.backend, open_draws(self.backend, key)

        def predictions(inputs: Any, start: Any, count: int) -> Any:
            return intercept + (inputs - center) @ solution

        return test_sums(
            backend,
            draws,
            self.design,
            teacher,
            first_direction(teacher),
            predictions,
            solution.shape[1],
        )

    def replicate(self, problem: Problem, seed: int, number: int) -> Measured:
        """All measurements of one replicate. To be called inside ``backend.scope()``."""
        backend, xp, n = self.backend, self.backend.xp, self.design.sizes.samples
        key, noise = self._arrays.key(seed, number), backend.to_device(problem.noise)
        shifts = tuple(n * ridge for ridge in problem.ridges)
        if n >= self.design.sizes.dimension:
            teacher, gram, right, total, sum_y, square = self._moments(key, noise)
            center, intercept = total / n, sum_y / n
            gram = gram - xp.outer(center, total)
            right = right - intercept * total
            solution = solve_gram(backend, gram, right, shifts)
            host = backend.to_host(solution).astype(float)
            explained = backend.to_host(right) @ host + np.asarray(shifts) * np.einsum(
                "ij,ij->j", host, host
            )
            training = np.maximum(float(square - n * intercept**2) - explained, 0.0) / n
        else:
            teacher, inputs, targets = self._collect(key, noise)
            center, intercept = inputs.mean(axis=0), targets.mean()
            inputs = inputs - center
            dual = solve_gram(backend, backend.outer_gram(inputs), targets - intercept, shifts)
            solution = inputs.T @ dual
            training = np.mean(
                backend.to_host(targets[:, None] - intercept - inputs @ solution) ** 2, axis=0
            )
        sums = self._test(key, teacher, center, intercept, solution)
        return {
            **nothing_measured(self.design),
            **finish_test(sums, self.design.test_samples, backend),
            "training_error": training,
        }


def _regression(design: Design, backend: Backend) -> KernelRidge | LinearRidge:
    return (
        LinearRidge(design, backend) if design.model == "linear" else KernelRidge(design, backend)
    )


_cached = lru_cache(maxsize=32)(_regression)


def baseline_kernel(design: Design, backend: Backend) -> KernelRidge | LinearRidge:
    """The regression of a baseline design; kept as those of ``network_kernel`` are."""
    return (_regression if backend.name == "numpy" and design.inputs.held else _cached)(
        design, backend
    )
