"""``advise`` on tables of several sizes: ``python benchmarks/advise.py``.

Seconds on the cores there are, seconds of work of all cores together (which other processes hardly
change), and these over one fit of ``OneStepRegressor`` on the same rows in the same run: the ratio
holds on other machines. ``--million`` adds a file of a million
rows, of which a sample is looked at; it is written to a temporary folder. ``--picture`` draws
docs/images/advise.png and prints the text beside it in docs/advise.md.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from firststep import OneStepRegressor, advise, plots

SIZES = ((500, 20), (2000, 100), (10_000, 100), (2000, 1000))
WIDTH = 256
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "advise.png"


def drawn(rows: int, columns: int) -> tuple[Any, Any]:
    """y = tanh(3 <x, theta>) + 0.2 eps."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, columns))
    return x, np.tanh(3 * x[:, 0]) + 0.2 * rng.standard_normal(rows)


def seconds(work: Callable[[], Any]) -> tuple[float, float]:
    """On the clock, and of work."""
    begin, worked = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - begin, time.process_time() - worked


def million() -> None:
    """A .csv and an .npy file of 1 000 000 rows of 20 columns."""
    x, y = drawn(1_000_000, 20)
    table = np.column_stack([x, y]).astype("float32")
    del x, y
    with tempfile.TemporaryDirectory() as folder:
        for name in ("table.npy", "table.csv"):
            path = Path(folder) / name
            if name.endswith("npy"):
                np.save(path, table)
            else:
                np.savetxt(path, table, delimiter=",", fmt="%.5g")
            spent = seconds(lambda path=path: advise(path, target=-1))  # type: ignore[misc]
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            told = f"{spent[0]:.1f} | {spent[1]:.1f} | | peak {peak:.2f} GB"
            print(f"| 1 000 000 x 20, {path.suffix} | {told} |")


def picture() -> None:
    """Of the breast cancer data of scikit-learn."""
    from sklearn.datasets import load_breast_cancer

    found = advise(load_breast_cancer(as_frame=True).frame, target="target")
    plots.save(found.figure(), PICTURE)
    print(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--picture", action="store_true")
    given = parser.parse_args()
    if given.picture:
        picture()
        return
    print("| rows x columns | advise, s | work, s | one fit, work, s | advise over one fit |")
    print("| --- | --- | --- | --- | --- |")
    for rows, columns in SIZES:
        x, y = drawn(rows, columns)
        with threadpool_limits(1):
            model = OneStepRegressor(width=WIDTH, steps=1, random_state=0)
            fit = min(seconds(lambda m=model, a=x, b=y: m.fit(a, b))[1] for _ in range(2))  # type: ignore[misc]
        spent = seconds(lambda a=x, b=y: advise(a, b, width=WIDTH))  # type: ignore[misc]
        wall, work = spent
        told = f"{wall:.1f} | {work:.1f} | {fit:.2f} | {work / fit:.0f}"
        print(f"| {rows} x {columns} | {told} |", flush=True)
    if given.million:
        million()


if __name__ == "__main__":
    main()
