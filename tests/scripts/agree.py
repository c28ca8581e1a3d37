"""Run cases and print a table: ``python tests/scripts/agree.py [--backend jax] [section9
convergence large small reference]``.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from firststep import simulate

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.agreement import tables
from tests.agreement.tables import Case


class Comparison(NamedTuple):
    case: Case
    quantity: str
    ridge: float
    expected: float
    expected_error: float
    found: float
    found_error: float

    @property
    def z(self) -> float:
        return (self.found - self.expected) / math.hypot(self.expected_error, self.found_error)

    def row(self) -> str:
        case = self.case
        where = [case.name, case.model, case.dimension, self.quantity, f"{self.ridge:.3g}"]
        expected = f"{self.expected:.5f} ± {self.expected_error:.5f}"
        found = f"{self.found:.5f} ± {self.found_error:.5f}"
        return f"| {' | '.join(map(str, [*where, expected, found, f'{self.z:+.1f}']))} |"


def compare(
    case: Case, replicates: int | None = None, seed: int = 20, **options: Any
) -> Iterator[Comparison]:
    """Every number of the case next to ours.

    With few replicates, our error is not taken smaller than the case's spread implies.
    """
    count = replicates or case.replicates
    found = simulate(case.problem, case.dimension, count, seed, model=case.model, **options)
    for quantity in ("risk", "training_error"):
        estimate = getattr(found, quantity)
        means, errors = np.atleast_1d(estimate.mean), np.atleast_1d(estimate.standard_error)
        for column, (expected, expected_error) in enumerate(getattr(case, quantity)):
            ridge = case.problem.ridges[column]
            implied = (
                expected_error * math.sqrt(case.replicates / count)
                if count < case.replicates
                else 0.0
            )
            error = max(float(errors[column]), implied)
            yield Comparison(
                case, quantity, ridge, expected, expected_error, float(means[column]), error
            )


SETS = {
    "section9": lambda: tables.SECTION_9,
    "convergence": lambda: tables.CONVERGENCE,
    "large": lambda: tables.LARGE,
    "small": lambda: tables.SMALL_STEP,
    "reference": tables.reference,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=list(SETS))
    parser.add_argument("--backend", default="numpy")
    parser.add_argument("--replicates", type=int)
    parser.add_argument("--first", type=int, default=0, help="number of the first case of each set")
    arguments = parser.parse_args()
    print("| case | model | d | quantity | ridge | expected | firststep | z |\n|" + " --- |" * 8)
    scores = []
    for name in arguments.sets:
        for number, case in list(enumerate(SETS[name]()))[arguments.first :]:
            for each in compare(
                case, arguments.replicates, seed=100 + number, backend=arguments.backend
            ):
                print(each.row(), flush=True)
                scores.append(each.z)
    inside = np.mean(np.abs(scores) < 3)
    print(
        f"\n{len(scores)} numbers, {inside:.1%} within 3 standard errors, "
        f"rms z {np.sqrt(np.mean(np.square(scores))):.2f}, "
        f"largest |z| {np.max(np.abs(scores)):.1f}"
    )


if __name__ == "__main__":
    main()
