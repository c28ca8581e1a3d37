"""``firststep simulate``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

import firststep
from firststep.cli.flags import NO_PROBLEM, NO_RUN, Options, ProblemFlags, RunFlags, number, switch
from firststep.cli.output import Bar, show
from firststep.simulation.kinds import MODELS


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ModelFlags(Options):
    """What is simulated: the model, how it is trained, and on what."""

    model: Annotated[str, Parameter(help="one of " + ", ".join(MODELS))] = "network"
    steps: Annotated[str, number("number of gradient steps")] = "1"
    batches: Annotated[str, Parameter(help="fresh batch for every step, or the same one")] = "fresh"
    reuse: Annotated[bool, switch("fit the readout on the step's own data")] = False
    parameterization: Annotated[str, Parameter(help="mean-field or ntk")] = "mean-field"
    optimizer: Annotated[str, Parameter(help="gradient, momentum or adam")] = "gradient"
    inputs: Annotated[
        str,
        Parameter(
            help="law of the inputs (gaussian, rademacher, uniform, student-t:NU, "
            "elliptical-t:NU, power-law:A, mixture:R), or a file of samples (.npy, .npz, .parquet, "
            ".csv), with options after commas: data.npz,key=x,standardize"
        ),
    ] = "gaussian"
    teacher_terms: Annotated[
        str | None, number("further terms of the teacher, such as relu,tanh")
    ] = None
    kernel: Annotated[str | None, number("g of a kernel baseline, an expression in z")] = None


NO_MODEL = ModelFlags()


def simulate(
    problem: ProblemFlags = NO_PROBLEM, run: RunFlags = NO_RUN, model: ModelFlags = NO_MODEL
) -> int:
    """Run the experiment at finite size and print what was measured.

    Example: firststep simulate --student tanh --teacher sin --alpha 3 --beta 1 --alpha0 20 --step 3
    --ridge 0.0333 --dimension 1000 --replicates 20 --seed 0
    """
    question = problem.problem()
    with Bar(run.json, model.model) as bar:
        result = firststep.simulate(question, progress=bar, **model.options(), **run.options())
    return show(result, run.json)
