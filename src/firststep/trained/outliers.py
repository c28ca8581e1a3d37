"""What an outlier was before the noise came.

Signal sum_k theta_k u_k v_k^T plus a bulk whose singular vectors know nothing of it. With the
singular values of the bulk (those of m - n zeros among them on the long side, m >= n)

    phi_1(s) = (1/n) sum_i s/(s^2 - s_i^2),   phi_2(s) = (n/m) phi_1(s) + (1 - n/m)/s,
    D(s) = phi_1(s) phi_2(s),

a value theta of the signal becomes the outlier s with D(s) = 1/theta^2, and the squared overlaps of
its vectors with the true ones are

    short side:  -2 phi_1/(theta^2 D'),   long side:  -2 phi_2/(theta^2 D')

(Benaych-Georges and Nadakuditi 2012). For entries of equal variance v this is s^2 = (theta^2 +
m v)(theta^2 + n v)/theta^2. Of u, v drawn at random, exactly

    (1/theta - b)^2 = a_1 a_2,   a_1 = v^T s/(s^2 - X^T X) v,   a_2 = u^T s/(s^2 - X X^T) u,
    b = u^T X/(s^2 - X^T X) v,

with a_1, a_2, b scattering independently about phi_1, phi_2, 0:

    var a_1 = (2/n) (<s^2/(s^2 - s_i^2)^2> - phi_1^2)   and the same of a_2 with m values,
    var b = (1/m) <s_i^2/(s^2 - s_i^2)^2>,
    var theta = theta^4 (var b + (phi_2^2 var a_1 + phi_1^2 var a_2)/(4 D)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firststep.typing import Array, Float


@dataclass(frozen=True)
class Outlier:
    """A singular value beyond the bulk, and the signal behind it."""

    value: float
    # That noise alone has a larger one; nan where the bulk has no law.
    p_value: float
    size: float  # theta
    size_error: float  # one standard deviation
    # Squared overlaps of its vectors with those of the signal, as theory says.
    rows_overlap: float
    columns_overlap: float


@dataclass(frozen=True, eq=False)
class Bulk:
    """The singular values of a bulk as points with shares, of a matrix of m rows, n columns."""

    points: Float[Array, " points"]
    shares: Float[Array, " points"]  # of the min(m, n) values; their sum is 1
    m: int
    n: int

    def outlier(self, value: float, p_value: float = math.nan) -> Outlier:
        """What was behind this value."""
        long, short = max(self.m, self.n), min(self.m, self.n)
        squares, s2 = self.points**2, value**2
        gaps = s2 - squares
        extra = 1 - short / long
        first = float(self.shares @ (value / gaps))
        second = short / long * first + extra / value
        square = float(self.shares @ (s2 / gaps**2))
        square_long = short / long * square + extra / s2
        cross = float(self.shares @ (squares / gaps**2))
        # Derivatives of phi_1 and phi_2 by s.
        slope = -float(self.shares @ ((s2 + squares) / gaps**2))
        slope_long = short / long * slope - extra / s2
        product = first * second
        theta2 = 1 / product
        turn = slope * second + first * slope_long
        spread = 2 / short * (square - first**2), 2 / long * (square_long - second**2)
        relative = cross / long + (second**2 * spread[0] + first**2 * spread[1]) / (4 * product)
        overlaps = [min(-2 * phi / (theta2 * turn), 1.0) for phi in (first, second)]
        of_rows = overlaps[1] if self.m >= self.n else overlaps[0]
        of_columns = overlaps[0] if self.m >= self.n else overlaps[1]
        return Outlier(
            value=value,
            p_value=p_value,
            size=math.sqrt(theta2),
            size_error=theta2 * math.sqrt(relative),
            rows_overlap=of_rows,
            columns_overlap=of_columns,
        )
