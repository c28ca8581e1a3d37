"""Pictures of sweeps of classifiers: the error rate, unless asked, with the Bayes error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firststep import Experiment, Problem, predict, run_sweep
from firststep.figures.of_sweep import choose_y, draw
from firststep.plots import COLORS, figure
from firststep.sweep.run import Sweep

BINARY = dict(student="tanh", teacher="z", beta=1, readout="ones", alpha0=4, labels="sign")


def experiment(problem: dict[str, Any], **axes: Any) -> Experiment:
    return Experiment.from_dict(
        dict(name="classes", problem=problem, axes=axes, predict=dict(dimension=["inf"]))
    )


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    asked = experiment(BINARY, alpha=[1, 3], flip=[0.05, 0.2], loss=["square", "logistic"])
    place: Path = tmp_path_factory.mktemp("sweep") / "classes.db"
    return run_sweep(asked, place, workers=1)


def test_what_is_drawn_unless_asked() -> None:
    real = dict(student="tanh", teacher="sin", beta=1)
    assert choose_y(experiment(BINARY, alpha=[1, 3])) == "error_rate"
    assert choose_y(experiment(real, alpha=[1, 3])) == "risk"
    assert choose_y(experiment({**real, "loss": "huber:0.5"}, alpha=[1, 3])) == "test_loss"
    both = experiment(real, alpha=[1, 3], loss=["square", "huber:0.5"])
    assert choose_y(both) == "risk"


def lines(sweep: Sweep, **asked: Any) -> tuple[str, dict[str, list[tuple[list[float], Any]]]]:
    """The words of the axis, and the lines by colour."""
    with figure() as (_, axes):
        draw(sweep, axes, "alpha", **asked)
        found: dict[str, list[tuple[list[float], Any]]] = {}
        for line in axes.get_lines():
            if len(line.get_xdata()):
                ends = [list(map(float, each)) for each in (line.get_xdata(), line.get_ydata())]
                found.setdefault(str(line.get_color()), []).append((ends[0], ends[1]))
        return axes.get_ylabel(), found


def test_error_rates_are_drawn_with_the_bayes_error(sweep: Sweep) -> None:
    words, found = lines(sweep)
    assert words == "error rate"
    # Without noise only flips are beyond everybody: one grey line for each of their shares.
    least = found.pop(COLORS["grey"])
    assert [x for x, _ in least] == [[1.0, 3.0]] * 2
    assert sorted(y[0] for _, y in least) == pytest.approx([0.05, 0.2], abs=1e-9)
    problem = Problem(**BINARY, alpha=3, flip=0.2, loss="logistic")
    drawn = [y[1] for each in found.values() for _, y in each]
    assert len(drawn) == 4
    assert min(abs(y - predict(problem).error_rate) for y in drawn) < 1e-6


def test_another_quantity_is_drawn_without_it(sweep: Sweep) -> None:
    words, found = lines(sweep, y="test_loss", where={"loss": "logistic"})
    assert words == "test loss"
    assert COLORS["grey"] not in found
