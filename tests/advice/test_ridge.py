"""The linear fit and the spectrum behind every curve, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from firststep import NotConverged
from firststep.advice.ridge import LINEAR_PENALTIES, LinearFit, Spectrum


def drawn(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d)) * np.arange(1, d + 1) + 3
    return x, x @ rng.standard_normal(d) + 5 * rng.standard_normal(n)


@pytest.mark.parametrize(("n", "d"), [(80, 10), (30, 30), (20, 60)])
def test_the_linear_fit_is_scikit_learns(n: int, d: int) -> None:
    x, y = drawn(n, d)
    theirs = make_pipeline(StandardScaler(), RidgeCV(n * LINEAR_PENALTIES)).fit(x, y)
    assert np.allclose(LinearFit().fit(x, y).predict(x + 0.1), theirs.predict(x + 0.1), rtol=1e-6)


@pytest.mark.parametrize(("n", "d"), [(80, 10), (30, 30), (20, 60)])
def test_residuals_and_solutions(n: int, d: int) -> None:
    x, y = drawn(n, d)
    found = Spectrum.of(x, y)
    for penalty in (0.1, 10.0):
        theirs = Ridge(alpha=penalty).fit(x, y)
        residual, gap = found.residuals(np.array([penalty]))
        assert np.allclose(found.solution(penalty), theirs.coef_, rtol=1e-7)
        assert np.allclose(residual[:, 0], y - theirs.predict(x), atol=1e-8 * np.abs(y).max())
        out = Ridge(alpha=penalty).fit(x[1:], y[1:]).predict(x[:1])[0]
        assert y[0] - out == pytest.approx(residual[0, 0] / gap[0, 0], rel=1e-6)


def test_columns_that_are_constant() -> None:
    y = np.arange(6.0)
    assert np.all(LinearFit().fit(np.ones((6, 2)), y).predict(np.ones((2, 2))) == 2.5)
    with pytest.raises(NotConverged):
        Spectrum.of(np.ones((6, 2)), y)
