"""erf and its kin against their series in decimal numbers of many digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, getcontext, localcontext

import numpy as np
import pytest

from firststep.numerics import special

H = 2.0**-11  # the grid of the tables
rng = np.random.default_rng(5)
ROOT_PI = Decimal(
    "1.77245385090551602729816748334114518279754945612238712821380778985291128459103218137495"
)


def series(x: Decimal) -> Decimal:
    """int_0^x exp(-t^2) dt = sum of (-1)^n x^(2n+1)/(n! (2n+1))."""
    total, power, n = Decimal(0), x, 0
    while n == 0 or abs(power) > abs(total) * Decimal(10) ** -(getcontext().prec + 2) or n < x * x:
        total += power / (2 * n + 1)
        n += 1
        power *= -x * x / n
    return total


def exact_erf(x: Decimal) -> Decimal:
    return 2 / ROOT_PI * series(x)


def exact_normal(x: Decimal) -> Decimal:
    return 1 + exact_erf(x / Decimal(2).sqrt())


def exact_far_left(x: Decimal) -> Decimal:
    """2 P(z < x) by the continued fraction, of 400 levels."""
    below = -x
    for k in range(400, 0, -1):
        below = -x + k / below
    return Decimal(2).sqrt() / ROOT_PI * (-x * x / 2).exp() / below


def exact_softplus(x: Decimal) -> Decimal:
    return (1 + x.exp()).ln()


EXACT: dict[str, tuple[Callable[..., np.ndarray], Callable[[Decimal], Decimal]]] = {
    "erf": (special.erf, exact_erf),
    "doubled normal": (special.doubled_normal, exact_normal),
    "gaussian": (special.gaussian, lambda x: (-x * x).exp()),
    "half gaussian": (lambda x: special.gaussian(x, 0.5), lambda x: (-x * x / 2).exp()),
    "sigmoid": (special.sigmoid, lambda x: 1 / (1 + (-x).exp())),
    "softplus": (special.softplus, exact_softplus),
}


def units(
    found: np.ndarray, x: np.ndarray, exact: Callable[[Decimal], Decimal], digits: int = 70
) -> np.ndarray:
    """The error of each value in units of the last place of the exact one."""
    with localcontext() as context:
        context.prec = digits
        wrong = []
        for value, place in zip(found.tolist(), x.tolist(), strict=True):
            true = exact(Decimal(place))
            last = Decimal(float(np.spacing(abs(float(true)))))
            wrong.append(float(abs(Decimal(value) - true) / last))
    return np.array(wrong)


def points(name: str) -> np.ndarray:
    """Everywhere, in the cells about zero, next to cell borders, tiny; to where all is rounding."""
    ends = {"erf": 6.2, "doubled normal": 9.0, "gaussian": 26.0, "half gaussian": 37.0}
    end = ends.get(name, 40.0)
    count = 60
    borders = (rng.integers(-8000, 8000, count) + 0.5) * H
    parts = (
        rng.uniform(-end, end, count),
        rng.uniform(-3, 3, 3 * count),
        rng.uniform(-4 * H, 4 * H, 3 * count),
        np.nextafter(borders, np.inf),
        np.nextafter(borders, -np.inf),
        np.ldexp(rng.uniform(-1, 1, count), rng.integers(-300, -12, count)),
    )
    return np.concatenate(parts)


@pytest.mark.parametrize("name", list(EXACT))
def test_to_two_units_in_the_last_place(name: str) -> None:
    function, exact = EXACT[name]
    x = points(name)
    wrong = units(function(x), x, exact)
    assert wrong.max() <= 2, x[wrong.argmax()]


def test_the_far_left_of_the_normal_law() -> None:
    """Below -9 a continued fraction: to four units, of values below 1e-18."""
    x = -np.concatenate([rng.uniform(9, 12, 60), rng.uniform(12, 37, 60)])
    wrong = units(special.doubled_normal(x), x, exact_far_left, 40)
    assert wrong.max() <= 4, x[wrong.argmax()]
    with localcontext() as context:  # the two exact routes agree where they meet
        context.prec = 70
        one, other = exact_far_left(Decimal(-9)), exact_normal(Decimal(-9))
        assert abs(one / other - 1) < Decimal(10) ** -30


def test_zeros_infinities_and_what_is_not_a_number() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e300, 5e-324, -1e-310, 4e12, -4e12])
    erf = special.erf(x)
    expected = [0, 0, 1, -1, np.nan, 1, -1, 5e-324, -1.12837916709551e-310, 1, -1]
    np.testing.assert_allclose(erf, expected, rtol=1e-14, atol=0)
    assert list(np.signbit(erf[:2])) == [False, True]
    doubled = [1, 1, 2, 0, np.nan, 2, 0, 1, 1, 2, 0]
    np.testing.assert_array_equal(special.doubled_normal(x), doubled)
    gaussian = [1, 1, 0, 0, np.nan, 0, 0, 1, 1, 0, 0]
    np.testing.assert_array_equal(special.gaussian(x), gaussian)
    np.testing.assert_array_equal(special.gaussian(x, 0.5), gaussian)
    sigmoid = [0.5, 0.5, 1, 0, np.nan, 1, 0, 0.5, 0.5, 1, 0]
    np.testing.assert_array_equal(special.sigmoid(x), sigmoid)
    log2 = math.log(2)
    softplus = [log2, log2, np.inf, 0, np.nan, 1e300, 0, log2, log2, 4e12, 0]
    np.testing.assert_array_equal(special.softplus(x), softplus)
    assert special.doubled_normal(np.array([-38.4]))[0] > 0  # a subnormal number, not yet zero


def test_odd_and_monotone() -> None:
    """Odd to the bit; neighbours may be out of order by one unit, where a cell of the grid ends."""
    x = np.sort(np.concatenate([rng.uniform(0, 7, 40_000), H * (np.arange(12_000) + 0.5)]))
    np.testing.assert_array_equal(special.erf(-x), -special.erf(x))
    for values in (special.erf(x), special.doubled_normal(np.concatenate([-x[::-1], x]))):
        assert np.all(np.diff(values) >= -1.01 * np.spacing(values[:-1]))


@pytest.mark.parametrize("name", list(EXACT))
def test_single_precision(name: str) -> None:
    """In, out and to two units there; to four where it is NumPy's own exp, which is to 2.5."""
    function, _ = EXACT[name]
    x = rng.uniform(-6, 6, 3000).astype(np.float32)
    found, wide = function(x), function(x.astype(float))
    assert found.dtype == np.float32
    most = 4 if name in ("sigmoid", "softplus") else 2
    assert np.all(abs(found - wide) <= most * np.spacing(abs(wide).astype(np.float32)))


@pytest.mark.parametrize("name", list(EXACT))
def test_a_value_does_not_depend_on_its_place(name: str) -> None:
    """In every shape and layout, in blocks and alone."""
    function, _ = EXACT[name]
    x = rng.standard_normal((3, special.BLOCK // 2 + 77)) * 3
    whole = function(x)
    np.testing.assert_array_equal(function(x.T), whole.T)
    np.testing.assert_array_equal(function(x[:, ::3]), whole[:, ::3])
    np.testing.assert_array_equal(function(np.asfortranarray(x)), whole)
    alone = [float(function(np.array(each))) for each in x[1, :40]]
    np.testing.assert_array_equal(alone, whole[1, :40])
    assert function(np.zeros((0, 3))).shape == (0, 3)
    np.testing.assert_array_equal(function(np.arange(4)), function(np.arange(4.0)))
