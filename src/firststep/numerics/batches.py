"""Batches of problems as tuples of arrays: take some, put some back, choose between two.

Tuples may be nested and named; what is None stays None. The first axis of every array counts
problems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from firststep.numerics.library import library_of

if TYPE_CHECKING:
    from firststep.typing import Array, Bool, Float

    Values: TypeAlias = Float[Array, "batch *shape"]

Places: TypeAlias = "Array | Sequence[int] | slice | int"
T = TypeVar("T")


def each(function: Callable[..., Any], *trees: T) -> T:
    """The function of every array, or of every array and its counterparts in trees of one shape."""
    first = trees[0]
    if not isinstance(first, tuple):
        return None if first is None else function(*trees)  # type: ignore[return-value]
    parts = [each(function, *some) for some in zip(*trees, strict=True)]
    made = type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    return made  # type: ignore[return-value]


def take(tree: T, places: Places) -> T:
    """Some of the problems."""
    return each(lambda array: array[places], tree)


def put(tree: T, places: Places, others: T) -> None:
    """Write over some of the problems (NumPy only)."""

    def write(array: Values, other: Values) -> None:
        array[places] = other

    each(write, tree, others)


def pick(flags: Bool[Array, " batch"], yes: T, no: T) -> T:
    """For every problem one or the other."""

    def choose(a: Values, b: Values) -> Values:
        shaped = flags.reshape(-1, *([1] * (a.ndim - 1)))
        return library_of(a).xp.where(shaped, a, b)

    return each(choose, yes, no)


def joined(trees: Sequence[T]) -> T:
    """Several batches as one (NumPy only)."""
    return each(lambda *arrays: np.concatenate(arrays), *trees) if len(trees) > 1 else trees[0]
