"""Ridge paths against scikit-learn and against the definition, in every shape regime and by every
route.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from firststep import NotConverged
from firststep.simulation.backends import make_backend
from firststep.simulation.fit import ridge as module
from firststep.simulation.fit.ridge import solve_gram, solve_path
from tests.backends import BACKENDS

SHAPES = {
    "tall": (300, 60),
    "square": (80, 80),
    "nearly square": (81, 80),
    "wide": (50, 120),
    "one column": (30, 1),
    "one row": (1, 30),
}
FEW = (1e-3, 0.2, 5.0)
MANY = tuple(np.geomspace(1e-4, 1e2, 17))


@pytest.mark.parametrize("backend_name", BACKENDS)
@pytest.mark.parametrize("ridges", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("shape", SHAPES)
def test_agrees_with_scikit_learn(shape: str, ridges: tuple[float, ...], backend_name: str) -> None:
    n, width = SHAPES[shape]
    rng = np.random.default_rng(0)
    features, targets = np.tanh(rng.standard_normal((n, width))) + 0.3, rng.standard_normal(n)
    backend = make_backend(backend_name)
    with backend.scope():
        f, y = backend.to_device(features), backend.to_device(targets)
        scaled = tuple(n * r for r in ridges)
        if n >= width:
            gram = backend.add_gram(backend.zeros((width, width)), f)
            solutions = np.asarray(solve_gram(backend, gram, f.T @ y, scaled))
        else:
            solutions = np.asarray(f.T @ solve_gram(backend, backend.outer_gram(f), y, scaled))
    for column, ridge in enumerate(ridges):
        expected = (
            Ridge(alpha=n * ridge, fit_intercept=False, solver="svd").fit(features, targets).coef_
        )
        assert np.abs(solutions[:, column] - expected).max() <= 1e-8 * np.abs(expected).max()


@pytest.mark.parametrize("backend_name", BACKENDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_ridgeless_is_minimum_norm_least_squares(shape: str, backend_name: str) -> None:
    n, width = SHAPES[shape]
    rng = np.random.default_rng(1)
    features, targets = rng.standard_normal((n, width)), rng.standard_normal(n)
    backend = make_backend(backend_name)
    with backend.scope():
        f, y = backend.to_device(features), backend.to_device(targets)
        if n >= width:
            solution = solve_gram(
                backend, backend.add_gram(backend.zeros((width, width)), f), f.T @ y, (0.0,)
            )
        else:
            solution = f.T @ solve_gram(backend, backend.outer_gram(f), y, (0.0,))
    expected = np.linalg.lstsq(features, targets, rcond=None)[0]
    condition = np.linalg.cond(features) ** 2
    assert (
        np.abs(np.asarray(solution)[:, 0] - expected).max()
        <= 1e-14 * condition * np.abs(expected).max() + 1e-12
    )


def test_ridgeless_with_repeated_features() -> None:
    """A singular Gram matrix: the minimum-norm solution shares the weight equally between equal
    features.
    """
    rng = np.random.default_rng(2)
    base = rng.standard_normal((40, 5))
    features, targets = np.hstack([base, base]), rng.standard_normal(40)
    solution = solve_path(
        np.asfortranarray(features.T @ features), features.T @ targets, (0.0, 1e-14)
    )
    expected = np.linalg.lstsq(base, targets, rcond=None)[0] / 2
    assert solution == pytest.approx(np.tile(expected, (2, 2)).T, rel=1e-9)


@pytest.mark.parametrize("size", [3, 4, 31, 200])
def test_the_tridiagonal_route_agrees_with_the_others(size: int) -> None:
    rng = np.random.default_rng(size)
    factor = rng.standard_normal((2 * size, size)) * np.geomspace(1, 1e-3, size)
    matrix, right = factor.T @ factor, rng.standard_normal(size)
    ridges = np.geomspace(1e-6, 10, 11)
    exact = np.stack([np.linalg.solve(matrix + r * np.eye(size), right) for r in ridges], axis=1)
    for route in (
        module._by_tridiagonal(matrix, right, ridges),
        module._by_eigenvectors(matrix, right, ridges, 2.0**-52),
    ):
        assert np.abs(route - exact).max() <= 1e-8 * np.abs(exact).max()


def test_only_the_lower_triangle_is_read() -> None:
    rng = np.random.default_rng(3)
    factor = rng.standard_normal((50, 20))
    matrix, right = factor.T @ factor, rng.standard_normal(20)
    spoiled = np.tril(matrix) + np.triu(np.full((20, 20), 99.0), 1)
    for ridges in (FEW, MANY, (0.0,)):
        clean = solve_path(np.asfortranarray(matrix), right, ridges)
        assert solve_path(np.asfortranarray(spoiled), right, ridges) == pytest.approx(
            clean, rel=1e-9
        )


@pytest.mark.parametrize("ridges", [FEW, MANY])
def test_nonsense_is_not_returned(ridges: tuple[float, ...]) -> None:
    with pytest.raises((NotConverged, ValueError)):
        solve_path(np.asfortranarray(np.full((8, 8), np.nan)), np.ones(8), ridges)
    with pytest.raises(NotConverged):
        solve_path(np.asfortranarray(np.eye(8)), np.full(8, np.inf), ridges)
