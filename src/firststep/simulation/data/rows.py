"""Rows of data: the one place where inputs enter the kernel.

The laws of ``firststep.inputs`` are maps of the Gaussian streams: entry by entry (rademacher, uniform, student-t), with one more
Gaussian number for every row (elliptical-t, mixture), or linear (power-law, covariance). Quantile functions are tabulated on a grid
of g in [-9, 9] and read by linear interpolation. An array of data is read through a random order of its rows, drawn for every
replicate: rows [0, n) are the ridge data, then come the test data, then one batch after the other.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.special
from numpy.typing import NDArray

from firststep.inputs import InputLaw
from firststep.simulation.backends import Backend, Draws
from firststep.simulation.design import Design

Array = NDArray[np.float64]
REACH = 9.0  # of the tables: P(|g| > 9) = 2e-19
CELLS = 512  # of a table, per unit of g


class Key(NamedTuple):
    """The key of a replicate together with the arrays its law of inputs needs: those of all replicates, and its own."""

    key: Any
    shared: tuple[Any, ...]
    own: tuple[Any, ...]


class Source:
    """The random streams of a replicate, and the arrays of its law of inputs."""

    def __init__(self, draws: Draws, arrays: tuple[Any, ...]) -> None:
        self._draws, self.arrays = draws, arrays

    def vector(self, purpose: str, length: int, index: int = 0) -> Any:
        return self._draws.vector(purpose, length, index)

    def uniform(self, purpose: str, length: int, index: int = 0) -> Any:
        return self._draws.uniform(purpose, length, index)

    def rows(self, purpose: str, start: Any, count: int, columns: int, index: int = 0) -> Any:
        return self._draws.rows(purpose, start, count, columns, index)


def open_draws(backend: Backend, key: Any) -> Draws:
    """The streams of a key made by ``InputArrays.key``."""
    return (
        Source(backend.draws(key.key), (*key.shared, *key.own))
        if isinstance(key, Key)
        else backend.draws(key)
    )


class InputArrays:
    """Makes the keys of replicates; what all replicates share is put on the device once."""

    def __init__(self, design: Design, backend: Backend) -> None:
        self._design, self._backend = design, backend
        self._shared: tuple[Any, ...] | None = None

    def key(self, seed: int, number: int) -> Any:
        backend, design = self._backend, self._design
        key = backend.key(seed, number)
        if design.inputs.is_gaussian:
            return key
        if self._shared is None:
            self._shared = tuple(
                backend.to_device(each)
                for each in shared_arrays(design.inputs, design.sizes.dimension)
            )
        return Key(key, self._shared, _own_arrays(backend, backend.draws(key), design))


def shared_arrays(law: InputLaw, dimension: int) -> tuple[Array, ...]:
    """What a law needs in every replicate: a table, scales of the columns, or its own array."""
    if law.held is not None:
        return (law.held.array,)
    if law.kind in ("student-t", "elliptical-t"):
        assert law.parameter is not None
        return ((student_table if law.kind == "student-t" else scale_table)(law.parameter),)
    if law.kind == "power-law":
        assert law.parameter is not None
        variances = np.arange(1.0, dimension + 1) ** -law.parameter
        return (np.sqrt(variances * (dimension / variances.sum())),)
    return ()


def _own_arrays(backend: Backend, draws: Draws, design: Design) -> tuple[Any, ...]:
    """What a law draws once for a replicate: the order of its rows, or the axis of the clusters."""
    xp, law = backend.xp, design.inputs
    if law.kind == "data":
        assert law.held is not None
        return (xp.argsort(draws.uniform("data rows", law.held.array.shape[0])),)
    if law.kind == "mixture":
        axis = draws.vector("mixture direction", design.sizes.dimension)
        return (axis / xp.linalg.norm(axis),)
    return ()


def input_rows(
    backend: Backend,
    draws: Draws,
    design: Design,
    data: str,
    start: Any,
    count: int,
    batch: Any = 0,
) -> Any:
    """Rows start .. start + count of the data set called ``data`` (step, ridge or test), count x d."""
    law, d, xp = design.inputs, design.sizes.dimension, backend.xp
    if law.is_gaussian:
        return draws.rows(f"{data} inputs", start, count, d, batch)
    arrays = draws.arrays  # type: ignore[attr-defined]
    if law.kind == "data":
        rows, order = arrays
        return xp.take(
            rows, backend.slice(order, _first_row(design, data, batch) + start, count), axis=0
        )
    entries = draws.rows(f"{data} inputs", start, count, d, batch)
    if law.kind == "rademacher":
        return xp.where(entries < 0, -1.0, 1.0).astype(entries.dtype)
    if law.kind == "uniform":
        special = scipy.special if backend.special is None else backend.special
        return math.sqrt(3) * special.erf(entries * math.sqrt(0.5))
    if law.kind == "student-t":
        return interpolate(xp, arrays[0], entries)
    if law.kind == "elliptical-t":
        return entries * xp.exp(
            interpolate(xp, arrays[0], draws.rows(f"{data} scales", start, count, 1, batch))
        )
    if law.kind == "power-law":
        return entries * arrays[0]
    if law.kind == "covariance":
        return entries @ arrays[0]
    assert law.kind == "mixture", law.kind
    assert law.parameter is not None
    along = entries @ arrays[0]
    side = xp.where(
        draws.rows(f"{data} scales", start, count, 1, batch)[:, 0] < 0,
        -law.parameter,
        law.parameter,
    )
    moved = (along + side) / math.sqrt(1 + law.parameter**2) - along
    return entries + moved[:, None] * arrays[0]


def _first_row(design: Design, data: str, batch: Any) -> Any:
    """Where a data set begins in the order of the rows: ridge and test data do not depend on what the steps take."""
    if data == "ridge" or (design.training.reuse and data == "step"):
        return 0
    if data == "test":
        return design.sizes.samples
    return design.sizes.samples + design.test_samples + batch * design.sizes.step_samples


# Quantile functions of Gaussian numbers -----------------------------------------------------------------------------------------


def grid() -> Array:
    """The points of a table."""
    count = round(2 * REACH * CELLS) + 1
    return np.linspace(-REACH, REACH, count)


@lru_cache(maxsize=16)
def student_table(freedom: float) -> Array:
    """F^-1(Phi(g)) sqrt((nu - 2)/nu) for F of t_nu: a Gaussian number becomes a t number of variance one.

    Computed for g < 0, where Phi(g) keeps its digits, and reflected.
    """
    points = grid()
    half = len(points) // 2
    lower = scipy.special.stdtrit(freedom, scipy.special.ndtr(points[:half])) * math.sqrt(
        (freedom - 2) / freedom
    )
    return np.concatenate([lower, [0.0], -lower[::-1]])


@lru_cache(maxsize=16)
def scale_table(freedom: float) -> Array:
    """log sqrt((nu - 2)/q), q the quantile of chi^2_nu at Phi(-g): the scale of a row, increasing in g."""
    quantiles = scipy.special.gammaincinv(freedom / 2, scipy.special.ndtr(-grid()))
    upper = scipy.special.gammainccinv(freedom / 2, scipy.special.ndtr(grid()))
    squares = 2 * np.where(
        grid() > 0, quantiles, upper
    )  # each tail by the function that keeps its digits
    return np.asarray(0.5 * np.log((freedom - 2) / squares))


def interpolate(xp: Any, table: Any, points: Any) -> Any:
    """The table at ``points``, linear between its entries; beyond 9 as at 9."""
    places = xp.clip((points + REACH) * CELLS, 0.0, len(table) - 1.001)
    cell = places.astype("int32")
    rest = places - cell
    low = xp.take(table, cell)
    return low + rest.astype(low.dtype) * (xp.take(table, cell + 1) - low)
