"""``diagnose_inputs``: does a table of data have what the Gaussian theory needs of it?

The theory takes x ~ N(0, I). What it uses of that: no mean; a covariance near I; a norm that hardly
varies from row to row; and projections that look Gaussian along almost every direction. Each is
measured here on a sample of rows x_1 .. x_n (xc: minus their mean), with an estimate that is right
in the mean for independent rows of any law:

mean                  (|mean x|^2 - tr C/n)/tr C
scale                 tr C/d
effective_dimension   (tr C)^2/(d tr C^2), tr C^2 = mean over pairs i != j of <xc_i, xc_j>^2
norm_concentration    (d/2) Var(|xc|^2)/(tr C)^2: 1 for N(0, I), 1/effective_dimension for N(0, C),
                      1 + k/2 for independent entries of excess kurtosis k, of the order of d where
                      rows have a scale of their own
kurtosis, skewness    of <x, u> along random unit vectors u: the mean excess kurtosis, the root mean
                      square skewness beyond 6/n
component_kurtosis    the largest excess kurtosis, in absolute value, along leading principal
                      components: those of one half of the rows, measured on the other half;
                      component_share is their part of the variance
entry_kurtosis        of the entries, each column by itself: the median; largest_entry in standard
                      deviations of its column

Where the covariance alone is off, and norms and projections of the whitened rows pass too, the
theory of inputs N(0, Omega) takes the place of that of N(0, I), with the spectrum that
``SpectrumInputs.from_data`` finds.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # whose parts load when they are used: special takes a twentieth of the import

from firststep.checks import whole
from firststep.errors import InvalidParameter
from firststep.inputs import DataInputs, InputLaw, SpectrumInputs, input_law
from firststep.problem import Problem, Sizes
from firststep.results import Shown
from firststep.simulation.backends import make_backend
from firststep.simulation.data.rows import Data, InputArrays, Replicate
from firststep.simulation.design import Training, make_design
from firststep.simulation.models.network import RandomFeatures
from firststep.simulation.running.measures import (
    COMPONENTS,
    FEW,
    TOLERANCES,
    components,
    measured,
    reasons_of,
    whitened,
)

if TYPE_CHECKING:
    from firststep.typing import Array, Float, Int

DIRECTIONS = 200  # random projections
FEWEST_ROWS = 200
LARGEST_ENTRY = 1e30  # its eighth power is still a number
MOST_ROWS = 20_000  # looked at
# Reasons that a covariance alone makes: where few eigenvalues carry the trace, few rows leave its
# size open, and how norms vary.
_OF_THE_SPECTRUM = {"spread", FEW + "scale", FEW + "norm"}
# What N(0, I) after whitening has, whatever the covariance was.
_OF_GAUSSIAN = {few + key for few in ("", FEW) for key in ("norm", "kurtosis", "skewness")}
STEEPEST = 0.05  # varpi_max^2/d up to which the theory of inputs with a spectrum holds


@dataclass(frozen=True, repr=False)
class InputDiagnosis(Shown):
    """What was measured on a sample of inputs, and whether the Gaussian theory can be trusted.

    ``errors`` are standard errors by name. ``reasons`` says in sentences what is wrong; none:
    ``trusted``. ``spectrum``: the law of the inputs N(0, Omega) whose theory applies instead, where
    the covariance is the only thing wrong; else None.
    """

    name: str
    rows: int
    dimension: int
    mean: float
    scale: float
    effective_dimension: float
    norm_concentration: float
    kurtosis: float
    skewness: float
    component_kurtosis: float
    component_share: float
    entry_kurtosis: float
    largest_entry: float
    duplicates: int
    errors: dict[str, float] = field(repr=False)
    reasons: tuple[str, ...] = ()
    spectrum: SpectrumInputs | None = field(default=None, repr=False)

    @property
    def trusted(self) -> bool:
        return not self.reasons

    @property
    def covariance_only(self) -> bool:
        """Whether the inputs look like N(0, Omega) with another Omega than I."""
        return self.spectrum is not None

    @property
    def steepness(self) -> float:
        """varpi_max^2/d of the spectrum; nan without one."""
        if self.spectrum is None:
            return math.nan
        return float(self.spectrum.eigenvalues(self.dimension)[0] ** 2) / self.dimension

    def lines(self) -> list[tuple[str, str, str]]:
        """What, the number with its error, and what N(0, I) has."""

        def told(name: str) -> str:
            return f"{getattr(self, name):.4g} ± {self.errors[name]:.1g}"

        share = f"{min(1, COMPONENTS / self.dimension):.3g}"
        largest = f"{_largest_gaussian(self.rows * self.dimension):.3g}"
        return [
            ("squared norm of the mean, over tr C", told("mean"), "0"),
            ("scale tr C/d", told("scale"), "1"),
            ("effective dimension (tr C)^2/(d tr C^2)", told("effective_dimension"), "1"),
            ("norm concentration (d/2) Var|x|^2/(tr C)^2", told("norm_concentration"), "1"),
            ("excess kurtosis, random directions", told("kurtosis"), "0"),
            ("skewness, random directions", told("skewness"), "0"),
            ("excess kurtosis, leading components", f"{self.component_kurtosis:.3g}", "0"),
            ("  their share of the variance", f"{self.component_share:.3g}", share),
            ("excess kurtosis of the entries", f"{self.entry_kurtosis:.3g}", "0"),
            ("largest entry, in standard deviations", f"{self.largest_entry:.3g}", largest),
            ("rows that occur twice", str(self.duplicates), "0"),
        ]

    @property
    def title(self) -> str:
        return f"{self.name}: {self.rows} rows in dimension {self.dimension}"

    @property
    def head(self) -> tuple[str, ...]:
        return "", "measured", "N(0, I)"

    table = lines

    @property
    def verdict(self) -> str:
        if self.trusted:
            return "trusted: the Gaussian theory should hold within 2 to 3 %"
        if not self.covariance_only:
            return "not trusted:"
        told = f"the largest eigenvalue squared is {self.steepness:.2g} d"
        if self.steepness > STEEPEST:
            told += f", and beyond {STEEPEST:g} d it may be several % off"
        return f"covariance only: the theory of inputs with a spectrum is the one to ask ({told}):"

    def notes(self) -> list[str]:
        return [self.verdict, *(f"  {reason}" for reason in self.reasons)]

    def _repr_html_(self) -> str:
        verdict = html.escape(" ".join([self.verdict, "; ".join(self.reasons)]).strip())
        return f"{super()._repr_html_()}<p>{verdict}</p>"

    def to_dict(self) -> dict[str, Any]:
        """Plain values fit for JSON."""
        spectrum = self.spectrum
        eigenvalues = None if spectrum is None else spectrum.eigenvalues(self.dimension).tolist()
        return {
            **vars(self),
            "errors": dict(self.errors),
            "reasons": list(self.reasons),
            "trusted": self.trusted,
            "covariance_only": self.covariance_only,
            "spectrum": eigenvalues,
            "steepness": self.steepness if self.covariance_only else None,
        }


def diagnose_inputs(
    source: object, dimension: int | None = None, *, rows: int | None = None, seed: int = 0
) -> InputDiagnosis:
    """Measure what the Gaussian theory needs of its inputs, on rows of data or of a law.

    Args:
        source: an array of samples x columns, a file, a ``DataInputs``, or a law such as
            ``student-t:5``.
        dimension: d, for a law that does not fix it; default 400.
        rows: how many rows to look at; default all of the data up to 20 000, or 10 d (at least
            4000) of a law.
        seed: of the random directions, of the rows that are looked at and of the law.
    """
    law, seed = input_law(source), whole("seed", seed, 0)
    sample = _sample(law, dimension, rows, seed)
    largest = float(np.abs(sample).max())
    if not 1 / LARGEST_ENTRY <= largest <= LARGEST_ENTRY:
        allowed = f"entries whose largest is from {1 / LARGEST_ENTRY:g} to {LARGEST_ENTRY:g}"
        raise InvalidParameter("inputs", allowed, f"{largest:g}", "rescale the columns")
    name = law.name if isinstance(law, DataInputs) else str(law)
    return _diagnosed(name, sample, np.random.default_rng(seed))


def _sample(law: InputLaw, dimension: object, rows: object, seed: int) -> Float[Array, "n d"]:
    if isinstance(law, DataInputs):
        if dimension is not None and whole("dimension", dimension, 2) != law.dimension:
            raise InvalidParameter(
                "dimension", f"{law.dimension}, the number of columns", dimension
            )
        available = len(law.array)
        count = (
            min(available, MOST_ROWS)
            if rows is None
            else whole("rows", rows, FEWEST_ROWS, available)
        )
        if count < FEWEST_ROWS:
            raise InvalidParameter(
                "inputs", f"at least {FEWEST_ROWS} rows to be diagnosed", f"{available} rows"
            )
        if count == available:
            return law.array
        return law.array[
            np.sort(np.random.default_rng(seed).choice(available, count, replace=False))
        ]
    usual = (law.dimension or 400) if dimension is None else dimension
    d = whole("dimension", usual, 2, 10**5)
    law.refuse_dimension(d)
    count = max(4000, 10 * d) if rows is None else whole("rows", rows, FEWEST_ROWS, 10**7)
    backend = make_backend()
    any_problem = Problem(student="identity", teacher="identity", alpha=1, beta=1)
    design = make_design(
        any_problem,
        model=RandomFeatures,
        training=Training(),
        sizes=Sizes(d, count, 1, 0),
        test_samples=2,
        block=count,
        inputs=law,
    )
    with backend.scope():
        replicate = Replicate(InputArrays(design, backend).key(seed, 0))
        return Data.of(design, backend, replicate).inputs("ridge", 0, count)


def _diagnosed(name: str, rows: Float[Array, "n d"], rng: np.random.Generator) -> InputDiagnosis:
    count, d = rows.shape
    directions = rng.standard_normal((d, DIRECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    order = rng.permutation(count)
    looked = measured(rows, directions, order)
    found, errors = looked.found, looked.errors
    effective = 1 / max(1 + found["spread"], 1.0)  # it cannot be more than 1; its estimate can
    errors["effective_dimension"] = errors["spread"] * effective**2
    component_kurtosis, share = components(rows, order)
    deviations = rows.std(axis=0)
    centred = (rows - rows.mean(axis=0)) / np.where(deviations > 0, deviations, 1.0)
    entry_kurtosis = float(np.median(np.mean(centred**4, axis=0))) - 3
    duplicates = int(np.sum(np.diff(np.sort(rows @ directions[:, 0])) == 0))
    reasons = reasons_of(looked, rows=count, d=d)
    if abs(component_kurtosis) > 1 and share > COMPONENTS / d + TOLERANCES["components"]:
        told = f"(excess kurtosis {component_kurtosis:.3g}) and carry {share:.0%} of the variance"
        reasons["components"] = f"leading components are not Gaussian {told}"
    if duplicates > 0.01 * count:
        told = "training and test data would share them"
        reasons["duplicates"] = f"{duplicates} rows occur twice: {told}"
    spectrum = None
    if "spread" in reasons and set(reasons) <= _OF_THE_SPECTRUM:
        spectrum = _spectrum_alone(name, rows, directions, order)
    return InputDiagnosis(
        name=name,
        rows=count,
        dimension=d,
        effective_dimension=effective,
        component_kurtosis=component_kurtosis,
        component_share=share,
        entry_kurtosis=entry_kurtosis,
        largest_entry=float(np.abs(centred).max()),
        duplicates=duplicates,
        errors={key: value for key, value in errors.items() if key != "spread"},
        reasons=tuple(reasons.values()),
        spectrum=spectrum,
        **{key: value for key, value in found.items() if key != "spread"},
    )


def _spectrum_alone(
    name: str,
    rows: Float[Array, "n d"],
    directions: Float[Array, "d directions"],
    order: Int[Array, " n"],
) -> SpectrumInputs | None:
    """The law of the spectrum, if it can be known and nothing is off in the whitened rows."""
    try:
        law = SpectrumInputs.from_data(DataInputs.of(rows, name=name))
    except InvalidParameter:  # too few rows, or columns that depend on others
        return None
    if law.dimension != rows.shape[1]:  # a column is constant
        return None
    looked = measured(whitened(rows), directions, order)
    hidden = set(reasons_of(looked, rows=len(rows), d=law.dimension))
    return None if hidden & _OF_GAUSSIAN else law


def _largest_gaussian(count: int) -> float:
    """The median of the largest of ``count`` Gaussian numbers, in absolute value."""
    return float(-scipy.special.ndtri(math.log(2) / (2 * count)))
