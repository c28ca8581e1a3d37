"""Other losses against verified numbers: ``python tests/scripts/loss_tables.py [L1 ...]``.

The theory beside simulations by other code (tests/data/loss_tables.json), a row a fit; with
``--replicates 24`` our own simulation beside them instead, with the errors of both. Then what is
left of each number over all rows, and every number that is off by more than three standard errors
and more than 1 %.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from firststep import FirststepError
from firststep.results import with_error
from tests.agreement.loss_tables import ROWS, Row, Seen

QUANTITIES = ("test_loss", "error_rate", "risk", "training_loss", "output_alignment")
HEADS = (
    "of | loss | labels | ridge | test loss | simulation | difference | z | 0–1 error (risk) | "
    "simulation | difference | z | training loss | z | alignment | z"
)


def seen(row: Row, replicates: int, seed: int) -> dict[str, Seen]:
    """Our numbers beside the verified ones."""
    if replicates:
        found = row.beside_simulation(row.simulated(replicates, seed))
    else:
        found = row.beside_theory(row.predicted())
    return {each.quantity: each for each in found}


def _whole(number: Seen | None) -> list[str]:
    if number is None:
        return [""] * 4
    beside = with_error(number.mean, number.error)
    return [f"{number.found:.5g}", beside, f"{100 * number.relative:+.2f} %", f"{number.z:+.1f}"]


def _short(number: Seen | None) -> list[str]:
    return [""] * 2 if number is None else [f"{100 * number.relative:+.2f} %", f"{number.z:+.1f}"]


def line(row: Row, numbers: dict[str, Seen]) -> str:
    """One row of the table."""
    loss = f"{row.asked['loss']}{', intercept' if row.asked.get('intercept') else ''}"
    cells = [row.of, loss, row.labels, f"{row.asked['ridge']:g}"]
    cells += _whole(numbers.get("test_loss"))
    cells += _whole(numbers.get("error_rate", numbers.get("risk")))
    cells += _short(numbers.get("training_loss")) + _short(numbers.get("output_alignment"))
    return "| " + " | ".join(cells) + " |"


def totals(found: list[tuple[Row, dict[str, Seen]]]) -> Iterator[str]:
    """What is left of each number, and the exceptions."""
    yield "| number | rows | median z | rms z | median difference | beyond 3 errors and 1 % |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name in QUANTITIES:
        some = [numbers[name] for _, numbers in found if name in numbers]
        if not some:
            continue
        z, share = (np.abs([getattr(each, of) for each in some]) for of in ("z", "relative"))
        off = sum(not each.agrees() for each in some)
        middle = f"{100 * np.median(share):.2f} %"
        told = f"{np.median(z):.2f} | {np.sqrt(np.mean(z**2)):.2f} | {middle} | {off}"
        yield f"| {name.replace('_', ' ')} | {len(some)} | {told} |"
    yield ""
    for row, numbers in found:
        for each in numbers.values():
            if not each.agrees():
                told = f"{100 * each.relative:+.2f} %, {each.z:+.1f} standard errors"
                yield f"{row.name}: {each.quantity.replace('_', ' ')} {told}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("of", nargs="*", help="layers and networks; default: all")
    parser.add_argument("--replicates", type=int, default=0, help="of our own simulation")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(f"| {HEADS} |")
    print("|" + " --- |" * 16)
    found = []
    for row in ROWS:
        if asked.of and row.of not in asked.of:
            continue
        try:
            found.append((row, seen(row, asked.replicates, asked.seed)))
        except FirststepError as error:
            print(f"| {row.of} | {row.asked['loss']} | {row.labels} | {error} |")
        else:
            print(line(*found[-1]), flush=True)
    print()
    print("\n".join(totals(found)))


if __name__ == "__main__":
    main()
