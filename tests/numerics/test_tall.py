"""QR in blocks is a QR."""

from __future__ import annotations

import numpy as np
import pytest

from firststep.numerics.linear_algebra import ROWS, tall_qr


@pytest.mark.parametrize("rows", [5, ROWS, 3 * ROWS, 5 * ROWS + 17])
def test_it_is_a_qr_even_of_nearly_dependent_columns(rows: int) -> None:
    rng = np.random.default_rng(rows)
    matrix = rng.standard_normal((rows, 5))
    matrix[:, 4] = matrix[:, 0] + 1e-12 * matrix[:, 4]
    q, r = tall_qr(matrix)
    np.testing.assert_allclose(q.T @ q, np.eye(5), atol=1e-13)
    np.testing.assert_allclose(q @ r, matrix, atol=1e-12)
    np.testing.assert_allclose(np.tril(r, -1), 0, atol=0)
