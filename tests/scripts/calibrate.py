"""The table of docs/inputs.md: risk on other inputs against the risk on Gaussian ones, beside what
``diagnose_inputs`` measures.

    python tests/scripts/calibrate.py [--dimension 400] [--replicates 48] [--workers 2] [--laws
    student-t:5 ...]

Laws that are maps of the Gaussian streams share their random numbers with the Gaussian runs,
replicate by replicate.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from firststep import Problem, Workers, simulate
from firststep.inputs import CovarianceInputs, DataInputs, InputLaw, input_law
from firststep.simulation.running.diagnosis import InputDiagnosis, diagnose_inputs

PROBLEMS = {
    "relu learns tanh": Problem(
        student="relu", teacher="tanh", alpha=2, beta=1, step=1, ridge=0.1, noise=0.1
    ),
    "tanh learns sin": Problem(
        student="tanh",
        teacher="sin",
        alpha=3,
        beta=1,
        alpha0=10,
        step=2,
        ridge=0.03,
        readout="ones",
        init="sphere",
    ),
    "gelu learns relu, small step": Problem(
        student="gelu",
        teacher="centered(relu)",
        alpha=2,
        beta=1.5,
        step=2,
        step_exponent=0,
        ridge=0.03,
        noise=0.2,
    ),
}
LAWS = (
    "rademacher",
    "uniform",
    "mixture:1",
    "mixture:10",
    *(f"student-t:{nu}" for nu in (20, 10, 6, 5, 4.5, 4, 3.5, 3, 2.5)),
    *(f"elliptical-t:{nu}" for nu in (500, 200, 100, 60, 40, 30, 20, 10, 5)),
    *(f"power-law:{a}" for a in (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1)),
    *(f"mean:{m}" for m in (0.003, 0.01, 0.02, 0.05, 0.2)),
    *(f"scale:{s}" for s in (1.01, 1.02, 1.05, 1.1)),
    *(f"spike:{s}" for s in (3, 6, 12, 25)),
    *(f"skew:{s}" for s in (0.5, 1, 2)),
)


def made(text: str, d: int) -> InputLaw:
    """The law of a text; besides those of the library, Gaussian data with one thing wrong.

    mean:M  |m|^2 = M d.  scale:S  variance S.  spike:L  one eigenvalue L.  skew:K  independent
    entries of skewness K^3/4.
    """
    kind, _, number = text.partition(":")
    rng = np.random.default_rng(17)
    if kind == "mean":
        direction = rng.standard_normal(d)
        direction *= math.sqrt(float(number) * d) / np.linalg.norm(direction)
        return DataInputs.of(rng.standard_normal((60 * d, d)) + direction, name=text)
    if kind == "scale":
        return CovarianceInputs.of(float(number) * np.eye(d))
    if kind == "spike":
        direction = rng.standard_normal(d)
        direction /= np.linalg.norm(direction)
        return CovarianceInputs.of(np.eye(d) + (float(number) - 1) * np.outer(direction, direction))
    if kind == "skew":  # independent entries, shifted exponentials mixed with Gaussian ones
        share = float(number) / 2
        noise = rng.standard_normal((60 * d, d))
        return DataInputs.of(
            share * (rng.exponential(size=noise.shape) - 1) + math.sqrt(1 - share**2) * noise,
            name=text,
        )
    return input_law(text)


def row(
    text: str, d: int, replicates: int, gaussian: dict, workers: Workers
) -> tuple[InputDiagnosis, dict]:  # type: ignore[type-arg]
    """The diagnosis, and for every problem the relative difference of the risk with its standard
    error.
    """
    law = made(text, d)
    found = {}
    for name, problem in PROBLEMS.items():
        values, base = (
            simulate(problem, d, replicates, inputs=law, workers=workers).risk.values,
            gaussian[name],
        )
        if law.kind == "data":
            error = math.hypot(values.std(ddof=1), base.std(ddof=1)) / math.sqrt(replicates)
        else:
            error = (values - base).std(ddof=1) / math.sqrt(replicates)
        found[name] = ((values.mean() - base.mean()) / base.mean(), error / base.mean())
    return diagnose_inputs(law, d), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimension", type=int, default=400)
    parser.add_argument("--replicates", type=int, default=48)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--laws", nargs="*", default=LAWS)
    asked = parser.parse_args()
    d = asked.dimension
    with Workers(asked.workers) as workers:
        gaussian = {
            name: simulate(p, d, asked.replicates, workers=workers).risk.values
            for name, p in PROBLEMS.items()
        }
        print(
            f"| inputs, d = {d} | mean | scale | eff. dim. | norm | kurtosis | skewness "
            f"| {' | '.join(PROBLEMS)} | verdict |"
        )
        print("| --- " * (8 + len(PROBLEMS)) + "|")
        for text in asked.laws:
            seen, found = row(text, d, asked.replicates, gaussian, workers)
            measured = (
                seen.mean,
                seen.scale,
                seen.effective_dimension,
                seen.norm_concentration,
                seen.kurtosis,
                seen.skewness,
            )
            risks = " | ".join(
                f"{100 * value:+.1f} ± {100 * error:.1f} %" for value, error in found.values()
            )
            verdict = "trusted" if seen.trusted else "not trusted"
            numbers = " | ".join(f"{value:.3g}" for value in measured)
            print(f"| `{text}` | {numbers} | {risks} | {verdict} |", flush=True)


if __name__ == "__main__":
    main()
