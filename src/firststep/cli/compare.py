"""``firststep compare``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

import firststep
from firststep.cli.flags import NO_PROBLEM, NO_RUN, ProblemFlags, RunFlags
from firststep.cli.output import Bar, show
from firststep.compare import BULKS


def compare(
    problem: ProblemFlags = NO_PROBLEM,
    run: RunFlags = NO_RUN,
    *,
    model: Annotated[str, Parameter(help="one of " + ", ".join(BULKS))] = "network",
) -> int:
    """Simulate at finite size and print theory, simulation, difference and z-score.

    Example: firststep compare --student relu --teacher tanh --alpha 2 --beta 1 --step 1 --noise 0.1
    --dimension 500 --replicates 20
    """
    question = problem.problem()
    with Bar(run.json, model) as bar:
        result = firststep.compare(question, model=model, progress=bar, **run.options())
    return show(result, run.json)
