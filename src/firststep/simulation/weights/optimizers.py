"""What moves the first layer: G is the ascent direction of ``weights.gradient``, eta the learning rate of the problem.

gradient    W + eta G
momentum    M = 0.9 M + G, W + eta M (heavy ball); the first step is that of the gradient
adam        M = 0.9 M + 0.1 G, S = 0.999 S + 0.001 G^2 (entry by entry), W + rate Mh/(sqrt Sh + 1e-8), with Mh = M/(1 - 0.9^t) and
            Sh = S/(1 - 0.999^t) in step t = 1, 2, ..., and rate = eta/sqrt(N d). With step_exponent 0.5 an entry of W moves by
            about step/sqrt d in a step, which is its own order, whatever the size of G. The first step is rate * sign(G).
"""

from __future__ import annotations

import math
from typing import Any

from firststep.simulation.backends import Backend
from firststep.simulation.design import Design

FRICTION, MEMORY, FLOOR = 0.9, 0.999, 1e-8  # of momentum and adam; of the squares; of their root


class Optimizer:
    """The change of the weights from one gradient after the other. It holds the state of one training run."""

    def __init__(self, design: Design, backend: Backend, rate: float) -> None:
        self._name, self._backend = design.training.optimizer, backend
        self._rate = (
            rate / math.sqrt(design.sizes.width * design.sizes.dimension)
            if self._name == "adam"
            else rate
        )
        self._first: Any = None
        self._second: Any = None
        self._steps = 0

    def change(self, gradient: Any) -> Any:
        """What is added to the weights; the gradient is used up."""
        self._steps += 1
        if self._name == "momentum":
            return self._momentum(gradient)
        if self._name == "adam":
            return self._adam(gradient)
        gradient *= self._rate
        return gradient

    def _momentum(self, gradient: Any) -> Any:
        if self._first is None:
            self._first = gradient
        else:
            self._first *= FRICTION  # in place on NumPy: the state is as large as the layer
            self._first += gradient
        return self._rate * self._first

    def _adam(self, gradient: Any) -> Any:
        xp = self._backend.xp
        squares = gradient * gradient
        squares *= 1 - MEMORY
        gradient *= 1 - FRICTION
        if self._first is None:
            self._first, self._second = gradient, squares
        else:
            self._first *= FRICTION
            self._first += gradient
            self._second *= MEMORY
            self._second += squares
        del gradient, squares
        size = xp.sqrt(self._second / (1 - MEMORY**self._steps))
        size += FLOOR
        return (self._rate / (1 - FRICTION**self._steps)) * self._first / size
