"""Data and plain ways that the tests of the estimators share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from firststep import OneStepClassifier, OneStepRegressor, activation
from firststep.simulation.randomness import HostDraws

Array = np.ndarray[Any, Any]
GENERIC = "tanh(1.3*z) + 0.4*(z**2-1)"  # neither odd nor even
RIDGES = np.geomspace(1e-3, 1e2, 6)


def teacher_data(
    n: int = 60, d: int = 5, seed: int = 0, noise: float = 0.1
) -> tuple[Array, Array, Array]:
    """A single-index teacher on correlated columns with units of their own; the direction is that
    of the standardised columns.
    """
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(d)
    direction /= np.linalg.norm(direction)
    standard = rng.standard_normal((n, d))
    y = 7 + 3 * (np.tanh(2 * standard @ direction) + noise * rng.standard_normal(n))
    return standard * np.geomspace(0.1, 10, d) + np.linspace(-3, 5, d), y, direction


def plain_start(model: OneStepRegressor | OneStepClassifier, d: int) -> tuple[Array, Array, int]:
    """W0, at and the seed of a fit with a whole number as random_state."""
    seed = int(np.random.RandomState(model.random_state).randint(2**31 - 1))
    draws = HostDraws(seed, 0)
    return (
        draws.rows("weights", 0, d, model.width) / math.sqrt(d),
        draws.vector("readout", model.width),
        seed,
    )


def plain_step(
    student: Any, x: Array, y: Array, weights: Array, at: Array, step: float, steps: int = 1
) -> Array:
    """W + eta sqrt(N) G0 with eta = step sqrt(N) and [Ba] (2.1), as the simulation writes it."""
    s, width = activation(student), len(at)
    a = at / math.sqrt(width)
    for _ in range(steps):
        z = x @ weights
        residual = y - s(z) @ a / math.sqrt(width)
        g0 = x.T @ (np.outer(residual, a) / math.sqrt(width) * s.derivative(z)) / len(x)
        weights = weights + step * math.sqrt(width) * math.sqrt(width) * g0
    return weights


def streamed(x: Any, y: Any, sizes: list[int]) -> Callable[[], Iterator[tuple[Any, Any]]]:
    def batches() -> Iterator[tuple[Any, Any]]:
        for a, b in zip([0, *sizes], [*sizes, len(y)], strict=True):
            yield x[a:b], y[a:b]

    return batches


def expected_failures(estimator: Any) -> dict[str, str]:
    """What scikit-learn asks of weights, and one step of the theory does not have."""
    if not hasattr(estimator, "biases") or estimator.width == "auto" or estimator.steps == "auto":
        return {}
    checks = (
        "check_sample_weights_not_overwritten",
        "check_sample_weight_equivalence_on_dense_data",
        "check_classifiers_one_label_sample_weights",
    )
    return dict.fromkeys(checks, "unequal weights need steps='auto'")
