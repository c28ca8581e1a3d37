"""Random features and small steps on inputs with a spectrum: printed numbers, the formulas of
Omega = 1, linear-Gaussian features that are drawn and solved, and networks.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from numpy.random import Generator

from firststep import InvalidParameter, Problem, random_features, small_step, small_step_limit_alpha
from firststep import small_step_limit_beta as limit_beta
from firststep.inputs import SpectrumInputs
from firststep.structure import structure_of, teacher_components
from firststep.theory.closed_forms.random_features import Features, features_of, fit_of
from firststep.theory.closed_forms.small_step import SmallStep

BASE = Problem(
    student="tanh",
    teacher="sin",
    alpha=2,
    beta=1,
    ridge=0.1,
    noise=0.1,
    alpha0=1.3,
    step=1.4,
    step_exponent=0,
)
STEEP = BASE.replace(inputs="two-level:6:0.3", teacher_overlaps="decay:0.4", dimension=60)
FLAT = {"inputs": "two-level:1:0.4", "teacher_overlaps": "bottom:0.3"}  # Omega = 1, the long way


# Printed numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "overlaps", "small", "large"),
    [
        ("power-law:0.3", "equal", 0.256408, 0.280971),
        ("two-level:5:0.2", "bottom:0.5", 0.311842, 0.339983),
        ("power-law:0.6", "top:0.1", 0.151217, 0.143604),
    ],
)
def test_numbers_of_an_independent_solver(
    inputs: str, overlaps: str, small: float, large: float
) -> None:
    """Of damped iterations of the same equations, printed to six digits."""
    for ridge, printed in ((0.01, small), (0.5, large)):
        asked = BASE.replace(inputs=inputs, teacher_overlaps=overlaps, ridge=ridge, dimension=1500)
        assert random_features(asked).risk == pytest.approx(printed, abs=6e-7)


# Networks of d = 1500, 120 to 200 a case: spectrum, teacher, then for the ridges 0.01, 0.1 and 0.5
# the simulated risk, its standard error in units of the last digit, and the theory.
NETWORKS = """
power-law:0.3   equal       0.2553 8 0.2565  0.2360 6 0.2366  0.2806 5 0.2810
power-law:0.3   top:0.1     0.1958 6 0.1958  0.1735 5 0.1734  0.2106 4 0.2108
power-law:0.3   bottom:0.5  0.2904 9 0.2901  0.2708 6 0.2705  0.3153 5 0.3152
power-law:0.6   equal       0.2308 6 0.2310  0.2083 5 0.2084  0.2464 4 0.2463
power-law:0.6   top:0.1     0.1500 5 0.1512  0.1240 3 0.1248  0.1430 3 0.1436
power-law:0.6   bottom:0.5  0.3235 9 0.3249  0.3021 6 0.3024  0.3457 5 0.3459
power-law:1     equal       0.1635 4 0.1718  0.1408 3 0.1456  0.1628 3 0.1663
power-law:1     top:0.1     0.1068 4 0.1185  0.0837 2 0.0913  0.0916 2 0.0975
power-law:1     bottom:0.5  0.3957 9 0.4040  0.3622 6 0.3642  0.3947 4 0.3950
two-level:5:0.2 equal       0.2287 6 0.2302  0.2072 5 0.2076  0.2471 4 0.2472
two-level:5:0.2 top:0.1     0.1635 5 0.1649  0.1392 4 0.1401  0.1722 4 0.1729
two-level:5:0.2 bottom:0.5  0.3114 10 0.3119 0.2919 6 0.2920  0.3399 5 0.3400
"""


@pytest.mark.parametrize("line", NETWORKS.strip().splitlines())
def test_networks_without_a_step(line: str) -> None:
    """The theory's printed digits are off by the finite-size terms, at most 0.2 %; simulations
    agree within three standard errors where no eigenvalue is too large for the Gaussian equivalent.
    """
    inputs, overlaps, *numbers = line.split()
    for i, ridge in enumerate((0.01, 0.1, 0.5)):
        simulated, units, printed = map(float, numbers[3 * i : 3 * i + 3])
        asked = BASE.replace(inputs=inputs, teacher_overlaps=overlaps, ridge=ridge, dimension=1500)
        found = random_features(asked)
        assert found.risk == pytest.approx(printed, rel=2e-3)
        if found.steepness <= 0.05:
            assert abs(found.risk - simulated) < 3 * units * 1e-4 + 5e-5, asked
        else:
            assert found.risk > simulated - 3 * units * 1e-4


# Omega = 1 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("readout", ["gaussian", "ones", "2:0.4,-1:0.6"])
@pytest.mark.parametrize("student", ["tanh", "relu", "z + 0.4*(z**2 - 1)", "z**2 - 1"])
def test_the_identity_in_every_shape(student: str, readout: str) -> None:
    for alpha, beta, ridge in product((0.3, 1.0, 4.0), (0.4, 1.0, 3.0), (1e-6, 0.07, 30.0)):
        plain = BASE.replace(student=student, readout=readout, alpha=alpha, beta=beta, ridge=ridge)
        flat, free = plain.replace(**FLAT), random_features(plain)
        one, two = small_step(plain), small_step(flat)
        assert random_features(flat).risk == pytest.approx(free.risk, rel=1e-12)
        assert free.risk == pytest.approx(one.random_features_risk, rel=1e-11)
        assert free.residual_ratio == pytest.approx(one.residual_ratio, rel=1e-11)
        assert free.variance_share == pytest.approx(one.variance_share, rel=1e-11)
        for name in ("risk", "gain", "resolvent", "effective_ridge", "random_features_risk"):
            close = pytest.approx(getattr(one, name), rel=1e-9, abs=1e-12)
            assert getattr(two, name) == close, name
        limit = small_step_limit_alpha(plain)
        assert small_step_limit_alpha(flat).risk == pytest.approx(limit.risk, rel=1e-9)
        assert limit_beta(flat) == pytest.approx(limit_beta(plain), rel=1e-9)


def test_a_teacher_and_a_spectrum_have_no_scale() -> None:
    """Eigenvalues from an array are scaled to mean one, components to theta^T Omega theta = 1."""
    values, theta = np.array([3.0, 1.0, 0.5, 0.0]), np.array([0.3, -1.0, 2.0, 5.0])
    risks = [
        random_features(
            BASE.replace(
                inputs=SpectrumInputs.of(values * scale),
                teacher_overlaps=theta * other,
                dimension=4,
            )
        ).risk
        for scale, other in ((1, 1), (7.5, 1), (1, 0.02))
    ]
    assert risks[1:] == pytest.approx([risks[0]] * 2, rel=1e-13)


def test_levels_at_infinite_dimension_are_those_of_a_large_one() -> None:
    """Which has whole numbers of eigenvalues in each level."""
    for ridge in (1e-4, 0.3):
        asked = BASE.replace(
            inputs="two-level:5:0.2", teacher_overlaps="bottom:0.5", ridge=ridge, dimension=2000
        )
        limit = asked.replace(dimension=math.inf)
        assert random_features(asked).risk == pytest.approx(random_features(limit).risk, rel=1e-12)
        assert small_step(asked).gain == pytest.approx(small_step(limit).gain, rel=1e-12)
        assert random_features(limit).steepness == 0


# The equations ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("alpha", "beta"), [(0.4, 2.0), (1.0, 1.0), (5.0, 0.7)])
@pytest.mark.parametrize("ridge", [1e-7, 0.05, 10.0])
def test_both_equations_hold(alpha: float, beta: float, ridge: float) -> None:
    """beta = Theta D + <x varpi/(1 + x varpi)>, alpha (1 - S) = beta - ridge Theta."""
    structure, features = structure_of(STEEP), features_of(STEEP)
    assert structure is not None
    fit = fit_of(features, structure, alpha, beta, ridge)
    x = fit.response * features.linear * fit.residual_ratio
    filled = structure.masses @ (x * structure.eigenvalues / (1 + x * structure.eigenvalues))
    D = ridge + features.nonlinear * fit.residual_ratio
    assert beta == pytest.approx(fit.response * D + filled, rel=1e-11)
    assert alpha * (1 - fit.residual_ratio) == pytest.approx(
        beta - ridge * fit.response, rel=1e-11, abs=1e-11
    )
    assert fit.variance_share + fit.share_kept == pytest.approx(1, rel=1e-11)


@pytest.mark.parametrize("readout", ["gaussian", "ones", "2:0.4,-1:0.6"])
@pytest.mark.parametrize("student", ["tanh", "relu", "z + 0.4*(z**2 - 1)"])
def test_the_gain_is_a_derivative(student: str, readout: str) -> None:
    """By differences of S q^2 Z/(1 + p Z), written in the resolvent, at shifted alpha: S moves."""
    asked = STEEP.replace(student=student, readout=readout, beta=0.8)
    structure, features = structure_of(asked), features_of(asked)
    assert structure is not None
    values, o2 = structure.eigenvalues, structure.masses @ structure.eigenvalues**2
    teacher, law = asked.teacher.moments, asked.readout
    output = law.mean * asked.student.moments.mean
    square = teacher.second_moment + asked.noise**2 + output**2

    def potential(alpha: float) -> tuple[float, float]:
        fit = fit_of(features, structure, alpha, asked.beta, asked.ridges[0])
        S, x = fit.residual_ratio, fit.strength
        left = 1 / (1 + x * values)
        q = structure.shares @ (values * left)
        p = teacher.linear**2 * structure.shares @ (values**2 * left)
        p += square / asked.alpha0 * structure.masses @ (values**2 * left)
        D = asked.ridges[0] + features.nonlinear * S
        free = fit.response * D / asked.beta  # 1 - k
        w = 1 / (1 + asked.beta * S * features.quadratic * o2 / D)
        mean = law.mean**2 * w * free / (free + (1 - free) * w)
        Z = x / asked.beta / free * ((law.second_moment - law.mean**2) * free + mean)
        Z *= (asked.step * asked.student.slope_moments.mean) ** 2
        return S, S * q**2 * Z / (1 + p * Z)

    (low, below), (high, above) = (
        potential(asked.alpha * (1 - 1e-4)),
        potential(asked.alpha * (1 + 1e-4)),
    )
    found = small_step(asked)
    slope = (above - below) / (high - low)
    expected = teacher.linear**4 * slope / (1 - found.variance_share)
    assert found.gain == pytest.approx(expected, rel=1e-6, abs=1e-12)
    assert found.gain != 0 or (student, readout) == ("relu", "ones")


@pytest.mark.parametrize("readout", ["gaussian", "2:0.4,-1:0.6"])
def test_limits(readout: str) -> None:
    asked = STEEP.replace(student="z + 0.4*(z**2 - 1)", readout=readout)
    wide = small_step(asked.replace(beta=3e5))
    assert 3e5 * wide.gain == pytest.approx(limit_beta(asked), rel=1e-3)
    known = small_step(asked.replace(alpha=1e7, alpha0=asked.alpha0))
    assert known.risk == pytest.approx(small_step_limit_alpha(asked).risk, rel=1e-4)


# Linear-Gaussian features and networks, drawn and solved ------------------------------------------


def gaussian_model(problem: Problem, rng: Generator) -> list[float]:
    """Risk, training error, trace of the hat matrix over n and the gain by a step, of features
    c1 W x + mu2 xi + c2 sqrt(O_2/(2d)) g with a rank-one change of W, and labels of a linear
    teacher with noise; the risk is exact for the fitted readout.
    """
    size, student, teacher = problem.sizes(), problem.student.moments, problem.teacher.moments
    d, n, N = size.dimension, size.samples, size.width
    values = problem.inputs.eigenvalues(d)  # type: ignore[attr-defined]
    root, theta = np.sqrt(values), teacher_components(problem.teacher_overlaps, values)
    c1, mu2 = student.linear, math.sqrt(student.nonlinear_variance)
    shared = student.quadratic * math.sqrt(np.mean(values**2) / (2 * d))
    noise, c1s = problem.noise, teacher.linear
    mu2s = math.sqrt(teacher.nonlinear_variance)
    W = rng.standard_normal((N, d)) / math.sqrt(d)
    X0 = rng.standard_normal((size.step_samples, d)) * root
    y0 = problem.teacher.evaluate(X0 @ theta) + noise * rng.standard_normal(len(X0))
    v = X0.T @ y0 / len(X0)
    readout = rng.choice([2.0, -1.0], N, p=[0.4, 0.6])
    rate = problem.step * problem.student.slope_moments.mean / math.sqrt(N)
    X = rng.standard_normal((n, d)) * root
    y = c1s * X @ theta + math.hypot(mu2s, noise) * rng.standard_normal(n)
    rest = mu2 * rng.standard_normal((n, N)) + shared * rng.standard_normal((n, 1))
    found = []
    for weights in (W, W + rate * np.outer(readout, v)):
        F = c1 * X @ weights.T + rest
        gram = F.T @ F / n
        b = np.linalg.solve(gram + problem.ridges[0] * np.eye(N), F.T @ y / n)
        linear = np.sum(values * (c1s * theta - c1 * weights.T @ b) ** 2)
        found.append(linear + mu2**2 * b @ b + (shared * b.sum()) ** 2 + mu2s**2)
        found.append(np.mean((y - F @ b) ** 2))
        found.append(np.trace(np.linalg.solve(gram + problem.ridges[0] * np.eye(N), gram)) / n)
    return [*found[:3], found[0] - found[3]]


@pytest.mark.parametrize("student", ["tanh", "z + 0.9*(z**2 - 1)"])
@pytest.mark.parametrize(("alpha", "beta", "ridge"), [(2.0, 1.0, 0.1), (0.7, 1.6, 0.03)])
def test_linear_gaussian_features(student: str, alpha: float, beta: float, ridge: float) -> None:
    asked = STEEP.replace(
        student=student,
        alpha=alpha,
        beta=beta,
        ridge=ridge,
        dimension=300,
        alpha0=2,
        step=2,
        readout="2:0.4,-1:0.6",
    )
    rng = np.random.default_rng(5)
    drawn = np.array([gaussian_model(asked, rng) for _ in range(16)])
    mean, error = drawn.mean(0), drawn.std(0, ddof=1) / 4
    still, moved = random_features(asked), small_step(asked)
    expected = [still.risk, still.training_error, still.degrees_of_freedom, moved.gain]
    assert np.all(np.abs(mean - expected) < 3.5 * error + 2e-3 * still.risk)
    assert moved.gain > 6 * error[3]  # the step is seen


def test_networks_of_random_features() -> None:
    """tanh on a power law, d = 300, against the true features."""
    asked = BASE.replace(inputs="power-law:0.3", teacher_overlaps="top:0.2", dimension=300)
    size, rng = asked.sizes(), np.random.default_rng(8)
    values = asked.inputs.eigenvalues(300)  # type: ignore[attr-defined]
    theta, found = teacher_components(asked.teacher_overlaps, values), []
    for _ in range(24):
        W = rng.standard_normal((size.width, 300)) / math.sqrt(300)
        X, new = (rng.standard_normal((rows, 300)) * np.sqrt(values) for rows in (600, 3000))
        F, G = np.tanh(X @ W.T), np.tanh(new @ W.T)
        y = np.sin(X @ theta) + 0.1 * rng.standard_normal(600)
        gram = F.T @ F / 600 + 0.1 * np.eye(size.width)
        b = np.linalg.solve(gram, F.T @ y / 600)
        risk, train = np.mean((np.sin(new @ theta) - G @ b) ** 2), np.mean((y - F @ b) ** 2)
        found.append((risk, train))
    mean, error = np.mean(found, 0), np.std(found, 0, ddof=1) / math.sqrt(24)
    theory = random_features(asked)
    assert np.all(np.abs(mean - [theory.risk, theory.training_error]) < 3.5 * error + 1e-3)
    identity = random_features(asked.replace(inputs="gaussian", teacher_overlaps="equal"))
    assert abs(mean[0] - identity.risk) > 10 * error[0]


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"inputs": "student-t:5"}, "inputs must be gaussian, power-law:A"),
        ({"inputs": "power-law:0.3", "dimension": math.inf}, "dimension must be a finite one"),
        ({"ridge": (0.1, 1.0)}, "ridge must be a single value"),
        ({"ridge": 0.0}, "ridge must be a number > 0"),
        ({"teacher": "relu"}, "teacher must be of Gaussian mean zero"),
        ({"loss": "huber:1"}, "loss must be left at its default here, square; got huber"),
    ],
)
def test_refusals(changes: dict[str, object], words: str) -> None:
    for function in (random_features, small_step):
        with pytest.raises(InvalidParameter, match=words):
            function(BASE.replace(**changes))


def test_a_large_step_matters_to_the_small_one_only() -> None:
    large = STEEP.replace(step_exponent=0.5)
    assert random_features(large).risk == random_features(STEEP).risk
    with pytest.raises(InvalidParameter, match="step-exponent must be 0"):
        small_step(large)
    found = small_step(STEEP.replace(step=0))
    assert isinstance(found, SmallStep)
    assert found.gain == 0


def test_a_student_without_a_linear_part() -> None:
    """Its risk knows nothing of the spectrum."""
    asked = STEEP.replace(student="z**2 - 1")
    plain = asked.replace(inputs="gaussian", teacher_overlaps="equal")
    assert random_features(asked).risk == pytest.approx(random_features(plain).risk, rel=1e-13)
    assert features_of(asked) == Features(0.0, pytest.approx(2.0), pytest.approx(2.0))
    assert small_step(asked).gain == 0
