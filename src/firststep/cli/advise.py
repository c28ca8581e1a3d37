"""``firststep advise``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import firststep
from firststep.checks import whole
from firststep.cli.flags import Json, number
from firststep.cli.output import Bar, show, tell_files
from firststep.errors import BackendUnavailable


def advise(
    table: Annotated[str, Parameter(help="a table of numbers: .csv, .parquet or .npy")],
    *,
    target: Annotated[
        str | None, number("the column to predict: its name, or its place from 1 (-1: the last)")
    ] = None,
    drop: Annotated[str | None, number("columns to leave out, between commas")] = None,
    rows: Annotated[str | None, number("how many rows, drawn at random, to look at")] = None,
    width: Annotated[str, number("neurons of the networks that are measured")] = "256",
    seed: Annotated[str, number("of folds, weights and samples of rows")] = "0",
    report: Annotated[Path | None, Parameter(help="write an .html file with pictures")] = None,
    json: Json = False,
) -> int:
    """Say whether a step of feature learning would help on a table, by how much, and if not why.

    The verdict comes first, then reasons and numbers with their intervals. Exit code 0 either way;
    --json has "answer" and "causes".

    Example: firststep advise houses.csv --target price --report houses.html
    """
    try:
        ask = firststep.advise
    except ImportError as error:
        hint = "try: pip install 'firststep[learn]'"
        raise BackendUnavailable("scikit-learn", "installed", str(error), hint) from None

    def announce(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    with Bar(json, "measuring") as progress:
        found = ask(
            table,
            target=target,
            drop=drop or (),
            rows=None if rows is None else whole("rows", rows, 10),
            width=whole("width", width, 2),
            seed=whole("seed", seed, 0),
            report=report,
            announce=None if json else announce,
            progress=progress,
        )
    show(found, json)
    if report is not None and not json:
        tell_files([report])
    return 0
