"""Random networks of finite size fitted with other losses: what their finite-size error is
measured on.

    python tests/scripts/loss_networks.py --out tests/data/loss_networks.jsonl --last 400

Problem number i is drawn from the seed i: every loss, law of the labels and readout law, with and
without a free constant, steps on both losses, ridges from 1e-5 to 10, d = 60 to 2000. Networks are
added until the standard errors of the test loss and of the error rate are AIM of their means or the
time of one problem is over. Numbers already in the file are left alone, so the command continues
where it stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from finite_networks import BLOCK, LARGEST_COST, READOUTS, Tally, _between, fields_of

from firststep import NotConverged, Problem, simulate
from firststep.simulation.running.simulate import replicate_cost
from firststep.writing import write_file

AIM = 0.003  # standard error over mean
MEASURED = ("test_loss", "error_rate", "training_loss", "training_error_rate", "output_alignment")
OF_LOSSES = ("loss", "labels", "flip", "threshold", "intercept", "step_loss", "noise_law")
STUDENTS = ("tanh", "erf", "relu", "softplus", "gelu", "silu", "tanh(z+0.5)", "relu(z-0.5)", "sin")
TEACHERS = ("tanh", "z", "erf", "sin", "relu(z)-0.4", "z + 0.5*(z*z-1)", "z*z - 0.7", "z**3 - z")
MARGINS = ("logistic", "logistic", "squared-hinge", "hinge", "square")
RESIDUALS = ("huber:0.5", "huber:1.5", "quantile:0.5", "quantile:0.8")
NOISE_LAWS = ("gaussian", "gaussian", "t:5", "mixture:0.3@0.9,3.0@0.1")


def drawn(number: int, smallest: int = 60) -> Problem:
    """The problem of a number."""
    rng = np.random.default_rng((20261119, number, smallest))
    while True:
        problem = _drawn(rng, smallest)
        sizes = problem.sizes()
        exact = {"alpha": sizes.samples, "beta": sizes.width, "alpha0": sizes.step_samples}
        whole = {name: size / sizes.dimension for name, size in exact.items()}
        if replicate_cost(problem)[0] < LARGEST_COST / 2:
            return problem.replace(**whole)


def _drawn(rng: np.random.Generator, smallest: int) -> Problem:
    fields: dict[str, Any] = {
        "student": str(rng.choice(STUDENTS)),
        "teacher": str(rng.choice(TEACHERS)),
        "readout": str(rng.choice(READOUTS)),
        "init": str(rng.choice(["gaussian", "sphere"])),
        "alpha": _between(rng, 0.7, 5),
        "beta": _between(rng, 0.4, 2.5),
        "alpha0": _between(rng, 0.5, 10),
        "step_exponent": float(rng.choice([0.5, 0.5, 0.5, 0.0])),
        "step": 0.0 if rng.random() < 0.05 else _between(rng, 0.3, 4),
        "ridge": _between(rng, 1e-5, 10),
        "dimension": int(_between(rng, smallest, 2000)),
        "intercept": bool(rng.integers(2)),
    }
    if rng.random() < 0.2:
        noise = float(rng.choice([0.1, 0.3, 1.0]))
        law = str(rng.choice(NOISE_LAWS))
        return Problem(**fields, loss=str(rng.choice(RESIDUALS)), noise=noise, noise_law=law)
    labels = str(rng.choice(["sign", "sign", "sign", "logit:3"]))
    return Problem(
        **fields,
        loss=str(rng.choice(MARGINS)),
        labels=labels,
        flip=float(rng.choice([0.0, 0.0, 0.05, 0.2])),
        threshold=float(rng.choice([0.0, 0.0, 0.4])),
        noise=0.3 if labels == "sign" and rng.random() < 0.2 else 0.0,
        step_loss=str(rng.choice(["square", "square", "logistic"])),
    )


def simulated(number: int, problem: Problem, seconds: float) -> dict[str, Tally]:
    """As many networks as the time allows, or as the aim needs."""
    begin, block = time.process_time(), BLOCK
    wanted = [name for name in MEASURED[:2] if problem.labels.is_binary or "rate" not in name]
    tallies = {name: Tally() for name in MEASURED if problem.labels.is_binary or "rate" not in name}
    while True:
        done = next(iter(tallies.values())).networks
        seed = 1_000_000 * (number + 1) + done
        found = simulate(problem, replicates=block, seed=seed, workers=1)
        for name, tally in tallies.items():
            tallies[name] = tally.with_more(getattr(found, name).values)
        done, spent = done + block, time.process_time() - begin
        far = max(tallies[n].standard_error / (AIM * abs(tallies[n].risk)) for n in wanted)
        if far <= 1 or spent >= seconds:
            return tallies
        left = int((seconds - spent) / (spent / done))
        block = max(2, min(int(far**2 * done) - done + 1, left, 4 * done))


def row_of(number: int, problem: Problem, tallies: dict[str, Tally]) -> dict[str, Any]:
    own = {name: getattr(problem, name) for name in OF_LOSSES}
    fields = {n: v if isinstance(v, float | bool) else str(v) for n, v in own.items()}
    means = {name: [tally.risk, tally.standard_error] for name, tally in tallies.items()}
    networks = next(iter(tallies.values())).networks
    return {"number": number, **fields_of(problem), **fields, "networks": networks, **means}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=400)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--smallest", type=int, default=60, help="dimension")
    parser.add_argument("--seconds", type=float, default=8, help="of one problem")
    asked = parser.parse_args()
    lines = asked.out.read_text().splitlines() if asked.out.exists() else []
    there = {row["number"]: row for row in map(json.loads, lines)}
    for number in range(asked.first, asked.last, asked.every):
        if number in there:
            continue
        problem = drawn(number, asked.smallest)
        try:
            tallies = simulated(number, problem, asked.seconds)
        except NotConverged as error:
            print(f"{number}: {problem}: {error}")
            continue
        if not all(math.isfinite(tally.risk) for tally in tallies.values()):
            print(f"{number}: {problem}: not finite")
            continue
        there[number] = row_of(number, problem, tallies)
        rows = (json.dumps(there[key]) + "\n" for key in sorted(there))
        write_file(asked.out, lambda path, rows=rows: path.write_text("".join(rows)))


if __name__ == "__main__":
    main()
