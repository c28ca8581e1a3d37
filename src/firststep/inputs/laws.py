"""Laws that are maps of Gaussian numbers. To add one: a class here, a row of tests, a row of docs.

All but the covariances have entries of mean zero and variance one, and the covariance I; laws with
a spectrum are in ``structured``. Quantile functions are tabulated on a grid of g in [-9, 9] and
read by linear interpolation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # whose parts load when they are used: special takes a twentieth of the import

from firststep.checks import real_array
from firststep.errors import InvalidParameter
from firststep.inputs.law import LAWS, Held, InputLaw
from firststep.numerics.special import erf

if TYPE_CHECKING:
    from types import ModuleType

    from firststep.inputs.law import Block, Streams
    from firststep.typing import Array, Float

REACH = 9.0  # of the tables: P(|g| > 9) = 2e-19
CELLS = 512  # of a table, per unit of g: linear interpolation is then right to 2e-5
# Of the largest entry or eigenvalue: Q D Q^T leaves 1e-13 of rounding, a text of nine digits 1e-9.
COVARIANCE_ROUNDING = 1e-8


@LAWS.add
class Gaussian(InputLaw):
    kind, meaning, is_gaussian = "gaussian", "x ~ N(0, I)", True

    def rows(self, block: Block) -> Float[Array, "rows d"]:
        return block.entries()


@LAWS.add
class Rademacher(InputLaw):
    kind, meaning = "rademacher", "entries -1 or 1, i.i.d."

    def rows(self, block: Block) -> Float[Array, "rows d"]:
        entries = block.entries()
        return block.xp.where(entries < 0, -1.0, 1.0).astype(entries.dtype)


@LAWS.add
class Uniform(InputLaw):
    kind, meaning = "uniform", "entries uniform in [-sqrt 3, sqrt 3], i.i.d."

    def rows(self, block: Block) -> Float[Array, "rows d"]:
        return math.sqrt(3) * erf(block.entries() * math.sqrt(0.5))


@LAWS.add
class StudentT(InputLaw):
    kind, meaning = "student-t", "entries t_NU sqrt((NU - 2)/NU), i.i.d."
    letter, parameter_meaning, low = "NU", "the degrees of freedom", 2.0

    def shared_arrays(self, dimension: int) -> tuple[Float[Array, " points"], ...]:
        return (student_table(_number(self)),)

    def rows(self, block: Block) -> Float[Array, "rows d"]:
        return interpolate(block.xp, block.arrays[0], block.entries())


@LAWS.add
class EllipticalT(InputLaw):
    kind = "elliptical-t"
    meaning = "x = g sqrt((NU - 2)/q), g ~ N(0, I), one q ~ chi^2_NU for every sample"
    letter, parameter_meaning, low = "NU", "the degrees of freedom", 2.0

    def shared_arrays(self, dimension: int) -> tuple[Float[Array, " points"], ...]:
        return (scale_table(_number(self)),)

    def rows(self, block: Block) -> Float[Array, "rows d"]:
        scales = interpolate(block.xp, block.arrays[0], block.scales())
        return block.entries() * block.xp.exp(scales)


@LAWS.add
class Mixture(InputLaw):
    """x = g + u ((e R + g_u)/sqrt(1 + R^2) - g_u), g_u = <g, u>, e = +-1."""

    kind = "mixture"
    meaning = "two equal clusters at +-R along a random unit vector u, variance one along u"
    letter, parameter_meaning = "R", "the distance of a cluster from the origin"

    def own_arrays(self, xp: ModuleType, streams: Streams, dimension: int) -> tuple[Array, ...]:
        axis = streams.vector("mixture direction", dimension)
        return (axis / xp.linalg.norm(axis),)

    def rows(self, block: Block) -> Float[Array, "rows d"]:
        entries, axis, distance = block.entries(), block.arrays[0], _number(self)
        along = entries @ axis
        side = block.xp.where(block.scales()[:, 0] < 0, -distance, distance)
        moved = (along + side) / math.sqrt(1 + distance**2) - along
        return entries + moved[:, None] * axis


GAUSSIAN = Gaussian()


@dataclass(frozen=True)
class CovarianceInputs(InputLaw):
    """x ~ N(0, C); ``held`` is the symmetric root of C."""

    kind, meaning = "covariance", "x ~ N(0, C) for a given matrix C"
    has_unit_covariance = False

    @classmethod
    def of(cls, covariance: object) -> CovarianceInputs:
        """The law of a symmetric matrix without negative eigenvalues."""
        return cls.of_checked(checked_covariance(covariance))

    @classmethod
    def of_checked(cls, matrix: Float[Array, "d d"]) -> CovarianceInputs:
        """The law of what ``checked_covariance`` gave back."""
        values, vectors = np.linalg.eigh(matrix)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        return cls(held=Held((root + root.T) / 2))

    def spectrum(self, dimension: int) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
        assert self.held is not None
        roots, vectors = np.linalg.eigh(self.held.array)
        return roots**2, vectors

    def rows(self, block: Block) -> Float[Array, "rows d"]:
        return block.entries() @ block.arrays[0]

    def describe(self) -> dict[str, Any]:
        assert self.held is not None
        return {"shape": list(self.held.array.shape), "sha256_of_root": self.held.sha256}


def checked_covariance(source: object, dimension: int | None = None) -> Float[Array, "d d"]:
    """``source`` as a covariance matrix, of this dimension if one is given; it may be singular."""
    allowed = "a symmetric d x d matrix of finite numbers without negative eigenvalues"
    matrix = real_array("covariance", source, allowed)
    d = len(matrix) if dimension is None and matrix.ndim == 2 else dimension
    if matrix.shape != (d, d) or len(matrix) < 2:
        shape = allowed if dimension is None else f"a {d} x {d} matrix"
        raise InvalidParameter("covariance", shape, f"an array of shape {matrix.shape}")
    size = float(np.abs(matrix).max())
    if not math.isfinite(size):
        raise InvalidParameter("covariance", allowed, "not finite")
    if np.abs(matrix - matrix.T).max() > COVARIANCE_ROUNDING * size:
        raise InvalidParameter("covariance", allowed, "a matrix that is not symmetric")
    values = np.linalg.eigvalsh(matrix)
    if not values[-1] > 0 or values[0] < -COVARIANCE_ROUNDING * values[-1]:
        raise InvalidParameter(
            "covariance",
            "a positive semi-definite matrix that is not zero",
            f"eigenvalues from {values[0]:.3g} to {values[-1]:.3g}",
        )
    return matrix


# Quantile functions of Gaussian numbers ----------------------------------------------------------


def grid() -> Float[Array, " points"]:
    """The points of a table."""
    return np.linspace(-REACH, REACH, round(2 * REACH * CELLS) + 1)


@lru_cache(maxsize=16)
def student_table(freedom: float) -> Float[Array, " points"]:
    """F^-1(Phi(g)) sqrt((nu - 2)/nu), F of t_nu: a Gaussian number becomes a t of variance one.

    Computed for g < 0, where Phi(g) keeps its digits, and reflected.
    """
    points = grid()
    half = len(points) // 2
    lower = scipy.special.stdtrit(freedom, scipy.special.ndtr(points[:half])) * math.sqrt(
        (freedom - 2) / freedom
    )
    return np.concatenate([lower, [0.0], -lower[::-1]])


@lru_cache(maxsize=16)
def scale_table(freedom: float) -> Float[Array, " points"]:
    """log sqrt((nu - 2)/q), q the chi^2_nu quantile at Phi(-g): a row's scale, increasing in g."""
    quantiles = scipy.special.gammaincinv(freedom / 2, scipy.special.ndtr(-grid()))
    upper = scipy.special.gammainccinv(freedom / 2, scipy.special.ndtr(grid()))
    # each tail by the function that keeps its digits
    squares = 2 * np.where(grid() > 0, quantiles, upper)
    return 0.5 * np.log((freedom - 2) / squares)


def interpolate(
    xp: ModuleType, table: Float[Array, " points"], points: Float[Array, "rows d"]
) -> Float[Array, "rows d"]:
    """The table at ``points``, linear between its entries; beyond 9 as at 9."""
    places = xp.clip((points + REACH) * CELLS, 0.0, len(table) - 1.001)
    cell = places.astype("int32")
    fraction = places - cell
    low = xp.take(table, cell)
    return low + fraction.astype(low.dtype) * (xp.take(table, cell + 1) - low)


def _number(law: InputLaw) -> float:
    assert law.parameter is not None
    return law.parameter
