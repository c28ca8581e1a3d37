"""``firststep predict``."""

from __future__ import annotations

import numpy as np

import firststep
from firststep.cli.flags import NO_PROBLEM, Bulk, Json, ProblemFlags
from firststep.cli.output import complain, show


def predict(problem: ProblemFlags = NO_PROBLEM, *, bulk: Bulk = "exact", json: Json = False) -> int:
    """Print the exact asymptotic risk and what explains it, in milliseconds.

    Example: firststep predict --student tanh --teacher sin --alpha 3 --beta 1 --alpha0 20 --step 3
    --ridge 0.0333 --readout ones
    """
    result = firststep.predict(problem.problem(), bulk=bulk)
    show(result, json)
    if np.all(np.asarray(result.status) == "converged"):
        return 0
    complain("some points could not be solved: their status says why, and they have no number")
    return 1
