"""What is computed on blocks of rows: the gradient, the features and sums over them. The same code runs on NumPy and on JAX."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from firststep.activations import Activation
from firststep.simulation.backends import Backend, make_backend

Blocks = Iterable[tuple[Any, Any]]


class Kernel:
    """The stages for one student on one backend, compiled once for every shape of block."""

    def __init__(self, student: Activation, backend: Backend) -> None:
        self.student, self.backend = student, backend
        self._add_gradient = backend.compile(self._gradient_stage)
        self._add_spread = backend.compile(self._spread_stage)
        self._add_moments = backend.compile(self._moments_stage)
        self._add_left_out = backend.compile(self._left_out_stage)
        self._add_errors = backend.compile(self._errors_stage)
        self.features = backend.compile(self._features_stage)

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """JAX in the precision asked for; NumPy with as many BLAS threads as the process has. Overflow is found by its results."""
        with (
            contextlib.nullcontext() if self.backend.name == "numpy" else self.backend.scope(),
            np.errstate(all="ignore"),
        ):
            yield

    # Stages: pure functions of arrays -------------------------------------------------------------------------------------------

    def _features_stage(self, inputs: Any, weights: Any) -> Any:
        """s(X W)."""
        return self.student.evaluate(inputs @ weights, self.backend.xp, self.backend.special)

    def _gradient_stage(
        self, total: Any, inputs: Any, targets: Any, weights: Any, readout: Any
    ) -> Any:
        """total + X^T [(r at^T) o s'(X W)], r = y - (1/N) s(X W) at."""
        value, slope = self.student.evaluate_both(
            inputs @ weights, self.backend.xp, self.backend.special
        )
        residual = targets - (value @ readout) / len(readout)
        slope = slope * residual[:, None]
        slope *= readout
        return self.backend.add_product(total, inputs, slope)

    def _spread_stage(self, sums: Any, inputs: Any, weights: Any, change: Any) -> Any:
        """sums + (|X W|^2, |X G|^2)."""
        xp = self.backend.xp
        return sums + xp.stack([((inputs @ matrix) ** 2).sum() for matrix in (weights, change)])

    def _moments_stage(
        self, carry: Any, inputs: Any, targets: Any, weights: Any, shift: Any
    ) -> Any:
        """F^T F (see Backend.add_gram), F^T y, F^T 1 and the sum of y, with F = s(X W) - shift."""
        gram, right, total, sums = carry
        block = self._features_stage(inputs, weights) - shift
        return (
            self.backend.add_gram(gram, block),
            right + targets @ block,
            total + block.sum(axis=0),
            sums + targets.sum(),
        )

    def _left_out_stage(self, carry: Any, block: Any, weights: Any, path: Any, count: Any) -> Any:
        """For every ridge, the sum of squared leave-one-out residuals and the least 1 - h. See ``ridge_path``."""
        xp, (square, least), (inputs, targets) = self.backend.xp, carry, block
        centre, offset, vectors, inverse, coordinates = path
        rotated = (self._features_stage(inputs, weights) - centre) @ vectors
        residual = (targets - offset)[:, None] - rotated @ (inverse * coordinates[:, None])
        gap = 1 - 1 / count - (rotated * rotated) @ inverse
        left_out = residual / xp.where(gap > 0, gap, 1.0)
        return square + (left_out**2).sum(axis=0), xp.minimum(least, gap.min(axis=0))

    def _errors_stage(
        self, square: Any, block: Any, weights: Any, centre: Any, offset: Any, solutions: Any
    ) -> Any:
        """For every ridge, square + the sum of (y - offset - (s(X W) - centre) b)^2."""
        inputs, targets = block
        fitted = (self._features_stage(inputs, weights) - centre) @ solutions
        return square + (((targets - offset)[:, None] - fitted) ** 2).sum(axis=0)

    # Passes over the rows -------------------------------------------------------------------------------------------------------

    def gradient(self, blocks: Blocks, count: int, weights: Any, readout: Any) -> Any:
        """G = (1/n) X^T [(r at^T) o s'(X W)], r = y - (1/N) s(X W) at: the step is W + etat G, which is W + eta sqrt(N) G0."""
        total = self.backend.zeros(weights.shape)
        for inputs, targets in blocks:
            total = self._add_gradient(total, inputs, targets, weights, readout)
        return total / count

    def spread(self, blocks: Blocks, weights: Any, change: Any) -> tuple[float, float]:
        """|X W|^2 and |X G|^2, sums over rows and neurons."""
        sums = self.backend.zeros((2,))
        for inputs, _ in blocks:
            sums = self._add_spread(sums, inputs, weights, change)
        before, moved = self.backend.to_host(sums).astype(float)
        return float(before), float(moved)

    def moments(self, blocks: Blocks, count: int, weights: Any) -> tuple[Any, Any, Any, Any]:
        """F^T F and F^T y of centred features and targets (one triangle, see Backend.add_gram), and the means of s(X W) and y.

        Features are shifted by their mean over the first block before anything is squared; what is left of the mean is small.
        """
        backend, width = self.backend, weights.shape[1]
        carry = tuple(backend.zeros(shape) for shape in ((width, width), (width,), (width,), ()))
        shift: Any = None
        for inputs, targets in blocks:
            shift = self.features(inputs, weights).mean(axis=0) if shift is None else shift
            carry = self._add_moments(carry, inputs, targets, weights, shift)
        gram, right, total, sums = carry
        mean, offset = total / count, sums / count
        gram -= (count * mean)[:, None] * mean
        return gram, right - count * offset * mean, shift + mean, offset

    def collect(self, blocks: Blocks, weights: Any) -> tuple[Any, Any]:
        """s(X W) and y of all rows."""
        pairs = [(self.features(inputs, weights), targets) for inputs, targets in blocks]
        join = self.backend.xp.concatenate
        return join([features for features, _ in pairs]), join([targets for _, targets in pairs])

    def left_out(self, blocks: Blocks, count: int, weights: Any, path: Any) -> tuple[Any, Any]:
        """Mean squared leave-one-out residual and least 1 - h over the rows, for every ridge, on the host."""
        values = path[3].shape[1]
        carry = (self.backend.zeros((values,)), self.backend.zeros((values,)) + 1.0)
        for block in blocks:
            carry = self._add_left_out(carry, block, weights, path, count)
        square, least = (self.backend.to_host(each).astype(float) for each in carry)
        return square / count, least

    def errors(
        self, blocks: Blocks, count: int, weights: Any, centre: Any, offset: Any, solutions: Any
    ) -> Any:
        """Mean squared error on the rows, for every ridge, on the host."""
        square = self.backend.zeros((solutions.shape[1],))
        for block in blocks:
            square = self._add_errors(square, block, weights, centre, offset, solutions)
        return self.backend.to_host(square).astype(float) / count


@lru_cache(maxsize=32)
def make_kernel(student: Activation, backend: str, device: str, dtype: str) -> Kernel:
    """The kernel asked for; compiled stages serve later fits and predictions with the same shapes."""
    return Kernel(student, make_backend(backend, device, dtype))
