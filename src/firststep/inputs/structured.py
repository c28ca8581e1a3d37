"""Inputs N(0, Omega) with a spectrum: power laws, two levels, eigenvalues from a file.

Omega is diagonal, with eigenvalues of mean one, the largest first: the rows of the first layer
know no axes, so that only the spectrum and the teacher's components in it matter.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.checks import real_array
from firststep.errors import InvalidParameter
from firststep.inputs.files import read_array
from firststep.inputs.law import LAWS, Held, InputLaw

if TYPE_CHECKING:
    from firststep.inputs.law import Block
    from firststep.typing import Array, Float

EIGENVALUES = "finite eigenvalues that are not negative, and not all zero"


@dataclass(frozen=True)
class StructuredInputs(InputLaw):
    """A law x ~ N(0, diag(varpi)): a subclass says what varpi is."""

    has_unit_covariance = False

    def eigenvalues(self, dimension: int) -> Float[Array, " d"]:
        """varpi_j, of mean one."""
        raise NotImplementedError

    def limit(self) -> tuple[Float[Array, " s"], Float[Array, " s"]] | None:
        """Eigenvalues and their masses at d = infinity; None where they are not bounded."""
        return None

    def shared_arrays(self, dimension: int) -> tuple[Float[Array, " d"], ...]:
        return (np.sqrt(self.eigenvalues(dimension)),)

    def rows(self, block: Block) -> Float[Array, "rows d"]:
        return block.entries() * block.arrays[0]


@LAWS.add
class PowerLaw(StructuredInputs):
    kind = "power-law"
    meaning = "x ~ N(0, C), C diagonal with entries proportional to j^-A and trace d"
    letter, parameter_meaning, high = "A", "the exponent", 10.0

    def eigenvalues(self, dimension: int) -> Float[Array, " d"]:
        assert self.parameter is not None
        variances = np.arange(1.0, dimension + 1) ** -self.parameter
        return variances * (dimension / variances.sum())


@LAWS.add
@dataclass(frozen=True)
class TwoLevel(StructuredInputs):
    kind = "two-level"
    meaning = "x ~ N(0, C), C diagonal: a SHARE of its entries RATIO times the others, trace d"
    letter = "RATIO:SHARE"

    share: float = 0.5

    @classmethod
    def of_text(cls, number: str, source: str) -> TwoLevel:
        try:
            ratio, share = (float(part) for part in number.split(":"))
        except ValueError:
            ratio = share = math.nan
        if not (0 < ratio <= cls.high and 0 < share < 1):
            bounds = f"{cls.form()}, RATIO > 0 and <= {cls.high:g}, SHARE inside (0, 1)"
            raise InvalidParameter("inputs", bounds, source)
        return cls(ratio, share=share)

    def eigenvalues(self, dimension: int) -> Float[Array, " d"]:
        assert self.parameter is not None
        count = math.floor(self.share * dimension + 0.5)
        values = np.where(np.arange(dimension) < count, self.parameter, 1.0)
        return np.sort(values * (dimension / values.sum()))[::-1]

    def limit(self) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
        assert self.parameter is not None
        values, masses = np.array([self.parameter, 1.0]), np.array([self.share, 1 - self.share])
        order = np.argsort(-values)
        return (values / (values @ masses))[order], masses[order]

    def __str__(self) -> str:
        return f"{super().__str__()}:{self.share!r}"


@LAWS.add
@dataclass(frozen=True)
class SpectrumInputs(StructuredInputs):
    """``held``: the eigenvalues, and in a second column the teacher's components if given."""

    kind = "spectrum"
    meaning = "x ~ N(0, C) with the eigenvalues in a file, scaled to mean one, and perhaps the "
    meaning += "teacher's components in a second column"
    letter = "FILE"

    name: str = "array"

    @classmethod
    def of(cls, source: object, *, name: str = "array") -> SpectrumInputs:
        """The law of eigenvalues, or of columns of eigenvalues and the teacher's components."""
        given = real_array("inputs", source, EIGENVALUES, "" if name == "array" else name)
        table = given[:, None] if given.ndim == 1 else given
        if table.ndim != 2 or table.shape[1] not in (1, 2) or len(table) < 2:
            allowed = "at least two eigenvalues, in one column, or in two with the teacher's "
            allowed += "components"
            raise InvalidParameter("inputs", allowed, f"an array of shape {given.shape}", name)
        bad = ~np.isfinite(table).all(1) | (table[:, 0] < 0)
        if bad.any() or not table[:, 0].any():
            worst = table[bad][0, 0] if bad.any() else 0.0
            raise InvalidParameter("inputs", EIGENVALUES, f"{worst:g}", name)
        table = table[np.argsort(-table[:, 0], kind="stable")]
        table[:, 0] /= table[:, 0].mean()
        return cls(held=Held(table), name=name)

    @classmethod
    def of_text(cls, number: str, source: str) -> SpectrumInputs:
        path, _, given = number.partition(",sha256=")
        if not path.strip():
            raise InvalidParameter("inputs", "spectrum:FILE", source)
        array, _ = read_array(Path(path.strip()), None)
        made = cls.of(array, name=path.strip())
        assert made.held is not None
        if given and not (re.fullmatch("[0-9a-f]{8,64}", given) and made.sha256.startswith(given)):
            hint = "the file is no longer the one this was written for"
            allowed = f"{path} with sha256={given}"
            raise InvalidParameter("inputs", allowed, f"sha256={made.sha256[:16]}", hint)
        return made

    @property
    def sha256(self) -> str:
        assert self.held is not None
        return self.held.sha256

    @property
    def dimension(self) -> int:
        assert self.held is not None
        return len(self.held.array)

    @property
    def components(self) -> Float[Array, " d"] | None:
        """The teacher's, if the file has them."""
        assert self.held is not None
        return self.held.array[:, 1] if self.held.array.shape[1] == 2 else None

    def eigenvalues(self, dimension: int) -> Float[Array, " d"]:
        assert self.held is not None
        if dimension != self.dimension:
            allowed = f"{self.dimension}, the number of eigenvalues"
            raise InvalidParameter("dimension", allowed, dimension)
        return self.held.array[:, 0]

    def limit(self) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
        count = self.dimension
        return self.eigenvalues(count), np.full(count, 1 / count)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "eigenvalues": self.dimension, "sha256": self.sha256}

    def __str__(self) -> str:
        return f"spectrum:{self.name},sha256={self.sha256[:16]}"
