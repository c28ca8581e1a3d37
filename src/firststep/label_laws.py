"""Laws of the labels, given what the teacher says.

With s = s*(<x, theta>), eps ~ N(0, 1) and each label flipped with probability p:

    real        y = s + noise eps
    sign        y = +-1, the sign of s + noise eps - threshold
                P(y = 1 | s) = p + (1 - 2 p) Phi((s - threshold)/noise), a jump without noise
    logit:SLOPE P(y = 1 | s) = p + (1 - 2 p) sigmoid(SLOPE (s - threshold))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firststep.errors import InvalidParameter, nearest
from firststep.numerics.library import library_of
from firststep.numerics.special import sigmoid

if TYPE_CHECKING:
    from firststep.typing import Array, Float

ALLOWED = "real, sign or logit:SLOPE"
KINDS = ("real", "sign", "logit")


@dataclass(frozen=True)
class LabelLaw:
    """real, or binary: sign (slope infinite) or logit."""

    kind: str = "real"
    slope: float = math.inf  # of the logit

    @property
    def is_binary(self) -> bool:
        return self.kind != "real"

    def probability(
        self,
        signal: Float[Array, "*s"],
        *,
        noise: Float[Array, ""] | float,
        threshold: float,
        flip: float,
    ) -> Float[Array, "*s"]:
        """P(y = 1 | s), in the array library of s."""
        library = library_of(signal)
        xp, above = library.xp, signal - threshold
        if self.kind == "logit":
            sure = sigmoid(self.slope * above)
        else:
            # without noise a jump; a division by zero is never asked for
            smooth = library.special.ndtr(above / xp.where(noise > 0, noise, 1.0))
            sure = xp.where(noise > 0, smooth, (1 + xp.sign(above)) / 2)
        probability: Float[Array, "*s"] = flip + (1 - 2 * flip) * sure
        return probability

    def __str__(self) -> str:
        return f"logit:{self.slope!r}" if self.kind == "logit" else self.kind


def label_law(source: object) -> LabelLaw:
    """The law meant by a text, or a LabelLaw."""
    if isinstance(source, LabelLaw):
        return source
    if not isinstance(source, str):
        raise InvalidParameter("labels", ALLOWED, source)
    name, colon, given = source.strip().lower().partition(":")
    if name not in KINDS:
        raise InvalidParameter("labels", ALLOWED, source, nearest(name, KINDS))
    if (name == "logit") != bool(colon):
        hint = "write logit:SLOPE" if name == "logit" else "only logit has a slope: logit:SLOPE"
        raise InvalidParameter("labels", ALLOWED, source, hint)
    if not colon:
        return LabelLaw(name)
    try:
        slope = float(given)
    except ValueError:
        slope = math.nan
    if not 0 < slope < math.inf:
        raise InvalidParameter("labels", ALLOWED, source, "SLOPE must be positive and finite")
    return LabelLaw(name, slope)
