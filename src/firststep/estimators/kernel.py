"""What is computed on blocks of rows: the gradient, the features and sums over them.

The same code runs on NumPy and on JAX.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.activations import Activation
from firststep.simulation.backends import Backend, make_backend

if TYPE_CHECKING:
    from firststep.typing import Array, Float

    # inputs and targets; targets in columns for several classes
    Block = tuple[Float[Array, "rows d"], Float[Array, "rows ..."]]
    Blocks = Iterable[Block]
    Weights = Float[Array, "d N"]


class Outputs(NamedTuple):
    """The network at the step: f = constant + (1/N) s(X W) at, one output, or one a class.

    The step pulls with r = clip(y - f, -limit, limit).
    """

    readout: Float[Array, "N ..."]
    constant: float | Float[Array, " K"] = 0.0
    limit: float = math.inf


class Moments(NamedTuple):
    """Sums over rows of centred features Fc and targets yc, and the means that were taken off."""

    gram: Float[Array, "N N"]  # Fc^T Fc, one triangle (see Backend.add_gram)
    right: Float[Array, " N"]  # Fc^T yc
    centre: Float[Array, " N"]  # of s(X W)
    offset: Float[Array, ""]  # of y


class Turned(NamedTuple):
    """The fits of a path of ridges along the eigenvectors of the Gram matrix."""

    centre: Float[Array, " N"]
    offset: Float[Array, ""]
    vectors: Float[Array, "N N"]
    inverse: Float[Array, "N ridges"]  # 1/(e + n ridge)
    coordinates: Float[Array, " N"]  # V^T Fc^T yc

    @property
    def solutions(self) -> Float[Array, "N ridges"]:
        return self.vectors @ (self.inverse * self.coordinates[:, None])


class Affine(NamedTuple):
    """y = offset + (s(x W) - centre) b, for one b or for each of several (ridges, classes)."""

    solutions: Float[Array, "N ..."]
    centre: Float[Array, " N"]
    offset: Float[Array, " ..."]


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
        """JAX in the precision asked for; NumPy with as many BLAS threads as the process has.

        Overflow is found by its results.
        """
        with (
            contextlib.nullcontext() if self.backend.name == "numpy" else self.backend.scope(),
            np.errstate(all="ignore"),
        ):
            yield

    # Stages: pure functions of arrays -------------------------------------------------------------

    def _features_stage(
        self, inputs: Float[Array, "rows d"], weights: Weights
    ) -> Float[Array, "rows N"]:
        """s(X W)."""
        return self.student.evaluate(inputs @ weights)

    def _gradient_stage(
        self, total: Weights, block: Block, weights: Weights, outputs: Outputs
    ) -> Weights:
        """total + X^T [(r at^T) o s'(X W)]."""
        (inputs, targets), (readout, constant, limit) = block, outputs
        value, slope = self.student.evaluate_both(inputs @ weights)
        residual = targets - constant - (value @ readout) / len(readout)
        residual = self.backend.xp.clip(residual, -limit, limit)
        if residual.ndim == 1:
            slope = slope * residual[:, None]
            slope *= readout
        else:
            slope = slope * (residual @ readout.T)
        return self.backend.add_product(total, inputs, slope)

    def _spread_stage(
        self,
        sums: Float[Array, " 2"],
        inputs: Float[Array, "rows d"],
        weights: Weights,
        change: Weights,
    ) -> Float[Array, " 2"]:
        """sums + (|X W|^2, |X G|^2)."""
        xp = self.backend.xp
        return sums + xp.stack([((inputs @ matrix) ** 2).sum() for matrix in (weights, change)])

    def _moments_stage(
        self, carry: Moments, block: Block, weights: Weights, shift: Float[Array, " N"]
    ) -> Moments:
        """F^T F (see Backend.add_gram), F^T y, F^T 1 and the sum of y, with F = s(X W) - shift."""
        inputs, targets = block
        features = self._features_stage(inputs, weights) - shift
        return Moments(
            gram=self.backend.add_gram(carry.gram, features),
            right=carry.right + targets @ features,
            centre=carry.centre + features.sum(axis=0),
            offset=carry.offset + targets.sum(),
        )

    def _left_out_stage(
        self,
        carry: tuple[Float[Array, " ridges"], Float[Array, " ridges"]],
        block: Block,
        weights: Weights,
        path: Turned,
        count: int,
    ) -> tuple[Float[Array, " ridges"], Float[Array, " ridges"]]:
        """For every ridge, the sum of squared leave-one-out residuals and the least 1 - h.

        See ``ridge_path``.
        """
        xp, (square, least), (inputs, targets) = self.backend.xp, carry, block
        rotated = (self._features_stage(inputs, weights) - path.centre) @ path.vectors
        fitted = rotated @ (path.inverse * path.coordinates[:, None])
        gap = 1 - 1 / count - (rotated * rotated) @ path.inverse
        left_out = ((targets - path.offset)[:, None] - fitted) / xp.where(gap > 0, gap, 1.0)
        return square + (left_out**2).sum(axis=0), xp.minimum(least, gap.min(axis=0))

    def _errors_stage(
        self, square: Float[Array, " ridges"], block: Block, weights: Weights, fits: Affine
    ) -> Float[Array, " ridges"]:
        """For every ridge, square + the sum of (y - offset - (s(X W) - centre) b)^2."""
        inputs, targets = block
        fitted = (self._features_stage(inputs, weights) - fits.centre) @ fits.solutions
        return square + (((targets - fits.offset)[:, None] - fitted) ** 2).sum(axis=0)

    # Passes over the rows -------------------------------------------------------------------------

    def gradient(self, blocks: Blocks, count: int, weights: Weights, outputs: Outputs) -> Weights:
        """G = (1/n) X^T [(r at^T) o s'(X W)].

        The step is W + etat G, which is W + eta sqrt(N) G0.
        """
        total = self.backend.zeros(weights.shape)
        for block in blocks:
            total = self._add_gradient(total, block, weights, outputs)
        return total / count

    def spread(self, blocks: Blocks, weights: Weights, change: Weights) -> tuple[float, float]:
        """|X W|^2 and |X G|^2, sums over rows and neurons."""
        sums = self.backend.zeros((2,))
        for inputs, _ in blocks:
            sums = self._add_spread(sums, inputs, weights, change)
        before, moved = self.backend.to_host(sums).astype(float)
        return float(before), float(moved)

    def moments(self, blocks: Blocks, count: int, weights: Weights) -> Moments:
        """The sums over all rows.

        Features are shifted by their mean over the first block before anything is squared; what is
        left of the mean is small.
        """
        width = weights.shape[1]
        sums = Moments(*map(self.backend.zeros, ((width, width), (width,), (width,), ())))
        shift: Float[Array, " N"] | None = None
        for block in blocks:
            if shift is None:
                shift = self.features(block[0], weights).mean(axis=0)
            sums = self._add_moments(sums, block, weights, shift)
        assert shift is not None, "there are rows"
        gram, right, total, targets = sums
        mean, offset = total / count, targets / count
        gram -= (count * mean)[:, None] * mean
        return Moments(gram, right - count * offset * mean, shift + mean, offset)

    def collect(
        self, blocks: Blocks, weights: Weights
    ) -> tuple[Float[Array, "n N"], Float[Array, "n ..."]]:
        """s(X W) and y of all rows."""
        pairs = [(self.features(inputs, weights), targets) for inputs, targets in blocks]
        join = self.backend.xp.concatenate
        return join([features for features, _ in pairs]), join([targets for _, targets in pairs])

    def left_out(
        self, blocks: Blocks, count: int, weights: Weights, path: Turned
    ) -> tuple[Float[Array, " ridges"], Float[Array, " ridges"]]:
        """For every ridge, the mean squared leave-one-out residual and the least 1 - h.

        Over all rows, on the host.
        """
        values = path.inverse.shape[1]
        carry = (self.backend.zeros((values,)), self.backend.zeros((values,)) + 1.0)
        for block in blocks:
            carry = self._add_left_out(carry, block, weights, path, count)
        square, least = (self.backend.to_host(each).astype(float) for each in carry)
        return square / count, least

    def errors(
        self, blocks: Blocks, count: int, weights: Weights, fits: Affine
    ) -> Float[Array, " ridges"]:
        """Mean squared error on the rows, for every ridge, on the host."""
        square = self.backend.zeros((fits.solutions.shape[1],))
        for block in blocks:
            square = self._add_errors(square, block, weights, fits)
        return self.backend.to_host(square).astype(float) / count


@lru_cache(maxsize=32)  # a grid search over students and backends keeps its compiled stages
def make_kernel(student: Activation, backend: str, device: str, dtype: str) -> Kernel:
    """The kernel asked for; its compiled stages serve later fits and predictions, too."""
    return Kernel(student, make_backend(backend, device, dtype))
