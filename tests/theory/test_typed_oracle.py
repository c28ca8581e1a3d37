"""The equations of typed neurons, written plainly, against published numbers and simulations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.theory.typed_oracle import Question, solve

TABLES = json.loads(
    (Path(__file__).parents[1] / "data" / "structured_tables.json").read_text(encoding="utf-8")
)
STEEP = [row for row in TABLES["rows"] if row["set"] == "steep" and row["inputs"] != "power-law:1"]
# The risk relative to simulations, per cent, at ridge 0.01 and 0.1: as published.
PUBLISHED = (
    (0.3, 0.2), (1.5, 1.2), (0.2, 0.0), (0.6, 0.4), (0.8, 0.6), (-0.1, 0.0), (2.1, 1.2), (0.7, 0.7),
    (2.1, 1.8), (4.7, 3.3), (1.4, 0.7), (0.3, -0.1), (2.1, 3.5), (0.6, 0.3), (0.3, 0.2), (4.5, 1.6),
    (3.2, 1.9), (1.1, 0.7), (0.5, 0.6), (1.5, 1.5), (1.4, 1.3), (2.5, 1.9), (2.2, 1.9),
    (-0.6, -0.6), (2.1, 1.8),
)  # fmt: skip
# Published values up to 2.6 off, probably not converged: off their solution sweeps divide by the
# squares of small numbers. These equations solved with 2 to 5 functions and 9 to 121 types agree
# to 0.15 with each other, and are nearer to the simulations.
DOUBTED = {(3, 0), (3, 1), (6, 0), (9, 0), (10, 0), (12, 1), (15, 0), (16, 0), (16, 1)}


def name_of(place: int) -> str:
    row = STEEP[place]
    return " ".join(str(row[word]) for word in ("student", "inputs", "overlaps", "step", "alpha"))


def off_by(row: dict[str, Any], number: int) -> float:
    size, noise = TABLES["dimension"], TABLES["noise"]
    question = Question.of_row(row, row["ridges"][number], dimension=size, noise=noise)
    return 100 * (solve(question).risk / row["simulated"][number] - 1)


def check(place: int, number: int) -> None:
    row = STEEP[place]
    found, published = off_by(row, number), PUBLISHED[place][number]
    if (place, number) in DOUBTED:
        assert abs(found) < abs(published)
        assert abs(found - row["off_by_percent"][number]) < 4
    else:
        assert found == pytest.approx(published, abs=0.32)


@pytest.mark.parametrize(("place", "number"), [(0, 1), (8, 1)])
def test_two_published_numbers(place: int, number: int) -> None:
    check(place, number)


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(STEEP)), ids=name_of)
def test_all_published_numbers(place: int) -> None:
    for number in range(2):
        check(place, number)


def test_the_table_is_whole() -> None:
    assert len(PUBLISHED) == len(STEEP) == 25
