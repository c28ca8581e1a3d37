"""``firststep simulate``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

import firststep
from firststep.cli.curves import Out, changed, command, question_of, show_curves
from firststep.cli.flags import (
    NO_PROBLEM,
    NO_RUN,
    Options,
    ProblemFlags,
    RunFlags,
    either,
    number,
    switch,
    told,
)
from firststep.cli.output import Bar, show
from firststep.curves import Question, simulated
from firststep.simulation.design import Training
from firststep.simulation.kinds import MODELS, OPTIMIZERS


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ModelFlags(Options):
    """What is simulated: the model, and how it is trained."""

    model: Annotated[str, Parameter(help="one of " + ", ".join(MODELS))] = "network"
    steps: Annotated[str, number(told(Training, "steps"))] = "1"
    batches: Annotated[str, Parameter(help=told(Training, "batches"))] = "fresh"
    reuse: Annotated[bool, switch(told(Training, "reuse"))] = False
    parameterization: Annotated[str, Parameter(help=told(Training, "parameterization"))] = (
        "mean-field"
    )
    optimizer: Annotated[str, Parameter(help=either(OPTIMIZERS))] = "gradient"
    weight_decay: Annotated[str, number(told(Training, "weight_decay"))] = "0"
    damping: Annotated[str, number(told(Training, "damping"))] = f"{Training().damping:g}"
    kernel: Annotated[str | None, number("g of a kernel baseline, an expression in z")] = None


NO_MODEL = ModelFlags()


def simulate(
    problem: ProblemFlags = NO_PROBLEM,
    run: RunFlags = NO_RUN,
    model: ModelFlags = NO_MODEL,
    *,
    out: Out = None,
) -> int:
    """Run the experiment at finite size and print what was measured.

    Example: firststep simulate --student tanh --teacher sin --alpha 3 --beta 1 --alpha0 20 --step 3
    --ridge 0.0333 --dimension 1000 --replicates 20 --seed 0

    A number may be a range, a second one several: --alpha 0.3..10:8 --step 0,1 --out curve.png
    """
    question = question_of(problem, out)
    if isinstance(question, Question):
        options = {**model.options(), **run.options()}
        with Bar(run.json, model.model, parts=question.size) as bar:
            found = simulated(question, progress=bar, **options)
        given = changed({**model.options(), **run.options()}, NO_MODEL, NO_RUN)
        return show_curves(found, out, run.json, command("simulate", problem, given))
    with Bar(run.json, model.model) as bar:
        result = firststep.simulate(question, progress=bar, **model.options(), **run.options())
    return show(result, run.json)
