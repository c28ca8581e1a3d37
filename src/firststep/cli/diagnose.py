"""``firststep diagnose``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

import firststep
from firststep.checks import whole
from firststep.cli.flags import Json, number
from firststep.cli.output import show


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
    json: Json = False,
) -> int:
    """Say whether the theory of Gaussian inputs can be trusted for given data. Exit code 0 either
    way; --json has "trusted".

    Example: firststep diagnose embeddings.npy,standardize
    """
    size = None if dimension is None else whole("dimension", dimension, 2)
    count = None if rows is None else whole("rows", rows, 1)
    chosen = whole("seed", seed, 0)
    return show(firststep.diagnose_inputs(inputs, size, rows=count, seed=chosen), json)
