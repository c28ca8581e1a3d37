"""What `make bench-quick` calls slower: benchmarks/guard.py and quick.py, on made-up clocks."""

from __future__ import annotations

import importlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    """guard and quick, which are no part of the package."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # which quick sets
        monkeypatch.setenv(threads, "1")
    yield importlib.import_module("guard"), importlib.import_module("quick")
    for name in ("guard", "quick"):
        sys.modules.pop(name)


class Clock:
    """Tells the seconds that a computation was given for its rounds, the last one from then on."""

    def __init__(self, **seconds: list[float]) -> None:
        self.seconds, self.asked = seconds, dict.fromkeys(seconds, 0)

    def __call__(self, run: Callable[[], object]) -> float:
        name = str(run())
        given, number = self.seconds[name], self.asked[name]
        self.asked[name] += 1
        return given[min(number, len(given) - 1)]

    def measured(self, guard: Any, *names: str) -> list[Any]:
        return [guard.Measured(name, lambda n=name: n, lambda: "reference") for name in names]


def test_a_quarter_is_allowed(bench: tuple[Any, Any]) -> None:
    guard, _ = bench
    kept = {"same": 2.0, "slow": 2.0, "edge": 2.0, "quick": 2.0, "gone": 2.0, "nan": 2.0}
    found = {"same": 2.1, "slow": 2.51, "edge": 2.5, "quick": 1.5, "new": 9.0, "nan": math.nan}
    verdict = guard.compared(found, kept)
    assert verdict.slower == ["slow", "nan"]
    assert verdict.quicker == ["quick"]
    assert verdict.new == ["new"]
    assert verdict.gone == ["gone"]
    said = "\n".join(guard.told(verdict, found, kept))
    assert "slower: slow costs 1.25 times what it did (2.510 of its reference, kept 2.000)" in said
    assert "no longer measured: gone" in said


def test_the_least_of_each_counts_and_they_take_turns(bench: tuple[Any, Any]) -> None:
    """Noise adds: a slow round of either changes nothing, and what looks slow gets more rounds."""
    guard, _ = bench
    clock = Clock(reference=[1.0, 5.0, 1.0], steady=[3.0, 9.0, 3.1], late=[6.0] * 9 + [2.0])
    steady, late = clock.measured(guard, "steady", "late")
    found = guard.measure_all(
        [steady, late], {"steady": 3.0, "late": 2.0}, clock=clock, tell=lambda text: None
    )
    assert found == {"steady": 3.0, "late": 2.0}
    assert clock.asked["steady"] == guard.ROUNDS
    assert clock.asked["late"] == 2 * guard.ROUNDS  # once more, and no more than that
    assert clock.asked["reference"] == 3 * (guard.ROUNDS + 1)


def test_what_stays_slow_is_named_after_all_rounds(bench: tuple[Any, Any]) -> None:
    guard, _ = bench
    clock = Clock(reference=[1.0], slow=[2.6])
    said: list[str] = []
    found = guard.measure_all(
        clock.measured(guard, "slow"), {"slow": 2.0}, clock=clock, tell=said.append
    )
    assert clock.asked["slow"] == guard.ROUNDS * (1 + guard.AGAIN)
    assert sum(text.startswith("again: slow") for text in said) == guard.AGAIN
    assert guard.compared(found, {"slow": 2.0}).slower == ["slow"]


def test_time_is_that_of_the_processor(bench: tuple[Any, Any]) -> None:
    guard, quick = bench
    assert guard.cpu_seconds(lambda: sum(range(300_000))) > 0
    assert guard.cpu_seconds(lambda: time.sleep(0.2)) < 0.1
    if sys.platform != "win32":  # a process that was waited for counts
        assert guard.cpu_seconds(quick.process("sum(range(3_000_000))")) > 0.02


def test_exit_codes_and_the_kept_file(
    bench: tuple[Any, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """0 as it was, 1 slower, 2 for a mistake; --keep writes what is compared the next time."""
    guard, quick = bench
    path, seconds = tmp_path / "quick.json", {"a": 2.0, "b": 3.0}

    def run(*arguments: str) -> int:
        clock = Clock(reference=[1.0], **{name: [each] for name, each in seconds.items()})
        monkeypatch.setattr(sys, "argv", ["quick.py", *arguments])
        monkeypatch.setattr(quick, "KEPT", path)
        monkeypatch.setattr(quick, "computations", lambda _: clock.measured(guard, *seconds))
        measure = guard.Measured.measure
        with monkeypatch.context() as patch:
            patch.setattr(guard.Measured, "measure", lambda s, n, _: measure(s, n, clock))
            return int(quick.main())

    with pytest.raises(SystemExit, match="2"):
        run()
    assert "--keep writes it" in capsys.readouterr().err
    assert run("--keep") == 0
    assert json.loads(path.read_text())["ratios"] == {"a": 2.0, "b": 3.0}
    assert run() == 0
    assert "nothing is slower" in capsys.readouterr().out
    seconds["b"] = 4.0
    assert run() == 1
    assert "slower: b costs 1.33 times" in capsys.readouterr().out
    assert run("--only", "a") == 0
    with pytest.raises(SystemExit, match="2"):
        run("--only", "nothing")
    with pytest.raises(SystemExit, match="2"):
        run("--keep", "--only", "a")


def test_every_computation_is_kept(bench: tuple[Any, Any], tmp_path: Path) -> None:
    guard, quick = bench
    names = [each.name for each in quick.computations(tmp_path)]
    assert len(set(names)) == len(names)
    assert set(names) == set(guard.read(quick.KEPT)[0])
