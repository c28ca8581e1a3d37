"""Approximate leave-one-out against refits: ``python -m tests.scripts.leave_one_out``.

Prints the numbers of the table in docs/estimators.md: five minutes on one core, most of them for
hinge and quantile.
"""

from __future__ import annotations

import numpy as np

from firststep.losses import loss_of
from tests.simulation.fit.test_left_out import left_out, refitted

ROWS, COLUMNS, SETS = 150, 15, 3
LOSSES = ("logistic", "squared-hinge", "huber:0.5", "hinge", "quantile:0.7")


def sample(width: int, binary: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((ROWS, COLUMNS))
    weights = rng.standard_normal((COLUMNS, width)) / COLUMNS**0.5
    u = x.sum(axis=1) / COLUMNS**0.5
    if binary:
        return np.tanh(x @ weights + 1), np.sign(u + 0.5 * rng.standard_normal(ROWS))
    return np.tanh(x @ weights + 1), u + 0.5 * rng.standard_t(3, ROWS)


def main() -> None:
    for text in LOSSES:
        loss = loss_of(text)
        best, chosen, cost, below = [], 0, 0.0, []
        for width in (60, 250):
            ridges = tuple(width * np.geomspace(10, 1e-6, 15))
            for seed in range(SETS):
                rows = sample(width, loss.is_margin, seed)
                ours, exact = (
                    np.array([loss.value(rows[1], f).mean() for f in way(text, rows, ridges, True)])
                    for way in (left_out, refitted)
                )
                place, right = int(np.argmin(ours)), int(np.argmin(exact))
                best.append(ours[right] / exact[right] - 1)
                chosen += place == right
                cost = max(cost, exact[place] / exact[right] - 1)
                below += list((ours / exact)[right + 2 :] - 1)
        print(
            f"{text}: at the best ridge {100 * min(best):+.1f} to {100 * max(best):+.1f} %, "
            f"same ridge {chosen} of {2 * SETS}, else at most {100 * cost:.1f} % worse, "
            f"further down {100 * min(below):+.0f} to {100 * max(below):+.0f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
