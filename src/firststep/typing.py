"""Names for the types of arrays, for readers and type checkers; running needs none of them.

``Float[Array, "batch K"]`` is an array of floats with a batch axis and K nodes. ``Array`` stands
for an array of NumPy or of JAX: code that takes one works on either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool as Bool
    from jaxtyping import Complex as Complex
    from jaxtyping import Float as Float
    from jaxtyping import Int as Int

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
