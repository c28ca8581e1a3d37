"""Exponents between the small and the large step at d = infinity."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from firststep import InvalidParameter, Problem, optimal, predict
from firststep.activations import activation
from firststep.numerics.quadrature import shifted_moments
from firststep.readouts import ReadoutLaw, readout_law
from firststep.theory.one_step.nodes import kappa_rule
from firststep.theory.one_step.orders import Orders, coefficients, hermite_functions, orders_of
from firststep.theory.one_step.question import model_of
from firststep.theory.step import StepConstants, StepDirection
from firststep.theory.student import slope_constants
from tests.backends import needs_jax

if TYPE_CHECKING:
    from firststep.typing import Array, Float

CENTRED = "relu(z) - 0.3989422804014327"
BENT = "z + 0.4*(z**2 - 1)"
NO_CUBE = "sin(z) + 0.10108844328543889*(z**3-3*z)"  # of degree 3 nothing is left but rounding
SYMMETRIC = "-2:0.2,-1:0.3,1:0.3,2:0.2"
G, B1, B2 = 0.8, 0.5, 0.9  # of a step, at etat = 1


def problem(**changes: object) -> Problem:
    fields = dict(alpha=2, beta=1, alpha0=4, step=2, ridge=0.1, noise=0.1, init="sphere")
    return Problem(**{**fields, "student": "tanh", "teacher": "sin", **changes})


def orders(student: str, law: str, exponent: float, shifted: bool = True) -> Orders:
    return orders_of(
        activation(student), readout_law(law), exponent, is_shifted=shifted, has_constant=False
    )


def step(first: float = B1) -> StepConstants:
    one = np.ones(1)
    return StepConstants(StepDirection(one, one, one), G * one, one, one, first * one, B2 * one)


def readout_nodes(law: ReadoutLaw) -> tuple[Float[Array, " P"], Float[Array, " P"]]:
    if not law.is_gaussian:
        return np.array(law.values), np.array(law.weights)
    nodes, weights = np.polynomial.hermite_e.hermegauss(14)
    return nodes, weights / weights.sum()


def mean_features(student: str, law: str, size: float, first: float) -> Float[Array, "P K"]:
    """mu0 at etat = ``size`` by quadrature, with the roots of both weights."""
    kappa, omega = kappa_rule(0.32)
    at, masses = readout_nodes(readout_law(law))
    x, function = (size * at)[:, None], activation(student)
    scale = np.sqrt(1 + first * x + B2 * x**2)
    found = shifted_moments(function.evaluate, G * x * kappa, scale, function.kinks, 60)
    root: Float[Array, "P K"] = np.sqrt(masses)[:, None] * np.sqrt(omega)
    return root * found.mean


# The series ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [None, 0.3])
def test_the_functions_sum_to_the_mean_feature(first: float | None) -> None:
    """sum_m x^m p_m = E s(g x kappa + sqrt(1 + b1 x + b2 x^2) z), a finite sum for a polynomial."""
    student = activation("z**4 - 2*z**3 + 0.5*z**2 + 0.7*z - 0.2")
    kappa, x = np.linspace(-2.5, 2.5, 11), 0.7
    z, weights = np.polynomial.hermite_e.hermegauss(30)
    weights = weights / weights.sum()
    sigma = []
    for k in range(9):
        hermite = np.polynomial.hermite_e.hermeval(z, [0] * k + [1])
        sigma.append(float(weights @ (student.evaluate(z) * hermite)) if k <= 4 else 0.0)
    spike, shift = np.array(G), None if first is None else np.array(first)
    rows = [
        coefficients(m, [*sigma, *[0.0] * 12], spike, shift, np.array(B2 + G**2), 4)
        for m in range(9)
    ]
    found = hermite_functions(kappa, 4) @ sum(x**m * row for m, row in enumerate(rows))
    variance = 1 + (first or 0.0) * x + B2 * x**2
    inside = student.evaluate(G * x * kappa[:, None] + np.sqrt(variance) * z)
    np.testing.assert_allclose(found, inside @ weights, rtol=1e-11)


# Which are free -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("student", "law", "first", "expected"),
    [
        ("tanh(z+0.5)", "signs", 0.0, [0, 1]),
        ("tanh(z+0.5)", "ones", B1, [0]),
        (CENTRED, "ones", B1, [1]),
        (CENTRED, "signs", B1, [1, 2]),
        (CENTRED, "gaussian", B1, [1, 2, 4]),
        (BENT, "signs", B1, [1, 2]),
        ("relu", "-1:0.25,0.5:0.5,2:0.25", B1, [0, 1, 2]),
        ("relu", "-1:0.2,-0.4:0.1,0.5:0.5,2:0.2", B1, [0, 1, 2, 4]),
        ("tanh", "gaussian", 0.0, [1, 3]),
        ("relu", "gaussian", B1, [0, 1, 2, 4]),
        ("sin(z) + 0.5*(z**2-1)", "-1:0.4,1:0.3,2:0.3", 0.0, [1, 2, 3]),
    ],
)
def test_orders_are_those_of_singular_values(
    student: str, law: str, first: float, expected: list[int]
) -> None:
    """Singular values of the mean features fall as etat^m, m in ``expected`` and no other up to 4;
    and the functions are theirs.
    """
    small, smaller = 0.04, 0.02
    values = [
        np.linalg.svd(mean_features(student, law, size, first), compute_uv=False)
        for size in (small, smaller)
    ]
    seen = values[1] > 1e-13
    slopes = np.log2(values[0][seen] / values[1][seen])
    assert [round(each) for each in slopes if each < 4.5] == pytest.approx(expected)
    np.testing.assert_allclose(slopes[: len(expected)], expected, atol=0.12)
    found = orders(student, law, 0.42, shifted=first != 0)
    assert [m for m in found.free if m <= 4] == expected


@pytest.mark.parametrize("law", ["gaussian", "signs"])
def test_functions_are_those_of_singular_vectors(law: str) -> None:
    found, (kappa, omega) = orders(CENTRED, law, 0.3), kappa_rule(0.32)
    assert found.free == (1, 2)
    functions = np.sqrt(omega)[:, None] * found.functions(kappa, step())[0]
    np.testing.assert_allclose(np.sum(functions**2, 0), 1, rtol=1e-9)
    _, _, right = np.linalg.svd(mean_features(CENTRED, law, 1e-3, B1), full_matrices=False)
    outside = functions - right[:2].T @ (right[:2] @ functions)
    assert np.abs(outside).max() < 5e-3  # O(etat)


@pytest.mark.parametrize(
    ("student", "law", "exponent", "first"),
    [
        ("relu", "gaussian", 0.25, B1),
        ("tanh", "gaussian", 1 / 3, 0.0),
        (BENT, "-1:0.25,0.5:0.75", 0.25, B1),
        (CENTRED, "signs", 0.0, B1),
        (CENTRED, "ones", 0.0, B1),
        ("relu", "-1:0.25,0.5:0.5,2:0.25", 0.25, B1),
    ],
)
def test_penalised_functions(student: str, law: str, exponent: float, first: float) -> None:
    """The fit of a function by mean features and noise of N = 1e14 neurons, by brute force."""
    found, (kappa, omega) = orders(student, law, exponent, shifted=first != 0), kappa_rule(0.32)
    assert found.penalised is not None
    width, size = 1e14, 1.3
    features = mean_features(student, law, size * width ** (exponent - 0.5), first)
    _, values, right = np.linalg.svd(math.sqrt(width) * features, full_matrices=False)
    wanted = np.sqrt(omega) * (np.tanh(kappa) + np.cos(kappa))
    expected = right.T @ (values**2 / (1 + values**2) * (right @ wanted))
    free = np.sqrt(omega)[:, None] * found.functions(kappa, step(first))[0]
    free = np.linalg.qr(free)[0] if found.free else free
    beyond = wanted - free @ (free.T @ wanted)
    psi = np.sqrt(omega) * size**found.penalised.order * found.strength(kappa, step(first))[0]
    psi = psi - free @ (free.T @ psi)
    limit = wanted - beyond + psi * (psi @ beyond) / (1 + psi @ psi)
    np.testing.assert_allclose(expected, limit, atol=3e-3 if exponent else 1e-6)


def test_what_is_left_of_the_direction_of_ones() -> None:
    """Of at^m and 1 less the powers before, under the law of the readout."""
    found = orders(BENT, "-1:0.25,0.5:0.75", 0.25).penalised
    assert found is not None
    at, masses = readout_nodes(readout_law("-1:0.25,0.5:0.75"))
    square, one = (f - at * (masses @ (f * at)) / (masses @ at**2) for f in (at**2, at**0))
    size = math.sqrt(masses @ square**2)
    assert found.size == pytest.approx(size)
    assert found.shared == pytest.approx(masses @ (square * one) / size)
    assert found.apart == pytest.approx(0, abs=1e-7)  # two values: no other direction
    gaussian = orders("tanh", "gaussian", 1 / 3, shifted=False).penalised
    assert gaussian is not None
    assert gaussian == pytest.approx((3, math.sqrt(6), 0.0, 1.0))  # |at^3 - 3 at|


def test_more_exponents_free_more() -> None:
    known: set[int] = set()
    for exponent in np.linspace(0.01, 0.46, 46):
        free = set(orders("relu", "gaussian", float(exponent)).free)
        assert known <= free
        known = free
    assert known == {0, 1, 2, 4, 6, 8, 10, 12}
    for m in (2, 4, 6):  # a jump at (m - 1)/(2 m), neither before nor at it
        jump = 0.5 - 0.5 / m
        counts = [m in orders("relu", "gaussian", jump + shift).free for shift in (-1e-6, 0, 1e-6)]
        assert counts == [False, False, True]


# The risk -----------------------------------------------------------------------------------------

CASES = [
    (dict(readout="ones", teacher="tanh", step_exponent=0.15), 0.3),
    (dict(readout="gaussian", step_exponent=0.3), 0.2),
    (dict(readout="gaussian", step_exponent=0.36), 0.16),
    (dict(student="relu", teacher="relu", readout="gaussian", step_exponent=0.15), 0.3),
    (dict(student="tanh(z+0.5)", teacher="tanh", readout="signs", step_exponent=0.36), 0.28),
    (dict(student=CENTRED, teacher="relu", readout="signs", step_exponent=0.42), 0.16),
    (dict(student=CENTRED, teacher="relu", readout="gaussian", step_exponent=0.2), 0.2),
    (dict(student=BENT, readout="ones", init="gaussian", step_exponent=0.2), 0.3),
    (dict(student=CENTRED, teacher="relu", readout="ones", step_exponent=0.36), 0.14),
    (dict(student=BENT, teacher="relu", readout="signs", intercept=True, step_exponent=0.36), 0.28),
]


@pytest.mark.parametrize(("fields", "power"), CASES)
def test_large_networks_approach_the_limit(fields: dict[str, object], power: float) -> None:
    """As the power of d that is said, or faster."""
    asked = problem(**fields)
    limit = float(predict(asked).risk)
    found = model_of(asked, "exact", True).orders
    assert found is not None
    assert found.approach == pytest.approx(power)
    gaps = [abs(predict(asked.replace(dimension=d)).risk - limit) for d in (10**6, 2 * 10**8)]
    assert gaps[1] < 1.3 * 200**-power * gaps[0] + 2e-5
    assert gaps[1] < 0.1 * limit


@pytest.mark.parametrize(
    "fields",
    [
        dict(student="relu", teacher="relu", readout="gaussian", step_exponent=0.25),
        dict(student=BENT, teacher="sin(z)+0.3*(z**2-1)", readout="signs", step_exponent=0.25),
        dict(student=BENT, teacher="relu", readout="-1:0.25,0.5:0.75", step_exponent=0.25, step=3),
        dict(student=BENT, teacher="relu", readout="signs", init="gaussian", step_exponent=0.25),
        dict(student=CENTRED, teacher="relu", readout="gaussian", step_exponent=0.0),
        dict(student=CENTRED, teacher="relu", readout="ones", init="gaussian", step_exponent=0.0),
    ],
)
def test_at_the_jumps(fields: dict[str, object]) -> None:
    """Penalised functions, with the common mode where it shares their direction; the small step is
    the first of them, also where the labels have a mean and the student has none.
    """
    asked = problem(**fields)
    limit = predict(asked).risk
    assert predict(asked.replace(dimension=2 * 10**8)).risk == pytest.approx(limit, rel=4e-3)


def test_the_part_along_the_step() -> None:
    """The power of the teacher's mean given kappa outside of the free polynomials."""
    for student, teacher, exponent, degrees in (
        ("tanh", "sin", 0.3, [1]),
        ("tanh", "sin", 0.36, [1, 3]),
        ("relu", "relu", 0.15, [0, 1]),
        ("relu", "relu", 0.36, [0, 1, 2]),
        ("tanh(z+0.5)", "relu", 0.34, [0, 1, 2, 3]),
    ):
        asked = problem(
            student=student, teacher=teacher, readout="gaussian", step_exponent=exponent
        )
        found = predict(asked)
        gamma = float(found.alignment)
        kappa, omega = kappa_rule(0.05)
        function = activation(teacher)
        scale = np.full_like(kappa, math.sqrt(1 - gamma**2))
        h0 = shifted_moments(function.evaluate, gamma * kappa, scale, function.kinks, 60).mean
        basis = np.sqrt(omega)[:, None] * hermite_functions(kappa, max(degrees))[:, degrees]
        wanted = np.sqrt(omega) * h0
        left = wanted - basis @ (basis.T @ wanted)
        assert found.error_split.along == pytest.approx(left @ left, rel=1e-6)
        assert found.error_split.across > 0


@pytest.mark.parametrize(
    "fields",
    [
        dict(readout="gaussian", student="relu", teacher="relu"),
        dict(readout="signs", student=BENT, teacher="relu"),
    ],
)
def test_a_jump_joins_two_plateaus(fields: dict[str, object]) -> None:
    """By the size of the step: at s = 0 and at s = 1/4."""
    for low, jump, high in ((None, 0.0, 0.1), (0.2, 0.25, 0.3)):
        asked = problem(**fields, step_exponent=jump)
        tiny, huge = predict(asked, step=[1e-5, 1e5]).risk
        below = predict(problem(**fields, step_exponent=low or 0.0, step=0 if low is None else 1))
        assert tiny == pytest.approx(below.risk, rel=1e-6)
        assert huge == pytest.approx(predict(problem(**fields, step_exponent=high)).risk, rel=1e-6)
        assert huge < tiny


def test_the_last_plateaus_lead_to_the_large_step() -> None:
    """Many free odd functions are nearly all of them: the large step, if it is short."""
    last = predict(problem(readout="gaussian", step_exponent=0.46)).risk
    short = predict(problem(readout="gaussian", step_exponent=0.5, step=1e-3)).risk
    assert short == pytest.approx(last, rel=1e-5)


def test_all_steps_are_alike_between_jumps() -> None:
    asked = problem(readout="gaussian", student="relu", step_exponent=0.3)
    risks = predict(asked, step=[0.01, 1.0, 100.0]).risk
    np.testing.assert_allclose(risks, risks[0], rtol=1e-12)
    exact, isotropic = (predict(asked, bulk=bulk).risk for bulk in ("exact", "isotropic"))
    assert exact == isotropic
    with pytest.raises(InvalidParameter, match="over must be without step; got ridge, step"):
        optimal(asked)
    assert optimal(asked, "ridge").risk <= risks[0]


@pytest.mark.parametrize(
    "fields",
    [
        dict(labels="sign", loss="logistic", noise=0.0),
        dict(student="relu", labels="sign", loss="logistic", noise=0.0, intercept=True),
        dict(student="relu", teacher="relu", loss="huber:1", noise_law="t:5"),
    ],
)
def test_other_losses_approach_their_limit(fields: dict[str, object]) -> None:
    asked = problem(**{"readout": "gaussian", "step_exponent": 0.3, **fields})
    limit = float(predict(asked).test_loss)
    gaps = [abs(predict(asked.replace(dimension=d)).test_loss - limit) for d in (10**5, 10**8)]
    assert gaps[1] < 0.4 * gaps[0] + 1e-4
    assert gaps[1] < 0.1 * limit


@needs_jax
@pytest.mark.parametrize(
    "fields",
    [
        dict(student=CENTRED, teacher="relu", readout="gaussian", step_exponent=0.42),
        pytest.param(
            dict(student=BENT, teacher="relu", readout="-1:0.25,0.5:0.75", step_exponent=0.25),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_derivatives(fields: dict[str, object]) -> None:
    import jax
    import jax.numpy as jnp

    asked = problem(**fields)
    names = ("alpha", "beta", "alpha0", "step", "ridge", "noise")
    at = np.array([float(getattr(asked, name)) for name in names])
    with jax.enable_x64(True):
        found = jax.grad(
            lambda x: predict(asked, **{name: x[i] for i, name in enumerate(names)}).risk
        )(jnp.asarray(at))
    for i, name in enumerate(names):
        ends = at[i] * (1 + 1e-4 * np.array([-1, 1]))
        low, high = predict(asked, **{name: ends}).risk
        assert found[i] == pytest.approx((high - low) / (ends[1] - ends[0]), rel=1e-4, abs=1e-8)


# What is said, and refused ------------------------------------------------------------------------


def test_what_it_says_of_networks() -> None:
    near = predict(problem(readout="gaussian", step_exponent=0.34))
    assert near.model_error_reason.endswith("the limit, which they approach as d^-0.04")
    finite = predict(problem(readout="gaussian", step_exponent=0.34, dimension=1000)).risk
    assert near.model_error >= abs(finite - near.risk)
    assert near.is_flagged
    some = predict(problem(readout="gaussian", step_exponent=0.3), step=[0.0, 1.0])
    assert ["approach" in each for each in some.model_error_reason] == [False, True]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (dict(step_exponent=0.47), r"step-exponent must be 0\.5, or below 0\.4615, at d = inf"),
        (
            dict(step_exponent=0.6),
            r"step-exponent must be from 0 to 0\.5 at d = infinity; got 0\.6",
        ),
        (
            dict(student="relu", teacher="relu", readout=SYMMETRIC, step_exponent=0.42),
            r"step-exponent must be 0\.5, or below 0\.4, at d = infinity; got 0\.42 .*not settled",
        ),
        (
            dict(student=NO_CUBE, readout="gaussian", step_exponent=0.36),
            r"student must be a function whose Hermite coefficient of degree 3 is not tiny",
        ),
    ],
)
def test_what_it_refuses(fields: dict[str, object], words: str) -> None:
    asked = problem(**fields)
    with pytest.raises(InvalidParameter, match=words):
        predict(asked)
    assert predict(asked.replace(dimension=1000)).status == "converged"


def test_a_product_of_what_is_left_out_has_an_order() -> None:
    """The refused case: a direction of order 5 that no p_m (x) at^m is."""
    values = [
        np.linalg.svd(mean_features("relu", SYMMETRIC, size, B1), compute_uv=False)
        for size in (0.1, 0.05)
    ]
    slopes = np.log2(values[0][:4] / values[1][:4])
    np.testing.assert_allclose(slopes, [0, 1, 2, 5], atol=0.25)


def test_constants_alone() -> None:
    """abs has no E s': a constant is free, by the mean of the labels or by their square."""
    flat = "abs(z) - 0.7978845608028654"
    assert slope_constants(activation(flat)).c1 == 0
    for shifted, exponent in itertools.product((True, False), (0.1, 0.3)):
        expected = (1,) if shifted else (2,) if exponent > 0.25 else ()
        assert orders(flat, "signs", exponent, shifted).free == expected
    fields = dict(student=flat, teacher="relu", readout="signs")
    free, still = (predict(problem(**fields, step=each, step_exponent=0.36)) for each in (1, 0))
    assert still.risk - free.risk > activation("relu").moments.mean ** 2
