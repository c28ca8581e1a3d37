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
from firststep.inputs.data import DataInputs
from firststep.inputs.files import read_array, refuse_another, stamp
from firststep.inputs.law import LAWS, Held, InputLaw
from firststep.numerics.sample_covariance import (
    SampleCovariance,
    direction_shares,
    population_eigenvalues,
)

if TYPE_CHECKING:
    from firststep.inputs.law import Block
    from firststep.typing import Array, Float

EIGENVALUES = "finite eigenvalues that are not negative, and not all zero"
COMPONENTS = "finite components of the teacher, not all zero where the eigenvalues are positive"
COLUMNS = "at least two eigenvalues, in one column, or in two with the teacher's components"
FEWEST_ROWS = 1.2  # over columns: below, small eigenvalues cannot be told from none
_SAME = 1e-9  # eigenvalues that differ by less, relative to them, are one level
# Standard errors of what noise alone would make of the linear part of labels.
_BEYOND_NOISE = 3.0


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
    def from_data(cls, source: object, labels: object = None) -> SpectrumInputs:
        """The law with the spectrum, scaled to mean one, that rows of data were drawn with.

        The eigenvalues are estimates of those of the covariance itself, not of the sample's, which
        are spread out where rows are not many more than columns
        (``numerics.sample_covariance``). With the labels of the rows the law has the components of
        a teacher too: those of the linear part of the labels, without the bias of their noise.
        Labels ``rows @ theta`` say which direction theta is meant.

        Args:
            source: an array of samples x columns, or a ``DataInputs``; at least 1.2 times as many
                rows as columns, and no columns that depend on others.
            labels: one number for every row.
        """
        data = source if isinstance(source, DataInputs) else DataInputs.of(source)
        rows, d = data.array.shape
        if rows - 1 < FEWEST_ROWS * d:
            allowed = f"at least {math.ceil(FEWEST_ROWS * d) + 1} rows of {d} columns, to know "
            allowed += "their covariance"
            raise InvalidParameter("inputs", allowed, f"{rows} rows", data.name)
        centred = data.array - data.array.mean(axis=0)
        centred /= math.sqrt(float(np.mean(centred**2)))
        sample = SampleCovariance.of(centred)
        if sample.rank < d:
            hint = "drop columns that depend on others"
            allowed = f"rows whose covariance has rank {d}, the number of columns"
            raise InvalidParameter("inputs", allowed, f"a rank of {sample.rank}", hint)
        values = population_eigenvalues(sample)
        table = values[:, None]
        if labels is not None:
            theta = _components(centred, _labels(labels, rows), sample, values)
            table = np.stack([values, theta], axis=1)
        return cls.of(table, name=f"estimated from {data.name}")

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


def _labels(source: object, rows: int) -> Float[Array, " rows"]:
    """One number a row, their mean taken off."""
    allowed = f"{rows} finite numbers, one for every row, that are not all the same"
    labels = real_array("labels", source, allowed)
    if labels.shape != (rows,):
        raise InvalidParameter("labels", allowed, f"an array of shape {labels.shape}")
    if not np.isfinite(labels).all() or np.ptp(labels) == 0:
        given = f"{labels[0]:g} in all" if np.ptp(labels) == 0 else "some that are not finite"
        raise InvalidParameter("labels", allowed, given)
    return np.asarray(labels - labels.mean())


def _components(
    centred: Float[Array, "rows d"],
    labels: Float[Array, " rows"],
    sample: SampleCovariance,
    values: Float[Array, " d"],
) -> Float[Array, " d"]:
    """The teacher's, of one size along the eigenvalues of a level."""
    count, d = sample.degrees, values.size
    falls = values[:-1] - values[1:] > _SAME * values[:-1]
    level = np.concatenate([[0], np.cumsum(falls)])
    levels, sizes = values[np.concatenate([[True], falls])], np.bincount(level)
    along, square = centred.T @ labels / count, float(labels @ labels) / count
    shares, rest = direction_shares(sample, levels, along, square)
    linear, noise = float(shares.sum()), rest * math.sqrt(2 * d) / count
    if not linear > _BEYOND_NOISE * noise:
        allowed = "labels with a part that is linear in the inputs and can be told from noise"
        given = f"a linear part of {linear / square:.2g} of their variance"
        raise InvalidParameter("labels", allowed, given, f"{count + 1} rows, {d} columns")
    return np.asarray(np.sqrt(shares / (sizes * levels))[level])
