"""Several directions of a teacher: rotation, moments, and what one of them leaves of the others."""

from __future__ import annotations

import numpy as np
import pytest

from firststep import Problem
from firststep.activations import Activation, activation
from firststep.numerics.quadrature import gaussian_panels
from firststep.theory.teacher import TermSum, given_mean, given_variance, teacher_of

TEACHERS = (
    ("relu", "relu"),
    ("tanh(8*z)", "relu"),
    ("z**2 - 1", "abs"),  # no linear part at all
    ("abs", "z", "0*z"),
    ("tanh", "0.8*sin(2*z)", "0.5*(z**2 - 1)"),
    ("tanh", "0.3*(z**3 - 3*z)", "-0.5*relu(z)"),
    ("relu", "sign", "tanh", "0.1*abs(z) + 0.05*z"),
)


def of(*terms: str) -> TermSum:
    return TermSum(tuple(map(activation, terms)))


@pytest.mark.parametrize("terms", TEACHERS, ids=" + ".join)
def test_the_rotation_gathers_all_linear_parts(terms: tuple[str, ...]) -> None:
    teacher = of(*terms)
    rotation, parts = teacher.rotation, teacher.linear_parts
    assert rotation @ rotation.T == pytest.approx(np.eye(len(terms)), abs=1e-14)
    expected = np.zeros(len(terms))
    expected[0] = np.linalg.norm(parts)
    assert rotation @ parts == pytest.approx(expected, abs=1e-14)
    assert teacher.left == pytest.approx(1 - rotation[0] ** 2, abs=1e-15)
    if not parts.any():
        assert np.array_equal(rotation, np.eye(len(terms)))


def test_moments_of_a_sum_by_sampling() -> None:
    terms = ("relu", "0.3*(z**3 - 3*z) + 0.2*z", "abs")
    z = np.random.default_rng(0).standard_normal((3, 1_000_000))
    y = sum(activation(term).evaluate(x) for term, x in zip(terms, z, strict=True))
    found = of(*terms).moments
    assert found.mean == pytest.approx(y.mean(), abs=0.01)
    assert found.second_moment == pytest.approx((y**2).mean(), rel=0.02)
    left = y - y.mean() - (z @ y / y.size) @ z
    assert found.nonlinear_variance == pytest.approx((left**2).mean(), rel=0.02)
    assert found.linear == pytest.approx(np.linalg.norm(z @ y / y.size), abs=0.01)


def _given(teacher: TermSum, u: float) -> tuple[np.ndarray, np.ndarray]:
    """All terms at G_1 = u on a product grid, and its masses."""
    z, mass = gaussian_panels(np.linspace(-8.0, 8.0, 61 if teacher.count < 4 else 21), 6)
    grids = np.meshgrid(*[z] * (teacher.count - 1), indexing="ij")
    masses = np.prod(np.meshgrid(*[mass] * (teacher.count - 1), indexing="ij"), axis=0)
    places = np.stack([np.full(masses.size, u), *(each.ravel() for each in grids)])
    own = teacher.rotation.T @ places
    values = [term.evaluate(x) for term, x in zip(teacher.terms, own, strict=True)]
    return np.stack(values), masses.ravel()


@pytest.mark.parametrize("terms", TEACHERS, ids=" + ".join)
def test_what_is_left_given_the_first_direction_on_a_product_grid(terms: tuple[str, ...]) -> None:
    """Terms are not independent given G_1; kinks between the nodes of the grid leave 1e-4."""
    teacher = of(*terms)
    limit = 3e-3 if "sign" in terms else 3e-4
    for u in (-1.7, 0.3, 2.2):
        values, mass = _given(teacher, u)
        total, place = values.sum(0), np.array([u])
        crossed = mass @ (total**2 - (values**2).sum(0))
        assert teacher.together.evaluate(place)[0] == pytest.approx(crossed, abs=limit)
        mean = mass @ total
        assert given_mean(teacher, place)[0] == pytest.approx(mean, abs=limit)
        spread = mass @ (total - mean) ** 2
        assert given_variance(teacher, place)[0] == pytest.approx(spread, abs=3 * limit)


def test_products_of_two_terms_are_those_of_a_split_line() -> None:
    """m = 2: given G_1 all is a function of one more Gaussian, integrated between its kinks."""
    teacher = of("tanh(8*z)", "relu")
    rotation = teacher.rotation
    for u in (-1.7, 0.01, 0.3):
        kink = -rotation[0, 1] * u / rotation[1, 1]
        z, mass = gaussian_panels(np.unique([*np.linspace(-8.5, 8.5, 401), kink]), 10)
        own = rotation.T @ np.stack([np.full_like(z, u), z])
        one, two = (term.evaluate(x) for term, x in zip(teacher.terms, own, strict=True))
        found = teacher.together.evaluate(np.array([u]))[0]
        assert found == pytest.approx(2 * mass @ (one * two), rel=1e-12)


def test_a_problem_of_one_direction_keeps_its_teacher() -> None:
    problem = Problem(student="tanh", teacher="relu", alpha=1, beta=1)
    assert isinstance(teacher_of(problem), Activation)
    several = problem.replace(teacher_terms="tanh,0.3*z")
    assert str(teacher_of(several)) == "relu + tanh + 0.3*z"
    assert teacher_of(several) is teacher_of(several.replace(alpha=3))  # with its tables
