"""Convex losses of the fit of a readout: l(y, f) of a label and a prediction.

A loss is of margins (labels +-1, a function of q = y f) or of residuals (x = y - f). Besides the
value and its derivatives in f it knows its score: on a sample of the fit whose prediction without
it would be f0 and whose leverage is V, the prediction is the proximal point

    f = argmin_f l(y, f) + (f - f0)^2/V = f0 + V g,   g = -(1/2) dl/df at f,

and the score is g as a function of (y, f0, V). Square: g = (y - f0)/(1 + V).

    loss            l                                     g
    square          (y - f)^2                             x/(1 + V)
    logistic        log(1 + exp(-y f))                    (y/2) S, S = sigmoid(-u), u = q + V S/2
    squared-hinge   max(0, 1 - y f)^2                     y (1 - q)/(1 + V) where q < 1
    hinge           max(0, 1 - y f)                       y clip((1 - q)/V, 0, 1/2)
    huber:DELTA     r^2, 2 DELTA |r| - DELTA^2 beyond     clip(x/(1 + V), -DELTA, DELTA)
    quantile:THETA  max(THETA r, (THETA - 1) r)           clip(x/V, -(1 - THETA)/2, THETA/2)

with r = y - f, x = y - f0 and q = y f0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from firststep.checks import number
from firststep.errors import InvalidParameter, nearest
from firststep.numerics.library import library_of
from firststep.numerics.special import sigmoid, softplus
from firststep.registry import Registry

if TYPE_CHECKING:
    from firststep.typing import Array, Float

_PROXIMAL_STEPS = 4  # of Halley's for the logistic proximal point: 3 reach 1e-15, V 1e-3 to 1e12
_PROXIMAL_END = 1e-4  # of the last step, which leaves less than its cube
# Where the logistic score is cut, beside its ends and in between: fits with ridges down to 1e-6 are
# then right to 1e-5, and otherwise to some percent.
_TAILS = (3.0, 12.0)
_SPACED = tuple(3.0**power for power in range(1, 9))


class Score(NamedTuple):
    """What a sample pulls at its prediction."""

    g: Float[Array, "*shape"]
    slope: Float[Array, "*shape"]  # -dg/df0
    point: Float[Array, "*shape"]  # the proximal point f


class Clip(NamedTuple):
    """A score of the residual x that is clip(k x, k low, k high)."""

    k: Float[Array, "*shape"]
    low: Float[Array, "*shape"]  # x where it bends
    high: Float[Array, "*shape"]


@dataclass(frozen=True)
class Loss:
    """A convex loss. Arrays may be NumPy's or JAX's."""

    name: ClassVar[str]
    parameter_name: ClassVar[str] = ""
    meaning: ClassVar[str]
    is_margin: ClassVar[bool] = False  # of labels +-1
    is_smooth: ClassVar[bool] = True  # has a derivative everywhere: a gradient step can be taken

    def value(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        """l(y, f)."""
        raise NotImplementedError

    def slope(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        """dl/df; one of the subgradients at a kink."""
        raise NotImplementedError

    def curvature(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        """d^2 l/df^2 almost everywhere."""
        raise NotImplementedError

    def score(
        self, y: Float[Array, "*s"], f0: Float[Array, "*s"], leverage: Float[Array, "*s"]
    ) -> Score:
        """g, its slope and the proximal point."""
        raise NotImplementedError

    def kinks(self, leverage: Float[Array, "*s"]) -> tuple[Float[Array, "*s"], ...]:
        """Where the score bends, sharply or nearly: values of q for margins, of x for residuals."""
        return ()

    def zero(self, leverage: Float[Array, "*s"]) -> Float[Array, "*s"]:
        """The q at which the proximal point changes sign (labels +-1)."""
        raise NotImplementedError

    def clip(self, leverage: Float[Array, "*s"]) -> Clip | None:
        """The score as a clipped line in x, if it is one."""
        return None

    def __str__(self) -> str:
        return self.name


class _Residual(Loss):
    """A loss whose score is a clipped line in x = y - f0."""

    def score(
        self, y: Float[Array, "*s"], f0: Float[Array, "*s"], leverage: Float[Array, "*s"]
    ) -> Score:
        xp, x = library_of(f0).xp, y - f0
        line = self.clip(leverage)
        assert line is not None
        g = line.k * xp.clip(x, line.low, line.high)
        inside = (x > line.low) & (x < line.high)
        return Score(g, xp.where(inside, line.k, 0 * line.k), f0 + leverage * g)

    def kinks(self, leverage: Float[Array, "*s"]) -> tuple[Float[Array, "*s"], ...]:
        line = self.clip(leverage)
        assert line is not None
        return (line.low, line.high)


LOSSES: Registry[Loss] = Registry("loss")


@LOSSES.add
@dataclass(frozen=True)
class Square(_Residual):
    name, meaning = "square", "(y - f)^2"

    def value(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return (y - f) ** 2

    def slope(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return 2 * (f - y)

    def curvature(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return 2 + 0 * (f - y)

    def clip(self, leverage: Float[Array, "*s"]) -> Clip | None:
        k = 1 / (1 + leverage)
        return Clip(k, -np.inf + 0 * k, np.inf + 0 * k)

    def kinks(self, leverage: Float[Array, "*s"]) -> tuple[Float[Array, "*s"], ...]:
        return ()

    def zero(self, leverage: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return -leverage


@LOSSES.add
@dataclass(frozen=True)
class Huber(_Residual):
    delta: float

    name, parameter_name = "huber", "DELTA"
    meaning = "r^2, and 2 DELTA |r| - DELTA^2 beyond DELTA"

    def __post_init__(self) -> None:
        delta = number("loss", self.delta, -math.inf)
        if not delta > 0:
            raise InvalidParameter("loss", "huber:DELTA with DELTA > 0", delta)
        object.__setattr__(self, "delta", delta)

    def value(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        xp, size = library_of(f).xp, abs(y - f)
        inner = xp.minimum(size, self.delta)
        return inner * (2 * size - inner)

    def slope(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return 2 * library_of(f).xp.clip(f - y, -self.delta, self.delta)

    def curvature(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return 2.0 * (abs(y - f) < self.delta)

    def clip(self, leverage: Float[Array, "*s"]) -> Clip | None:
        end = self.delta * (1 + leverage)
        return Clip(1 / (1 + leverage), -end, end)

    def __str__(self) -> str:
        return f"huber:{self.delta!r}"


@LOSSES.add
@dataclass(frozen=True)
class Quantile(_Residual):
    theta: float

    name, parameter_name = "quantile", "THETA"
    meaning = "max(THETA r, (THETA - 1) r): the THETA-th quantile"
    is_smooth = False

    def __post_init__(self) -> None:
        theta = number("loss", self.theta, -math.inf)
        if not 0 < theta < 1:
            raise InvalidParameter("loss", "quantile:THETA with THETA between 0 and 1", theta)
        object.__setattr__(self, "theta", theta)

    def value(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return library_of(f).xp.maximum(self.theta * (y - f), (self.theta - 1) * (y - f))

    def slope(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return library_of(f).xp.where(y > f, -self.theta, 1 - self.theta)

    def curvature(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return 0 * (y - f)

    def clip(self, leverage: Float[Array, "*s"]) -> Clip | None:
        return Clip(1 / leverage, -(1 - self.theta) / 2 * leverage, self.theta / 2 * leverage)

    def __str__(self) -> str:
        return f"quantile:{self.theta!r}"


@LOSSES.add
@dataclass(frozen=True)
class Logistic(Loss):
    name, meaning = "logistic", "log(1 + exp(-y f))"
    is_margin = True

    def value(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return softplus(-y * f)

    def slope(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return -y * sigmoid(-y * f)

    def curvature(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return sigmoid(f) * sigmoid(-f)

    def score(
        self, y: Float[Array, "*s"], f0: Float[Array, "*s"], leverage: Float[Array, "*s"]
    ) -> Score:
        """u = q + (V/2) sigmoid(-u): in JAX a last step of Newton's, which has its derivative."""
        lib, q, half = library_of(f0), y * f0, leverage / 2
        u = _logistic_point(*lib.frozen((q, half)))
        if not lib.is_numpy:
            u = u - _logistic_step(u, q, half)
        tail = sigmoid(-u)
        bend = tail * (1 - tail) / 2
        return Score(y * tail / 2, bend / (1 + leverage * bend), y * u)

    def kinks(self, leverage: Float[Array, "*s"]) -> tuple[Float[Array, "*s"], ...]:
        """Between q = -V/2 and 0 the score is a logarithm of the distance to either, on which
        points spaced by a factor see the same everywhere; beyond, it ends like exp(-|distance|).
        """
        lib, half = library_of(leverage), leverage / 2
        ends = [0 * half, -half]
        for width in _TAILS:
            ends += [width + 0 * half, -half - width]
        farthest = float(half.max()) / 2 if lib.is_numpy else math.inf
        for width in _SPACED:
            inside = lib.xp.minimum(width, half / 2)
            ends += [-inside, inside - half]
            if width > farthest:  # wider ones would be the middle again
                break
        return tuple(ends)

    def zero(self, leverage: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return -leverage / 4


@LOSSES.add
@dataclass(frozen=True)
class Hinge(Loss):
    name, meaning = "hinge", "max(0, 1 - y f)"
    is_margin, is_smooth = True, False

    def value(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return library_of(f).xp.maximum(0.0, 1 - y * f)

    def slope(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return -y * (y * f < 1)

    def curvature(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return 0 * (y * f)

    def score(
        self, y: Float[Array, "*s"], f0: Float[Array, "*s"], leverage: Float[Array, "*s"]
    ) -> Score:
        xp, short = library_of(f0).xp, 1 - y * f0
        g = y * xp.clip(short / leverage, 0.0, 0.5)
        inside = (short > 0) & (short < leverage / 2)
        return Score(g, xp.where(inside, 1 / leverage, 0.0), f0 + leverage * g)

    def kinks(self, leverage: Float[Array, "*s"]) -> tuple[Float[Array, "*s"], ...]:
        return (1 + 0 * leverage, 1 - leverage / 2)

    def zero(self, leverage: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return -leverage / 2


@LOSSES.add
@dataclass(frozen=True)
class SquaredHinge(Loss):
    name, meaning = "squared-hinge", "max(0, 1 - y f)^2"
    is_margin = True

    def value(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return library_of(f).xp.maximum(0.0, 1 - y * f) ** 2

    def slope(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return -2 * y * library_of(f).xp.maximum(0.0, 1 - y * f)

    def curvature(self, y: Float[Array, "*s"], f: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return 2.0 * (y * f < 1)

    def score(
        self, y: Float[Array, "*s"], f0: Float[Array, "*s"], leverage: Float[Array, "*s"]
    ) -> Score:
        xp, short = library_of(f0).xp, 1 - y * f0
        g = y * xp.maximum(0.0, short) / (1 + leverage)
        return Score(g, (short > 0) / (1 + leverage), f0 + leverage * g)

    def kinks(self, leverage: Float[Array, "*s"]) -> tuple[Float[Array, "*s"], ...]:
        return (1 + 0 * leverage,)

    def zero(self, leverage: Float[Array, "*s"]) -> Float[Array, "*s"]:
        return -leverage


def _logistic_point(q: Float[Array, "*s"], half: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """Halley's method for u = q + half sigmoid(-u), where u > 0; elsewhere -u is what u is at
    -q - half. It begins below u, where Newton's method is monotone too: from the middle that can
    fall into two-cycles. As sigmoid(-u) > exp(-u)/2 there, u > q + W(x) > log(half/2) - log(log x),
    x = (half/2) exp(-q).
    """
    xp = library_of(q).xp
    right = q > -half / 2
    near = xp.where(right, q, -q - half)
    scale = xp.log(xp.maximum(half / 2, 1e-300))
    u, above = xp.maximum(0.0, near), scale - near
    if xp is not np or above.max(initial=0.0) > 1:
        u = xp.maximum(u, xp.where(above > 1, scale - xp.log(xp.maximum(above, 1.0)), 0.0))
    for _ in range(_PROXIMAL_STEPS):
        tail = sigmoid(-u)
        value, bend = u - near - half * tail, half * tail * (1 - tail)
        move = value / (1 + bend + value * bend * (0.5 - tail) / (1 + bend))
        u = xp.maximum(0.0, u - move)
        if xp is np and not np.any(abs(move) > _PROXIMAL_END):
            break
    return xp.where(right, u, -u)


def _logistic_step(
    u: Float[Array, "*s"], q: Float[Array, "*s"], half: Float[Array, "*s"]
) -> Float[Array, "*s"]:
    """Newton's, whose derivative is that of u where it has arrived."""
    tail = sigmoid(-u)
    return (u - q - half * tail) / (1 + half * tail * (1 - tail))


ALLOWED = "square, logistic, hinge, squared-hinge, huber:DELTA or quantile:THETA"


def loss_of(source: object, parameter: str = "loss") -> Loss:
    """The loss meant by a text such as ``huber:0.5``, or a Loss."""
    if isinstance(source, Loss):
        return source
    if not isinstance(source, str):
        raise InvalidParameter(parameter, ALLOWED, source)
    name, colon, given = source.strip().lower().partition(":")
    if name not in LOSSES:
        raise InvalidParameter(parameter, ALLOWED, source, nearest(name, LOSSES))
    kind = LOSSES[name]
    if bool(kind.parameter_name) != bool(colon):
        form = f"{name}:{kind.parameter_name}" if kind.parameter_name else name
        raise InvalidParameter(parameter, ALLOWED, source, f"write {form}")
    if not colon:
        return kind()
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        hint = f"{kind.parameter_name} must be a finite number"
        raise InvalidParameter(parameter, ALLOWED, source, hint)
    try:
        return kind(value)  # type: ignore[call-arg]  # those with a parameter take it
    except InvalidParameter as error:
        raise InvalidParameter(parameter, error.faults[0].allowed, source) from None
