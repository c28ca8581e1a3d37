"""How (E, Z) respond to the overlaps where the inputs have a covariance.

Of an average <f Z> over the levels, with W = Z(varpi)/varpi, Phi = Z(varpi) F^T + diag(0, 1) and
the weights m varpi^2, m varpi and m of f = varpi, 1 and 1/varpi (m: the mass of a level),

    d<f Z> = sum_s weight {-W_1 dM^-1 W_1^T - varpi sum_p W a_p a_p^T W dTheta_p - Phi dX Phi^T}
    dX = sum_l w_l Delta_l dH_l Delta_l^T - (1/alpha0) sum_l w_l Q_l dg Q_l
    dg = F dZ F^T - sum_p (s_p l_p^T + l_p s_p^T + l_p l_p^T) dTheta_p,   s_p = F Z a_p

and in dE_p it is d<Z(varpi)> that stands with a_p. One linear solve for (dE, vech dZ). Typed
neurons: (1 + eps g_p varpi) a_p for a_p, so that dE_p has d<varpi Z> and d<varpi^2 Z> too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.library import library_of
from firststep.numerics.linear_algebra import block_matrix
from firststep.theory.one_step.resolvent import Equations, Pencil, average, stretch
from firststep.theory.one_step.system import Bulk, Levels, State, flip, triangle
from firststep.theory.one_step.triangles import congruences

if TYPE_CHECKING:
    from firststep.typing import Array, Float


class Changes(NamedTuple):
    """By the Newton step in the first column, by y = (vech M, D) in the others."""

    energy: Float[Array, "batch P columns"]
    resolvent: Float[Array, "batch n2 columns"]  # of vech <varpi Z>
    inner: Float[Array, "batch r2 columns"]  # of vech <Z_11/varpi>


class Average(NamedTuple):
    """How an average <f Z>, or what is seen of it, moves."""

    by_overlap: Float[Array, "batch rows r2"]  # dM
    by_theta: Float[Array, "batch rows P"]
    by_resolvent: Float[Array, "batch rows n2"]  # dZ


class _Chain(NamedTuple):
    """dX of dTheta and dZ."""

    by_theta: Float[Array, "batch n2 P"]
    by_resolvent: Float[Array, "batch n2 n2"]


def framed_levels(pencil: Pencil, z: Float[Array, "batch s n n"]) -> Float[Array, "batch s n n"]:
    """Phi on every level."""
    if pencil.frame is None:
        return z
    n = z.shape[-1]
    return z @ flip(pencil.frame)[:, None] + np.diag(np.arange(n) >= n // 2)


def respond_on_levels(bulk: Bulk, state: State, at: Equations) -> Changes:
    """The response at a state; ``at`` are the equations there."""
    xp = library_of(state.energy).xp
    assert bulk.levels is not None
    pencil, n = at.pencil, state.resolvent.shape[-1]
    (batch, count), r = state.energy.shape, state.overlaps.shape[-1]
    rows, columns, times = triangle(n)
    through = _through(bulk, at)
    to_trace, by_frame = _trace(pencil, state)
    source = (bulk.jitter[:, :, None, None] * through)[:, :, rows, columns]
    turned = congruences(bulk.label_weights[:, 0] / bulk.alpha0[:, None], at.image.source)
    chain = _Chain(flip(source) - turned @ to_trace, -turned @ by_frame)
    hat = _average(bulk.levels, at, 2, chain, n)
    inner = _average(bulk.levels, at, 0, chain, r)
    seen = _average_seen(bulk.levels, at, chain)
    kernel = bulk.jitter[:, :, None] * through[:, :, rows, columns] * times
    by_theta = seen.by_theta + kernel @ to_trace + _by_labels(bulk, at)
    phi = pencil.theta / state.energy
    system = block_matrix(
        np.eye(count) + by_theta * phi[:, None, :],
        -(seen.by_resolvent + kernel @ by_frame),
        hat.by_theta * phi[:, None, :],
        np.eye(rows.size) - hat.by_resolvent,
    )
    unit = xp.broadcast_to(np.eye(count), (batch, count, count))
    top = [at.energy_gap[:, :, None], seen.by_overlap, unit]
    low = [at.resolvent_gap[:, rows, columns][:, :, None], hat.by_overlap]
    low = [*low, xp.zeros((batch, rows.size, count))]
    right = xp.concatenate([xp.concatenate(top, 2), xp.concatenate(low, 2)], 1)
    answer = library_of(system).linalg.solve(system, right)
    energy, resolvent = answer[:, :count], answer[:, count:]
    direct = xp.pad(inner.by_overlap, ((0, 0), (0, 0), (1, count)))
    moved = direct - inner.by_theta @ (phi[..., None] * energy) + inner.by_resolvent @ resolvent
    return Changes(energy, resolvent, moved)


def _through(bulk: Bulk, at: Equations) -> Float[Array, "batch P n n"]:
    """sum_l w_l y_l^2 (Delta_l b_p)(Delta_l b_p)^T."""
    quadratic = bulk.label_weights[:, 0] * bulk.labels**2
    by_value = (at.image.delta @ flip(at.pencil.padded)[:, None]).swapaxes(1, 3)  # (., P, n, J)
    return (by_value * quadratic[:, None, None, :]) @ flip(by_value)


def _by_labels(bulk: Bulk, at: Equations) -> Float[Array, "batch P P"]:
    """What Theta_q does to chi_p b_p^T (sum_l w_l y_l^2 g Delta_l) b_p through H_l."""
    xp, u, chi = library_of(bulk.jitter).xp, bulk.coordinates, bulk.jitter
    fourth = bulk.label_weights[:, 0] * bulk.labels**4 / bulk.alpha0[:, None]
    seen = u[:, None] @ at.crossing @ flip(u)[:, None]  # (., J, P, P)
    return -chi[:, :, None] * chi[:, None, :] * xp.einsum("bl,blpq,blpq->bpq", fourth, seen, seen)


def _trace(
    pencil: Pencil, state: State
) -> tuple[Float[Array, "batch n2 P"], Float[Array, "batch n2 n2"]]:
    """dg/dTheta at fixed Z, and dg/dZ."""
    xp = library_of(state.energy).xp
    n = state.resolvent.shape[-1]
    rows, columns, _ = triangle(n)
    if pencil.frame is None or pencil.lower is None:
        one = xp.broadcast_to(np.eye(rows.size), (state.energy.shape[0], rows.size, rows.size))
        return xp.zeros((*one.shape[:2], state.energy.shape[1])), one
    low = pencil.lower
    s = pencil.ends @ state.resolvent @ flip(pencil.frame) + low / 2
    half = s[:, :, :, None] * low[:, :, None, :]
    by_theta = -(half + flip(half))[:, :, rows, columns]
    return flip(by_theta), congruences(xp.ones_like(state.energy[:, :1]), pencil.frame[:, None])


def _average(levels: Levels, at: Equations, power: int, chain: _Chain, size: int) -> Average:
    """How the first ``size`` rows and columns of <f Z> move, f = varpi^(power - 1)."""
    z = at.image.levels
    assert z is not None
    weight = levels.mass * levels.value**power
    plain = z[:, :, :size] / levels.value[:, :, None, None]  # W
    r = at.pencil.inverse.shape[-1]
    rows, columns, _ = triangle(size)
    overlap = congruences(weight, plain[..., :r] @ at.pencil.inverse[:, None])
    seen = plain @ flip(at.pencil.ends)[:, None]  # (., s, n, P)
    if at.pencil.lean is not None:
        seen = seen * stretch(at.pencil.lean, levels)[:, :, None]
    pairs = seen[:, :, rows] * seen[:, :, columns]
    direct = ((weight * levels.value)[:, None, :] @ pairs.reshape(*pairs.shape[:2], -1)).reshape(
        pairs.shape[0], rows.size, -1
    )
    kernel = congruences(weight, framed_levels(at.pencil, z)[:, :, :size])
    return Average(overlap, -direct - kernel @ chain.by_theta, -kernel @ chain.by_resolvent)


def _average_seen(levels: Levels, at: Equations, chain: _Chain) -> Average:
    """How a_p^T <(1 + eps g_p varpi)^2 Z> a_p moves, g = 0 but for typed neurons; without the
    matrices of the averages: P rows in the place of n (n + 1)/2.
    """
    z, pencil = at.image.levels, at.pencil
    assert z is not None
    weight = levels.mass * levels.value
    ends = pencil.ends[:, None]  # (., s, P, n)
    if pencil.lean is not None:
        ends = ends * stretch(pencil.lean, levels)[..., None]
    plain = ends @ z / levels.value[:, :, None, None]  # a_p^T W
    r = pencil.inverse.shape[-1]
    overlap = _squares(weight, plain[..., :r] @ pencil.inverse[:, None])
    direct = average(weight * levels.value, (plain @ flip(ends)) ** 2)
    kernel = _squares(weight, ends @ framed_levels(pencil, z))
    return Average(overlap, -direct - kernel @ chain.by_theta, -kernel @ chain.by_resolvent)


def _squares(
    weights: Float[Array, "batch s"], vectors: Float[Array, "batch s P m"]
) -> Float[Array, "batch P m2"]:
    """The matrix of X -> sum_s w_s y_ps^T X y_ps for vectors y_ps."""
    rows, columns, times = triangle(vectors.shape[-1])
    turned = vectors.swapaxes(1, 2)  # (., P, s, m)
    squares = flip(turned * weights[:, None, :, None]) @ turned
    return squares[:, :, rows, columns] * times
