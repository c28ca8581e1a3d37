"""Steps between the small and the large one at d = infinity: which functions of kappa are free.

etat = step N^(s - 1/2) with 0 <= s < 1/2 vanishes. The bulk is then that of random features, and
only the mean features of a neuron of readout value at know of the step. With x = etat at,
g = c1 |v|, u = g x, c - 1 = b1 x + b2 x^2 (b1 = 2 c2 mh_1), sigma_k = E s^(k)(z):

    mu0 = sum_m x^m p_m(kappa)
    p_m = sum_n He_n(kappa) g^n/n! sum_l sigma_(n+2l)/(2^l l!) C(l, q - l) b1^(2l - q) b2'^(q - l)

with q = m - n, b2' = b2 + g^2. (E s(u kappa + sqrt c z) has the coefficient u^n E s^(n)/n! on He_n,
s^(n) taken at variance c + u^2 = 1 + b1 x + b2' x^2.) In neuron space the mean features are

    sum_m etat^m p_m(kappa) (x) at^m.

A direction of size etat^m in them is fitted freely if N etat^(2m) -> infinity, that is
m < 1/(1 - 2s), and it is there if p_m is no combination of the functions and at^m, under the law of
the readout, none of the powers of the directions before it (Gauss's elimination by orders of etat).
At m = 1/(1 - 2s) it is a penalised function, as N etat^(2m) = step^(2m):

    psi = step^m/sqrt beta |at^m less the powers before| p_m.

The small step is m = 1, s = 0. The common mode, sqrt(2/d) c mu0' xi on the direction 1 of neuron
space, is as large as a penalised function and smaller than any free one: it is lost where 1 is a
combination of the free powers, and counts where it has a part along that of the penalised one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np

from firststep.activations import Activation
from firststep.errors import InvalidParameter
from firststep.numerics.library import library_of
from firststep.numerics.quadrature import NotIntegrable, gaussian_expectation
from firststep.readouts import ReadoutLaw
from firststep.theory.step import StepConstants
from firststep.theory.student import polynomial_parts, slope_constants

if TYPE_CHECKING:
    from firststep.typing import Array, Float

# Orders that are told apart. The functions of m = 12, scaled to one size, are independent to some
# 1e-4 on their nodes; those of m = 18 to 1e-8, where risks are no longer resolved.
MOST = 12
_SAME = 1e-9  # distance from 1/(1 - 2s) whole: of an exponent such as 1/3 in floating point
_DEPENDENT = 1e-10  # part of a function, or of a power, that is new: below, it is rounding
_NOTHING = 1e-11  # of the root mean square of s: a Hermite coefficient that may be rounding
# Steps that stand for all others when functions are compared: g, b1, b2 + g^2.
_GENERIC = (1.0, 0.21, 0.37)
_NEXT = 4  # orders beyond the free ones that are looked at for the next one


class Penalised(NamedTuple):
    """A function at the exponent 1/2 - 1/(2m), on its direction in neuron space."""

    order: int  # m
    size: float  # root mean square over neurons of at^m less the powers before
    shared: float  # of the direction 1 less the powers before: its part along that
    apart: float  # and the rest of it


class Orders(NamedTuple):
    """What the mean features fit at an exponent; ``free`` are the m of the p_m."""

    free: tuple[int, ...]
    penalised: Penalised | None
    upcoming: int | None  # the order that becomes free next
    derivatives: tuple[float, ...]  # sigma_k
    is_shifted: bool  # b1 is not zero
    is_lopsided: bool  # odd powers of etat count: neither the student nor the law are symmetric
    exponent: float  # s

    @property
    def highest(self) -> int:
        """The largest degree in kappa."""
        own = () if self.penalised is None else (self.penalised.order,)
        return max((*self.free, *own, 0))

    @property
    def approach(self) -> float:
        """a of d^-a, how fast networks come near the limit: a free direction has N etat^(2m) of
        noise over signal, the upcoming one its inverse, the own output in the spike N etat^2; bulk
        and functions differ by etat, or etat^2 where at and -at weigh the same.
        """
        by_order = [abs(1 - m * (1 - 2 * self.exponent)) for m in self.free if m > 0]
        if self.upcoming is not None:
            by_order.append(abs(1 - self.upcoming * (1 - 2 * self.exponent)))
        own = 2 * self.exponent or 1.0
        return min(*by_order, own, (0.5 if self.is_lopsided else 1.0) * (1 - 2 * self.exponent))

    def functions(
        self, kappa: Float[Array, " K"], step: StepConstants
    ) -> Float[Array, "batch K functions"]:
        """The free p_m on the nodes, each of mean square 1; one that vanishes if there is none."""
        xp = library_of(step.spike).xp
        columns = [self._coefficients(m, step) for m in self.free]
        if not columns:
            return xp.zeros((*step.spike.shape, kappa.size, 1))
        rows = xp.stack(columns, -2)
        size = xp.sqrt(xp.sum(rows**2, -1, keepdims=True))
        rows = rows / xp.where(size > 0, size, 1.0)
        return (rows @ hermite_functions(kappa, self.highest).T).swapaxes(-1, -2)

    def strength(self, kappa: Float[Array, " K"], step: StepConstants) -> Float[Array, "batch K"]:
        """|at^m less the powers before| p_m of the penalised function."""
        assert self.penalised is not None
        row = self._coefficients(self.penalised.order, step)
        return self.penalised.size * (row @ hermite_functions(kappa, self.highest).T)

    def _coefficients(self, m: int, step: StepConstants) -> Float[Array, "batch degrees"]:
        """p_m by normalised Hermite degree, with ``step`` at etat = 1."""
        first = step.by_readout if self.is_shifted else None
        return coefficients(
            m, self.derivatives, step.spike, first, step.by_square + step.spike**2, self.highest
        )


def coefficients(
    m: int,
    derivatives: Sequence[float],
    spike: Float[Array, " batch"],
    first: Float[Array, " batch"] | None,
    second: Float[Array, " batch"],
    highest: int,
) -> Float[Array, "batch degrees"]:
    """p_m on He_n/sqrt(n!), n = 0 to ``highest``; ``first`` None for b1 = 0."""
    xp = library_of(spike).xp
    found = []
    for n in range(highest + 1):
        q, total = m - n, 0 * spike
        for k in range((q + 1) // 2, q + 1):
            odd = 2 * k - q
            sigma = derivatives[n + 2 * k] if first is not None or odd == 0 else 0.0
            if sigma == 0:
                continue
            weight = sigma * math.comb(k, q - k) / (2**k * math.factorial(k))
            part = weight * second ** (q - k)
            total = total + (part if first is None else part * first**odd)
        found.append(total * spike**n / math.sqrt(math.factorial(n)))
    return xp.stack(found, -1)


def hermite_functions(kappa: Float[Array, " K"], highest: int) -> Float[Array, "K degrees"]:
    """He_n/sqrt(n!), n = 0 to ``highest``."""
    nodes = np.asarray(kappa)
    found = [np.ones_like(nodes), nodes]
    for n in range(1, highest):
        found.append((nodes * found[-1] - math.sqrt(n) * found[-2]) / math.sqrt(n + 1))
    return np.stack(found[: highest + 1], axis=-1)


# Which ones ---------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def orders_of(
    student: Activation,
    readout: ReadoutLaw,
    exponent: float,
    *,
    is_shifted: bool,
    has_constant: bool,
) -> Orders:
    """The orders at an exponent 0 <= s < 1/2; ``is_shifted``: the labels of the step have a mean
    and the student an E[z s']. With ``has_constant`` a function 1 is fitted freely anyway, on no
    direction of neuron space.
    """
    limit = 1 / (1 - 2 * exponent)
    order = round(limit)
    is_threshold = abs(limit - order) < _SAME * limit
    last = order if is_threshold else math.ceil(limit) - 1
    if last > MOST:
        _refuse(MOST + 1, exponent, f"nearer to 0.5 degrees beyond {MOST} are free; ")
    constants = slope_constants(student)
    is_shifted = is_shifted and constants.c2 != 0
    top = last + (_NEXT if exponent > 0 else 0)
    needed = order - 1 if is_threshold else last
    derivatives = _derivatives(student, needed, 2 * top if is_shifted else top)
    g, first = np.array(0.0 if constants.c1 == 0 else _GENERIC[0]), np.array(_GENERIC[1])
    functions = [
        coefficients(m, derivatives, g, first if is_shifted else None, np.array(_GENERIC[2]), top)
        for m in range(top + 1)
    ]
    threshold = order if is_threshold else None
    found = _eliminate(functions, _powers(readout, top), has_constant, threshold)
    if found.unsettled <= last:
        why = "beyond, with this readout and student, which functions are free is not settled; "
        _refuse(int(found.unsettled), exponent, why)
    return Orders(
        free=tuple(m for m in found.orders if m <= needed),
        penalised=found.penalised,
        upcoming=next((m for m in found.orders if m > last), None),
        derivatives=tuple(derivatives),
        is_shifted=is_shifted,
        is_lopsided=not constants.is_odd and (readout.mean != 0 or readout.third_moment != 0),
        exponent=exponent,
    )


def _refuse(order: int, exponent: float, why: str) -> NoReturn:
    """An exponent at which this order may be free."""
    allowed = f"0.5, or below {0.5 - 0.5 / order:.4g}, at d = infinity"
    raise InvalidParameter("step-exponent", allowed, exponent, f"{why}give a finite dimension")


def _derivatives(student: Activation, needed: int, highest: int) -> list[float]:
    """sigma_k = E[s He_k], k = 0 to ``highest``, zero where it is.

    A coefficient that is tiny without s being a polynomial may be zero or not: up to ``needed`` it
    decides what is free, and is refused.
    """

    def integrands(z: Float[Array, " z"]) -> Float[Array, "functions z"]:
        return np.asarray(hermite_functions(z, highest).T * student.evaluate(z))

    size = math.sqrt(student.moments.second_moment)
    parts, constants = polynomial_parts(student), slope_constants(student)
    try:
        found = gaussian_expectation(integrands, student.kinks, floor=size).value
    except NotIntegrable as error:
        allowed = f"a function that has Hermite coefficients up to degree {highest}"
        raise InvalidParameter("student", allowed, str(student), str(error)) from None
    sigma = []
    for k, each in enumerate(found):
        part, root = parts[k % 2], math.sqrt(math.factorial(k))
        if part is not None:
            sigma.append(part[k] * math.factorial(k) if k < len(part) else 0.0)
        else:
            is_known = k == 0 or abs(each) > _NOTHING * size or constants.c1 == 0
            if k <= needed and not is_known:
                allowed = f"a function whose Hermite coefficient of degree {k} is not tiny"
                hint = "at d = infinity and this step exponent it matters whether it is zero"
                raise InvalidParameter("student", allowed, str(student), hint)
            sigma.append(float(each) * root)
    return [constants.c0, *sigma[1:]]


def _powers(readout: ReadoutLaw, highest: int) -> list[Float[Array, " P"]]:
    """at^m as vectors whose products are means over the law: on the values, or, of a Gaussian law,
    on normalised Hermite polynomials.
    """
    if not readout.is_gaussian:
        values, root = np.array(readout.values), np.sqrt(readout.weights)
        return [values**m * root for m in range(highest + 1)]
    found = np.zeros((highest + 1, highest + 2))
    found[0, 0] = 1.0
    for m in range(highest):  # z He_k = He_(k+1) + k He_(k-1)
        for k in range(m + 1):
            found[m + 1, k + 1] += math.sqrt(k + 1) * found[m, k]
            if k > 0:
                found[m + 1, k - 1] += math.sqrt(k) * found[m, k]
    return list(found)


class _Span:
    """A space that vectors are added to."""

    def __init__(self, size: int) -> None:
        self.basis: Float[Array, "k n"] = np.zeros((0, size))

    def rest(self, vector: Float[Array, " n"]) -> Float[Array, " n"]:
        """What of a vector is not in it; twice, as rounding is left by the first time."""
        for _ in range(2):
            vector = vector - self.basis.T @ (self.basis @ vector)
        return vector

    def has(self, vector: Float[Array, " n"]) -> bool:
        size = float(np.linalg.norm(vector))
        return float(np.linalg.norm(self.rest(vector))) <= _DEPENDENT * size

    def add(self, vector: Float[Array, " n"]) -> None:
        rest = self.rest(vector / np.linalg.norm(vector))
        self.basis = np.vstack([self.basis, rest / np.linalg.norm(rest)])


class _Elimination(NamedTuple):
    orders: tuple[int, ...]  # of every direction, free or not
    penalised: Penalised | None  # where there is one at the order asked for
    unsettled: float  # the first order at which products of what was left out may count


def _eliminate(
    functions: Sequence[Float[Array, " degrees"]],
    powers: Sequence[Float[Array, " P"]],
    has_constant: bool,
    threshold: int | None,
) -> _Elimination:
    """Directions of sum_m etat^m p_m (x) at^m by their order.

    p_m (x) at^m is one if both are new. If p_m alone is, or at^m alone, it is absorbed by the
    directions before; but both kinds together, of orders m and m', leave their product at order
    m + m' - i, i that of the direction between them. From there on nothing is said.
    """
    known, used = _Span(functions[0].size), _Span(powers[0].size)
    if has_constant:
        known.add(np.eye(functions[0].size)[0])
    orders: list[int] = []
    lone: list[tuple[bool, int]] = []  # where p_m (true) or at^m alone is new
    penalised = None
    for m, (p, a) in enumerate(zip(functions, powers, strict=True)):
        lone = [
            (by, k)
            for by, k in lone
            if not (known.has(functions[k]) if by else used.has(powers[k]))
        ]
        if _product(lone, orders) <= m:
            return _Elimination(tuple(orders), penalised, m)
        if not np.any(p):
            continue
        is_new, is_own = not known.has(p), not used.has(a)
        if is_new and is_own:
            if m == threshold:
                penalised = _penalised(m, used, powers)
            known.add(p)
            used.add(a)
            orders.append(m)
        elif is_new or is_own:
            lone.append((is_new, m))
    return _Elimination(tuple(orders), penalised, math.inf)


def _product(lone: Sequence[tuple[bool, int]], orders: Sequence[int]) -> float:
    """The least m + m' - i."""
    found = math.inf
    for m in (k for by, k in lone if by):
        for other in (k for by, k in lone if not by):
            between = [i for i in orders if i < min(m, other)]
            if between:
                found = min(found, m + other - max(between))
    return found


def _penalised(m: int, used: _Span, powers: Sequence[Float[Array, " P"]]) -> Penalised:
    own, one = used.rest(powers[m]), used.rest(powers[0])
    size = float(np.linalg.norm(own))
    shared = float(one @ own) / size
    shared = shared if abs(shared) > _DEPENDENT else 0.0
    return Penalised(m, size, shared, math.sqrt(max(float(one @ one) - shared**2, 0.0)))
