"""Spectra of covariances from samples, on draws of known ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from firststep.numerics.sample_covariance import (
    SampleCovariance,
    _unbiased_moments,
    direction_shares,
    population_eigenvalues,
)

D = 240
SPECTRA = {
    "flat": np.ones(D),
    "two levels": np.where(np.arange(D) < 48, 5.0, 1.0),
    "many levels": np.geomspace(4, 0.1, D),
    "j^-0.6": np.arange(1.0, D + 1) ** -0.6,
    "j^-1": np.arange(1.0, D + 1) ** -1.0,
}


def drawn(
    values: np.ndarray, ratio: float, seed: int = 0
) -> tuple[np.ndarray, SampleCovariance, np.ndarray]:
    """Rows in a random basis with their mean taken off, their covariance, and the basis."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((int(ratio * D), D)) * np.sqrt(values / values.mean())
    turn, _ = np.linalg.qr(rng.standard_normal((D, D)))
    rows = rows @ turn.T
    centred = rows - rows.mean(axis=0)
    return centred, SampleCovariance.of(centred), turn


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize(("ratio", "close"), [(1.5, 0.012), (2, 0.01), (5, 0.005), (20, 0.003)])
def test_what_a_fit_feels_of_the_spectrum(name: str, ratio: float, close: float) -> None:
    """<x varpi/(1 + x varpi)>, where that of the sample is off by up to d/n."""
    values = SPECTRA[name] / SPECTRA[name].mean()
    _, sample, _ = drawn(values, ratio)
    found = population_eigenvalues(sample)
    assert found.shape == (D,)
    assert np.all(np.diff(found) <= 0)
    for x in (0.1, 1.0, 10.0):
        truth, felt, raw = (
            np.mean(x * e / (1 + x * e)) for e in (values, found, sample.eigenvalues)
        )
        assert felt == pytest.approx(truth, rel=close)
        if ratio == 2 and x >= 1:
            assert abs(raw / truth - 1) > 3 * abs(felt / truth - 1)
    # A few large eigenvalues fluctuate in the sample by sqrt(2/n) each.
    spread = 2 * math.sqrt(2 * np.sum(values**4)) / np.sum(values**2) / math.sqrt(sample.degrees)
    assert np.mean(found**2) == pytest.approx(np.mean(values**2), rel=3 * spread + close)


def test_moments_without_their_bias() -> None:
    """On average over draws; those of the sample are off by a factor of two."""
    values = SPECTRA["two levels"] / SPECTRA["two levels"].mean()
    moments = np.array([_unbiased_moments(drawn(values, 2, seed)[1]) for seed in range(12)])
    mean, error = moments.mean(0), moments.std(0, ddof=1) / math.sqrt(12)
    truth = [np.mean(values**k) for k in range(5)]
    # Of the order 1/n, which the formulas leave out.
    assert np.all(np.abs(mean - truth) < 4 * error + 0.01 * np.array(truth))
    sample = drawn(values, 2)[1].eigenvalues
    assert np.mean(sample**4) > 1.8 * truth[4]


@pytest.mark.parametrize("share", [0.2, 1.0])
@pytest.mark.parametrize(("ratio", "close"), [(2, 0.2), (20, 0.06)])
def test_shares_of_a_direction(share: float, ratio: float, close: float) -> None:
    """<1/(1 + x varpi)>_t of a direction seen through a nonlinear function and noise."""
    values = SPECTRA["two levels"] / SPECTRA["two levels"].mean()
    centred, sample, turn = drawn(values, ratio, seed=3)
    rng = np.random.default_rng(9)
    theta = np.where(np.arange(D) < share * D, 1.0, 0.0)
    theta /= math.sqrt(values @ theta**2)
    u = centred @ (turn @ theta)
    labels = np.sin(u) + 0.3 * rng.standard_normal(len(u))
    labels -= labels.mean()
    levels = np.unique(values)
    count = sample.degrees
    shares, rest = direction_shares(
        sample, levels, centred.T @ labels / count, float(labels @ labels) / count
    )
    linear = math.exp(-0.5)  # E z sin z
    truth = np.array([np.sum((values * theta**2)[values == level]) for level in levels])
    assert shares / shares.sum() == pytest.approx(truth, abs=close)
    assert shares.sum() == pytest.approx(linear**2, abs=close)
    assert rest == pytest.approx((1 - math.exp(-2)) / 2 - linear**2 + 0.09, abs=close / 2)


def test_rank() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((50, 6)) @ rng.standard_normal((6, 9))
    assert SampleCovariance.of(rows - rows.mean(0)).rank == 6
    wide = rng.standard_normal((5, 9))
    assert SampleCovariance.of(wide - wide.mean(0)).rank == 4
