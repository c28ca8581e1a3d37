"""Factors kept of a batch of matrices solve what NumPy solves."""

from __future__ import annotations

import numpy as np
import pytest

from firststep.numerics.linear_algebra import Factors, solve_linear


@pytest.mark.parametrize(("batch", "n", "m"), [(1, 1, 1), (3, 7, 2), (2, 30, 45)])
def test_they_solve_again_and_again(batch: int, n: int, m: int) -> None:
    rng = np.random.default_rng(n)
    matrices, right = rng.standard_normal((batch, n, n)), rng.standard_normal((batch, n, m))
    factors, answer = solve_linear(matrices, right, is_kept=True)
    assert factors is not None
    np.testing.assert_allclose(answer, np.linalg.solve(matrices, right), rtol=1e-9, atol=1e-9)
    other = rng.standard_normal((batch, n, m + 1))
    found = factors.solve(other)
    np.testing.assert_allclose(matrices @ found, other, atol=1e-10 * np.abs(found).max())


def test_a_singular_matrix_is_refused_as_by_numpy() -> None:
    matrices = np.stack([np.eye(3), np.diag([1.0, 0.0, 2.0])])
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        Factors.of(matrices)


def test_complex_matrices_keep_nothing() -> None:
    matrices = np.eye(4)[None] * (1 + 1j)
    factors, answer = solve_linear(matrices, np.ones((1, 4, 1)), is_kept=True)
    assert factors is None
    np.testing.assert_allclose(answer, 0.5 - 0.5j)
