"""The finite-size errors of the theory on inputs with a spectrum against simulated networks.

    python tests/scripts/structured_networks.py --out tests/data/structured_networks.jsonl \\
        --first 200 --last 438
    python tests/scripts/structured_networks.py --out tests/data/structured_networks_new.jsonl \\
        --first 1000 --last 1063 --smallest 400 --seconds 12
    python tests/scripts/structured_networks.py --first 2000 --last 2048 --smallest 300 \\
        --seconds 10 --focused --out tests/data/structured_networks_focused.jsonl
    python tests/scripts/structured_model_error.py        tables with the weights as they are
    python tests/scripts/structured_model_error.py --fit  `steep` from two thirds of the first file

As ``model_error.py`` does where Omega = 1, of which all weights but that of ``steep`` are kept. The
second and third files are not fitted to.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from finite_networks import FIELDS
from loss_model_error import Answer, answer, gathered
from model_error import NOISE, OFF, Set, fitted, print_coverage, print_outside, print_weights, rms
from structured_networks import OF_THE_DATA

from firststep import Problem
from firststep.theory.one_step.model_error import FLAGGED, WEIGHTS
from firststep.theory.one_step.question import medium_of

DATA = Path(__file__).resolve().parents[1] / "data"
NUMBERS = ("risk", "test_loss", "error_rate")
EDGES = (0, 0.01, 0.05, 0.2, 1, 100)  # of varpi_max^2/d
EXACT = 0.01  # a number within it, or within three standard errors, is as good as the simulation


def read(name: str) -> list[dict[str, Any]]:
    """The rows of a file, with means and standard errors as pairs; the risk of ridge fits only."""
    rows = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text().splitlines()]
    for row in rows:
        for of in NUMBERS:
            if of in row:
                row[of] = (row[of], row[f"{of}_error"])
        if row["loss"] != "square":
            del row["risk"]
    return rows


def steepness(row: dict[str, Any]) -> float:
    """varpi_max^2/d."""
    problem = Problem(**{name: row[name] for name in (*FIELDS, *OF_THE_DATA)})
    return max(medium_of(problem).levels) ** 2 / problem.dimension


def print_by_steepness(problems: Set, weights: Any, steep: dict[int, float]) -> None:
    """Accuracy and coverage by the largest eigenvalue."""
    columns = "problems, median difference, rms without the simulation's, mean, median estimate, "
    columns += "inside with the simulation's error, off by more than 5 %, of those flagged, "
    columns += "flagged in all"
    print("\n| largest eigenvalue²/d | " + " | ".join(columns.split(", ")) + " |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    sizes = np.array([steep[int(number)] for number in problems.number])
    for low, high in itertools.pairwise(EDGES):
        some = problems.part((sizes >= low) & (sizes < high))
        if not some.off.size:
            continue
        estimate, off = some.terms @ weights, np.abs(some.off)
        clear = off - 2 * some.noise > OFF
        cells = [
            f"{low:g} to {high:g}" if high < EDGES[-1] else f"above {low:g}",
            f"{off.size}",
            f"{100 * np.median(off):.2f} %",
            f"{rms(some)} %",
            f"{100 * np.mean(some.off):+.2f} %",
            f"{100 * np.median(estimate):.2f} %",
            f"{100 * np.mean(off <= np.hypot(estimate, NOISE * some.noise)):.0f} %",
            f"{clear.sum()}",
            f"{np.sum(estimate[clear] > FLAGGED)}",
            f"{np.sum(estimate > FLAGGED)}",
        ]
        print("| " + " | ".join(cells) + " |")


def print_target(problems: Set, weights: Any) -> None:
    """How many are as good as the simulation, and of the others how many the estimate covers."""
    off, estimate = np.abs(problems.off), problems.terms @ weights
    good = (off <= 3 * problems.noise) | (off <= EXACT)
    covered = off <= np.hypot(estimate, NOISE * problems.noise)
    print(
        f"\n{good.sum()} of {off.size} within three standard errors or 1 %; "
        f"of the other {np.sum(~good)} the estimate covers {np.sum(covered & ~good)}"
    )


def report(
    rows: Sequence[dict[str, Any]], answers: Sequence[Answer], of: str, weights: Any
) -> None:
    """All tables of one number."""
    problems = gathered(rows, answers, of)
    by_number = {row["number"]: row for row in rows}
    steep = {number: steepness(row) for number, row in by_number.items() if of in row}
    print(f"\n### {of}")
    print_weights(weights)
    print_by_steepness(problems, weights, steep)
    print_coverage(problems, weights)
    print_target(problems, weights)
    print("\nFarthest outside:")
    print_outside(problems, weights, by_number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--files",
        nargs="*",
        default=["structured_networks", "structured_networks_new", "structured_networks_focused"],
    )
    asked = parser.parse_args()
    weights = {of: np.array(WEIGHTS[of]) for of in NUMBERS}
    for name in asked.files:
        rows = read(name)
        ask = partial(answer, fields=(*FIELDS, *OF_THE_DATA), measured=NUMBERS)
        with ProcessPoolExecutor(asked.workers) as pool:
            found = list(pool.map(ask, rows, chunksize=4))
        pairs = [(row, a) for row, a in zip(rows, found, strict=True) if isinstance(a, Answer)]
        print(f"\n## {name}: {len(rows)} problems, {len(rows) - len(pairs)} refused by the theory")
        print("\n".join(each for each in found if isinstance(each, str)))
        rows, answers = [row for row, _ in pairs], [a for _, a in pairs]
        for of in NUMBERS:
            if asked.fit and name == asked.files[0]:
                problems, kept = gathered(rows, answers, of), WEIGHTS[of]
                some = problems.part(problems.number % 3 != 0)
                least, most = kept._replace(steep=0.0), kept._replace(steep=None)
                weights[of] = fitted(some, least, most)
            report(rows, answers, of, weights[of])


if __name__ == "__main__":
    main()
