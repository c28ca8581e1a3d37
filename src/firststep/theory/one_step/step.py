"""What the gradient step does to the neurons: spike, bulk covariance and the fluctuations of order 1/sqrt d.

Notation. A neuron of readout value at moves by etat at [c1 v + g(w)], etat = eta/sqrt N. Write a = etat at, yhat for the residual
label, mh_j = E yhat^j, M = X0^T diag(yhat) X0/n0, S' = X0^T diag(yhat^2) X0/n0, X[f] = sum_nu f(yhat_nu) x_nu/n0 (so v = X[yhat]).
Along vh = v/|v| the neuron has u = a c1 |v|; its remaining part has covariance C/d with

    C = (1 + e M)^2 + chi S',   e = a c2,   chi = a^2 tau'/alpha0,   c = tr C/d.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from firststep.theory.student import SlopeConstants


class StepLaw(NamedTuple):
    """Constants of the step. Leading axis: problems; P: readout values; axes of length 3: the powers yhat, yhat^2, yhat^3."""

    gradient_norm: Any  # |v|
    alignment: Any  # gamma = theta . vh
    remainder: Any  # rho = sqrt(1 - gamma^2)
    spike: Any  # u, (., P)
    tilt: Any  # e, (., P)
    noise: Any  # chi, (., P)
    variance: Any  # c, (., P)
    variance_by_norm: Any  # dc/dQ, (., P), Q = |w|^2
    spike_by_norm: Any  # du/dQ, (., P)
    norm_variance: Any  # nu = d Var(|r|^2 given |w|) of chaos order >= 2, (., P)
    linear_chaos: Any  # h_j: the linear part of |r|^2 is w . sum_j h_j X[yhat^j], (., P, 3)
    higher_chaos: (
        Any  # k_j: covariance of the row with the rest of |r|^2 is sum_j k_j X[yhat^j], (., P, 3)
    )
    vector_products: (
        Any  # X[yhat^i] . X[yhat^j] = E yhat^(i+j)/alpha0 + E[G yhat^i] E[G yhat^j], (., 3, 3)
    )


def step_law(
    constants: SlopeConstants,
    nodes: Any,
    weights: Any,
    alpha0: Any,
    rate: Any,
    values: Any,
    xp: Any,
) -> StepLaw:
    """The constants, from the label rule (nodes (., J), weights (., 3, J)), etat = rate (.) and the readout values (., P)."""
    c1, c2, tau, c3, b2, r1, r2, s3 = (
        constants.slope,
        constants.linear,
        constants.rest,
        constants.third,
        constants.b2,
        constants.r1,
        constants.r2,
        constants.cube,
    )
    powers = [nodes**j for j in range(7)]
    m1, m2, m3, m4 = (xp.sum(weights[:, 0] * powers[j], -1)[:, None] for j in range(1, 5))
    linear = xp.stack([xp.sum(weights[:, 1] * powers[j], -1) for j in (1, 2, 3)], -1)  # E[G yhat^j]
    raw = [xp.sum(weights[:, 0] * powers[j], -1) for j in range(2, 7)]
    gram = xp.stack(
        [xp.stack([raw[i + j] for j in range(3)], -1) for i in range(3)], -2
    )  # E yhat^(i+j), i, j = 1, 2, 3
    products = gram / alpha0[:, None, None] + linear[:, :, None] * linear[:, None, :]
    silent = products[:, 0, 0] <= 0  # labels that are all zero: any direction will do
    norm = xp.sqrt(xp.where(silent, 1.0, products[:, 0, 0]))
    gamma = linear[:, 0] / norm
    rho = (
        xp.sqrt(xp.where(silent, 1.0, gram[:, 0, 0] / alpha0)) / norm
    )  # without the cancellation of 1 - gamma^2

    q0 = alpha0[:, None]
    a = rate[:, None] * values
    e, chi = a * c2, a**2 * tau / q0
    second = m1**2 + m2 / q0  # tr M^2/d
    variance = 1 + 2 * e * m1 + e**2 * second + chi * m2

    # A is the quadratic form of w in |r|^2: He2 components of the sum over samples included.
    beta1 = 2 * a * b2 * (1 + e * m1)
    beta2 = (2 * a * b2 * e + a**2 * r2) / q0
    by_norm = 1 + (2 * e + beta1) * m1 + e**2 * second + beta2 * m2  # tr A/d = dc/dQ
    k2, k3, k4 = m2 / q0, m3 / q0**2, m4 / q0**3
    t2, t3 = k2 + m1**2, k3 + 3 * k2 * m1 + m1**3
    t4 = k4 + 4 * k3 * m1 + 2 * k2**2 + 6 * k2 * m1**2 + m1**4
    s_m = m3 / q0 + m2 * m1
    s_mm = m4 / q0**2 + 2 * m3 * m1 / q0 + m2**2 / q0 + m2 * m1**2
    s_s = m4 / q0 + m2**2
    b, f = 2 * e + beta1, e**2
    square = (
        1
        + 2 * b * m1
        + (b**2 + 2 * f) * t2
        + 2 * b * f * t3
        + f**2 * t4
        + 2 * beta2 * (m2 + b * s_m + f * s_mm)
        + beta2**2 * s_s
    )
    lift = 1 + e * m1
    zq_zq, zq_qq, qq_qq = constants.spread
    own = (
        4 * a**2 * (lift**2 * m2 + 2 * lift * e * m3 / q0 + (e / q0) ** 2 * m4) * zq_zq
        + 4 * a**3 / q0 * (lift * m3 + e * m4 / q0) * zq_qq
        + a**4 * m4 / q0**2 * qq_qq
    )
    nu = 2 * (square - by_norm**2) + own / q0 + 4 * e**2 * chi * m2**2 / q0 + 2 * chi**2 * m2**2

    zero = xp.zeros_like(a)
    h = xp.stack([2 * a * c3 * lift, a**2 / q0 * (2 * c2 * c3 + r1), zero], -1)
    k = xp.stack(
        [
            zero,
            2 * a / q0 * lift * (e * c3 + a * r1),
            a**3 / q0**2 * (c2**2 * c3 + 2 * c2 * r1 + s3),
        ],
        -1,
    )
    return StepLaw(
        norm,
        gamma,
        rho,
        a * c1 * norm[:, None],
        e,
        chi,
        variance,
        by_norm,
        a * norm[:, None] * c3 / 2,
        nu,
        h,
        k,
        products,
    )
