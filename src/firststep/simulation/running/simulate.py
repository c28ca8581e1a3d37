"""``simulate`` and ``baselines``: from a Problem, a size and a seed to results."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from firststep.activations import Activation, activation
from firststep.checks import choice
from firststep.errors import InvalidParameter
from firststep.inputs import InputLaw
from firststep.problem import Problem, Sizes
from firststep.results import Baselines, Interrupted, Simulation
from firststep.simulation.backends import Backend, block_rows
from firststep.simulation.design import Design, Training, chosen_data, make_design, test_set_size
from firststep.simulation.kinds import MODELS, Model
from firststep.simulation.running.execute import (
    PER_RIDGE,
    Job,
    Plan,
    Progress,
    available_cores,
    cached_backend,
    execute,
    work,
)
from firststep.simulation.running.options import Run, gathered, nothing_left

__all__ = [
    "PER_RIDGE",
    "available_cores",
    "baselines",
    "fitting_replicates",
    "replicate_cost",
    "simulate",
    "sizes_for",
]


def simulate(
    problem: Problem,
    dimension: int | None = None,
    replicates: int | None = None,
    seed: int | None = None,
    *,
    model: str = "network",
    training: Training | Mapping[str, Any] | None = None,
    run: Run | Mapping[str, Any] | None = None,
    inputs: object = None,
    teacher_terms: object = (),
    kernel: object = None,
    progress: Progress | None = None,
    **options: object,
) -> Simulation:
    """Run the experiment at finite size.

    Each replicate draws its own teacher, weights, step batch, ridge data and test data from streams
    named by the seed, the number of the replicate and the purpose, so the result does not depend on
    workers, order or block size.

    Args:
        problem: the question; its ``dimension`` is used if ``dimension`` is not given.
        dimension: d. The other sizes follow: n = alpha d, N = beta d, n0 = alpha0 d, rounded.
        replicates: how many independent experiments; default 10.
        seed: a whole number >= 0; default 0.
        model: ``network`` (the real thing), or another of docs/simulation.md.
        training: ``Training(...)``, how the first layer is trained.
        run: ``Run(...)``, how the replicates are run; ``replicates`` and ``seed`` are part of it.
        inputs: law of the inputs: a text such as ``student-t:5`` (docs/inputs.md), an array of
            samples x columns, a file, or ``DataInputs.load(path, ...)``; default the problem's.
            With a law given here theta is uniform on the unit sphere, whatever the covariance.
        teacher_terms: further terms of the teacher, activations:
            y = s*(<x, theta>) + sum_j s_j(<x, theta_j>) + noise * eps with orthonormal directions;
            default the problem's.
        kernel: g of a kernel baseline, an expression in z; each has a default.
        progress: called with (finished, total) after every replicate.
        options: fields of ``Training`` and ``Run`` as plain keywords: steps, workers, ...
    """
    started = time.perf_counter()
    problem = Problem.asked(problem)
    for name, value in (("replicates", replicates), ("seed", seed)):
        options |= {} if value is None else {name: value}
    trained, running = gathered(Training, training, options), gathered(Run, run, options)
    nothing_left("simulate", options, Training, Run)
    (law, terms), kind = chosen_data(problem, inputs, teacher_terms), MODELS.checked(model)
    plan = Plan.of(running, sizes_for(problem, dimension, law), progress, started)
    design = make_design(
        problem,
        model=kind,
        training=trained,
        sizes=plan.sizes,
        test_samples=plan.test_samples,
        block=plan.block,
        kernel=_kernel_function(kind, kernel),
        inputs=law,
        teacher_terms=terms,
    )
    job = Job(problem=problem, design=design, seed=running.seed, backend=running.where)
    return execute(job, plan, _told(design))


def _told(design: Design) -> dict[str, Any]:
    """What a result keeps of the training and the kernel."""
    return {
        **(design.training.told() if design.takes_step else {}),
        "parameterization": design.training.parameterization,
        **({"kernel": str(design.kernel)} if design.kernel else {}),
    }


def sizes_for(problem: Problem, dimension: object, law: InputLaw) -> Sizes:
    """The whole numbers of a problem; an array of data has its own dimension."""
    if dimension is None and problem.dimension == math.inf and law.dimension is not None:
        dimension = law.dimension
    return problem.sizes(dimension)


def baselines(
    problem: Problem,
    dimension: int | None = None,
    replicates: int | None = None,
    seed: int | None = None,
    *,
    models: Sequence[str] | None = None,
    inner_product_kernel: object = None,
    distance_kernel: object = None,
    **options: object,
) -> Baselines:
    """Run several models on the same teachers and data, by default the baselines of [Ba] 3.1.

    ``options`` are those of ``simulate``, ``run`` among them. ``inner_product_kernel`` and
    ``distance_kernel`` are the functions g, expressions in z.
    """
    models = tuple(MODELS.where("is_baseline")) if models is None else models
    models = (models,) if isinstance(models, str) else models
    if not isinstance(models, Sequence) or not models:
        raise InvalidParameter("models", "a list of " + ", ".join(MODELS), models or "nothing")
    kernels = {
        "inner-product-kernel": _checked_kernel("inner-product-kernel", inner_product_kernel),
        "distance-kernel": _checked_kernel("distance-kernel", distance_kernel),
    }
    for name in models:
        choice("models", name, MODELS)
    done: list[Simulation] = []
    for name in models:
        try:
            asked: dict[str, Any] = {"model": name, "kernel": kernels.get(name), **options}
            found = simulate(problem, dimension, replicates, seed, **asked)
        except Interrupted as error:
            kept = [*done, error.result] if isinstance(error.result, Simulation) else done
            message = f"interrupted: {len(done)} of {len(models)} models finished"
            raise Interrupted(Baselines(tuple(kept)) if kept else None, message) from None
        done.append(found)
    return Baselines(tuple(done))


def _checked_kernel(parameter: str, function: object) -> Activation | None:
    return None if function is None else activation(function, parameter=parameter)


def _kernel_function(model: type[Model], kernel: object) -> Activation | None:
    if model.default_kernel:
        return activation(model.default_kernel if kernel is None else kernel, parameter="kernel")
    if kernel is not None:
        allowed = "given only for " + " or ".join(MODELS.where("default_kernel"))
        raise InvalidParameter("kernel", allowed, kernel, f"model is {model.name}")
    return None


def fitting_replicates(problem: Problem, model: str, options: Mapping[str, Any]) -> int | None:
    """How many replicates fit in memory at once; None if the memory is not known."""
    engine = cached_backend(*Run(**_some(options, "backend", "device", "dtype")).where)
    limit = engine.memory_limit()
    if limit is None:
        return None
    design = _plain_design(problem, model, engine, options)
    return max(1, limit // design.memory(engine.dtype.itemsize))


def replicate_cost(problem: Problem, model: str = "network") -> tuple[float, int]:
    """Roughly the operations and bytes of one replicate of a problem with a dimension."""
    engine = cached_backend("numpy", "cpu", "float64", 1)
    design = _plain_design(problem, model, engine, {})
    return work(design), design.memory(engine.dtype.itemsize)


def _plain_design(
    problem: Problem, model: str, engine: Backend, options: Mapping[str, Any]
) -> Design:
    """The design at the problem's own dimension, for its size alone."""
    sizes, kind = problem.sizes(), MODELS.checked(model)
    law, terms = chosen_data(problem, options.get("inputs"), options.get("teacher_terms"))
    # not reuse: whether the sizes are right for it does not matter here
    trained = _some(options, *(name for name in Training.model_fields if name != "reuse"))
    return make_design(
        problem,
        model=kind,
        training=Training(**trained) if kind.trains else Training(),
        sizes=sizes,
        test_samples=test_set_size(options.get("test_samples"), sizes),
        block=block_rows(sizes.width, sizes.dimension, engine),
        kernel=_kernel_function(kind, options.get("kernel")),
        inputs=law,
        teacher_terms=terms,
    )


def _some(options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: options[name] for name in names if name in options}
