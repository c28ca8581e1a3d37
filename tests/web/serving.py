"""A real explorer for the tests: the command in a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COMMAND = [str(Path(sys.executable).parent / "firststep"), "explore", "--no-browser"]
PROBLEM: dict[str, Any] = {
    "student": "tanh",
    "teacher": "sin",
    "alpha": 2.0,
    "beta": 1.0,
    "alpha0": 8.0,
    "step": 2.0,
    "step_exponent": 0.5,
    "ridge": 0.03,
    "noise": 0.1,
    "readout": "ones",
    "init": "gaussian",
    "dimension": "inf",
}
CURVE: dict[str, Any] = {
    "problem": PROBLEM,
    "axis": "alpha",
    "from": 0.25,
    "to": 16.0,
    "scale": "log",
    "points": 20,
    "line": "exact",
    "quantity": "risk",
}
NETWORKS: dict[str, Any] = {
    "problem": PROBLEM,
    "axis": "alpha",
    "at": [1.0, 2.0],
    "dimension": 60,
    "replicates": 3,
    "seed": 0,
    "model": "network",
}


@contextlib.contextmanager
def explorer(*flags: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of a running explorer and its process."""
    process = subprocess.Popen(
        [*COMMAND, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        yield found[0], process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(number) for number in path.read_text().split()]
    return found


def processor_seconds(pids: list[int]) -> float:
    """Time the processes have computed; those that ended count nothing."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def eventually(condition: Any, seconds: float = 10.0) -> bool:
    """Whether a condition comes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False
