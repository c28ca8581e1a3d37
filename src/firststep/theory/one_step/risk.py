"""From the solved ridge equations to errors: learned function, linear coefficient, error by kappa, risk.

Mean features. In neuron space the mean feature at kappa is, for neuron i of value p, mu0[p, k] + kappa mu1[p, k] du_i +
mu0'[p, k] dc_i with fluctuations du_i (along vh) and dc_i (of the squared norm) of order 1/sqrt d; mu0' = d mu0/dc. Their kernel is

    Kmean = d sum_p Theta_p mu0 mu0 + sum_q sum_p Theta_p psi^q psi^q + C^T F C,     C = (kappa B; mu0'),

where the psi^q are fluctuations that know nothing of the rows, and F the quadratic form of the rows' part,

    F = ( G_vv^-1 - M^-1            G_vv^-1 A_v                                                          )
        (     .            diag(Theta |X[h_p]|^2) - sum_ij R_i^T Z_ij R_j + A_v^T G_vv^-1 A_v)

Blocks of the resolvent, in the coordinates (1, M_data) of Z, between theta and X[yhat^j], j = 1, 2, 3 (v = X[yhat]), with F the
frame of ``bulk``, Phi = Z F^T + D, D = diag(0, 1), x_j = E[G yhat^j], e_b = E yhat^b and q^a_b = sum_l w^a_l y_l^b Q_l:

    Z_tt = Z of (L0 + q^2_0)^-1,   Phi_t = Z_tt F^T + D,   g_t = F Z_tt F^T - diag(0, A2)
    Z_tj = x_j Z_tt - Phi_t q^1_j Phi^T/alpha0
    Z_ij = (e_(i+j) Z - Phi q^0_(i+j) Phi^T/alpha0)/alpha0
           + x_i x_j Z_tt - (x_i Phi_t q^1_j Phi^T + x_j Phi q^1_i Phi_t^T)/alpha0 + Phi q^1_i g_t q^1_j Phi^T/alpha0^2
    G_tt = (Z_tt)_11,   G_tv = (Z_t1)_11/|v|,   G_vv = (Z_11)_11/|v|^2
    R_j  = Theta_p (h_pj a_p + k_pj b_p)    [one block: Theta_p (h_pj + k_pj) U_p]
    A_v  = (sum_j Z_1j R_j)_1/|v|,   A_t = (sum_j Z_tj R_j)_1
    X    = (gamma - G_vv^-1 G_vt) M^-1/rho,   X_c = (A_t - G_tv G_vv^-1 A_v)^T M^-1/rho
    T    = M^-1 - M^-1 (G_tt - G_tv G_vv^-1 G_vt) M^-1/rho^2

With h0, h1, h2 the teacher's conditional moments, f = S h1, b_z = B f:

    m = (1 + Kmean S)^-1 (Kmean S h0 + C^T (X; X_c) b_z),   g = S (h0 - m),   b_v = B kappa g,   t_p = (mu0' g)_p
    linear coefficient  t_k = B_k^T (X^T b_v + T b_z + X_c^T t)
    J = g^T Kmean g + 2 b_v^T X b_z + 2 t^T X_c b_z + b_z^T T b_z
    e_det = h2 - 2 m h0 + m^2 - 2 t h1 - dJ/dS     (g, f frozen; through M, D, Theta, resolvent)
    e = (1 - Top)^-1 e_det,   Top_kl = (omega_l s_l^2/alpha) (-d(alpha V_k)/dS_l + H_kl H_lk/d),   s = S/omega
    test error = sum_k omega_k e_k,   training error = sum_k omega_k s_k^2 e_k.

For dJ/dS: J = (terms in Theta) + 2 xi.b_v - Pi + (terms in M^-1), xi = G_vv^-1 (b_v + A_v t - G_vt w), w = M^-1 b_z/rho, where
Pi is the quadratic form of the resolvent on the source z_t (x) theta + sum_j z_j (x) X[yhat^j], z_t = (w, 0) and
z_j = (xi/|v|, 0) [j = 1 only] - R_j t:

    Pi = a^T Z_tt a - (2/alpha0) zeta^T D eta - eta^T diag(0, A2) eta/alpha0^2
         + (1/alpha0) sum_l w^0_l (Z_l^T Z Z_l - psi_l^T Q_l psi_l/alpha0)
    Z_l = sum_j y_l^j z_j,   psi_l = Phi^T Z_l,   zeta = z_t + sum_l w^1_l Z_l,   eta = sum_l w^1_l Q_l psi_l
    a = zeta - F^T eta/alpha0.

J is stationary in xi, so xi is frozen too.

Own output. The step is taken on y - f, and f(x) = (1/N) sum_j at_j s(<w_j, x>) is what the network says before it: of order
1/sqrt N, but it moves every row by -(q/N) at_i sum_j at_j w_j, q = etat E[s']^2, which takes a share q out of the random rows along
the readout, where the mean features live. At finite d, with the P x P matrix T = diag(E_p - D_p) of the rows' share of the noise,
the first part of Kmean becomes

    d mu0^T (beta pi)^(1/2) (D + (1 - q a a^T) T (1 - q a a^T))^-1 (beta pi)^(1/2) mu0,     a_p = at_p sqrt(pi_p).

Common mode. All features share the fluctuation of |x|^2 = d + sqrt(2d) xi: mu0 + sqrt(2/d) c mu0' xi. Where the mean features are
no larger than that (small steps, readouts with a mean, students with E[s He2] != 0) it counts. Then functions of (kappa, xi) that
are linear in xi are kept as a second set of K nodes with the same S, on which the target vanishes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from firststep.theory.one_step.resolvent import (
    Bulk,
    Equations,
    Response,
    State,
    apply,
    average,
    framed,
    invert,
    take,
    thin_svd,
    trace_of,
    triangle,
)


class Mean(NamedTuple):
    """What the mean features are made of. Leading axis: problems."""

    mean: Any  # mu0 (., P, K), or (., P, 2K): see ``common mode`` above
    by_variance: Any  # mu0' (., P, K)
    fluctuations: tuple[Any, ...]  # psi^q, each (., P, K) or (., P, 2K)
    kappa: Any  # (K,)
    target: tuple[Any, ...]  # h0, h1, h2, each (., K)
    gradient_norm: Any  # |v| (.)
    alignment: Any  # gamma (.)
    rest: Any  # rho (.)
    linear_chaos: Any  # h (., P, 3), or None
    higher_chaos: Any  # k (., P, 3), or None
    vector_products: Any  # X[yhat^i] . X[yhat^j] (., 3, 3), or None
    dimension: Any  # d (.), or None for infinity
    free: Any  # functions (K, .) fitted freely, where the mean features span more than their nodes can show, or None
    readout: Any  # at_p (., P)
    feedback: Any  # q = etat E[s']^2, at most 1/E[at^2], at finite d (.), or None

    def part(self, places: Any) -> Mean:
        """Some of the problems."""
        shared = ("kappa", "free")
        return self._replace(
            **{
                name: take(each, places)
                for name, each in self._asdict().items()
                if name not in shared
            }
        )


class Forms(NamedTuple):
    """The quadratic form F and its companions, all that depends on the resolvent but not on the target."""

    rows: Any  # F (., r + P, r + P), or (., r, r) without norm fluctuations
    cross: Any  # (X; X_c) (., r + P, r)
    linear: Any  # T (., r, r)
    teacher: Any  # Z_tt (., n, n)
    phi: Any  # Phi (., n, n)
    phi_teacher: Any  # Phi_t (., n, n)
    sources: Any  # R_j (., 3, n, P), or None
    solver: Any  # G_vv^-1 (., r, r)
    gvt: Any
    along_v: Any  # A_v (., r, P), or None


class Outcome(NamedTuple):
    learned: Any  # m (., K)
    linear: Any  # t (., K)
    error: Any  # e (., K), label noise included
    risk_with_noise: Any
    training_error: Any


def forms(bulk: Bulk, mean: Mean, state: State, at: Equations, xp: Any) -> Forms:
    """The matrices of the module's docstring at a state."""
    r = bulk.basis.shape[1]
    y, w = bulk.labels, bulk.label_weights
    norm, gamma, rho = (v[:, None, None] for v in (mean.gradient_norm, mean.alignment, mean.rest))
    alpha0 = bulk.alpha0[:, None, None]
    pencil, z = at.pencil, state.resolvent
    teacher = invert(pencil, average(w[:, 2], at.source), xp)
    phi, phi_teacher = framed(pencil, z, xp), framed(pencil, teacher, xp)
    trace_teacher = trace_of(pencil, teacher, xp)

    def flip(x: Any) -> Any:
        return xp.swapaxes(x, 1, 2)

    def moment(a: int, power: int) -> Any:
        return xp.sum(w[:, a] * y**power, -1)[:, None, None]

    powers = (1, 2, 3) if mean.linear_chaos is not None else (1,)
    linear = {
        j: average(w[:, 1] * y**j, at.source) @ flip(phi) / alpha0 for j in powers
    }  # q^1_j Phi^T/alpha0
    to_teacher = {j: moment(1, j) * teacher - phi_teacher @ linear[j] for j in powers}
    between = {}
    for i in powers:
        for j in powers:
            if i <= j:
                own = (
                    moment(0, i + j) * z
                    - phi @ average(w[:, 0] * y ** (i + j), at.source) @ flip(phi) / alpha0
                )
                crossed = moment(1, i) * (phi_teacher @ linear[j])
                other = moment(1, j) * (phi_teacher @ linear[i])
                shared = (
                    moment(1, i) * moment(1, j) * teacher
                    + flip(linear[i]) @ trace_teacher @ linear[j]
                )
                between[i, j] = own / alpha0 + shared - crossed - flip(other)
                between[j, i] = flip(between[i, j])
    gvv = between[1, 1][:, :r, :r] / norm**2
    gtv = to_teacher[1][:, :r, :r] / norm
    gvt = flip(gtv)
    solver = xp.linalg.inv(gvv)
    inverse = at.inverse
    rest = teacher[:, :r, :r] - gtv @ solver @ gvt
    rows = solver - inverse
    cross = (gamma * np.eye(r) - solver @ gvt) @ inverse / rho
    line = inverse - inverse @ rest @ inverse / rho**2
    if mean.linear_chaos is None:
        return Forms(rows, cross, line, teacher, phi, phi_teacher, None, solver, gvt, None)
    h, k = mean.linear_chaos, mean.higher_chaos
    theta = at.theta[:, :, None]
    sources = xp.einsum("bpn,bpj->bjnp", pencil.ends, theta * h) + xp.einsum(
        "bpn,bpj->bjnp", pencil.padded, theta * k
    )
    own = at.theta * xp.einsum("bpi,bij,bpj->bp", h, mean.vector_products, h)
    along_v = sum(between[1, j] @ sources[:, j - 1] for j in powers)[:, :r] / norm
    along_t = sum(to_teacher[j] @ sources[:, j - 1] for j in powers)[:, :r]
    seen = sum(
        flip(sources[:, i - 1]) @ between[i, j] @ sources[:, j - 1] for i in powers for j in powers
    )
    mixed = solver @ along_v
    norms = own[:, :, None] * np.eye(own.shape[1]) - seen + flip(along_v) @ mixed
    rows = xp.concatenate(
        [xp.concatenate([rows, mixed], 2), xp.concatenate([flip(mixed), norms], 2)], 1
    )
    cross_norm = flip(along_t - gtv @ mixed) @ inverse / rho
    return Forms(
        rows,
        xp.concatenate([cross, cross_norm], 1),
        line,
        teacher,
        phi,
        phi_teacher,
        sources,
        solver,
        gvt,
        along_v,
    )


class Projection(NamedTuple):
    """The fit of the mean: nu = sqrt S (h0 - m) solves (1 + sqrt S Kmean sqrt S) nu = sqrt S (h0 - X)."""

    system: Any  # the bordered matrix (., K + P, K + P)
    root: Any  # sqrt S


def coherent_noise(bulk: Bulk, mean: Mean, state: State, xp: Any) -> tuple[Any, Any]:
    """(D + (1 - q a a^T) diag(E - D) (1 - q a a^T), 1 - q a a^T), a_p = at_p sqrt(pi_p): see ``own output`` above."""
    share = bulk.mass / xp.sum(bulk.mass, -1, keepdims=True)
    a = mean.readout * xp.sqrt(share)
    turn = np.eye(a.shape[-1]) - mean.feedback[:, None, None] * a[:, :, None] * a[:, None, :]
    rows = (state.energy - state.diagonal)[:, None, :]
    return state.diagonal[:, :, None] * np.eye(a.shape[-1]) + (turn * rows) @ turn, turn


def _coherent(bulk: Bulk, mean: Mean, state: State, xp: Any) -> Any:
    """(., P, K) whose Gram matrix over P is the first part of Kmean over d: sqrt(Theta_p) mu0 where the rows are independent."""
    if mean.feedback is None:
        return mean.mean * xp.sqrt(bulk.mass / state.energy)[..., None]
    noise, _ = coherent_noise(bulk, mean, state, xp)
    return xp.linalg.solve(xp.linalg.cholesky(noise), mean.mean * xp.sqrt(bulk.mass)[..., None])


def projection(
    bulk: Bulk,
    mean: Mean,
    state: State,
    at: Equations,
    shapes: Forms,
    s_weights: Any,
    xp: Any,
    stop: Any,
) -> Projection:
    """The bordered system ((1 + F, U), (U^T, -delta)): N sum_p (pi_p/E_p) mu0 mu0 in directions scaled to length one.

    In direction i of singular value sigma_i of sqrt S mu0^T sqrt(Theta/beta), delta = (1/N)/(1/N + sigma^2): zero for d = infinity,
    where the mean features are fitted freely.
    """
    theta = at.theta
    kernel = _fluctuation_kernel(bulk, mean, at, shapes, xp)
    size = kernel.shape[-1]
    root = xp.tile(xp.sqrt(s_weights), (1, size // s_weights.shape[-1]))
    smooth = np.eye(size) + root[:, :, None] * kernel * root[:, None, :]
    if mean.free is None:
        columns = root[:, :, None] * xp.swapaxes(
            _coherent(bulk, mean, state, xp), 1, 2
        )  # (., K, P)
    else:
        columns = root[:, :, None] * mean.free
    _, sigma, right = thin_svd(stop(columns), xp)
    floor = (1.0 / mean.dimension if mean.dimension is not None else xp.zeros_like(sigma[:, 0]))[
        :, None
    ]
    # below this the mean is rounding: an odd student has none without a step
    features = xp.max(mean.mean**2, axis=(-2, -1)) + xp.max(bulk.remainder, axis=(-2, -1))
    largest = features * xp.max(theta, -1) * xp.sum(s_weights, -1)
    if mean.free is not None:
        largest = xp.max(sigma, -1) ** 2
    kept = sigma > 1e-13 * xp.sqrt(stop(largest))[:, None]
    length = xp.where(kept, xp.sqrt(floor + sigma**2), 1.0)
    directions = xp.where(
        kept[:, None, :], (columns @ xp.swapaxes(right, 1, 2)) / length[:, None, :], 0.0
    )
    slack = xp.where(kept, floor / length**2, 1.0)
    count = slack.shape[-1]
    border = xp.concatenate([xp.swapaxes(directions, 1, 2), -slack[:, :, None] * np.eye(count)], 2)
    system = xp.concatenate([xp.concatenate([smooth, directions], 2), border], 1)
    return Projection(system, root)


def _fluctuation_kernel(bulk: Bulk, mean: Mean, at: Equations, shapes: Forms, xp: Any) -> Any:
    kernel = 0.0
    for psi in mean.fluctuations:
        kernel = kernel + xp.swapaxes(psi, 1, 2) @ (psi * at.theta[..., None])
    vectors = _row_vectors(bulk, mean, xp)
    return kernel + xp.swapaxes(vectors, 1, 2) @ shapes.rows @ vectors


def _row_vectors(bulk: Bulk, mean: Mean, xp: Any) -> Any:
    """C = (kappa B; mu0')."""
    along = bulk.basis * mean.kappa
    vectors = along if mean.linear_chaos is None else xp.concatenate([along, mean.by_variance], 1)
    return xp.pad(vectors, ((0, 0), (0, 0), (0, mean.mean.shape[-1] - vectors.shape[-1])))


def smoother(fit: Projection, nodes: int, xp: Any) -> tuple[Any, Any]:
    """H_kk and H_kl H_lk of H = (1 + Kmean S)^-1 Kmean, from sqrt S H sqrt S = 1 - (1 + sqrt S Kmean sqrt S)^-1."""
    size = fit.root.shape[-1]
    total = fit.system.shape[-1]
    right = np.eye(total)[:, :size]
    inner = xp.linalg.solve(fit.system, xp.broadcast_to(right, (fit.root.shape[0], total, size)))[
        :, :size
    ]
    matrix = (np.eye(size) - inner) / (fit.root[:, :, None] * fit.root[:, None, :])
    squares = matrix * xp.swapaxes(matrix, 1, 2)
    diagonal = xp.einsum("bkk->bk", matrix)
    sets = size // nodes
    return diagonal.reshape(-1, sets, nodes).sum(1), squares.reshape(
        -1, sets, nodes, sets, nodes
    ).sum((1, 3))


def outcome(
    bulk: Bulk,
    mean: Mean,
    state: State,
    at: Equations,
    found: Response,
    mapping: Any,
    s_weights: Any,
    omega: Any,
    alpha: Any,
    xp: Any,
    stop: Any,
) -> Outcome:
    """Errors at the solution: ``mapping`` is Lambda, ``s_weights`` S."""
    r = bulk.basis.shape[1]
    shapes = forms(bulk, mean, state, at, xp)
    fit = projection(bulk, mean, state, at, shapes, s_weights, xp, stop)
    h0, h1, h2 = mean.target
    rows = _row_vectors(bulk, mean, xp)
    f = s_weights * h1
    bz = apply(bulk.basis, f)
    offset = apply(xp.swapaxes(rows, 1, 2), apply(shapes.cross, bz))
    size, all_nodes = h0.shape[-1], fit.root.shape[-1]
    wanted = xp.pad(h0, ((0, 0), (0, all_nodes - size)))
    right = xp.pad(fit.root * (wanted - offset), ((0, 0), (0, fit.system.shape[-1] - all_nodes)))
    nu = xp.linalg.solve(fit.system, right[..., None])[:, :all_nodes, 0]
    fitted = wanted - nu / fit.root
    m = fitted[:, :size]
    shared = xp.sum(
        fitted[:, size:].reshape(m.shape[0], -1, size) ** 2, 1
    )  # what the common mode adds to the error
    g = fit.root * nu
    sources = apply(rows, g)  # (b_v, t)
    t = apply(
        xp.swapaxes(bulk.basis, 1, 2),
        apply(xp.swapaxes(shapes.cross, 1, 2), sources) + apply(shapes.linear, bz),
    )
    gradient = frozen_gradient(
        bulk, mean, state, at, found, shapes, g, bz, sources[:, :r], sources[:, r:], xp
    )
    by_weight = apply(xp.swapaxes(mapping, 1, 2), gradient)
    deterministic = h2 - 2 * m * h0 + m**2 + shared - 2 * t * h1 - by_weight
    scaled = s_weights / omega
    curvature = -xp.swapaxes(mapping, 1, 2) @ found.slope_by_overlap @ mapping
    if mean.dimension is not None:
        curvature = curvature + smoother(fit, size, xp)[1] / mean.dimension[:, None, None]
    top = curvature * (omega * scaled**2 / alpha[:, None])[:, None, :]
    error = xp.linalg.solve(np.eye(size) - top, deterministic[..., None])[..., 0]
    return Outcome(m, t, error, xp.sum(omega * error, -1), xp.sum(omega * scaled**2 * error, -1))


def frozen_gradient(
    bulk: Bulk,
    mean: Mean,
    state: State,
    at: Equations,
    found: Response,
    shapes: Forms,
    g: Any,
    bz: Any,
    bv: Any,
    t: Any,
    xp: Any,
) -> Any:
    """dJ/dy at frozen g, f: explicit through M^-1, and through Theta and Z (g with them) by their response.

    With p = Z_tt a, P = Phi_t^T a, c_l = w^1_l Q_l P + w^0_l Q_l psi_l/alpha0, l_p = (0, e_p U_p) and E_l[.] over the weights w_l
    of (1, G, G^2), the change of Pi is that of the sources z_j and

        -p_1^T dM^-1 p_1 - sum_p dTheta_p {(a_p.p - l_p.eta/alpha0)^2 - (2/alpha0) sum_l (c_l.l_p) (a_p^T Z Z_l)
                                           + chi_p sum_l y_l^2 E_l[(b_p.Delta_l^T (G P + psi_l/alpha0))^2]}
        + (1/alpha0) sum_l E_l[(Q_l (G P + psi_l/alpha0))^2] : dg + (1/alpha0) sum_l (w^0_l Z_l - 2 F^T c_l)^T dZ Z_l.
    """
    n, r = state.resolvent.shape[-1], bulk.basis.shape[1]
    y, w = bulk.labels, bulk.label_weights
    alpha0 = bulk.alpha0
    pencil, z = at.pencil, state.resolvent
    norm, gamma, rho = (v[:, None] for v in (mean.gradient_norm, mean.alignment, mean.rest))
    force = apply(at.inverse, bz) / rho  # w
    pull = bv - apply(shapes.gvt, force)
    if shapes.along_v is not None:
        pull = pull + apply(shapes.along_v, t)
    xi = apply(shapes.solver, pull)
    widen = ((0, 0), (0, n - r))
    heads = [xp.pad(xi / norm, widen)]
    if shapes.sources is not None:
        drawn = xp.einsum("bjnp,bp->bjn", shapes.sources, t)
        heads = [heads[0] - drawn[:, 0], -drawn[:, 1], -drawn[:, 2]]
    nodes = sum(
        y[:, :, None] ** (j + 1) * head[:, None] for j, head in enumerate(heads)
    )  # Z_l (., J, n)
    psi = nodes @ shapes.phi  # rows psi_l = Phi^T Z_l
    kicked = (at.source @ psi[..., None])[..., 0]  # Q_l psi_l
    zeta = xp.pad(force, widen) + xp.einsum("bl,bln->bn", w[:, 1], nodes)
    eta = xp.einsum("bl,bln->bn", w[:, 1], kicked)
    a = (
        zeta
        - (eta if pencil.frame is None else apply(xp.swapaxes(pencil.frame, 1, 2), eta))
        / alpha0[:, None]
    )
    p = apply(shapes.teacher, a)
    big = apply(xp.swapaxes(shapes.phi_teacher, 1, 2), a)  # P
    kick = (at.source @ big[:, None, :, None])[..., 0]  # Q_l P
    share = kicked / alpha0[:, None, None]
    c = w[:, 1, :, None] * kick + w[:, 0, :, None] * share

    def pairs(x0: Any, x1: Any, weights: Any) -> Any:
        return xp.swapaxes(x0 * weights[..., None], 1, 2) @ x1

    mixed = pairs(kick, share, w[:, 1])
    by_trace = (
        pairs(kick, kick, w[:, 2]) + mixed + xp.swapaxes(mixed, 1, 2) + pairs(share, share, w[:, 0])
    ) / alpha0[:, None, None]
    back = c if pencil.frame is None else c @ pencil.frame  # rows F^T c_l
    half = xp.swapaxes(back, 1, 2) @ nodes
    by_z = (pairs(nodes, nodes, w[:, 0]) - half - xp.swapaxes(half, 1, 2)) / alpha0[:, None, None]

    turned = xp.swapaxes(at.delta, 2, 3)
    seen_p = (turned @ big[:, None, :, None])[..., 0] @ xp.swapaxes(pencil.padded, 1, 2)
    seen_psi = (
        (turned @ psi[..., None])[..., 0] @ xp.swapaxes(pencil.padded, 1, 2) / alpha0[:, None, None]
    )
    square = (
        w[:, 2, :, None] * seen_p**2
        + 2 * w[:, 1, :, None] * seen_p * seen_psi
        + w[:, 0, :, None] * seen_psi**2
    )
    direct = apply(pencil.ends, p)
    if pencil.lower is not None:
        direct = direct - apply(pencil.lower, eta) / alpha0[:, None]
        crossed = xp.sum(
            (c @ xp.swapaxes(pencil.lower, 1, 2)) * (nodes @ z @ xp.swapaxes(pencil.ends, 1, 2)), 1
        )
        turned_back = xp.swapaxes(pencil.frame, 1, 2)
        s, low = pencil.ends @ z @ turned_back, pencil.lower
        by_theta = (
            direct**2 - 2 * crossed / alpha0[:, None] + xp.sum(((2 * s + low) @ by_trace) * low, -1)
        )
        by_z = by_z + turned_back @ by_trace @ pencil.frame
    else:
        by_theta, by_z = direct**2, by_z + by_trace
    by_theta = by_theta + bulk.noise * xp.einsum("bl,blp->bp", y**2, square)
    for fluctuation in mean.fluctuations:
        by_theta = by_theta + apply(fluctuation, g) ** 2
    by_diagonal = xp.zeros_like(at.theta)
    if mean.dimension is not None:
        size = mean.dimension[:, None]
        drive = apply(mean.mean, g)
        if mean.feedback is None:
            by_theta = by_theta + size * drive**2
        else:
            noise, turn = coherent_noise(bulk, mean, state, xp)
            answer = xp.linalg.solve(noise, (xp.sqrt(bulk.mass) * drive)[..., None])[..., 0]
            turned_answer = apply(turn, answer)
            by_theta = by_theta + size * turned_answer**2 * state.energy**2 / bulk.mass
            by_diagonal = size * (turned_answer**2 - answer**2)
    if shapes.sources is not None:
        # dPi/dz_j = 2 sum_l y_l^j (w^1_l (p - D eta/alpha0) - Phi c_l/alpha0 + w^0_l Z Z_l/alpha0)
        steady = (
            p
            if pencil.frame is None
            else p - xp.where(np.arange(n) >= r, eta, 0.0) / alpha0[:, None]
        )
        moving = (w[:, 0, :, None] * (nodes @ z) - c @ xp.swapaxes(shapes.phi, 1, 2)) / alpha0[
            :, None, None
        ]
        weighted = w[:, 1, :, None] * steady[:, None] + moving
        pulls = xp.stack(
            [2 * xp.einsum("bl,bln->bn", y**j, weighted) for j in (1, 2, 3)], 1
        )  # (., 3, n)
        h, k = mean.linear_chaos, mean.higher_chaos
        on_rows = h * xp.einsum("bpn,bjn->bpj", pencil.ends, pulls) + k * xp.einsum(
            "bpn,bjn->bpj", pencil.padded, pulls
        )
        by_theta = (
            by_theta
            + t**2 * xp.einsum("bpi,bij,bpj->bp", h, mean.vector_products, h)
            + t * xp.sum(on_rows, -1)
        )

    b_z, b_v, p1 = bz[:, :, None], bv[:, :, None], p[:, :r, None]

    def outer(x0: Any, x1: Any) -> Any:
        return x0 @ xp.swapaxes(x1, 1, 2)

    ratio = (gamma / rho)[:, :, None]
    slanted = ratio * outer(b_v, b_z) - outer(p1, b_z) / rho[:, :, None]
    by_inverse = (
        outer(b_z, b_z) - outer(b_v, b_v) + outer(p1, p1) + slanted + xp.swapaxes(slanted, 1, 2)
    )
    rows, columns, times = triangle(r)
    by_matrix = -(at.inverse @ by_inverse @ at.inverse)[:, rows, columns] * times
    explicit = xp.concatenate([by_matrix, by_diagonal], 1)
    rows, columns, times = triangle(n)
    phi_theta = at.theta / state.energy
    return (
        explicit
        - apply(xp.swapaxes(found.energy_by_overlap, 1, 2), by_theta * phi_theta)
        - apply(xp.swapaxes(found.resolvent_by_overlap, 1, 2), by_z[:, rows, columns] * times)
    )
