"""The table of docs/inputs.md about ``SpectrumInputs.from_data``: the risk that the theory gives on
an estimated spectrum, against that on the true one.

    python tests/scripts/estimated_spectra.py [--dimension 200] [--draws 8]
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from firststep import Problem, SpectrumInputs, random_features
from firststep.inputs import StructuredInputs
from firststep.structure import teacher_components

PROBLEM = Problem(student="tanh", teacher="sin", alpha=2, beta=1, ridge=0.05, noise=0.1)
CASES = (
    ("two-level:1:0.5", "equal"),
    ("two-level:5:0.2", "top:0.2"),
    ("power-law:0.3", "bottom:0.5"),
    ("power-law:0.6", "top:0.1"),
)
RATIOS = (1.3, 2, 5, 20)


def errors(spectrum: str, overlaps: str, d: int, ratio: float, seed: int) -> tuple[float, ...]:
    """Relative errors of the risk: eigenvalues of the sample and estimated ones with a teacher of
    equal overlaps; estimated ones with the teacher estimated from labels.
    """
    asked = PROBLEM.replace(inputs=spectrum, teacher_overlaps=overlaps, dimension=d)
    rng, law = np.random.default_rng(seed), asked.inputs
    assert isinstance(law, StructuredInputs)
    values = law.eigenvalues(d)
    rows = rng.standard_normal((int(ratio * d), d)) * np.sqrt(values)
    labels = np.sin(rows @ teacher_components(asked.teacher_overlaps, values))
    labels += asked.noise * rng.standard_normal(len(rows))
    found = SpectrumInputs.from_data(rows, labels)
    raw = SpectrumInputs.of(np.linalg.eigvalsh(np.cov(rows.T)))
    base = random_features(asked.replace(teacher_overlaps="equal")).risk
    return (
        random_features(asked.replace(inputs=raw, teacher_overlaps="equal")).risk / base - 1,
        random_features(asked.replace(inputs=found, teacher_overlaps="equal")).risk / base - 1,
        random_features(asked.replace(inputs=found, teacher_overlaps=found.components)).risk
        / random_features(asked).risk
        - 1,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimension", type=int, default=200)
    parser.add_argument("--draws", type=int, default=8)
    asked = parser.parse_args()
    print("| spectrum, teacher | rows/d | of the sample | estimated | and the teacher |")
    print("| --- | --- | --- | --- | --- |")
    for spectrum, overlaps in CASES:
        for ratio in RATIOS:
            found = 100 * np.array(
                [errors(spectrum, overlaps, asked.dimension, ratio, s) for s in range(asked.draws)]
            )
            told = " | ".join(
                f"{math.copysign(math.sqrt((each**2).mean()), each.mean()):+.2f} %"
                for each in found.T[:1]
            )
            rest = " | ".join(f"{math.sqrt((each**2).mean()):.2f} %" for each in found.T[1:])
            print(f"| {spectrum}, {overlaps} | {ratio:g} | {told} | {rest} |", flush=True)


if __name__ == "__main__":
    main()
