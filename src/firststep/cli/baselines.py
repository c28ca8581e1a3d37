"""``firststep baselines``."""

from __future__ import annotations

from typing import Annotated

import firststep
from firststep.cli.flags import NO_PROBLEM, NO_RUN, ProblemFlags, RunFlags, number, several
from firststep.cli.output import Bar, show
from firststep.simulation.kinds import MODELS


def baselines(
    problem: ProblemFlags = NO_PROBLEM,
    run: RunFlags = NO_RUN,
    *,
    models: Annotated[list[str] | None, several("which models; default: every baseline")] = None,
    inner_product_kernel: Annotated[str, number("g(<x, y>/d)")] = "exp(z)",
    distance_kernel: Annotated[str, number("g(|x - y|^2/d)")] = "exp(-0.5*z)",
) -> int:
    """Run the fixed-kernel and linear baselines on the same data, with the kernel lower bound."""
    question = problem.problem()
    chosen = tuple(models or MODELS.where("is_baseline"))
    with Bar(run.json, "baselines", parts=len(chosen)) as bar:
        result = firststep.baselines(
            question,
            models=chosen,
            inner_product_kernel=inner_product_kernel,
            distance_kernel=distance_kernel,
            progress=bar,
            **run.options(),
        )
    return show(result, run.json)
