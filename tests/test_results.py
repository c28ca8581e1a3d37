"""Estimates, tables, JSON."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from firststep import (
    Baselines,
    Estimate,
    Interrupted,
    Problem,
    Simulation,
    baselines,
    compare,
    simulate,
    spectrum,
)
from firststep.results import Shown, with_error


def test_estimates() -> None:
    values = np.array([[1.0, 2.0, np.nan], [3.0, 2.0, np.nan], [5.0, np.nan, np.nan]])
    estimate = Estimate(values)
    assert estimate.mean[:2] == pytest.approx([3, 2])
    assert np.isnan(estimate.mean[2])
    assert estimate.standard_error[:2] == pytest.approx([2 / math.sqrt(3), 0])
    single = Estimate(np.array([4.0]))
    assert single.mean == 4.0
    assert math.isnan(single.standard_error)
    assert single.to_dict() == {"mean": 4.0, "standard_error": None, "values": [4.0]}


def test_numbers_with_errors() -> None:
    assert with_error(0.123456, 0.0012) == "0.1235 ± 0.0012"
    assert with_error(12.3456, 1.7) == "12.3 ± 1.7"
    assert with_error(1234.5, 120) == "1234 ± 120"
    assert with_error(0.5, math.nan) == "0.5"
    assert with_error(math.nan, 1) == "-"


def test_simulation_carries_what_is_needed_to_repeat_it(generic: Problem) -> None:
    found = simulate(generic, 30, 3, seed=4, test_samples=200, workers=1)
    assert found.problem.dimension == 30
    assert found.seed == 4
    assert set(found.versions) >= {"python", "firststep", "numpy", "scipy"}
    assert found.seconds > 0
    assert found.options["test_samples"] == 200
    listed = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert listed["risk"]["mean"] == found.risk.mean
    copy = pickle.loads(pickle.dumps(found))
    assert np.array_equal(copy.risk.values, found.risk.values)
    assert "test risk" in found._repr_html_()
    assert str(found).startswith("network: tanh(1.3*z)")
    assert "risk" in dir(found)
    with pytest.raises(AttributeError, match="no measurement 'rsik'"):
        _ = found.rsik
    with pytest.raises(Exception, match=r"frozen|cannot assign"):
        found.seed = 5  # type: ignore[misc]


def test_no_step_shows_no_empty_lines(generic: Problem) -> None:
    text = str(simulate(generic.replace(alpha0=0), 20, 2, test_samples=100))
    assert "nan" not in text
    assert "alignment" not in text


def test_interrupted_keeps_what_is_finished(generic: Problem) -> None:
    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="2 of 50") as caught:
        simulate(generic, 20, 50, test_samples=100, progress=stop)
    partial = caught.value.result
    assert isinstance(partial, Simulation)
    assert partial.interrupted
    assert partial.replicates == 2
    assert np.array_equal(
        partial.risk.values, simulate(generic, 20, 2, test_samples=100).risk.values
    )


def test_interrupted_baselines_keep_the_finished_models(generic: Problem) -> None:
    calls = []

    def stop(done: int, total: int) -> None:
        calls.append(done)
        if len(calls) == 8:  # three replicates of each model: the second of the third model
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="2 of 5 models") as caught:
        baselines(generic, 20, 3, test_samples=100, progress=stop)
    partial = caught.value.result
    assert isinstance(partial, Baselines)
    assert [each.replicates for each in partial] == [3, 3, 2]
    assert "incomplete" in str(partial)
    assert partial.to_dict()["interrupted"] is True


@dataclass(frozen=True, eq=False, repr=False)
class Toy(Shown):
    """The smallest result there is."""

    interrupted: bool = False

    @property
    def title(self) -> str:
        return "a < b"

    def rows(self) -> Iterator[tuple[str, str]]:
        yield "risk", "0.1"
        yield "error & more", "-"

    def notes(self) -> Iterator[str]:
        if self.interrupted:
            yield "interrupted"


class Headed(Toy):
    @property
    def head(self) -> tuple[str, str]:
        return "", "theory"


def test_how_results_are_shown() -> None:
    found = Toy()
    assert str(found) == repr(found) == "a < b\n  risk          0.1\n  error & more  -"
    assert str(Toy(interrupted=True)) == str(found) + "\ninterrupted"
    first = "<td style='text-align:left'>"
    assert found._repr_html_() == (
        f"<table><caption>a &lt; b</caption><tr>{first}risk</td><td>0.1</td></tr>"
        f"<tr>{first}error &amp; more</td><td>-</td></tr></table>"
    )
    headed = Headed()
    assert str(headed).splitlines()[1:3] == ["                theory", "  risk          0.1"]
    assert headed._repr_html_().startswith(
        "<table><caption>a &lt; b</caption><tr><th></th><th>theory</th></tr><tr><td>risk</td>"
    )


def test_every_result_is_shown_by_its_table(generic: Problem) -> None:
    """Not by the repr that dataclasses write, which is long and without units."""
    small = generic.replace(dimension=20)
    for found in (
        simulate(small, replicates=2, test_samples=100),
        baselines(small, replicates=2, test_samples=100, models=("linear",)),
        compare(small, replicates=2, test_samples=100),
        spectrum(small, replicates=2),
    ):
        assert isinstance(found, Shown)
        assert repr(found) == str(found)
        assert str(found).startswith(f"{found.title}\n  ")
        assert found._repr_html_().count("<tr>") == len([*found.rows()]) + bool(found.head)
