"""What pure noise does: the law of its singular values, how closely they keep to it, its edge.

A matrix of m x n independent entries of variance v, m >= n, has singular values s with s^2/v
between (sqrt m - sqrt n)^2 and (sqrt m + sqrt n)^2, by the law of Marchenko and Pastur:

    density of x = s^2/v:  sqrt((high - x)(x - low)) / (2 pi n x).

**Its largest value.** (x_1 - mu)/w has the law of Tracy and Widom (beta = 1) with the centring of
Ma (2012), a = sqrt(m - 1/2), b = sqrt(n - 1/2):

    mu = (a + b)^2,  w = (a + b) (1/a + 1/b)^(1/3),

    F_1(t) = det(1 - K_t),  K_t(x, y) = Ai(x + y + t) on x, y > 0    (Ferrari and Spohn 2005).

**The others** are rigid: n independent numbers would be sqrt n values away from their law, singular
values are log n. ``farthest`` is what 1 in 100 matrices of noise exceed, measured by
``python tests/scripts/calibrate_bulk.py``.

**An edge of any bulk.** Where a density ends like a square root, the largest values lie at
E + c a_j with a_j = -(3 pi (j - 1/2)/2)^(2/3), whatever the rest of the bulk is. E and c are fitted
to the K values after the k-th, and the k-th is compared with them:

    t_k = (s_k - E)/c,

and the largest of t_1 ... t_20 exceeds ``APART`` in 1 of 100 matrices of noise (same script).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy  # whose parts load when they are used: optimize takes long

if TYPE_CHECKING:
    from firststep.typing import Array, Float

LEVEL = 0.01  # false alarms
# Short sides below have no bulk to speak of, below the second no edge of its own.
SMALLEST, SMALLEST_EDGE = 10, 60
MOST = 20  # values that are looked at for a gap above an edge
_PLACES = 4000  # of the law: its quantiles are known to 1e-6
_NODES, _REACH = 40, 16.0  # of the determinant: F_1 to 1e-12
# Values in units of one share: intercept and slope in log n, entries alike and after scaling.
_FARTHEST = {"equal": (0.60, 0.42), "scaled": (0.83, 0.42)}
# How far a value stands from an edge that is fitted to the next 8 or 12.
_FEW, _MANY, _ENOUGH = 8, 12, 100
APART = {_FEW: 4.8, _MANY: 4.0}


@lru_cache(maxsize=64)
def _law(m: int, n: int) -> tuple[Float[Array, " places"], Float[Array, " places"]]:
    """x = s^2/v from edge to edge, and the share of the n values below each."""
    middle, half = m + n, 2 * math.sqrt(m * n)
    ends = middle - half * np.cos(np.arange(_PLACES + 1) * math.pi / _PLACES)
    share = np.concatenate([[0.0], np.cumsum(nodes(m, n)[1])])
    return ends, share / share[-1]


def nodes(m: int, n: int) -> tuple[Float[Array, " places"], Float[Array, " places"]]:
    """Places x and their shares: sums over them are integrals over the law, to many digits."""
    middle, half = m + n, 2 * math.sqrt(m * n)
    angles = (np.arange(_PLACES) + 0.5) * math.pi / _PLACES
    places = middle - half * np.cos(angles)
    masses = (half * np.sin(angles)) ** 2 / places
    return places, masses / masses.sum()


def quantile(m: int, n: int, share: Float[Array, " k"]) -> Float[Array, " k"]:
    """The x below which these shares of the values lie."""
    places, below = _law(m, n)
    return np.interp(share, below, places)


def below(m: int, n: int, x: Float[Array, " k"]) -> Float[Array, " k"]:
    """The share of the values below each x."""
    places, share = _law(m, n)
    return np.interp(x, places, share)


def density(m: int, n: int, deviation: float, s: Float[Array, " k"]) -> Float[Array, " k"]:
    """Of the singular values s themselves, as a density over all n of them."""
    x = (s / deviation) ** 2
    low, high = (math.sqrt(m) - math.sqrt(n)) ** 2, (math.sqrt(m) + math.sqrt(n)) ** 2
    inside = np.sqrt(np.maximum((high - x) * (x - low), 0.0))
    return np.divide(inside, math.pi * n * s, out=np.zeros_like(x), where=s > 0)


def middles(count: int) -> Float[Array, " count"]:
    """(i - 1/2)/count: where count values are expected, as shares."""
    return (np.arange(count) + 0.5) / count


def edge(m: int, n: int, level: float = 0.5) -> float:
    """x that the largest of the values exceeds with this probability."""
    centre, width = _edge(m, n)
    return centre + width * tracy_widom_quantile(1 - level)


def beyond(m: int, n: int, x: float) -> float:
    """The probability that the largest x of noise is larger."""
    centre, width = _edge(m, n)
    return max(1 - tracy_widom((x - centre) / width), 0.0)


def _edge(m: int, n: int) -> tuple[float, float]:
    a, b = math.sqrt(m - 0.5), math.sqrt(n - 0.5)
    return (a + b) ** 2, (a + b) * (1 / a + 1 / b) ** (1 / 3)


def tracy_widom(t: float) -> float:
    """F_1(t): the share of noise matrices whose largest value is below."""
    if t > _REACH / 2:
        return 1.0  # to 1e-12
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    points, roots = (points + 1) * _REACH / 2, np.sqrt(weights * _REACH / 2)
    kernel = scipy.special.airy(points[:, None] + points[None, :] + t)[0]
    return float(np.linalg.det(np.eye(_NODES) - roots[:, None] * kernel * roots))


@lru_cache(maxsize=16)
def tracy_widom_quantile(share: float) -> float:
    return float(scipy.optimize.brentq(lambda t: tracy_widom(t) - share, -8.0, 8.0))


def farthest(n: int, kind: str) -> float:
    """How far, as a share of the values, noise is from its law: the largest difference in 99 %."""
    start, slope = _FARTHEST[kind]
    return (start + slope * math.log(n)) / n


def neighbours(n: int) -> int:
    """K: how many values an edge is fitted to."""
    return _FEW if n < _ENOUGH else _MANY


def _places(first: int, last: int) -> Float[Array, " j"]:
    return -((1.5 * math.pi * (np.arange(first, last + 1) - 0.5)) ** (2 / 3))


def edge_fit(s: Float[Array, " K"], first: int = 1) -> tuple[float, float]:
    """E and c of s_j = E + c a_j, for the values from number ``first`` below an edge."""
    places = _places(first, first + len(s) - 1)
    centred = places - places.mean()
    scale = float(centred @ s / (centred @ centred))
    return float(s.mean() - scale * places.mean()), scale


def apart(s: Float[Array, " n"], most: int = MOST) -> Float[Array, " k"]:
    """t_k for k = 1, 2, ...: how far the k-th value stands above the edge of those after it."""
    count = neighbours(len(s))
    found = []
    for k in range(1, min(most, len(s) // 4) + 1):
        end, scale = edge_fit(s[k : k + count])
        found.append((s[k - 1] - end) / scale if scale > 0 else math.inf)
    return np.array(found)


def slowness(s: Float[Array, " n"]) -> float:
    """How much faster the first K values fall than the next 3 K would have it: 1 at an edge.

    c of the first K values over that of the next 3 K. A power law has 3 and more.
    """
    count = neighbours(len(s))
    later = s[count : 4 * count]
    _, inner = edge_fit(later, count + 1)
    return edge_fit(s[:count])[1] / inner if inner > 0 else math.inf
