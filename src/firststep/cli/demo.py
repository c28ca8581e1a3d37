"""``firststep demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from firststep.cli.flags import number
from firststep.cli.output import Bar, tell_files
from firststep.figures import demo as figure


def demo(
    *,
    out: Annotated[Path, Parameter(help="folder for the figure and its data")] = Path("demo"),
    dimension: Annotated[str, number("d of the simulated networks")] = "400",
    replicates: Annotated[str, number("networks per point")] = "8",
    seed: Annotated[str, Parameter(allow_leading_hyphen=True)] = "0",
) -> int:
    """Draw risk against sample size for erf learning erf: theory and simulation of a small and a
    large step, random features.
    """
    figure.prepare(out)
    with Bar(False, "demo", parts=figure.PARTS) as bar:
        table = figure.compute(dimension=dimension, replicates=replicates, seed=seed, progress=bar)
    written = figure.write(table, out)
    print(figure.text(table))
    tell_files(written)
    return 0
