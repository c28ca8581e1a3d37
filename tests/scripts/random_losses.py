"""Random problems of other losses, theory against simulation.

python tests/scripts/random_losses.py --count 200 --dimension 400 --replicates 8
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from firststep import FirststepError, Problem, compare

SHOWN = ("test_loss", "error_rate", "training_loss")


def drawn(rng: np.random.Generator) -> Problem:
    """Losses, labels, readouts and ridges from 1e-3 to 3 at random."""
    loss = str(rng.choice(["logistic", "squared-hinge", "hinge", "huber:0.5", "square"]))
    fields: dict[str, Any] = dict(
        student=str(rng.choice(["tanh", "relu", "erf", "softplus", "tanh(z+0.5)"])),
        teacher=str(rng.choice(["tanh", "z", "sin", "erf"])),
        readout=str(rng.choice(["ones", "signs", "gaussian"])),
        alpha=float(rng.choice([1, 2, 3, 4])),
        beta=float(rng.choice([0.5, 1, 1.5])),
        alpha0=float(rng.choice([1, 3, 6])),
        step=float(rng.choice([0.5, 1, 2])),
        ridge=float(10 ** rng.uniform(-3, 0.5)),
        loss=loss,
    )
    if loss == "huber:0.5":
        return Problem(**fields, noise=0.3)
    labels, flip = str(rng.choice(["sign", "logit:3"])), float(rng.choice([0, 0.1]))
    return Problem(**fields, labels=labels, flip=flip, intercept=bool(rng.integers(2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--dimension", type=int, default=400)
    parser.add_argument("--replicates", type=int, default=8)
    parser.add_argument("--seed", type=int, default=31)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    scores: dict[str, list[tuple[float, float]]] = {name: [] for name in SHOWN}
    for number in range(asked.count):
        problem = drawn(rng)
        try:
            found = compare(problem, asked.dimension, asked.replicates, number)
        except FirststepError as error:
            print(f"{number}: {problem}: {error}")
            continue
        for row in found.quantities:
            if row.quantity in scores:
                scores[row.quantity].append((row.relative, row.z))
                if abs(row.z) > 3 and abs(row.relative) > 0.01:
                    off = f"{100 * row.relative:+.2f} %, {row.z:+.1f} s.e."
                    print(f"{number}: {problem}: {row.quantity} {off}")
    print("| quantity | problems | rms z | largest | beyond 3 s.e. and 1 % |")
    print("| --- | --- | --- | --- | --- |")
    for name, pairs in scores.items():
        share, z = np.array(pairs).T
        beyond = np.sum((np.abs(z) > 3) & (np.abs(share) > 0.01))
        rms = np.sqrt(np.mean(z**2))
        print(f"| {name} | {z.size} | {rms:.2f} | {np.abs(z).max():.1f} | {beyond} |")


if __name__ == "__main__":
    main()
