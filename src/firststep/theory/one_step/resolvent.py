"""The bulk of the trained weights: the deterministic equivalent of its resolvent, and how it responds.

Given kappa, the features of the neurons of readout value p are mu0 + mu1 <r_i, x> + sqrt(mu2) xi_i with rows r_i of covariance
C_p/d. With mu1[p, k] = sum_a U[p, a] B[a, k], overlaps M = B diag(S) B^T (r x r) and Theta_p = beta pi_p/E_p, all that the ridge
fit needs of the rows is the resolvent

    (M^-1 + sum_p Theta_p U_p U_p^T (x) C_p)^-1,     C_p = (1 + e_p M_data)^2 + chi_p S'.

With A0, A1, A2 = sum_p Theta_p e_p^j U_p U_p^T (j = 0, 1, 2) it is the first block of the inverse of a symmetric pencil,
L0 (x) 1 + H1 (x) M_data + H2 (x) S', of size n = 2r:

    L0 = ( M^-1 + A0 - A1 A2^-1 A1^T   -A1 A2^-1 )    H1 = (  0   -1 )    H2 = ( sum_p Theta_p chi_p U_p U_p^T   0 )
         (      -A2^-1 A1^T             -A2^-1   )         ( -1    0 )         (              0                  0 )

Its normalised trace g solves, with the label rule y_l, w_l,

    g = (L0 + q)^-1,   q = sum_l w_l Q_l,   Q_l = Delta_l H_l,   Delta_l = (1 + H_l g/alpha0)^-1,   H_l = y_l H1 + y_l^2 H2     (g)
    E_p = D_p + a_p^T Z a_p + chi_p b_p^T (sum_l w_l y_l^2 g Delta_l) b_p,     D_p = ridge + sum_k S_k mu2[p, k]                (E)

with b_p = (U_p, 0), a_p = (U_p, e_p U_p). The unknown is not g but Z = (1, M_data)^T G (1, M_data), G the resolvent above:

    g = F Z F^T - diag(0, A2),   F = (1, 0; -A1^T, -A2)
    R Z = K,   K = (1, -q12; 0, -q22),   R = (M^-1 + q11, 0; q21, 1) + K (A0, A1; A1^T, A2)

in which no inverse of A2 appears: nothing breaks where readout values have tiny weight or e is small.

If e = 0 (students with E[z s'] = 0, or the isotropic bulk C_p = c_p) the second block is absent: n = r, Z = g,
L0 = M^-1 + sum_p Theta_p c_p U_p U_p^T with c_p = 1 for the exact bulk, and a_p = sqrt(c_p) U_p.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np


class Bulk(NamedTuple):
    """What the equations (g) and (E) are made of. Leading axis: problems."""

    basis: Any  # B (., r, K)
    idle: Any  # 1 for the rows of B that are not used (zero), (., r)
    coordinates: Any  # U (., P, r)
    tilt: Any  # e (., P), or None for one block
    isotropic: Any  # c_p of the one-block pencil (., P)
    noise: Any  # chi (., P)
    mass: Any  # beta pi_p (., P)
    remainder: Any  # mu2 (., P, K)
    labels: Any  # y (., J)
    label_weights: Any  # w^0, w^1, w^2 (., 3, J)
    alpha0: Any  # (.)

    def part(self, places: Any) -> Bulk:
        """Some of the problems."""
        return Bulk(*take(tuple(self), places))


class State(NamedTuple):
    """The unknowns: overlaps M (., r, r), D (., P), E (., P) and Z (., n, n)."""

    overlaps: Any
    diagonal: Any
    energy: Any
    resolvent: Any

    def part(self, places: Any) -> State:
        """Some of the problems."""
        return State(*take(tuple(self), places))


class Equations(NamedTuple):
    """(E) and (g) at a state."""

    pencil: Any  # the Pencil at the state
    image: Any  # Z under (g) (., n, n)
    trace: Any  # g (., n, n)
    delta: Any  # Delta_l (., J, n, n)
    source: Any  # Q_l (., J, n, n)
    crossing: Any  # the first block of g Delta_l (., J, r, r)
    energy_gap: Any  # right minus left of (E)
    residual: Any  # largest relative residual of (E), (g)
    slope: Any  # v = (vech of M^-1 - M^-1 g_11 M^-1 with multiplicities, Theta): alpha V_k = sum_i v_i Lambda_ik

    @property
    def inverse(self) -> Any:
        """M^-1."""
        return self.pencil.inverse

    @property
    def theta(self) -> Any:
        """Theta_p."""
        return self.pencil.theta


class Response(NamedTuple):
    """The linear response of (E, Z) to the overlaps y = (vech M, D)."""

    slope_shift: Any  # change of v when (E, Z) take their Newton step at fixed y
    slope_by_overlap: Any  # dv/dy, (., r' + P, r' + P)
    energy_shift: Any
    energy_by_overlap: Any  # dE/dy, (., P, r' + P)
    resolvent_shift: Any  # vech of dZ, (., n')
    resolvent_by_overlap: Any  # vech of dZ/dy, (., n', r' + P)


def take(arrays: Any, places: Any) -> Any:
    """Rows of an array, or of every array of a tuple; what is absent stays so."""
    if isinstance(arrays, tuple):
        return tuple(take(each, places) for each in arrays)
    return None if arrays is None else arrays[places]


@lru_cache(maxsize=128)
def triangle(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and multiplicities of the upper triangle of a symmetric matrix."""
    rows, columns = np.triu_indices(size)
    return rows, columns, np.where(rows == columns, 1.0, 2.0)


def unfold(packed: Any, size: int) -> Any:
    """The symmetric matrices (., n, n) of upper triangles (., n')."""
    rows, columns, _ = triangle(size)
    place = np.zeros((size, size), int)
    place[rows, columns] = place[columns, rows] = np.arange(rows.size)
    return packed[:, place]


def _congruence(left: Any, right: Any) -> Any:
    """The matrix of dM -> left dM right^T on upper triangles (the result is to be symmetrised by the caller)."""
    rows, columns, times = triangle(left.shape[-1])
    one = left[:, rows][:, :, rows] * right[:, columns][:, :, columns]
    other = left[:, rows][:, :, columns] * right[:, columns][:, :, rows]
    return one + other * (times == 2)


def overlap_map(bulk: Bulk, xp: Any) -> Any:
    """Lambda (., r' + P, K): the overlaps are y = Lambda S."""
    rows, columns, _ = triangle(bulk.basis.shape[1])
    return xp.concatenate([bulk.basis[:, rows] * bulk.basis[:, columns], bulk.remainder], axis=1)


def overlaps(bulk: Bulk, packed: Any, ridge: Any, xp: Any) -> tuple[Any, Any]:
    """M and D of y = Lambda S. Rows of B that are not used get a unit diagonal and stay apart."""
    size = bulk.basis.shape[1]
    count = size * (size + 1) // 2
    matrix = unfold(packed[:, :count], size) + bulk.idle[:, :, None] * np.eye(size)
    return matrix, packed[:, count:] + ridge[:, None]


class Pencil(NamedTuple):
    """The pieces of (g) and (E) that do not depend on Z."""

    inverse: Any  # M^-1
    theta: Any
    ends: Any  # a_p (., P, n)
    lower: Any  # (0, e_p U_p) (., P, n), or None
    padded: Any  # b_p (., P, n)
    kernels: Any  # H_l (., J, n, n)
    base: Any  # M^-1 (+ sum_p Theta_p a_p a_p^T with one block)
    moments: Any  # (A0, A1; A1^T, A2), or None
    frame: Any  # F, or None


def pencil_of(bulk: Bulk, matrix: Any, energy: Any, xp: Any) -> Pencil:
    """The pencil at given overlaps and energies."""
    u, labels = bulk.coordinates, bulk.labels
    r = u.shape[-1]
    theta = bulk.mass / energy
    inverse = xp.linalg.inv(matrix)
    second = xp.swapaxes(u, 1, 2) @ (u * (theta * bulk.noise)[..., None])  # H2
    square = (labels**2)[:, :, None, None] * second[:, None]
    if bulk.tilt is None:
        a = u * xp.sqrt(bulk.isotropic)[..., None]
        base = inverse + xp.swapaxes(a, 1, 2) @ (a * theta[..., None])
        return Pencil(inverse, theta, a, None, u, square, base, None, None)
    tilted = u * bulk.tilt[..., None]
    zero = xp.zeros_like(u)
    ends = xp.concatenate([u, tilted], -1)
    moments = xp.swapaxes(ends, 1, 2) @ (ends * theta[..., None])
    side = xp.zeros_like(square) - labels[:, :, None, None] * np.eye(r)
    kernels = _blocks(square, side, xp.zeros_like(square), xp)
    frame = xp.concatenate(
        [xp.broadcast_to(np.eye(r, 2 * r), (*theta.shape[:1], r, 2 * r)), -moments[:, r:]], 1
    )
    lower, padded = xp.concatenate([zero, tilted], -1), xp.concatenate([u, zero], -1)
    return Pencil(inverse, theta, ends, lower, padded, kernels, inverse, moments, frame)


def trace_of(pencil: Pencil, z: Any, xp: Any) -> Any:
    """g of Z."""
    if pencil.moments is None:
        return z
    r = z.shape[-1] // 2
    return pencil.frame @ z @ xp.swapaxes(pencil.frame, 1, 2) - xp.pad(
        pencil.moments[:, r:, r:], ((0, 0), (r, 0), (r, 0))
    )


def invert(pencil: Pencil, mean: Any, xp: Any) -> Any:
    """Z of (L0 + mean)^-1: symmetric."""
    if pencil.moments is None:
        return xp.linalg.inv(pencil.base + mean)
    r = mean.shape[-1] // 2
    one = xp.zeros_like(pencil.inverse) + np.eye(r)
    none = xp.zeros_like(one)
    lower = -mean[:, r:, r:]
    right = xp.concatenate(
        [xp.concatenate([one, -mean[:, :r, r:]], 2), xp.concatenate([none, lower], 2)], 1
    )
    top = xp.concatenate([pencil.base + mean[:, :r, :r], none], 2)
    system = (
        xp.concatenate([top, xp.concatenate([mean[:, r:, :r], one], 2)], 1) + right @ pencil.moments
    )
    z = xp.linalg.solve(system, right)
    return (z + xp.swapaxes(z, 1, 2)) / 2


def thin_svd(matrix: Any, xp: Any) -> tuple[Any, Any, Any]:
    """Left vectors, singular values (descending) and right vectors.

    With few rows or columns they come from the eigenvectors of the small Gram matrix and the norms of their images, which is as
    accurate where it matters and fast in large batches on a GPU.
    """
    rows, columns = matrix.shape[-2:]
    if min(rows, columns) > 4:
        found: tuple[Any, Any, Any] = xp.linalg.svd(matrix, full_matrices=False)
        return found
    wide = matrix if rows <= columns else xp.swapaxes(matrix, -1, -2)
    small = xp.linalg.eigh(wide @ xp.swapaxes(wide, -1, -2))[1][..., ::-1]
    images = xp.swapaxes(small, -1, -2) @ wide
    size = xp.sqrt(xp.sum(images**2, -1))
    unit = images / xp.where(size > 0, size, 1.0)[..., None]
    return (
        (small, size, unit)
        if rows <= columns
        else (xp.swapaxes(unit, -1, -2), size, xp.swapaxes(small, -1, -2))
    )


def apply(matrix: Any, vector: Any) -> Any:
    """Matrices (., m, n) times vectors (., n)."""
    return (matrix @ vector[..., None])[..., 0]


def framed(pencil: Pencil, z: Any, xp: Any) -> Any:
    """Phi = Z F^T + diag(0, 1), or Z with one block."""
    if pencil.frame is None:
        return z
    n = z.shape[-1]
    return z @ xp.swapaxes(pencil.frame, 1, 2) + np.diag(np.arange(n) >= n // 2)


def average(weights: Any, matrices: Any) -> Any:
    """sum_l w_l X_l for weights (., J) and matrices (., J, n, n)."""
    batch, count, n, m = matrices.shape
    return (weights[:, None, :] @ matrices.reshape(batch, count, n * m)).reshape(batch, n, m)


def resolvent_map(bulk: Bulk, pencil: Pencil, z: Any, xp: Any) -> tuple[Any, Any, Any, Any]:
    """The image of Z under (g), with g, Delta_l and Q_l."""
    g = trace_of(pencil, z, xp)
    delta = xp.linalg.inv(
        np.eye(g.shape[-1]) + pencil.kernels @ (g / bulk.alpha0[:, None, None])[:, None]
    )
    source = delta @ pencil.kernels
    mean = average(bulk.label_weights[:, 0], source)
    return invert(pencil, (mean + xp.swapaxes(mean, 1, 2)) / 2, xp), g, delta, source


def relative_gap(new: Any, old: Any, xp: Any) -> Any:
    """The largest change of an entry z_ij, relative to sqrt(z_ii z_jj)."""
    size = xp.sqrt(xp.maximum(xp.einsum("bii->bi", xp.abs(old)), 1e-300))
    return xp.max(xp.abs(new - old) / (size[:, :, None] * size[:, None, :]), axis=(-2, -1))


def equations(bulk: Bulk, state: State, xp: Any) -> Equations:
    """(E) and (g) at a state: what they map it to, and how far that is."""
    matrix, diagonal, energy, z = state
    r = matrix.shape[-1]
    u = bulk.coordinates
    pencil = pencil_of(bulk, matrix, energy, xp)
    image, g, delta, source = resolvent_map(bulk, pencil, z, xp)
    crossing = (g[:, None] @ delta)[:, :, :r, :r]  # b_p g Delta_l b_q lives in the first block
    quadratic = bulk.label_weights[:, 0] * bulk.labels**2
    own = xp.sum((pencil.ends @ z) * pencil.ends, -1)
    energy_gap = (
        diagonal + own + bulk.noise * xp.sum((u @ average(quadratic, crossing)) * u, -1) - energy
    )
    residual = xp.maximum(xp.max(xp.abs(energy_gap) / energy, axis=-1), relative_gap(image, z, xp))
    rows, columns, times = triangle(r)
    by_matrix = (pencil.inverse - pencil.inverse @ z[:, :r, :r] @ pencil.inverse)[
        :, rows, columns
    ] * times
    slope = xp.concatenate([by_matrix, pencil.theta], 1)
    return Equations(pencil, image, g, delta, source, crossing, energy_gap, residual, slope)


def respond(bulk: Bulk, state: State, at: Equations, xp: Any) -> Response:
    """The response of (E) and (g) to dM and dD by one linear solve in (dE, vech dZ); ``at`` are the equations at the state.

    With s_p = F Z a_p, l_p = (0, e_p U_p) and Phi = Z F^T + diag(0, 1) (one block: Phi = Z):

        dg = F dZ F^T - sum_p (s_p l_p^T + l_p s_p^T + l_p l_p^T) dTheta_p     (one block: dg = dZ)
        dZ = -Z_1 dM^-1 Z_1^T - sum_p Z a_p a_p^T Z dTheta_p - sum_l w_l Phi Delta_l dH_l Delta_l^T Phi^T
             + (1/alpha0) sum_l w_l Phi Q_l dg Q_l Phi^T.
    """
    energy, z = state.energy, state.resolvent
    count, r = bulk.coordinates.shape[1:]
    n = z.shape[-1]
    rows, columns, times = triangle(n)
    chi, alpha0 = bulk.noise, bulk.alpha0[:, None, None]
    weights, labels = bulk.label_weights[:, 0], bulk.labels
    pencil, image, source = at.pencil, at.image, at.source
    inverse, theta, a, b = pencil.inverse, pencil.theta, pencil.ends, pencil.padded
    columns_b = xp.swapaxes(b, 1, 2)[:, None]
    shifted = at.delta @ columns_b  # Delta_l b_p, (., J, n, P)
    quadratic = weights * labels**2
    u = bulk.coordinates
    flat_first = at.crossing.reshape(*at.crossing.shape[:2], r * r)
    fourth = (quadratic * labels**2 / bulk.alpha0[:, None])[:, :, None]
    pairs = (xp.swapaxes(flat_first * fourth, 1, 2) @ flat_first).reshape(-1, r, r, r, r)
    pairs = xp.swapaxes(pairs, 2, 3).reshape(-1, r * r, r * r)
    squared = (u[:, :, :, None] * u[:, :, None, :]).reshape(*u.shape[:2], r * r)
    bend = -chi[:, :, None] * chi[:, None, :] * (squared @ pairs @ xp.swapaxes(squared, 1, 2))
    by_value = xp.swapaxes(shifted, 1, 3)  # (., P, n, J)
    through = (by_value * quadratic[:, None, None, :]) @ xp.swapaxes(
        by_value, 2, 3
    )  # sum_l w y^2 (Delta_l b_p)(Delta_l b_p)^T
    phi_matrix = framed(pencil, image, xp)
    by_z = through
    moved_g = None
    if pencil.moments is not None:
        back = xp.swapaxes(pencil.frame, 1, 2)
        by_z = back[:, None] @ through @ pencil.frame[:, None]
        s, low = a @ z @ back, pencil.lower
        half = (s + low / 2)[:, :, :, None] * low[:, :, None, :]
        moved_g = -(half + xp.swapaxes(half, 2, 3))  # dg/dTheta_p at fixed Z
        flat_g = moved_g.reshape(*moved_g.shape[:2], n * n)
        bend = bend + chi[:, :, None] * (through.reshape(flat_g.shape) @ xp.swapaxes(flat_g, 1, 2))
    by_z = a[:, :, :, None] * a[:, :, None, :] + chi[:, :, None, None] * by_z  # d tr_p/dZ

    lift = phi_matrix[:, None] @ source  # Phi Q_l
    end = image[:, None] @ a[..., None]
    kernel_part = phi_matrix[:, None] @ through @ xp.swapaxes(phi_matrix, 1, 2)[:, None]
    moved = (
        -(end @ xp.swapaxes(end, 2, 3)) - chi[:, :, None, None] * kernel_part
    )  # dZ/dTheta_p, direct
    turned = lift
    if moved_g is not None:
        one = (
            lift
            @ xp.swapaxes(s + low / 2, 1, 2)[:, None]
            * (weights[:, :, None, None] / alpha0[:, None])
        )
        two = lift @ xp.swapaxes(low, 1, 2)[:, None]  # (., J, n, P)
        product = xp.swapaxes(one, 1, 3) @ xp.transpose(two, (0, 3, 1, 2))
        moved = moved - product - xp.swapaxes(product, 2, 3)
        turned = lift @ pencil.frame[:, None]
    flat = turned.reshape(*lift.shape[:2], n * n)
    table = xp.swapaxes(flat * (weights / bulk.alpha0[:, None])[:, :, None], 1, 2) @ flat
    straight, crossed = _pair_places(n)
    flat_table = table.reshape(-1, n**4)  # [a, c, b, d]: dg_cd moves dZ_ab, and so does dg_dc
    zz = np.eye(rows.size) - (
        xp.take(flat_table, straight, axis=1) + xp.take(flat_table, crossed, axis=1)
    ) * (times / 2)
    phi = theta / energy
    ee = np.eye(count) + bend * phi[:, None, :]
    ez = -by_z[:, :, rows, columns] * times
    ze = xp.swapaxes(moved[:, :, rows, columns] * phi[..., None], 1, 2)
    system = _square(ee, ez, ze, zz, xp)

    r_rows, r_columns, r_times = triangle(r)
    f = image[:, :, :r] @ inverse
    one = f[:, rows][:, :, r_rows] * f[:, columns][:, :, r_columns]
    mirrored = f[:, rows][:, :, r_columns] * f[:, columns][:, :, r_rows]
    by_matrix = one + mirrored * (r_times == 2)
    batch = z.shape[0]
    unit = xp.broadcast_to(np.eye(count), (batch, count, count))
    top = xp.concatenate(
        [at.energy_gap[:, :, None], xp.zeros((batch, count, r_rows.size)), unit], 2
    )
    low = xp.concatenate(
        [(image - z)[:, rows, columns][:, :, None], by_matrix, xp.zeros((batch, rows.size, count))],
        2,
    )
    answer = xp.linalg.solve(system, xp.concatenate([top, low], 1))
    energy_part, z_part = answer[:, :count], answer[:, count:]

    inner = inverse @ z[:, :r, :r] @ inverse
    inside = (rows < r) & (columns < r)
    plain = _congruence(inverse, inverse)
    mixed = _congruence(inverse, inner) + _congruence(inner, inverse)
    change = -(plain @ z_part[:, inside])
    pad = xp.zeros((batch, r_rows.size, count))
    direct = xp.concatenate([xp.zeros((batch, r_rows.size, 1)), mixed - plain, pad], 2)
    slope_change = xp.concatenate(
        [(direct + change) * r_times[:, None], -phi[..., None] * energy_part], 1
    )
    return Response(
        slope_change[:, :, 0],
        slope_change[:, :, 1:],
        energy_part[:, :, 0],
        energy_part[:, :, 1:],
        z_part[:, :, 0],
        z_part[:, :, 1:],
    )


@lru_cache(maxsize=32)
def _pair_places(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Where X_ac X_bd and X_ad X_bc stand in a table [a, c, b, d] of size^4, for pairs a <= b and c <= d."""
    rows, columns, _ = triangle(size)

    def place(a: Any, c: Any, b: Any, d: Any) -> np.ndarray:
        found: np.ndarray = ((a * size + c) * size + b) * size + d
        return found

    first, second = (rows[:, None], columns[:, None]), (rows[None], columns[None])
    return place(first[0], second[0], first[1], second[1]), place(
        first[0], second[1], first[1], second[0]
    )


def _square(a: Any, b: Any, c: Any, d: Any, xp: Any) -> Any:
    """The block matrix ((a, b), (c, d))."""
    if xp is not np:
        return xp.concatenate([xp.concatenate([a, b], 2), xp.concatenate([c, d], 2)], 1)
    m, n = a.shape[-1], d.shape[-1]
    whole = np.empty((a.shape[0], m + n, m + n))
    whole[:, :m, :m], whole[:, :m, m:], whole[:, m:, :m], whole[:, m:, m:] = a, b, c, d
    return whole


def _blocks(top: Any, low_left: Any, low: Any, xp: Any) -> Any:
    """The symmetric matrix ((top, low_left^T), (low_left, low))."""
    upper = xp.concatenate([top, xp.swapaxes(low_left, -1, -2)], -1)
    return xp.concatenate([upper, xp.concatenate([low_left, low], -1)], -2)
