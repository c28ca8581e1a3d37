"""``simulate`` and ``baselines``: from a Problem, a size and a seed to results."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from firststep.activations import Activation, activation
from firststep.errors import InvalidParameter
from firststep.inputs import InputLaw, input_law
from firststep.problem import Problem, Sizes, choice
from firststep.results import Baselines, Interrupted, Simulation
from firststep.simulation.backends import Backend, block_rows
from firststep.simulation.design import (
    BASELINES,
    DEFAULT_KERNELS,
    MODELS,
    TRAINED,
    Design,
    Training,
    make_design,
    test_set_size,
)
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
from firststep.simulation.running.workers import Workers
from firststep.teacher_terms import teacher_terms as terms_of

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
    replicates: int = 10,
    seed: int = 0,
    *,
    model: str = "network",
    steps: int = 1,
    batches: str = "fresh",
    reuse: bool = False,
    parameterization: str = "mean-field",
    optimizer: str = "gradient",
    inputs: Any = "gaussian",
    teacher_terms: Any = (),
    kernel: Any = None,
    test_samples: int | None = None,
    backend: str = "numpy",
    device: str = "auto",
    dtype: str = "float64",
    workers: int | Workers | None = None,
    threads: int = 1,
    block: int | None = None,
    first_replicate: int = 0,
    progress: Progress | None = None,
) -> Simulation:
    """Run the experiment at finite size.

    Each replicate draws its own teacher, weights, step batch, ridge data and test data from streams named by the seed, the
    number of the replicate and the purpose, so the result does not depend on workers, order or block size.

    Args:
        problem: the question; its ``dimension`` is used if ``dimension`` is not given.
        dimension: d. The other sizes follow: n = alpha d, N = beta d, n0 = alpha0 d, rounded.
        replicates: how many independent experiments.
        seed: a whole number >= 0.
        model: ``network`` (the real thing), ``spiked``, ``conditional``, ``gaussian``, ``random-features``, or a baseline: ``ntk``,
            ``inner-product-kernel``, ``distance-kernel``, ``linear``.
        steps, batches, reuse, parameterization, optimizer: how the first layer is trained, see docs/simulation.md.
        inputs: law of the inputs: ``gaussian``, ``rademacher``, ``uniform``, ``student-t:NU``, ``elliptical-t:NU``,
            ``power-law:A``, ``mixture:R``, an array of samples x columns, a file, or ``DataInputs.load(path, ...)``.
        teacher_terms: further terms of the teacher, activations: y = s*(<x, theta>) + sum_j s_j(<x, theta_j>) + noise * eps with
            orthonormal directions.
        kernel: g of a kernel baseline, an expression in z (default exp(z), or exp(-z/2) of the squared distance).
        test_samples: size of the test set of each replicate; default max(2000, 4 d).
        backend, device, dtype: ``numpy`` or ``jax``; ``auto``, ``cpu`` or ``gpu``; ``float64`` or ``float32``.
        workers: processes (numpy only), or ``Workers`` that several calls share; default: as many as there are cores if the work is
            worth starting them.
        threads: BLAS threads per worker (numpy only).
        block: rows of data handled at a time; default by shape.
        first_replicate: number of the first replicate; more replicates of an earlier run continue from its count.
        progress: called with (finished, total) after every replicate.
    """
    started = time.perf_counter()
    if not isinstance(problem, Problem):
        raise InvalidParameter("problem", "a Problem", problem, "build it with Problem(...)")
    law, terms = input_law(inputs), terms_of(teacher_terms)
    sizes = sizes_for(problem, dimension, law)
    choice("model", model, MODELS)
    training = Training.checked(steps, batches, reuse, parameterization, optimizer)
    plan = Plan.checked(
        sizes,
        replicates=replicates,
        seed=seed,
        first_replicate=first_replicate,
        test_samples=test_samples,
        backend=backend,
        device=device,
        dtype=dtype,
        threads=threads,
        block=block,
        workers=workers,
        progress=progress,
        started=started,
    )
    function = _kernel_function(model, kernel)
    design = make_design(
        problem, model, training, sizes, plan.test_samples, plan.block, function, law, terms
    )
    taken = {
        "steps": training.steps,
        "batches": training.batches,
        "reuse": training.reuse,
        "optimizer": training.optimizer,
    }
    options: dict[str, Any] = {
        **(taken if design.takes_step else {}),
        "parameterization": training.parameterization,
        **({"kernel": str(function)} if function else {}),
    }
    return execute(Job(problem, design, plan.seed, plan.backend), plan, options)


def sizes_for(problem: Problem, dimension: Any, law: InputLaw) -> Sizes:
    """The whole numbers of a problem; an array of data has its own dimension."""
    if dimension is None and problem.dimension == math.inf and law.dimension is not None:
        dimension = law.dimension
    return problem.sizes(dimension)


def baselines(
    problem: Problem,
    dimension: int | None = None,
    replicates: int = 10,
    seed: int = 0,
    *,
    models: Sequence[str] = BASELINES,
    inner_product_kernel: Any = None,
    distance_kernel: Any = None,
    **options: Any,
) -> Baselines:
    """Run several models on the same teachers and data, by default every baseline of [Ba] section 3.1.

    ``options`` are those of ``simulate``. ``inner_product_kernel`` and ``distance_kernel`` are the functions g, expressions in z.
    """
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
            found = simulate(
                problem,
                dimension,
                replicates,
                seed,
                model=name,
                kernel=kernels.get(name),
                **options,
            )
        except Interrupted as error:
            kept = [*done, error.result] if isinstance(error.result, Simulation) else done
            message = f"interrupted: {len(done)} of {len(models)} models finished"
            raise Interrupted(Baselines(tuple(kept)) if kept else None, message) from None
        done.append(found)
    return Baselines(tuple(done))


def _checked_kernel(parameter: str, function: Any) -> Activation | None:
    return None if function is None else activation(function, parameter=parameter)


def _kernel_function(model: str, kernel: Any) -> Activation | None:
    if model in DEFAULT_KERNELS:
        return activation(DEFAULT_KERNELS[model] if kernel is None else kernel, parameter="kernel")
    if kernel is not None:
        raise InvalidParameter(
            "kernel", "given only for " + " or ".join(DEFAULT_KERNELS), kernel, f"model is {model}"
        )
    return None


def fitting_replicates(problem: Problem, model: str, options: Mapping[str, Any]) -> int | None:
    """How many replicates fit in memory at once; None if the memory is not known."""
    engine = cached_backend(
        options.get("backend", "numpy"),
        options.get("device", "auto"),
        options.get("dtype", "float64"),
        1,
    )
    limit = engine.memory_limit()
    if limit is None:
        return None
    design = _plain_design(problem, model, engine, options)
    return max(1, limit // design.memory(engine.dtype.itemsize))


def replicate_cost(problem: Problem, model: str = "network") -> tuple[float, int]:
    """Floating-point operations and bytes of one replicate of a problem with a dimension, both roughly."""
    engine = cached_backend("numpy", "cpu", "float64", 1)
    design = _plain_design(problem, model, engine, {})
    return work(design), design.memory(engine.dtype.itemsize)


def _plain_design(
    problem: Problem, model: str, engine: Backend, options: Mapping[str, Any]
) -> Design:
    """The design at the problem's own dimension, for its size alone: options that do not change it are as by default."""
    sizes = problem.sizes()
    tests, rows = (
        test_set_size(options.get("test_samples"), sizes),
        block_rows(sizes.width, sizes.dimension, engine),
    )
    names = ("steps", "batches", "parameterization", "optimizer")
    training = Training(
        **{name: options[name] for name in names if name in options and model in TRAINED}
    )
    law = input_law(options.get("inputs", "gaussian"))
    return make_design(
        problem,
        model,
        training,
        sizes,
        tests,
        rows,
        _kernel_function(model, options.get("kernel")),
        law,
    )
