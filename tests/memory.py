"""How much memory a simulation takes: the peak of a real process, Linux only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.processes import PATIENCE

needs_proc = pytest.mark.skipif(
    not os.path.exists("/proc/self/status"), reason="the peak is read from /proc"
)

# The small simulation loads what the large one needs. Every large one has a process of its own, a
# fork that begins with what is loaded: its memory is counted from there.
_PROGRAM = """
import json, os, sys
import firststep

def peak():
    with open("/proc/self/status") as file:
        return 1024 * int(file.read().split("VmHWM:")[1].split()[0])

fields, dimension, cases = json.loads(sys.argv[1])
problem = firststep.Problem(**fields)
for case in cases:
    firststep.simulate(problem, 20, 1, workers=1, **case)
    sys.stdout.flush()
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
    else:
        before = peak()
        firststep.simulate(problem, dimension, 1, workers=1, **case)
        print(peak() - before, flush=True)
        os._exit(0)
"""


def bytes_used(
    fields: Mapping[str, Any], dimension: int, cases: Sequence[Mapping[str, Any]]
) -> list[int]:
    """Of one replicate of a problem, for each of some sets of options of ``simulate``."""
    asked = json.dumps([dict(fields), dimension, [dict(case) for case in cases]])
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, asked],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    return [int(line) for line in done.stdout.split()]
