"""NumPy and JAX behind one name: what the equations need of an array library.

The same code runs on either. ``library_of(array)`` says which one an array belongs to, so that no
function has to be told.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from firststep.typing import Array, Bool

T = TypeVar("T")


@dataclass(frozen=True)
class Library:
    """An array library. ``xp`` is its namespace."""

    xp: Any  # numpy or jax.numpy: a module, whose functions take arrays of that library
    frozen: Callable[[Any], Any]  # the same numbers, as constants to differentiation
    loop: Callable[[Callable[[Any], Any], Callable[[Any], Any], Any], Any]  # (going, body, carry)
    either: Callable[[Any, Callable[[Any], Any], Callable[[Any], Any], Any], Any]  # by a flag
    is_numpy: bool

    @property
    def special(self) -> ModuleType:
        """Its special functions, loaded when one is evaluated: it takes a quarter of a second."""
        return importlib.import_module(f"{'scipy' if self.is_numpy else 'jax.scipy'}.special")

    @property
    def linalg(self) -> Any:
        """Its linear algebra of batches: some versions of JAX hang in their own."""
        if not self.is_numpy:
            from firststep.numerics import in_parts

            if in_parts.is_needed():
                return in_parts
        return self.xp.linalg


def _same(value: T) -> T:
    return value


def _while(going: Callable[[T], Any], body: Callable[[T], T], carry: T) -> T:
    while going(carry):
        carry = body(carry)
    return carry


def _either(flag: Bool[Array, ""], yes: Callable[[T], T], no: Callable[[T], T], operand: T) -> T:
    return yes(operand) if flag else no(operand)


NUMPY = Library(xp=np, frozen=_same, loop=_while, either=_either, is_numpy=True)


@cache
def jax_library() -> Library:
    """JAX, loaded when it is asked for."""
    import jax
    from jax import lax

    return Library(
        xp=jax.numpy, frozen=lax.stop_gradient, loop=lax.while_loop, either=lax.cond, is_numpy=False
    )


def is_zero(value: object) -> bool:
    """Whether a number is known to be zero: one that is traced by JAX is not."""
    return isinstance(value, np.ndarray | np.generic | float | int) and bool(value == 0)


def library_of(array: object) -> Library:
    """The library of an array: NumPy's own, or JAX for everything else that behaves like one."""
    return NUMPY if isinstance(array, np.ndarray | np.generic | float | int) else jax_library()
