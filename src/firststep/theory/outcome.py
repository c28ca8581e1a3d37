"""From the solved ridge equations to errors: learned function, linear coefficient, error by kappa, risk.

Mean features. In neuron space the mean feature at kappa is, for neuron i of value p, mu0[p, k] + kappa mu1[p, k] du_i +
mu0'[p, k] dc_i with fluctuations du_i (along vh) and dc_i (of the squared norm) of order 1/sqrt d; mu0' = d mu0/dc. Their kernel is

    Kmean = d sum_p Theta_p mu0 mu0 + sum_q sum_p Theta_p psi^q psi^q + C^T F C,     C = (kappa B; mu0'),

where the psi^q are fluctuations that know nothing of the rows, and F the quadratic form of the rows' part,

    F = ( G_vv^-1 - M^-1            G_vv^-1 A_v                                                          )
        (     .            diag(Theta |X[h_p]|^2) - X_ij Y_i^T A2^-1 Y_j - R_i^T Q_ij R_j + A_v^T G_vv^-1 A_v)

Blocks of the pencil's resolvent between theta and X[yhat^j], j = 1, 2, 3 (v = X[yhat]), with N^a_b = sum_l w^a_l y_l^b Delta_l:

    Q_tt = (L0 + sum_l w^2_l Q_l)^-1,   Q_tj = Q_tt N^1_j,   Q_ij = g N^0_(i+j)/alpha0 + N^1_i^T Q_tt N^1_j
    G_tt = (Q_tt)_11,   G_tv = (Q_t1)_11/|v|,   G_vv = (Q_11)_11/|v|^2
    R_j  = Theta_p (k_pj b_p + h_pj l_p)    [one block: Theta_p (k_pj + h_pj) U_p],   Y_j = Theta_p h_pj e_p U_p
    l_p  = (U_p - A1 A2^-1 e_p U_p, -A2^-1 e_p U_p), so that dL0/dTheta_p = l_p l_p^T
    A_v  = (sum_j Q_1j R_j)_1/|v|,   A_t = (sum_j Q_tj R_j)_1
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

    Pi = a^T Q_tt a + (1/alpha0) sum_l w^0_l Z_l^T g Delta_l Z_l,   Z_l = sum_j y_l^j z_j,   a = z_t + sum_l w^1_l Delta_l Z_l.

J is stationary in xi, so xi is frozen too.

Common mode. All features share the fluctuation of |x|^2 = d + sqrt(2d) xi: mu0 + sqrt(2/d) c mu0' xi. Where the mean features are
no larger than that (small steps, readouts with a mean, students with E[s He2] != 0) it counts. Then functions of (kappa, xi) that
are linear in xi are kept as a second set of K nodes with the same S, on which the target vanishes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from firststep.theory.bulk import Bulk, Pencil, Response, State, average, invert, trace_of, triangle


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


class Forms(NamedTuple):
    """The quadratic form F and its companions, all that depends on the resolvent but not on the target."""

    rows: Any  # F (., r + P, r + P), or (., r, r) without norm fluctuations
    cross: Any  # (X; X_c) (., r + P, r)
    linear: Any  # T (., r, r)
    teacher: Any  # Q_tt (., n, n)
    reach: Any  # Q_tt l_p with dL0/dTheta_p = l_p l_p^T (., P, n)
    lift: Any  # l_p, where norm fluctuations need it, or None
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


def forms(bulk: Bulk, mean: Mean, state: State, found: Response, xp: Any) -> Forms:
    """The matrices of the module's docstring at a state."""
    r = bulk.basis.shape[1]
    y, w = bulk.labels, bulk.label_weights
    norm, gamma, rho = (v[:, None, None] for v in (mean.gradient_norm, mean.alignment, mean.rest))
    alpha0 = bulk.alpha0[:, None, None]
    pencil = found.pencil
    z_teacher = invert(pencil, average(w[:, 2], found.source), xp)
    teacher = trace_of(pencil, z_teacher, xp)
    # g_t times the vector dL0/dTheta_p is made of
    reach = pencil.ends @ z_teacher
    if pencil.moments is not None:
        reach = reach @ xp.swapaxes(pencil.frame, 1, 2) + pencil.lower

    def moment(a: int, power: int) -> Any:
        return average(w[:, a] * y**power, found.delta)

    powers = (1, 2, 3) if mean.linear_chaos is not None else (1,)
    first = [moment(1, j) for j in powers]
    to_teacher = [teacher @ each for each in first]
    between = {}
    for i in powers:
        for j in powers:
            if i <= j:
                diagonal = found.trace @ moment(0, i + j) / alpha0
                between[i, j] = diagonal + xp.swapaxes(first[i - 1], 1, 2) @ to_teacher[j - 1]
                between[j, i] = xp.swapaxes(between[i, j], 1, 2)
    gvv = between[1, 1][:, :r, :r] / norm**2
    gtv = to_teacher[0][:, :r, :r] / norm
    gvt = xp.swapaxes(gtv, 1, 2)
    solver = xp.linalg.inv(gvv)
    inverse = found.inverse
    rest = teacher[:, :r, :r] - gtv @ solver @ gvt
    rows = solver - inverse
    cross = (gamma * np.eye(r) - solver @ gvt) @ inverse / rho
    linear = inverse - inverse @ rest @ inverse / rho**2
    if mean.linear_chaos is None:
        return Forms(rows, cross, linear, teacher, reach, None, None, solver, gvt, None)
    h, k = mean.linear_chaos, mean.higher_chaos
    theta = found.theta[:, :, None]
    own = theta[:, :, 0] * xp.einsum("bpi,bij,bpj->bp", h, mean.vector_products, h)
    plain = own[:, :, None] * np.eye(own.shape[1])
    lift = None
    if pencil.moments is None:
        sources = xp.einsum("bpn,bpj->bjnp", pencil.padded, theta * (h + k))
    else:
        lift, dual = _lifts(bulk, pencil, xp)
        sources = xp.einsum("bpn,bpj->bjnp", pencil.padded, theta * k) + xp.einsum("bpn,bpj->bjnp", lift, theta * h)
        heavy = theta * h
        plain = plain - xp.einsum("bpi,bij,bqj,bpq->bpq", heavy, mean.vector_products, heavy, dual)
    along_v = sum(between[1, j] @ sources[:, j - 1] for j in powers)[:, :r] / norm
    along_t = sum(to_teacher[j - 1] @ sources[:, j - 1] for j in powers)[:, :r]
    seen = sum(xp.swapaxes(sources[:, i - 1], 1, 2) @ between[i, j] @ sources[:, j - 1] for i in powers for j in powers)
    mixed = solver @ along_v
    norms = plain - seen + xp.swapaxes(along_v, 1, 2) @ mixed
    rows = xp.concatenate(
        [xp.concatenate([rows, mixed], 2), xp.concatenate([xp.swapaxes(mixed, 1, 2), norms], 2)], 1
    )  # fmt: skip
    cross_norm = xp.swapaxes(along_t - gtv @ mixed, 1, 2) @ inverse / rho
    return Forms(rows, xp.concatenate([cross, cross_norm], 1), linear, teacher, reach, lift, sources, solver, gvt, along_v)


def _lifts(bulk: Bulk, pencil: Pencil, xp: Any) -> tuple[Any, Any]:
    """l_p = (U_p - A1 A2^-1 e_p U_p, -A2^-1 e_p U_p), and e_p U_p . A2^-1 e_q U_q."""
    r = pencil.inverse.shape[-1]
    tilted = pencil.lower[:, :, r:]
    second = pencil.moments[:, r:, r:] + bulk.idle[:, :, None] * np.eye(r)
    coefficients = xp.swapaxes(xp.linalg.solve(second, xp.swapaxes(tilted, 1, 2)), 1, 2)  # A2^-1 e_p U_p
    upper = bulk.coordinates - coefficients @ pencil.moments[:, r:, :r]
    return xp.concatenate([upper, -coefficients], -1), tilted @ xp.swapaxes(coefficients, 1, 2)


class Projection(NamedTuple):
    """The fit of the mean: nu = sqrt S (h0 - m) solves (1 + sqrt S Kmean sqrt S) nu = sqrt S (h0 - X)."""

    system: Any  # the bordered matrix (., K + P, K + P)
    root: Any  # sqrt S


def projection(bulk: Bulk, mean: Mean, found: Response, shapes: Forms, s_weights: Any, xp: Any, stop: Any) -> Projection:
    """The bordered system ((1 + F, U), (U^T, -delta)): N sum_p (pi_p/E_p) mu0 mu0 in directions scaled to length one.

    In direction i of singular value sigma_i of sqrt S mu0^T sqrt(Theta/beta), delta = (1/N)/(1/N + sigma^2): zero for d = infinity,
    where the mean features are fitted freely.
    """
    theta = found.theta
    kernel = _fluctuation_kernel(bulk, mean, found, shapes, xp)
    size = kernel.shape[-1]
    root = xp.tile(xp.sqrt(s_weights), (1, size // s_weights.shape[-1]))
    smooth = np.eye(size) + root[:, :, None] * kernel * root[:, None, :]
    columns = root[:, :, None] * xp.swapaxes(mean.mean * xp.sqrt(theta)[..., None], 1, 2)  # (., K, P)
    _, sigma, right = xp.linalg.svd(stop(columns), full_matrices=False)
    floor = (1.0 / mean.dimension if mean.dimension is not None else xp.zeros_like(sigma[:, 0]))[:, None]
    # below this the mean is rounding: an odd student has none without a step
    features = xp.max(mean.mean**2, axis=(-2, -1)) + xp.max(bulk.remainder, axis=(-2, -1))
    largest = features * xp.max(theta, -1) * xp.sum(s_weights, -1)
    kept = sigma > 1e-13 * xp.sqrt(stop(largest))[:, None]
    length = xp.where(kept, xp.sqrt(floor + sigma**2), 1.0)
    directions = xp.where(kept[:, None, :], (columns @ xp.swapaxes(right, 1, 2)) / length[:, None, :], 0.0)
    slack = xp.where(kept, floor / length**2, 1.0)
    count = slack.shape[-1]
    border = xp.concatenate([xp.swapaxes(directions, 1, 2), -slack[:, :, None] * np.eye(count)], 2)
    system = xp.concatenate([xp.concatenate([smooth, directions], 2), border], 1)
    return Projection(system, root)


def _fluctuation_kernel(bulk: Bulk, mean: Mean, found: Response, shapes: Forms, xp: Any) -> Any:
    kernel = 0.0
    for psi in mean.fluctuations:
        kernel = kernel + xp.swapaxes(psi, 1, 2) @ (psi * found.theta[..., None])
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
    inner = xp.linalg.solve(fit.system, xp.broadcast_to(right, (fit.root.shape[0], total, size)))[:, :size]
    matrix = (np.eye(size) - inner) / (fit.root[:, :, None] * fit.root[:, None, :])
    squares = matrix * xp.swapaxes(matrix, 1, 2)
    diagonal = xp.einsum("bkk->bk", matrix)
    sets = size // nodes
    return diagonal.reshape(-1, sets, nodes).sum(1), squares.reshape(-1, sets, nodes, sets, nodes).sum((1, 3))


def outcome(
    bulk: Bulk, mean: Mean, state: State, found: Response, mapping: Any, s_weights: Any, omega: Any, alpha: Any, xp: Any, stop: Any
) -> Outcome:
    """Errors at the solution: ``mapping`` is Lambda, ``s_weights`` S."""
    r = bulk.basis.shape[1]
    shapes = forms(bulk, mean, state, found, xp)
    fit = projection(bulk, mean, found, shapes, s_weights, xp, stop)
    h0, h1, h2 = mean.target
    rows = _row_vectors(bulk, mean, xp)
    f = s_weights * h1
    bz = _apply(bulk.basis, f, xp)
    offset = _apply(xp.swapaxes(rows, 1, 2), _apply(shapes.cross, bz, xp), xp)
    size, all_nodes = h0.shape[-1], fit.root.shape[-1]
    wanted = xp.pad(h0, ((0, 0), (0, all_nodes - size)))
    right = xp.pad(fit.root * (wanted - offset), ((0, 0), (0, fit.system.shape[-1] - all_nodes)))
    nu = xp.linalg.solve(fit.system, right[..., None])[:, :all_nodes, 0]
    fitted = wanted - nu / fit.root
    m = fitted[:, :size]
    shared = xp.sum(fitted[:, size:].reshape(m.shape[0], -1, size) ** 2, 1)  # what the common mode adds to the error
    g = fit.root * nu
    sources = _apply(rows, g, xp)  # (b_v, t)
    t = _apply(
        xp.swapaxes(bulk.basis, 1, 2), _apply(xp.swapaxes(shapes.cross, 1, 2), sources, xp) + _apply(shapes.linear, bz, xp), xp
    )
    gradient = frozen_gradient(bulk, mean, state, found, shapes, g, bz, sources[:, :r], sources[:, r:], xp)
    by_weight = _apply(xp.swapaxes(mapping, 1, 2), gradient, xp)
    deterministic = h2 - 2 * m * h0 + m**2 + shared - 2 * t * h1 - by_weight
    scaled = s_weights / omega
    curvature = -xp.swapaxes(mapping, 1, 2) @ found.slope_by_overlap @ mapping
    if mean.dimension is not None:
        curvature = curvature + smoother(fit, size, xp)[1] / mean.dimension[:, None, None]
    top = curvature * (omega * scaled**2 / alpha[:, None])[:, None, :]
    error = xp.linalg.solve(np.eye(size) - top, deterministic[..., None])[..., 0]
    return Outcome(m, t, error, xp.sum(omega * error, -1), xp.sum(omega * scaled**2 * error, -1))


def _apply(matrix: Any, vector: Any, xp: Any) -> Any:
    return (matrix @ vector[..., None])[..., 0]


def frozen_gradient(
    bulk: Bulk, mean: Mean, state: State, found: Response, shapes: Forms, g: Any, bz: Any, bv: Any, t: Any, xp: Any
) -> Any:
    """dJ/dy at frozen g, f: explicit through M^-1, and through Theta and the resolvent by their response."""
    n, r = state.resolvent.shape[-1], bulk.basis.shape[1]
    y, w = bulk.labels, bulk.label_weights
    alpha0 = bulk.alpha0
    norm, gamma, rho = (v[:, None] for v in (mean.gradient_norm, mean.alignment, mean.rest))
    force = _apply(found.inverse, bz, xp) / rho  # w
    pull = bv - _apply(shapes.gvt, force, xp)
    if shapes.along_v is not None:
        pull = pull + _apply(shapes.along_v, t, xp)
    xi = _apply(shapes.solver, pull, xp)
    widen = ((0, 0), (0, n - r))
    heads = [xp.pad(xi / norm, widen)]
    if shapes.sources is not None:
        drawn = xp.einsum("bjnp,bp->bjn", shapes.sources, t)
        heads = [heads[0] - drawn[:, 0], -drawn[:, 1], -drawn[:, 2]]
    z = sum(y[:, :, None] ** (j + 1) * head[:, None] for j, head in enumerate(heads))  # Z_l (., J, n)
    dz = (found.delta @ z[..., None])[..., 0]
    a = xp.pad(force, widen) + xp.einsum("bl,bln->bn", w[:, 1], dz)
    p = _apply(shapes.teacher, a, xp)
    qp = (found.source @ p[:, None, :, None])[..., 0]
    dp = (xp.swapaxes(found.delta, 2, 3) @ p[:, None, :, None])[..., 0]
    gdz = (found.trace[:, None] @ dz[..., None])[..., 0]

    def pairs(x0: Any, x1: Any, weights: Any) -> Any:
        return xp.swapaxes(x0 * weights[..., None], 1, 2) @ x1

    mixed = pairs(dz, qp, w[:, 1])
    by_resolvent = (pairs(dz, dz, w[:, 0]) - mixed - xp.swapaxes(mixed, 1, 2) + pairs(qp, qp, w[:, 2])) / alpha0[:, None, None]

    seen_p = xp.einsum("bpn,bln->blp", found.pencil.padded, dp)
    seen_z = xp.einsum("bpn,bln->blp", found.pencil.padded, gdz) / alpha0[:, None, None]
    square = w[:, 2, :, None] * seen_p**2 + 2 * w[:, 1, :, None] * seen_p * seen_z
    square = square + w[:, 0, :, None] * seen_z**2
    by_theta = _apply(shapes.reach, a, xp) ** 2 + bulk.noise * xp.einsum("bl,blp->bp", y**2, square)
    for psi in mean.fluctuations:
        by_theta = by_theta + _apply(psi, g, xp) ** 2
    if mean.dimension is not None:
        by_theta = by_theta + mean.dimension[:, None] * _apply(mean.mean, g, xp) ** 2
    if shapes.sources is not None:
        by_theta = by_theta + _source_gradient(bulk, mean, found, shapes, t, y, w, dp, gdz, alpha0, xp)

    b_z, b_v, p1 = bz[:, :, None], bv[:, :, None], p[:, :r, None]

    def outer(x0: Any, x1: Any) -> Any:
        return x0 @ xp.swapaxes(x1, 1, 2)

    ratio = (gamma / rho)[:, :, None]
    crossed = ratio * outer(b_v, b_z) - outer(p1, b_z) / rho[:, :, None]
    by_inverse = outer(b_z, b_z) - outer(b_v, b_v) + outer(p1, p1) + crossed + xp.swapaxes(crossed, 1, 2)
    rows, columns, times = triangle(r)
    by_matrix = -(found.inverse @ by_inverse @ found.inverse)[:, rows, columns] * times
    explicit = xp.pad(by_matrix, ((0, 0), (0, found.theta.shape[1])))
    rows, columns, times = triangle(n)
    through_resolvent = -(by_resolvent[:, rows, columns] * times)
    phi = found.theta / state.energy
    return (
        explicit
        - _apply(xp.swapaxes(found.energy_by_overlap, 1, 2), by_theta * phi, xp)
        + _apply(xp.swapaxes(found.trace_by_overlap, 1, 2), through_resolvent, xp)
    )


def _source_gradient(
    bulk: Bulk, mean: Mean, found: Response, shapes: Forms, t: Any, y: Any, w: Any, dp: Any, gdz: Any, alpha0: Any, xp: Any
) -> Any:
    """The part of dJ/dTheta_p through the sources R_j t and the norms' own variance."""
    h, k, products = mean.linear_chaos, mean.higher_chaos, mean.vector_products
    # dPi/dz_j = 2 sum_l y_l^j (w1 Delta_l^T p + w0 g Delta_l Z_l/alpha0)
    weighted = w[:, 1, :, None] * dp + w[:, 0, :, None] * gdz / alpha0[:, None, None]
    pulls = xp.stack([2 * xp.einsum("bl,bln->bn", y**j, weighted) for j in (1, 2, 3)], 1)  # (., 3, n)
    on_rows = xp.einsum("bpn,bjn->bpj", found.pencil.padded, pulls)
    own = t**2 * xp.einsum("bpi,bij,bpj->bp", h, products, h)
    if shapes.lift is None:
        return own + t * xp.einsum("bpj,bpj->bp", h + k, on_rows)
    # l_p moves too: d(sum_q Theta_q x_q l_q)/dTheta_p = l_p (x_p - e_p U_p . A2^-1 sum_q Theta_q x_q e_q U_q)
    _, dual = _lifts(bulk, found.pencil, xp)
    projected = xp.einsum("bpq,bqj->bpj", dual, h * (found.theta * t)[..., None])
    on_lift = xp.einsum("bpn,bjn->bpj", shapes.lift, pulls)
    return (
        own
        + t * xp.einsum("bpj,bpj->bp", k, on_rows)
        + xp.einsum("bpj,bpj->bp", t[..., None] * h - projected, on_lift)
        - 2 * t * xp.einsum("bpi,bij,bpj->bp", h, products, projected)
        + xp.einsum("bpi,bij,bpj->bp", projected, products, projected)
    )
