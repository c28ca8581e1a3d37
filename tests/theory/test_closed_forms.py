"""Closed forms against published formulas of another form, long arithmetic, random matrices and
brute force.
"""

from __future__ import annotations

import math
import subprocess
import sys
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.linalg import svdvals
from scipy.sparse.linalg import svds
from scipy.special import roots_hermitenorm
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from firststep import InvalidParameter, NotConverged, Problem, activation
from firststep.theory.closed_forms.bound import tau_star, theorem_seven_bound
from firststep.theory.closed_forms.small_step import (
    SmallStep,
    small_step,
    small_step_limit_alpha,
    small_step_limit_beta,
)
from firststep.theory.closed_forms.weights import weight_spectrum


def centred(name: str) -> str:
    return f"{name}(z) - {activation(name).moments.mean!r}"


RELU, SOFTPLUS = centred("relu"), centred("softplus")
EVEN_AND_LINEAR = "z + 0.9*(z**2 - 1)"  # mean zero, c2 != 0


def made(student, teacher, alpha, beta, ridge, alpha0, step, noise, **more):  # type: ignore[no-untyped-def]
    return Problem(
        student=student,
        teacher=teacher,
        alpha=alpha,
        beta=beta,
        ridge=ridge,
        alpha0=alpha0,
        step=step,
        noise=noise,
        step_exponent=0,
        **more,
    )


def base(**changes) -> Problem:  # type: ignore[no-untyped-def]
    return made("tanh", "tanh", 2, 1, 0.1, 2, 2, 0.1).replace(**changes)


# Independent routes -------------------------------------------------------------------------------


def mei_montanari_risk(problem: Problem, digits: int = 120) -> float:
    """Random-features ridge risk by Theorem 1 of Mei and Montanari (arXiv 1908.05355), in long
    arithmetic.

    Their psi1 = N/d, psi2 = n/d, zeta = c1/mu2, ridge (N lambda/d)|a|^2 on sum a_i s(.) without
    1/sqrt N: lambda = ridge/beta. nu1 = i p, nu2 = i q on the imaginary axis, chi = nu1 nu2 = -p q.
    """
    student, teacher = problem.student.moments, problem.teacher.moments
    with localcontext() as context:
        context.prec = digits
        psi1, psi2 = Decimal(problem.beta), Decimal(problem.alpha)
        mu2, z2 = (
            Decimal(student.nonlinear_variance),
            Decimal(student.linear) ** 2 / Decimal(student.nonlinear_variance),
        )
        x2 = psi1 * psi2 * (Decimal(problem.ridges[0]) / psi1) / mu2
        # p = (psi1 - h)/x, q = (psi2 - h)/x with h = pq (1 + zeta^2/(1 + zeta^2 pq)); bisection for
        # pq
        low, high = Decimal(0), min(psi1, psi2)
        for _ in range(4 * digits):
            pq = (low + high) / 2
            h = pq * (1 + z2 / (1 + z2 * pq))
            too_large = h >= min(psi1, psi2) or pq * x2 > (psi1 - h) * (psi2 - h)
            low, high = (low, pq) if too_large else (pq, high)
        c, z4, z6 = -pq, z2**2, z2**3
        both = psi1 * psi2
        e0 = (
            -(c**5) * z6
            + 3 * c**4 * z4
            + (both - psi2 - psi1 + 1) * c**3 * z6
            - 2 * c**3 * z4
            - 3 * c**3 * z2
            + (psi1 + psi2 - 3 * both + 1) * c**2 * z4
            + 2 * c**2 * z2
            + c**2
            + 3 * both * c * z2
            - both
        )
        e1 = psi2 * c**3 * z4 - psi2 * c**2 * z2 + both * c * z2 - both
        e2 = (
            c**5 * z6
            - 3 * c**4 * z4
            + (psi1 - 1) * c**3 * z6
            + 2 * c**3 * z4
            + 3 * c**3 * z2
            + (-psi1 - 1) * c**2 * z4
            - 2 * c**2 * z2
            - c**2
        )
        linear, rest = Decimal(teacher.linear) ** 2, Decimal(teacher.nonlinear_variance)
        return float(linear * e1 / e0 + (Decimal(problem.noise) ** 2 + rest) * e2 / e0 + rest)


def long_gain(problem: Problem, digits: int = 80) -> float:
    """delta from theta^T (W1 W1^T + rho)^-1 theta = m - Delta, with derivatives in S as differences
    in long arithmetic.

    risk + noise^2 = {mu2*^2 + noise^2 + (c1*/c1)^2 d/dS [D (m - Delta)]}/(1 - Gamma), and alpha (1
    - Gamma) = S d/dS [alpha S + r].
    """
    student, teacher, law = problem.student.moments, problem.teacher.moments, problem.readout
    with localcontext() as context:
        context.prec = digits
        alpha, beta, ridge = (
            Decimal(problem.alpha),
            Decimal(problem.beta),
            Decimal(problem.ridges[0]),
        )
        linear, rest = Decimal(student.linear) ** 2, Decimal(student.nonlinear_variance)
        omega2 = (Decimal(problem.step) * Decimal(problem.student.slope_moments.mean)) ** 2
        spread, mean2 = Decimal(law.second_moment) - Decimal(law.mean) ** 2, Decimal(law.mean) ** 2
        has_mean = abs(student.mean) > 1e-6
        output = law.mean * student.mean
        labels = teacher.second_moment + problem.noise**2 - 2 * output * teacher.mean + output**2
        c1star2 = Decimal(teacher.linear) ** 2
        v2 = c1star2 + Decimal(labels) / Decimal(problem.alpha0)

        def parts(S: Decimal) -> tuple[Decimal, Decimal]:
            """alpha S + r(S) and D Delta."""
            D = ridge + rest * S
            rho = D / (linear * S)
            b = rho + beta - 1
            m = ((b * b + 4 * rho).sqrt() - b) / (2 * rho)
            w = (
                Decimal(0)
                if has_mean
                else 1 / (1 + beta * S * Decimal(student.quadratic) ** 2 / 2 / D)
            )
            Y = omega2 * (spread / (1 + m) + mean2 * w / (1 + w * m))
            return alpha * S + beta * (1 - ridge / (D * (1 + m))), D * c1star2 * m * m * Y / (
                1 + v2 * m * Y
            )

        low, high = Decimal(0), Decimal(1)
        for _ in range(4 * digits):
            S = (low + high) / 2
            low, high = (low, S) if parts(S)[0] > alpha else (S, high)
        step = S * Decimal(10) ** (-digits // 4)
        (up0, up1), (down0, down1) = parts(S + step), parts(S - step)
        kept = S * (up0 - down0) / (2 * step) / alpha
        return float(c1star2 / linear * (up1 - down1) / (2 * step) / kept)


def random_matrix_gain(problem: Problem, d: int, seed: int) -> float:
    """delta with actual matrices W0 and W1 = W0 + eta c1 v a^T in the Gaussian equivalent features,
    S and Gamma from the theory.

    Feature covariance Sigma = c1^2 W^T W + mu2^2 + (c0^2 + c2^2/(2d)) 11^T; A = S Sigma + ridge.
    With x = c1 W^T theta the risk is {const - 2 S c1*^2 x^T A^-1 x + (S c1*)^2 x^T A^-1 Sigma A^-1
    x}/(1 - Gamma). The mean over v and -v fluctuates less.
    """
    rng = np.random.default_rng(seed)
    N, student, teacher, theory = (
        round(problem.beta * d),
        problem.student.moments,
        problem.teacher.moments,
        small_step(problem),
    )
    law = problem.readout
    readout = (
        rng.standard_normal(N) if law.is_gaussian else rng.choice(law.values, N, p=law.weights)
    )
    output = law.mean * student.mean
    labels = teacher.second_moment + problem.noise**2 - 2 * output * teacher.mean + output**2
    v = np.zeros(d)
    v[:2] = teacher.linear, math.sqrt(labels / problem.alpha0)
    W0 = rng.standard_normal((d, N)) / math.sqrt(d)
    S, values = theory.residual_ratio, []
    spike = problem.step * student.linear * np.outer(v, readout) / math.sqrt(N)
    for W in (W0, W0 + spike, W0 - spike):
        covariance = student.linear**2 * W.T @ W + student.mean**2 + student.quadratic**2 / (2 * d)
        covariance[np.diag_indices(N)] += student.nonlinear_variance
        x = student.linear * W[0]
        solved = np.linalg.solve(S * covariance + problem.ridges[0] * np.eye(N), x)
        values.append(-2 * S * x @ solved + S**2 * solved @ covariance @ solved)
    return float(
        teacher.linear**2 * (values[0] - (values[1] + values[2]) / 2) / (1 - theory.variance_share)
    )


# The small step -----------------------------------------------------------------------------------

# student, teacher, alpha, beta, ridge, alpha0, step, noise; R0, R1, delta, each found once by other
# code
TABLE = [
    ("tanh", "tanh", 2, 1, 0.1, 2, 1, 0.1, 0.19785441, 0.18440875, 0.01344566),
    ("tanh", SOFTPLUS, 2, 2, 0.01, 1, 3, 0.25, 0.15883047, 0.15072723, 0.00810324),
    ("erf", RELU, 4, 0.5, 0.1, 5, 2, 0.1, 0.26072704, 0.22157465, 0.03915239),
    ("tanh", "tanh", 0.5, 2, 0.01, 0.5, 5, 0.1, 0.31647726, 0.24853529, 0.06794197),
    (RELU, "tanh", 3, 1, 0.1, 2, 2, 0.1, 0.24750472, 0.21548925, 0.03201547),
    ("tanh", "tanh", 10, 3, 1, 1, 2, 0.2, 0.14842454, 0.13430307, 0.01412147),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0][:8]}-{row[1][:8]}-{row[2]}")
def test_known_values(row) -> None:  # type: ignore[no-untyped-def]
    found = small_step(made(*row[:8]))
    assert (found.random_features_risk, found.risk, found.gain) == pytest.approx(row[8:], abs=6e-9)


def drawn(rng: np.random.Generator, problem: Problem) -> Problem:
    ratios = {
        name: float(10 ** rng.uniform(math.log10(0.05), 2)) for name in ("alpha", "beta", "alpha0")
    }
    ridge, step = float(10 ** rng.uniform(-8, 4)), float(10 ** rng.uniform(-1, 1))
    return problem.replace(**ratios, ridge=ridge, step=step, noise=float(rng.uniform(0, 1)))


EXTREMES = [
    {"alpha": alpha, "beta": beta, "ridge": ridge}
    for alpha, beta in [
        (1, 1),
        (3, 3),
        (0.05, 0.05),
        (100, 100),
        (0.05, 100),
        (100, 0.05),
        (1, 1.001),
        (0.5, 1),
        (2, 1),
    ]
    for ridge in (1e-8, 1e-3, 1e4)
]


@pytest.mark.parametrize("student", ["tanh", RELU, "tanh(1.3*z) + 0.4*(z**2 - 1)"])
def test_random_features_risk_against_mei_and_montanari(student: str) -> None:
    start, rng = base(student=student, teacher="sin(2*z)"), np.random.default_rng(0)
    problems = [start.replace(**extreme) for extreme in EXTREMES] + [
        drawn(rng, start) for _ in range(40)
    ]
    for problem in problems:
        assert small_step(problem).random_features_risk == pytest.approx(
            mei_montanari_risk(problem), rel=2e-11
        ), problem


@pytest.mark.parametrize(
    ("student", "readout"),
    [
        ("tanh", "gaussian"),
        ("tanh", "ones"),
        (EVEN_AND_LINEAR, "0:0.5,2:0.5"),
        (RELU, "ones"),
        ("relu", "-1:0.25,0.5:0.5,2:0.25"),
    ],
)
def test_gain_against_long_arithmetic(student: str, readout: str) -> None:
    start, rng = (
        base(student=student, teacher="tanh(z) + 0.2*(z**2 - 1)", readout=readout),
        np.random.default_rng(1),
    )
    problems = [start.replace(**extreme) for extreme in EXTREMES[::2]] + [
        drawn(rng, start) for _ in range(12)
    ]
    for problem in problems:
        found, expected = small_step(problem).gain, long_gain(problem)
        assert found == pytest.approx(
            expected, rel=1e-9, abs=1e-15 * small_step(problem).random_features_risk
        ), problem


@pytest.mark.parametrize(
    ("student", "readout"),
    [
        ("tanh", "gaussian"),
        ("tanh", "ones"),
        ("tanh", "0:0.5,3:0.5"),
        (EVEN_AND_LINEAR, "ones"),
        ("relu", "0:0.5,2:0.5"),
    ],
)
def test_gain_against_random_matrices(student: str, readout: str) -> None:
    problem = made(student, "tanh", 3, 1.5, 0.1, 4, 2, 0.1, readout=readout)
    with threadpool_limits(1):
        gains = [random_matrix_gain(problem, 120, seed) for seed in range(300)]
    error = np.std(gains) / math.sqrt(len(gains) - 1)
    assert error < 0.03 * np.mean(gains)
    assert abs(np.mean(gains) - small_step(problem).gain) < 3 * error + 0.03 * np.mean(gains)


def test_the_step_never_harms_with_a_centred_readout() -> None:
    rng = np.random.default_rng(2)
    for student, readout in (
        ("tanh", "gaussian"),
        (EVEN_AND_LINEAR, "signs"),
        ("relu", "0:0.5,2:0.5"),
        ("tanh", "ones"),
    ):
        start = base(student=student, teacher="tanh(z) + 0.1*z", readout=readout)
        for _ in range(300):
            found = small_step(drawn(rng, start))
            assert found.gain > 0
            assert found.problem.kernel_lower_bound <= found.risk <= found.random_features_risk
            assert 0 < found.residual_ratio <= 1
            assert 0 <= found.variance_share < 1


def test_the_step_can_harm_where_the_readout_has_a_mean() -> None:
    """Student of mean zero with c2 != 0: the shared noise of |x|^2 lies along the mean of the
    readout.
    """
    problem = made(EVEN_AND_LINEAR, "tanh", 20, 100, 0.1, 20, 1, 0.0, readout="ones")
    assert small_step(problem).gain < 0
    assert small_step(problem).gain == pytest.approx(long_gain(problem), rel=1e-9)
    assert small_step(problem.replace(readout="signs")).gain > 0


def test_scalars_solve_their_equations() -> None:
    problem = base(student=RELU, beta=0.7)
    found, moments = small_step(problem), problem.student.moments
    S, rho, m = found.residual_ratio, found.effective_ridge, found.resolvent
    D = 0.1 + moments.nonlinear_variance * S
    assert rho == pytest.approx(D / (moments.linear**2 * S), rel=1e-14)
    assert m == pytest.approx(1 / (rho + 0.7 / (1 + m)), rel=1e-14)
    assert found.residual_ratio == pytest.approx(1 - 0.7 / 2 * (1 - 0.1 / (D * (1 + m))), rel=1e-14)
    slope = -1 / (m**-2 - 0.7 * (1 + m) ** -2)
    first = 0.7 / (D * (1 + m))
    second = first / D + 0.7 * slope / (D * (1 + m) ** 2 * moments.linear**2 * S)
    assert found.variance_share == pytest.approx(
        (0.7 - 2 * 0.1 * first + 0.1**2 * second) / 2, rel=1e-12
    )


def test_no_step() -> None:
    for changes in (
        {"alpha0": 0},
        {"step": 0},
        {"step": 0, "step_exponent": 0.5},
        {"alpha0": 0, "step_exponent": 0.5},
    ):
        found = small_step(base(**changes))
        assert found.gain == 0
        assert found.risk == found.random_features_risk == small_step(base()).random_features_risk


def test_students_without_a_linear_part_or_without_a_slope() -> None:
    blind = small_step(base(student="hermite2", teacher="tanh"))
    teacher = activation("tanh").moments
    assert blind.gain == 0
    assert blind.effective_ridge == math.inf
    expected = (teacher.second_moment + 0.01 * blind.variance_share) / (1 - blind.variance_share)
    assert blind.random_features_risk == pytest.approx(expected, rel=1e-13)
    assert small_step(base(student="0.0001*z + hermite2(z)")).risk == pytest.approx(
        blind.risk, rel=1e-6
    )
    assert small_step(base(student="sign")).gain == 0  # its gradient vanishes almost everywhere
    linear = small_step(base(student="identity", ridge=1e-6, beta=3, alpha=4))
    assert linear.risk < linear.random_features_risk < 0.5


def test_a_mean_of_the_teacher_is_free_where_the_student_has_one() -> None:
    without, with_mean = base(student="relu"), base(student="relu", teacher="tanh(z) + 3")
    assert small_step(with_mean).random_features_risk == pytest.approx(
        small_step(without).random_features_risk, rel=1e-12
    )
    assert (
        small_step(with_mean).gain < small_step(without).gain
    )  # the residual is larger, the gradient noisier
    assert small_step(base(student="relu", readout="ones")).gain == 0


def test_scale_of_the_readout_is_a_scale_of_the_step() -> None:
    assert small_step(base(readout="-2:0.5,2:0.5")).gain == pytest.approx(
        small_step(base(step=4)).gain, rel=1e-13
    )
    assert small_step(base(readout="signs")).gain == pytest.approx(
        small_step(base()).gain, rel=1e-13
    )


def test_limit_of_many_samples() -> None:
    limit = small_step_limit_alpha(base())
    assert limit.gain == pytest.approx(0.0288639, abs=6e-8)
    assert limit.random_features_risk == pytest.approx(0.1435900, abs=6e-8)
    assert (limit.residual_ratio, limit.variance_share) == (1, 0)
    for alpha, gain in (
        (10, 0.0307307),
        (1e2, 0.0290451),
        (1e3, 0.0288820),
        (1e4, 0.0288657),
        (1e6, 0.0288639),
    ):
        assert small_step(base(alpha=alpha, alpha0=2)).gain == pytest.approx(gain, abs=6e-8)
    near = small_step(base(alpha=1e9, student=EVEN_AND_LINEAR, readout="ones"))
    far = small_step_limit_alpha(base(student=EVEN_AND_LINEAR, readout="ones"))
    assert (near.gain, near.risk) == pytest.approx((far.gain, far.risk), rel=1e-7)


def test_limit_of_many_neurons() -> None:
    assert small_step_limit_beta(base()) == pytest.approx(0.002814, abs=6e-7)
    for beta, scaled in ((10, 0.008591), (1e2, 0.003360), (1e3, 0.002868), (1e4, 0.002820)):
        assert beta * small_step(base(beta=beta)).gain == pytest.approx(scaled, abs=6e-7)
    assert small_step(base(beta=1e4)).variance_share == pytest.approx(0.436637, abs=6e-7)
    for changes in (
        {},
        {"alpha": 0.3},
        {"ridge": 10},
        {"student": EVEN_AND_LINEAR, "readout": "ones"},
        {"student": "relu", "readout": "0:0.5,2:0.5"},
        {"student": "identity", "alpha": 0.5},
    ):
        problem = base(**changes)
        assert 1e9 * small_step(problem.replace(beta=1e9)).gain == pytest.approx(
            small_step_limit_beta(problem), rel=1e-5
        )
    assert small_step_limit_beta(base(student="identity", alpha=2)) == 0
    assert small_step_limit_beta(base(student="hermite2")) == 0
    assert small_step_limit_beta(base(step=0)) == 0


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"step_exponent": 0.5}, "step-exponent"),
        ({"ridge": (0.1, 1.0)}, "ridge"),
        ({"ridge": 0}, "ridge"),
        ({"teacher": "relu"}, "teacher"),
    ],
)
def test_what_is_not_covered_is_refused(changes, parameter: str) -> None:  # type: ignore[no-untyped-def]
    for function in (small_step, small_step_limit_alpha, small_step_limit_beta):
        with pytest.raises(InvalidParameter) as caught:
            function(base(**changes))
        assert [fault.parameter for fault in caught.value.faults] == [parameter]
        assert caught.value.faults[0].hint


def test_one_ridge_in_a_tuple_is_a_single_ridge() -> None:
    found = small_step(base(ridge=(0.1,)))
    assert isinstance(found, SmallStep)
    assert found.risk == small_step(base()).risk


def test_tiny_and_huge_ridges() -> None:
    for alpha, beta in ((0.5, 2.0), (2.0, 0.5), (2.0, 4.0)):
        tiny, small = (
            small_step(base(alpha=alpha, beta=beta, ridge=ridge)) for ridge in (1e-300, 1e-12)
        )
        assert (tiny.risk, tiny.gain) == pytest.approx((small.risk, small.gain), rel=1e-9)
    huge = small_step(base(ridge=1e30))
    assert huge.risk == pytest.approx(activation("tanh").moments.second_moment, rel=1e-12)


# The spectrum of the weights ----------------------------------------------------------------------

# student, teacher, beta, alpha0, noise; eta/eta_c, top, overlaps with the gradient, the readout,
# the teacher
SPECTRUM = [
    ("tanh", "tanh", 1, 1, 0.1, (0.7, 2.0, 0, 0, 0)),
    ("tanh", "tanh", 1, 1, 0.1, (1.2, 2.0333, 0.3056, 0.3056, 0.1454)),
    ("tanh", "tanh", 1, 1, 0.1, (2, 2.5, 0.75, 0.75, 0.3568)),
    ("tanh", "tanh", 1, 1, 0.1, (4, 4.25, 0.9375, 0.9375, 0.4460)),
    (RELU, RELU, 0.5, 2, 0.1, (0.7, 1.7071, 0, 0, 0)),
    (RELU, RELU, 0.5, 2, 0.1, (1.2, 1.7347, 0.2612, 0.3472, 0.1535)),
    (RELU, RELU, 0.5, 2, 0.1, (2, 2.1225, 0.6926, 0.7967, 0.4070)),
    (RELU, RELU, 0.5, 2, 0.1, (4, 3.5858, 0.9152, 0.9539, 0.5378)),
    (SOFTPLUS, "tanh", 2, 0.5, 0.2, (0.7, 2.4142, 0, 0, 0)),
    (SOFTPLUS, "tanh", 2, 0.5, 0.2, (1.2, 2.4533, 0.3472, 0.2612, 0.1031)),
    (SOFTPLUS, "tanh", 2, 0.5, 0.2, (2, 3.0017, 0.7967, 0.6926, 0.2366)),
    (SOFTPLUS, "tanh", 2, 0.5, 0.2, (4, 5.0711, 0.9539, 0.9152, 0.2833)),
]


@pytest.mark.parametrize("case", SPECTRUM, ids=lambda case: f"beta {case[2]}, {case[5][0]} eta_c")
@pytest.mark.parametrize("readout", ["gaussian", "3:1"])
def test_spectrum(case, readout: str) -> None:  # type: ignore[no-untyped-def]
    student, teacher, beta, alpha0, noise, (ratio, *expected) = case
    problem = made(student, teacher, 1, beta, 0.1, alpha0, 1, noise, readout=readout)
    found = weight_spectrum(problem.replace(step=ratio * weight_spectrum(problem).threshold))
    assert [
        found.top,
        found.gradient_overlap,
        found.readout_overlap,
        found.teacher_overlap,
    ] == pytest.approx(expected, abs=6e-5)
    assert found.has_outlier == (ratio > 1)
    assert found.strength == pytest.approx(ratio * beta**0.25, rel=1e-12)
    assert (found.bulk_low, found.bulk_high) == pytest.approx(
        (abs(1 - beta**0.5), 1 + beta**0.5), rel=1e-15
    )


def test_spectrum_without_a_spike() -> None:
    for changes in ({"alpha0": 0}, {"student": "sign"}, {"readout": "0:1"}):
        found = weight_spectrum(base(**changes))
        assert (found.strength, found.threshold, found.top) == (0, math.inf, 2)
    assert weight_spectrum(base(step=0)).threshold == weight_spectrum(base()).threshold < math.inf
    with pytest.raises(InvalidParameter, match="step-exponent"):
        weight_spectrum(base(step_exponent=0.25))


@pytest.mark.parametrize(("beta", "readout"), [(0.6, "gaussian"), (1.5, "0:0.5,2:0.5")])
def test_spectrum_of_a_random_matrix(beta: float, readout: str) -> None:
    problem = made(SOFTPLUS, "tanh", 1, beta, 0.1, 2, 1, 0.2, readout=readout)
    problem = problem.replace(step=2 * weight_spectrum(problem).threshold)
    found, rng, d = weight_spectrum(problem), np.random.default_rng(4), 1500
    N, teacher = round(beta * d), problem.teacher.moments
    a = rng.standard_normal(N) if readout == "gaussian" else rng.choice([0.0, 2.0], N)
    v = np.zeros(d)
    v[:2] = teacher.linear, math.sqrt((teacher.second_moment + 0.04) / 2)
    spike = problem.step * problem.student.slope_moments.mean * np.outer(v, a) / math.sqrt(N)
    W = rng.standard_normal((d, N)) / math.sqrt(d) + spike
    left, values, right = svds(W, k=2, v0=np.ones(min(d, N)), tol=1e-4)  # ascending
    left, right = left[:, 1], right[1]
    assert values == pytest.approx([found.bulk_high, found.top], rel=0.02)
    assert svdvals(W[:500, : round(500 * beta)] * math.sqrt(3))[-1] == pytest.approx(
        found.bulk_low, rel=0.06
    )
    overlaps = [(left @ v) ** 2 / (v @ v), (right @ a) ** 2 / (a @ a), left[0] ** 2]
    assert overlaps == pytest.approx(
        [found.gradient_overlap, found.readout_overlap, found.teacher_overlap], rel=0.06
    )


# The bound for large steps ------------------------------------------------------------------------


def misfit(student: str, teacher: str, kappas: np.ndarray) -> np.ndarray:
    """(5.1) by plain sums: a fine uniform grid in x1; in x2 the known integral for relu and abs,
    else 80 Gauss-Hermite nodes.
    """
    x = np.linspace(-9, 9, 4002)
    weights = np.exp(-x * x / 2) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
    if student in ("relu", "abs"):
        t = np.outer(kappas, x)
        smooth = (
            t * norm.cdf(t) + norm.pdf(t)
            if student == "relu"
            else t * (2 * norm.cdf(t) - 1) + 2 * norm.pdf(t)
        )
    else:
        nodes, node_weights = roots_hermitenorm(80)
        smooth = sum(
            w * activation(student)(np.outer(kappas, x) + z)
            for z, w in zip(nodes, node_weights, strict=True)
        )
        smooth /= math.sqrt(2 * math.pi)
    return (activation(teacher)(x) - smooth) ** 2 @ weights


def test_tau_star_of_erf() -> None:
    found = tau_star("erf", "erf")
    assert found.value == pytest.approx(0, abs=1e-15)
    assert found.minimiser == pytest.approx(math.sqrt(3), rel=1e-12)
    assert tau_star("erf", "-erf(z)").minimiser == pytest.approx(-math.sqrt(3), rel=1e-12)
    assert tau_star("erf", "erf(100*z)").minimiser == pytest.approx(100 * math.sqrt(3), rel=1e-9)
    assert tau_star(activation("erf"), activation("erf")) is found  # kept


@pytest.mark.parametrize(
    ("student", "teacher"),
    [
        ("tanh", "tanh"),
        ("relu", "tanh"),
        ("tanh", "relu"),
        ("relu", "relu"),
        ("sin", "sin(3*z)"),
        ("abs", "z**2 - 1"),
        ("tanh(z + 1)", "tanh(z) - 0.4*(z**2 - 1)"),
        ("gelu", "-silu(z)"),
    ],
)
def test_tau_star_by_brute_force(student: str, teacher: str) -> None:
    found = tau_star(student, teacher)
    coarse = np.linspace(-12, 12, 61)
    best = coarse[np.argmin(misfit(student, teacher, coarse))]
    fine = np.linspace(best - 0.4, best + 0.4, 61)
    values = misfit(student, teacher, fine)
    assert found.value == pytest.approx(
        misfit(student, teacher, np.array([found.minimiser]))[0], rel=2e-5
    )
    assert found.value <= values.min() + 1e-7
    assert abs(found.minimiser) == pytest.approx(abs(fine[np.argmin(values)]), abs=0.015)
    assert 0 < found.error < 1e-10


@pytest.mark.parametrize("student", ["relu", "gelu", "softplus", "abs", "hermite2"])
def test_of_two_signs_the_positive(student: str) -> None:
    """An even teacher sees kappa and -kappa alike; which is lower is rounding."""
    for teacher in ("hermite2", "cos(z)", "abs(z)"):
        assert tau_star(student, teacher).minimiser >= 0


def test_tau_star_loads_no_heavy_parts_of_scipy() -> None:
    """It is part of what the first prediction of a process prints."""
    program = (
        "import sys; from firststep.theory.closed_forms.bound import tau_star; "
        "tau_star('tanh', 'sin'); "
        "print([name for name in ('scipy.interpolate', 'scipy.optimize') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_tau_star_with_known_minima() -> None:
    """hermite2: F(t) = t^2, and E[((1 - k^2) x^2 - 1)^2] is 2/3 at k^2 = 2/3.

    hermite4: F(t) = t^4, an odd teacher wants k = 0.
    """
    found = tau_star("hermite2", "hermite2")
    assert (found.value, found.minimiser) == pytest.approx((2 / 3, math.sqrt(2 / 3)), rel=1e-10)
    flat = tau_star("hermite4", "tanh")
    assert flat.minimiser == 0
    assert flat.value == pytest.approx(activation("tanh").moments.second_moment, rel=1e-12)


@pytest.mark.parametrize(
    ("student", "sign"), [("tanh", 1), ("sign", 1), ("-erf(z)", -1), ("1/(1 + exp(-z))*2 - 1", 1)]
)
def test_tau_star_attained_at_infinity(student: str, sign: int) -> None:
    found = tau_star(student, "sign")
    assert found.minimiser == sign * math.inf
    assert found.value == pytest.approx(0, abs=1e-14)
    half = tau_star(student, "0.5*sign(z)")  # the amplitude is not free: a finite slope is better
    assert abs(half.minimiser) < 10
    assert 0 < half.value < 0.25


def test_tau_star_that_cannot_be_computed_is_refused() -> None:
    with pytest.raises(NotConverged, match="kappa"):
        tau_star(
            "tanh(z) + 0.1*sin(z)", "sign"
        )  # bounded, best at infinity, and without a limit there
    with pytest.raises(InvalidParameter, match="square integrable"):
        tau_star("exp(z**2)", "tanh")


def test_theorem_seven_bound() -> None:
    assert theorem_seven_bound(base(student="erf", teacher="erf", alpha=5)) == pytest.approx(
        0.2, abs=1e-7
    )
    tau = tau_star("tanh", "tanh").value
    assert theorem_seven_bound(base(alpha=5), constant=3) == pytest.approx(
        10 * tau + 3 * (math.sqrt(tau / 5) + 0.2), rel=1e-12
    )
    assert 10 * tau < base().kernel_lower_bound  # [Ba] Corollary 8
    with pytest.raises(InvalidParameter, match="constant"):
        theorem_seven_bound(base(), constant=-1)
