"""Blocks of the resolvent and quadratic forms where the teacher has several directions.

The formulas of ``mean`` with matrices of blocks, one row and column of blocks for each of the m
directions: theta_1 is that of the step, rho_1 = rho, gamma_1 = gamma, and rho_a = 1, gamma_a = 0
for a >= 2. With amplitudes A_al of the labels, w^{ab}_l = A_al A_bl,

    q^{ab}_j = sum_l w^{ab}_l y_l^j Q_l,   x_aj = sum_l w^{0a}_l y_l^j,   x_j = (x_aj 1)_a,
    q_j = (q^{0a}_j)_a,   F, D, A2 and L0 once for every direction

    Z_tt = Z of (1 (x) L0 + [q^{ab}_0])^-1,   Phi_t = Z_tt F^T + D,   g_t = F Z_tt F^T - diag(0, A2)
    Z_tj = Z_tt x_j - Phi_t q_j Phi^T/alpha0
    Z_ij = (e_(i+j) Z - Phi q^{00}_(i+j) Phi^T/alpha0)/alpha0 + x_i^T Z_tt x_j
           - (x_i^T Phi_t q_j Phi^T + Phi q_i^T Phi_t^T x_j)/alpha0
           + Phi q_i^T g_t q_j Phi^T/alpha0^2
    G_ab = (Z_tt)_{a1,b1},   G_av = (Z_t1)_{a1}/|v|,   G_vv = (Z_11)_11/|v|^2
    X_a  = (gamma_a - G_vv^-1 G_va) M^-1/rho_a,   A_a = (sum_j Z_tj R_j)_{a1}
    X_ca = (A_a - G_av G_vv^-1 A_v)^T M^-1/rho_a
    T_ab = delta_ab M^-1 - M^-1 (G_ab - G_av G_vv^-1 G_vb) M^-1/(rho_a rho_b)

Vectors of blocks have the axes (m, n) or (m, r) as one, directions first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.library import library_of
from firststep.numerics.linear_algebra import block_matrix
from firststep.theory.one_step.resolvent import Equations, Pencil, average
from firststep.theory.one_step.system import Bulk, Mean, State, System, flip

if TYPE_CHECKING:
    from firststep.typing import Array, Float


class TermForms(NamedTuple):
    """The fields of ``mean.Forms`` where the teacher has m directions."""

    rows: Float[Array, "batch k k"]  # F
    cross: Float[Array, "batch k mr"]  # (X_a; X_ca)
    across: Float[Array, "batch mr mr"]  # T
    teacher: Float[Array, "batch mn mn"]  # Z_tt
    phi: Float[Array, "batch n n"]  # Phi
    phi_teacher: Float[Array, "batch mn mn"]  # Phi_t
    trace: Float[Array, "batch mn mn"]  # g
    solver: Float[Array, "batch r r"]  # G_vv^-1
    to_teacher: Float[Array, "batch r mr"]  # G_va
    sources: Float[Array, "batch 3 n P"] | None = None  # R_j
    along_v: Float[Array, "batch r P"] | None = None  # A_v


class _Blocks(NamedTuple):
    """Z_tt, Phi_t, g, Z_tj and Z_ij."""

    teacher: Float[Array, "batch mn mn"]
    phi_teacher: Float[Array, "batch mn mn"]
    trace: Float[Array, "batch mn mn"]
    to_teacher: dict[int, Float[Array, "batch mn n"]]
    between: dict[tuple[int, int], Float[Array, "batch n n"]]


def turned(mean: Mean, count: int) -> Float[Array, "batch m"]:
    """rho_a."""
    rho = mean.misalignment[:, None]
    ones = library_of(rho).xp.ones_like(rho)
    return library_of(rho).xp.concatenate([rho] + [ones] * (count - 1), 1)


def once_each(matrix: Float[Array, "batch n n"], count: int) -> Float[Array, "batch mn mn"]:
    """1 (x) X."""
    batch, n, columns = matrix.shape
    whole = np.eye(count)[:, None, :, None] * matrix[:, None, :, None, :]
    return whole.reshape(batch, count * n, count * columns)


def forms_of_terms(system: System, state: State, at: Equations) -> TermForms:
    """The matrices of the module's docstring at a state."""
    bulk, mean = system.bulk, system.mean
    assert bulk.amplitudes is not None
    xp, r, n = library_of(state.energy).xp, bulk.basis.shape[1], state.resolvent.shape[-1]
    count = bulk.amplitudes.shape[1] - 1
    blocks = _blocks(bulk, state, at, (1,) if mean.linear_chaos is None else (1, 2, 3))
    norm, inverse = mean.length[:, None, None], at.pencil.inverse
    gvv = blocks.between[1, 1][:, :r, :r]
    if mean.own_shift is not None:
        gvv = gvv + mean.own_shift[:, None, None] * state.resolvent[:, :r, :r]
    gvv = gvv / norm**2
    first = _first_halves(count, n, r)
    gvt = flip(blocks.to_teacher[1][:, first, :r]) / norm
    solver = library_of(gvv).linalg.inv(gvv)
    rho = xp.repeat(turned(mean, count), r, axis=1)[:, None, :]  # by the columns of m blocks
    inverses, seen = once_each(inverse, count), solver @ gvt
    gamma = xp.concatenate(
        [mean.alignment[:, None, None] * np.eye(r), xp.zeros((gvv.shape[0], r, (count - 1) * r))], 2
    )
    left = blocks.teacher[:, first][:, :, first] - flip(gvt) @ seen
    plain = TermForms(
        rows=solver - inverse,
        cross=(gamma - seen) @ inverses / rho,
        across=inverses - inverses @ left @ inverses / (rho * flip(rho)),
        teacher=blocks.teacher,
        phi=at.pencil.framed(state.resolvent),
        phi_teacher=blocks.phi_teacher,
        trace=blocks.trace,
        solver=solver,
        to_teacher=gvt,
    )
    if mean.linear_chaos is None:
        return plain
    return _with_norms(system, at, blocks, plain, inverses / rho)


def _first_halves(count: int, n: int, r: int) -> Float[Array, " mr"]:
    """Where the first halves of all directions stand."""
    return (np.arange(count)[:, None] * n + np.arange(r)).ravel()


def _blocks(bulk: Bulk, state: State, at: Equations, powers: tuple[int, ...]) -> _Blocks:
    xp = library_of(state.energy).xp
    y, alpha0, a = bulk.labels, bulk.alpha0[:, None, None], bulk.amplitudes
    assert a is not None
    pencil, z, source = at.pencil, state.resolvent, at.image.source
    (batch, n, _), count = z.shape, a.shape[1] - 1
    mixed = (a[:, 1:, None] * a[:, None, 1:]).reshape(batch, count**2, -1)
    flat = source.reshape(batch, -1, n * n)
    q = (mixed @ flat).reshape(batch, count, count, n, n)
    teacher = _inverted(pencil, q.swapaxes(2, 3).reshape(batch, count * n, count * n), count)
    phi, many = pencil.framed(z), _Framed(pencil, count)
    phi_teacher, trace = many.framed(teacher), many.trace(teacher)
    linear, own = {}, {}
    for j in powers:  # x_j, and q_j Phi^T/alpha0
        weights = a[:, 1:] * (a[:, 0] * y**j)[:, None]
        own[j] = (xp.sum(weights, -1)[:, :, None, None] * np.eye(n)).reshape(batch, -1, n)
        linear[j] = (weights @ flat).reshape(batch, -1, n) @ flip(phi) / alpha0
    to_teacher = {j: teacher @ own[j] - phi_teacher @ linear[j] for j in powers}
    between = {}
    for i, j in ((i, j) for i in powers for j in powers if i <= j):
        weights = bulk.label_weights[:, 0] * y ** (i + j)
        plain = phi @ average(weights, source) @ flip(phi) / alpha0
        total = (xp.sum(weights, -1)[:, None, None] * z - plain) / alpha0
        total = total + flip(own[i]) @ to_teacher[j] - flip(linear[i]) @ flip(phi_teacher) @ own[j]
        total = total + flip(linear[i]) @ trace @ linear[j]
        between[i, j] = total
        between[j, i] = flip(total)
    return _Blocks(teacher, phi_teacher, trace, to_teacher, between)


def _inverted(
    pencil: Pencil, q: Float[Array, "batch mn mn"], count: int
) -> Float[Array, "batch mn mn"]:
    """Z of (1 (x) L0 + q)^-1, with the order that ``Pencil.invert`` wants: first halves first."""
    halves = 1 if pencil.moments is None else 2
    n = q.shape[-1] // count
    order = np.arange(count * n).reshape(count, halves, n // halves).swapaxes(0, 1).ravel()
    back = np.argsort(order)
    moments = (
        None if pencil.moments is None else once_each(pencil.moments, count)[:, order][:, :, order]
    )
    many = pencil._replace(
        base=once_each(pencil.base, count),
        inverse=once_each(pencil.inverse, count),
        moments=moments,
    )
    z = many.invert(q[:, order][:, :, order])
    z = (z + flip(z)) / 2
    return z[:, back][:, :, back]


class _Framed(NamedTuple):
    """The frame of a pencil once for every direction."""

    pencil: Pencil
    times: int

    def framed(self, z: Float[Array, "batch mn mn"]) -> Float[Array, "batch mn mn"]:
        """Z F^T + diag(0, 1)."""
        if self.pencil.frame is None:
            return z
        n = self.pencil.frame.shape[-1]
        second = np.diag(np.tile(np.arange(n) >= n // 2, self.times))
        return z @ flip(once_each(self.pencil.frame, self.times)) + second

    def trace(self, z: Float[Array, "batch mn mn"]) -> Float[Array, "batch mn mn"]:
        """F Z F^T - diag(0, A2)."""
        if self.pencil.moments is None or self.pencil.frame is None:
            return z
        r = self.pencil.frame.shape[-1] // 2
        second = self.pencil.moments[:, r:, r:]
        padded = library_of(z).xp.pad(second, ((0, 0), (r, 0), (r, 0)))
        frame = once_each(self.pencil.frame, self.times)
        return frame @ z @ flip(frame) - once_each(padded, self.times)


def _with_norms(
    system: System,
    at: Equations,
    blocks: _Blocks,
    plain: TermForms,
    inverses: Float[Array, "batch mr mr"],
) -> TermForms:
    """The forms with the fluctuations of the rows' norms; ``inverses``: M^-1/rho_a."""
    mean, pencil = system.mean, at.pencil
    h, k, products = mean.linear_chaos, mean.higher_chaos, mean.vector_products
    assert h is not None
    xp, r, n = library_of(h).xp, plain.solver.shape[-1], plain.phi.shape[-1]
    theta, norm = pencil.theta[:, :, None], mean.length[:, None, None]
    sources = xp.einsum("bpn,bpj->bjnp", pencil.ends, theta * h)
    sources = sources + xp.einsum("bpn,bpj->bjnp", pencil.padded, theta * k)
    own = pencil.theta * xp.einsum("bpi,bij,bpj->bp", h, products, h)
    powers, between = (1, 2, 3), blocks.between
    along_v = sum(between[1, j] @ sources[:, j - 1] for j in powers)[:, :r] / norm
    along_t = sum(blocks.to_teacher[j] @ sources[:, j - 1] for j in powers)
    along_t = along_t[:, _first_halves(along_t.shape[1] // n, n, r)]
    seen = sum(
        flip(sources[:, i - 1]) @ between[i, j] @ sources[:, j - 1] for i in powers for j in powers
    )
    mixed = plain.solver @ along_v
    norms = own[:, :, None] * np.eye(own.shape[1]) - seen + flip(along_v) @ mixed
    cross = flip(along_t - flip(plain.to_teacher) @ mixed) @ inverses
    return plain._replace(
        rows=block_matrix(plain.rows, mixed, flip(mixed), norms),
        cross=xp.concatenate([plain.cross, cross], 1),
        sources=sources,
        along_v=along_v,
    )
