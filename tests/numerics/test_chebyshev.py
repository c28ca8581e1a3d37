"""Tables of functions: between their nodes, across kinks, in both array libraries."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

from firststep.errors import NotConverged
from firststep.numerics.chebyshev import Table
from tests.backends import needs_jax

X = np.random.default_rng(3).uniform(-5.0, 7.0, (7, 61))


def test_smooth_steep_and_kinked_functions_are_reproduced() -> None:
    for function, edges, limit in (
        (lambda x: np.tanh(9 * x) + x**3, [-5.0, 7.0], 1e-12),
        (scipy.special.erf, [-5.0, 1.0, 7.0], 1e-13),
        (lambda x: np.abs(x - 0.3) * np.exp(-(x**2)), [-5.0, 0.3, 7.0], 1e-13),
    ):
        table = Table.of(function, edges)
        assert table.evaluate(X) == pytest.approx(function(X), rel=limit, abs=limit)


def test_beyond_its_ends_a_table_stays_and_a_jump_is_found() -> None:
    table = Table.of(np.sin, [-1.0, 2.0])
    assert table.evaluate(np.array([-3.0, 5.0])) == pytest.approx(np.sin([-1.0, 2.0]), rel=1e-12)
    jump = Table.of(np.sign, [-1.1, 1.0])
    assert jump.evaluate(np.array([-0.3, -1e-3, 1e-3, 0.4])) == pytest.approx([-1, -1, 1, 1])
    with pytest.raises(NotConverged):
        Table.of(lambda x: np.where(x > 0, np.nan, x), [-1.0, 1.0])


@needs_jax
def test_the_same_in_jax() -> None:
    import jax

    with jax.enable_x64(True):
        table = Table.of(np.cos, [-5.0, 7.0])
        found = table.evaluate(jax.numpy.asarray(X))
        assert np.asarray(found) == pytest.approx(np.cos(X), abs=1e-12)
        slope = jax.grad(lambda x: table.evaluate(x))(0.7)
        assert float(slope) == pytest.approx(-np.sin(0.7), rel=1e-9)
