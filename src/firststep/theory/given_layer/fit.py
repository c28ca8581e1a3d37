"""The fixed point of the ridge fit of one given first layer.

Given the k coordinates kappa = V^T x of an input along some directions, neuron i is
mu0 + mu1 <w_i, x_perp> + sqrt(mu2) xi_i, and the teacher is
h0 + sum_j h1_j <zeta_j, x_perp> + the rest, E[y^2 | kappa] = h2. With the matrices Sigma_k of
``layer`` the fit on n samples (features without 1/sqrt N, a standing for a/sqrt N) is described by

    A    = sum_k S_k Sigma_k + lam,  S_k = omega_k s_k,  s_k = 1/(1 + V_k)
    V_k  = (1/n) Tr(Sigma_k A^-1)                                                              (1)
    a    = A^-1 sum_k S_k [ mu0_k h0_k + sum_j h1_kj (mu1_k o W_perp^T zeta_j) ]               (2)
    m_k  = mu0_k.a,  t_kj = (mu1_k o W_perp^T zeta_j).a,  q_k = a^T [Sigma_k - mu0_k mu0_k^T] a
    edet = h2 - 2 m h0 + m^2 - 2 sum_j t_j h1_j + q
    e    = edet + Q diag(omega s^2) e,  Q_kl = (1/n) Tr(Sigma_k A^-1 Sigma_l A^-1)             (3)

and the test error is sum_k omega_k e_k, the training error sum_k omega_k s_k^2 e_k, both with the
label noise. This module solves (1), ``risk`` does (2) and (3); ``loss_fit`` has the equations of
other losses.

For n < N the same equations are solved for s/lam and A/lam, so that lam = 0 is allowed: below
A = tau + sum_k S_k Sigma_k and s_k = 1/(offset + V_k), with (offset, tau) = (1, lam) or (lam, 1).

Work: one inverse of an N x N matrix for every evaluation of V, two products of such matrices for
every product with Q. Both are kept few by a small copy of the layer (some neurons, some
coordinates), whose solution is the first guess and whose Q is the Jacobian; it decides the number
of iterations and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firststep.errors import NotConverged
from firststep.theory.given_layer.layer import Layer

if TYPE_CHECKING:
    from firststep.typing import Array, Float

TOLERANCE = 1e-5  # of every offset + V_k, relative: the risk feels about as much
ROUGH = 1e-4  # the same for the small copy, whose solution is a guess
MOST_EVALUATIONS = 60  # of V: ten times what a layer that converges needs
NEAR_PEAK = (
    "the equations of this layer did not converge: near n = N a small ridge makes the risk "
    "diverge; try a larger ridge"
)
_MEMORY = 5  # moves that Anderson's step combines: more make its least squares ill
_LARGEST_MOVE = 2.0  # of a logarithm in one step
_FUNCTIONS = 10  # leading functions of mu0 and mu1 whose products V is made of
_SOME_NEURONS = 32  # whose mu2 stand for all
_SPAN = 24  # functions in the basis of the Jacobian, each of which costs two products


@dataclass(frozen=True)
class Scaling:
    """s_k = 1/(offset + V_k), A = tau + sum S_k Sigma_k."""

    offset: float
    tau: float

    @classmethod
    def of(cls, layer: Layer, ridge: float) -> Scaling:
        """The one in which nothing diverges."""
        return cls(ridge, 1.0) if layer.samples < layer.width else cls(1.0, ridge)


class Jacobian:
    """Q ~ Psi Qm Psi^T of the small copy, Psi spanning the functions of kappa that V can be."""

    def __init__(self, layer: Layer, inverse: Float[Array, "N N"]) -> None:
        self._root = np.sqrt(layer.omega)
        root = self._root[:, None]
        blocks = []
        for part in (layer.slope, layer.mean):
            sizes = np.linalg.norm(layer.matrices.get(part.neurons), axis=1)
            keep = np.argsort(sizes)[::-1][:_FUNCTIONS]
            first, second = (keep[places] for places in np.triu_indices(len(keep)))
            columns = part.nodes[:, first] * part.nodes[:, second]
            blocks.append(columns * (sizes[first] * sizes[second]))
        scatter = layer.matrices.get(layer.scatter)
        blocks.append(scatter[:, :: max(1, scatter.shape[1] // _SOME_NEURONS)])
        scaled = [root * b / max(float(np.linalg.norm(root * b)), 1e-300) for b in blocks]
        vectors, values, _ = np.linalg.svd(np.concatenate(scaled, axis=1), full_matrices=False)
        # Orthonormal; Psi = basis/root.
        self._basis = vectors[:, values > 1e-3 * values[0]][:, :_SPAN]
        products = [layer.response(inverse, self._root * column) for column in self._basis.T]
        self._small = self._basis.T @ (root * np.stack(products, axis=1))  # root Q root

    def solve(
        self, left: Float[Array, " K"], right: Float[Array, " K"], vector: Float[Array, " K"]
    ) -> Float[Array, " K"]:
        """(I - diag(left) Q diag(right))^-1 vector."""
        tall = (left / self._root)[:, None] * self._basis @ self._small
        wide = self._basis.T * (right / self._root)
        inner = np.eye(tall.shape[1]) - wide @ tall
        return vector + tall @ np.linalg.solve(inner, wide @ vector)


@dataclass(frozen=True)
class Fixed:
    """The solution of (1)."""

    level: Float[Array, " K"]  # offset + V_k
    inverse: Float[Array, "N N"]  # A^-1
    residual: float
    evaluations: int

    @property
    def shrinkage(self) -> Float[Array, " K"]:
        """s_k (over lam if n < N)."""
        return 1 / self.level


def solve(
    layer: Layer,
    scaling: Scaling,
    start: Float[Array, " K"],
    jacobian: Jacobian | None,
    tolerance: float = TOLERANCE,
) -> Fixed:
    """x = log(offset + V(omega exp(-x))) by quasi-Newton steps, with Anderson's mixing."""
    x = np.log(start)
    history: list[tuple[Float[Array, " K"], Float[Array, " K"]]] = []
    for count in range(1, MOST_EVALUATIONS + 1):
        weights = layer.omega * np.exp(-x)
        inverse = layer.inverse(weights, scaling.tau)
        level = scaling.offset + layer.traces(inverse)
        if not np.all(np.isfinite(level)) or level.min() <= 0:
            break
        gap = np.log(level) - x
        residual = float(np.abs(gap).max())
        if residual <= tolerance:
            return Fixed(np.exp(x), inverse, residual, count)
        move = gap if jacobian is None else jacobian.solve(1 / level, weights, gap)
        history = [*history[-_MEMORY:], (x, move)]
        x = x + np.clip(_mixed(history, layer.omega), -_LARGEST_MOVE, _LARGEST_MOVE)
    raise NotConverged(NEAR_PEAK)


def _mixed(
    history: list[tuple[Float[Array, " K"], Float[Array, " K"]]], omega: Float[Array, " K"]
) -> Float[Array, " K"]:
    """Anderson's step: the combination of past moves that is smallest in the mean square."""
    x, move = history[-1]
    if len(history) == 1:
        return move
    moves = np.stack([move - each for _, each in history[:-1]], axis=1)
    places = np.stack([x - each for each, _ in history[:-1]], axis=1)
    root = np.sqrt(omega)[:, None]
    share = np.linalg.lstsq(root * moves, root[:, 0] * move, rcond=1e-6)[0]
    return move - (moves + places) @ share


def first_guess(layer: Layer, scaling: Scaling) -> Float[Array, " K"]:
    """level = offset + ratio t/(tau + t/level), ratio = N/n: as if every Sigma_k were t."""
    offset, tau, nodes = scaling.offset, scaling.tau, len(layer.omega)
    ratio = layer.width / layer.samples
    if tau == 0:
        return np.full(nodes, offset / max(1 - ratio, 1e-3))
    t = float(layer.omega @ layer.traces(layer.matrices.put(np.eye(layer.width)))) / ratio
    b = offset * tau + ratio * t - t
    level = (b + np.sqrt(b * b + 4 * tau * t * offset)) / (2 * tau)
    return np.full(nodes, max(level, offset, 1e-12))
