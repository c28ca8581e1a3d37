"""Run every CPU benchmark, one after the other: ``python benchmarks/run_all.py``.

About a quarter of an hour on one idle machine.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RUNS = (
    ["cpu_replicate.py"],
    ["cpu_replicate.py", "--student", "erf"],
    ["special_functions.py"],
    ["special_functions.py", "--replicate"],
    ["losses.py"],
    ["workers.py"],
    ["memory.py"],
    ["theory_speed.py"],
    ["theory_curves.py"],
    ["theory_terms.py"],
    ["structured.py"],
    ["sweep_machinery.py"],
    ["explorer.py"],
    ["finite_size.py"],
    ["trained_layer.py"],
    ["estimators.py"],
    ["classifiers.py"],
)


def main() -> None:
    for arguments in RUNS:
        print(f"## {' '.join(arguments)}", flush=True)
        subprocess.run([sys.executable, str(HERE / arguments[0]), *arguments[1:]], check=True)


if __name__ == "__main__":
    main()
