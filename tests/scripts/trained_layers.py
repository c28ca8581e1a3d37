"""Where the theory of a given first layer holds: networks trained in many ways, each with its own
prediction.

    python tests/scripts/trained_layers.py --dimension 1000 --networks 6 [--backend jax]
    [--processes 8] [case ...]

Every network is trained, its risk predicted from its weights alone, and measured on fresh ridge and
test data. Printed is the mean over networks of prediction/measurement - 1 in per cent with its
standard error, for ridge 0.01 and 0.3, conditioning on no direction, on one, and on as many as the
rule chooses.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from firststep import Problem
from firststep.errors import FirststepError
from firststep.results import Estimate
from firststep.simulation.running.given import simulate_features
from firststep.simulation.running.layer import training_path
from firststep.theory.given_layer.predict import predict_features

STEPS = (1, 3, 10)
RIDGES = (0.01, 0.3)


class Case(NamedTuple):
    """One way of training."""

    student: str
    teacher: str
    step: float
    alpha0: float = 2.0
    terms: tuple[str, ...] = ()
    options: Mapping[str, str] = MappingProxyType({})
    readout: str = "gaussian"


CASES = {
    "tanh, fresh batches": Case("tanh", "tanh", 1.0),
    "tanh, one batch": Case("tanh", "tanh", 1.0, options={"batches": "same"}),
    "relu, fresh batches": Case("relu", "tanh", 1.0),
    "relu, one batch": Case("relu", "tanh", 1.0, options={"batches": "same"}),
    "relu, large step": Case("relu", "tanh", 6.0),
    "tanh(z+0.5), large step": Case("tanh(z+0.5)", "sin(2*z)", 4.0),
    "relu, momentum": Case("relu", "tanh", 0.5, options={"optimizer": "momentum"}),
    "relu, adam": Case("relu", "tanh", 0.3, options={"optimizer": "adam"}),
    "tanh, adam": Case("tanh", "tanh", 0.3, options={"optimizer": "adam"}),
    "relu, two relu terms": Case("relu", "relu", 1.0, 4.0, ("relu",)),
    "relu, z**2 - 1": Case("relu", "z**2-1", 1.0, 4.0),
    "relu, all ones": Case("relu", "tanh", 1.0, readout="ones"),
}


def problem_of(case: Case) -> Problem:
    return Problem(
        student=case.student,
        teacher=case.teacher,
        alpha=2.0,
        beta=1.2,
        alpha0=case.alpha0,
        step=case.step,
        ridge=RIDGES,
        noise=0.1,
        readout=case.readout,
    )


def network(
    name: str, dimension: int, number: int, draws: int, backend: str
) -> list[dict[str, Any]]:
    """All rows of one network: predictions and measurement after each number of steps."""
    case = CASES[name]
    problem = problem_of(case)
    rows = []
    path = training_path(
        problem, dimension, 0, number, steps=max(STEPS), teacher_terms=case.terms, **case.options
    )
    try:
        layers = [(step, layer) for step, layer in enumerate(path) if step in STEPS]
    except FirststepError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return []
    for step, layer in layers:
        teacher = layer.directions if case.terms else layer.teacher
        measured = simulate_features(
            layer.after,
            problem,
            teacher,
            replicates=draws,
            seed=1000 + number,
            teacher_terms=case.terms,
            backend=backend,
            workers=1,
            test_samples=max(8000, 8 * dimension),
        )
        row: dict[str, Any] = {
            "case": name,
            "steps": step,
            "network": number,
            "dimension": dimension,
        }
        row["measured"] = np.atleast_1d(measured.risk.mean).tolist()
        for directions in (0, 1, "auto"):
            try:
                found = predict_features(
                    layer.after,
                    problem,
                    teacher,
                    initial=layer.before,
                    teacher_terms=case.terms,
                    directions=directions,
                )
                row[str(directions)] = found.risk.tolist()
                row["count"] = found.directions.count
                row["values"] = found.directions.singular_values.tolist()
            except FirststepError as error:
                print(f"{name}, {step} steps, {directions} directions: {error}", file=sys.stderr)
                row[str(directions)] = [float("nan")] * len(RIDGES)
        rows.append(row)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """One line a number of steps; a cell has one entry a ridge."""
    lines = [
        "| training | steps | singular values of W1 - W0 "
        "| k | risk | no direction | one direction | k directions |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in CASES:
        for step in STEPS:
            mine = [row for row in rows if row["case"] == name and row["steps"] == step]
            if not mine:
                continue
            values = ", ".join(
                f"{v:.3g}" for v in np.mean([row["values"][:4] for row in mine], axis=0)
            )
            counts = " or ".join(map(str, sorted({row["count"] for row in mine})))
            measured = np.array([row["measured"] for row in mine])
            cells = [
                name,
                str(step),
                values,
                counts,
                ", ".join(f"{v:.3g}" for v in measured.mean(axis=0)),
            ]
            for key in ("0", "1", "auto"):
                relative = Estimate(100 * (np.array([row[key] for row in mine]) / measured - 1))
                pairs = zip(relative.mean, relative.standard_error, strict=True)
                cells.append(", ".join(f"{mean:+.1f} ± {error:.1f}" for mean, error in pairs))
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=[], help="some of the cases; default: all")
    parser.add_argument("--dimension", type=int, default=300)
    parser.add_argument("--networks", type=int, default=6)
    parser.add_argument("--draws", type=int, default=4, help="data sets a network")
    parser.add_argument("--backend", default="numpy")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    jobs = [
        (name, given.dimension, number, given.draws, given.backend)
        for name in given.cases or CASES
        for number in range(given.networks)
    ]
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        rows = [row for some in pool.map(network, *zip(*jobs, strict=True)) for row in some]
    if given.json:
        given.json.write_text(json.dumps(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
