"""Prints the tables of docs/spectra.md: ``python tests/scripts/spectrum_tables.py``."""

from __future__ import annotations

import sys
from pathlib import Path

from firststep import spectral_law, spectrum
from firststep.results import with_error
from firststep.spectrum import distance

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.test_spectrum import CASES


def main(dimension: int = 600, replicates: int = 12) -> None:
    for of in ("weights", "kernel"):
        print(
            "| problem | outliers: theory | networks (z) "
            "| largest in the bulk | networks | KS distance | isotropic |"
        )
        print("|" + " --- |" * 7)
        for name, question in CASES.items():
            found = spectrum(question, of, dimension, replicates)
            other = spectral_law(found.law.problem, of, "isotropic")
            theory = ", ".join(f"{level.theory:.4g}" for level in found.outliers) or "none"
            networks = ", ".join(
                f"{with_error(each.simulated, each.standard_error)} ({each.z:+.1f})"
                for each in found.outliers
            )
            top = found["largest in the bulk"]
            edge = f"{top.theory:.4g} | {with_error(top.simulated, top.standard_error)}"
            distances = f"{found.distance:.4f} | {distance(other, found.simulated):.4f}"
            print(f"| {name} | {theory} | {networks} | {edge} | {distances} |", flush=True)


if __name__ == "__main__":
    main()
