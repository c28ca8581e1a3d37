"""``firststep predict``."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from cyclopts import Parameter

import firststep
from firststep.cli.curves import Out, command, question_of, show_curves
from firststep.cli.flags import NO_PROBLEM, Bulk, Json, ProblemFlags, number
from firststep.cli.output import Bar, complain, show
from firststep.curves import Question, predicted
from firststep.errors import InvalidParameter


def predict(
    problem: ProblemFlags = NO_PROBLEM,
    *,
    bulk: Bulk = "exact",
    neurons: Annotated[
        str, Parameter(help="auto: typed where a spectrum is steep; plain: never")
    ] = "auto",
    check: Annotated[
        str | None,
        number("also draw so many first layers at --dimension, 1 to 100, and solve each of them"),
    ] = None,
    seed: Annotated[str | None, number("seed of these layers [default: 0]")] = None,
    words: Annotated[
        bool, Parameter(help="also read the result out: bounds, what is left, what would help")
    ] = False,
    out: Out = None,
    json: Json = False,
) -> int:
    """Print the exact asymptotic risk and what explains it, in milliseconds.

    Example: firststep predict --student tanh --teacher sin --alpha 3 --beta 1 --alpha0 20 --step 3
    --ridge 0.0333 --readout ones

    With --check 10 --dimension 200 it says whether to trust it at that size. A number may be a
    range, a second one several: --alpha 0.3..10:30 --step 0,1,3 --out curve.png
    """
    question = question_of(problem, out)
    if isinstance(question, Question):
        alone = {"check": check, "seed": seed, "words": words or None}
        for name in (name for name, value in alone.items() if value is not None):
            raise InvalidParameter(name, "asked of a single point", "several values of a field")
        given = {"bulk": None if bulk == "exact" else bulk}
        found = predicted(question, bulk, neurons)
        return show_curves(found, out, json, command("predict", problem, given))
    with Bar(json or check is None, "layers") as bar:
        result = firststep.predict(
            question, bulk=bulk, neurons=neurons, check=check, seed=seed, progress=bar
        )
    if words and result.shape != ():
        raise InvalidParameter("words", "asked of a single point", "several values of the ridge")
    show(result, json, result.in_words() if words else "")
    if np.all(np.asarray(result.status) == "converged"):
        return 0
    complain("some points could not be solved: their status says why, and they have no number")
    return 1
