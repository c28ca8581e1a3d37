"""The spectrum of a covariance Omega from n rows x, and where in it a direction lies.

The eigenvalues l_i of a sample covariance S (n = rows less one, d columns, c = d/n) are spread out:
those of Omega are found from the Marchenko-Pastur equation. With any z off their axis,

    v(z) = -(1 - c)/z + (c/d) sum_i 1/(l_i - z)
    <varpi v/(1 + varpi v)> = (1/d) sum_i l_i/(l_i - z)

up to errors of the order 1/n, where <.> is the average over the spectrum of Omega: linear equations
for its masses on a grid, solved with masses that are not negative (El Karoui, arXiv math/0609418,
with least squares). z runs along the negative axis, where v is the x of a ridge fit, and along rays
in the upper half plane; the first four moments, without their bias, are equations too. This is the
population spectrum: shrunk eigenvalues, which make the best matrix in the eigenvectors of S, are
less spread out than it.

A direction b with b^T Omega b = sum_j t_j, seen through labels y = <x, b> + (rest of variance s^2,
not correlated with x), has with w = X^T y/n and its components w_i along the eigenvectors of S

    sum_j t_j/(1 + varpi_j v(z)) + s^2 = -(|y|^2/n - sum_i w_i^2/(l_i - z))/(z v(z)),

again linear in t_j and s^2, and again solved without negative ones. In t_j and s^2 the noise of the
labels is told from the direction, so that t_j has no bias from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy  # whose parts load when they are used: optimize takes long

if TYPE_CHECKING:
    from firststep.typing import Array, Float

# Found on drawn spectra (two levels, power laws up to j^-1, d from 200, n from 1.3 d): fewer angles
# or points make fourth moments worse, more change nothing.
_ANGLES = (0.15, 0.4, 0.8, 1.4)  # of the rays, in radians from the positive axis
_POINTS = 60  # on each, and on the negative axis
_BEYOND = 100.0  # how far the negative axis reaches beyond the eigenvalues, as a factor
_GRID = 200  # levels on which masses are sought
_BELOW = 0.7  # the least of them, over the least eigenvalue of the sample
_NARROWEST = 1e-7  # of the largest eigenvalue: smaller ones are as good as that
_EXACT = 1e3  # weight of the equations that hold up to rounding or 1/n: total mass, mean
_MOMENTS = 30.0  # weight of the second to fourth moment
_TRIES = 20_000  # of the solver, far more than it needs


class SampleCovariance(NamedTuple):
    """Eigenvalues of a sample covariance, the smallest first, and its degrees of freedom n."""

    eigenvalues: Float[Array, " d"]
    eigenvectors: Float[Array, "d d"]
    degrees: int  # rows less one, for the mean

    @classmethod
    def of(cls, centred: Float[Array, "rows d"]) -> SampleCovariance:
        """Of rows whose mean has been taken off."""
        count = len(centred) - 1
        values, vectors = np.linalg.eigh(centred.T @ centred / count)
        return cls(values, vectors, count)

    @property
    def rank(self) -> int:
        values, d = self.eigenvalues, self.eigenvalues.size
        return int(np.sum(values > (self.degrees + 1) * d * np.finfo(float).eps * values[-1]))


class _Points(NamedTuple):
    """Where the equations are taken."""

    z: Float[Array, " points"]
    v: Float[Array, " points"]
    weights: Float[Array, " points"]  # errors near the axis are larger

    @classmethod
    def of(cls, sample: SampleCovariance) -> _Points:
        values = sample.eigenvalues
        low, high = max(values[0], _NARROWEST * values[-1]), values[-1]
        radii = np.geomspace(low, high, _POINTS)
        axis = -np.geomspace(low / _BEYOND, high * _BEYOND, _POINTS)
        z = np.concatenate([axis, *(radii * np.exp(1j * angle) for angle in _ANGLES)])
        weights = np.repeat([1.0, *np.sin(_ANGLES)], _POINTS)
        c = values.size / sample.degrees
        v = -(1 - c) / z + c * np.mean(1 / (values - z[:, None]), axis=1)
        return cls(z, v, weights)


def population_eigenvalues(sample: SampleCovariance) -> Float[Array, " d"]:
    """varpi_j, the largest first: d equal parts of the masses that solve the equations."""
    values = sample.eigenvalues
    points = _Points.of(sample)
    lowest = max(values[0], _NARROWEST * values[-1])
    grid = np.geomspace(values[-1], _BELOW * lowest, _GRID)
    product = grid * points.v[:, None]
    right = np.mean(values / (values - points.z[:, None]), axis=1)
    moments = _unbiased_moments(sample)
    heavy = [(_EXACT, 0, 1.0), (_EXACT, 1, moments[1])]
    heavy += [(_MOMENTS, k, moments[k]) for k in (2, 3, 4) if moments[k] > 0]
    rows = [weight * grid**k / moment for weight, k, moment in heavy]
    masses = _least_squares(
        product / (1 + product), right, points.weights, np.array(rows), np.array(heavy)[:, 0]
    )
    return _equal_parts(grid, masses / masses.sum(), values.size)


def direction_shares(
    sample: SampleCovariance,
    levels: Float[Array, " levels"],
    along: Float[Array, " d"],
    square: float,
) -> tuple[Float[Array, " levels"], float]:
    """t summed over the eigenvalues of each level, and s^2; ``along`` is X^T y/n, ``square``
    |y|^2/n, of labels whose mean has been taken off.
    """
    points = _Points.of(sample)
    squares = (sample.eigenvectors.T @ along) ** 2
    left = square - np.sum(squares / (sample.eigenvalues - points.z[:, None]), axis=1)
    matrix = 1 / (1 + levels * points.v[:, None])
    matrix = np.concatenate([matrix, np.ones((points.z.size, 1))], axis=1)
    found = _least_squares(matrix, -left / (points.z * points.v), points.weights)
    return found[:-1], float(found[-1])


def _least_squares(
    matrix: Float[Array, "points unknowns"],
    right: Float[Array, " points"],
    weights: Float[Array, " points"],
    more: Float[Array, "rows unknowns"] | None = None,
    more_right: Float[Array, " rows"] | None = None,
) -> Float[Array, " unknowns"]:
    """Numbers that are not negative, from complex equations and some real ones."""
    matrix, right = matrix * weights[:, None], right * weights
    left, wanted = [matrix.real, matrix.imag], [right.real, right.imag]
    if more is not None and more_right is not None:
        left, wanted = [*left, more], [*wanted, more_right]
    found, _ = scipy.optimize.nnls(np.concatenate(left), np.concatenate(wanted), maxiter=_TRIES)
    return np.asarray(found)


def _unbiased_moments(sample: SampleCovariance) -> list[float]:
    """<varpi^k> up to k = 4 from those of S, M_k: M_k is <varpi^k> plus

    k = 2: c O_1^2;   k = 3: 3 c O_1 O_2 + c^2 O_1^3
    k = 4: c (4 O_1 O_3 + 2 O_2^2) + 6 c^2 O_1^2 O_2 + c^3 O_1^4.
    """
    c = sample.eigenvalues.size / sample.degrees
    m = [float(np.mean(sample.eigenvalues**k)) for k in range(5)]
    o1 = m[1]
    o2 = m[2] - c * o1**2
    o3 = m[3] - 3 * c * o1 * o2 - c**2 * o1**3
    o4 = m[4] - c * (4 * o1 * o3 + 2 * o2**2) - 6 * c**2 * o1**2 * o2 - c**3 * o1**4
    return [1.0, o1, o2, o3, o4]


def _equal_parts(
    levels: Float[Array, " levels"], masses: Float[Array, " levels"], count: int
) -> Float[Array, " count"]:
    """Means of the quantile function, the largest levels first, over ``count`` equal parts."""
    ends = np.concatenate([[0.0], np.cumsum(masses)])
    ends[-1] = 1.0
    sums = np.concatenate([[0.0], np.cumsum(masses * levels)])
    parts = np.diff(np.interp(np.linspace(0.0, 1.0, count + 1), ends, sums)) * count
    return np.asarray(np.minimum.accumulate(parts))  # rounding aside, they fall already
