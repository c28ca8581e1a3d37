"""Replicates in parallel: plain worker processes that speak pickle over their standard streams.

Unlike ``multiprocessing`` with spawn, a worker never imports the caller's main module, so
simulate(workers=2) works from a script without an ``if __name__ == "__main__"`` guard, from a
notebook and from a shell. Workers ignore the terminal's Ctrl-C (the parent ends them) and end
themselves when the parent is gone.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any

from firststep.checks import whole
from firststep.errors import InvalidParameter, WorkerFailed

Process = subprocess.Popen[bytes]
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
# glibc gives freed blocks back to the system and faults them in again; keeping them makes small
# replicates a quarter faster.
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(2**26), "MALLOC_TRIM_THRESHOLD_": str(2**29)}


def child_command(module: str, function: str) -> list[str]:
    """Run a function of the library in another interpreter, which finds the same packages."""
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; from {module} import {function}; {function}()"
    )
    return [sys.executable, "-c", program]


def child_environment(threads: int = 1) -> dict[str, str]:
    """Ours, with a number of BLAS threads."""
    return {**_MALLOC, **os.environ, **{name: str(threads) for name in _THREAD_VARIABLES}}


_spawning = threading.Lock()  # no worker is started while the others are being ended


class Workers:
    """Processes that run replicates, for one call of ``simulate`` or for many:

        with firststep.Workers(4) as workers:
            results = [firststep.simulate(problem, workers=workers) for problem in problems]

    Started at the first use, ended at the end of the block. After a failure or Ctrl-C they are
    ended at once, and started again by the next call.
    """

    def __init__(self, count: int, threads: int = 1) -> None:
        self.count, self.threads = whole("workers", count, 1), whole("threads", threads, 1)
        self._processes: list[Process] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        while len(self._processes) < self.count:
            self._processes.append(self._spawn())

    def _spawn(self) -> Process:
        return subprocess.Popen(
            child_command("firststep.simulation.running.workers", "serve"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=child_environment(self.threads),
            start_new_session=True,
        )

    def close(self) -> None:
        """End the processes at once."""
        processes, self._processes = self._processes, []
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
            _close_pipes(process)

    def run(self, job: Callable[[int], Any], numbers: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """(number, job(number)) as they finish, in any order. The first failure is raised."""
        try:
            payload = pickle.dumps(job)
        except (pickle.PicklingError, AttributeError, TypeError):
            hint = "an activation that is a local JAX function cannot be sent to another process"
            raise InvalidParameter("workers", "1 for this problem", self.count, hint) from None
        with contextlib.closing(self._answers(payload, numbers, tries=1)) as answers:
            for place, done, answer in answers:
                if not done:
                    raise answer
                yield numbers[place], answer

    def survive(
        self, job: Callable[[Any], Any], items: Sequence[Any], tries: int = 3
    ) -> Iterator[tuple[int, Any]]:
        """(place, job(item)) as they finish, in any order, whatever happens to the workers.

        A worker that dies is replaced and its item tried again; after ``tries`` deaths the answer
        is the ``WorkerFailed``. An error raised by the job is the answer too.
        """
        with contextlib.closing(self._answers(pickle.dumps(job), items, tries)) as answers:
            for place, _, answer in answers:
                yield place, answer

    def _answers(
        self, payload: bytes, items: Sequence[Any], tries: int
    ) -> Generator[tuple[int, bool, Any]]:
        """(place, whether it is done, the result or the error) for every item."""
        shift = _Shift(self, payload, items, tries)
        self._start()
        complete = False
        try:
            for number in range(len(self._processes)):
                threading.Thread(target=shift.serve, args=(number,), daemon=True).start()
            for _ in items:
                yield shift.next()
            complete = True
        finally:
            with _spawning:
                shift.over.set()
            if not complete:
                self.close()


class _Shift:
    """Items handed to the workers one at a time, by one thread for each worker."""

    def __init__(self, workers: Workers, payload: bytes, items: Sequence[Any], tries: int) -> None:
        self._workers, self._payload, self._items, self._tries = workers, payload, items, tries
        self._waiting: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()  # place, deaths
        self._answers: queue.SimpleQueue[tuple[int, bool, Any]] = queue.SimpleQueue()
        self.over = threading.Event()
        for place in range(len(items)):
            self._waiting.put((place, 0))

    def next(self) -> tuple[int, bool, Any]:
        while True:  # a timeout lets Ctrl-C through on every platform
            with contextlib.suppress(queue.Empty):
                return self._answers.get(timeout=0.5)

    def serve(self, number: int) -> None:
        """Hand one worker the job, then one item at a time; replace it if it dies."""
        fresh = True
        while not self.over.is_set():
            try:
                place, deaths = self._waiting.get(timeout=0.2)
            except queue.Empty:
                continue  # an item may come back from a worker that dies
            process = self._workers._processes[number]
            tasks, answers = process.stdin, process.stdout
            assert tasks is not None
            assert answers is not None
            try:
                if fresh:
                    pickle.dump(self._payload, tasks)
                    fresh = False
                pickle.dump(self._items[place], tasks)
                tasks.flush()
                self._answers.put((place, *pickle.load(answers)))
            except (OSError, EOFError, pickle.UnpicklingError, ValueError):
                if self.over.is_set():
                    return
                reason = _obituary(process)
                _close_pipes(process)
                with _spawning:
                    if self.over.is_set():
                        return
                    self._workers._processes[number] = self._workers._spawn()
                if deaths + 1 < self._tries:
                    self._waiting.put((place, deaths + 1))
                else:
                    self._answers.put((place, False, WorkerFailed(reason)))
                fresh = True


def _close_pipes(process: Process) -> None:
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        with contextlib.suppress(OSError):
            stream.close()


def _obituary(process: Process) -> str:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)
    code = process.returncode
    if code is not None and code < 0:
        reason = f"was ended by signal {-code} ({signal.Signals(-code).name})"
        hint = (
            "; the machine was probably out of memory: try fewer workers"
            if code == -signal.SIGKILL
            else ""
        )
        return f"a worker process {reason}{hint}"
    return f"a worker process ended early with exit code {code}"


def serve() -> None:
    """The worker's side: read jobs (bytes) and numbers, and write an answer for every number.

    (True, result), or (False, error).
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # anything printed goes to stderr, not into the answers
    tasks = sys.stdin.buffer
    inbox: queue.SimpleQueue[int | bytes] = queue.SimpleQueue()

    def listen() -> None:
        while True:
            try:
                inbox.put(pickle.load(tasks))
            except Exception:  # the parent closed the pipe or died: nothing is left to work for
                os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    job: Callable[[int], Any] = _no_job
    while True:
        message = inbox.get()
        if isinstance(message, bytes):
            try:
                job = pickle.loads(message)
            except Exception as error:
                job = partial(_unreadable, str(error))
            continue
        try:
            answer = (True, job(message))
        except BaseException as error:
            answer = (False, error)
        try:
            payload = pickle.dumps(answer)
        except Exception:
            told = message if answer[0] else answer[1]
            payload = pickle.dumps((False, WorkerFailed(repr(told))))
        try:
            answers.write(payload)
            answers.flush()
        except OSError:  # the parent died meanwhile: nobody to tell
            os._exit(0)


def _unreadable(reason: str, number: int) -> Any:
    """Instead of a job that could not be unpickled here: says so for every number."""
    hint = f"the worker could not read it: {reason}"
    allowed = "1 for a problem that other processes cannot load"
    raise InvalidParameter("workers", allowed, "more", hint)


def _no_job(number: int) -> Any:
    raise WorkerFailed(f"number {number} came before its job")
