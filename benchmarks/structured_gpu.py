"""A phase diagram of 100 x 20 x 10 structured problems (alpha x step x ridge) on the GPU.

``python benchmarks/structured_gpu.py [small]``
"""

from __future__ import annotations

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from firststep import Problem, predict

INPUTS = "power-law:0.3"  # 24 levels at d = 1500
PLACES = ((0, 0, 0), (5, 3, 3), (-1, -1, -1))


def main() -> None:
    counts = (20, 5, 5) if "small" in sys.argv else (100, 20, 10)
    size = " x ".join(map(str, counts))
    print(f"{jax.default_backend()}: {jax.devices()[0]}, phase diagram {size}, {INPUTS}")
    for student in ("tanh", "relu"):
        problem = Problem(
            student=student,
            teacher="sin",
            alpha=2.0,
            beta=1.0,
            alpha0=3.0,
            noise=0.1,
            readout="ones",
            inputs=INPUTS,
            teacher_overlaps="top:0.3",
            dimension=1500,
        )
        alpha = np.geomspace(0.3, 10, counts[0])[:, None, None]
        step = np.linspace(0.1, 3, counts[1])[None, :, None]
        ridge = np.geomspace(1e-3, 10, counts[2])[None, None, :]
        for attempt in ("first call, with compilation", "second call"):
            begin = time.perf_counter()
            with jax.enable_x64(True):
                arrays = {"alpha": jnp.asarray(alpha), "step": jnp.asarray(step)}
                found = predict(problem, ridge=jnp.asarray(ridge), **arrays)
                risk = np.asarray(found.risk)
            taken, unsolved = time.perf_counter() - begin, np.isnan(risk).sum()
            print(f"  {student}: {attempt}: {taken:.1f} s, {unsolved} unsolved", flush=True)
        worst = 0.0
        for i, j, k in PLACES:
            point = {"alpha": alpha[i, 0, 0], "step": step[0, j, 0], "ridge": ridge[0, 0, k]}
            exact = predict(problem, **{name: float(value) for name, value in point.items()}).risk
            worst = max(worst, abs(risk[i, j, k] / exact - 1))
        print(f"  {student}: largest difference from the NumPy solver: {worst:.1e}", flush=True)


if __name__ == "__main__":
    main()
