"""What the theory needs to know of a student: Gaussian moments of its derivative."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firststep.activations import Activation
from firststep.errors import InvalidParameter
from firststep.numerics.quadrature import NotIntegrable, gaussian_expectation

Array = NDArray[np.float64]

NO_MEAN = 1e-8  # of the root mean square: a smaller mean of the student is what a constant subtracted by hand has left


@dataclass(frozen=True)
class SlopeConstants:
    """Moments of s'(z) = c1 + c2 z + q(z), z ~ N(0, 1), He_j the probabilists' Hermite polynomials.

    With Q = |w|^2 the squared norm of a neuron, c1(Q) = E s'(sqrt Q z), c2(Q) = E[z s'(sqrt Q z)]/sqrt Q and
    tau(Q) = E s'^2 - c1^2 - Q c2^2 have at Q = 1 the derivatives c3/2, b2 and r2.
    """

    mean: float  # c0 = E s
    slope: float  # c1 = E s'
    linear: float  # c2 = E[z s']
    rest: float  # tau' = E q^2
    third: float  # c3 = E[q He2]
    b2: float  # E[z q He2]/2
    r1: float  # E[z q^2]
    r2: float  # E[q^2 He2]/2
    cube: float  # s3 = E q^3
    # Covariances of z q and q^2 after their He0, He1 and He2 components are taken out.
    spread: tuple[float, float, float]  # (zq, zq), (zq, q^2), (q^2, q^2)
    is_odd: bool  # s(-z) = -s(z)

    @property
    def has_linear_fluctuation(self) -> bool:
        """Whether a neuron's norm has a part linear in its weights: not so if s(z) - c1 z is even."""
        return any(v != 0 for v in (self.third, self.r1, self.cube))

    def growth(self, first: Any, second: Any, alpha0: Any) -> Any:
        """The coefficient of (etat at)^2 in c: c2^2 (mh1^2 + mh2/alpha0) + tau' mh2/alpha0."""
        return self.linear**2 * (first**2 + second / alpha0) + self.rest * second / alpha0


def residual_moments(teacher: Activation, offset: float, noise: Any) -> tuple[float, Any]:
    """mh1 = E yhat and mh2 = E yhat^2 of the residual label yhat = s*(G) + noise eps - offset."""
    moments = teacher.moments
    return (
        moments.mean - offset,
        moments.second_moment - 2 * offset * moments.mean + offset** 2 + noise** 2,
    )


@lru_cache(maxsize=256)
def polynomial_degrees(student: Activation) -> tuple[float, float]:
    """Degrees of the even and the odd part of s if they are polynomials, infinity if not, -1 if zero."""
    z = np.linspace(-5.0, 5.0, 401)
    value, mirrored = student.evaluate(z), student.evaluate(-z)
    size = float(np.abs(value).max())

    def degree(part: Array, parity: int) -> float:
        if np.abs(part).max() <= 1e-12 * size:
            return -1.0
        for top in range(parity, 13, 2):
            columns = np.stack([(z / 5.0) ** power for power in range(parity, top + 1, 2)], axis=1)
            rest = part - columns @ np.linalg.lstsq(columns, part, rcond=None)[0]
            if np.abs(rest).max() <= 1e-10 * size:
                return float(top)
        return float("inf")

    return degree((value + mirrored) / 2, 0), degree((value - mirrored) / 2, 1)


@lru_cache(maxsize=256)
def slope_constants(student: Activation) -> SlopeConstants:
    """The constants of a student, by adaptive quadrature; those below 1e-13 of their scale are zero."""
    basic = student.slope_moments
    c1, c2 = basic.mean, basic.linear
    parity = np.linspace(0.01, 6.0, 97)
    values, mirrored = student.evaluate(parity), student.evaluate(-parity)
    is_odd = bool(np.all(np.abs(values + mirrored) <= 1e-13 * (1 + np.abs(values))))

    mean = student.moments.mean
    if abs(mean) < NO_MEAN * student.moments.second_moment**0.5:
        mean = 0.0
    flat = np.linspace(-6.0, 6.0, 193)
    rest = student.evaluate_derivative(flat) - c1 - c2 * flat
    if np.all(
        np.abs(rest) <= 1e-12 * (abs(c1) + abs(c2) + 1e-300)
    ):  # a polynomial of degree two: nothing is left to integrate
        return SlopeConstants(mean, c1, c2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, (0.0, 0.0, 0.0), is_odd)

    def powers(z: Array) -> Array:
        q = student.evaluate_derivative(z) - c1 - c2 * z
        he2 = z * z - 1
        return np.stack(
            [
                q**2,
                q * he2,
                z * q * he2 / 2,
                z * q**2,
                q**2 * he2 / 2,
                q**3,
                (z * q) ** 2,
                z * q**3,
                q**4,
            ]
        )

    try:
        found = gaussian_expectation(powers, student.kinks)
    except NotIntegrable as error:
        allowed = "an activation whose derivative has a fourth moment under N(0, 1)"
        raise InvalidParameter("student", allowed, str(student), str(error)) from None
    tau, c3, b2, r1, r2, s3, zq_zq, zq_qq, qq_qq = (float(v) for v in found.value)
    size = abs(c1) + abs(c2) + tau**0.5

    def clean(value: float, power: int) -> float:
        return value if abs(value) > 1e-13 * size**power else 0.0

    c2, tau, c3, b2, r1, r2, s3 = (
        clean(v, k) for v, k in ((c2, 1), (tau, 2), (c3, 1), (b2, 1), (r1, 2), (r2, 2), (s3, 3))
    )
    spread = (
        clean(zq_zq - c3**2 - 2 * b2**2, 2),
        clean(zq_qq - c3 * r1 - 2 * b2 * r2, 3),
        clean(qq_qq - tau**2 - r1**2 - 2 * r2**2, 4),
    )
    return SlopeConstants(mean, clean(c1, 1), c2, tau, c3, b2, r1, r2, s3, spread, is_odd)
