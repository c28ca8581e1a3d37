"""The finite-size errors of test losses and error rates against simulated networks.

    python tests/scripts/loss_networks.py --out tests/data/loss_networks.jsonl --last 400
    python tests/scripts/loss_networks.py --out tests/data/loss_networks_large.jsonl --last 64 \\
        --smallest 400 --seconds 105
    python tests/scripts/loss_model_error.py           tables with the weights as they are
    python tests/scripts/loss_model_error.py --fit     the weights fitted on two thirds of the first

As ``model_error.py`` does for the risk of ridge regression; the second file is not fitted to.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from finite_networks import FIELDS
from loss_networks import MEASURED, OF_LOSSES
from model_error import KNOWN, Set, fitted, print_coverage, print_weights, rms

from firststep import FirststepError, Problem, predict
from firststep.theory.loss_numbers import has_other_loss
from firststep.theory.one_step.model_error import MOST, WEIGHTS, Weights

DATA = Path(__file__).resolve().parents[1] / "data"
LEAST = Weights(floor=0.002, peak=0.0, overlap=0.0, norms=0.0, second=0.0, own=0.0)
FAR, CLEAR = 0.01, 3.0  # what is named: off by more than one per cent and three standard errors


class Answer(NamedTuple):
    """What the theory says of a simulated problem."""

    numbers: dict[str, float]
    doubts: tuple[float, ...]


def answer(
    row: dict[str, Any],
    fields: Sequence[str] = (*FIELDS, *OF_LOSSES),
    measured: Sequence[str] = MEASURED,
) -> Answer | str:
    problem = Problem(**{name: row[name] for name in fields})
    try:
        found = predict(problem)
    except FirststepError as error:
        return f"{row['number']}: {problem}: {error}"
    numbers = {name: float(getattr(found, name)) for name in measured}
    doubts = found.points[0].doubts
    return Answer(numbers, tuple(map(float, doubts)))


def gathered(rows: Sequence[dict[str, Any]], answers: Sequence[Answer], of: str) -> Set:
    """Problems in which the number was simulated well enough, as columns."""
    both = [(row, found) for row, found in zip(rows, answers, strict=True) if of in row]
    theory = np.array([found.numbers[of] for _, found in both])
    mean, error = np.array([row[of] for row, _ in both]).T
    doubts = np.array([found.doubts for _, found in both])[:, : len(Weights._fields) - 1]
    everything = Set(
        number=np.array([row["number"] for row, _ in both]),
        is_ordinary=np.array([row["loss"] == "square" for row, _ in both]),
        dimension=np.array([row["dimension"] for row, _ in both]),
        off=mean / theory - 1,
        noise=error / theory,
        terms=np.concatenate([np.ones((len(both), 1)), np.minimum(doubts, MOST)], axis=1),
    )
    return everything.part(everything.noise < KNOWN * np.maximum(mean / theory, 1))


def print_agreement(rows: Sequence[dict[str, Any]], answers: Sequence[Answer]) -> None:
    print(
        "\n| number | problems | median difference | rms z | d >= 400: rms z | without the s.e. |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for of in MEASURED[:2]:
        found = gathered(rows, answers, of)
        large = found.part(found.dimension >= 400)
        z, z_large = (np.sqrt(np.mean((one.off / one.noise) ** 2)) for one in (found, large))
        print(
            f"| {of} | {found.off.size} | {100 * np.median(np.abs(found.off)):.2f} % | {z:.2f} "
            f"| {z_large:.2f} ({large.off.size}) | {rms(large)} % |"
        )


def print_exceptions(rows: Sequence[dict[str, Any]], answers: Sequence[Answer]) -> None:
    """Those of d >= 400 that are clearly off."""
    for row, found in zip(rows, answers, strict=True):
        if row["dimension"] < 400:
            continue
        for of in (name for name in MEASURED[:2] if name in row):
            mean, error = row[of]
            off = mean / found.numbers[of] - 1
            if abs(off) > FAR and abs(mean - found.numbers[of]) > CLEAR * error:
                peak, overlap = found.doubts[:2]
                names = ("student", "teacher", "readout", "alpha", "beta", "ridge", "dimension")
                told = ", ".join(f"{name} {row[name]}" for name in names)
                share = f"{100 * off:+.1f} ± {100 * error / found.numbers[of]:.1f} %"
                doubts = f"peak {peak:.2g}, overlap {overlap:.2g}"
                print(f"{of} {share}: {row['loss']}, {told}; doubts: {doubts}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    for name in ("loss_networks", "loss_networks_large"):
        lines = (DATA / f"{name}.jsonl").read_text().splitlines()
        simulated = [json.loads(line) for line in lines]
        with ProcessPoolExecutor(asked.workers) as pool:
            found = list(pool.map(answer, simulated, chunksize=4))
        pairs = [(row, a) for row, a in zip(simulated, found, strict=True) if isinstance(a, Answer)]
        rows, answers = [row for row, _ in pairs], [a for _, a in pairs]
        others = sum(has_other_loss(Problem(**{n: r[n] for n in FIELDS + OF_LOSSES})) for r in rows)
        print(f"\n## {name}: {len(simulated)} problems, {others} of them not ridge regression")
        print("\n".join(each for each in found if isinstance(each, str)))
        print_agreement(rows, answers)
        print_exceptions(rows, answers)
        for of in MEASURED[:2]:
            problems = gathered(rows, answers, of)
            weights = np.array(WEIGHTS[of])
            if asked.fit and name == "loss_networks":
                weights = fitted(problems.part(problems.number % 3 != 0), LEAST)
            print(f"\n{of}")
            print_weights(weights)
            print_coverage(problems, weights)


if __name__ == "__main__":
    main()
