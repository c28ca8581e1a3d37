"""The ridge equations of one given first layer.

Given the k coordinates kappa = V^T x of an input along some directions, neuron i is mu0 + mu1 <w_i, x_perp> + sqrt(mu2) xi_i, and
the teacher is h0 + sum_j h1_j <zeta_j, x_perp> + rest, E[y^2 | kappa] = h2. On nodes kappa_k of weight omega_k, with the N x N
matrices

    Sigma_k = (W_perp^T W_perp) o mu1_k mu1_k^T + diag(mu2_k) + mu0_k mu0_k^T

the fit on n samples (features without 1/sqrt N, a standing for a/sqrt N) is described by

    A    = sum_k S_k Sigma_k + lam,  S_k = omega_k s_k,  s_k = 1/(1 + V_k),  V_k = (1/n) Tr(Sigma_k A^-1)                        (1)
    a    = A^-1 sum_k S_k [ mu0_k h0_k + sum_j h1_kj (mu1_k o W_perp^T zeta_j) ]                                                 (2)
    m_k  = mu0_k.a,  t_kj = (mu1_k o W_perp^T zeta_j).a,  q_k = a^T [Sigma_k - mu0_k mu0_k^T] a
    edet = h2 - 2 m h0 + m^2 - 2 sum_j t_j h1_j + q
    e    = edet + Q diag(omega s^2) e,  Q_kl = (1/n) Tr(Sigma_k A^-1 Sigma_l A^-1)                                               (3)

and the test error is sum_k omega_k e_k, the training error sum_k omega_k s_k^2 e_k, both with the label noise.

For n < N the same equations are solved for s/lam and A/lam, so that lam = 0 is allowed: below A = tau + sum_k S_k Sigma_k and
s_k = 1/(offset + V_k), with (offset, tau) = (1, lam) or (lam, 1).

Work: one inverse of an N x N matrix for every evaluation of V, two products of such matrices for every product with Q. Both are
kept few by a small copy of the layer (some neurons, some coordinates), whose solution is the first guess and whose Q is the
Jacobian; it decides the number of iterations and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg import lapack

from firststep.errors import NotConverged

Array = NDArray[np.float64]
TOLERANCE = 1e-5  # of every offset + V_k, relative
LAST_STEP = 5e-3  # how much of the risk the last step, which is not checked, may change: it leaves about the square of that
MOST_EVALUATIONS = 60
MOST_PRODUCTS = 40
SMALL = 320  # neurons of the small copy, at least
NEAR_PEAK = "the equations of this layer did not converge: near n = N a small ridge makes the risk diverge; try a larger ridge"
NOT_POSITIVE = (
    "a matrix of the layer is not positive definite: the ridge is too small for these weights"
)


class Matrices:
    """The few operations on N x N matrices that NumPy and JAX do differently. This one is NumPy's."""

    xp: Any = np

    def put(self, array: Any) -> Any:
        return np.asarray(array, dtype=np.float64)

    def get(self, array: Any) -> Array:
        return np.asarray(array)

    def inverse(self, matrix: Any) -> Any:
        """The inverse of a symmetric positive definite matrix, which is used up."""
        factor, info = lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
        if info == 0:
            factor, info = lapack.dpotri(factor, lower=1, overwrite_c=1)
        if info:
            raise NotConverged(NOT_POSITIVE)
        return _symmetric(factor.T)

    def plus_diagonal(self, matrix: Any, values: Any) -> Any:
        """matrix + diag(values), or + values times the identity; the matrix is used up."""
        np.einsum("ii->i", matrix)[:] += values
        return matrix

    def symmetric_product(self, left: Any, right: Any) -> Any:
        """left @ right, which is known to be symmetric: only the blocks on and above the diagonal are computed."""
        product = np.empty_like(left)
        size = len(left)
        block = max(256, -(-size // 8))
        for start in range(0, size, block):
            np.matmul(
                left[start : start + block],
                right[:, start:],
                out=product[start : start + block, start:],
            )
        return _symmetric(product)


def _symmetric(matrix: Array, block: int = 256) -> Array:
    """Copies the upper triangle to the lower one, in place."""
    for start in range(0, len(matrix), block):
        stop = start + block
        square = matrix[start:stop, start:stop]
        square[:] = np.triu(square) + np.triu(square, 1).T
        matrix[stop:, start:stop] = matrix[start:stop, stop:].T
    return matrix


class DeviceMatrices(Matrices):
    """The same on a JAX device; to be used where JAX is in double precision."""

    def __init__(self, jax: Any) -> None:
        self.xp, self._linalg = jax.numpy, jax.scipy.linalg

    def put(self, array: Any) -> Any:
        return self.xp.asarray(array, dtype=self.xp.float64)

    def inverse(self, matrix: Any) -> Any:
        linalg = self._linalg
        inverse = linalg.cho_solve(linalg.cho_factor(matrix, lower=True), self.xp.eye(len(matrix)))
        if not bool(self.xp.isfinite(inverse[0, 0])):
            raise NotConverged(NOT_POSITIVE)
        return (inverse + inverse.T) / 2

    def plus_diagonal(self, matrix: Any, values: Any) -> Any:
        return matrix + self.xp.diag(self.xp.broadcast_to(values, (len(matrix),)))

    def symmetric_product(self, left: Any, right: Any) -> Any:
        return left @ right


@dataclass(frozen=True)
class LowRank:
    """A matrix M[k, i] as nodes @ neurons, to about 1e-8 of its size in the metric sqrt(omega_k)."""

    nodes: Array  # K x r
    neurons: Any  # r x N

    @classmethod
    def of(cls, matrix: Array, omega: Array) -> LowRank:
        root = np.sqrt(omega)[:, None]
        weighted = root * matrix
        count = len(omega)
        if count <= 400:
            values, vectors = scipy.linalg.eigh(weighted @ weighted.T)
            basis = vectors[:, values > 1e-15 * max(values[-1], 1e-300)]
        else:
            basis = _range(weighted)
        if basis.shape[1] >= count:
            return cls(np.eye(count), matrix)
        return cls(basis / root, basis.T @ weighted)


def _range(matrix: Array) -> Array:
    """An orthonormal basis of the columns, from products with fixed test vectors; grown until nothing is left."""
    generator = np.random.default_rng(0)
    size = max(float(np.linalg.norm(matrix)), 1e-300)
    width = 48
    while True:
        width = min(width, matrix.shape[0])
        basis = np.linalg.qr(matrix @ generator.standard_normal((matrix.shape[1], width)))[0]
        if width == matrix.shape[0]:
            return basis
        left = matrix - basis @ (basis.T @ matrix)
        if float(np.linalg.norm(left)) <= 1e-8 * size:
            small, values, _ = np.linalg.svd(basis.T @ matrix, full_matrices=False)
            return np.asarray(basis @ small[:, values > 1e-8 * values[0]])
        width *= 2


@dataclass(frozen=True)
class Layer:
    """What the equations need of a first layer: everything given kappa, and the Gram matrix across it."""

    matrices: Matrices
    omega: Array  # K
    mean: LowRank  # mu0
    slope: LowRank  # mu1
    rest: Any  # mu2, K x N
    gram: Any  # W_perp^T W_perp, N x N
    samples: float  # n

    def mix(self, weights: Array) -> Any:
        """sum_k weights_k Sigma_k, a new matrix."""
        put = self.matrices.put
        inner = [
            put(each.nodes.T @ (weights[:, None] * each.nodes)) for each in (self.slope, self.mean)
        ]
        total = (self.slope.neurons.T @ inner[0]) @ self.slope.neurons
        total *= self.gram
        total += (self.mean.neurons.T @ inner[1]) @ self.mean.neurons
        return self.matrices.plus_diagonal(total, put(weights) @ self.rest)

    def traces(self, matrix: Any) -> Array:
        """(1/n) Tr(Sigma_k matrix) for every k."""
        get = self.matrices.get
        along = get(self.mean.neurons @ (matrix @ self.mean.neurons.T))
        across = get(self.slope.neurons @ ((matrix * self.gram) @ self.slope.neurons.T))
        diagonal = get(self.rest @ self.matrices.xp.diagonal(matrix))
        total = _forms(self.mean.nodes, along) + _forms(self.slope.nodes, across) + diagonal
        return np.asarray(total / self.samples)

    def inverse(self, weights: Array, tau: float) -> Any:
        """A^-1, A = tau + sum_k weights_k Sigma_k."""
        return self.matrices.inverse(self.matrices.plus_diagonal(self.mix(weights), tau))

    def response(self, inverse: Any, weights: Array) -> Array:
        """Q weights."""
        return self.traces(self.matrices.symmetric_product(inverse @ self.mix(weights), inverse))

    def small(self, neurons: int, weights: Array, seed: int = 0) -> Layer:
        """The layer of some neurons and as large a share of the coordinates of ``weights`` (d x N, without the directions)."""
        dimension, width = weights.shape
        generator = np.random.default_rng(seed)
        some = np.sort(generator.choice(width, neurons, replace=False))
        kept = max(1, round(dimension * neurons / width))
        coordinates = np.sort(generator.choice(dimension, kept, replace=False))
        part = weights[np.ix_(coordinates, some)] * np.sqrt(dimension / kept)
        gram = self.matrices.put(part.T @ part)
        mean, slope = (
            LowRank(each.nodes, each.neurons[:, some]) for each in (self.mean, self.slope)
        )
        return Layer(
            self.matrices,
            self.omega,
            mean,
            slope,
            self.rest[:, some],
            gram,
            self.samples * neurons / width,
        )


def _forms(vectors: Array, matrix: Array) -> Array:
    """v^T matrix v for the rows v of ``vectors``."""
    return np.asarray(np.einsum("ka,ka->k", vectors @ matrix, vectors))


@dataclass(frozen=True)
class Scaling:
    """s_k = 1/(offset + V_k), A = tau + sum S_k Sigma_k."""

    offset: float
    tau: float


class Jacobian:
    """Q of the small copy of a layer, on the span Psi of the functions of kappa that V can be: Q ~ Psi Qm Psi^T."""

    def __init__(self, layer: Layer, inverse: Any) -> None:
        root = np.sqrt(layer.omega)[:, None]
        blocks = []
        for part in (layer.slope, layer.mean):
            sizes = np.linalg.norm(layer.matrices.get(part.neurons), axis=1)
            keep = np.argsort(sizes)[::-1][:10]
            first, second = np.triu_indices(len(keep))
            first, second = keep[first], keep[second]
            columns = part.nodes[:, first] * part.nodes[:, second] * (sizes[first] * sizes[second])
            blocks.append(columns)
        rest = layer.matrices.get(layer.rest)
        blocks.append(rest[:, :: max(1, rest.shape[1] // 32)])
        scaled = [root * b / max(float(np.linalg.norm(root * b)), 1e-300) for b in blocks]
        vectors, values, _ = np.linalg.svd(np.concatenate(scaled, axis=1), full_matrices=False)
        self._basis = vectors[:, values > 1e-3 * values[0]][:, :24]  # orthonormal; Psi = basis/root
        products = np.stack(
            [root[:, 0] * layer.response(inverse, root[:, 0] * column) for column in self._basis.T],
            axis=1,
        )
        self._small = self._basis.T @ products  # root Q root on the basis
        self._root = root[:, 0]

    def solve(self, left: Array, right: Array, vector: Array) -> Array:
        """(I - diag(left) Q diag(right))^-1 vector."""
        tall = (left / self._root)[:, None] * self._basis @ self._small
        wide = self._basis.T * (right / self._root)
        inner = np.eye(tall.shape[1]) - wide @ tall
        return np.asarray(vector + tall @ np.linalg.solve(inner, wide @ vector))


@dataclass(frozen=True)
class Fixed:
    """The solution of (1)."""

    level: Array  # offset + V_k
    inverse: Any  # A^-1
    residual: float
    evaluations: int

    @property
    def shrinkage(self) -> Array:
        """s_k (over lam if n < N)."""
        return 1 / self.level


def solve(
    layer: Layer,
    scaling: Scaling,
    start: Array,
    jacobian: Jacobian | None,
    tolerance: float = TOLERANCE,
) -> Fixed:
    """x = log(offset + V(omega exp(-x))) by quasi-Newton steps, with Anderson mixing over the last five."""
    x = np.log(start)
    history: list[tuple[Array, Array]] = []
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
        history = [*history[-5:], (x, move)]
        x = x + np.clip(_mixed(history, layer.omega), -2.0, 2.0)
    raise NotConverged(NEAR_PEAK)


def _mixed(history: list[tuple[Array, Array]], omega: Array) -> Array:
    """Anderson's step from the last point: the combination of past moves that is smallest in the mean square."""
    x, move = history[-1]
    if len(history) == 1:
        return move
    moves = np.stack([move - each for _, each in history[:-1]], axis=1)
    places = np.stack([x - each for each, _ in history[:-1]], axis=1)
    root = np.sqrt(omega)[:, None]
    share = np.linalg.lstsq(root * moves, root[:, 0] * move, rcond=1e-6)[0]
    return np.asarray(move - (moves + places) @ share)


def first_guess(layer: Layer, scaling: Scaling) -> Array:
    """level = offset + ratio t/(tau + t/level), ratio = N/n: V if every Sigma_k were t times the identity, t its mean diagonal."""
    ratio = layer.gram.shape[0] / layer.samples
    t = float(layer.omega @ layer.traces(layer.matrices.put(np.eye(layer.gram.shape[0])))) / ratio
    if scaling.tau == 0:
        return np.full(len(layer.omega), scaling.offset / max(1 - ratio, 1e-3))
    b = scaling.offset * scaling.tau + ratio * t - t
    level = (b + np.sqrt(b * b + 4 * scaling.tau * t * scaling.offset)) / (2 * scaling.tau)
    return np.full(len(layer.omega), max(level, scaling.offset, 1e-12))


class Solver:
    """Solves one layer for several ridges: the small copy is made once, and solved first for each of them."""

    def __init__(self, layer: Layer, across: Array) -> None:
        """``across``: the weights without their part along the directions, d x N."""
        self.layer = layer
        width = across.shape[1]
        neurons = max(SMALL, width // 4)
        self.small = layer.small(neurons, across) if width > 1.5 * neurons else None

    def __call__(self, ridge: float, target: tuple[Array, Array, Array], along: Any) -> Solution:
        """(1) to (3) for one ridge; target = h0 (K), h1 (K x J), h2 (K), along = zeta_j^T W_perp (J x N)."""
        layer = self.layer
        over = layer.samples < layer.gram.shape[0]
        scaling = Scaling(ridge, 1.0) if over else Scaling(1.0, ridge)
        jacobian, start = None, first_guess(self.small or layer, scaling)
        if self.small is not None:
            rough = solve(self.small, scaling, start, None, 1e-4)
            jacobian, start = Jacobian(self.small, rough.inverse), rough.level
        fixed = solve(layer, scaling, start, jacobian)
        learned, linear, edet = deterministic_errors(layer, fixed, target, along)
        error, products = amplified(layer, fixed, jacobian, edet)
        shrinkage = fixed.shrinkage * ridge if over else fixed.shrinkage
        return Solution(
            error, shrinkage, learned, linear, fixed.residual, fixed.evaluations, products
        )


@dataclass(frozen=True)
class Solution:
    """Errors and functions on the nodes, for one ridge."""

    error: Array  # e_k, with the label noise
    shrinkage: Array  # s_k
    learned: Array  # m_k
    linear: Array  # t_kj
    residual: float
    evaluations: int  # of V
    products: int  # with Q


def deterministic_errors(
    layer: Layer, fixed: Fixed, target: tuple[Array, Array, Array], along: Any
) -> tuple[Array, Array, Array]:
    """m_k, t_kj and edet_k."""
    get, put = layer.matrices.get, layer.matrices.put
    h0, h1, h2 = target
    weights = layer.omega * fixed.shrinkage
    right = put((weights * h0) @ layer.mean.nodes) @ layer.mean.neurons
    slopes = put((weights[:, None] * h1).T @ layer.slope.nodes) @ layer.slope.neurons  # J x N
    a = fixed.inverse @ (right + (slopes * along).sum(axis=0))
    learned = layer.mean.nodes @ get(layer.mean.neurons @ a)
    linear = layer.slope.nodes @ get(layer.slope.neurons @ (along * a).T)
    scaled = layer.slope.neurons * a
    across = _forms(layer.slope.nodes, get((scaled @ layer.gram) @ scaled.T))
    square = across + get(layer.rest @ (a * a))
    return (
        learned,
        linear,
        h2 - 2 * learned * h0 + learned**2 - 2 * (linear * h1).sum(axis=1) + square,
    )


def amplified(
    layer: Layer, fixed: Fixed, jacobian: Jacobian | None, edet: Array
) -> tuple[Array, int]:
    """e of (3) by conjugate gradients for f = sqrt(D) e, D = omega s^2: (I - sqrt D Q sqrt D) f = sqrt D edet.

    They stop when what a step of the small copy's Jacobian would still change of sum omega e is small, and that step is taken: it
    needs no product. (Without a small copy the steps are those of the identity, and what is left must be smaller.)
    """
    root = np.sqrt(layer.omega) * fixed.shrinkage

    def product(vector: Array) -> Array:
        return vector - root * layer.response(fixed.inverse, root * vector)

    def condition(vector: Array) -> Array:
        return vector if jacobian is None else jacobian.solve(root, root, vector)

    right = root * edet
    size = float(np.linalg.norm(right))
    functional = condition(
        np.sqrt(layer.omega) / fixed.shrinkage
    )  # of what is left, to sum omega e
    f = condition(right)
    left = right - product(f)
    count = 1
    direction = image = condition(left)
    norm = float(left @ image)
    while True:
        total = float(layer.omega @ (f / root))
        change = max(
            abs(float(functional @ left) / total), 0.25 * float(np.linalg.norm(left)) / size
        )
        if change <= (LAST_STEP if jacobian is not None else LAST_STEP**2):
            return (f + image) / root, count
        if count >= MOST_PRODUCTS:
            raise NotConverged(NEAR_PEAK)
        moved = product(direction)
        count += 1
        step = norm / float(direction @ moved)
        f, left = f + step * direction, left - step * moved
        image = condition(left)
        before, norm = norm, float(left @ image)
        direction = image + norm / before * direction
