"""The frozen derivative of ``risk`` where the teacher has several directions.

With w_a = M^-1 b_a/rho_a, xi = G_vv^-1 (b_v + A_v t - sum_a G_va w_a), the sources Z_l, psi_l of
``risk`` and, for every direction,

    zeta_a = (w_a, 0) + sum_l w^{0a}_l Z_l,   eta_a = sum_l w^{0a}_l Q_l psi_l,
    a = zeta - F^T eta/alpha0,   p = Z_tt a,   P = Phi_t^T a

the change of Pi is that of the sources z_j and, with s_l = sum_a A_al P_a + A_0l psi_l/alpha0 and
c_l = A_0l Q_l s_l,

    -sum_a p_a1^T dM^-1 p_a1
    - sum_p dTheta_p {sum_a (a_p.p_a - l_p.eta_a/alpha0)^2
                      - (2/alpha0) sum_l (c_l.l_p) (a_p^T Z Z_l)
                      + chi_p sum_l y_l^2 (b_p.Delta_l^T s_l)^2}
    + (1/alpha0) sum_l (Q_l s_l)^2 : dg + (1/alpha0) sum_l (w^{00}_l Z_l - 2 F^T c_l)^T dZ Z_l
    dPi/dz_j = 2 sum_l y_l^j (sum_a w^{0a}_l (p_a - D eta_a/alpha0) - Phi c_l/alpha0
                              + w^{00}_l Z Z_l/alpha0)

and the explicit change of J by M^-1 is that of sum_a b_a b_a^T - b_v b_v^T
+ sum_a (gamma_a/rho_a) sym(b_v b_a^T) + sum_a p_a1 p_a1^T - sum_a sym(p_a1 b_a^T)/rho_a.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.library import library_of
from firststep.theory.one_step.mean import Forms
from firststep.theory.one_step.resolvent import Equations
from firststep.theory.one_step.system import State, System, apply, flip
from firststep.theory.one_step.term_mean import turned

if TYPE_CHECKING:
    from firststep.typing import Array, Float


class Given(NamedTuple):
    """A solution, and what the fit leaves unexplained by its projections."""

    system: System
    state: State
    at: Equations
    shapes: Forms
    across: Float[Array, "batch mr"]  # b_a
    along: Float[Array, "batch r"]  # b_v
    norms: Float[Array, "batch P"]  # t_p


class Pull(NamedTuple):
    """What J changes by."""

    by_theta: Float[Array, "batch P"]
    by_resolvent: Float[Array, "batch n n"]
    by_norms: Float[Array, "batch P"] | None
    by_inverse: Float[Array, "batch r r"]


class _Kicks(NamedTuple):
    """The source of the resolvent and what it becomes on the label nodes."""

    nodes: Float[Array, "batch J n"]  # Z_l
    psi: Float[Array, "batch J n"]  # psi_l
    eta: Float[Array, "batch m n"]
    p: Float[Array, "batch m n"]
    total: Float[Array, "batch J n"]  # s_l
    kick: Float[Array, "batch J n"]  # Q_l s_l
    own: Float[Array, "batch n"]  # (xi/|v|, 0)


def pull_of_terms(given: Given) -> Pull:
    """Explicit derivatives of J, that of diag(Theta |X[h_p]|^2) with them."""
    kicks = _kicks(given)
    by_theta, by_z = _by_theta_and_resolvent(given, kicks)
    mean = given.system.mean
    if mean.own_shift is not None:
        by_z = by_z + mean.own_shift[:, None, None] * kicks.own[:, :, None] * kicks.own[:, None, :]
    by_norms = None if given.shapes.sources is None else _by_norms(given, kicks)
    return Pull(by_theta, by_z, by_norms, _by_inverse(given, kicks))


def _kicks(given: Given) -> _Kicks:
    system, state, at, shapes, across, sources, norms = given
    bulk, mean, frame = system.bulk, system.mean, at.pencil.frame
    a, y, alpha0 = bulk.amplitudes, bulk.labels, bulk.alpha0[:, None, None]
    assert a is not None
    xp, (batch, n, _) = library_of(across).xp, state.resolvent.shape
    r, count = bulk.basis.shape[1], a.shape[1] - 1
    widen = ((0, 0), (0, n - r))
    rho = turned(mean, count)[:, :, None]
    source = across.reshape(batch, count, r) @ at.pencil.inverse / rho  # w_a
    pull = sources - apply(shapes.to_teacher, source.reshape(batch, -1))
    if shapes.along_v is not None:
        pull = pull + apply(shapes.along_v, norms)
    along = xp.pad(apply(shapes.solver, pull) / mean.length[:, None], widen)
    heads = [along]
    if shapes.sources is not None:
        drawn = xp.einsum("bjnp,bp->bjn", shapes.sources, norms)
        heads = [along - drawn[:, 0], -drawn[:, 1], -drawn[:, 2]]
    nodes = sum(y[:, :, None] ** (j + 1) * head[:, None] for j, head in enumerate(heads))
    psi = nodes @ shapes.phi
    linear = a[:, 1:] * a[:, :1]  # w^{0a}
    zeta = xp.pad(source, ((0, 0), *widen)) + linear @ nodes
    eta = linear @ apply(at.image.source, psi)
    ends = zeta - (eta if frame is None else eta @ frame) / alpha0
    flat = ends.reshape(batch, -1)
    big = apply(flip(shapes.phi_teacher), flat).reshape(batch, count, n)
    total = flip(a[:, 1:]) @ big + a[:, 0, :, None] * psi / alpha0
    return _Kicks(
        nodes=nodes,
        psi=psi,
        eta=eta,
        p=apply(shapes.teacher, flat).reshape(batch, count, n),
        total=total,
        kick=apply(at.image.source, total),
        own=along,
    )


def _by_theta_and_resolvent(
    given: Given, kicks: _Kicks
) -> tuple[Float[Array, "batch P"], Float[Array, "batch n n"]]:
    """The change of -Pi by Theta_p, and that of Pi by Z and g."""
    bulk, pencil, z = given.system.bulk, given.at.pencil, given.state.resolvent
    assert bulk.amplitudes is not None
    xp, y, alpha0 = library_of(kicks.p).xp, bulk.labels, bulk.alpha0[:, None, None]
    w0, one = bulk.label_weights[:, 0, :, None], bulk.amplitudes[:, 0, :, None]
    by_trace = flip(kicks.kick) @ kicks.kick / alpha0
    c = one * kicks.kick
    back = c if pencil.frame is None else c @ pencil.frame  # rows F^T c_l
    half = flip(back) @ kicks.nodes
    by_z = (flip(kicks.nodes * w0) @ kicks.nodes - half - flip(half)) / alpha0
    seen = apply(flip(given.at.image.delta), kicks.total) @ flip(pencil.padded)
    rough = bulk.jitter * xp.einsum("bl,blp->bp", y**2, seen**2)
    direct = kicks.p @ flip(pencil.ends)
    if pencil.lower is None or pencil.frame is None:
        return xp.sum(direct**2, 1) + rough, by_z + by_trace
    low, back_frame = pencil.lower, flip(pencil.frame)
    direct = direct - kicks.eta @ flip(low) / alpha0
    crossed = xp.sum((c @ flip(low)) * (kicks.nodes @ z @ flip(pencil.ends)), 1)
    s = pencil.ends @ z @ back_frame
    by_theta = xp.sum(direct**2, 1) - 2 * crossed / alpha0[:, :, 0]
    by_theta = by_theta + xp.sum(((2 * s + low) @ by_trace) * low, -1)
    return by_theta + rough, by_z + back_frame @ by_trace @ pencil.frame


def _by_norms(given: Given, kicks: _Kicks) -> Float[Array, "batch P"]:
    """The change by Theta_p through the sources R_j, and of diag(Theta |X[h_p]|^2)."""
    bulk, mean, pencil = given.system.bulk, given.system.mean, given.at.pencil
    assert bulk.amplitudes is not None
    xp, y, a = library_of(kicks.p).xp, bulk.labels, bulk.amplitudes
    alpha0 = bulk.alpha0[:, None, None]
    h, k, products = mean.linear_chaos, mean.higher_chaos, mean.vector_products
    steady = kicks.p
    if pencil.frame is not None:
        second = np.arange(steady.shape[-1]) >= bulk.basis.shape[1]
        steady = steady - xp.where(second, kicks.eta, 0.0) / alpha0
    one = a[:, 0, :, None]
    seen = bulk.label_weights[:, 0, :, None] * (kicks.nodes @ given.state.resolvent)
    seen = seen - (one * kicks.kick) @ flip(given.shapes.phi)
    weighted = flip(a[:, 1:] * a[:, :1]) @ steady + seen / alpha0
    pull = xp.stack([2 * xp.einsum("bl,bln->bn", y**j, weighted) for j in (1, 2, 3)], 1)
    on_rows = h * xp.einsum("bpn,bjn->bpj", pencil.ends, pull)
    on_rows = on_rows + k * xp.einsum("bpn,bjn->bpj", pencil.padded, pull)
    own = xp.einsum("bpi,bij,bpj->bp", h, products, h)
    norms = given.norms
    return norms**2 * own + norms * xp.sum(on_rows, -1)


def _by_inverse(given: Given, kicks: _Kicks) -> Float[Array, "batch r r"]:
    """The explicit change by M^-1."""
    mean, r = given.system.mean, given.system.bulk.basis.shape[1]
    batch, count = kicks.p.shape[:2]
    rho = turned(mean, count)[:, :, None]
    b, v, p1 = given.across.reshape(batch, count, r), given.along[:, :, None], kicks.p[:, :, :r]
    slanted = (mean.alignment / mean.misalignment)[:, None, None] * (v @ b[:, :1])
    slanted = slanted - flip(p1 / rho) @ b
    return flip(b) @ b - v @ flip(v) + flip(p1) @ p1 + slanted + flip(slanted)
