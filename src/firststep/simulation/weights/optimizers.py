"""What moves the first layer, from G, the ascent direction of ``draw.gradient``, and eta."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

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


class Turned(Optimizer):
    """W + eta |G| D/|D| in another direction D than G, with Frobenius norms.

    So the change has the size of that of the gradient and ``step`` keeps its meaning. D = 0 where
    G = 0, and W then stays.
    """

    state_arrays, starts_as_gradient, turns = 2, False, True

    @abstractmethod
    def direction(self, gradient: Float[Array, "d N"]) -> Float[Array, "d N"]:
        """D, of any size."""

    def change(self, gradient: Float[Array, "d N"]) -> Float[Array, "d N"]:
        size = self._norm(gradient)
        if not math.isfinite(size):  # no decomposition of that; the weights will be found out
            return gradient
        turned = self.direction(gradient)
        length = self._norm(turned)
        turned *= self.learning_rate * size / length if length > 0 else 0.0
        return turned

    def _norm(self, array: Float[Array, "d N"]) -> float:
        """Of the array over its largest entry: squares may vanish in single precision."""
        largest = float(self.xp.abs(array).max())
        scaled = 0 < largest < math.inf
        return largest * float(self.xp.linalg.norm(array / largest)) if scaled else largest


@OPTIMIZERS.add
class Whitened(Turned):
    """D = (C + mu (tr C/d) I)^-1 G with C = X^T X/n0 of the step's own samples, mu ``damping``.

    G is close to v a^T, v = X^T r/n0: so D is close to the ridge regression of the residuals r on
    the inputs, times a^T, and follows theta where G follows E[x x^T] theta.
    """

    name, covariance = "whitened", "batch"
    meaning = "W + eta |G| D/|D|, D = (C + damping (tr C/d) I)^-1 G, C that of the step's samples"
    state_arrays, square_arrays = 3, 5  # C, its eigenvectors and LAPACK's two, a copy

    def direction(self, gradient: Float[Array, "d N"]) -> Float[Array, "d N"]:
        assert self.inverse is not None
        return self.inverse.times(gradient)

    @classmethod
    def work(cls, sizes: Sizes) -> float:
        d = float(sizes.dimension)
        return d * d * (2 * sizes.step_samples + 4 * sizes.width + 10 * d)


@OPTIMIZERS.add
class WhitenedExact(Whitened):
    """The same with C = E[x x^T], which the law of the inputs must know; C = I is the gradient."""

    name, covariance = "whitened-exact", "law"
    meaning = "the same with the covariance of the law of the inputs"


@OPTIMIZERS.add
class Sign(Turned):
    """D = sign G, entry by entry; an entry that is zero stays."""

    name, meaning = "sign", "W + eta |G| D/|D|, D = sign G"

    def direction(self, gradient: Float[Array, "d N"]) -> Float[Array, "d N"]:
        return self.xp.sign(gradient)


@OPTIMIZERS.add
class Muon(Turned):
    """D = U V^T of G = U S V^T: all singular values equal, from the decomposition itself.

    Singular values that are zero to rounding, up to max(d, N) eps times the largest, are left out:
    of a batch of n0 < d samples there are no more than n0 others. No momentum.
    """

    name, meaning = "muon", "W + eta |G| D/|D|, D = U V^T of G = U S V^T"
    state_arrays, is_flat = 7, True  # the copy that is decomposed, U, V, and LAPACK's four

    def direction(self, gradient: Float[Array, "d N"]) -> Float[Array, "d N"]:
        left, values, right = self.xp.linalg.svd(gradient, full_matrices=False)
        floor = max(gradient.shape) * float(np.finfo(gradient.dtype).eps) * values[0]
        return (left * (values > floor)) @ right

    @classmethod
    def work(cls, sizes: Sizes) -> float:
        d, width = float(sizes.dimension), float(sizes.width)
        return 20 * d * width * min(d, width)


def _faded(
    old: Float[Array, "d N"] | None, factor: float, new: Float[Array, "d N"]
) -> Float[Array, "d N"]:
    """factor * old + new, in place on NumPy: the state is as large as the layer."""
    if old is None:
        return new
    old *= factor
    old += new
    return old
