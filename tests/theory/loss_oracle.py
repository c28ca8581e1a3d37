"""Random features with any loss by the replica-symmetric equations of the Gaussian covariate model:
an oracle, not a tool. Nothing of ``firststep.theory`` is used.

References: Gerace et al., arXiv:2002.09339; Goldt et al., arXiv:2006.14709; Loureiro et al.,
arXiv:2102.08127 (Theorem 1, whose letters these are).

Of k = d inputs x, p = N features are phi = c0 + c1 W^T x + c* xi, the columns of W of norm 1. With
f = phi.w/sqrt p + b the readout minimises

    sum_mu l(y, f) + (r/2)|w|^2,   r = 2 ridge n/p,

which is n times (1/n) sum l + ridge |a|^2, a = w/sqrt p. The teacher's coordinate is u, and (u, f)
is Gaussian of overlaps E u^2 = 1, E (f - b) u = m, E (f - b)^2 = q. With Omega = c1^2 W^T W + c*^2,
Phi Phi^T = c1^2 W^T W, R = (r + Vh Omega)^-1, alpha = n/p, gamma = k/p:

    V = (1/p) tr Omega R,   q = (1/p) tr (qh Omega + mh^2 Phi Phi^T) Omega R^2
    m = (mh/sqrt gamma) (1/p) tr Phi Phi^T R
    Vh = -alpha E sum_y Z dg/dw,   qh = alpha E sum_y Z g^2,   mh = (alpha/sqrt gamma) E sum_y Z' g

over w = sqrt q xi + b; Z(y, w0, V0) = E P(y | u), u ~ N(w0, V0), w0 = m xi/sqrt q, V0 = 1 - m^2/q,
Z' its derivative in w0; and g(y, w, V) = (prox - w)/V, prox = argmin l(y, z) + (z - w)^2/(2 V). The
spectrum of W^T W is that of Marchenko and Pastur.

Where c0 is not zero, the mean features are a constant that is penalised no more as d grows. Where
it is, they are mu_i = (E s He2)(|w_i|^2 - 1)/2, of variance (E s He2)^2/(2 d), or none on the
sphere: b = K E g with K = h (1/p) tr R, h = (n/k)(E s He2)^2/2, and qh Omega gains alpha h (E g)^2,
as w has a part R mu.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtr

from firststep.problem import Problem

REACH = 9.0
ANGLES = 600  # of the spectrum
TOLERANCE = 1e-10
MOST = 20_000


class Failed(ArithmeticError):
    """The iteration did not converge."""


def panels(edges: np.ndarray, count: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Points and Gaussian masses of Gauss-Legendre panels between sorted edges, row by row."""
    unit, weight = np.polynomial.legendre.leggauss(count)
    half = np.diff(edges)[..., None] / 2
    z = (edges[..., 1:] + edges[..., :-1])[..., None] / 2 + half * unit
    mass = half * weight * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return z.reshape(*edges.shape[:-1], -1), mass.reshape(*edges.shape[:-1], -1)


def split(cuts: np.ndarray | tuple[float, ...] = (), width: float = 0.1) -> np.ndarray:
    """Edges of panels, with further cuts."""
    regular = np.linspace(-REACH, REACH, round(2 * REACH / width) + 1)
    inside = np.asarray(cuts, dtype=float)
    return np.unique(np.concatenate([regular, inside[np.abs(inside) < REACH]]))


# Losses: value, proximal point, slope of the proximal point, where it bends -----------------------


class Proximal(NamedTuple):
    """prox(y, w, V) and d prox/dw."""

    point: np.ndarray
    slope: np.ndarray


@dataclass(frozen=True)
class Loss:
    value: Callable[[np.ndarray, np.ndarray], np.ndarray]
    proximal: Callable[[np.ndarray, np.ndarray, float], Proximal]
    kinks: Callable[[float], tuple[float, ...]]  # of y w (margins), or of y - w (residuals)
    zero: float = 0.0  # the proximal point is 0 at y w = -V zero (margins)


def _logistic(y: np.ndarray, w: np.ndarray, V: float) -> Proximal:
    """z = y w + V/(1 + e^z) by bisection, and a few steps of Newton's method."""
    q = y * w
    low, high = q, q + V
    for _ in range(50):
        middle = (low + high) / 2
        right = middle - q - V * expit(-middle) < 0
        low, high = np.where(right, middle, low), np.where(right, high, middle)
    z = (low + high) / 2
    for _ in range(3):
        z = z - (z - q - V * expit(-z)) / (1 + V * expit(z) * expit(-z))
    return Proximal(y * z, 1 / (1 + V * expit(z) * expit(-z)))


def _hinge(y: np.ndarray, w: np.ndarray, V: float) -> Proximal:
    q = y * w
    z = np.where(q >= 1, q, np.minimum(1.0, q + V))
    return Proximal(y * z, 1.0 * ((q >= 1) | (q + V <= 1)))


def _squared_hinge(y: np.ndarray, w: np.ndarray, V: float) -> Proximal:
    q = y * w
    inside = q < 1
    return Proximal(y * np.where(inside, (q + 2 * V) / (1 + 2 * V), q), 1 / (1 + 2 * V * inside))


def _square(y: np.ndarray, w: np.ndarray, V: float) -> Proximal:
    return Proximal((w + 2 * V * y) / (1 + 2 * V), 1 / (1 + 2 * V) + 0 * w)


def _huber(delta: float) -> Loss:
    def value(y: np.ndarray, z: np.ndarray) -> np.ndarray:
        r = np.abs(y - z)
        return np.where(r < delta, r * r, 2 * delta * r - delta * delta)

    def proximal(y: np.ndarray, w: np.ndarray, V: float) -> Proximal:
        r = y - w
        inside = np.abs(r) < delta * (1 + 2 * V)
        z = np.where(inside, (w + 2 * V * y) / (1 + 2 * V), w + 2 * V * delta * np.sign(r))
        return Proximal(z, np.where(inside, 1 / (1 + 2 * V), 1.0))

    return Loss(value, proximal, lambda V: (-delta * (1 + 2 * V), delta * (1 + 2 * V)))


LOSSES = {
    "logistic": Loss(lambda y, z: np.logaddexp(0, -y * z), _logistic, lambda V: (0.0, -V), 0.5),
    "hinge": Loss(lambda y, z: np.maximum(0, 1 - y * z), _hinge, lambda V: (1.0, 1.0 - V), 1.0),
    "squared-hinge": Loss(
        lambda y, z: np.maximum(0, 1 - y * z) ** 2, _squared_hinge, lambda V: (1.0,), 2.0
    ),
    "square": Loss(lambda y, z: (y - z) ** 2, _square, lambda V: (), 2.0),
}


def loss_named(text: str) -> Loss:
    name, _, number = text.partition(":")
    return _huber(float(number)) if name == "huber" else LOSSES[name]


# The channel: averages over labels and predictions ------------------------------------------------


@dataclass(frozen=True)
class Overlaps:
    V: float
    q: float
    m: float
    b: float


class Averages(NamedTuple):
    """E sum_y of Z (-dg/dw), Z g^2, Z' g and Z g."""

    bend: float
    square: float
    along: float
    mean: float


def binary(loss: Loss, problem: Problem, at: Overlaps) -> tuple[np.ndarray, ...]:
    """Of both labels, stacked: y, w, mass Z and mass Z'."""
    root, width = math.sqrt(at.q), math.sqrt(1 - at.m**2 / at.q)
    places = np.array([0.0, -loss.zero * at.V, *loss.kinks(at.V)])
    around = (places + np.array([[-4.0], [-1], [0], [1], [4]])).ravel()
    cuts = np.concatenate([(sign * around - at.b) / root for sign in (1, -1)])
    xi, mass = panels(split(cuts))
    w0 = at.m / root * xi
    p, slope = problem.flip, 1.0
    if problem.labels.kind == "logit":
        slope = float(str(problem.labels).partition(":")[2])
        t, weight = panels(split(width=0.3))
        above = expit(slope * (w0[:, None] + width * t - problem.threshold))
        plain, change = above @ weight, (above * t) @ weight / width
    else:
        spread = math.hypot(width, problem.noise)
        x = (w0 - problem.threshold) / spread
        plain, change = ndtr(x), np.exp(-x * x / 2) / math.sqrt(2 * math.pi) / spread
    Z, Zp = p + (1 - 2 * p) * plain, (1 - 2 * p) * change
    y = np.array([[1.0], [-1.0]]) + 0 * xi
    w = np.broadcast_to(root * xi + at.b, y.shape)
    return y, w, mass * np.stack([Z, 1 - Z]), mass * np.stack([Zp, -Zp])


def _averages(loss: Loss, problem: Problem, at: Overlaps) -> Averages:
    if not problem.labels.is_binary:
        return _real_averages(loss, problem, at)
    y, w, Z, Zp = binary(loss, problem, at)
    point, slope = loss.proximal(y, w, at.V)
    g = (point - w) / at.V
    bend = (1 - slope) / at.V
    return Averages(*(float(np.sum(each)) for each in (Z * bend, Z * g * g, Zp * g, Z * g)))


def real(
    loss: Loss, problem: Problem, at: Overlaps, V: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """u, the residuals x = y - w given u, and masses: x is Gaussian of mean t(u) - m u - b and
    variance q - m^2 + noise^2.
    """
    u, mass = panels(split(problem.teacher.kinks, width=1.0), 8)
    centre = np.asarray(problem.teacher.evaluate(u)) - at.m * u - at.b
    spread = math.sqrt(at.q - at.m**2 + problem.noise**2)
    cuts = np.clip((np.array(loss.kinks(V)) - centre[:, None]) / spread, -REACH, REACH)
    regular = np.broadcast_to(split(width=1.0), (len(u), 19))
    z, weights = panels(np.sort(np.concatenate([regular, cuts], axis=1)))
    return u[:, None], centre[:, None] + spread * z, mass[:, None] * weights


def _real_averages(loss: Loss, problem: Problem, at: Overlaps) -> Averages:
    """Z' g = E g (u - w0)/V0, w0 = (m/q)(w - b); given u, E (w - m u - b) g = -(q - m^2) E dg/dx,
    as w and x have the covariance -(q - m^2).
    """
    u, x, mass = real(loss, problem, at, at.V)
    zero = np.zeros_like(x)
    point, slope = loss.proximal(x, zero, at.V)  # only y - w counts
    g, bend = point / at.V, (1 - slope) / at.V
    total = [float(np.sum(mass * each)) for each in (bend, g * g, u * g, g)]
    shared = at.m * total[2] - (at.q - at.m**2) * total[0]  # E (w - b) g
    along = (total[2] - at.m / at.q * shared) / (1 - at.m**2 / at.q)
    return Averages(total[0], total[1], along, total[3])


# The spectrum and the fixed point -----------------------------------------------------------------


@dataclass(frozen=True)
class Spectrum:
    """Traces over p features: eigenvalues of Omega, of Phi Phi^T, and their shares."""

    omega: np.ndarray
    shared: np.ndarray
    share: np.ndarray

    @classmethod
    def of(cls, linear: float, rest: float, beta: float) -> Spectrum:
        """W^T W has the eigenvalues beta y, y = 1 + c + 2 sqrt c cos t, c = 1/beta, with the share
        (c 2/pi) sin(t)^2/y dt of all p, and zero else.
        """
        c = 1 / beta
        t = np.arange(1, ANGLES) * math.pi / ANGLES
        y = 1 + c + 2 * math.sqrt(c) * np.cos(t)
        share = c * 2 / ANGLES * np.sin(t) ** 2 / y
        shared = np.append(linear**2 * beta * y, 0.0)
        return cls(shared + rest, shared, np.append(share, 1 - share.sum()))

    def trace(self, values: np.ndarray) -> float:
        return float(self.share @ values)


class Answer(NamedTuple):
    """What ``predict`` says of the same problem, in its words; and |a|^2."""

    training_loss: float
    test_loss: float
    error_rate: float
    training_error_rate: float
    risk: float
    output_alignment: float
    degrees_of_freedom: float
    penalty: float


def moments(problem: Problem) -> tuple[float, float, float, float]:
    """E s, E z s, what is left of E s^2, and E He2 s."""
    z, mass = panels(split(problem.student.kinks, width=0.5))
    s = np.asarray(problem.student.evaluate(z))
    c0, c1, he2, square = (float(mass @ each) for each in (s, z * s, (z * z - 1) * s, s * s))
    return c0, c1, square - c0**2 - c1**2, he2


def random_features(problem: Problem, damping: float = 0.7) -> Answer:
    """The replica-symmetric answer, d infinite, no step."""
    assert not problem.takes_step
    loss, (c0, c1, rest, he2) = loss_named(str(problem.loss)), moments(problem)
    spectrum = Spectrum.of(c1, rest, problem.beta)
    alpha, gamma = problem.alpha / problem.beta, 1 / problem.beta
    r = 2 * problem.ridges[0] * alpha
    is_free = problem.intercept or abs(c0) > 1e-12
    stiff = 0.0 if problem.init == "sphere" else problem.alpha * he2**2 / 2
    stiff = 0.0 if is_free else stiff
    at = Overlaps(spectrum.trace(spectrum.omega) / r, 0.5, 0.1, 0.0)
    for _ in range(MOST):
        found = _averages(loss, problem, at)
        Vh, qh = alpha * found.bend, alpha * found.square
        mh = alpha / math.sqrt(gamma) * found.along
        R = 1 / (r + Vh * spectrum.omega)
        power = qh * spectrum.omega + mh**2 * spectrum.shared + alpha * stiff * found.mean**2
        power = power * R**2
        if is_free and found.bend == 0:
            raise Failed("all margins are violated: the constant is not unique")
        if is_free:
            b = at.b + found.mean / found.bend
        else:  # b = K E g(b), one step of Newton's method
            K = stiff * spectrum.trace(R)
            b = at.b - (at.b - K * found.mean) / (1 + K * found.bend)
        new = Overlaps(
            V=spectrum.trace(spectrum.omega * R),
            q=spectrum.trace(power * spectrum.omega),
            m=mh / math.sqrt(gamma) * spectrum.trace(spectrum.shared * R),
            b=b,
        )
        size = math.sqrt(new.q)
        gap = max(
            abs(new.V / at.V - 1),
            abs(new.q / at.q - 1),
            abs(new.m - at.m) / size,
            abs(new.b - at.b) / size,
        )
        if gap < TOLERANCE:
            return _answer(loss, problem, new, (Vh * new.V / alpha, spectrum.trace(power)))
        at = _between(at, new, damping)
    raise Failed(f"{problem}: still {gap:.1e}")


def _between(at: Overlaps, new: Overlaps, damping: float) -> Overlaps:
    """V and q, which travel far, by their logarithms."""
    t = damping
    return Overlaps(
        V=at.V ** (1 - t) * new.V**t,
        q=at.q ** (1 - t) * new.q**t,
        m=(1 - t) * at.m + t * new.m,
        b=(1 - t) * at.b + t * new.b,
    )


def _answer(loss: Loss, problem: Problem, at: Overlaps, told: tuple[float, float]) -> Answer:
    alignment = at.m / math.sqrt(at.q + at.b**2)
    if problem.labels.is_binary:
        y, w, Z, _ = binary(loss, problem, at)
        point = loss.proximal(y, w, at.V).point
        losses = [float(np.sum(Z * loss.value(y, each))) for each in (point, w)]
        rates = [float(np.sum(Z * (y * each < 0))) for each in (w, point)]
        return Answer(*losses, *rates, math.nan, alignment, *told)
    found = []
    for V in (at.V, 0.0):
        _, x, mass = real(loss, problem, at, V)
        zero = np.zeros_like(x)
        point = loss.proximal(x, zero, V).point if V else zero
        found.append(float(np.sum(mass * loss.value(x, point))))
    u, mass = panels(split(problem.teacher.kinks, width=1.0), 8)
    gap = np.asarray(problem.teacher.evaluate(u)) - at.m * u - at.b
    risk = float(mass @ gap**2) + at.q - at.m**2
    return Answer(*found, math.nan, math.nan, risk, alignment, *told)
