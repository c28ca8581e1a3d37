"""``firststep spectrum``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import firststep
from firststep.cli.flags import NO_PROBLEM, Bulk, Json, ProblemFlags, Seed, number
from firststep.cli.output import Bar, show_and_draw
from firststep.figures import spectra as drawing
from firststep.theory.spectrum.resolvent import MATRICES


def spectrum(
    problem: ProblemFlags = NO_PROBLEM,
    *,
    of: Annotated[str, Parameter(help="one of " + ", ".join(MATRICES))] = "weights",
    bulk: Bulk = "exact",
    replicates: Annotated[str, number("networks")] = "4",
    seed: Seed = "0",
    out: Annotated[
        Path | None,
        Parameter(help="draw it: a .png, .pdf or .svg file, with its data as .csv beside it"),
    ] = None,
    json: Json = False,
) -> int:
    """Print the spectrum of the first layer, or of its kernel, after the step: predicted and
    simulated.

    Example: firststep spectrum --of weights --student tanh --teacher sin --alpha 2 --beta 1
    --step 2 --dimension 500
    """
    if out is not None:
        drawing.prepare(out)
    question = problem.problem()
    with Bar(json, "spectrum") as bar:
        found = firststep.spectrum(
            question, of, replicates=replicates, seed=seed, bulk=bulk, progress=bar
        )
    show_and_draw(found, json, out, partial(drawing.write, found))
    return 0
