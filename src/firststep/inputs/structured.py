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
from firststep.inputs.data import DataInputs
from firststep.inputs.files import read_array
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
FEWEST_ROWS = 1.2  # over columns: below, small eigenvalues cannot be told from none
_SAME = 1e-9  # eigenvalues that differ by less, relative to them, are one level
# Standard errors of what noise alone would make of the linear part of labels.
_BEYOND_NOISE = 3.0


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
        table = real_array("inputs", source, EIGENVALUES, "" if name == "array" else name)
        if table.ndim == 1:
            table = table[:, None]
        if table.ndim != 2 or table.shape[1] not in (1, 2) or len(table) < 2:
            allowed = "at least two eigenvalues, in one column, or in two with the teacher's "
            allowed += "components"
            raise InvalidParameter(
                "inputs", allowed, f"an array of shape {np.asarray(source).shape}", name
            )
        bad = ~np.isfinite(table).all(1) | (table[:, 0] < 0)
        if bad.any() or not table[:, 0].any():
            worst = table[bad][0, 0] if bad.any() else 0.0
            raise InvalidParameter("inputs", EIGENVALUES, f"{worst:g}", name)
        table = table[np.argsort(-table[:, 0], kind="stable")]
        table[:, 0] /= table[:, 0].mean()
        return cls(held=Held(table), name=name)

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
