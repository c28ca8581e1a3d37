"""What a computation costs in units of a reference, and which costs more than it did.

Time is that of this process on its processor, not of the clock. A computation and its reference
take turns, and of each the least time counts: what else runs on the machine can only add to it.
What looks slower than it was is measured again, and the least of all rounds counts, before it is
called so.
"""

from __future__ import annotations

import json
import math
import platform
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import scipy

if sys.platform != "win32":
    import resource

ALLOWED = 1.25  # times the kept ratio
ROUNDS, AGAIN = 7, 3  # rounds of all, and how often what looks slow gets as many more

Clock = Callable[[Callable[[], object]], float]


def cpu_seconds(run: Callable[[], object]) -> float:
    """Time on the processor: of this process, and of the processes it has waited for."""
    begin = time.process_time() + _children()
    run()
    return time.process_time() + _children() - begin


def _children() -> float:
    if sys.platform == "win32":  # which counts no children: processes there take what they take
        return time.perf_counter()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass
class Measured:
    """One computation, and the least seconds of it and of its reference so far."""

    name: str
    run: Callable[[], object]
    reference: Callable[[], object]
    seconds: float = math.inf
    reference_seconds: float = math.inf

    def measure(self, rounds: int, clock: Clock) -> None:
        """The reference before every round and after the last."""
        self.reference_seconds = min(self.reference_seconds, clock(self.reference))
        for _ in range(rounds):
            self.seconds = min(self.seconds, clock(self.run))
            self.reference_seconds = min(self.reference_seconds, clock(self.reference))

    @property
    def ratio(self) -> float:
        return self.seconds / self.reference_seconds


@dataclass
class Verdict:
    """Ratios beside those that are kept."""

    slower: list[str] = field(default_factory=list)
    quicker: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


def compared(found: dict[str, float], kept: dict[str, float], allowed: float = ALLOWED) -> Verdict:
    """Which cost more than ``allowed`` times what is kept, or less than that part of it."""
    both = [name for name in found if name in kept]
    return Verdict(
        slower=[name for name in both if not found[name] <= allowed * kept[name]],  # nan too
        quicker=[name for name in both if found[name] * allowed < kept[name]],
        new=[name for name in found if name not in kept],
        gone=[name for name in kept if name not in found],
    )


def measure_all(
    measured: Iterable[Measured],
    kept: dict[str, float],
    *,
    clock: Clock = cpu_seconds,
    tell: Callable[[str], None] = print,
) -> dict[str, float]:
    """The ratios; those that look slower are measured again, in turns with the others of them."""
    every = list(measured)
    for each in every:
        each.run()  # tables and caches: what is measured is warm
        each.reference()
        each.measure(ROUNDS, clock)
        tell(line(each.name, each.ratio, kept.get(each.name), each.seconds))
    for _ in range(AGAIN):
        slow = set(compared({each.name: each.ratio for each in every}, kept).slower)
        for each in every:
            if each.name in slow:
                each.measure(ROUNDS, clock)
                tell("again: " + line(each.name, each.ratio, kept.get(each.name), each.seconds))
    return {each.name: each.ratio for each in every}


def line(name: str, ratio: float, kept: float | None, seconds: float) -> str:
    beside = "not kept" if kept is None else f"{ratio / kept:5.2f} of what is kept"
    return f"{name:46s} {ratio:8.3f} times its reference, {beside} ({1e3 * seconds:.0f} ms)"


def told(verdict: Verdict, found: dict[str, float], kept: dict[str, float]) -> list[str]:
    """What is to be said in the end."""
    lines = [
        f"slower: {name} costs {found[name] / kept[name]:.2f} times what it did "
        f"({found[name]:.3f} of its reference, kept {kept[name]:.3f})"
        for name in verdict.slower
    ]
    lines += [
        f"quicker: {name} costs {found[name] / kept[name]:.2f} of what it did; --keep writes it"
        for name in verdict.quicker
    ]
    lines += [f"not kept yet: {name}" for name in verdict.new]
    lines += [f"kept, but no longer measured: {name}" for name in verdict.gone]
    return lines


def machine() -> dict[str, str]:
    """What ratios depend on, besides the code."""
    return {
        "processor": _processor(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            fields = dict(line.split(":", 1) for line in lines if ":" in line)
    except OSError:
        return platform.processor() or platform.machine()
    named = {key.strip(): value.strip() for key, value in fields.items()}
    keys = ("model name", "cpu family", "model")
    return ", ".join(f"{key} {named[key]}" for key in keys if key in named)


def read(path: Path) -> tuple[dict[str, float], dict[str, str]]:
    """The kept ratios, and where they were measured."""
    held = json.loads(path.read_text(encoding="utf-8"))
    return held["ratios"], held["machine"]


def write(path: Path, ratios: dict[str, float]) -> None:
    held = {
        "machine": machine(),
        "ratios": {name: float(f"{ratio:.4g}") for name, ratio in sorted(ratios.items())},
    }
    path.write_text(json.dumps(held, indent=2) + "\n", encoding="utf-8")
