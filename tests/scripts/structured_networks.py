"""Random networks on inputs with a spectrum, simulated: what the theory of structured inputs and
its finite-size error are measured on.

    python tests/scripts/structured_networks.py --out tests/data/structured_networks.jsonl

Problem number i is drawn from the seed i: power laws and two levels, the teacher anywhere in the
spectrum, every readout law, both laws of the rows, large and small steps, one in five with another
loss; d = 200 to 2000. With ``--focused`` the teacher of each lies on a few leading eigenvectors and
every second takes no step, which is where ``focus`` of the finite-size error is. Networks are added
until the standard errors are AIM of their means or the time of one problem is over. Numbers already
in the file are left alone.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from finite_networks import LARGEST_COST, READOUTS, Tally, _between, fields_of

from firststep import Problem, simulate
from firststep.simulation.running.simulate import replicate_cost
from firststep.writing import write_file

AIM = 0.003  # standard error over mean
BLOCK = 8  # networks between two looks at the clock, at least
MEASURED = ("risk", "training_error", "test_loss", "error_rate")
OF_THE_DATA = ("inputs", "teacher_overlaps", "loss", "labels", "flip", "intercept")
STUDENTS = ("tanh", "erf", "relu", "softplus", "gelu", "tanh(z+0.5)", "sin", "silu")
TEACHERS = ("tanh", "sin", "erf", "relu", "z", "sin(z) + 0.3*z**2")
OVERLAPS = ("equal", "top:0.1", "top:0.3", "bottom:0.5", "decay:0.5", "rise:0.5", "random")


def drawn(number: int, smallest: int = 200, is_focused: bool = False) -> Problem:
    """The problem of a number."""
    rng = np.random.default_rng((20261119, 16, number, smallest))
    while True:
        problem = _drawn(rng, smallest)
        if is_focused:
            problem = _focused(rng, problem)
        sizes = problem.sizes()
        exact = {"alpha": sizes.samples, "beta": sizes.width, "alpha0": sizes.step_samples}
        whole = {name: size / sizes.dimension for name, size in exact.items()}
        if replicate_cost(problem)[0] < LARGEST_COST / 2:
            return problem.replace(**whole)


def _drawn(rng: np.random.Generator, smallest: int) -> Problem:
    law = f"power-law:{rng.uniform(0.1, 0.8):.2f}"
    if rng.random() < 0.5:
        law = f"two-level:{_between(rng, 2, 15):g}:{rng.uniform(0.05, 0.5):.2f}"
    fields: dict[str, Any] = {
        "student": str(rng.choice(STUDENTS)),
        "teacher": str(rng.choice(TEACHERS)),
        "readout": str(rng.choice(READOUTS)),
        "init": str(rng.choice(["gaussian", "sphere"])),
        "inputs": law,
        "teacher_overlaps": str(rng.choice(OVERLAPS)),
        "alpha": _between(rng, 0.7, 5),
        "beta": _between(rng, 0.4, 2.5),
        "alpha0": _between(rng, 0.4, 8),
        "step_exponent": float(rng.choice([0.5, 0.5, 0.5, 0.0])),
        "step": 0.0 if rng.random() < 0.05 else _between(rng, 0.2, 3),
        "ridge": _between(rng, 1e-4, 3),
        "noise": float(rng.choice([0.0, 0.1, 0.3])),
        "dimension": int(_between(rng, smallest, 2000)),
    }
    if rng.random() < 0.2:
        fields["teacher"] = str(rng.choice(["tanh", "z", "sin"]))
        fields |= {"loss": str(rng.choice(["logistic", "squared-hinge"])), "labels": "sign"}
        fields |= {"flip": float(rng.choice([0.0, 0.1])), "ridge": _between(rng, 1e-3, 1)}
        fields["intercept"] = bool(rng.random() < 0.3)
    return Problem(**fields)


def _focused(rng: np.random.Generator, problem: Problem) -> Problem:
    """The same with its teacher on a few leading eigenvectors."""
    place = f"decay:{rng.uniform(1, 4):.1f}" if rng.random() < 0.6 else "top:0.01"
    law = f"power-law:{rng.uniform(0.2, 0.8):.2f}"
    step = 0.0 if rng.random() < 0.5 else problem.step
    return problem.replace(inputs=law, teacher_overlaps=place, step=step)


def simulated(number: int, problem: Problem, seconds: float) -> dict[str, Any]:
    """As many networks as the time allows, or as the aim needs."""
    begin, block = time.process_time(), BLOCK
    tallies = {name: Tally() for name in MEASURED}
    while True:
        done = tallies["risk"].networks
        found = simulate(problem, replicates=block, seed=10**6 * (number + 1) + done, workers=1)
        for name in MEASURED:
            if name in found.measurements:
                values = getattr(found, name).values
                tallies[name] = tallies[name].with_more(values)
        spent = time.process_time() - begin
        seen = [tally for tally in tallies.values() if tally.networks]
        if all(t.standard_error <= AIM * abs(t.risk) for t in seen) or spent >= seconds:
            break
        block = max(2, min(BLOCK, int((seconds - spent) / (spent / (done + block)))))
    return {
        "networks": tallies["risk"].networks,
        **{name: t.risk for name, t in tallies.items() if t.networks},
        **{f"{name}_error": t.standard_error for name, t in tallies.items() if t.networks},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=100)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20, help="of one problem")
    parser.add_argument("--smallest", type=int, default=200, help="dimension")
    parser.add_argument("--focused", action="store_true")
    asked = parser.parse_args()
    lines = asked.out.read_text().splitlines() if asked.out.exists() else []
    there = {row["number"]: row for row in map(json.loads, lines)}
    for number in range(asked.first, asked.last, asked.every):
        if number in there:
            continue
        problem = drawn(number, asked.smallest, asked.focused)
        found = simulated(number, problem, asked.seconds)
        of_the_data = {name: _plain(getattr(problem, name)) for name in OF_THE_DATA}
        there[number] = {"number": number, **fields_of(problem), **of_the_data, **found}
        rows = (json.dumps(there[key]) + "\n" for key in sorted(there))
        write_file(asked.out, lambda path, rows=rows: path.write_text("".join(rows)))


def _plain(value: object) -> Any:
    return value if isinstance(value, float | int) else str(value)


if __name__ == "__main__":
    main()
