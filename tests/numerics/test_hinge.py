"""Moments of two lines that meet: the closed form against quadrature, and what is no hinge."""

from __future__ import annotations

import numpy as np
import pytest

from firststep.activations import activation
from firststep.numerics.hinge import Hinge
from firststep.numerics.quadrature import shifted_moments

HINGES = ("relu", "abs(z)", "relu(z-0.5)", "2*z + 3*abs(z-1) + 1", "relu(-z)")


@pytest.mark.parametrize("text", HINGES)
def test_moments_by_quadrature(text: str) -> None:
    student = activation(text)
    rng = np.random.default_rng(3)
    shift, scale = rng.normal(size=(12, 30)) * 3, np.exp(rng.normal(size=(12, 1)))
    hinge = Hinge.of(student.evaluate, student.kinks[0])
    assert hinge is not None
    found = hinge.moments(shift, scale)
    wanted = shifted_moments(student.evaluate, shift, scale, student.kinks, 200)
    for one, other in zip(found, wanted, strict=True):
        assert np.abs(one - other).max() <= 1e-11 * np.abs(other).max()
    # Far from the bend there is nothing left of the scatter, and none of it is below zero.
    assert np.all(found.scatter >= 0)
    assert np.all(hinge.moments(np.array([-40.0, 40.0]), np.ones(2)).scatter < 1e-300)


@pytest.mark.parametrize("text", ["sign", "relu(z)**2", "abs(z) + 0.1*sin(z)", "sqrt(abs(z))"])
def test_what_is_no_hinge(text: str) -> None:
    student = activation(text)
    assert Hinge.of(student.evaluate, student.kinks[0]) is None
