"""Teachers of several directions: how the theory lands on the tables and on simulations of ours.

``python tests/scripts/terms_tables.py``: the tables of tests/data/terms_tables.json in a few lines,
and three generic problems of two, three and four terms, simulated here (d = 350, 100 networks).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from firststep import Problem, predict

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.agreement.test_terms_tables import GENERIC, ROWS, beside

WORDS = {
    "network": "networks, d = 1500",
    "other": "networks, d = 500 and 3000",
    "layers": "given layers, d = 800",
}


def scatter() -> Iterator[str]:
    """Of the tables: differences in standard errors and in per cent, and the finite-size error."""
    yield "| simulated | numbers | rms z | largest z | rms | mean | largest | beyond the estimate |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for source, words in WORDS.items():
        scores, shares, beyond = [], [], []
        for row in (row for row in ROWS if row["source"] == source):
            found = predict(Problem(ridge=tuple(row["ridges"]), **row["problem"]))
            gap = found.risk - np.array(row["simulated"])
            error = np.array(row["standard_error"])
            scores += list(gap / error)
            shares += list(gap / np.array(row["simulated"]))
            beyond += list(np.abs(gap) > found.model_error + 2 * error)
        z, share = np.array(scores), 100 * np.array(shares)
        yield (
            f"| {words} | {z.size} | {np.sqrt(np.mean(z**2)):.2f} | {np.abs(z).max():.1f} "
            f"| {np.sqrt(np.mean(share**2)):.2f} % | {share.mean():+.2f} % "
            f"| {np.abs(share).max():.2f} % | {sum(beyond)} |"
        )


def simulated() -> Iterator[str]:
    """Of ours: risk, training error and alignments."""
    yield "| student, readout | teacher | quantity | simulated | theory | z |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for problem in GENERIC:
        sized, found, runs = beside(problem)
        teacher = " + ".join(map(str, (sized.teacher, *sized.teacher_terms)))
        quantities = [("risk", runs.risk, found.risk)]
        quantities += [("training error", runs.training_error, found.training_error)]
        quantities += [("alignments", runs.teacher_overlaps, found.alignments[0])]
        for name, estimate, theory in quantities:
            mean, error = np.ravel(estimate.mean), np.ravel(estimate.standard_error)
            pairs = ", ".join(f"{m:.4f} ± {e:.4f}" for m, e in zip(mean, error, strict=True))
            numbers = ", ".join(f"{each:.4f}" for each in np.ravel(theory))
            scores = ", ".join(f"{each:+.1f}" for each in (np.ravel(theory) - mean) / error)
            who = f"{problem.student}, {problem.readout}"
            yield f"| {who} | {teacher} | {name} | {pairs} | {numbers} | {scores} |"


if __name__ == "__main__":
    for table in (scatter, simulated):
        for line in table():
            print(line, flush=True)
        print()
