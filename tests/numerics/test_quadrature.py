"""Gaussian integrals against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from firststep.numerics.quadrature import NotIntegrable, gaussian_expectation, shifted_moments


def test_polynomials_are_exact() -> None:
    found = gaussian_expectation(lambda z: np.stack([z**k for k in range(0, 11, 2)]))
    assert found.value == pytest.approx([1, 1, 3, 15, 105, 945], rel=1e-14)
    assert np.all(np.abs(found.value - [1, 1, 3, 15, 105, 945]) <= found.error)


def test_exponentials_need_a_wide_interval() -> None:
    rates = np.array([0.5, 1.0, 2.0, 4.0])
    found = gaussian_expectation(lambda z: np.exp(np.outer(rates, z)))
    assert found.value == pytest.approx(np.exp(rates**2 / 2), rel=1e-13)


def test_wide_gaussian_within_the_stated_error() -> None:
    exact = 1 / math.sqrt(1 - 2 * 0.4)
    found = gaussian_expectation(lambda z: np.exp(0.4 * z**2))
    assert abs(found.value[0] - exact) <= found.error[0] < 1e-9


@pytest.mark.parametrize("kink", [-3.3, 0.0, 0.123456789, 2.5])
def test_kinks_anywhere(kink: float) -> None:
    density = math.exp(-kink * kink / 2) / math.sqrt(2 * math.pi)
    exact = density - kink * ndtr(-kink)
    assert gaussian_expectation(lambda z: np.maximum(z - kink, 0), [kink]).value[
        0
    ] == pytest.approx(exact, rel=1e-13)
    # a kink nobody told it about is found by bisection, only more slowly
    assert gaussian_expectation(lambda z: np.maximum(z - kink, 0)).value[0] == pytest.approx(
        exact, rel=1e-10
    )


def test_sharp_but_smooth() -> None:
    found = gaussian_expectation(lambda z: np.tanh(300 * z) * z)
    assert found.value[0] == pytest.approx(math.sqrt(2 / math.pi), rel=1e-5)
    assert found.error[0] < 1e-10


@pytest.mark.parametrize(
    "function",
    [
        lambda z: np.exp(z**2),
        lambda z: np.exp(z**2 / 2),
        lambda z: 1 / z**2,
        lambda z: np.log(z),
        lambda z: 0 * z + np.nan,
    ],
)
def test_what_has_no_integral_is_refused(function) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(NotIntegrable):
        gaussian_expectation(function)


def test_shifted_moments_of_relu_in_closed_form() -> None:
    shift, scale = np.meshgrid(np.linspace(-4, 4, 9), [0.2, 1.0, 3.0])
    mean, slope, rest, spread = shifted_moments(
        lambda x: np.maximum(x, 0), shift, scale, kinks=[0.0]
    )
    t = shift / scale
    density = np.exp(-t * t / 2) / np.sqrt(2 * np.pi)
    exact = shift * ndtr(t) + scale * density
    square = (shift**2 + scale**2) * ndtr(t) + shift * scale * density
    assert mean == pytest.approx(exact, abs=1e-13)
    assert slope == pytest.approx(ndtr(t), abs=1e-13)
    assert rest == pytest.approx(square - exact**2 - scale**2 * ndtr(t) ** 2, abs=1e-12)
    assert spread == pytest.approx(density / (2 * scale), abs=1e-12)


def test_shifted_moments_of_a_cubic() -> None:
    shift, scale = np.array([0.3, -2.0]), np.array([1.1, 0.4])
    mean, slope, rest, spread = shifted_moments(lambda x: x**3, shift, scale)
    assert mean == pytest.approx(shift**3 + 3 * shift * scale**2, rel=1e-12)
    assert slope == pytest.approx(3 * shift**2 + 3 * scale**2, rel=1e-12)
    assert rest == pytest.approx(18 * shift**2 * scale**4 + 6 * scale**6, rel=1e-11)
    assert spread == pytest.approx(3 * shift, rel=1e-11)
