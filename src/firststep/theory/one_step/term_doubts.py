"""What the doubt ``second`` of ``model_error`` is made of where the teacher has several directions.

Each term has its own unit vector across the step, e_b = (theta_b' - gamma_b vh)/rho_b, along which
it bends: ht_b = E[s_b He2(z)]/sqrt 2 at (gamma_b kappa, rho_b). A neuron bends along all of them:
its feature has mu0' sum_b r_b^2 He2(<x, e_b>), r_b its row along e_b, of which r_b^2 has the mean
C_bb/d and the variance 2 C_bb^2/d^2. The kernel of the fit of all ht_b is

    (1/d) sum_p Theta_p mu0' mu0'^T C_bb C_cc (4 delta_bc + 2)

(one direction: 6/d). With g = v - sum_a c*_a theta_a and Q = 1, M, M^2, S'

    C_bb = 1 + 2 e M_bb + e^2 (M^2)_bb + chi S'_bb
    Q_bb = u Q_tt u + 2 t u Q_tg + t^2 (Q_gg + eps^2 Q_UU)
    u_c = (delta_bc - gamma_b c*_c/|v|)/rho_b,   t = -gamma_b/(rho_b |v|)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firststep.numerics.quadrature import shifted_moments
from firststep.theory.one_step.nodes import Rules, TermRules, term_scales
from firststep.theory.one_step.system import apply, flip, solve_each
from firststep.theory.teacher import TermSum

if TYPE_CHECKING:
    from firststep.theory.step import StepLaw
    from firststep.typing import Array, Float


def bends(teacher: TermSum, rules: Rules, law: StepLaw) -> Float[Array, "batch m K"]:
    """ht_b = sqrt 2 rho_b^2 d E s_b/d rho_b^2."""
    assert isinstance(rules.teacher, TermRules)
    gamma, rho = law.direction.alignment, law.direction.misalignment
    scales, found = term_scales(teacher, gamma, rho), []
    for b, (term, rule) in enumerate(zip(teacher.terms, rules.teacher.terms, strict=True)):
        shift, scale = (gamma * teacher.shares[b])[:, None] * rules.kappa, scales[:, b, None]
        moments = shifted_moments(term.evaluate, shift, scale, rule.cuts, rule.nodes)
        found.append(np.sqrt(2) * scale**2 * moments.by_variance)
    return np.stack(found, 1)


def covariances_across(
    teacher: TermSum, rules: Rules, alpha0: Float[Array, " batch"], law: StepLaw
) -> Float[Array, "batch m P"]:
    """C_bb of every readout value."""
    assert rules.amplitudes is not None
    a, y = alpha0[:, None, None], rules.labels
    first, own = rules.amplitudes[:, :1], flip(teacher.rotation) @ rules.amplitudes[:, 1:]
    m = [np.sum(first[:, 0] ** 2 * y**j, -1)[:, None, None] for j in range(5)]
    x = [np.sum(first * own * y[:, None] ** j, -1)[:, :, None] for j in range(4)]
    g = [(own * y[:, None] ** j) @ flip(own) for j in range(3)]
    one, zero = np.broadcast_to(np.eye(teacher.count), g[1].shape), np.zeros_like(x[1])
    plain = [1 + 0 * a, m[1], m[1] ** 2 + m[2] / a, m[2]]
    between = [one, g[1], g[1] @ g[1] + g[2] / a, g[2]]
    mixed = [zero, x[2] / a, (g[1] @ x[2] + m[1] * x[2]) / a + x[3] / a**2, x[3] / a]
    square = flip(x[2]) @ x[2] / a**2 + m[4] / a**3 + (2 * m[1] * m[3] + m[2] ** 2) / a**2
    rest = [
        m[2] / a,
        m[3] / a**2 + m[1] * m[2] / a,
        square + m[1] ** 2 * m[2] / a,
        m[4] / a**2 + m[2] ** 2 / a,
    ]
    length, gamma, rho = law.direction
    shift = 0 * length if law.own_shift is None else law.own_shift
    scales = term_scales(teacher, gamma, rho)[:, :, None]
    tilt = -(gamma[:, None] * teacher.shares)[:, :, None] / (scales * length[:, None, None])
    u = np.eye(teacher.count) / scales + tilt * flip(x[1])
    found = []
    for tt, tg, gg, uu in zip(between, mixed, rest, plain, strict=True):
        along = np.sum((u @ tt) * u, -1) + 2 * tilt[:, :, 0] * (u @ tg)[:, :, 0]
        total = along + tilt[:, :, 0] ** 2 * (gg + shift[:, None, None] * uu)[:, :, 0]
        found.append(total[:, :, None])
    still, by_data, by_square, by_jitter = found
    e, chi = law.tilt[:, None], law.jitter[:, None]
    return still + 2 * e * by_data + e**2 * by_square + chi * by_jitter


def gain_of_bends(
    weight: Float[Array, "batch m P"],
    by_variance: Float[Array, "batch P K"],
    bend: Float[Array, "batch m K"],
    root: Float[Array, "batch K"],
    omega: Float[Array, " K"],
) -> Float[Array, " batch"]:
    """E sum_b (2 mt_b ht_b - mt_b^2) of the fit mt; ``weight``: sqrt(Theta_p/d) C_bb."""
    batch, count, size = bend.shape
    features = weight[..., None] * (by_variance * root[:, None])[:, None]  # (., m, P, K)
    own = np.sqrt(4) * np.einsum("bc,nbpk->nbpck", np.eye(count), features)
    shared = np.sqrt(2) * features.swapaxes(1, 2)[:, None]  # (., 1, P, m, K)
    functions = np.concatenate([own, shared], 1).reshape(batch, -1, count * size)
    every = np.tile(root, (1, count))
    gram = np.eye(functions.shape[1]) + functions @ flip(functions)
    wanted = apply(functions, every * bend.reshape(batch, -1))
    fitted = apply(flip(functions), solve_each(gram, wanted)) / every
    crossed = (2 * bend.reshape(batch, -1) - fitted) * fitted
    return np.maximum(np.sum(np.tile(omega, count) * crossed, -1), 0)
