"""Prints the table "Steep spectra" of docs/validation.md: ``python tests/scripts/typed_table.py``.

Simulated risks of tests/data/structured_tables.json, the equations without typed neurons and with
them, and the finite-size error that the prediction states. --longest 2 adds the long steps
on j^-1, whose 2400 nodes of kappa take minutes.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from firststep import Problem, predict, simulate
from firststep.results import with_error
from firststep.theory.one_step.prediction import Prediction

TABLES = Path(__file__).parents[1] / "data" / "structured_tables.json"
NAMES = ("student", "teacher", "readout", "init", "inputs", "alpha", "beta", "alpha0", "step")

OF_OTHERS: dict[str, Any] = dict(
    student="tanh",
    teacher="sin",
    readout="ones",
    init="sphere",
    noise=0.1,
    alpha=2.0,
    beta=1.2,
    alpha0=2.0,
    ridge=0.03,
)
OTHERS: tuple[dict[str, Any], ...] = (
    dict(inputs="two-level:4:0.1", teacher_overlaps="top:0.1", dimension=100, step=0.3),
    dict(inputs="two-level:4:0.1", teacher_overlaps="equal", dimension=100, step=1.0),
    dict(inputs="power-law:0.5", teacher_overlaps="top:0.1", dimension=150, step=0.7),
    dict(inputs="power-law:0.8", teacher_overlaps="equal", dimension=400, step=0.5),
    dict(inputs="power-law:0.8", teacher_overlaps="top:0.1", dimension=400, step=0.25),
    dict(inputs="two-level:1000:0.05", teacher_overlaps="equal", dimension=300, step=0.3),
    dict(inputs="power-law:1", teacher_overlaps="top:0.1", dimension=400, step=0.1),
    dict(inputs="power-law:1.5", teacher_overlaps="equal", dimension=300, step=0.05),
    dict(inputs="power-law:2.5", teacher_overlaps="top:0.1", dimension=300, step=0.05),
)


def both(problem: Problem) -> tuple[Prediction, Prediction, float]:
    """Plain and typed, and how much longer the second took."""
    begin = time.perf_counter()
    plain = predict(problem, neurons="plain")
    middle = time.perf_counter()
    typed = predict(problem)
    return plain, typed, (time.perf_counter() - middle) / (middle - begin)


def signed(values: np.ndarray) -> str:
    return ", ".join(f"{value:+.1f}" for value in values)


def networks() -> None:
    """Other spectra and smaller sizes, simulated here."""
    print("| problem | ϖ_max²/d | u | simulated risk | plain % | typed % |")
    print("|" + " --- |" * 6)
    for changes in OTHERS:
        problem = Problem(**OF_OTHERS | changes)
        plain, typed, _ = both(problem)
        count = 600 if problem.dimension < 200 else 48
        found = simulate(problem, replicates=count, seed=3).risk
        off = [100 * (each.risk / found.mean - 1) for each in (plain, typed)]
        error = 100 * found.standard_error / found.mean
        told = ", ".join(f"{name} {value}" for name, value in changes.items())
        steep = plain.points[0].doubts.steep
        cells = [told, f"{steep:.2g}", f"{plain.spike_strength:.2g}"]
        cells += [with_error(found.mean, found.standard_error)]
        cells += [f"{value:+.1f} ± {error:.1f}" for value in off]
        print(f"| {' | '.join(cells)} |", flush=True)


def main(longest: float) -> None:
    tables = json.loads(TABLES.read_text(encoding="utf-8"))
    print("| student/teacher | spectrum, teacher | α₀, step (u) | α, β | simulated risk", end="")
    print(" | plain % | typed % | stated ± % | time |")
    print("|" + " --- |" * 9)
    errors: dict[str, list[np.ndarray]] = {}
    for row in tables["rows"]:
        problem = Problem(
            **{name: row[name] for name in NAMES},
            teacher_overlaps=row["overlaps"],
            ridge=tuple(row["ridges"]),
            noise=tables["noise"],
            dimension=tables["dimension"],
        )
        if row["set"] != "steep" or (row["inputs"] == "power-law:1" and row["step"] > longest):
            continue
        plain, typed, ratio = both(problem)
        simulated = np.array(row["simulated"])
        off = [100 * (np.asarray(found.risk) / simulated - 1) for found in (plain, typed)]
        stated = 100 * np.asarray(typed.model_error) / typed.risk
        errors.setdefault(row["inputs"], []).append(np.array(off))
        gaussian = " G" if row["init"] == "gaussian" else ""
        spike = float(np.ravel(plain.spike_strength)[0])
        cells = [
            f"{row['student']}/{row['teacher']}{gaussian}",
            f"{row['inputs']}, {row['overlaps']}",
            f"{row['alpha0']:g}, {row['step']:g} ({spike:.2g})",
            f"{row['alpha']:g}, {row['beta']:g}",
            ", ".join(f"{value:.4f}" for value in simulated),
            *map(signed, off),
            ", ".join(f"{value:.1f}" for value in stated),
            f"{ratio:.1f}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)
    print("\n| spectrum | risks | plain: rms, largest % | typed: rms, largest % |")
    print("|" + " --- |" * 4)
    for inputs, found in errors.items():
        every = np.concatenate(found, axis=1)
        cells = [f"{np.sqrt(np.mean(e**2)):.2f}, {np.abs(e).max():.1f}" for e in every]
        print(f"| {inputs} | {every.shape[1]} | {' | '.join(cells)} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--longest", type=float, default=1.0, help="step on power-law:1")
    parser.add_argument("--networks", action="store_true", help="other spectra, simulated")
    asked = parser.parse_args()
    if asked.networks:
        networks()
    else:
        main(asked.longest)
