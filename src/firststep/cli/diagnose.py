"""``firststep diagnose``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import firststep
from firststep.checks import whole
from firststep.cli.flags import Json, number
from firststep.cli.output import show, tell_files
from firststep.errors import InvalidParameter
from firststep.writing import write_csv


def diagnose(
    inputs: Annotated[
        str,
        Parameter(
            help="a file (.npy, .npz, .parquet, .csv), options after commas, or a law such as "
            "student-t:5"
        ),
    ],
    *,
    dimension: Annotated[str | None, number("d, for a law")] = None,
    rows: Annotated[str | None, number("how many rows to look at")] = None,
    seed: Annotated[str, number("which rows, and which directions")] = "0",
    out: Annotated[
        Path | None,
        Parameter(
            help="where the covariance alone is wrong: a .csv for its eigenvalues, to be asked as "
            "--inputs spectrum:FILE"
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Say whether the theory of Gaussian inputs can be trusted for given data, or that of Gaussian
    inputs with a spectrum. Exit code 0 either way; --json has "trusted" and "covariance_only".

    Example: firststep diagnose embeddings.npy,standardize
    """
    if out is not None and out.suffix.lower() != ".csv":
        raise InvalidParameter("out", "a .csv file", str(out))
    size = None if dimension is None else whole("dimension", dimension, 2)
    count = None if rows is None else whole("rows", rows, 1)
    chosen = whole("seed", seed, 0)
    found = firststep.diagnose_inputs(inputs, size, rows=count, seed=chosen)
    show(found, json)
    if out is not None and found.spectrum is None:
        print("no spectrum written: the covariance is not all that is off", file=sys.stderr)
    elif out is not None and found.spectrum is not None:
        values = found.spectrum.eigenvalues(found.dimension).tolist()
        write_csv(out, [["eigenvalue"], *([value] for value in values)])
        if not json:
            tell_files([out])
    return 0
