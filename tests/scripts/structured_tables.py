"""Inputs with a spectrum: how the theory lands on the published tables.

``python tests/scripts/structured_tables.py``: the rows of tests/data/structured_tables.json by the
largest eigenvalue (mild: its square at most 0.05 d), the differences in per cent and in standard
errors, and how many the finite-size error covers. ``--rows`` prints the steep ones one by one;
``--losses`` other losses, labels and noise laws beside 200 networks of d = 250 that it simulates.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from firststep import Prediction

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.theory.one_step.test_structured import TABLES, of_the_row
from tests.theory.one_step.test_structured_networks import OTHERS, simulated

ASSUMED = 0.005  # of a risk: the standard error where the tables give a range, 0.3 to 0.7 %
KINDS = {
    "mild, power laws": lambda row, steep: not steep and row["inputs"].startswith("power"),
    "mild, two levels": lambda row, steep: not steep and row["inputs"].startswith("two"),
    "power-law:0.45": lambda row, steep: row["inputs"] == "power-law:0.45",
    "power-law:0.6": lambda row, steep: row["inputs"] == "power-law:0.6",
    "power-law:1": lambda row, steep: row["inputs"] == "power-law:1",
}


class Compared(NamedTuple):
    row: dict[str, Any]
    found: Prediction
    is_steep: bool

    @property
    def shares(self) -> Any:
        """Theory less simulation, over the simulation."""
        return self.found.risk / np.array(self.row["simulated"]) - 1

    @property
    def errors(self) -> Any:
        """Standard errors over the simulation."""
        simulated = np.array(self.row["simulated"])
        return np.array(self.row.get("errors", ASSUMED * simulated)) / simulated

    @property
    def estimates(self) -> Any:
        return self.found.model_error / np.array(self.row["simulated"])


def compared() -> list[Compared]:
    return [Compared(row, *of_the_row(row)) for row in TABLES["rows"]]


def summary(rows: list[Compared]) -> Iterator[str]:
    yield (
        "| inputs | numbers | rms z | rms | mean | largest | median estimate "
        "| beyond the estimate | off by more than 3 %, flagged |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for name, belongs in KINDS.items():
        some = [each for each in rows if belongs(each.row, each.is_steep)]
        share, error, estimate = (
            np.concatenate([np.ravel(getattr(each, what)) for each in some])
            for what in ("shares", "errors", "estimates")
        )
        far = np.abs(share) > 0.03
        beyond = np.abs(share) > estimate + 2 * error
        yield (
            f"| {name} | {share.size} | {np.sqrt(np.mean((share / error) ** 2)):.1f} "
            f"| {100 * np.sqrt(np.mean(share**2)):.2f} % | {100 * share.mean():+.2f} % "
            f"| {100 * np.abs(share).max():.1f} % | {100 * np.median(estimate):.2f} % "
            f"| {beyond.sum()} | {np.sum(far & (estimate > 0.03))} of {far.sum()} |"
        )


def steep_rows(rows: list[Compared]) -> Iterator[str]:
    yield "| student, teacher | inputs | α₀, step | ridge | simulated | theory | off | estimate |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for row, found, is_steep in rows:
        if not is_steep:
            continue
        for i, ridge in enumerate(row["ridges"]):
            measured = row["simulated"][i]
            yield (
                f"| {row['student']}, {row['teacher']} | {row['inputs']}, {row['overlaps']} "
                f"| {row['alpha0']}, {row['step']} | {ridge} | {measured} "
                f"| {found.risk[i]:.4f} | {100 * (found.risk[i] / measured - 1):+.1f} % "
                f"| {100 * found.model_error[i] / measured:.1f} % |"
            )


def losses() -> Iterator[str]:
    yield "| problem | number | simulation less theory | finite-size error |"
    yield "| --- | --- | --- | --- |"
    for name in OTHERS:
        for of, off, noise, estimate in simulated(name, 200):
            yield (
                f"| {name} | {of} | {100 * off:+.2f} ± {100 * noise:.2f} % "
                f"| {100 * estimate:.1f} % |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--losses", action="store_true", help="other losses, simulated here")
    parser.add_argument("--rows", action="store_true", help="the steep rows one by one")
    asked = parser.parse_args()
    if asked.losses:
        lines = losses()
    else:
        lines = steep_rows(compared()) if asked.rows else summary(compared())
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()
