"""A real explorer for the tests: the command in a process of its own."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.processes import PATIENCE, children, eventually, processor_seconds, started

COMMAND = [str(Path(sys.executable).parent / "firststep"), "explore", "--no-browser"]
HURRIED = 3.0  # seconds a request may take to arrive at an explorer that waits less than others
_HURRY = (
    f"import firststep.web.server as server; server.PATIENCE = {HURRIED}; "
    f"from firststep.web.protocol import PatientProtocol as http; http.patience = {HURRIED}; "
    "from firststep_command import main; main()"
)
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

WORKING = 1.2  # processor seconds; to load takes some two thirds of them


@contextlib.contextmanager
def explorer(*flags: str, hurry: bool = False) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of a running explorer and its process."""
    command = [sys.executable, "-c", _HURRY, *COMMAND[1:]] if hurry else COMMAND
    with started([*command, *flags]) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        yield found[0], process
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)


def wait_for_networks(server: int) -> None:
    """Until a process that simulates, and so lets others go first, is at work."""

    def working(pid: int) -> bool:
        with contextlib.suppress(psutil.Error):
            return psutil.Process(pid).nice() > 0 and processor_seconds([pid]) > WORKING
        return False

    assert eventually(lambda: any(working(pid) for pid in children(server)))
