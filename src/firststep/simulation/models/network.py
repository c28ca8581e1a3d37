"""One replicate of the network models: draw, step, fit, test. The same code runs on NumPy and on JAX."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firststep.errors import NotConverged
from firststep.problem import Problem
from firststep.simulation.backends import Backend
from firststep.simulation.data.rows import InputArrays, input_rows, open_draws
from firststep.simulation.data.teachers import (
    clean_labels,
    draw_directions,
    first_direction,
    labels,
)
from firststep.simulation.design import Design
from firststep.simulation.fit.features import conditional_table, feature_map
from firststep.simulation.fit.ridge import solve_gram
from firststep.simulation.models.observables import (
    KAPPA_CENTERS,
    kappa_indicators,
    leading_singular_values,
)
from firststep.simulation.weights.draw import (
    SpikedLaw,
    draw_readout,
    draw_weights,
    gradient,
    spiked_weights,
)
from firststep.simulation.weights.optimizers import Optimizer

Array = NDArray[np.float64]
Measured = dict[str, Any]
LARGEST_WEIGHT = 1e100  # beyond this, squares of weights overflow


class NetworkKernel:
    """The stages of a replicate, compiled once per design. Numbers (eta, noise, ridges) are arguments, not part of the code."""

    def __init__(self, design: Design, backend: Backend) -> None:
        self.design, self.backend = design, backend
        self._arrays = InputArrays(design, backend)
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
        draws = open_draws(self.backend, key)
        teacher = draw_directions(self.backend, draws, self.design)
        weights = draw_weights(self.backend, draws, self.design)
        readout = draw_readout(self.backend, draws, self.design.readout, self.design.sizes.width)
        return teacher, weights, readout

    def _gradient_stage(
        self, key: Any, weights: Any, readout: Any, teacher: Any, noise: Any, batch: Any
    ) -> tuple[Any, Any]:
        draws = open_draws(self.backend, key)
        return gradient(self.backend, draws, self.design, weights, readout, teacher, noise, batch)

    def _spike_stage(
        self, key: Any, weights: Any, readout: Any, teacher: Any, law: Any
    ) -> tuple[Any, Any]:
        return spiked_weights(
            self.backend, open_draws(self.backend, key), self.design, weights, readout, teacher, law
        )

    def _data(self) -> str:
        """The data set that the readout is fitted on."""
        return "step" if self.design.training.reuse else "ridge"

    def _gram_stage(
        self, key: Any, weights: Any, table: Any, teacher: Any, noise: Any
    ) -> tuple[Any, Any, Any]:
        """F^T F (see Backend.add_gram), F^T y and |y|^2, in blocks."""
        backend, design, draws = self.backend, self.design, open_draws(self.backend, key)
        features = feature_map(backend, draws, design, weights, table, "ridge")
        errors = draws.vector(f"{self._data()} noise", design.sizes.samples)

        def add_block(carry: tuple[Any, Any, Any], start: Any, count: int) -> tuple[Any, Any, Any]:
            gram, right, square = carry
            inputs = input_rows(backend, draws, design, self._data(), start, count)
            targets = labels(
                backend, design, inputs, teacher, noise, backend.slice(errors, start, count)
            )
            block = features(inputs, start, count)
            return (
                backend.add_gram(gram, block),
                right + targets @ block,
                square + targets @ targets,
            )

        width = design.sizes.width
        zero = (backend.zeros((width, width)), backend.zeros((width,)), backend.zeros(()))
        return backend.fold(add_block, zero, design.sizes.samples, design.block)

    def _collect_stage(
        self, key: Any, weights: Any, table: Any, teacher: Any, noise: Any
    ) -> tuple[Any, Any]:
        """All features and labels, for n < N."""
        backend, design, draws = self.backend, self.design, open_draws(self.backend, key)
        features = feature_map(backend, draws, design, weights, table, "ridge")

        def rows_of(start: Any, count: int) -> tuple[Any, Any]:
            inputs = input_rows(backend, draws, design, self._data(), start, count)
            clean = labels(backend, design, inputs, teacher, 0.0, backend.zeros((count,)))
            return features(inputs, start, count), clean[:, None]

        samples = design.sizes.samples
        collected, clean = backend.collect(rows_of, samples, (design.sizes.width, 1), design.block)
        return collected, clean[:, 0] + noise * draws.vector(f"{self._data()} noise", samples)

    def _primal_stage(self, features: Any, targets: Any, dual: Any) -> tuple[Any, Any]:
        """b = F^T c and the training error, for n < N."""
        solution = features.T @ dual
        return solution, ((targets[:, None] - features @ solution) ** 2).mean(axis=0)

    def _test_stage(
        self, key: Any, weights: Any, table: Any, teacher: Any, solution: Any, direction: Any
    ) -> Any:
        """Sums over the test set of the squared error, its square, and the function by bins of kappa."""
        backend, design, draws = self.backend, self.design, open_draws(self.backend, key)
        features = feature_map(backend, draws, design, weights, table, "test")

        def predictions(inputs: Any, start: Any, count: int) -> Any:
            return features(inputs, start, count) @ solution

        return test_sums(backend, draws, design, teacher, direction, predictions, solution.shape[1])

    # One replicate ------------------------------------------------------------------------------------------------------------

    def replicate(self, problem: Problem, seed: int, number: int) -> Measured:
        """All measurements of one replicate, as NumPy arrays on the host. To be called inside ``backend.scope()``."""
        backend, design = self.backend, self.design
        key = self._arrays.key(seed, number)
        noise = backend.to_device(problem.noise)
        teacher, weights, readout = self._start(key)
        measured = nothing_measured(design)
        direction, table = first_direction(teacher), None
        if design.model == "spiked" and design.takes_step:
            law = SpikedLaw.of(problem, design.sizes)
            numbers = backend.to_device([law.alignment, law.spike_strength, law.linear, law.spread])
            weights, direction = self._spike(key, weights, readout, teacher, numbers)
            measured["gradient_norm"], measured["alignment"] = law.gradient_norm, law.alignment
            measured["spike_strength"] = law.spike_strength
        elif design.takes_step:
            weights, direction, measured = self._train(
                problem, key, weights, readout, teacher, noise
            )
        if design.model == "conditional":
            host = [backend.to_host(each).astype(float) for each in (weights, direction)]
            *coefficients, rest = conditional_table(design.student, *host)
            table = (direction, *(backend.to_device(each) for each in coefficients))
            weights = backend.to_device(rest)
        return {
            **measured,
            **self._fit_and_test(problem, key, weights, table, teacher, noise, direction),
        }

    def given(
        self, problem: Problem, seed: int, number: int, weights: Any, bias: Any, teacher: Any
    ) -> Measured:
        """The fit and the test of one replicate on a first layer and a teacher that are given, as arrays on the host."""
        backend = self.backend
        key, noise = self._arrays.key(seed, number), backend.to_device(problem.noise)
        layer, shift, directions = (
            None if each is None else backend.to_device(each) for each in (weights, bias, teacher)
        )
        return self._fit_and_test(
            problem, key, layer, shift, directions, noise, first_direction(directions)
        )

    def _fit_and_test(
        self,
        problem: Problem,
        key: Any,
        weights: Any,
        table: Any,
        teacher: Any,
        noise: Any,
        direction: Any,
    ) -> Measured:
        solution, training_error = self._fit(key, weights, table, teacher, noise, problem.ridges)
        sums = self._test(key, weights, table, teacher, solution, direction)
        return {
            **finish_test(sums, self.design.test_samples, self.backend),
            "training_error": training_error,
        }

    def path(self, problem: Problem, seed: int, number: int) -> Iterator[tuple[Any, Any, Any, Any]]:
        """Teacher, W0, readout and W of a replicate, with W after 0, 1, 2, ... steps."""
        key = self._arrays.key(seed, number)
        teacher, initial, readout = self._start(key)
        yield teacher, initial, readout, initial
        if self.design.takes_step:
            for weights, _, _ in self._steps(
                problem, key, initial, readout, teacher, self.backend.to_device(problem.noise)
            ):
                yield teacher, initial, readout, weights

    def _steps(
        self, problem: Problem, key: Any, initial: Any, readout: Any, teacher: Any, noise: Any
    ) -> Iterator[tuple[Any, Any, Any]]:
        """After every step: the weights, their change if it is the only one, and the moments (1/n0) X^T [r, y] of the batch."""
        design = self.design
        optimizer = Optimizer(design, self.backend, problem.learning_rate(design.sizes.width))
        weights = initial
        for number in range(design.training.steps):
            batch = number if design.training.batches == "fresh" else 0
            change, moments = self._gradient(key, weights, readout, teacher, noise, batch)
            change = optimizer.change(change)
            weights = weights + change
            if design.training.steps > 1:
                change = None  # room for the next gradient
            if not float(self.backend.xp.abs(weights).max()) < LARGEST_WEIGHT:
                told = "the weights overflowed in the gradient step: the step, the noise or the activations are too large"
                raise NotConverged(told)
            yield weights, change, moments

    def _train(
        self, problem: Problem, key: Any, initial: Any, readout: Any, teacher: Any, noise: Any
    ) -> tuple[Any, Any, Measured]:
        """The steps, and what they did to the weights."""
        first_moments, last = None, None
        for last in self._steps(problem, key, initial, readout, teacher, noise):
            first_moments = last[2] if first_moments is None else first_moments
        assert last is not None
        weights, change, _ = last
        update = weights - initial if change is None else change
        rate = problem.learning_rate(self.design.sizes.width)
        return weights, *self._weight_observables(
            key, weights, update, readout, teacher, first_moments, rate
        )

    def _weight_observables(
        self,
        key: Any,
        weights: Any,
        update: Any,
        readout: Any,
        teacher: Any,
        moments: Any,
        rate: float,
    ) -> tuple[Any, Measured]:
        """The direction of the spike and the measurements of the update W - W0.

        v = X^T r/n0 of the first step. Spike strength: the coefficient of the update on vh at^T. |G0 - A|/|G0| of [Ba] Prop. 2 (one
        step of the gradient): A = (c1/(n0 sqrt N)) X^T y a^T, so eta sqrt N A = eta c1 (X^T y/n0) a^T. The direction of the spike
        is vh after one step of the gradient, else the top left vector of the update.
        """
        backend, xp, training = self.backend, self.backend.xp, self.design.training
        width, theta = self.design.sizes.width, first_direction(teacher)
        norm = xp.linalg.norm(moments[:, 0])
        direction = moments[:, 0] / xp.where(norm > 0, norm, 1.0)
        start = open_draws(backend, key).vector("singular vectors", width)
        of_update, of_weights = self._singular(update, start, 2), self._singular(weights, start, 2)
        measured = dict(
            gradient_norm=float(norm),
            alignment=float(direction @ theta),
            spike_strength=float(
                (direction @ update)
                @ readout
                / xp.maximum(readout @ readout, np.finfo(backend.dtype).tiny)
            ),
            singular_values_weights=of_weights.values,
            singular_values_update=of_update.values,
            teacher_overlap_weights=float(of_weights.left @ theta) ** 2,
            teacher_overlap_update=float(of_update.left @ theta) ** 2,
            rank_one_error=math.nan,
        )
        if self.design.teacher_terms:
            measured["teacher_overlaps"] = backend.to_host(direction @ teacher).astype(float)
            measured["teacher_overlaps_update"] = (
                backend.to_host(of_update.left @ teacher).astype(float) ** 2
            )
        is_gradient = training.steps == 1 and training.optimizer != "adam"
        if is_gradient and of_update.values[0] > 0:
            spike = rate * self.design.student.moments.linear * moments[:, 1]
            amplitudes = readout / math.sqrt(width)
            rest = self._singular(update, start, minus=(spike, amplitudes))
            measured["rank_one_error"] = rest.values[0] / of_update.values[0]
        if not is_gradient:
            sign = xp.where(of_update.left @ theta < 0, -1.0, 1.0)
            direction = of_update.left * sign
        return direction, measured

    def _fit(
        self,
        key: Any,
        weights: Any,
        table: Any,
        teacher: Any,
        noise: Any,
        ridges: tuple[float, ...],
    ) -> tuple[Any, Array]:
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


def nothing_measured(design: Design) -> Measured:
    """The measurements of a step where none was taken."""
    scalars = (
        "gradient_norm",
        "alignment",
        "spike_strength",
        "teacher_overlap_weights",
        "teacher_overlap_update",
        "rank_one_error",
    )
    pairs = ("singular_values_weights", "singular_values_update")
    overlaps = ("teacher_overlaps", "teacher_overlaps_update") if design.teacher_terms else ()
    return {
        **dict.fromkeys(scalars, math.nan),
        **{name: np.full(2, np.nan) for name in pairs},
        **{name: np.full(1 + len(design.teacher_terms), np.nan) for name in overlaps},
    }


def test_sums(
    backend: Backend,
    draws: Any,
    design: Design,
    teacher: Any,
    direction: Any,
    predictions: Any,
    columns: int,
) -> Any:
    """Sums over the test set, in blocks: e^2, e^4, and per bin of kappa the count, the prediction and the teacher."""
    xp, bins = backend.xp, len(KAPPA_CENTERS)

    def add_block(carry: tuple[Any, ...], start: Any, count: int) -> tuple[Any, ...]:
        inputs = input_rows(backend, draws, design, "test", start, count)
        truth = clean_labels(backend, design, inputs, teacher)
        predicted = predictions(inputs, start, count)
        square = (predicted - truth[:, None]) ** 2
        inside = kappa_indicators(inputs @ direction, xp, backend.dtype)
        new = (
            square.sum(axis=0),
            (square**2).sum(axis=0),
            inside.sum(axis=0),
            inside.T @ predicted,
            inside.T @ truth,
        )
        return tuple(old + more for old, more in zip(carry, new, strict=True))

    shapes: tuple[tuple[int, ...], ...] = (
        (columns,),
        (columns,),
        (bins,),
        (bins, columns),
        (bins,),
    )
    return backend.fold(
        add_block, tuple(backend.zeros(s) for s in shapes), design.test_samples, design.block
    )


def finish_test(sums: Any, samples: int, backend: Backend) -> Measured:
    """Risk, its test-set standard error, and the learned and target functions by bins of kappa."""
    square, fourth, counts, predicted, truth = (
        backend.to_host(each).astype(float) for each in sums
    )
    risk = square / samples
    if not np.all(np.isfinite(risk)):
        raise NotConverged(
            "the test risk is not finite: the student or the teacher overflows on these inputs"
        )
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


_cached = lru_cache(maxsize=32)(NetworkKernel)


def network_kernel(design: Design, backend: Backend) -> NetworkKernel:
    """The kernel of a design; compiled stages are kept for the next call with the same shapes.

    Where nothing is compiled there is nothing to keep, least of all an array of data.
    """
    return (
        NetworkKernel(design, backend)
        if backend.name == "numpy" and design.inputs.held
        else _cached(design, backend)
    )
