"""The teacher's components along the eigenvectors of the inputs' covariance.

theta_j is the component along eigenvector j, the largest eigenvalue first, and always scaled so
that <x, theta> has variance one: sum_j varpi_j theta_j^2 = 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from firststep.checks import real_array
from firststep.errors import InvalidParameter, nearest
from firststep.inputs.law import Held

if TYPE_CHECKING:
    from firststep.typing import Array, Float

# file: those in the second column of a spectrum
_PLAIN, _SHARES, _POWERS = ("equal", "random", "file"), ("top", "bottom"), ("decay", "rise")
_KINDS = (*_PLAIN, *_SHARES, *_POWERS)
LAWS = tuple(kind for kind in _KINDS if kind != "file")  # that need no array
_STEEPEST = 10.0  # exponent
ALLOWED = (
    "equal, random, top:SHARE, bottom:SHARE, decay:B, rise:B (components j^-B/2, j^B/2), or "
    "components separated by commas"
)


@dataclass(frozen=True)
class TeacherOverlaps:
    """Which components the teacher has; build one with ``teacher_overlaps(...)``."""

    kind: str
    parameter: float | None = None
    held: Held | None = field(default=None, repr=False)

    @property
    def is_random(self) -> bool:
        """Whether every network draws its own."""
        return self.kind == "random"

    @property
    def needs_spectrum(self) -> bool:
        """Whether they mean something only where eigenvectors differ."""
        return self.kind not in ("equal", "random")

    @property
    def dimension(self) -> int | None:
        """d, where there is a component for each eigenvector."""
        return None if self.held is None else self.held.array.size

    def squares(self, places: Float[Array, " s"], masses: Float[Array, " s"]) -> Float[Array, " s"]:
        """theta_j^2 summed over each level at d = infinity, not scaled. ``places``: where a level
        ends, as a share of all eigenvectors from the largest on; ``masses``: its length.

        Of decay:B the sum up to the place s goes as s^(1 - B); for B >= 1 it is that of the first
        few components, all of them in the first level.
        """
        if self.held is not None:
            return np.asarray(self.held.array**2)
        begin, number = places - masses, self.parameter or 0.0
        if self.kind == "top":
            return np.clip(number - begin, 0.0, masses)
        if self.kind == "bottom":
            return np.clip(places - (1 - number), 0.0, masses)
        if self.kind == "decay" and number >= 1:
            return 1.0 * (np.arange(places.size) == 0)
        if self.kind in _POWERS:
            power = 1 - number if self.kind == "decay" else 1 + number
            return np.asarray(places**power - np.maximum(begin, 0.0) ** power)
        return masses

    def components(self, count: int) -> Float[Array, " d"]:
        """theta_j of ``count`` eigenvectors, not scaled; equal ones if each network draws them."""
        if self.held is not None:
            return self.held.array
        order, number = np.arange(1.0, count + 1), self.parameter or 0.0
        if self.kind in _SHARES:
            few = max(1, math.floor(number * count + 0.5))
            return 1.0 * (order <= few if self.kind == "top" else order > count - few)
        if self.kind in _POWERS:
            return np.asarray(order ** (number / 2 if self.kind == "rise" else -number / 2))
        return np.ones(count)

    def __str__(self) -> str:
        if self.kind == "components":
            assert self.held is not None
            return ",".join(repr(float(each)) for each in self.held.array)
        if self.parameter is None:
            return self.kind
        number = self.parameter
        return f"{self.kind}:{int(number) if number == int(number) else number!r}"


def teacher_overlaps(source: object) -> TeacherOverlaps:
    """What a text, an array of components, or a TeacherOverlaps means."""
    if isinstance(source, TeacherOverlaps):
        return source
    if not isinstance(source, str):
        return _of_components(source)
    text = source.strip().lower()
    kind, colon, number = (part.strip() for part in text.partition(":"))
    if kind in _PLAIN and not colon:
        return TeacherOverlaps(kind)
    if kind in (*_SHARES, *_POWERS):
        return TeacherOverlaps(kind, _parameter(kind, number, source))
    if "," in text:
        try:
            return _of_components([float(part) for part in text.split(",")])
        except ValueError as error:
            if isinstance(error, InvalidParameter):
                raise
    raise InvalidParameter("teacher-overlaps", ALLOWED, source, nearest(kind, _KINDS))


def _parameter(kind: str, number: str, source: str) -> float:
    allowed = f"{kind}:SHARE, SHARE inside (0, 1)"
    if kind in _POWERS:
        allowed = f"{kind}:B, B > 0 and <= {_STEEPEST:g}"
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not 0 < value <= _STEEPEST or (kind in _SHARES and value >= 1):
        raise InvalidParameter("teacher-overlaps", allowed, source)
    return value


def _of_components(source: object) -> TeacherOverlaps:
    if isinstance(source, Mapping | Set) or not isinstance(source, Iterable):
        raise InvalidParameter("teacher-overlaps", ALLOWED, source)
    allowed = "components, finite numbers of which one is not zero"
    found = real_array("teacher-overlaps", source, allowed)
    if found.ndim != 1 or found.size < 2:
        raise InvalidParameter("teacher-overlaps", ALLOWED, f"an array of shape {found.shape}")
    size = float(np.abs(found).max())
    if not (math.isfinite(size) and size > 0):
        raise InvalidParameter("teacher-overlaps", allowed, f"{size:g}")
    return TeacherOverlaps("components", held=Held(found / size))


def overlaps_of_file(components: Float[Array, " d"]) -> TeacherOverlaps:
    """Those that a spectrum has in its second column."""
    return TeacherOverlaps("file", held=Held(components))
