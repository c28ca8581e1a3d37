"""The inverse of the inputs' covariance, with which ``optimizers.Whitened`` turns the gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.library import library_of

if TYPE_CHECKING:
    from firststep.simulation.backends import Backend, Place
    from firststep.simulation.data.rows import Data
    from firststep.simulation.design import Design
    from firststep.typing import Array, Float


class Inverse(NamedTuple):
    """(C + mu (tr C/d) I)^-1 = V diag(values) V^T; without vectors V = I.

    What is zero to rounding, below d eps times the largest eigenvalue, counts as zero, and its
    inverse at mu = 0 as zero: that is the pseudo-inverse, as ridge 0 is the minimum-norm fit.
    """

    values: Float[Array, " d"]
    vectors: Float[Array, "d d"] | None

    @classmethod
    def of(
        cls, eigenvalues: Float[Array, " d"], vectors: Float[Array, "d d"] | None, damping: float
    ) -> Inverse:
        xp = library_of(eigenvalues).xp
        floor = len(eigenvalues) * float(np.finfo(eigenvalues.dtype).eps) * eigenvalues.max()
        kept = xp.where(eigenvalues > floor, eigenvalues, 0.0)
        shifted = kept + damping * kept.mean()
        return cls(xp.where(shifted > 0, 1 / xp.where(shifted > 0, shifted, 1.0), 0.0), vectors)

    def times(self, gradient: Float[Array, "d N"]) -> Float[Array, "d N"]:
        if self.vectors is None:
            return self.values[:, None] * gradient
        turned = self.vectors.T @ gradient
        turned = self.values[:, None] * turned
        return self.vectors @ turned


def batch_inverse(data: Data, batch: int) -> Inverse:
    """From C = (1/n0) X^T X of a batch of the step, which is made again block by block."""
    design, backend = data.design, data.backend
    n0, d = design.sizes.step_samples, design.sizes.dimension

    def add_block(total: Float[Array, "d d"], start: Place, count: int) -> Float[Array, "d d"]:
        inputs = data.inputs("step", start, count, batch)
        return backend.add_product(total, inputs, inputs)

    moments = backend.fold(add_block, backend.zeros((d, d)), n0, design.block)
    moments /= n0
    eigenvalues, vectors = backend.xp.linalg.eigh(moments)
    return Inverse.of(eigenvalues, vectors, design.training.damping)


def law_inverse(design: Design, backend: Backend) -> Inverse:
    """From the covariance that the law of the inputs knows; found on the host."""
    put = backend.to_device
    eigenvalues, vectors = design.inputs.spectrum(design.sizes.dimension)
    found = Inverse.of(eigenvalues, vectors, design.training.damping)
    return Inverse(put(found.values), None if vectors is None else put(vectors))
