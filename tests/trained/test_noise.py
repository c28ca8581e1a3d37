"""The laws of noise and the sizes behind outliers, against numbers known otherwise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from firststep.trained import noise
from firststep.trained.outliers import Bulk


@pytest.mark.parametrize(
    ("share", "value"),
    # Bejan (2005), table 2; Johnstone (2001), table 1
    [(0.01, -3.8954), (0.05, -3.1804), (0.5, -1.2686), (0.95, 0.9793), (0.99, 2.0234)],
)
def test_tracy_widom(share: float, value: float) -> None:
    assert noise.tracy_widom_quantile(share) == pytest.approx(value, abs=1e-3)
    assert noise.tracy_widom(value) == pytest.approx(share, abs=1e-4)


def test_tracy_widom_far_out() -> None:
    assert noise.tracy_widom(9.0) == 1.0
    assert noise.tracy_widom(7.9) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("m", "n"), [(50, 50), (80, 50), (500, 20)])
def test_marchenko_pastur(m: int, n: int) -> None:
    low, high = (math.sqrt(m) - math.sqrt(n)) ** 2, (math.sqrt(m) + math.sqrt(n)) ** 2

    def density(x: float) -> float:
        return math.sqrt(max((high - x) * (x - low), 0.0)) / (2 * math.pi * n * x)

    assert quad(density, low, high)[0] == pytest.approx(1, abs=1e-6)
    x = low + 0.4 * (high - low)
    share = quad(density, low, x)[0]
    assert float(noise.below(m, n, np.array([x]))[0]) == pytest.approx(share, abs=1e-5)
    assert float(noise.quantile(m, n, np.array([share]))[0]) == pytest.approx(x, rel=1e-4)
    # Of singular values s: density(x) 2 s, with v = 4.
    s = 2 * math.sqrt(x)
    expected = density(x) * s / 2
    assert float(noise.density(m, n, 2.0, np.array([s]))[0]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("m", "n"), [(200, 50), (50, 200), (100, 100)])
@pytest.mark.parametrize("strength", [1.2, 2.0, 9.0])
def test_sizes_of_equal_variance_have_a_closed_form(m: int, n: int, strength: float) -> None:
    """s^2 = (t^2 + m)(t^2 + n)/t^2, and squared overlaps of the vectors with m entries
    1 - m (t^2 + n)/(t^2 (t^2 + m)), of those with n entries the same with m and n exchanged.
    """
    t2 = strength**2 * math.sqrt(m * n)
    value = math.sqrt((t2 + m) * (t2 + n) / t2)
    places, shares = noise.nodes(max(m, n), min(m, n))
    found = Bulk(np.sqrt(places), shares, m, n).outlier(value)
    assert found.size == pytest.approx(math.sqrt(t2), rel=1e-9)
    assert found.rows_overlap == pytest.approx(1 - m * (t2 + n) / (t2 * (t2 + m)), rel=1e-6)
    assert found.columns_overlap == pytest.approx(1 - n * (t2 + m) / (t2 * (t2 + n)), rel=1e-6)


def test_the_error_of_a_size() -> None:
    """Against draws of the outlier equation itself: the largest value of signal and noise."""
    generator = np.random.default_rng(0)
    m, n, theta = 120, 60, 16.0
    u, v = np.full(m, m**-0.5), np.full(n, n**-0.5)
    places, shares = noise.nodes(m, n)
    bulk = Bulk(np.sqrt(places), shares, m, n)
    found = [
        bulk.outlier(float(np.linalg.norm(theta * np.outer(u, v) + draw, 2)))
        for draw in generator.standard_normal((600, m, n))
    ]
    sizes = np.array([each.size for each in found])
    assert abs(sizes.mean() - theta) < 4 * sizes.std() / math.sqrt(len(sizes))
    predicted = float(np.mean([each.size_error for each in found]))
    # The standard deviation of 600 numbers is known to 3 %.
    assert sizes.std() == pytest.approx(predicted, rel=0.12)


def test_an_edge_of_any_bulk() -> None:
    places = -((1.5 * math.pi * (np.arange(1, 200) - 0.5)) ** (2 / 3))
    values = 10 + 0.02 * places
    end, scale = noise.edge_fit(values[:12])
    assert (end, scale) == pytest.approx((10, 0.02))
    assert noise.slowness(values) == pytest.approx(1)
    assert noise.apart(np.concatenate([[10.1], values]))[0] == pytest.approx(5)
    power = np.arange(1, 200.0) ** -0.5
    assert noise.slowness(power) > 3
