"""Slopes of learning curves on power-law spectra: the theory beside networks of other code.

python tests/scripts/learning_exponents.py

tanh learns tanh, noise 0.1, d = 1000, N = 3d, readout ones, rows on the sphere, the best ridge at
every n: -d log R/d log n over n/d = 0.25-1, 1-4, 4-16, and the risk at n/d = 1, 4, 16. The
simulated numbers (12 to 24 networks; standard errors of risks 0.3 to 3 %, of slopes 0.03) are not
ours. The steps: of size 2 or with the spike u = 1.5, on n0 = n samples or on n0 = 2d.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from firststep import Problem
from firststep.figures.learning_exponents import CASES, SPIKE, Case
from firststep.figures.tuned import tuned
from firststep.theory.one_step.predict import predict

if TYPE_CHECKING:
    from firststep.typing import Array, Float

DIMENSION = 1000
PLACES = np.array([0.25, 1.0, 4.0, 16.0])
RIDGES = {"ridge": (0.003, 3.0)}
KINDS = ("no step", "step 2, n0 = n", "u = 1.5, n0 = n", "u = 1.5, n0 = 2d")


class Simulated(NamedTuple):
    slopes: tuple[float, float, float]
    risks: tuple[float, float, float]


SIMULATED = {
    ("0", "equal"): (
        Simulated((0.50, 0.72, 0.22), (0.170, 0.062, 0.046)),
        Simulated((0.68, 1.17, 0.53), (0.123, 0.024, 0.012)),
        Simulated((0.58, 1.25, 1.25), (0.138, 0.024, 0.0043)),
        Simulated((0.28, 0.56, 0.27), (0.093, 0.043, 0.030)),
    ),
    ("0.3", "equal"): (
        Simulated((0.50, 0.69, 0.23), (0.163, 0.063, 0.046)),
        Simulated((0.61, 1.02, 0.49), (0.131, 0.032, 0.016)),
        Simulated((0.59, 0.90, 0.57), (0.133, 0.038, 0.017)),
        Simulated((0.30, 0.50, 0.24), (0.103, 0.052, 0.037)),
    ),
    ("0.3", "top:0.1"): (
        Simulated((0.59, 0.56, 0.19), (0.107, 0.049, 0.038)),
        Simulated((0.81, 1.01, 0.55), (0.068, 0.017, 0.0078)),
        Simulated((0.84, 1.01, 0.51), (0.058, 0.014, 0.0071)),
        Simulated((0.40, 0.55, 0.27), (0.041, 0.019, 0.013)),
    ),
    ("0.6", "equal"): (
        Simulated((0.49, 0.61, 0.22), (0.143, 0.061, 0.045)),
        Simulated((0.16, 0.14, 0.07), (0.242, 0.201, 0.183)),
        Simulated((0.39, 0.35, 0.20), (0.155, 0.096, 0.072)),
        Simulated((0.26, 0.37, 0.18), (0.160, 0.096, 0.075)),
    ),
    ("0.6", "top:0.1"): (
        Simulated((0.56, 0.36, 0.15), (0.069, 0.041, 0.034)),
        Simulated((0.14, 0.06, 0.03), (0.165, 0.152, 0.146)),
        Simulated((0.55, 0.29, 0.15), (0.051, 0.034, 0.027)),
        Simulated((0.40, 0.31, 0.14), (0.051, 0.033, 0.027)),
    ),
}


def risks(case: Case, kind: str) -> Float[Array, " places"]:
    """The theory's, at ``PLACES``."""
    problem: Problem = case.problem(1.0, dimension=DIMENSION, step=1.0)
    fields: dict[str, Any] = {"alpha": PLACES}
    if kind == "no step":
        problem = problem.replace(alpha0=0.0)
    else:
        fields["alpha0"] = PLACES if kind.endswith("n0 = n") else np.full(len(PLACES), 2.0)
        strength = np.asarray(predict(problem, **fields).spike_strength)
        fields["step"] = np.full(len(PLACES), 2.0) if "step 2" in kind else SPIKE / strength
    ridge = tuned(problem, RIDGES, fields)["ridge"]
    return np.asarray(predict(problem, **fields, ridge=ridge).risk)


def main() -> None:
    print("| spectrum, teacher | step | slopes, theory | simulated | risks, theory | simulated |")
    print("|" + " --- |" * 6)
    for case in CASES:
        told = SIMULATED[f"{case.exponent:g}", case.overlaps]
        where = f"j^-{case.exponent:g}, `{case.overlaps}`" if case.exponent else "identity"
        for kind, simulated in zip(KINDS, told, strict=True):
            found = risks(case, kind)
            slopes = np.log(found[:-1] / found[1:]) / np.log(PLACES[1:] / PLACES[:-1])
            numbers = (
                ", ".join(f"{each:.2f}" for each in slopes),
                ", ".join(f"{each:.2f}" for each in simulated.slopes),
                ", ".join(f"{each:.2g}" if each < 0.01 else f"{each:.3f}" for each in found[1:]),
                ", ".join(f"{each:g}" for each in simulated.risks),
            )
            print(f"| {where} | {kind} | " + " | ".join(numbers) + " |", flush=True)


if __name__ == "__main__":
    main()
