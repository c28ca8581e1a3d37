"""Claim: a replicate at d = N = 4000, n0 = 80 000, n = 12 000 peaks under 1.6 GB of memory.

    python benchmarks/memory.py [--dimension 4000] [--step-ratio 20]

The replicate runs in a process of its own, whose peak the operating system reports; its estimate of
itself is printed too.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys

from firststep import Problem
from firststep.simulation.backends import NumpyBackend, block_rows
from firststep.simulation.design import Training, make_design


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimension", type=int, default=4000)
    parser.add_argument("--step-ratio", type=float, default=20.0)
    parser.add_argument("--ratio", type=float, default=3.0)
    parser.add_argument("--model", default="network")
    arguments = parser.parse_args()
    fields = dict(
        student="tanh",
        teacher="sin",
        alpha=arguments.ratio,
        alpha0=arguments.step_ratio,
        beta=1,
        step=1,
        ridge=0.01,
    )
    program = (
        f"import firststep; p = firststep.Problem(**{fields!r});"
        f"print(firststep.simulate(p, {arguments.dimension}, 1, workers=1, "
        f"model={arguments.model!r}).risk)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    problem = Problem(**fields)
    sizes = problem.sizes(arguments.dimension)
    rows = block_rows(sizes.width, sizes.dimension, NumpyBackend())
    design = make_design(
        problem,
        arguments.model,
        Training(),
        sizes,
        test_samples=4 * sizes.dimension,
        block=rows,
        kernel=None,
    )
    print(
        f"peak {peak / 1e9:.2f} GB (claim: under 1.60); estimated before starting "
        f"{design.memory(8) / 1e9:.2f} GB"
    )


if __name__ == "__main__":
    main()
