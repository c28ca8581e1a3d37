"""What each step does to the alignment with theta on steep spectra: the tables of
docs/simulation.md.

    python tests/scripts/steep_steps.py --dimension 400 --replicates 10

Of one step from the same networks and samples: <theta, u>/|u| with u = (W1 - W0) at, its mean and
standard error over networks. tanh learns tanh, N = d, noise 0.1. Spectra: C diagonal with entries
proportional to j^-A, and at A = 1 the same with axes turned by one random rotation.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from firststep import Problem, first_layer
from firststep.inputs import CovarianceInputs, input_law
from firststep.results import Estimate

STEPS: dict[str, dict[str, Any]] = {
    "`gradient`": {},
    "`whitened`": {"optimizer": "whitened"},
    "`whitened`, damping 0": {"optimizer": "whitened", "damping": 0},
    "`whitened-exact`": {"optimizer": "whitened-exact"},
    "`whitened-exact`, damping 0": {"optimizer": "whitened-exact", "damping": 0},
    "`sign`": {"optimizer": "sign"},
    "`muon`": {"optimizer": "muon"},
}
EXPONENTS, BATCHES = (0.0, 0.5, 1.0, 1.5, 2.0), (0.5, 1.0, 2.0, 5.0)
ALPHA0, STEEP = 2.0, 1.0


def alignments(
    problem: Problem, inputs: object, options: Mapping[str, Any], replicates: int
) -> list[float]:
    """One number a network."""
    found = []
    for number in range(replicates):
        layer = first_layer(problem, None, 0, number, inputs=inputs, **options)
        along = (layer.after - layer.before) @ layer.readout
        found.append(float(along @ layer.teacher / np.linalg.norm(along)))
    return found


def rotated(dimension: int) -> CovarianceInputs:
    """The covariance of power-law:1 along axes of its own."""
    variances, _ = input_law(f"power-law:{STEEP:g}").spectrum(dimension)
    generator = np.random.default_rng(0)
    axes = np.linalg.qr(generator.standard_normal((dimension, dimension)))[0]
    return CovarianceInputs.of((axes * variances) @ axes.T)


def cell(values: Sequence[float]) -> str:
    measured = Estimate(np.array(values))
    return f"{measured.mean:.3f} ± {measured.standard_error:.3f}"


def problem(dimension: int, alpha0: float = ALPHA0) -> Problem:
    return Problem(
        student="tanh",
        teacher="tanh",
        alpha=1,
        beta=1,
        alpha0=alpha0,
        noise=0.1,
        dimension=dimension,
    )


def table(head: Sequence[str], columns: Sequence[tuple[Problem, object]], count: int) -> None:
    print("| step |", " | ".join(head), "|")
    print("|" + " --- |" * (1 + len(head)))
    for words, options in STEPS.items():
        cells = [cell(alignments(asked, law, options, count)) for asked, law in columns]
        print(f"| {words} |", " | ".join(cells), "|", flush=True)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimension", type=int, default=400)
    parser.add_argument("--replicates", type=int, default=10)
    asked = parser.parse_args()
    d, count = asked.dimension, asked.replicates
    by_exponent = [(problem(d), f"power-law:{a:g}" if a else "gaussian") for a in EXPONENTS]
    head = [f"A = {a:g}" for a in EXPONENTS]
    table([*head, f"A = {STEEP:g}, turned"], [*by_exponent, (problem(d), rotated(d))], count)
    by_batch = [(problem(d, alpha0), f"power-law:{STEEP:g}") for alpha0 in BATCHES]
    table([f"α₀ = {alpha0:g}" for alpha0 in BATCHES], by_batch, count)


if __name__ == "__main__":
    main()
