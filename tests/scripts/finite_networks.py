"""Random networks of finite size, simulated: what the error of the finite-d theory is measured on.

    python tests/scripts/finite_networks.py --out tests/data/finite_networks.jsonl --last 450

Problem number i is drawn from the seed i: every readout law, both laws of the rows, all regimes of
the step, d = 50 to 2000. Half of them are ``ordinary`` (students and teachers of size one, ridges
from 1e-3, at least 20 samples in the step), half ``hostile`` (students of size 0.3 to 10, steep
polynomials, ridges down to 1e-6, a handful of step samples, n = N). Networks are added until the
standard error is AIM of the mean or the time of one problem is over. Numbers already in the file
are left alone, so the command continues where it stopped; ``--again`` gives more time to those
whose standard error is above the aim.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from firststep import Problem, simulate
from firststep.simulation.running.simulate import replicate_cost
from firststep.writing import write_file

if TYPE_CHECKING:
    from firststep.typing import Array, Float

AIM = 0.003  # standard error over mean
BLOCK = 8  # networks between two looks at the clock, at least
LARGEST_COST = 6e10  # operations of one network: a few seconds of one core
FIELDS = (
    *("student", "teacher", "readout", "init", "alpha", "beta", "alpha0"),
    *("step", "step_exponent", "ridge", "noise", "dimension"),
)
READOUTS = ("ones", "signs", "gaussian", "-1:0.25,0.5:0.5,2:0.25", "-2:0.2,0.5:0.8")
STUDENTS = (
    "tanh",
    "erf",
    "sin",
    "relu",
    "softplus",
    "gelu",
    "sigmoid",
    "silu",
    "centered(relu)",
    "tanh(z+0.5)",
    "relu(z-0.5)",
    "tanh(1.3*z) + 0.4*(z**2-1)",
)
STEEP = ("abs", "hermite2", "hermite3", "hermite4", "abs(z) - 0.8 + 0.5*z", "z + 0.3*z**3")
TEACHERS = (
    "tanh",
    "erf",
    "sin",
    "relu",
    "abs",
    "sign",
    "z",
    "hermite2",
    "hermite3",
    "sin(z) + 0.3*z**2",
    "relu(z-0.5)",
    "1 + 0*z",
)


def drawn(number: int) -> tuple[str, Problem]:
    """The kind and the problem of a number."""
    rng = np.random.default_rng((20261118, number))
    kind = "ordinary" if number % 2 else "hostile"
    while True:
        problem = _ordinary(rng) if kind == "ordinary" else _hostile(rng)
        sizes = problem.sizes()
        exact = {"alpha": sizes.samples, "beta": sizes.width, "alpha0": sizes.step_samples}
        whole = {name: size / sizes.dimension for name, size in exact.items()}
        if min(sizes.width, sizes.samples) >= 10 and replicate_cost(problem)[0] < LARGEST_COST:
            return kind, problem.replace(**whole)


def _between(rng: np.random.Generator, low: float, high: float) -> float:
    """Log-uniform, of three digits."""
    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.3g}")


def _common(rng: np.random.Generator) -> dict[str, Any]:
    dimension = int(_between(rng, 50, 2000))
    exponent = float(rng.choice([0.5, 0.5, 0.5, 0.0, 0.25, 0.35]))
    return {
        "readout": str(rng.choice(READOUTS)),
        "init": str(rng.choice(["gaussian", "sphere"])),
        "alpha": _between(rng, 0.5, 6),
        "beta": _between(rng, 0.3, 4),
        "step_exponent": exponent,
        "step": 0.0 if rng.random() < 0.04 else _between(rng, 0.2, 6),
        "noise": float(rng.choice([0.0, 0.1, 0.3, 1.0])),
        "dimension": dimension,
    }


def _ordinary(rng: np.random.Generator) -> Problem:
    fields = _common(rng)
    smallest = max(0.3, 20 / fields["dimension"])
    return Problem(
        student=str(rng.choice(STUDENTS)),
        teacher=str(rng.choice(TEACHERS[:-1])),
        alpha0=_between(rng, smallest, 10),
        ridge=_between(rng, 1e-3, 1),
        **fields,
    )


def _hostile(rng: np.random.Generator) -> Problem:
    fields = _common(rng)
    student = str(rng.choice(STUDENTS + STEEP))
    call = f"{student}(z)" if student.isidentifier() else student
    size = float(rng.choice([0.3, 1, 1, 3, 10]))
    if rng.random() < 0.1:
        fields["alpha"] = fields["beta"]
    return Problem(
        student=student if size == 1 else f"{size:g}*({call})",
        teacher=str(rng.choice(TEACHERS)),
        alpha0=_between(rng, max(0.03, 2 / fields["dimension"]), 10),
        ridge=_between(rng, 1e-6, 3),
        **fields,
    )


class Tally(NamedTuple):
    """Networks so far, their mean risk and the sum of squares about it."""

    networks: int = 0
    risk: float = 0.0
    squares: float = 0.0

    @property
    def standard_error(self) -> float:
        return math.sqrt(self.squares / (self.networks - 1) / self.networks)

    def with_more(self, risks: Float[Array, " networks"]) -> Tally:
        count, mean = len(risks), float(np.mean(risks))
        total = self.networks + count
        shift = mean - self.risk
        squares = float(np.sum((risks - mean) ** 2)) + shift**2 * self.networks * count / total
        return Tally(total, self.risk + shift * count / total, self.squares + squares)


def simulated(number: int, problem: Problem, seconds: float, so_far: Tally) -> Tally:
    """As many networks as the time allows, or as the aim needs, added to those there are."""
    begin, block, tally = time.process_time(), BLOCK, so_far
    while True:
        seed = 1_000_000 * (number + 1) + tally.networks
        tally = tally.with_more(
            simulate(problem, replicates=block, seed=seed, workers=1).risk.values
        )
        spent = time.process_time() - begin
        aim, error, done = AIM * abs(tally.risk), tally.standard_error, tally.networks
        if error <= aim or spent >= seconds:
            return tally
        left = int((seconds - spent) / (spent / (done - so_far.networks)))
        block = max(2, min(int((error / aim) ** 2 * done) - done + 1, left, 4 * done))


def fields_of(problem: Problem) -> dict[str, Any]:
    """What makes the problem again."""
    fields = {name: getattr(problem, name) for name in FIELDS}
    return {name: v if isinstance(v, float | int | str) else str(v) for name, v in fields.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=450)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10, help="of one problem")
    parser.add_argument("--again", action="store_true", help="more of what is not at the aim")
    parser.add_argument("--only", type=int, nargs="*", help="these numbers")
    asked = parser.parse_args()
    lines = asked.out.read_text().splitlines() if asked.out.exists() else []
    there = {row["number"]: row for row in map(json.loads, lines)}
    for number in asked.only or range(asked.first + asked.offset, asked.last, asked.every):
        tally = Tally()
        if number in there:
            row = there[number]
            tally = Tally(row["networks"], row["risk"])
            squares = row["standard_error"] ** 2 * tally.networks * (tally.networks - 1)
            tally = tally._replace(squares=squares)
            if not asked.again or tally.standard_error <= AIM * tally.risk:
                continue
        kind, problem = drawn(number)
        tally = simulated(number, problem, asked.seconds, tally)
        found = {
            "networks": tally.networks,
            "risk": tally.risk,
            "standard_error": tally.standard_error,
        }
        there[number] = {"number": number, "kind": kind, **fields_of(problem), **found}
        rows = (json.dumps(there[key]) + "\n" for key in sorted(there))
        write_file(asked.out, lambda path, rows=rows: path.write_text("".join(rows)))


if __name__ == "__main__":
    main()
