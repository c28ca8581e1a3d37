"""One replicate of the network models: draw, step, fit, test. The same code runs on NumPy and on JAX."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firststep.errors import NotConverged
from firststep.problem import Problem
from firststep.simulation.backends import Backend
from firststep.simulation.design import Design
from firststep.simulation.features import conditional_table, feature_map
from firststep.simulation.observables import KAPPA_CENTERS, kappa_indicators, leading_singular_values
from firststep.simulation.ridge import solve_gram
from firststep.simulation.weights import (
    SpikedLaw,
    draw_readout,
    draw_teacher,
    draw_weights,
    gradient,
    labels,
    spiked_weights,
)

Array = NDArray[np.float64]
Measured = dict[str, Any]
LARGEST_WEIGHT = 1e100  # beyond this, squares of weights overflow


class NetworkKernel:
    """The stages of a replicate, compiled once per design. Numbers (eta, noise, ridges) are arguments, not part of the code."""

    def __init__(self, design: Design, backend: Backend) -> None:
        self.design, self.backend = design, backend
        self._start = backend.compile(self._start_stage)
        self._gradient = backend.compile(self._gradient_stage)
        self._spike = backend.compile(self._spike_stage)
        self._gram = backend.compile(self._gram_stage)
        self._primal = backend.compile(self._primal_stage)
        self._collect = backend.compile(self._collect_stage)
        self._test = backend.compile(self._test_stage)
        self._singular = leading_singular_values(backend)

    # Stages: pure functions of a key and arrays ---------------------------------------------------------------------------------

    def _start_stage(self, key: Any) -> tuple[Any, Any, Any]:
        draws = self.backend.draws(key)
        teacher = draw_teacher(self.backend, draws, self.design.sizes.dimension)
        weights = draw_weights(self.backend, draws, self.design)
        readout = draw_readout(self.backend, draws, self.design.readout, self.design.sizes.width)
        return teacher, weights, readout

    def _gradient_stage(self, key: Any, weights: Any, readout: Any, teacher: Any, noise: Any, batch: Any) -> tuple[Any, Any]:
        draws = self.backend.draws(key)
        return gradient(self.backend, draws, self.design, weights, readout, teacher, noise, batch)

    def _spike_stage(self, key: Any, weights: Any, readout: Any, teacher: Any, law: Any) -> tuple[Any, Any]:
        return spiked_weights(self.backend, self.backend.draws(key), self.design, weights, readout, teacher, law)

    def _data(self) -> tuple[str, str]:
        return ("step inputs", "step noise") if self.design.training.reuse else ("ridge inputs", "ridge noise")

    def _gram_stage(self, key: Any, weights: Any, table: Any, teacher: Any, noise: Any) -> tuple[Any, Any, Any]:
        """F^T F (see Backend.add_gram), F^T y and |y|^2, in blocks."""
        backend, design, draws = self.backend, self.design, self.backend.draws(key)
        features = feature_map(backend, draws, design, weights, table, "ridge")
        inputs_name, noise_name = self._data()
        errors = draws.vector(noise_name, design.sizes.samples)

        def add_block(carry: tuple[Any, Any, Any], start: Any, count: int) -> tuple[Any, Any, Any]:
            gram, right, square = carry
            inputs = draws.rows(inputs_name, start, count, design.sizes.dimension)
            targets = labels(backend, design.teacher, noise, inputs @ teacher, backend.slice(errors, start, count))
            block = features(inputs, start, count)
            return backend.add_gram(gram, block), right + targets @ block, square + targets @ targets

        width = design.sizes.width
        zero = (backend.zeros((width, width)), backend.zeros((width,)), backend.zeros(()))
        return backend.fold(add_block, zero, design.sizes.samples, design.block)  # type: ignore[no-any-return]

    def _collect_stage(self, key: Any, weights: Any, table: Any, teacher: Any, noise: Any) -> tuple[Any, Any]:
        """All features and labels, for n < N."""
        backend, design, draws = self.backend, self.design, self.backend.draws(key)
        features = feature_map(backend, draws, design, weights, table, "ridge")
        inputs_name, noise_name = self._data()

        def rows_of(start: Any, count: int) -> tuple[Any, Any]:
            inputs = draws.rows(inputs_name, start, count, design.sizes.dimension)
            clean = labels(backend, design.teacher, 0.0, inputs @ teacher, backend.zeros((count,)))
            return features(inputs, start, count), clean[:, None]

        samples = design.sizes.samples
        collected, clean = backend.collect(rows_of, samples, (design.sizes.width, 1), design.block)
        return collected, clean[:, 0] + noise * draws.vector(noise_name, samples)

    def _primal_stage(self, features: Any, targets: Any, dual: Any) -> tuple[Any, Any]:
        """b = F^T c and the training error, for n < N."""
        solution = features.T @ dual
        return solution, ((targets[:, None] - features @ solution) ** 2).mean(axis=0)

    def _test_stage(self, key: Any, weights: Any, table: Any, teacher: Any, solution: Any, direction: Any) -> Any:
        """Sums over the test set of the squared error, its square, and the function by bins of kappa."""
        backend, design, draws = self.backend, self.design, self.backend.draws(key)
        features = feature_map(backend, draws, design, weights, table, "test")

        def predictions(inputs: Any, start: Any, count: int) -> Any:
            return features(inputs, start, count) @ solution

        return test_sums(backend, draws, design, teacher, direction, predictions, solution.shape[1])

    # One replicate ------------------------------------------------------------------------------------------------------------

    def replicate(self, problem: Problem, seed: int, number: int) -> Measured:
        """All measurements of one replicate, as NumPy arrays on the host. To be called inside ``backend.scope()``."""
        backend, design = self.backend, self.design
        key = backend.key(seed, number)
        noise = backend.to_device(problem.noise)
        teacher, weights, readout = self._start(key)
        measured = dict(NO_STEP)
        direction, table = teacher, None
        if design.model == "spiked" and design.takes_step:
            law = SpikedLaw.of(problem, design.sizes)
            numbers = backend.to_device([law.alignment, law.spike_strength, law.linear, law.spread])
            weights, direction = self._spike(key, weights, readout, teacher, numbers)
            measured["gradient_norm"], measured["alignment"] = law.gradient_norm, law.alignment
            measured["spike_strength"] = law.spike_strength
        elif design.takes_step:
            weights, direction, measured = self._train(problem, key, weights, readout, teacher, noise)
        if design.model == "conditional":
            host = [backend.to_host(each).astype(float) for each in (weights, direction)]
            *coefficients, rest = conditional_table(design.student, *host)
            table = (direction, *(backend.to_device(each) for each in coefficients))
            weights = backend.to_device(rest)
        solution, training_error = self._fit(key, weights, table, teacher, noise, problem.ridges)
        sums = self._test(key, weights, table, teacher, solution, direction)
        measured.update(finish_test(sums, design.test_samples, backend), training_error=training_error)
        return measured

    def layer(self, problem: Problem, seed: int, number: int) -> tuple[Any, Any, Any, Any]:
        """Teacher, W0, readout and W1 of a replicate."""
        key = self.backend.key(seed, number)
        teacher, weights, readout = self._start(key)
        after = weights
        if self.design.takes_step:
            after = self._train(problem, key, weights, readout, teacher, self.backend.to_device(problem.noise))[0]
        return teacher, weights, readout, after

    def _train(self, problem: Problem, key: Any, initial: Any, readout: Any, teacher: Any, noise: Any) -> tuple[Any, Any, Measured]:
        """The gradient steps, and what they did to the weights."""
        training, width = self.design.training, self.design.sizes.width
        rate = problem.learning_rate(width)
        weights, first_moments = initial, None
        for number in range(training.steps):
            batch = number if training.batches == "fresh" else 0
            change, moments = self._gradient(key, weights, readout, teacher, noise, batch)
            first_moments = moments if first_moments is None else first_moments
            change *= rate
            weights = weights + change
        if not float(self.backend.xp.abs(weights).max()) < LARGEST_WEIGHT:
            raise NotConverged("the weights overflowed in the gradient step: the step, the noise or the activations are too large")
        update = change if training.steps == 1 else weights - initial
        return weights, *self._weight_observables(key, weights, update, readout, teacher, first_moments, rate)

    def _weight_observables(
        self, key: Any, weights: Any, update: Any, readout: Any, teacher: Any, moments: Any, rate: float
    ) -> tuple[Any, Measured]:
        """The direction of the spike and the measurements of the update W - W0.

        v = X^T r/n0 of the first step. Spike strength: the coefficient of the update on vh at^T. |G0 - A|/|G0| of [Ba] Prop. 2 (one
        step): A = (c1/(n0 sqrt N)) X^T y a^T, so eta sqrt N A = eta c1 (X^T y/n0) a^T.
        """
        backend, xp = self.backend, self.backend.xp
        width = self.design.sizes.width
        norm = xp.linalg.norm(moments[:, 0])
        direction = moments[:, 0] / xp.where(norm > 0, norm, 1.0)
        start = backend.draws(key).vector("singular vectors", width)
        of_update, of_weights = self._singular(update, start, 2), self._singular(weights, start, 2)
        measured = dict(
            gradient_norm=float(norm),
            alignment=float(direction @ teacher),
            spike_strength=float((direction @ update) @ readout / xp.maximum(readout @ readout, np.finfo(backend.dtype).tiny)),
            singular_values_weights=of_weights.values,
            singular_values_update=of_update.values,
            teacher_overlap_weights=float(of_weights.left @ teacher) ** 2,
            teacher_overlap_update=float(of_update.left @ teacher) ** 2,
            rank_one_error=math.nan,
        )
        if self.design.training.steps == 1 and of_update.values[0] > 0:
            spike = rate * self.design.student.moments.linear * moments[:, 1]
            amplitudes = readout / math.sqrt(width)
            rest = self._singular(update, start, minus=(spike, amplitudes))
            measured["rank_one_error"] = rest.values[0] / of_update.values[0]
        if self.design.training.steps > 1:
            sign = xp.where(of_update.left @ teacher < 0, -1.0, 1.0)
            direction = of_update.left * sign
        return direction, measured

    def _fit(self, key: Any, weights: Any, table: Any, teacher: Any, noise: Any, ridges: tuple[float, ...]) -> tuple[Any, Array]:
        """Readouts for every ridge (N x ridges, on the device) and their training errors."""
        backend, n = self.backend, self.design.sizes.samples
        scaled = tuple(n * ridge for ridge in ridges)
        if self.design.is_primal:
            gram, right, square = self._gram(key, weights, table, teacher, noise)
            right_host = backend.to_host(right).astype(float)
            solution = solve_gram(backend, gram, right, scaled)
            host = backend.to_host(solution).astype(float)
            explained = right_host @ host + np.asarray(scaled) * np.einsum("ij,ij->j", host, host)
            return solution, np.maximum(float(square) - explained, 0.0) / n
        features, targets = self._collect(key, weights, table, teacher, noise)
        dual = solve_gram(backend, backend.outer_gram(features), targets, scaled)
        solution, training_error = self._primal(features, targets, dual)
        return solution, backend.to_host(training_error)


NO_STEP: Measured = dict(
    gradient_norm=math.nan,
    alignment=math.nan,
    spike_strength=math.nan,
    singular_values_weights=np.full(2, np.nan),
    singular_values_update=np.full(2, np.nan),
    teacher_overlap_weights=math.nan,
    teacher_overlap_update=math.nan,
    rank_one_error=math.nan,
)


def test_sums(backend: Backend, draws: Any, design: Design, teacher: Any, direction: Any, predictions: Any, columns: int) -> Any:
    """Sums over the test set, in blocks: e^2, e^4, and per bin of kappa the count, the prediction and the teacher."""
    xp, bins = backend.xp, len(KAPPA_CENTERS)

    def add_block(carry: tuple[Any, ...], start: Any, count: int) -> tuple[Any, ...]:
        inputs = draws.rows("test inputs", start, count, design.sizes.dimension)
        truth = design.teacher.evaluate(inputs @ teacher, xp, backend.special)
        predicted = predictions(inputs, start, count)
        square = (predicted - truth[:, None]) ** 2
        inside = kappa_indicators(inputs @ direction, xp, backend.dtype)
        new = (square.sum(axis=0), (square**2).sum(axis=0), inside.sum(axis=0), inside.T @ predicted, inside.T @ truth)
        return tuple(old + more for old, more in zip(carry, new, strict=True))

    shapes: tuple[tuple[int, ...], ...] = ((columns,), (columns,), (bins,), (bins, columns), (bins,))
    return backend.fold(add_block, tuple(backend.zeros(s) for s in shapes), design.test_samples, design.block)


def finish_test(sums: Any, samples: int, backend: Backend) -> Measured:
    """Risk, its test-set standard error, and the learned and target functions by bins of kappa."""
    square, fourth, counts, predicted, truth = (backend.to_host(each).astype(float) for each in sums)
    risk = square / samples
    if not np.all(np.isfinite(risk)):
        raise NotConverged("the test risk is not finite: the student or the teacher overflows on these inputs")
    variance = np.maximum(fourth / samples - risk**2, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        learned, target = predicted / counts[:, None], truth / counts
    return dict(
        risk=risk,
        risk_test_error=np.sqrt(variance / max(samples - 1, 1)),
        learned_function=learned.T,
        target_function=target,
        kappa_counts=counts,
    )


@lru_cache(maxsize=32)
def network_kernel(design: Design, backend: Backend) -> NetworkKernel:
    """The kernel of a design; compiled stages are kept for the next call with the same shapes."""
    return NetworkKernel(design, backend)
