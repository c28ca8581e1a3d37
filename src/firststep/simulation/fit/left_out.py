"""What a fit would predict at each of its rows without that row: approximate leave-one-out.

With m = l'(y, f) and d = l'' at the fit, n rows and the penalty n ridge |b|^2 kept as it is, the
other rows hold the prediction at row i by

    u_i = phi_i^T (sum over j != i of d_j phi_j phi_j^T + 2 n ridge)^-1 phi_i

so that f_i is the proximal point of l from f without the row at the leverage V_i = 2 u_i
(``losses``), and

    f without row i = f_i - V_i g_i = f_i + u_i m_i,    u = h/(1 - d h),

h with all rows in the sum.

That is exact for the square loss. For another one the curvatures d of the other rows are those of
the whole fit (Rad and Maleki 2020). On a kink d is infinite: the row pins its own prediction, and m
is the subgradient in balance (Wang et al. 2018). In the second form, with the rows A of curvature,
D = diag(d_A), K = F F^T, P = (K_AA + 2 n ridge D^-1)^-1 and a free constant, not penalised:

    primal (n >= N)   h = phi^T H^-1 phi/n + (1 - phi^T g)^2/(n s), H as in ``fit.geometry``,
                      g = H^-1 F^T d/n,  s = mean d - (F^T d/n).g
    by rows           in A:      2 n ridge (u_i + 1/d_i) = 1/(P - P 1 1^T P/(1^T P 1))_ii
                      others:    2 n ridge u_i = K_ii - k_i^T P k_i + (1 - k_i^T P 1)^2/(1^T P 1)

Where fewer than two rows have curvature nothing holds the constant, and it is taken as given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import lapack

from firststep.errors import NotConverged
from firststep.simulation.fit.geometry import Geometry, Primal

if TYPE_CHECKING:
    from firststep.typing import Array, Float, Int

# Of K_ii, added where d is infinite: rows that are copies of each other pin the same number twice.
JITTER = 1e-9
# 1 - d h, or what is left of P_ii, below this times precision is what rounding leaves of 0
SMALLEST_GAP = 1000 * float(np.finfo(float).eps)


class Held(NamedTuple):
    """What holds the predictions of a fit: curvatures, ridge, and whether a constant is free."""

    bends: Float[Array, " n"]
    ridge: float
    intercept: bool


def half_leverages(geometry: Geometry, held: Held) -> Float[Array, " n"]:
    """u = V/2 of every row; infinite where nothing but the row itself holds its prediction."""
    active = np.flatnonzero(held.bends)
    smooth = bool(np.all(np.isfinite(held.bends)))
    if isinstance(geometry, Primal) and smooth and len(active) > geometry.unknowns:
        return _by_hessian(geometry, held)
    return _by_rows(geometry, held, active)


def _by_hessian(geometry: Primal, held: Held) -> Float[Array, " n"]:
    """From one factor of H."""
    n, bends = geometry.samples, held.bends
    factor = geometry.factor(bends, held.ridge)
    h = np.empty(n)
    for some, rows in geometry.rows():
        turned, _ = lapack.dtrtrs(factor, rows.T, lower=1)
        h[some] = np.einsum("ij,ij->j", turned, turned)
    if held.intercept:
        beside = geometry.pull(bends / n)
        g, _ = lapack.dpotrs(factor, beside, lower=1)
        mean = float(bends.mean())
        schur = mean - float(beside @ g)
        if schur > SMALLEST_GAP * mean:
            h += (1 - geometry.predict(g)) ** 2 / schur
    h /= n
    gap = 1 - bends * h
    return np.where(gap > SMALLEST_GAP, h / np.where(gap > SMALLEST_GAP, gap, 1.0), np.inf)


def _by_rows(geometry: Geometry, held: Held, active: Int[Array, " A"]) -> Float[Array, " n"]:
    """From one factor of the size of the rows with curvature, in a scale of its own a row."""
    penalty = 2 * geometry.samples * held.ridge
    squares = geometry.squares()
    u = squares.copy()
    if len(active):
        bends = held.bends[active]
        loose = np.where(np.isinf(bends), JITTER * squares[active], penalty / bends)
        system = _System.of(geometry, active, loose)
        free = held.intercept and len(active) > 1
        u[active] = system.own(free) - np.where(np.isinf(bends), 0.0, loose)
        others = np.setdiff1d(np.arange(geometry.samples), active, assume_unique=True)
        if len(others):
            u[others] -= system.taken(geometry.beside(active)[others], free)
    return np.maximum(u, 0.0) / penalty


class _System(NamedTuple):
    """P = (K_AA + loose)^-1 = t M t with a factor of M^-1, whose diagonal is 1."""

    factor: Float[Array, "A A"]
    scale: Float[Array, " A"]  # t
    total: Float[Array, " A"]  # P 1

    @classmethod
    def of(cls, geometry: Geometry, active: Int[Array, " A"], loose: Float[Array, " A"]) -> _System:
        matrix = geometry.among(active)
        np.einsum("ii->i", matrix)[:] += loose
        scale = 1 / np.sqrt(np.maximum(matrix.diagonal(), 1e-300))
        matrix *= scale[:, None]
        matrix *= scale
        factor, info = lapack.dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
        if info:
            raise NotConverged("leave-one-out failed: rows of the fit cannot be told apart")
        total, _ = lapack.dpotrs(factor, scale, lower=1)
        return cls(factor, scale, scale * total)

    def own(self, free: bool) -> Float[Array, " A"]:
        """1/P_ii, with a free constant 1/(P - P 1 1^T P/(1^T P 1))_ii."""
        inverse, _ = lapack.dpotri(np.array(self.factor, order="F"), lower=1)
        diagonal = inverse.diagonal() * self.scale**2
        if free:
            left = diagonal - self.total**2 / self.total.sum()
            sound = left > SMALLEST_GAP * diagonal
            return np.where(sound, 1 / np.where(sound, left, 1.0), np.inf)
        return 1 / diagonal

    def taken(self, beside: Float[Array, "rows A"], free: bool) -> Float[Array, " rows"]:
        """k^T P k, with a free constant less (1 - k^T P 1)^2/(1^T P 1)."""
        turned, _ = lapack.dtrtrs(self.factor, (beside * self.scale).T, lower=1)
        found = np.einsum("ij,ij->j", turned, turned)
        if free:
            found -= (1 - beside @ self.total) ** 2 / self.total.sum()
        return found
