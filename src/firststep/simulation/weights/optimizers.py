"""What moves the first layer, from G, the ascent direction of ``draw.gradient``, and eta."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from firststep.simulation.kinds import OPTIMIZERS, Optimizer

if TYPE_CHECKING:
    from types import ModuleType

    from firststep.problem import Sizes
    from firststep.typing import Array, Float

FRICTION, MEMORY, FLOOR = 0.9, 0.999, 1e-8  # beta1, beta2 and epsilon of Kingma and Ba's Adam


@OPTIMIZERS.add
class Gradient(Optimizer):
    name, meaning = "gradient", "W + eta G"

    def change(self, gradient: Float[Array, "d N"]) -> Float[Array, "d N"]:
        gradient *= self.learning_rate
        return gradient


@OPTIMIZERS.add
class Momentum(Optimizer):
    """M = 0.9 M + G, W + eta M (heavy ball); the first step is that of the gradient."""

    name, meaning, state_arrays = "momentum", "M = 0.9 M + G, W + eta M", 1
    _sum: Float[Array, "d N"] | None = None

    def change(self, gradient: Float[Array, "d N"]) -> Float[Array, "d N"]:
        self._sum = _faded(self._sum, FRICTION, gradient)
        return self.learning_rate * self._sum


@OPTIMIZERS.add
class Adam(Optimizer):
    """M = 0.9 M + 0.1 G, S = 0.999 S + 0.001 G^2 entry by entry, W + rate Mh/(sqrt Sh + 1e-8).

    Mh = M/(1 - 0.9^t) and Sh = S/(1 - 0.999^t) in step t = 1, 2, ..., and rate = eta/sqrt(N d).
    With step_exponent 0.5 an entry of W moves by about step/sqrt d in a step, which is its own
    order, whatever the size of G. The first step is rate * sign(G).
    """

    name, meaning = "adam", "W + (eta/sqrt(N d)) Mh/(sqrt Sh + 1e-8)"
    state_arrays, starts_as_gradient = 4, False  # M, S and two while they change

    def __init__(self, sizes: Sizes, xp: ModuleType, learning_rate: float) -> None:
        rate = learning_rate / math.sqrt(sizes.width * sizes.dimension)
        super().__init__(sizes, xp, rate)
        self._mean: Float[Array, "d N"] | None = None
        self._square: Float[Array, "d N"] | None = None
        self._steps = 0

    def change(self, gradient: Float[Array, "d N"]) -> Float[Array, "d N"]:
        self._steps += 1
        squares = gradient * gradient
        squares *= 1 - MEMORY
        gradient *= 1 - FRICTION
        self._mean = _faded(self._mean, FRICTION, gradient)
        self._square = _faded(self._square, MEMORY, squares)
        del gradient, squares
        size = self.xp.sqrt(self._square / (1 - MEMORY**self._steps))
        size += FLOOR
        return (self.learning_rate / (1 - FRICTION**self._steps)) * self._mean / size


def _faded(
    old: Float[Array, "d N"] | None, factor: float, new: Float[Array, "d N"]
) -> Float[Array, "d N"]:
    """factor * old + new, in place on NumPy: the state is as large as the layer."""
    if old is None:
        return new
    old *= factor
    old += new
    return old
