"""``simulate`` and ``baselines``: from a Problem, a size and a seed to results."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from firststep.activations import Activation, JaxActivation, activation
from firststep.errors import InvalidParameter, NotEnoughMemory, WorkerFailed
from firststep.problem import MAX_SIZE, Problem, choice, whole
from firststep.results import Baselines, Interrupted, Simulation, versions
from firststep.simulation.backends import BACKENDS, Backend, block_rows, make_backend
from firststep.simulation.baselines import baseline_kernel
from firststep.simulation.design import (
    BASELINES,
    DEFAULT_KERNELS,
    MODELS,
    NETWORK_MODELS,
    Design,
    Training,
    make_design,
)
from firststep.simulation.network import Measured, network_kernel
from firststep.simulation.observables import KAPPA_CENTERS
from firststep.simulation.randomness import CHUNK
from firststep.simulation.workers import Workers

Progress = Callable[[int, int], None]
PER_RIDGE = ("risk", "risk_test_error", "training_error", "learned_function")
_SECONDS_WORTH_A_POOL = 3.0
_FLOPS_PER_SECOND = 2e10  # a rough guess, used only to decide whether starting workers pays


@dataclass(frozen=True)
class Job:
    """One replicate as a function of its number; what a worker process receives."""

    problem: Problem
    design: Design
    seed: int
    backend: tuple[str, str, str, int]

    def make_backend(self) -> Backend:
        return _cached_backend(*self.backend)

    def __call__(self, number: int) -> Measured:
        backend = self.make_backend()
        kernel = network_kernel if self.design.model in NETWORK_MODELS else baseline_kernel
        started = time.perf_counter()
        with np.errstate(all="ignore"):  # what is not finite is found and refused, not warned about
            measured = kernel(self.design, backend).replicate(self.problem, self.seed, number)
        return {**measured, "replicate_seconds": time.perf_counter() - started}


_backends: dict[tuple[str, str, str, int], Backend] = {}


def _cached_backend(name: str, device: str, dtype: str, threads: int) -> Backend:
    """One object per kind of backend, so that compiled kernels are found again."""
    key = (name, device, dtype, threads)
    if key not in _backends:
        _backends[key] = make_backend(*key)
    return _backends[key]


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
        steps, batches, reuse, parameterization: how the first layer is trained, see ``Training``.
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
    sizes = problem.sizes(dimension)
    count, seed = whole("replicates", replicates, 1, MAX_SIZE), whole("seed", seed, 0)
    first, threads = whole("first-replicate", first_replicate, 0, MAX_SIZE), whole("threads", threads, 1)
    tests = max(2000, 4 * sizes.dimension) if test_samples is None else whole("test-samples", test_samples, 2, MAX_SIZE)
    choice("model", model, MODELS)
    choice("backend", backend, BACKENDS)
    training = Training.checked(steps, batches, reuse, parameterization)
    engine = _cached_backend(backend, device, dtype, threads)
    rows = block_rows(sizes.width, sizes.dimension, engine) if block is None else _block(block)
    design = make_design(problem, model, training, sizes, tests, rows, _kernel_function(model, kernel))
    pool = _workers(workers, design, count, engine, threads)
    _check_memory(design, pool.count, engine)
    job = Job(problem, design, seed, (backend, device, dtype, threads))
    options: dict[str, Any] = {
        **({"steps": training.steps, "batches": training.batches, "reuse": training.reuse} if design.takes_step else {}),
        "parameterization": training.parameterization,
        **({"kernel": str(design.kernel)} if design.kernel else {}),
        "test_samples": tests,
        "backend": backend,
        "device": engine.device,
        "dtype": dtype,
        "workers": pool.count,
        "threads": threads,
        "block": rows,
    }
    finished: dict[int, Measured] = {}

    def result(interrupted: bool) -> Simulation:
        measurements = _stack(problem, [finished[number] for number in sorted(finished)])
        return Simulation(
            problem=problem.replace(dimension=sizes.dimension),
            model=model,
            options=options,
            sizes=sizes,
            seed=seed,
            measurements=measurements,
            kappa=KAPPA_CENTERS,
            seconds=time.perf_counter() - started,
            versions=versions(*(("jax", "jaxlib") if engine.name == "jax" else ())),
            interrupted=interrupted,
            replicate_numbers=tuple(sorted(finished)),
        )

    try:
        for number, measured in _run(job, range(first, first + count), pool, close=pool is not workers):
            finished[number] = measured
            if progress is not None:
                progress(len(finished), count)
    except KeyboardInterrupt:
        message = f"interrupted: {len(finished)} of {count} replicates finished"
        raise Interrupted(result(True) if finished else None, message) from None
    except WorkerFailed as error:
        error.result = result(True) if finished else None
        raise
    return result(False)


def _run(job: Job, numbers: Sequence[int], workers: Workers, close: bool) -> Iterator[tuple[int, Measured]]:
    if workers.count > 1:
        try:
            yield from workers.run(job, numbers)
        finally:
            if close:
                workers.close()
    else:
        with job.make_backend().scope():
            for number in numbers:
                yield number, job(number)


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
            found = simulate(problem, dimension, replicates, seed, model=name, kernel=kernels.get(name), **options)
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
        raise InvalidParameter("kernel", "given only for " + " or ".join(DEFAULT_KERNELS), kernel, f"model is {model}")
    return None


def _block(block: Any) -> int:
    rows = whole("block", block, 1)
    return max(CHUNK, rows // CHUNK * CHUNK)


def _work(design: Design) -> float:
    """Floating-point operations of one replicate, roughly."""
    s = design.sizes
    step = 4.0 * s.step_samples * s.dimension * s.width * design.training.steps if design.takes_step else 0.0
    small = min(s.samples, s.width)
    return step + 2.0 * (s.samples + design.test_samples) * s.dimension * s.width + small * small * (s.samples + s.width)


def _workers(asked: int | Workers | None, design: Design, replicates: int, backend: Backend, threads: int) -> Workers:
    """The processes to use; a count of 1 means this process."""
    if isinstance(asked, Workers):
        if backend.name == "jax" or replicates == 1:
            return Workers(1, threads)
        if asked.threads != threads:
            raise InvalidParameter("threads", f"{asked.threads}, as the workers were made for", threads)
        return asked
    if asked is not None:
        count = whole("workers", asked, 1)
        if backend.name == "jax" and count > 1:
            raise InvalidParameter("workers", "1 with the jax backend", count, "one device runs one replicate at a time")
        return Workers(min(count, replicates), threads)
    enough = _work(design) * replicates / _FLOPS_PER_SECOND > _SECONDS_WORTH_A_POOL
    foreign = isinstance(design.student, JaxActivation) or isinstance(design.teacher, JaxActivation)
    if backend.name == "jax" or not enough or foreign:  # a function of the user's script may not exist in another process
        return Workers(1, threads)
    needed, limit = design.memory(backend.dtype.itemsize), backend.memory_limit()
    fitting = max(1, limit // needed) if limit else replicates
    return Workers(min(replicates, available_cores(), fitting), threads)


def fitting_replicates(problem: Problem, model: str, options: Mapping[str, Any]) -> int | None:
    """How many replicates fit in memory at once; None if the memory is not known."""
    engine = _cached_backend(options.get("backend", "numpy"), options.get("device", "auto"), options.get("dtype", "float64"), 1)
    limit = engine.memory_limit()
    if limit is None:
        return None
    design = _plain_design(problem, model, engine, options.get("test_samples"), options.get("kernel"))
    return max(1, limit // design.memory(engine.dtype.itemsize))


def replicate_cost(problem: Problem, model: str = "network") -> tuple[float, int]:
    """Floating-point operations and bytes of one replicate of a problem with a dimension, both roughly."""
    engine = _cached_backend("numpy", "cpu", "float64", 1)
    design = _plain_design(problem, model, engine)
    return _work(design), design.memory(engine.dtype.itemsize)


def _plain_design(problem: Problem, model: str, engine: Backend, test_samples: int | None = None, kernel: Any = None) -> Design:
    """One step on fresh data at the problem's own dimension, the other options as ``simulate`` has them by default."""
    sizes = problem.sizes()
    tests, rows = test_samples or max(2000, 4 * sizes.dimension), block_rows(sizes.width, sizes.dimension, engine)
    return make_design(problem, model, Training(), sizes, tests, rows, _kernel_function(model, kernel))


def available_cores() -> int:
    """Cores this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _check_memory(design: Design, workers: int, backend: Backend) -> None:
    needed, limit = design.memory(backend.dtype.itemsize) * workers, backend.memory_limit()
    if limit is not None and needed > limit:
        one = f" ({workers} workers)" if workers > 1 else ""
        hint = f"{design.model} needs {_gigabytes(needed)}{one} and {_gigabytes(limit)} is free"
        allowed = "small enough to fit in memory with these ratios"
        raise NotEnoughMemory("dimension", allowed, design.sizes.dimension, hint)


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.3g} GB" if count < 1e12 else f"{count / 1e12:.3g} TB"


def _stack(problem: Problem, found: list[Measured]) -> dict[str, Any]:
    """Measurements with a leading axis of replicates; a single ridge value has no axis of its own."""
    stacked = {name: np.array([each[name] for each in found], dtype=float) for name in found[0]}
    if not isinstance(problem.ridge, tuple):
        for name in PER_RIDGE:
            stacked[name] = stacked[name][:, 0]
    return stacked
