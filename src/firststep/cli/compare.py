"""``firststep compare``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

import firststep
from firststep.cli.curves import Out, changed, command, question_of, show_curves
from firststep.cli.flags import NO_PROBLEM, NO_RUN, ProblemFlags, RunFlags
from firststep.cli.output import Bar, show
from firststep.compare import BULKS
from firststep.curves import Question, compared


def compare(
    problem: ProblemFlags = NO_PROBLEM,
    run: RunFlags = NO_RUN,
    *,
    model: Annotated[str, Parameter(help="one of " + ", ".join(BULKS))] = "network",
    out: Out = None,
) -> int:
    """Simulate at finite size and print theory, simulation, difference and z-score.

    Example: firststep compare --student relu --teacher tanh --alpha 2 --beta 1 --step 1 --noise 0.1
    --dimension 500 --replicates 20

    A number may be a range, a second one several: --alpha 0.3..10:8 --step 0,1 --out curve.png
    """
    question = question_of(problem, out)
    if isinstance(question, Question):
        options = {"model": model, **run.options()}
        with Bar(run.json, model, parts=question.size) as bar:
            found = compared(question, progress=bar, **options)
        given = {"model": None if model == "network" else model, **changed(run.options(), NO_RUN)}
        return show_curves(found, out, run.json, command("compare", problem, given))
    with Bar(run.json, model) as bar:
        result = firststep.compare(question, model=model, progress=bar, **run.options())
    return show(result, run.json)
