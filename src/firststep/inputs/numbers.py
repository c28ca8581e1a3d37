"""Arrays of real numbers from what a user gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firststep.errors import InvalidParameter

if TYPE_CHECKING:
    from firststep.typing import Array


def real_numbers(parameter: str, source: object, allowed: str, hint: str = "") -> Array:
    """``source`` as an array of real numbers."""
    try:
        array = np.asarray(source)
        if array.dtype.kind not in "biuf":
            raise TypeError
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        kind = getattr(getattr(source, "dtype", None), "name", type(source).__name__)
        raise InvalidParameter(parameter, allowed, f"entries of type {kind}", hint) from None
