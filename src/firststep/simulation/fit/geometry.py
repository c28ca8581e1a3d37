"""Newton's equations of the fit of a readout, in two ways to write the solution b.

With curvatures d of the losses, which are zero for some rows, H = F^T diag(d) F/n + 2 ridge:

    primal (n >= N)   unknown b; conjugate gradients while few products do, else one N x N
                      Cholesky factorisation, or as in the dual where fewer rows than N have
                      curvature
    dual   (n <  N)   unknown c, b = F^T c, f = K c with K = F F^T, formed once; by Woodbury one
                      factorisation of the size of the rows with curvature a step. A kernel is this
                      with its own K.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.linalg.blas
from scipy.linalg import lapack

from firststep.errors import NotConverged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firststep.typing import Array, Float, Int

ROWS = 1024  # handled at a time while a Hessian is summed up
PRODUCTS = 25  # with a Hessian: about the time of its factorisation at N = 1000
CHANCES = 3  # that are given to products before a fit does without
PRODUCTS_FROM = 200  # unknowns: below, a factorisation costs next to nothing


class Asked(NamedTuple):
    """Newton's equations: curvatures d, ridge, gradient, and the mean slope if it must vanish."""

    bends: Float[Array, " n"]
    ridge: float
    gradient: Float[Array, " k"]
    drift: float | None
    accuracy: float = 0.0  # of the residual of these equations, relative; 0: exact


class Geometry(ABC):
    """How b is written and how Newton's equations are solved."""

    def __init__(self, samples: int, unknowns: int) -> None:
        self.samples, self.unknowns = samples, unknowns

    @abstractmethod
    def predict(self, coordinates: Float[Array, " k"]) -> Float[Array, " n"]:
        """F b."""

    @abstractmethod
    def gradient(
        self, slopes: Float[Array, " n"], coordinates: Float[Array, " k"], ridge: float
    ) -> tuple[Float[Array, " k"], float]:
        """F^T m/n + 2 ridge b in the coordinates, and its squared norm."""

    @abstractmethod
    def newton(self, asked: Asked) -> tuple[Float[Array, " k"], float]:
        """Newton's step: of the coordinates, and of the constant (0 where it is not free)."""

    @abstractmethod
    def among(self, active: Int[Array, " A"]) -> Float[Array, "A A"]:
        """F F^T of some rows, in Fortran's order."""

    @abstractmethod
    def beside(self, active: Int[Array, " A"]) -> Float[Array, "n A"]:
        """F F^T of all rows with some."""

    @abstractmethod
    def squares(self) -> Float[Array, " n"]:
        """The diagonal of F F^T."""

    @abstractmethod
    def seen(self, active: Int[Array, " A"], coordinates: Float[Array, " k"]) -> Float[Array, " A"]:
        """F v on some rows, for v in the coordinates."""

    @abstractmethod
    def spread(self, active: Int[Array, " A"], weights: Float[Array, " A"]) -> Float[Array, " k"]:
        """Coordinates of F^T weights, of some rows."""

    def woodbury(self, asked: Asked) -> tuple[Float[Array, " k"], float]:
        """By the rows with curvature: with s = sqrt(d/(2 ridge n)) and A = 1 + s F F^T s on them,

        v = A^-1 s F gradient, u = A^-1 sqrt d, Schur complement of the constant sqrt(d).u/n,
        shift = (sqrt(d).v/sqrt(2 ridge n) - drift)/Schur, step = -(gradient - F^T s v)/(2 ridge) -
        shift F^T (u sqrt d)/(2 ridge n). Nothing is subtracted from what it nearly equals.
        """
        ridge, n = asked.ridge, self.samples
        active = np.flatnonzero(asked.bends)
        roots = np.sqrt(asked.bends[active])
        small = roots / np.sqrt(2 * ridge * n)
        if len(active) == 0:
            shift = 0.0 if asked.drift is None else -asked.drift / _floor(0.0, asked.drift)
            return -asked.gradient / (2 * ridge), shift
        matrix = self.among(active)
        matrix *= small[:, None]
        matrix *= small
        np.einsum("ii->i", matrix)[:] += 1.0
        factor = _cholesky(matrix)
        v, _ = lapack.dpotrs(factor, small * self.seen(active, asked.gradient), lower=1)
        shift, weights = 0.0, small * v
        if asked.drift is not None:
            u, _ = lapack.dpotrs(factor, roots, lower=1)
            schur = _floor(float(roots @ u) / n, asked.drift)
            shift = (float(roots @ v) / np.sqrt(2 * ridge * n) - asked.drift) / schur
            weights = weights - shift * roots * u / n
        return (self.spread(active, weights) - asked.gradient) / (2 * ridge), shift

    @abstractmethod
    def pull(self, weights: Float[Array, " n"]) -> Float[Array, " k"]:
        """Coordinates of F^T weights."""

    @abstractmethod
    def product(
        self, left: Float[Array, " k"], right: Float[Array, " k"], predicted: Float[Array, " n"]
    ) -> float:
        """<b, b'> of two coordinates, given F b'."""


class Primal(Geometry):
    """Coordinates are b."""

    def __init__(self, features: Float[Array, "n N"]) -> None:
        super().__init__(*features.shape)
        self._features = features
        self._chances = CHANCES if self.unknowns >= PRODUCTS_FROM else 0
        self._factor: Float[Array, "N N"] | None = None  # of an earlier Hessian

    def predict(self, coordinates: Float[Array, " k"]) -> Float[Array, " n"]:
        return self._features @ coordinates

    def gradient(
        self, slopes: Float[Array, " n"], coordinates: Float[Array, " k"], ridge: float
    ) -> tuple[Float[Array, " k"], float]:
        found = self.pull(slopes / self.samples) + 2 * ridge * coordinates
        return found, float(found @ found)

    def pull(self, weights: Float[Array, " n"]) -> Float[Array, " k"]:
        return weights @ self._features

    def product(
        self, left: Float[Array, " k"], right: Float[Array, " k"], predicted: Float[Array, " n"]
    ) -> float:
        return float(left @ right)

    def _by_products(self, asked: Asked) -> tuple[Float[Array, " k"], float] | None:
        """Conjugate gradients, in the metric of an earlier Hessian if there was one; none if they
        take longer than a factorisation.
        """
        free, n, width = asked.drift is not None, self.samples, self.unknowns
        weights = asked.bends / n
        residual = -np.append(asked.gradient, asked.drift if asked.drift is not None else 0.0)
        enough = asked.accuracy**2 * float(residual @ residual)
        step, way = np.zeros(width + 1), self._in_metric(residual, weights)
        square = float(residual @ way)
        for _ in range(PRODUCTS):
            seen = weights * (self._features @ way[:width] + way[width])
            image = np.append(self.pull(seen) + 2 * asked.ridge * way[:width], seen.sum() * free)
            bend = float(way @ image)
            if not bend > 0:
                return None
            step += (square / bend) * way
            residual -= (square / bend) * image
            if float(residual @ residual) <= enough:
                return step[:width], float(step[width])
            turned = self._in_metric(residual, weights)
            square, before = float(residual @ turned), square
            way = turned + (square / before) * way
        return None

    def _in_metric(
        self, residual: Float[Array, " k1"], weights: Float[Array, " n"]
    ) -> Float[Array, " k1"]:
        if self._factor is None:
            return residual.copy()
        inner, _ = lapack.dpotrs(self._factor, residual[:-1], lower=1)
        return np.append(inner, residual[-1] / max(float(weights.sum()), 1e-300))

    def among(self, active: Int[Array, " A"]) -> Float[Array, "A A"]:
        rows = self._features[active]
        return scipy.linalg.blas.dsyrk(1.0, rows.T, trans=1, lower=1)

    def beside(self, active: Int[Array, " A"]) -> Float[Array, "n A"]:
        return self._features @ self._features[active].T

    def squares(self) -> Float[Array, " n"]:
        return np.einsum("ij,ij->i", self._features, self._features)

    def seen(self, active: Int[Array, " A"], coordinates: Float[Array, " k"]) -> Float[Array, " A"]:
        return (self._features @ coordinates)[active]

    def spread(self, active: Int[Array, " A"], weights: Float[Array, " A"]) -> Float[Array, " k"]:
        return self.pull(_placed(active, weights, self.samples))

    def factor(self, bends: Float[Array, " n"], ridge: float) -> Float[Array, "N N"]:
        """The lower Cholesky factor of H = F^T diag(d) F/n + 2 ridge."""
        active = np.flatnonzero(bends)
        hessian = np.zeros((self.unknowns, self.unknowns), order="F")
        for first in range(0, len(active), ROWS):
            some = active[first : first + ROWS]
            rows = self._features[some] * np.sqrt(bends[some] / self.samples)[:, None]
            hessian = scipy.linalg.blas.dsyrk(
                1.0, rows.T, beta=1.0, c=hessian, lower=1, overwrite_c=1
            )
        np.einsum("ii->i", hessian)[:] += 2 * ridge
        return _cholesky(hessian)

    def rows(self) -> Iterator[tuple[slice, Float[Array, "rows N"]]]:
        """The features, some at a time."""
        for first in range(0, self.samples, ROWS):
            some = slice(first, first + ROWS)
            yield some, self._features[some]

    def newton(self, asked: Asked) -> tuple[Float[Array, " k"], float]:
        """By products with H while they are few, else from H itself, or by the rows with curvature
        where these are fewer than the unknowns.
        """
        if self._chances > 0 and asked.accuracy > 0:
            found = self._by_products(asked)
            if found is not None:
                return found
            self._chances -= 1  # smaller ridges need more of them
        active = np.flatnonzero(asked.bends)
        if len(active) <= self.unknowns:
            return self.woodbury(asked)
        factor = self.factor(asked.bends, asked.ridge)
        self._factor = factor if self._chances > 0 else None
        inner, _ = lapack.dpotrs(factor, asked.gradient, lower=1)
        if asked.drift is None:
            return -inner, 0.0
        beside = self.pull(asked.bends / self.samples)
        other, _ = lapack.dpotrs(factor, beside, lower=1)
        schur = _floor(float(asked.bends.mean() - beside @ other), asked.drift)
        shift = (float(beside @ inner) - asked.drift) / schur
        return -(inner + shift * other), shift


class Dual(Geometry):
    """Coordinates are c, b = F^T c; K = F F^T, or a kernel."""

    def __init__(self, gram: Float[Array, "n n"]) -> None:
        super().__init__(len(gram), len(gram))
        self._gram = gram

    def predict(self, coordinates: Float[Array, " k"]) -> Float[Array, " n"]:
        return self._gram @ coordinates

    def gradient(
        self, slopes: Float[Array, " n"], coordinates: Float[Array, " k"], ridge: float
    ) -> tuple[Float[Array, " k"], float]:
        found = slopes / self.samples + 2 * ridge * coordinates
        return found, float(found @ (self._gram @ found))

    def pull(self, weights: Float[Array, " n"]) -> Float[Array, " k"]:
        return weights

    def product(
        self, left: Float[Array, " k"], right: Float[Array, " k"], predicted: Float[Array, " n"]
    ) -> float:
        return float(left @ predicted)

    def among(self, active: Int[Array, " A"]) -> Float[Array, "A A"]:
        return np.asfortranarray(self._gram[np.ix_(active, active)])

    def beside(self, active: Int[Array, " A"]) -> Float[Array, "n A"]:
        return self._gram[:, active]

    def squares(self) -> Float[Array, " n"]:
        return self._gram.diagonal()

    def seen(self, active: Int[Array, " A"], coordinates: Float[Array, " k"]) -> Float[Array, " A"]:
        return self._gram[active] @ coordinates

    def spread(self, active: Int[Array, " A"], weights: Float[Array, " A"]) -> Float[Array, " k"]:
        return _placed(active, weights, self.samples)

    def newton(self, asked: Asked) -> tuple[Float[Array, " k"], float]:
        return self.woodbury(asked)


def _placed(
    active: Int[Array, " A"], weights: Float[Array, " A"], samples: int
) -> Float[Array, " n"]:
    """Weights of some rows among those of all."""
    found = np.zeros(samples)
    found[active] = weights
    return found


def _floor(schur: float, drift: float) -> float:
    """Where there is next to no curvature, the constant moves by ten at most."""
    return max(schur, 0.1 * abs(drift), 1e-300)


def _cholesky(matrix: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """The lower factor, in place."""
    factor, info = lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
    if info:
        raise NotConverged("the fit of the readout failed: the features or the kernel are not fit")
    return factor


def geometry_of(features: Float[Array, "n N"]) -> Geometry:
    """Of the smaller side of the features."""
    samples, width = features.shape
    if samples >= width:
        return Primal(features)
    gram = scipy.linalg.blas.dsyrk(1.0, features.T, trans=1, lower=1)
    gram += np.tril(gram, -1).T
    return Dual(gram)
