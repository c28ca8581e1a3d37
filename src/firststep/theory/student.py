"""What the theory needs to know of a student: Gaussian moments of its derivative."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.activations import Activation
from firststep.errors import InvalidParameter
from firststep.numerics.quadrature import NotIntegrable, gaussian_expectation

if TYPE_CHECKING:
    from firststep.typing import Array, Float

# Of the root mean square: a smaller mean is what a constant subtracted by hand has left.
NO_MEAN = 1e-8


@dataclass(frozen=True)
class SlopeConstants:
    """Moments of s'(z) = c1 + c2 z + q(z), z ~ N(0, 1), with He2 = z^2 - 1.

    With Q = |w|^2 the squared norm of a neuron, c1(Q) = E s'(sqrt Q z),
    c2(Q) = E[z s'(sqrt Q z)]/sqrt Q and tau(Q) = E s'^2 - c1^2 - Q c2^2 have at Q = 1 the
    derivatives c3/2, b2 and r2.
    """

    c0: float  # E s
    c1: float  # E s'
    c2: float  # E[z s']
    is_odd: bool  # s(-z) = -s(z)
    tau: float = 0.0  # tau' = E q^2
    c3: float = 0.0  # E[q He2]
    b2: float = 0.0  # E[z q He2]/2
    r1: float = 0.0  # E[z q^2]
    r2: float = 0.0  # E[q^2 He2]/2
    s3: float = 0.0  # E q^3
    # Covariances C11, C12, C22 of z q and q^2 without their He0, He1 and He2 components.
    covariances: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def has_linear_fluctuation(self) -> bool:
        """Whether a neuron's norm has a part linear in its weights: not if s(z) - c1 z is even."""
        return any(v != 0 for v in (self.c3, self.r1, self.s3))

    @property
    def cubic_fluctuation(self) -> float:
        """Of a neuron's norm along w.X[yhat^3], by a^3/alpha0^2: c2^2 c3 + 2 c2 r1 + s3."""
        return self.c2**2 * self.c3 + 2 * self.c2 * self.r1 + self.s3


class Parts(NamedTuple):
    """Hermite coefficients by degree of the even and the odd part of s, where it is a polynomial.

    None where it is not; empty where it vanishes.
    """

    even: tuple[float, ...] | None
    odd: tuple[float, ...] | None


@lru_cache(maxsize=256)
def polynomial_parts(student: Activation) -> Parts:
    """The parts of a student, polynomials up to degree 12."""
    z = np.linspace(-5.0, 5.0, 401)
    value, mirrored = student.evaluate(z), student.evaluate(-z)
    size = float(np.abs(value).max())

    def coefficients(part: Float[Array, " z"], parity: int) -> tuple[float, ...] | None:
        if np.abs(part).max() <= 1e-12 * size:
            return ()
        for top in range(parity, 13, 2):
            powers = range(parity, top + 1, 2)
            columns = np.stack([(z / 5.0) ** power for power in powers], axis=1)
            found = np.linalg.lstsq(columns, part, rcond=None)[0]
            if np.abs(part - columns @ found).max() <= 1e-10 * size:
                series = np.zeros(top + 1)
                series[parity::2] = found / 5.0 ** np.array(powers)
                hermite = np.polynomial.hermite_e.poly2herme(series)
                hermite[np.abs(hermite) < 1e-12 * np.abs(hermite).max()] = 0.0
                return tuple(map(float, hermite))
        return None

    return Parts(coefficients((value + mirrored) / 2, 0), coefficients((value - mirrored) / 2, 1))


@lru_cache(maxsize=256)
def slope_constants(student: Activation) -> SlopeConstants:
    """The constants of a student by adaptive quadrature; below 1e-13 of their scale zero."""
    basic = student.slope_moments
    size = (basic.mean**2 + basic.variance) ** 0.5
    c0, c1, c2 = (
        _mean(student),
        *(value if abs(value) > 1e-13 * size else 0.0 for value in (basic.mean, basic.linear)),
    )
    is_odd = _is_odd(student)
    flat = np.linspace(-6.0, 6.0, 193)
    beyond = student.evaluate_derivative(flat) - c1 - c2 * flat
    if np.all(np.abs(beyond) <= 1e-12 * (abs(c1) + abs(c2) + 1e-300)):
        return SlopeConstants(c0=c0, c1=c1, c2=c2, is_odd=is_odd)  # of degree two: q = 0
    tau, c3, b2, r1, r2, s3, zq_zq, zq_qq, qq_qq = _residual_powers(student, c1, c2)
    size = abs(c1) + abs(c2) + tau**0.5

    def clean(value: float, power: int) -> float:
        return value if abs(value) > 1e-13 * size**power else 0.0

    c1, c2, tau, c3, b2 = clean(c1, 1), clean(c2, 1), clean(tau, 2), clean(c3, 1), clean(b2, 1)
    r1, r2, s3 = clean(r1, 2), clean(r2, 2), clean(s3, 3)
    covariances = (
        clean(zq_zq - c3**2 - 2 * b2**2, 2),
        clean(zq_qq - c3 * r1 - 2 * b2 * r2, 3),
        clean(qq_qq - tau**2 - r1**2 - 2 * r2**2, 4),
    )
    slope = dict(c1=c1, c2=c2, tau=tau, c3=c3, b2=b2, r1=r1, r2=r2, s3=s3)
    return SlopeConstants(c0=c0, is_odd=is_odd, covariances=covariances, **slope)


def _mean(student: Activation) -> float:
    mean = student.moments.mean
    return 0.0 if abs(mean) < NO_MEAN * student.moments.second_moment**0.5 else mean


def _is_odd(student: Activation) -> bool:
    z = np.linspace(0.01, 6.0, 97)
    values, mirrored = student.evaluate(z), student.evaluate(-z)
    return bool(np.all(np.abs(values + mirrored) <= 1e-13 * (1 + np.abs(values))))


def _residual_powers(student: Activation, c1: float, c2: float) -> tuple[float, ...]:
    """E of q^2, q He2, z q He2/2, z q^2, q^2 He2/2, q^3, (z q)^2, z q^3 and q^4."""

    def powers(z: Float[Array, " z"]) -> Float[Array, "9 z"]:
        q = student.evaluate_derivative(z) - c1 - c2 * z
        he2 = z * z - 1
        first = [q**2, q * he2, z * q * he2 / 2, z * q**2, q**2 * he2 / 2]
        return np.stack([*first, q**3, (z * q) ** 2, z * q**3, q**4])

    try:
        return tuple(float(v) for v in gaussian_expectation(powers, student.kinks).value)
    except NotIntegrable as error:
        allowed = "an activation whose derivative has a fourth moment under N(0, 1)"
        raise InvalidParameter("student", allowed, str(student), str(error)) from None
