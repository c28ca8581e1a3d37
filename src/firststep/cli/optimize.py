"""``firststep optimize``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

import firststep
from firststep.cli.flags import NO_PROBLEM, Bulk, Json, ProblemFlags
from firststep.cli.output import show


def optimize(
    problem: ProblemFlags = NO_PROBLEM,
    *,
    over: Annotated[
        str, Parameter(help="one or two of ridge, step, alpha0, beta, separated by a comma")
    ] = "ridge,step",
    objective: Annotated[
        str | None,
        Parameter(
            help="risk, test-loss or error-rate; if left out the error rate of binary labels, the "
            "test loss of another loss, else the risk"
        ),
    ] = None,
    bulk: Bulk = "exact",
    json: Json = False,
) -> int:
    """Find the ridge, step, ... of least predicted risk, test loss or error rate.

    Example: firststep optimize --over ridge,step --student tanh --teacher sin --alpha 3 --beta 1
    --alpha0 20 --readout ones
    """
    found = firststep.optimal(problem.problem(), over, bulk=bulk, objective=objective)
    return show(found, json)
