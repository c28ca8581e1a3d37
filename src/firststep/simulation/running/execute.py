"""Running replicates: jobs for workers, how many of them, whether they fit in memory, and what comes back."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from firststep.activations import JaxActivation
from firststep.errors import InvalidParameter, NotEnoughMemory, WorkerFailed
from firststep.problem import MAX_SIZE, Problem, Sizes, choice, whole
from firststep.results import Interrupted, Simulation, versions
from firststep.simulation.backends import BACKENDS, Backend, block_rows, make_backend
from firststep.simulation.data.teachers import kernel_lower_bound
from firststep.simulation.design import NETWORK_MODELS, Design, test_set_size
from firststep.simulation.models.baselines import baseline_kernel
from firststep.simulation.models.network import Measured, network_kernel
from firststep.simulation.models.observables import KAPPA_CENTERS
from firststep.simulation.randomness import CHUNK
from firststep.simulation.running.workers import Workers

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

    @property
    def kernel_lower_bound(self) -> float:
        """What no fixed kernel can beat; nan for inputs that are not N(0, I)."""
        if not self.design.inputs.is_gaussian:
            return math.nan
        return kernel_lower_bound(self.problem, self.design.teacher_terms)

    def make_backend(self) -> Backend:
        return cached_backend(*self.backend)

    def __call__(self, number: int) -> Measured:
        started = time.perf_counter()
        with np.errstate(all="ignore"):  # what is not finite is found and refused, not warned about
            measured = self.measured(self.make_backend(), number)
        return {**measured, "replicate_seconds": time.perf_counter() - started}

    def measured(self, backend: Backend, number: int) -> Measured:
        kernel = network_kernel if self.design.model in NETWORK_MODELS else baseline_kernel
        return kernel(self.design, backend).replicate(self.problem, self.seed, number)


_backends: dict[tuple[str, str, str, int], Backend] = {}


def cached_backend(name: str, device: str, dtype: str, threads: int) -> Backend:
    """One object per kind of backend, so that compiled kernels are found again."""
    key = (name, device, dtype, threads)
    if key not in _backends:
        _backends[key] = make_backend(*key)
    return _backends[key]


@dataclass(frozen=True)
class Plan:
    """How to run: which replicates, where, and whom to tell. ``Plan.checked`` reads the arguments the verbs share."""

    replicates: int
    first: int
    seed: int
    backend: tuple[str, str, str, int]
    test_samples: int
    block: int
    workers: int | Workers | None
    progress: Progress | None
    started: float

    @classmethod
    def checked(
        cls,
        sizes: Sizes,
        *,
        replicates: Any,
        seed: Any,
        first_replicate: Any,
        test_samples: Any,
        backend: Any,
        device: Any,
        dtype: Any,
        threads: Any,
        block: Any,
        workers: Any,
        progress: Progress | None,
        started: float,
    ) -> Plan:
        choice("backend", backend, BACKENDS)
        where = (backend, device, dtype, whole("threads", threads, 1))
        tests = test_set_size(test_samples, sizes)
        engine = cached_backend(*where)
        rows = block_rows(sizes.width, sizes.dimension, engine) if block is None else _block(block)
        count, first = (
            whole("replicates", replicates, 1, MAX_SIZE),
            whole("first-replicate", first_replicate, 0, MAX_SIZE),
        )
        return cls(
            count, first, whole("seed", seed, 0), where, tests, rows, workers, progress, started
        )


def execute(job: Job, plan: Plan, trained: Mapping[str, Any]) -> Simulation:
    """Run the replicates of a plan; ``trained`` are the options that say what was run."""
    design, engine, threads = job.design, job.make_backend(), plan.backend[3]
    pool = _workers(plan.workers, design, plan.replicates, engine, threads)
    _check_memory(design, pool.count, engine)
    data = design.inputs.describe()
    options: dict[str, Any] = {
        **trained,
        "inputs": str(design.inputs),
        **({"inputs_array": data} if data else {}),
        **(
            {"teacher_terms": [str(term) for term in design.teacher_terms]}
            if design.teacher_terms
            else {}
        ),
        "test_samples": design.test_samples,
        "backend": engine.name,
        "device": engine.device,
        "dtype": plan.backend[2],
        "workers": pool.count,
        "threads": threads,
        "block": design.block,
    }
    finished: dict[int, Measured] = {}

    def result(interrupted: bool) -> Simulation:
        measurements = _stack(job.problem, [finished[number] for number in sorted(finished)])
        return Simulation(
            problem=job.problem.replace(dimension=design.sizes.dimension),
            model=design.model,
            options=options,
            sizes=design.sizes,
            seed=job.seed,
            measurements=measurements,
            kappa=KAPPA_CENTERS,
            kernel_lower_bound=job.kernel_lower_bound,
            seconds=time.perf_counter() - plan.started,
            versions=versions(*(("jax", "jaxlib") if engine.name == "jax" else ())),
            interrupted=interrupted,
            replicate_numbers=tuple(sorted(finished)),
        )

    try:
        for number, measured in _run(
            job,
            range(plan.first, plan.first + plan.replicates),
            pool,
            close=pool is not plan.workers,
        ):
            finished[number] = measured
            if plan.progress is not None:
                plan.progress(len(finished), plan.replicates)
    except KeyboardInterrupt:
        message = f"interrupted: {len(finished)} of {plan.replicates} replicates finished"
        raise Interrupted(result(True) if finished else None, message) from None
    except WorkerFailed as error:
        error.result = result(True) if finished else None
        raise
    return result(False)


def _run(
    job: Job, numbers: Sequence[int], workers: Workers, close: bool
) -> Iterator[tuple[int, Measured]]:
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


def _block(block: Any) -> int:
    rows = whole("block", block, 1)
    return max(CHUNK, rows // CHUNK * CHUNK)


def work(design: Design) -> float:
    """Floating-point operations of one replicate, roughly."""
    s = design.sizes
    step = (
        4.0 * s.step_samples * s.dimension * s.width * design.training.steps
        if design.takes_step
        else 0.0
    )
    small = min(s.samples, s.width)
    if design.takes_step and design.training.optimizer != "gradient":
        step += (
            20.0 * s.dimension * s.width * design.training.steps
        )  # passes over the state, slower than products
    return (
        step
        + 2.0 * (s.samples + design.test_samples) * s.dimension * s.width
        + small * small * (s.samples + s.width)
    )


def _workers(
    asked: int | Workers | None, design: Design, replicates: int, backend: Backend, threads: int
) -> Workers:
    """The processes to use; a count of 1 means this process."""
    if isinstance(asked, Workers):
        if backend.name == "jax" or replicates == 1:
            return Workers(1, threads)
        if asked.threads != threads:
            raise InvalidParameter(
                "threads", f"{asked.threads}, as the workers were made for", threads
            )
        return asked
    if asked is not None:
        count = whole("workers", asked, 1)
        if backend.name == "jax" and count > 1:
            raise InvalidParameter(
                "workers",
                "1 with the jax backend",
                count,
                "one device runs one replicate at a time",
            )
        return Workers(min(count, replicates), threads)
    enough = work(design) * replicates / _FLOPS_PER_SECOND > _SECONDS_WORTH_A_POOL
    foreign = any(
        isinstance(each, JaxActivation)
        for each in (design.student, design.teacher, *design.teacher_terms)
    )
    if (
        backend.name == "jax" or not enough or foreign
    ):  # a function of the user's script may not exist in another process
        return Workers(1, threads)
    needed, limit = design.memory(backend.dtype.itemsize), backend.memory_limit()
    fitting = max(1, limit // needed) if limit else replicates
    return Workers(min(replicates, available_cores(), fitting), threads)


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
