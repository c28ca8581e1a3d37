"""The numbers that decide what stands out of a bulk, measured on matrices of noise.

    python tests/scripts/calibrate_bulk.py constants   # of firststep.trained.noise
    python tests/scripts/calibrate_bulk.py alarms      # the tables of docs/validation.md
    python tests/scripts/calibrate_bulk.py coverage

constants: how far 99 % of noise matrices are from their law, in values, and a straight line in
log n through it; what 99 % of the largest t_1 ... t_20 above a fitted edge are below.
alarms: how often a matrix without a signal has an outlier, and which bulk it is given.
coverage: low rank plus noise; sizes within their error bars, and overlaps against the true vectors.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy.linalg import eigh_tridiagonal

from firststep.trained import noise
from firststep.trained.look import look_at
from firststep.trained.noise_fit import noise_fit
from firststep.trained.scaling import scaled_matrix
from firststep.trained.singular import Singular
from firststep.typing import Array

Draw: TypeAlias = Callable[[np.random.Generator, int, int], Array]


def _normal(generator: np.random.Generator, m: int, n: int) -> Array:
    return generator.standard_normal((m, n))


def _correlated(generator: np.random.Generator, m: int, n: int) -> Array:
    steps = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    return _normal(generator, m, n) @ np.linalg.cholesky(0.5**steps).T


ENTRIES: dict[str, Draw] = {
    "Gaussian": _normal,
    "uniform": lambda g, m, n: g.uniform(-1, 1, (m, n)),
    "signs": lambda g, m, n: np.sign(_normal(g, m, n)),
    "8 levels": lambda g, m, n: np.clip(np.floor(2 * _normal(g, m, n)), -4, 3) + 0.5,
    "Laplace": lambda g, m, n: g.laplace(size=(m, n)),
    "Student t, 5": lambda g, m, n: g.standard_t(5, (m, n)),
    "Student t, 3": lambda g, m, n: g.standard_t(3, (m, n)),
    "rows of unequal size": lambda g, m, n: _normal(g, m, n) * np.exp(0.5 * _normal(g, m, 1)),
    "product of two": lambda g, m, n: _normal(g, m, n) @ _normal(g, n, n),
    "neighbours correlated": _correlated,
}
SHAPES = ((20, 20), (60, 40), (300, 60), (100, 100), (600, 150), (200, 200))


def largest(generator: np.random.Generator, m: int, n: int, count: int) -> Array:
    """The first singular values of Gaussian noise, from a bidiagonal matrix with the same ones
    (Dumitriu and Edelman 2002).
    """
    diagonal = np.sqrt(generator.chisquare(m - np.arange(n)))
    below = np.sqrt(generator.chisquare(np.arange(n - 1, 0, -1)))
    squares = diagonal**2
    squares[1:] += below**2
    ends = (n - count, n - 1)
    found = eigh_tridiagonal(
        squares, diagonal[:-1] * below, eigvals_only=True, select="i", select_range=ends
    )
    return np.sqrt(found[::-1])


def constants(draws: int) -> None:
    generator = np.random.default_rng(0)
    print("distance to the law in values, 99 % of matrices: shape, entries, equal, scaled")
    lines: dict[str, list[tuple[float, float]]] = {"equal": [], "scaled": []}
    for n in (10, 20, 50, 100, 200):
        for aspect in (1.0, 1.5, 5.0):
            m = round(aspect * n)
            for name in ("Gaussian", "uniform"):
                found: dict[str, list[float]] = {"equal": [], "scaled": []}
                for _ in range(max(200, draws // n)):
                    plain = Singular(ENTRIES[name](generator, m, n))
                    scaled, _, _ = scaled_matrix(plain, 0)
                    for kind, one in (("equal", plain), ("scaled", scaled)):
                        fit = noise_fit(one.values, (m, n), kind)
                        found[kind].append(n * fit.distance)
                tops = {kind: float(np.quantile(each, 0.99)) for kind, each in found.items()}
                for kind, top in tops.items():
                    lines[kind].append((math.log(n), top))
                print(f"  {m} x {n}, {name}: {tops['equal']:.2f}, {tops['scaled']:.2f}", flush=True)
    for kind, points in lines.items():
        slope, start = np.polyfit(*np.array(points).T, 1)
        print(f"  {kind}: {start:.2f} + {slope:.2f} log n (kept: {noise._FARTHEST[kind]})")
    print("largest of t_1 ... t_20 above a fitted edge, 99 %:")
    for n, aspect in ((60, 1), (60, 5), (99, 1), (100, 1), (100, 5), (300, 1), (1000, 2)):
        count = min(n, noise.MOST + 4 * noise.neighbours(n))
        tops_t = []
        for _ in range(draws // 10):
            values = largest(generator, aspect * n, n, count)
            padded = np.concatenate([values, np.zeros(n - count)])  # the lengths decide K
            tops_t.append(float(noise.apart(padded).max()))
        kept = noise.APART[noise.neighbours(n)]
        print(f"  {aspect * n} x {n}: {np.quantile(tops_t, 0.99):.2f} (kept: {kept})", flush=True)


def alarms(draws: int) -> None:
    shapes = " | ".join(f"{m} x {n}" for m, n in SHAPES)
    print(f"| entries | {shapes} |\n| --- |{' --- |' * len(SHAPES)}")
    for number, (name, draw) in enumerate(ENTRIES.items()):
        generator = np.random.default_rng((1, number))
        cells = []
        for m, n in SHAPES:
            count = max(draws // 3, min(draws, draws * 3000 // (m * n)))
            kinds: Counter[str] = Counter()
            wrong = 0
            for _ in range(count):
                look = look_at(draw(generator, m, n))
                assert look is not None
                kinds[look.kind] += 1
                wrong += bool(look.count)
            kind, most = kinds.most_common(1)[0]
            error = 100 * math.sqrt(max(wrong, 1)) / count
            share = f"{100 * wrong / count:.1f} ± {error:.1f} %"
            cells.append(f"{share}, {kind} {100 * most / count:.0f} %")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def coverage(draws: int) -> None:
    generator = np.random.default_rng(2)
    words = (
        "shape",
        "theta/(m n)^(1/4)",
        "found",
        "(size - theta)/error, mean and sd",
        "within 1.96 errors",
        "squared overlap of rows: predicted, measured",
        "of columns",
    )
    print(f"| {' | '.join(words)} |")
    print(f"|{' --- |' * 7}")
    shapes = ((400, 100, False), (150, 300, False), (200, 200, False), (200, 120, True))
    for m, n, uneven in shapes:
        for strength in (1.3, 1.6, 2.5, 8.0):
            scores, rows, columns = _scores(generator, (m, n), strength, draws, uneven)
            z = np.array(scores)
            pairs = [
                ", ".join(f"{x:.3f}" for x in np.mean(both, axis=0)) for both in (rows, columns)
            ]
            cells = (
                f"{m} x {n}{', uneven' if uneven else ''}",
                str(strength),
                f"{100 * len(z) / draws:.0f} %",
                f"{z.mean():+.2f}, {z.std():.2f}",
                f"{100 * np.mean(np.abs(z) < 1.96):.1f} %",
                *pairs,
            )
            print(f"| {' | '.join(cells)} |", flush=True)


def _scores(
    generator: np.random.Generator,
    shape: tuple[int, int],
    strength: float,
    draws: int,
    uneven: bool,
) -> tuple[list[float], list[tuple[float, float]], list[tuple[float, float]]]:
    """Of the first outlier, where there is one: how many errors its size is off, and its overlaps
    as predicted and measured. Uneven: rows of noise with sizes from 0.4 to 1.6.
    """
    m, n = shape
    theta = strength * (m * n) ** 0.25
    scores, rows, columns = [], [], []
    for _ in range(draws):
        u, v = generator.standard_normal(m), generator.standard_normal(n)
        u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
        sizes = generator.uniform(0.4, 1.6, (m, 1)) if uneven else 1.0
        look = look_at(theta * np.outer(u, v) + sizes * generator.standard_normal(shape))
        assert look is not None
        if look.is_noise and look.count:
            first = look.outliers[0]
            scores.append((first.size - theta) / first.size_error)
            rows.append((first.rows_overlap, float(look.left[:, 0] @ u) ** 2))
            columns.append((first.columns_overlap, float(look.right[:, 0] @ v) ** 2))
    return scores, rows, columns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("constants", "alarms", "coverage"))
    parser.add_argument("--draws", type=int, default=0, help="matrices; default: as in the tables")
    asked = parser.parse_args()
    part, usual = {
        "constants": (constants, 20000),
        "alarms": (alarms, 600),
        "coverage": (coverage, 200),
    }[asked.part]
    part(asked.draws or usual)
