"""Running replicates: jobs, how many workers, whether they fit in memory, what comes back."""

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
from firststep.problem import Problem, Sizes
from firststep.results import LOSSES, Interrupted, Simulation, versions
from firststep.simulation.backends import Backend, block_rows, make_backend
from firststep.simulation.data.teachers import kernel_lower_bound
from firststep.simulation.design import Design, test_set_size
from firststep.simulation.kinds import Measured
from firststep.simulation.models import prepared
from firststep.simulation.models.observables import KAPPA_CENTERS
from firststep.simulation.randomness import CHUNK
from firststep.simulation.running.options import Run
from firststep.simulation.running.workers import Workers

Progress = Callable[[int, int], None]
PER_RIDGE = ("risk", "risk_test_error", "training_error", "learned_function", *LOSSES)
_SECONDS_WORTH_A_POOL = 3.0  # a pool takes about a second to start
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
        """What no fixed kernel can beat; nan for inputs that are not N(0, I), and for a risk
        that is none of least squares on real labels.
        """
        targets = self.design.targets
        is_risk = targets.loss.name == "square" and not targets.labels.is_binary
        if not self.design.inputs.is_gaussian or not is_risk:
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
        return prepared(self.design, backend).replicate(self.problem, self.seed, number)


_backends: dict[tuple[str, str, str, int], Backend] = {}


def cached_backend(name: str, device: str, dtype: str, threads: int) -> Backend:
    """One object per kind of backend, so that compiled kernels are found again."""
    key = (name, device, dtype, threads)
    if key not in _backends:
        _backends[key] = make_backend(*key)
    return _backends[key]


@dataclass(frozen=True)
class Plan:
    """A run at given sizes: what it leaves open is decided, and whom to tell is known."""

    run: Run
    sizes: Sizes
    test_samples: int
    block: int
    progress: Progress | None
    started: float

    @classmethod
    def of(cls, run: Run, sizes: Sizes, progress: Progress | None, started: float) -> Plan:
        engine = cached_backend(*run.where)
        rows = (
            block_rows(sizes.width, sizes.dimension, engine)
            if run.block is None
            else max(CHUNK, run.block // CHUNK * CHUNK)
        )
        return cls(
            run=run,
            sizes=sizes,
            test_samples=test_set_size(run.test_samples, sizes),
            block=rows,
            progress=progress,
            started=started,
        )

    @property
    def numbers(self) -> range:
        """Of the replicates."""
        return range(self.run.first_replicate, self.run.first_replicate + self.run.replicates)


def execute(job: Job, plan: Plan, trained: Mapping[str, Any]) -> Simulation:
    """Run the replicates of a plan; ``trained`` are the options that say what was run."""
    engine, total = job.make_backend(), plan.run.replicates
    pool = _workers(plan.run, job.design, engine)
    _check_memory(job.design, pool.count, engine)
    options = _options(job.design, plan, engine, pool.count)
    finished: dict[int, Measured] = {}

    def result(interrupted: bool) -> Simulation:
        return Simulation(
            problem=job.problem.replace(dimension=job.design.sizes.dimension),
            model=job.design.model.name,
            options={**trained, **options},
            sizes=job.design.sizes,
            seed=job.seed,
            measurements=_stack(job.problem, [finished[number] for number in sorted(finished)]),
            kappa=KAPPA_CENTERS,
            kernel_lower_bound=job.kernel_lower_bound,
            seconds=time.perf_counter() - plan.started,
            versions=versions(*(("jax", "jaxlib") if engine.name == "jax" else ())),
            interrupted=interrupted,
            replicate_numbers=tuple(sorted(finished)),
        )

    try:
        close = pool is not plan.run.workers
        for number, measured in _run(job, plan.numbers, pool, close=close):
            finished[number] = measured
            if plan.progress is not None:
                plan.progress(len(finished), total)
    except KeyboardInterrupt:
        message = f"interrupted: {len(finished)} of {total} replicates finished"
        raise Interrupted(result(True) if finished else None, message) from None
    except WorkerFailed as error:
        error.result = result(True) if finished else None
        raise
    return result(False)


def _options(design: Design, plan: Plan, engine: Backend, workers: int) -> dict[str, Any]:
    """What a result keeps of the options."""
    table = design.inputs.describe()
    terms = [str(term) for term in design.teacher_terms]
    return {
        "inputs": str(design.inputs),
        **({"inputs_array": table} if table else {}),
        **({"teacher_terms": terms} if terms else {}),
        "test_samples": design.test_samples,
        "backend": engine.name,
        "device": engine.device,
        "dtype": plan.run.dtype,
        "workers": workers,
        "threads": plan.run.threads,
        "block": design.block,
    }


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


def work(design: Design) -> float:
    """Floating-point operations of one replicate, roughly."""
    s = design.sizes
    step = (
        4.0 * s.step_samples * s.dimension * s.width * design.training.steps
        if design.takes_step
        else 0.0
    )
    small = min(s.samples, s.width)
    if design.takes_step and design.optimizer.state_arrays:  # passes over it, slower than products
        step += 20.0 * s.dimension * s.width * design.training.steps
    if design.takes_step:
        step += design.optimizer.work(s) * design.training.steps
    return (
        step
        + 2.0 * (s.samples + design.test_samples) * s.dimension * s.width
        + small * small * (s.samples + s.width)
    )


def _workers(run: Run, design: Design, backend: Backend) -> Workers:
    """The processes to use; a count of 1 means this process."""
    asked, here = run.workers, Workers(1, run.threads)
    if isinstance(asked, Workers):
        if backend.name == "jax" or run.replicates == 1:
            return here
        if asked.threads != run.threads:
            raise InvalidParameter(
                "threads", f"{asked.threads}, as the workers were made for", run.threads
            )
        return asked
    if asked is not None:
        if backend.name == "jax" and asked > 1:
            hint = "one device runs one replicate at a time"
            raise InvalidParameter("workers", "1 with the jax backend", asked, hint)
        return Workers(min(asked, run.replicates), run.threads)
    enough = work(design) * run.replicates / _FLOPS_PER_SECOND > _SECONDS_WORTH_A_POOL
    # a function of the user's script may not exist in another process
    functions = (design.student, design.teacher, *design.teacher_terms)
    foreign = any(isinstance(each, JaxActivation) for each in functions)
    if backend.name == "jax" or not enough or foreign:
        return here
    needed, limit = design.memory(backend.dtype.itemsize), backend.memory_limit()
    fitting = max(1, limit // needed) if limit else run.replicates
    return Workers(min(run.replicates, available_cores(), fitting), run.threads)


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
        hint = (
            f"{design.model.name} needs {_gigabytes(needed)}{one} and {_gigabytes(limit)} is free"
        )
        allowed = "small enough to fit in memory with these ratios"
        raise NotEnoughMemory("dimension", allowed, design.sizes.dimension, hint)


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.3g} GB" if count < 1e12 else f"{count / 1e12:.3g} TB"


def _stack(problem: Problem, found: list[Measured]) -> dict[str, Any]:
    """Measurements with an axis of replicates first; a single ridge has no axis of its own."""
    stacked = {name: np.array([each[name] for each in found], dtype=float) for name in found[0]}
    if not isinstance(problem.ridge, tuple):
        for name in PER_RIDGE:
            if name in stacked:
                stacked[name] = stacked[name][:, 0]
    return stacked
