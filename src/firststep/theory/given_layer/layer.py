"""What the equations need of a given layer: its second moments given kappa.

On nodes kappa_k of weight omega_k, with the N x N matrices

    Sigma_k = (W_perp^T W_perp) o mu1_k mu1_k^T + diag(mu2_k) + mu0_k mu0_k^T
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from firststep.theory.given_layer.matrices import Matrices

if TYPE_CHECKING:
    from firststep.typing import Array, Float

_ALL_NODES = 400  # up to so many an eigendecomposition is faster than a search for the range
_KEPT = 1e-8  # of the size of a matrix: what a low rank may leave out


@dataclass(frozen=True)
class LowRank:
    """A matrix M[k, i] as nodes @ neurons, to about 1e-8 in the metric sqrt(omega_k)."""

    nodes: Float[Array, "K r"]
    neurons: Float[Array, "r N"]

    @classmethod
    def of(
        cls, matrix: Float[Array, "K N"], omega: Float[Array, " K"], matrices: Matrices
    ) -> LowRank:
        """The neurons' part where the matrices live."""
        root = np.sqrt(omega)[:, None]
        weighted = root * matrix
        count = len(omega)
        if count <= _ALL_NODES:
            values, vectors = scipy.linalg.eigh(weighted @ weighted.T)
            basis = vectors[:, values > 1e-15 * max(values[-1], 1e-300)]
        else:
            basis = _range(weighted)
        if basis.shape[1] >= count:
            return cls(np.eye(count), matrices.put(matrix))
        return cls(basis / root, matrices.put(basis.T @ weighted))


def _range(matrix: Float[Array, "K N"]) -> Float[Array, "K r"]:
    """An orthonormal basis of the columns, from more test vectors until nothing is left."""
    generator = np.random.default_rng(0)
    size = max(float(np.linalg.norm(matrix)), 1e-300)
    width = 48
    while True:
        width = min(width, matrix.shape[0])
        tests = generator.standard_normal((matrix.shape[1], width))
        basis = np.linalg.qr(matrix @ tests)[0]
        if width == matrix.shape[0]:
            return basis
        left = matrix - basis @ (basis.T @ matrix)
        if float(np.linalg.norm(left)) <= _KEPT * size:
            small, values, _ = np.linalg.svd(basis.T @ matrix, full_matrices=False)
            return basis @ small[:, values > _KEPT * values[0]]
        width *= 2


@dataclass(frozen=True)
class Layer:
    """Everything given kappa, and the Gram matrix across it."""

    matrices: Matrices
    omega: Float[Array, " K"]
    mean: LowRank  # mu0
    slope: LowRank  # mu1
    scatter: Float[Array, "K N"]  # mu2
    gram: Float[Array, "N N"]  # W_perp^T W_perp
    samples: float  # n

    @property
    def width(self) -> int:
        """N."""
        return int(self.gram.shape[0])

    def mix(self, weights: Float[Array, " K"]) -> Float[Array, "N N"]:
        """sum_k weights_k Sigma_k, a new matrix."""
        put = self.matrices.put
        inner = [put(m.nodes.T @ (weights[:, None] * m.nodes)) for m in (self.slope, self.mean)]
        total = (self.slope.neurons.T @ inner[0]) @ self.slope.neurons
        total *= self.gram
        total += (self.mean.neurons.T @ inner[1]) @ self.mean.neurons
        return self.matrices.plus_diagonal(total, put(weights) @ self.scatter)

    def traces(self, matrix: Float[Array, "N N"]) -> Float[Array, " K"]:
        """(1/n) Tr(Sigma_k matrix) for every k."""
        get, mean, slope = self.matrices.get, self.mean.neurons, self.slope.neurons
        along = get(mean @ (matrix @ mean.T))
        across = get(slope @ ((matrix * self.gram) @ slope.T))
        diagonal = get(self.scatter @ self.matrices.xp.diagonal(matrix))
        total = quadratic_forms(self.mean.nodes, along)
        return (total + quadratic_forms(self.slope.nodes, across) + diagonal) / self.samples

    def inverse(self, weights: Float[Array, " K"], tau: float) -> Float[Array, "N N"]:
        """A^-1, A = tau + sum_k weights_k Sigma_k."""
        return self.matrices.inverse(self.matrices.plus_diagonal(self.mix(weights), tau))

    def response(
        self, inverse: Float[Array, "N N"], weights: Float[Array, " K"]
    ) -> Float[Array, " K"]:
        """Q weights."""
        return self.traces(self.matrices.symmetric_product(inverse @ self.mix(weights), inverse))

    def small(self, neurons: int, weights: Float[Array, "d N"], seed: int = 0) -> Layer:
        """Some neurons and as large a share of the coordinates; ``weights``: those across."""
        dimension, width = weights.shape
        generator = np.random.default_rng(seed)
        some = np.sort(generator.choice(width, neurons, replace=False))
        kept = max(1, round(dimension * neurons / width))
        coordinates = np.sort(generator.choice(dimension, kept, replace=False))
        part = weights[np.ix_(coordinates, some)] * np.sqrt(dimension / kept)
        return Layer(
            matrices=self.matrices,
            omega=self.omega,
            mean=LowRank(self.mean.nodes, self.mean.neurons[:, some]),
            slope=LowRank(self.slope.nodes, self.slope.neurons[:, some]),
            scatter=self.scatter[:, some],
            gram=self.matrices.put(part.T @ part),
            samples=self.samples * neurons / width,
        )


def quadratic_forms(
    vectors: Float[Array, "K r"], matrix: Float[Array, "r r"]
) -> Float[Array, " K"]:
    """v^T matrix v for the rows v of ``vectors``."""
    return np.einsum("ka,ka->k", vectors @ matrix, vectors)
