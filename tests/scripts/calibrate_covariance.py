"""The second table of docs/inputs.md: how often ``diagnose_inputs`` says that the covariance alone
is wrong, and what else is wrong with the inputs does to the risk.

    python tests/scripts/calibrate_covariance.py [--dimension 200] [--draws 20] [--replicates 8]

Every kind is x = Omega^(1/2) z with a spectrum and entries z of covariance I, independent or with a
common scale; its risk is compared with that of N(0, Omega), on tables made of the same Gaussian
numbers where the law is a map of them.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.stats
from numpy.random import Generator

from firststep import DataInputs, Workers, diagnose_inputs, simulate
from firststep.inputs import StructuredInputs, input_law
from tests.scripts.calibrate import PROBLEMS

RATIOS = (2, 5, 20)  # rows over columns of a table that is diagnosed
TABLE = 60  # rows over columns of one that is simulated

Entries = Callable[[np.ndarray, Generator], np.ndarray]  # of N(0, I)


def gaussian(z: np.ndarray, rng: Generator) -> np.ndarray:
    return z


def elliptical(nu: float) -> Entries:
    """A scale for every row, of t with nu degrees of freedom, E x^2 = 1."""
    return lambda z, rng: z * np.sqrt((nu - 2) / rng.chisquare(nu, (len(z), 1)))


def student(nu: float) -> Entries:
    """Independent entries of a t law of variance one."""

    def made(z: np.ndarray, rng: Generator) -> np.ndarray:
        return np.asarray(scipy.stats.t.ppf(scipy.stats.norm.cdf(z), nu) * math.sqrt((nu - 2) / nu))

    return made


def clusters(distance: float) -> Entries:
    """Two along the leading component, variance one there."""

    def made(z: np.ndarray, rng: Generator) -> np.ndarray:
        moved = z.copy()
        moved[:, 0] += distance * rng.choice([-1.0, 1.0], len(z))
        moved[:, 0] /= math.sqrt(1 + distance**2)
        return moved

    return made


def exponential(z: np.ndarray, rng: Generator) -> np.ndarray:
    """Independent entries of skewness 2."""
    return np.asarray(-np.log(scipy.stats.norm.sf(z)) - 1)


@dataclass(frozen=True)
class Kind:
    words: str
    spectrum: str
    entries: Entries = gaussian
    rotated: bool = True  # whether columns are not the principal components

    def table(self, rows: int, d: int, rng: Generator, *, plain: bool = False) -> np.ndarray:
        law = input_law(self.spectrum)
        assert isinstance(law, StructuredInputs)
        z = rng.standard_normal((rows, d))
        entries = z if plain else self.entries(z, rng)
        found = entries * np.sqrt(law.eigenvalues(d))
        if not self.rotated:
            return np.asarray(found)
        turn, _ = np.linalg.qr(np.random.default_rng(7).standard_normal((d, d)))
        return np.asarray(found @ turn)


KINDS = (
    *(Kind(f"Gaussian, `{s}`", s) for s in ("power-law:0.2", "power-law:0.3", "two-level:5:0.2")),
    *(Kind(f"Gaussian, `{s}`", s) for s in ("power-law:0.6", "power-law:1")),
    *(
        Kind(f"a common scale, `elliptical-t:{nu}` times `power-law:0.3`", "power-law:0.3", made)
        for nu, made in ((nu, elliptical(nu)) for nu in (200, 100, 60, 40, 20, 10))
    ),
    *(
        Kind(f"independent `student-t:{nu:g}` times `power-law:0.3`", "power-law:0.3", made)
        for nu, made in ((nu, student(nu)) for nu in (10, 5, 4, 3))
    ),
    Kind("exponential, skewness 2, times `power-law:0.3`", "power-law:0.3", exponential, False),
    Kind("clusters along the first of `power-law:0.6`", "power-law:0.6", clusters(3)),
)


def verdicts(kind: Kind, d: int, ratio: int, draws: int) -> tuple[float, float]:
    """The shares that are said to be wrong in the covariance alone, and trusted."""
    found = []
    for seed in range(draws):
        rng = np.random.default_rng([seed, ratio])
        seen = diagnose_inputs(kind.table(max(ratio * d, 200), d, rng), seed=seed)
        found.append((seen.covariance_only, seen.trusted))
    only, trusted = np.mean(found, axis=0)
    return float(only), float(trusted)


def differences(kind: Kind, d: int, replicates: int, workers: Workers) -> list[tuple[float, float]]:
    """Of the risk from that of N(0, Omega), relative to it, with standard errors."""
    if kind.entries is gaussian:
        return []
    tables = [
        DataInputs.of(kind.table(TABLE * d, d, np.random.default_rng(3), plain=plain))
        for plain in (False, True)
    ]
    found = []
    for problem in PROBLEMS.values():
        asked = problem.replace(noise=max(problem.noise, 0.1))
        values, base = (
            simulate(asked, d, replicates, inputs=table, workers=workers).risk.values
            for table in tables
        )
        error = (values - base).std(ddof=1) / math.sqrt(replicates)
        found.append(((values - base).mean() / base.mean(), error / base.mean()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimension", type=int, default=200)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--replicates", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    d = asked.dimension
    rates = " | ".join(f"rows = {ratio} d" for ratio in RATIOS)
    print(f"| inputs, d = {d} | {rates} | {' | '.join(PROBLEMS)} |")
    print("| --- " * (1 + len(RATIOS) + len(PROBLEMS)) + "|")
    with Workers(asked.workers) as workers:
        for kind in KINDS:
            shares = [verdicts(kind, d, ratio, asked.draws) for ratio in RATIOS]
            told = " | ".join(
                f"{only:.0%}" + (f" ({trusted:.0%} trusted)" if trusted else "")
                for only, trusted in shares
            )
            risks = " | ".join(
                f"{100 * value:+.1f} ± {100 * error:.1f} %"
                for value, error in differences(kind, d, asked.replicates, workers)
            )
            risks = risks or " | ".join("0" for _ in PROBLEMS)
            print(f"| {kind.words} | {told} | {risks} |", flush=True)


if __name__ == "__main__":
    main()
