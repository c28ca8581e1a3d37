"""``spectrum``: the predicted spectrum of the first layer, or of its kernel, and simulated ones."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from firststep.checks import MAX_SIZE, choice, whole
from firststep.compare import HEAD, at_size
from firststep.errors import InvalidParameter
from firststep.problem import Problem, Sizes
from firststep.results import Interrupted, Shown, as_html, plain, plain_fields, versions, with_error
from firststep.simulation.running.spectra import check_memory, layer_spectrum
from firststep.theory.one_step.question import BULKS
from firststep.theory.spectrum.law import SpectralLaw, spectral_law
from firststep.theory.spectrum.resolvent import MATRICES
from firststep.typing import Array
from firststep.writing import write_csv

if TYPE_CHECKING:
    from firststep.typing import Float

WORDS = {"weights": "singular values of W1", "kernel": "eigenvalues of F^T F/n"}


class Level(NamedTuple):
    """One place of the spectrum: theory, simulation and how far apart they are.

    Of the largest and the smallest of the M values of the bulk theory knows where half a value is
    to be expected beyond: near the mean, but not the mean itself, so that they have no z-score.
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
        """Difference over the simulation's standard error; nan for one network, and in the bulk."""
        is_known = self.is_outlier and self.standard_error > 0
        return self.difference / self.standard_error if is_known else math.nan


@dataclass(frozen=True, eq=False, repr=False)
class Spectrum(Shown):
    """A predicted spectrum at the size of simulated networks, and theirs."""

    problem: Problem
    law: SpectralLaw
    # A row for each network, largest first: the values that are not zero by shape.
    simulated: Float[Array, "networks M"]
    sizes: Sizes
    seed: int
    levels: tuple[Level, ...]
    bins: Float[Array, " bins+1"]  # edges of the histogram
    # Of the simulated values, as a density over all N of them: to be compared with law.density.
    histogram: Float[Array, " bins"]
    seconds: float
    interrupted: bool = False

    @classmethod
    def of(
        cls,
        problem: Problem,
        law: SpectralLaw,
        simulated: Float[Array, "networks M"],
        *,
        sizes: Sizes,
        **run: Any,
    ) -> Spectrum:
        """Simulated values beside a law; ``run``: seed, seconds and whether it was interrupted."""
        above = _above(law)
        bulk = simulated[:, above:]
        if not bulk.shape[1]:
            allowed = "larger: every value of the network is an outlier"
            raise InvalidParameter("dimension", allowed, sizes.dimension)
        bins = _bins(law, bulk, simulated.size)
        areas = len(simulated) * sizes.width * np.diff(bins)
        return cls(
            problem=problem,
            law=law,
            simulated=simulated,
            sizes=sizes,
            levels=tuple(_levels(law, simulated, above)),
            bins=bins,
            histogram=np.histogram(bulk, bins)[0] / areas,
            **run,
        )

    @property
    def outliers(self) -> tuple[Level, ...]:
        return tuple(level for level in self.levels if level.is_outlier)

    def __getitem__(self, name: str) -> Level:
        return {level.name: level for level in self.levels}[name]

    @property
    def replicates(self) -> int:
        return len(self.simulated)

    @property
    def distance(self) -> float:
        """Kolmogorov-Smirnov distance of the simulated values, outliers apart, to the bulk."""
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
        # Near zero a difference of a small part of the bulk is a large part of the value.
        small = 0.05 * self.law.edges[1]
        for level in self.levels:
            compared = level.is_outlier or level.theory > small
            yield (
                level.name,
                f"{level.theory:.5g}",
                with_error(level.simulated, level.standard_error),
                f"{100 * level.difference / level.simulated:+.2f} %" if compared else "-",
                f"{level.z:+.1f}" if math.isfinite(level.z) else "-",
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
        law = self.law.to_dict()
        return {
            "problem": self.problem.to_dict(),
            "of": self.law.of,
            **asdict(self.sizes),
            "replicates": self.replicates,
            "seed": self.seed,
            "distance": plain(self.distance),
            "levels": [{"name": each.name, **plain_fields(each, *fields)} for each in self.levels],
            "law": {key: value for key, value in law.items() if key not in ("problem", "of")},
            **plain_fields(self, "bins", "histogram", "simulated"),
            "seconds": self.seconds,
            "versions": versions(),
            "interrupted": self.interrupted,
        }

    def to_csv(self, path: Path) -> Path:
        """Everything that is drawn: series, value, density, and standard errors of outliers."""
        lines: list[tuple[Any, ...]] = [("series", "value", "density", "standard_error")]
        centres = (self.bins[1:] + self.bins[:-1]) / 2
        for series, values, heights in (
            ("theory", self.law.values, self.law.density),
            ("histogram", centres, self.histogram),
        ):
            pairs = zip(values, heights, strict=True)
            lines += [(series, value, height, "") for value, height in pairs]
        for level in self.levels:
            lines.append((f"{level.name}, theory", level.theory, "", ""))
            lines.append((f"{level.name}, simulated", level.simulated, "", level.standard_error))
        write_csv(path, lines)
        return path


def spectrum(
    problem: Problem,
    of: str = "weights",
    dimension: object = None,
    replicates: object = 4,
    seed: object = 0,
    *,
    bulk: str = "exact",
    progress: Callable[[int, int], None] | None = None,
) -> Spectrum:
    """Simulate networks, and put the predicted spectrum of the same size next to theirs.

    Args:
        problem: the question; its ``dimension`` is used if ``dimension`` is not given.
        of: ``weights``, the singular values of W1, or ``kernel``, the eigenvalues of F^T F/n on the
            n ridge samples.
        dimension: d. The theory is taken at the simulation's whole numbers n, N and n0.
        replicates: how many networks.
        seed: a whole number >= 0; the networks are those of ``simulate`` with this seed.
        bulk: ``exact``, or ``isotropic`` to see what the spiked model makes of the same networks.
        progress: called with (finished, total) after every network.
    """
    begin = time.perf_counter()
    problem = Problem.asked(problem)
    of, bulk = choice("of", of, MATRICES), choice("bulk", bulk, BULKS)
    count, first = whole("replicates", replicates, 1, MAX_SIZE), whole("seed", seed, 0)
    sizes = problem.sizes(dimension)
    check_memory(sizes, of)
    law = spectral_law(at_size(problem, dimension, "network"), of, bulk)
    found: list[Float[Array, " M"]] = []

    def compared(interrupted: bool) -> Spectrum:
        return Spectrum.of(
            problem,
            law,
            np.stack(found),
            sizes=sizes,
            seed=first,
            seconds=time.perf_counter() - begin,
            interrupted=interrupted,
        )

    try:
        for number in range(count):
            found.append(layer_spectrum(problem, of, sizes.dimension, first, number))
            if progress is not None:
                progress(number + 1, count)
    except KeyboardInterrupt:
        done = f"interrupted: {len(found)} of {count} networks finished"
        raise Interrupted(compared(True) if found else None, done) from None
    return compared(False)


def _above(law: SpectralLaw) -> int:
    """How many outliers lie above the bulk."""
    return sum(value > law.edges[1] for value in law.outliers)


def _levels(law: SpectralLaw, simulated: Float[Array, "networks M"], above: int) -> Iterator[Level]:
    """The outliers, ``above`` of them beyond the bulk, and the ends of the bulk."""
    top, gap = law.outliers[:above], law.outliers[above:]
    for k, value in enumerate(top):
        yield _level(f"outlier {k + 1}", value, simulated[:, k])
    for k, value in enumerate(gap, above):  # in a gap of the bulk: the nearest
        nearest = np.argmin(np.abs(simulated - value), axis=1, keepdims=True)
        values = np.take_along_axis(simulated, nearest, axis=1)[:, 0]
        yield _level(f"outlier {k + 1} (gap)", value, values)
    bulk = simulated[:, above:]
    share = 0.5 / bulk.shape[1]  # half a value
    high, low = law.quantile([1 - share, share])
    yield _level("largest in the bulk", float(high), bulk[:, 0], is_outlier=False)
    yield _level("smallest in the bulk", float(low), bulk[:, -1], is_outlier=False)


def _bins(
    law: SpectralLaw, bulk: Float[Array, "networks values"], size: int
) -> Float[Array, " bins+1"]:
    """Edges of the histogram: as many bins as the root of the number of values, 12 to 80.

    Fewer hide the shape of the bulk, more show the scatter of the networks. The ends lie a little
    beyond the values, so that rounding leaves none out.
    """
    low, high = law.edges
    count = int(min(80, max(12, round(math.sqrt(size)))))
    end = max(high, float(bulk.max())) * 1.001
    if is_wide(law):
        return np.geomspace(min(low, float(bulk.min())) * 0.999, end, count + 1)
    # A bulk that begins near zero is shown from zero.
    return np.linspace(0.0 if low < 0.1 * high else 0.95 * low, end, count + 1)


def is_wide(law: SpectralLaw) -> bool:
    """Whether a logarithmic axis shows it better: where its ends are a factor of 20 apart."""
    low, high = law.edges
    return law.of == "kernel" and 0 < 20 * low < high


def distance(law: SpectralLaw, simulated: Float[Array, "networks M"]) -> float:
    """Kolmogorov-Smirnov distance between the bulk of a law and simulated values.

    ``simulated`` has a row for each network, largest first. As many of the largest values of every
    network are left out as the law has outliers above its bulk.
    """
    values = np.sort(simulated[:, _above(law) :].ravel())
    share, predicted = np.arange(values.size + 1) / values.size, law.cumulative(values)
    return float(max(np.max(share[1:] - predicted), np.max(predicted - share[:-1])))


def _level(
    name: str, theory: float, values: Float[Array, " networks"], *, is_outlier: bool = True
) -> Level:
    error = float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else math.nan
    return Level(
        name=name,
        theory=theory,
        simulated=float(values.mean()),
        standard_error=error,
        is_outlier=is_outlier,
    )
