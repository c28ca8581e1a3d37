"""Inputs N(0, Omega) with a spectrum: power laws, two levels, eigenvalues from a file.

Omega is diagonal, with eigenvalues of mean one, the largest first: the rows of the first layer
know no axes, so that only the spectrum and the teacher's components in it matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.checks import real_array
from firststep.errors import InvalidParameter
from firststep.inputs.files import read_array, refuse_another, stamp
from firststep.inputs.law import LAWS, Held, InputLaw

if TYPE_CHECKING:
    from firststep.inputs.law import Block
    from firststep.typing import Array, Float

EIGENVALUES = "finite eigenvalues that are not negative, and not all zero"
COMPONENTS = "finite components of the teacher, not all zero where the eigenvalues are positive"
COLUMNS = "at least two eigenvalues, in one column, or in two with the teacher's components"


@dataclass(frozen=True)
class StructuredInputs(InputLaw):
    """A law x ~ N(0, diag(varpi)): a subclass says what varpi is."""

    has_unit_covariance = False

    def eigenvalues(self, dimension: int) -> Float[Array, " d"]:
        """varpi_j, of mean one, the largest first."""
        raise NotImplementedError

    def spectrum(self, dimension: int) -> tuple[Float[Array, " d"], None]:
        return self.eigenvalues(dimension), None

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
    """``parameter`` is the RATIO; round(SHARE d) of the entries are RATIO times the others."""

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

    def refuse_dimension(self, dimension: int) -> None:
        """Both levels need an eigenvalue."""
        if not 0 < self._count(dimension) < dimension:
            least = math.ceil(0.5 / min(self.share, 1 - self.share))
            allowed, hint = f"at least {least} with inputs {self}", "a level rounds to nothing"
            raise InvalidParameter("dimension", allowed, dimension, hint)

    def _count(self, dimension: int) -> int:
        return math.floor(self.share * dimension + 0.5)

    def eigenvalues(self, dimension: int) -> Float[Array, " d"]:
        assert self.parameter is not None
        self.refuse_dimension(dimension)
        values = np.where(np.arange(dimension) < self._count(dimension), self.parameter, 1.0)
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
    letter, counted = "FILE", "eigenvalues"

    name: str = "array"

    @classmethod
    def of(cls, source: object, *, name: str = "array") -> SpectrumInputs:
        """The law of eigenvalues, or of columns of eigenvalues and the teacher's components.

        In any order: they are sorted, each component with its eigenvalue.
        """
        file = "" if name == "array" else name
        table = np.array(real_array("inputs", source, EIGENVALUES, file))
        table = table[:, None] if table.ndim == 1 else table
        if table.ndim != 2 or table.shape[1] not in (1, 2) or len(table) < 2:
            raise InvalidParameter("inputs", COLUMNS, f"an array of shape {np.shape(table)}", file)
        values = table[:, 0]
        worst = values[~(np.isfinite(values) & (values >= 0))]
        if worst.size or not values.any():
            given = f"{worst[0]:g}" if worst.size else "zeros"
            raise InvalidParameter("inputs", EIGENVALUES, given, file)
        table = table[np.argsort(-values, kind="stable")]
        table[:, 0] /= table[0, 0]  # a sum of large ones may be no number
        table[:, 0] /= table[:, 0].mean()
        cls._scale_components(table, file)
        return cls(held=Held(table), name=name)

    @staticmethod
    def _scale_components(table: Float[Array, "d columns"], file: str) -> None:
        """Those of the teacher, if there are any: the largest becomes one."""
        if table.shape[1] == 1:
            return
        size = float(np.abs(table[:, 1]).max())
        seen = table[table[:, 0] > 0, 1]
        if not math.isfinite(size) or not seen.any():
            given = f"{size:g}" if not math.isfinite(size) else "a teacher that sees no input"
            raise InvalidParameter("inputs", COMPONENTS, given, file)
        table[:, 1] /= size

    @classmethod
    def of_text(cls, number: str, source: str) -> SpectrumInputs:
        path, _, wanted = number.strip().partition(",sha256=")
        if not path.strip():
            raise InvalidParameter("inputs", "spectrum:FILE", source)
        made = _loaded(path.strip(), stamp(path.strip()))
        if wanted:
            refuse_another(path, wanted, made.sha256)
        return made

    @property
    def table(self) -> Float[Array, "d columns"]:
        assert self.held is not None
        return self.held.array

    @property
    def sha256(self) -> str:
        """Of the eigenvalues and components as used: sorted and scaled."""
        assert self.held is not None
        return self.held.sha256

    @property
    def dimension(self) -> int:
        return len(self.table)

    @property
    def components(self) -> Float[Array, " d"] | None:
        """The teacher's, if the file has them."""
        return self.table[:, 1] if self.table.shape[1] == 2 else None

    def eigenvalues(self, dimension: int) -> Float[Array, " d"]:
        self.refuse_dimension(dimension)
        return self.table[:, 0]

    def limit(self) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
        count = self.dimension
        return self.table[:, 0], np.full(count, 1 / count)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "eigenvalues": self.dimension, "sha256": self.sha256}

    def __str__(self) -> str:
        return f"spectrum:{self.name},sha256={self.sha256[:16]}"

    def __repr__(self) -> str:
        return f"SpectrumInputs({str(self)!r}, {self.dimension} eigenvalues)"


@lru_cache(maxsize=4)
def _loaded(path: str, stamped: tuple[int, int]) -> SpectrumInputs:
    """The points of a sweep read their file once."""
    array, _ = read_array(Path(path), None)
    return SpectrumInputs.of(array, name=path)
