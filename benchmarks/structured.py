"""What a spectrum of the inputs costs the theory, next to N(0, I), on one thread.

``python benchmarks/structured.py``
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from firststep import Problem, predict

LAWS = (("tanh", "ones"), ("relu", "signs"))
LAWS += (("tanh", "gaussian"), ("relu", "gaussian"), ("tanh(z+0.5)", "gaussian"))
# Steps that make spikes of 1 to 2: longer ones need more nodes of kappa, whatever the inputs.
SPECTRA: tuple[dict[str, Any], ...] = (
    {"inputs": "power-law:0.3", "teacher_overlaps": "top:0.3"},
    {"inputs": "power-law:0.6", "step": 0.6},
)
AXES = {"alpha": np.geomspace(0.3, 10, 60), "ridge": np.geomspace(1e-3, 10, 60)}


def seconds(run: Callable[[], Any], times: int) -> float:
    """Of the fastest of several; the first call makes what is kept."""
    run()
    found = []
    for _ in range(times):
        begin = time.process_time()
        run()
        found.append(time.process_time() - begin)
    return min(found)


def main() -> None:
    for student, readout in LAWS:
        plain = Problem(
            student=student,
            teacher="sin",
            readout=readout,
            alpha=2,
            beta=1,
            alpha0=2,
            step=2,
            ridge=0.1,
            noise=0.1,
            dimension=1500,
        )
        problems = [plain, *(plain.replace(**changes) for changes in SPECTRA)]
        alone = [seconds(partial(predict, p), 7) for p in problems]
        words = ", ".join(f"{each / alone[0]:.1f}" for each in alone[1:])
        print(f"{student}, {readout}: one problem {1e3 * alone[0]:.0f} ms, times {words}")
        for axis, values in AXES.items():
            curves = [seconds(partial(predict, p, **{axis: values}), 2) for p in problems]
            words = ", ".join(f"{each:.2f} s" for each in curves)
            print(f"    60 points along {axis}: {words}", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
