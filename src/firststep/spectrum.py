"""``spectrum``: the predicted spectrum of the first layer, or of its kernel, beside simulated ones."""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firststep.compare import HEAD, at_size
from firststep.errors import InvalidParameter
from firststep.problem import MAX_SIZE, Problem, Sizes, choice, whole
from firststep.results import Interrupted, Shown, as_html, plain, plain_fields, versions, with_error
from firststep.simulation.running.spectra import check_memory, layer_spectrum
from firststep.theory.one_step.question import BULKS
from firststep.theory.spectrum.law import SpectralLaw, spectral_law
from firststep.theory.spectrum.resolvent import MATRICES

Array = NDArray[np.float64]
WORDS = {"weights": "singular values of W1", "kernel": "eigenvalues of F^T F/n"}


class Level(NamedTuple):
    """One place of the spectrum: theory, simulation and how far apart they are.

    Of the largest and the smallest of the M values of the bulk theory knows where half a value is to be expected beyond: near the
    mean, but not the mean itself, so that they have no z-score.
    """

    name: str  # outlier 1, ..., largest in the bulk, smallest in the bulk
    theory: float
    simulated: float  # mean over networks
    standard_error: float
    is_outlier: bool

    @property
    def difference(self) -> float:
        return self.theory - self.simulated

    @property
    def z(self) -> float:
        """Difference over the standard error of the simulation; nan for a single network, and in the bulk."""
        return (
            self.difference / self.standard_error
            if self.is_outlier and self.standard_error > 0
            else math.nan
        )


@dataclass(frozen=True, eq=False, repr=False)
class Spectrum(Shown):
    """A predicted spectrum at the size of simulated networks, and theirs."""

    problem: Problem
    law: SpectralLaw
    simulated: (
        Array  # one row for each network, largest first: the values that are not zero by shape
    )
    sizes: Sizes
    seed: int
    levels: tuple[Level, ...]
    bins: Array  # edges of the histogram
    histogram: Array  # of the simulated values, as a density over all N of them: to be compared with law.density
    seconds: float
    interrupted: bool = False

    @property
    def outliers(self) -> tuple[Level, ...]:
        return tuple(level for level in self.levels if level.is_outlier)

    def __getitem__(self, name: str) -> Level:
        for level in self.levels:
            if level.name == name:
                return level
        raise KeyError(name)

    @property
    def replicates(self) -> int:
        return len(self.simulated)

    @property
    def distance(self) -> float:
        """Kolmogorov-Smirnov distance between the simulated values without the outliers and the predicted bulk."""
        return distance(self.law, self.simulated)

    @property
    def title(self) -> str:
        sizes, problem = self.sizes, self.problem
        fresh = f", n = {sizes.samples}" if self.law.of == "kernel" else ""
        parts = f"d = {sizes.dimension}, N = {sizes.width}, n0 = {sizes.step_samples}{fresh}"
        learns = f"{problem.student} learns {problem.teacher}"
        return f"{WORDS[self.law.of]}: {learns}, {parts}, {self._networks}, seed {self.seed}"

    @property
    def _networks(self) -> str:
        return f"{self.replicates} network{'s' if self.replicates != 1 else ''}"

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The lines of the table: place, theory, simulation, difference and z-score."""
        for level in self.levels:
            compared = level.is_outlier or level.theory > 0.05 * self.law.edges[1]
            relative = f"{100 * level.difference / level.simulated:+.2f} %" if compared else "-"
            score = f"{level.z:+.1f}" if math.isfinite(level.z) else "-"
            yield (
                level.name,
                f"{level.theory:.5g}",
                with_error(level.simulated, level.standard_error),
                relative,
                score,
            )

    @property
    def head(self) -> Sequence[str]:
        return HEAD[0], f"theory ({self.law.bulk} bulk)", *HEAD[2:]

    def notes(self) -> Iterator[str]:
        zeros = f", {self.law.zeros:.4g} of it at zero" if self.law.atoms else ""
        bands = " and ".join(f"{low:.5g} to {high:.5g}" for low, high in self.law.bands)
        yield f"  predicted bulk: {bands}; mass {self.law.mass:.4f}{zeros}"
        values = f"{self.simulated.shape[1]} values of {self._networks}"
        yield f"  Kolmogorov-Smirnov distance of the bulk: {self.distance:.4f} ({values})"
        if self.interrupted:
            yield "interrupted: only the finished networks are compared"

    def _repr_html_(self) -> str:
        return as_html(self.title, self.rows(), HEAD)

    def to_dict(self) -> dict[str, Any]:
        """Plain values fit for JSON."""
        fields = ("theory", "simulated", "standard_error", "difference", "z")
        return {
            "problem": self.problem.to_dict(),
            "of": self.law.of,
            "dimension": self.sizes.dimension,
            "samples": self.sizes.samples,
            "width": self.sizes.width,
            "step_samples": self.sizes.step_samples,
            "replicates": self.replicates,
            "seed": self.seed,
            "distance": plain(self.distance),
            "levels": [
                {"name": level.name, **plain_fields(level, *fields)} for level in self.levels
            ],
            "law": {
                key: value
                for key, value in self.law.to_dict().items()
                if key not in ("problem", "of")
            },
            "bins": plain(self.bins),
            "histogram": plain(self.histogram),
            "simulated": plain(self.simulated),
            "seconds": self.seconds,
            "versions": versions(),
            "interrupted": self.interrupted,
        }

    def to_csv(self, path: Path) -> Path:
        """Everything that is drawn: series, value, density, and the standard error of a simulated outlier."""
        lines: list[tuple[Any, ...]] = [("series", "value", "density", "standard_error")]
        lines += [
            ("theory", value, height, "")
            for value, height in zip(self.law.values, self.law.density, strict=True)
        ]
        centres = (self.bins[1:] + self.bins[:-1]) / 2
        lines += [
            ("histogram", value, height, "")
            for value, height in zip(centres, self.histogram, strict=True)
        ]
        for level in self.levels:
            lines.append((f"{level.name}, theory", level.theory, "", ""))
            lines.append((f"{level.name}, simulated", level.simulated, "", level.standard_error))
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(lines)
        return path


def spectrum(
    problem: Problem,
    of: str = "weights",
    dimension: Any = None,
    replicates: Any = 4,
    seed: Any = 0,
    *,
    bulk: str = "exact",
    progress: Callable[[int, int], None] | None = None,
) -> Spectrum:
    """Simulate networks, and put the predicted spectrum of the same size next to theirs.

    Args:
        problem: the question; its ``dimension`` is used if ``dimension`` is not given.
        of: ``weights``, the singular values of W1, or ``kernel``, the eigenvalues of F^T F/n on the n ridge samples.
        dimension: d. The theory is taken at the simulation's whole numbers n, N and n0.
        replicates: how many networks.
        seed: a whole number >= 0; the networks are those of ``simulate`` with this seed.
        bulk: ``exact``, or ``isotropic`` to see what the spiked model makes of the same networks.
        progress: called with (finished, total) after every network.
    """
    begin = time.perf_counter()
    if not isinstance(problem, Problem):
        raise InvalidParameter("problem", "a Problem", problem, "build it with Problem(...)")
    of, bulk = choice("of", of, MATRICES), choice("bulk", bulk, BULKS)
    count, seed = whole("replicates", replicates, 1, MAX_SIZE), whole("seed", seed, 0)
    sizes = problem.sizes(dimension)
    check_memory(sizes, of)
    law = spectral_law(at_size(problem, dimension, "network"), of, bulk)
    found: list[Array] = []
    try:
        for number in range(count):
            found.append(layer_spectrum(problem, of, sizes.dimension, seed, number))
            if progress is not None:
                progress(number + 1, count)
    except KeyboardInterrupt:
        done = f"interrupted: {len(found)} of {count} networks finished"
        result = (
            _compared(problem, law, np.stack(found), sizes, seed, time.perf_counter() - begin, True)
            if found
            else None
        )
        raise Interrupted(result, done) from None
    return _compared(problem, law, np.stack(found), sizes, seed, time.perf_counter() - begin, False)


def _compared(
    problem: Problem,
    law: SpectralLaw,
    simulated: Array,
    sizes: Sizes,
    seed: int,
    seconds: float,
    interrupted: bool,
) -> Spectrum:
    low, high = law.edges
    top = [value for value in law.outliers if value > high]
    levels = [
        _level(f"outlier {k + 1}", value, simulated[:, min(k, simulated.shape[1] - 1)])
        for k, value in enumerate(top)
    ]
    for value in law.outliers[len(top) :]:  # in a gap of the bulk: the nearest
        nearest = np.argmin(np.abs(simulated - value), axis=1)
        levels.append(
            _level(
                f"outlier {len(levels) + 1} (gap)",
                value,
                simulated[np.arange(len(simulated)), nearest],
            )
        )
    rest = simulated[:, len(top) :]
    if not rest.shape[1]:
        raise InvalidParameter(
            "dimension", "larger: every value of the network is an outlier", sizes.dimension
        )
    ends = law.quantile([1 - 0.5 / rest.shape[1], 0.5 / rest.shape[1]])
    levels.append(_level("largest in the bulk", float(ends[0]), rest[:, 0], False))
    levels.append(_level("smallest in the bulk", float(ends[1]), rest[:, -1], False))
    values = np.sort(rest.ravel())
    count = int(min(80, max(12, round(math.sqrt(simulated.size)))))
    end = max(high, float(values[-1])) * 1.001
    if is_wide(law):
        bins = np.geomspace(min(low, float(values[0])) * 0.999, end, count + 1)
    else:
        bins = np.linspace(0.0 if low < 0.1 * high else 0.95 * low, end, count + 1)
    histogram = np.histogram(values, bins)[0] / (len(simulated) * sizes.width * np.diff(bins))
    return Spectrum(
        problem, law, simulated, sizes, seed, tuple(levels), bins, histogram, seconds, interrupted
    )


def is_wide(law: SpectralLaw) -> bool:
    """Whether a logarithmic axis shows it better."""
    low, high = law.edges
    return law.of == "kernel" and 0 < 20 * low < high


def distance(law: SpectralLaw, simulated: Array) -> float:
    """Kolmogorov-Smirnov distance between the bulk of a law and simulated values (a row for each network, largest first).

    As many of the largest values of every network are left out as the law has outliers above its bulk.
    """
    top = sum(value > law.edges[1] for value in law.outliers)
    values = np.sort(simulated[:, top:].ravel())
    share, predicted = np.arange(values.size + 1) / values.size, law.cumulative(values)
    return float(max(np.max(share[1:] - predicted), np.max(predicted - share[:-1])))


def _level(name: str, theory: float, values: Array, is_outlier: bool = True) -> Level:
    error = float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else math.nan
    return Level(name, theory, float(values.mean()), error, is_outlier)
