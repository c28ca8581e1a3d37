"""Rows and columns of a matrix brought to one size, M_ij/(a_i b_j), and signals brought back.

a and b are the root mean squares of what is left without the outliers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy  # whose parts load when they are used: special takes a twentieth of the import

from firststep.trained.noise_fit import noise_fit
from firststep.trained.outliers import Outlier
from firststep.trained.singular import Singular

if TYPE_CHECKING:
    from firststep.typing import Array, Bool, Float

# Rounds of taking the outliers out and bringing rows and columns to one size; none is tried any
# more where the values are this many times too far from their law.
_SCALINGS, _HOPELESS = 3, 5.0
_EVEN = 1e-3  # chance that noise has rows or columns of such different sizes
_NARROW = 0.3  # square of one component of a unit vector
# Times the share of a row or column: log-normal sizes (deviation 0.5) of 600 rows reach it once in
# 100 matrices.
_LARGE = 40.0
# Of the squared length of a scaled vector: what is left without noise is no smaller.
_NEVER_LESS = 0.1


def scaled_matrix(
    plain: Singular, count: int, rounds: int = _SCALINGS
) -> tuple[Singular, Float[Array, " m"], Float[Array, " n"]]:
    """The matrix with rows and columns of one size, and their sizes.

    What is left without the outliers sets the sizes: ``count`` of them at first, those beyond the
    edge of noise of the scaled matrix in the next rounds.
    """
    rows, columns = np.ones(plain.matrix.shape[0]), np.ones(plain.matrix.shape[1])
    large_rows, large_columns = _large(plain)
    current = plain
    for number in range(rounds):
        rest = _left_over(current, count)
        a, b = np.ones(len(rows)), np.ones(len(columns))
        for _ in range(3):
            a = np.maximum((rest / b).mean(axis=1), np.finfo(float).tiny)
            b = np.maximum((rest / a[:, None]).mean(axis=0), np.finfo(float).tiny)
        rows, columns = rows * np.sqrt(a), columns * np.sqrt(b)
        rows[large_rows] = np.median(rows[~large_rows])
        columns[large_columns] = np.median(columns[~large_columns])
        rows, columns = rows / _root_mean_square(rows), columns / _root_mean_square(columns)
        current = Singular(plain.matrix / rows[:, None] / columns)
        if number == rounds - 1:
            break
        fit = noise_fit(current.values, plain.matrix.shape, "scaled")
        before, count = count, wide(current, fit.count)
        if count == before or fit.distance > _HOPELESS * fit.bound:
            break
    return current, rows, columns


def is_even(singular: Singular, count: int) -> bool:
    """Whether rows and columns differ in size by no more than those of noise do."""
    squares = _left_over(singular, count)
    variance = squares.mean()
    spread = max(float((squares**2).mean() / variance**2) - 1, 0.5)  # 2 of a Gaussian
    for axis in (0, 1):
        sizes = squares.mean(axis=axis) / variance
        total = float(((sizes - 1) ** 2).sum()) * squares.shape[axis] / spread
        if scipy.special.chdtrc(len(sizes) - 1, total) < _EVEN:
            return False
    return True


def _left_over(singular: Singular, count: int) -> Float[Array, "m n"]:
    """Squares of the entries without the first directions, made up for what these took of each row
    and column of the noise.
    """
    left, right = singular.leading(count)
    kept = [np.maximum(1 - (each**2).sum(axis=1), 1e-3) for each in (left, right)]
    return singular.without(count) ** 2 / kept[0][:, None] / kept[1]


def wide(singular: Singular, count: int) -> int:
    """How many of the first ``count`` directions come before one that is a single row or column.

    Such a one belongs to the sizes of rows and columns: taken out, nothing would be left of it. But
    a row or column that holds a large part of the matrix is no size, it is a direction.
    """
    large_rows, large_columns = _large(singular)
    left, right = singular.leading(count)
    sides = left[~large_rows] ** 2, right[~large_columns] ** 2
    largest = np.maximum(*(side.max(axis=0, initial=0.0) for side in sides))
    narrow = np.flatnonzero(largest > _NARROW)
    return int(narrow[0]) if len(narrow) else count


def _large(singular: Singular) -> tuple[Bool[Array, " m"], Bool[Array, " n"]]:
    """The rows and the columns that hold many times their share of the squared norm."""
    squares = singular.matrix**2
    sizes = squares.sum(axis=1), squares.sum(axis=0)
    rows, columns = (size > _LARGE * size.mean() for size in sizes)
    return rows, columns


def _root_mean_square(values: Float[Array, " k"]) -> float:
    return float(np.sqrt(np.mean(values**2)))


def in_own_units(
    outliers: tuple[Outlier, ...],
    scaled: Singular,
    rows: Float[Array, " m"],
    columns: Float[Array, " n"],
) -> tuple[Outlier, ...]:
    """Signals behind outliers of a scaled matrix, as large as they are in the matrix itself.

    theta u v^T of the scaled matrix is theta |a u| |b v| there. The vectors found are u with the
    share c^2 of their square and noise, along which a^2 has the mean 1, with the rest:
    |a u|^2 = (|a u_found|^2 - 1 + c^2)/c^2. Noise at random makes that scatter by

        var |a u|^2 = (4 c^2 (1 - c^2) + 2 (1 - c^2)^2) (<a^4> - 1)/(m c^4),

    and the squared overlap of a u_found with the signal's own vector is c^2 |a u|^2/|a u_found|^2.
    """
    left, right = scaled.leading(len(outliers))
    found = []
    for k, each in enumerate(outliers):
        factor, spread, overlaps = 1.0, 0.0, []
        for scales, vector, overlap in (
            (rows, left[:, k], each.rows_overlap),
            (columns, right[:, k], each.columns_overlap),
        ):
            length = float(((scales * vector) ** 2).sum())
            own, lost = (length - 1 + overlap) / overlap, 1 - overlap
            own = max(own, _NEVER_LESS * length)
            uneven = float(np.mean(scales**4)) - 1
            scatter = (4 * overlap * lost + 2 * lost**2) * uneven / len(scales) / overlap**2
            factor, spread = factor * own, spread + scatter / own**2
            overlaps.append(min(overlap * own / length, 1.0))
        root = math.sqrt(factor)
        error = math.hypot(each.size_error, each.size * math.sqrt(spread) / 2)
        found.append(
            replace(
                each,
                size=root * each.size,
                size_error=root * error,
                rows_overlap=overlaps[0],
                columns_overlap=overlaps[1],
            )
        )
    return tuple(found)
