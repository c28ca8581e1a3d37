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
from firststep.numerics.linear_algebra import Factors, block_matrix, solve_linear
from firststep.theory.one_step.resolvent import Equations, Pencil, average, stretch
from firststep.theory.one_step.system import Bulk, Levels, State, flip, triangle
from firststep.theory.one_step.triangles import congruences

if TYPE_CHECKING:
    from firststep.typing import Array, Float


LARGE = 16  # size of a pencil from which a response costs several looks, and is kept for chords


class Changes(NamedTuple):
    """By the Newton step in the first column, by y = (vech M, D) in the others."""

    energy: Float[Array, "batch P columns"]
    resolvent: Float[Array, "batch n2 columns"]  # of vech <varpi Z>
    inner: Float[Array, "batch r2 columns"]  # of vech <Z_11/varpi>
    # Of a large pencil, kept for chord steps:
    factors: Factors | None = None  # of the linear system
    inner_by_unknowns: Float[Array, "batch r2 unknowns"] | None = None


class Average(NamedTuple):
    """How an average <f Z>, or what is seen of it, moves."""

    by_overlap: Float[Array, "batch rows r2"]  # dM
    by_theta: Float[Array, "batch rows P"]
    by_resolvent: Float[Array, "batch rows n2"]  # dZ


class _Chain(NamedTuple):
    """-dX of dTheta and dZ."""

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
    to_trace, turned = _trace(bulk, state, at)
    source = (bulk.jitter[:, :, None, None] * through - turned)[:, :, rows, columns]
    lifted = at.image.source if pencil.frame is None else at.image.source @ pencil.frame[:, None]
    by_trace = congruences(bulk.label_weights[:, 0] / bulk.alpha0[:, None], lifted)
    chain = _Chain(flip(source), -by_trace)
    hat = _average(bulk.levels, at, 2, chain, n)
    inner = _average(bulk.levels, at, 0, chain, r)
    seen = _average_seen(bulk.levels, at, chain)
    kernel = bulk.jitter[:, :, None] * through[:, :, rows, columns] * times
    by_theta = seen.by_theta + kernel @ to_trace + _by_labels(bulk, at)
    if pencil.frame is not None:
        through = flip(pencil.frame)[:, None] @ through @ pencil.frame[:, None]
        kernel = bulk.jitter[:, :, None] * through[:, :, rows, columns] * times
    phi = pencil.theta / state.energy
    system = block_matrix(
        np.eye(count) + by_theta * phi[:, None, :],
        -(seen.by_resolvent + kernel),
        hat.by_theta * phi[:, None, :],
        np.eye(rows.size) - hat.by_resolvent,
    )
    unit = xp.broadcast_to(np.eye(count), (batch, count, count))
    top = [at.energy_gap[:, :, None], seen.by_overlap, unit]
    low = [at.resolvent_gap[:, rows, columns][:, :, None], hat.by_overlap]
    low = [*low, xp.zeros((batch, rows.size, count))]
    right = xp.concatenate([xp.concatenate(top, 2), xp.concatenate(low, 2)], 1)
    factors, answer = solve_linear(system, right, is_kept=n >= LARGE)
    energy, resolvent = answer[:, :count], answer[:, count:]
    direct = xp.pad(inner.by_overlap, ((0, 0), (0, 0), (1, count)))
    by_unknowns = xp.concatenate([-inner.by_theta * phi[:, None], inner.by_resolvent], 2)
    return Changes(energy, resolvent, direct + by_unknowns @ answer, factors, by_unknowns)


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
    bulk: Bulk, state: State, at: Equations
) -> tuple[Float[Array, "batch n2 P"], Float[Array, "batch P n n"]]:
    """dg/dTheta_p at fixed Z, and (1/alpha0) sum_l w_l Q_l of it Q_l."""
    xp, pencil = library_of(state.energy).xp, at.pencil
    (batch, count), n = state.energy.shape, state.resolvent.shape[-1]
    rows, columns, _ = triangle(n)
    if pencil.frame is None or pencil.lower is None:
        return xp.zeros((batch, rows.size, count)), xp.zeros((batch, count, n, n))
    low = pencil.lower
    s = pencil.ends @ state.resolvent @ flip(pencil.frame) + low / 2
    half = s[:, :, :, None] * low[:, :, None, :]
    by_theta = -(half + flip(half))[:, :, rows, columns]
    weights = bulk.label_weights[:, 0] / bulk.alpha0[:, None]
    one = at.image.source @ flip(s)[:, None] * weights[:, :, None, None]  # Q_l s_p, (., J, n, P)
    two = at.image.source @ flip(low)[:, None]
    product = one.swapaxes(1, 3) @ xp.transpose(two, (0, 3, 1, 2))
    return flip(by_theta), -(product + flip(product))


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
    by_value = seen.swapaxes(1, 3)  # (., P, n, s)
    squares = (by_value * (weight * levels.value)[:, None, None, :]) @ flip(by_value)
    direct = flip(squares[:, :, rows, columns])
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
