"""A phase diagram of 100 x 100 x 20 problems (alpha x step x ridge) on the GPU.

``python benchmarks/theory_gpu.py [size]``
"""

from __future__ import annotations

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from firststep import Problem, predict


def main() -> None:
    small = len(sys.argv) > 1 and sys.argv[1] == "small"
    counts = (20, 20, 5) if small else (100, 100, 20)
    print(
        f"{jax.default_backend()}: {jax.devices()[0]}, phase diagram {' x '.join(map(str, counts))}"
    )
    for student, readout in (("relu", "signs"), ("tanh", "ones"), ("relu", "ones")):
        problem = Problem(
            student=student,
            teacher="sin",
            alpha=2.0,
            beta=1.0,
            alpha0=3.0,
            noise=0.1,
            readout=readout,
        )
        alpha = np.geomspace(0.3, 10, counts[0])[:, None, None]
        step = np.linspace(0.1, 5, counts[1])[None, :, None]
        ridge = np.geomspace(1e-4, 10, counts[2])[None, None, :]
        for attempt in ("first call, with compilation", "second call"):
            begin = time.perf_counter()
            with jax.enable_x64(True):
                found = predict(
                    problem,
                    alpha=jnp.asarray(alpha),
                    step=jnp.asarray(step),
                    ridge=jnp.asarray(ridge),
                )
                risk = np.asarray(found.risk)
            print(
                f"  {student}, {readout}: {attempt}: {time.perf_counter() - begin:.1f} s, "
                f"{np.isnan(risk).sum()} unsolved",
                flush=True,
            )
        places = [(0, 0, 0), (5, 9, 3), (counts[0] - 1, counts[1] - 1, counts[2] - 1)]
        worst = 0.0
        for i, j, k in places:
            exact = predict(
                problem,
                alpha=float(alpha[i, 0, 0]),
                step=float(step[0, j, 0]),
                ridge=float(ridge[0, 0, k]),
            ).risk
            worst = max(worst, abs(risk[i, j, k] / exact - 1))
        print(
            f"  {student}, {readout}: largest relative difference from the NumPy solver at three "
            f"points: {worst:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
