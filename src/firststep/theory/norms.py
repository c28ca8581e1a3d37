"""How the norms of the trained rows fluctuate where the inputs have a covariance Omega.

The quadratic form of w in the variance c_i of a neuron off the spike is w^T A w,

    A = Omega + e (Omega M + M Omega) + e^2 M Omega M + beta1 M + beta2 S'
    beta1 = 2 a b2 L,   beta2 = (O_2/alpha0) (2 a b2 e + a^2 r2),   L = O_2 + e mh_1 O_3

and Q_i = w^T Omega w moves u_i by u_Q = a |v|_Omega c3/2. With s = 1 for rows on the sphere, 0 for
Gaussian ones, and tr meaning (1/d) tr, neurons of a value have the fluctuation of kernel

    Theta f^T ( 2 u_Q^2 (O_2 - s)   2 u_Q (tr Omega A - s tr A)   ) f,   f = (kappa mu1; mu0')
              (         .           2 (tr A^2 - s (tr A)^2) + nu' )

    nu' = own/alpha0 + 4 chi mh_2 V + 2 chi^2 mh_2^2 O_4
    V = O_3 + 2 e mh_1 O_4 + e^2 (mh_1^2 O_5 + mh_2 O_4/alpha0) - L^2
    own = 4 a^2 (L^2 mh_2 + 2 L e O_2 mh_3/alpha0 + e^2 O_2^2 mh_4/alpha0^2) C11
          + (4 a^3/alpha0) O_2 (L mh_3 + e O_2 mh_4/alpha0) C12 + (a^4 mh_4/alpha0^2) O_2^2 C22

It is that of two functions, sqrt(2 (O_2 - s)) (u_Q kappa mu1 + beta mu0') and sqrt nu mu0', with

    beta = (tr Omega A - s tr A)/(O_2 - s)
    nu = 2 (tr A^2 - s (tr A)^2) + nu' - 2 (O_2 - s) beta^2

(Omega = 1: beta = tr A for Gaussian rows, and the first function is absent on the sphere).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firststep.numerics.library import library_of
from firststep.theory.medium import Medium, Words
from firststep.theory.student import SlopeConstants

if TYPE_CHECKING:
    from firststep.typing import Array, Float

_FLAT = 1e-12  # O_2 - 1 below this is that of Omega = 1


def row_spread(medium: Medium, on_sphere: bool) -> float:
    """O_2 - s: of Q_i over 2/d."""
    spread = medium.o[2] - (1.0 if on_sphere else 0.0)
    return spread if spread > _FLAT else 0.0


def norms_in_medium(
    student: SlopeConstants,
    step: tuple[Float[Array, "batch P"], Float[Array, "batch P"], Float[Array, "batch P"]],
    moments: tuple[Float[Array, "batch 1"], ...],
    alpha0: Float[Array, "batch 1"],
    *,
    medium: Medium,
    on_sphere: bool,
) -> tuple[Float[Array, "batch P"], Float[Array, "batch P"]]:
    """beta and nu, of (a, e, chi) and mh_1 to mh_4."""
    (a, e, chi), (m1, m2, m3, m4) = step, moments
    b2, (c11, c12, c22) = student.b2, student.covariances
    _, _, o2, o3, o4, o5, *_ = medium.o
    by_power = {1: m1, 2: m2, 3: m3, 4: m4}
    words = Words(medium, by_power.__getitem__, alpha0)
    lift = o2 + e * m1 * o3  # L
    beta1 = 2 * a * b2 * lift
    beta2 = o2 / alpha0 * (2 * a * b2 * e + a**2 * student.r2)
    by_labels = beta1 * m1 + beta2 * m2
    mm, mwmw = words.trace((1, 1), (0, 1)), words.trace((1, 1), (1, 1))  # tr Omega M^2, (Omega M)^2
    of_a = 1 + 2 * e * m1 * o2 + e**2 * mm + by_labels
    with_omega = o2 + 2 * e * m1 * o3 + e**2 * mwmw + by_labels * o2
    square = o2 + 4 * e * m1 * o3 + 2 * by_labels * o2
    square = square + e**2 * (4 * mwmw + 2 * words.trace((1, 1), (0, 2)))
    square = square + 4 * e**3 * words.trace((1, 1, 1), (0, 1, 1))
    square = square + e**4 * words.trace((1, 1, 1, 1), (0, 1, 0, 1))
    square = square + 4 * e * beta1 * mm + 4 * e * beta2 * words.trace((1, 2), (0, 1))
    square = square + 2 * e**2 * beta1 * words.trace((1, 1, 1), (0, 0, 1))
    square = square + 2 * e**2 * beta2 * words.trace((1, 2, 1), (0, 0, 1))
    square = square + beta1**2 * words.trace((1, 1), (0, 0))
    square = square + 2 * beta1 * beta2 * words.trace((1, 2), (0, 0))
    square = square + beta2**2 * words.trace((2, 2), (0, 0))
    own = (
        4
        * a**2
        * c11
        * (lift**2 * m2 + 2 * lift * e * o2 * m3 / alpha0 + (e * o2 / alpha0) ** 2 * m4)
    )
    own = own + 4 * a**3 / alpha0 * o2 * (lift * m3 + e * o2 * m4 / alpha0) * c12
    own = own + a**4 * m4 / alpha0**2 * o2**2 * c22
    rest = o3 + 2 * e * m1 * o4 + e**2 * (m1**2 * o5 + m2 * o4 / alpha0) - lift**2  # V
    extra = own / alpha0 + 4 * chi * m2 * rest + 2 * chi**2 * m2**2 * o4
    s, spread = (1.0 if on_sphere else 0.0), row_spread(medium, on_sphere)
    by_norm = (with_omega - s * of_a) / spread if spread > 0 else 0 * a
    variance = 2 * (square - s * of_a**2) + extra - 2 * spread * by_norm**2
    return by_norm, library_of(variance).xp.maximum(variance, 0.0)
