"""Processes that tests start and watch.

Waiting is for what a process has done, never for a length of time.
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import psutil

PATIENCE = 180.0  # seconds a busy machine may take for what an idle one does in one or two
LOADED = 2.5  # processor seconds after which a command has loaded and is well into its work


@contextlib.contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process with its output in pipes; nothing of it outlives the test, even a failed one."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, **{**pipes, **options})
    try:
        yield process
    finally:
        family = [] if ended(process) else [process.pid, *children(process.pid)]
        for pid in family:
            with contextlib.suppress(psutil.Error):
                psutil.Process(pid).kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    with contextlib.suppress(psutil.Error):
        return [child.pid for child in psutil.Process(pid).children()]
    return []


def processor_seconds(pids: Iterable[int]) -> float:
    """Time the processes have computed; those that ended count nothing."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(pid).cpu_times()
            total += times.user + times.system
    return total


def seconds_of_ended_children() -> float:
    """Processor seconds of all processes that this one started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def eventually(condition: Callable[[], Any], seconds: float = PATIENCE) -> bool:
    """Whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


def computes(process: subprocess.Popen[str], seconds: float = LOADED) -> None:
    """Wait until a process has computed for so long."""
    assert eventually(lambda: processor_seconds([process.pid]) >= seconds or ended(process))
    assert not ended(process)


def workers_compute(process: subprocess.Popen[str], count: int = 2) -> list[int]:
    """Wait until the workers of a process are well into their work."""

    def busy() -> bool:
        found = children(process.pid)
        return len(found) >= count and all(is_busy(pid) for pid in found)

    assert eventually(lambda: busy() or ended(process))
    assert not ended(process)
    return children(process.pid)


def is_busy(worker: int) -> bool:
    """Whether a worker has given a few answers: all that it writes are answers."""
    with contextlib.suppress(psutil.Error):
        if hasattr(psutil.Process, "io_counters"):
            return bool(psutil.Process(worker).io_counters().write_count >= 5)
    return processor_seconds([worker]) >= LOADED


def ended(process: subprocess.Popen[str]) -> bool:
    return process.poll() is not None


def seconds_until_rest(parent: int) -> float:
    """Processor seconds the children of a process take until none has anything to do."""
    before = processor_seconds(children(parent))
    calm = 0

    def resting() -> bool:
        nonlocal calm
        calm = 0 if any(runs(pid) for pid in children(parent)) else calm + 1
        return calm >= 25

    assert eventually(resting)
    return max(0.0, processor_seconds(children(parent)) - before)


def runs(pid: int) -> bool:
    """Whether a process wants the processor, even if it has to wait for it."""
    with contextlib.suppress(psutil.Error):
        return bool(
            psutil.Process(pid).status() in (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP)
        )
    return False
