"""From the solved equations to errors: learned function, linear coefficient, error by kappa, risk.

With h0, h1, h2 the teacher's conditional moments, f = S h1, b_z = B f and the matrices of ``mean``:

    m = (1 + Kmean S)^-1 (Kmean S h0 + C^T (X; X_c) b_z),   g = S (h0 - m)
    b_v = B kappa g,   t_p = (mu0' g)_p
    linear coefficient  t_k = B_k^T (X^T b_v + T b_z + X_c^T t)
    J = g^T Kmean g + 2 b_v^T X b_z + 2 t^T X_c b_z + b_z^T T b_z
    e_det = h2 - 2 m h0 + m^2 - 2 t h1 - dJ/dS   (g, f frozen; through M, D, Theta, resolvent)
    e = (1 - Top)^-1 e_det,   Top_kl = (omega_l s_l^2/alpha) (-d(alpha V_k)/dS_l + H_kl H_lk/d)
    test error = sum_k omega_k e_k,   training error = sum_k omega_k s_k^2 e_k,   s = S/omega

For dJ/dS: J = (terms in Theta) + 2 xi.b_v - Pi + (terms in M^-1),
xi = G_vv^-1 (b_v + A_v t - G_vt w), w = M^-1 b_z/rho, where Pi is the quadratic form of the
resolvent on the source z_t (x) theta + sum_j z_j (x) X[yhat^j], z_t = (w, 0) and
z_j = (xi/|v|, 0) [j = 1 only] - R_j t, and with the own output eps^2 Z on (xi/|v|, 0) more:

    Pi = a^T Z_tt a - (2/alpha0) zeta^T D eta - eta^T diag(0, A2) eta/alpha0^2
         + (1/alpha0) sum_l w^0_l (Z_l^T Z Z_l - psi_l^T Q_l psi_l/alpha0)
    Z_l = sum_j y_l^j z_j,   psi_l = Phi^T Z_l,   zeta = z_t + sum_l w^1_l Z_l
    eta = sum_l w^1_l Q_l psi_l,   a = zeta - F^T eta/alpha0

J is stationary in xi, so xi is frozen too. With p = Z_tt a, P = Phi_t^T a,
c_l = w^1_l Q_l P + w^0_l Q_l psi_l/alpha0, l_p = (0, e_p U_p) and E_l[.] over the weights w_l of
(1, G, G^2), the change of Pi is that of the sources z_j and

    -p_1^T dM^-1 p_1
    - sum_p dTheta_p {(a_p.p - l_p.eta/alpha0)^2 - (2/alpha0) sum_l (c_l.l_p) (a_p^T Z Z_l)
                      + chi_p sum_l y_l^2 E_l[(b_p.Delta_l^T (G P + psi_l/alpha0))^2]}
    + (1/alpha0) sum_l E_l[(Q_l (G P + psi_l/alpha0))^2] : dg
    + (1/alpha0) sum_l (w^0_l Z_l - 2 F^T c_l)^T dZ Z_l.

Inputs N(0, Omega): the sources along theta and tau = Omega theta are z_t and, with x = sum_l w^1_l
Z_l, b = x - F^T eta/alpha0,

    Pi = z_t^T Z_tt z_t + 2 z_t^T Z_ts b + b^T Z_ss b - (2/alpha0) (z_t + T_1 x)^T D eta
         - (T_1/alpha0^2) eta^T diag(0, A2) eta + (1/alpha0) sum_l (...)       with Z = <varpi Z>

With P = Phi_t^T z_t + Phi_s^T b, b~ = b - F^T d P and on every level s = z_t/sqrt varpi +
sqrt varpi b~, p = Z(varpi) s, phi = F p + D s, p~ = p - sqrt varpi D d P, its change is as above
with <sqrt varpi p~>_t for p in the sources z_j (and T_1 eta for eta there), with

    <p_1 p_1^T/varpi>_t for p_1 p_1^T,   <(a_p.p~ - sqrt varpi l_p.eta/alpha0)^2>_t for the square

and with w^0_l (<varpi phi phi^T>_t - P P^T) more in E_l[(G P + psi_l/alpha0)^2]; in z_t it is
<p~/sqrt varpi>_t that stands with dM^-1 b_z/rho. The own output adds the source (xi/|v|, 0) on the
levels, with the masses and (A/N) b^2 for t, to these three. Typed neurons: beta in the place of b_v
from xi on, and what ``typed`` adds in Theta.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.library import library_of
from firststep.theory.one_step.level_kicks import LevelKicks, on_levels
from firststep.theory.one_step.mean import Forms, forms
from firststep.theory.one_step.projection import (
    coherent_energy,
    projection,
    readout_share,
    row_vectors,
    rows_energy,
    smoother,
)
from firststep.theory.one_step.resolvent import Equations, average, equations
from firststep.theory.one_step.response import Response, respond
from firststep.theory.one_step.system import State, System, apply, flip, solve_each, triangle
from firststep.theory.one_step.term_risk import Given, Pull, pull_of_terms
from firststep.theory.one_step.typed import by_type

if TYPE_CHECKING:
    from firststep.typing import Array, Float


class Outcome(NamedTuple):
    """Functions on the nodes, and the errors they have."""

    learned: Float[Array, "batch K"]  # m
    linear_coefficient: Float[Array, "batch *m K"]  # t
    error: Float[Array, "batch K"]  # e, label noise included
    test_error: Float[Array, " batch"]  # label noise included
    training_error: Float[Array, " batch"]
    deterministic: Float[Array, "batch K"]  # e_det
    top: Float[Array, "batch K K"]  # Top


class Solved(NamedTuple):
    """All there is to know at the solution."""

    system: System
    state: State
    at: Equations
    response: Response
    shapes: Forms

    @classmethod
    def of(cls, system: System, state: State) -> Solved:
        at = equations(system.bulk, state)
        response = respond(system.bulk, state, at)
        return cls(system, state, at, response, forms(system, state, at))


class _Sources(NamedTuple):
    """What the fit leaves unexplained, g, and its projections."""

    g: Float[Array, "batch nodes"]
    across: Float[Array, "batch mr"]  # b_z
    along: Float[Array, "batch r"]  # b_v
    norms: Float[Array, "batch P"]  # t_p
    by_type: Float[Array, "batch P"] | None = None  # of typed neurons: more of dJ/dTheta


def outcome(system: System, state: State, shrunk: Float[Array, "batch K"]) -> Outcome:
    """Errors at a solution with the weights S."""
    xp, bulk, mean = library_of(shrunk).xp, system.bulk, system.mean
    solved = Solved.of(system, state)
    fit = projection(system, state, solved.at, solved.shapes, shrunk)
    (h0, h1, h2), rows = mean.target, row_vectors(system, solved.at)
    across = _projected(bulk.basis, shrunk, h1)
    offset = apply(flip(rows), apply(solved.shapes.cross, across))
    size, nodes = h0.shape[-1], fit.root.shape[-1]
    wanted = xp.pad(h0, ((0, 0), (0, nodes - size))) if nodes > size else h0
    nu, _ = fit.solve(fit.root * (wanted - offset))
    fitted = wanted - nu / fit.root
    m = fitted[:, :size]
    # What the common mode adds to the error.
    shared = xp.sum(fitted[:, size:].reshape(m.shape[0], -1, size) ** 2, 1)
    t, by_weight = spread(solved, fit.root * nu, across)
    crossed = t * h1
    if h1.ndim == 3:  # of all directions
        crossed = xp.sum(crossed, 1)
    deterministic = h2 - 2 * m * h0 + m**2 + shared - 2 * crossed - by_weight
    shrinkage = shrunk / system.omega
    curvature = bulk_curvature(solved)
    if mean.dimension is not None:
        curvature = curvature + smoother(fit, size)[1] / mean.dimension[:, None, None]
    top = curvature * (system.omega * shrinkage**2 / system.alpha[:, None])[:, None, :]
    error = solve_each(np.eye(size) - top, deterministic)
    return Outcome(
        learned=m,
        linear_coefficient=t,
        error=error,
        test_error=xp.sum(system.omega * error, -1),
        training_error=xp.sum(system.omega * shrinkage**2 * error, -1),
        deterministic=deterministic,
        top=top,
    )


def _projected(
    basis: Float[Array, "batch r K"],
    shrunk: Float[Array, "batch K"],
    h1: Float[Array, "batch *m K"],
) -> Float[Array, "batch mr"]:
    """b_z = B S h1, of every direction."""
    if h1.ndim == 2:
        return apply(basis, shrunk * h1)
    return ((shrunk[:, None] * h1) @ flip(basis)).reshape(h1.shape[0], -1)


def spread(
    solved: Solved, g: Float[Array, "batch nodes"], across: Float[Array, "batch mr"]
) -> tuple[Float[Array, "batch *m K"], Float[Array, "batch K"]]:
    """The linear coefficient t, and dJ/dS, of g = S (h0 - m) and b_z = B S h1."""
    system, shapes, r = solved.system, solved.shapes, solved.system.bulk.basis.shape[1]
    found = apply(row_vectors(system, solved.at), g)
    sources = _Sources(g, across, found[:, :r], found[:, r:])
    if shapes.typed is not None:
        pair = shapes.typed.replaced(found, across)
        more = by_type(system.bulk, system.mean, pair, g)
        sources = sources._replace(along=pair[0], by_type=more)
    force = apply(flip(shapes.cross), found) + apply(shapes.across, across)
    by_weight = apply(flip(system.overlap_map), _frozen_gradient(solved, sources))
    if system.bulk.amplitudes is not None:
        return force.reshape(force.shape[0], -1, r) @ system.bulk.basis, by_weight
    return apply(flip(system.bulk.basis), force), by_weight


def bulk_curvature(solved: Solved) -> Float[Array, "batch K K"]:
    """-d(alpha V_k)/dS_l of the bulk."""
    mapping = solved.system.overlap_map
    return -flip(mapping) @ solved.response.force_by_overlap @ mapping


# dJ/dy at frozen g and f --------------------------------------------------------------------------


class _Kicks(NamedTuple):
    """The source of the resolvent and what it becomes on the label nodes."""

    nodes: Float[Array, "batch J n"]  # Z_l
    psi: Float[Array, "batch J n"]  # psi_l
    share: Float[Array, "batch J n"]  # Q_l psi_l/alpha0
    eta: Float[Array, "batch n"]
    p: Float[Array, "batch n"]  # <sqrt varpi p~>_t where Omega is not 1
    big: Float[Array, "batch n"]  # P
    kick: Float[Array, "batch J n"]  # Q_l P
    c: Float[Array, "batch J n"]
    own: Float[Array, "batch n"]  # (xi/|v|, 0)
    levels: LevelKicks | None  # where Omega is not 1


def _frozen_gradient(solved: Solved, sources: _Sources) -> Float[Array, "batch Y"]:
    """dJ/dy: explicit through M^-1, and through Theta and Z (g with them) by their response."""
    system, state, at, response, _ = solved
    xp, mean = library_of(sources.g).xp, system.mean
    n, r = state.resolvent.shape[-1], system.bulk.basis.shape[1]
    by_theta, by_z, by_norms, by_inverse = _pull(solved, sources)
    for fluctuation in mean.fluctuations:
        by_theta = by_theta + apply(fluctuation, sources.g[:, : fluctuation.shape[-1]]) ** 2
    by_diagonal = xp.zeros_like(at.pencil.theta)
    if mean.dimension is not None:
        coherent, by_diagonal = _by_coherent(system, state, sources.g)
        by_theta = by_theta + coherent
    for more in (by_norms, sources.by_type):
        if more is not None:
            by_theta = by_theta + more
    inverse = at.pencil.inverse
    rows, columns, times = triangle(r)
    by_matrix = -(inverse @ by_inverse @ inverse)[:, rows, columns] * times
    explicit = xp.concatenate([by_matrix, by_diagonal], 1)
    rows, columns, times = triangle(n)
    by_energy = by_theta * (at.pencil.theta / state.energy)
    return (
        explicit
        - apply(flip(response.energy_by_overlap), by_energy)
        - apply(flip(response.resolvent_by_overlap), by_z[:, rows, columns] * times)
    )


def _pull(solved: Solved, sources: _Sources) -> Pull:
    """The explicit derivatives of J that come with Pi."""
    system, state, at, _, shapes = solved
    mean, (_, across, along, norms, _) = system.mean, sources
    if system.bulk.amplitudes is not None:
        return pull_of_terms(Given(system, state, at, shapes, across, along=along, norms=norms))
    kicks = _kicks(solved, sources)
    by_theta, by_z = _by_theta_and_resolvent(solved, kicks)
    if mean.own_shift is not None and kicks.levels is None:
        by_z = by_z + mean.own_shift[:, None, None] * kicks.own[:, :, None] * kicks.own[:, None, :]
    by_norms = None if shapes.sources is None else _by_norms(solved, kicks, norms)
    return Pull(by_theta, by_z, by_norms, _by_inverse(system, sources, kicks))


def _kicks(solved: Solved, sources: _Sources) -> _Kicks:
    system, state, at, _, shapes = solved
    bulk, mean, frame = system.bulk, system.mean, at.pencil.frame
    xp, y, w = library_of(sources.g).xp, bulk.labels, bulk.label_weights
    alpha0 = bulk.alpha0
    widen = ((0, 0), (0, state.resolvent.shape[-1] - bulk.basis.shape[1]))
    source = apply(at.pencil.inverse, sources.across) / mean.misalignment[:, None]  # w
    pull = sources.along - apply(shapes.to_teacher, source)
    if shapes.along_v is not None:
        pull = pull + apply(shapes.along_v, sources.norms)
    xi = apply(shapes.solver, pull)
    along = xp.pad(xi / mean.length[:, None], widen)
    heads = [along]
    if shapes.sources is not None:
        drawn = xp.einsum("bjnp,bp->bjn", shapes.sources, sources.norms)
        heads = [along - drawn[:, 0], -drawn[:, 1], -drawn[:, 2]]
    nodes = sum(y[:, :, None] ** (j + 1) * head[:, None] for j, head in enumerate(heads))
    psi = nodes @ shapes.phi
    kicked = apply(at.image.source, psi)  # Q_l psi_l
    z_t, known = xp.pad(source, widen), shapes.known
    x = xp.einsum("bl,bln->bn", w[:, 1], nodes)
    eta = xp.einsum("bl,bln->bn", w[:, 1], kicked)
    lowered = (eta if frame is None else apply(flip(frame), eta)) / alpha0[:, None]
    levels = None
    if known.excess is None:
        a = z_t + x - lowered
        p, big = apply(known.teacher, a), apply(flip(known.phi_teacher), a)
    else:
        b = x - lowered
        big = apply(flip(known.phi_teacher), z_t) + apply(flip(known.phi_samples), b)
        levels = on_levels(system, at, (z_t, b, apply(known.excess, big)), along)
        p = levels.along_samples
    kick = apply(at.image.source, big[:, None])
    share = kicked / alpha0[:, None, None]
    return _Kicks(
        nodes=nodes,
        psi=psi,
        share=share,
        eta=eta,
        p=p,
        big=big,
        kick=kick,
        c=w[:, 1, :, None] * kick + w[:, 0, :, None] * share,
        own=along,
        levels=levels,
    )


def _by_theta_and_resolvent(
    solved: Solved, kicks: _Kicks
) -> tuple[Float[Array, "batch P"], Float[Array, "batch n n"]]:
    """The change of Pi by Theta_p, and by Z and g."""
    system, state, at, _, _ = solved
    bulk, pencil, z = system.bulk, at.pencil, state.resolvent
    xp, y, w = library_of(kicks.p).xp, bulk.labels, bulk.label_weights
    alpha0 = bulk.alpha0
    w0, w1, w2 = (w[:, a, :, None] for a in range(3))
    mixed = flip(kicks.kick * w1) @ kicks.share
    total = flip(kicks.kick * w2) @ kicks.kick + mixed + flip(mixed)
    by_trace = (total + flip(kicks.share * w0) @ kicks.share) / alpha0[:, None, None]
    if kicks.levels is not None:
        spread_of = kicks.levels.spread(kicks.big)
        by_trace = by_trace + _through_sources(at, w[:, 0] / alpha0[:, None], spread_of)
    back = kicks.c if pencil.frame is None else kicks.c @ pencil.frame  # rows F^T c_l
    half = flip(back) @ kicks.nodes
    by_z = (flip(kicks.nodes * w0) @ kicks.nodes - half - flip(half)) / alpha0[:, None, None]
    turned = flip(at.image.delta)
    seen_p = apply(turned, kicks.big[:, None]) @ flip(pencil.padded)
    seen_psi = apply(turned, kicks.psi) @ flip(pencil.padded) / alpha0[:, None, None]
    square = w2 * seen_p**2 + 2 * w1 * seen_p * seen_psi + w0 * seen_psi**2
    if kicks.levels is not None:
        turned_to = at.image.delta @ flip(pencil.padded)[:, None]  # Delta_l b_p
        square = square + w0 * xp.sum(turned_to * (spread_of[:, None] @ turned_to), 2)
    rough = bulk.jitter * xp.einsum("bl,blp->bp", y**2, square)
    low = pencil.lower
    by_eta = None if low is None else apply(low, kicks.eta) / alpha0[:, None]
    if kicks.levels is None:
        direct = apply(pencil.ends, kicks.p)
        direct = (direct if by_eta is None else direct - by_eta) ** 2
    else:
        direct = kicks.levels.squares(pencil.ends, by_eta)
    if low is None or pencil.frame is None:
        return direct + rough, by_z + by_trace
    back_frame = flip(pencil.frame)
    crossed = xp.sum((kicks.c @ flip(low)) * (kicks.nodes @ z @ flip(pencil.ends)), 1)
    s = pencil.ends @ z @ back_frame
    by_theta = direct - 2 * crossed / alpha0[:, None]
    by_theta = by_theta + xp.sum(((2 * s + low) @ by_trace) * low, -1)
    return by_theta + rough, by_z + back_frame @ by_trace @ pencil.frame


def _through_sources(
    at: Equations, weights: Float[Array, "batch J"], matrix: Float[Array, "batch n n"]
) -> Float[Array, "batch n n"]:
    """sum_l w_l Q_l X Q_l."""
    source = at.image.source
    return average(weights, flip(source) @ matrix[:, None] @ source)


def _by_coherent(
    system: System, state: State, g: Float[Array, "batch nodes"]
) -> tuple[Float[Array, "batch P"], Float[Array, "batch P"]]:
    """The change of d g^T mu0 (...)^-1 mu0 g by Theta_p and, at fixed E, by D_p."""
    bulk, mean, xp = system.bulk, system.mean, library_of(g).xp
    assert mean.dimension is not None
    size, drive = mean.dimension[:, None], apply(mean.mean, g)
    if mean.along_readout is None:
        return size * drive**2, 0 * drive
    t = readout_share(mean, state)
    answer = solve_each(coherent_energy(mean, state), xp.sqrt(bulk.neurons) * drive)
    along = xp.sum(answer * t, -1, keepdims=True)
    crossed = along * answer * t / rows_energy(state)
    by_theta = size * (answer**2 - crossed) * state.energy**2 / bulk.neurons
    return by_theta, -size * crossed


def _by_norms(
    solved: Solved, kicks: _Kicks, norms: Float[Array, "batch P"]
) -> Float[Array, "batch P"]:
    """The change by Theta_p through the sources R_j, and of diag(Theta |X[h_p]|^2).

    dPi/dz_j = 2 sum_l y_l^j (w^1_l (p - D eta/alpha0) - Phi c_l/alpha0 + w^0_l Z Z_l/alpha0).
    """
    system, state, at, _, shapes = solved
    bulk, mean, pencil = system.bulk, system.mean, at.pencil
    xp, y, w, alpha0 = library_of(norms).xp, bulk.labels, bulk.label_weights, bulk.alpha0
    h, k, products = mean.linear_chaos, mean.higher_chaos, mean.vector_products
    steady = kicks.p
    if pencil.frame is not None:
        second = np.arange(steady.shape[-1]) >= bulk.basis.shape[1]
        size = alpha0 if bulk.levels is None else alpha0 / bulk.levels.teacher
        steady = steady - xp.where(second, kicks.eta, 0.0) / size[:, None]
    seen = w[:, 0, :, None] * (kicks.nodes @ state.resolvent) - kicks.c @ flip(shapes.phi)
    weighted = w[:, 1, :, None] * steady[:, None] + seen / alpha0[:, None, None]
    pulls = [2 * xp.einsum("bl,bln->bn", y**j, weighted) for j in (1, 2, 3)]
    pull = xp.stack(pulls, 1)  # (., 3, n)
    on_rows = h * xp.einsum("bpn,bjn->bpj", pencil.ends, pull)
    on_rows = on_rows + k * xp.einsum("bpn,bjn->bpj", pencil.padded, pull)
    own = xp.einsum("bpi,bij,bpj->bp", h, products, h)
    return norms**2 * own + norms * xp.sum(on_rows, -1)


def _by_inverse(system: System, sources: _Sources, kicks: _Kicks) -> Float[Array, "batch r r"]:
    """The explicit change by M^-1."""
    mean, r = system.mean, system.bulk.basis.shape[1]
    gamma, rho = mean.alignment[:, None, None], mean.misalignment[:, None, None]
    b_z, b_v, p1 = sources.across[:, :, None], sources.along[:, :, None], kicks.p[:, :r, None]
    if kicks.levels is None:
        squared = p1 @ flip(p1)
    else:
        p1 = kicks.levels.along_teacher[:, :r, None]
        squared = kicks.levels.inner_squares(r)
    slanted = gamma / rho * (b_v @ flip(b_z)) - p1 @ flip(b_z) / rho
    return b_z @ flip(b_z) - b_v @ flip(b_v) + squared + slanted + flip(slanted)
