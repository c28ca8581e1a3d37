"""Flags with several values: curves of theory and networks, their tables and pictures."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firststep import Problem, compare, predict, simulate
from firststep.cli import run
from firststep.curves import Question, asked, predicted

GIVEN: dict[str, Any] = {
    "student": "tanh",
    "teacher": "sin",
    "alpha": "2",
    "beta": "1",
    "readout": "ones",
    "noise": "0.1",
}
FLAGS = [word for name, value in GIVEN.items() for word in (f"--{name}", value)]


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_one_value_is_a_problem_and_several_are_curves() -> None:
    assert asked(GIVEN) == Problem(**GIVEN)
    ridges = asked({**GIVEN, "ridge": ["0.1,1"]})
    assert isinstance(ridges, Problem)  # as before
    assert ridges.ridge == (0.1, 1.0)
    found = asked({**GIVEN, "alpha": "0.3..10:30", "step": "0,1,3"})
    assert isinstance(found, Question)
    assert (found.axis, found.by, found.by_values) == ("alpha", "step", (0, 1, 3))
    np.testing.assert_allclose(found.values, np.geomspace(0.3, 10, 30), rtol=1e-11)
    even = asked({**GIVEN, "noise": "0..1:5"})
    assert isinstance(even, Question)
    np.testing.assert_allclose(even.values, np.linspace(0, 1, 5))
    sizes = asked({**GIVEN, "dimension": "100..400:3"})
    assert isinstance(sizes, Question)
    assert sizes.values == (100, 200, 400)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": "0.3..10"}, "alpha must be numbers such as 0,1,3, or a range"),
        ({"alpha": "10..1:3"}, "a range needs first < last"),
        ({"alpha": "1..2:1"}, "2 to 10000 values"),
        ({"alpha": "1..2:99999"}, "2 to 10000 values"),
        ({"alpha": "1,x"}, "alpha must be numbers"),
        ({"alpha": "1,nan"}, "alpha must be numbers"),
        ({"alpha": "1,2,1"}, "alpha must be different values; got 1 twice"),
        ({"alpha": "0,1"}, "alpha must be a finite number > 0"),
        ({"alpha": "1,2", "beta": "1,2", "step": "1,2"}, "two fields with several values at most"),
        ({"dimension": "1.5,100"}, "dimension must be numbers"),
        ({"flip": "0,0.1"}, "flip must be 0 with labels real"),
        ({"step_exponent": "0,0.7"}, "step-exponent must be from 0 to 0.5"),
    ],
)
def test_what_is_no_curve_is_one_line(
    changes: dict[str, str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {**GIVEN, **changes}
    line = [word for name, v in given.items() for word in (f"--{name.replace('_', '-')}", v)]
    assert run(["predict", *line]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert len(said.err.splitlines()) == 1
    assert said.out == ""


def test_the_theory_is_that_of_every_point() -> None:
    question = asked({**GIVEN, "alpha": "0.5,2,4", "step": "0,2"})
    assert isinstance(question, Question)
    for point in predicted(question).points:
        problem = Problem(**{**GIVEN, "alpha": point.value, "step": point.by})  # alpha0 follows
        found = predict(problem)
        assert point.theory == pytest.approx(found.risk, rel=1e-9)
        assert point.model_error == pytest.approx(found.model_error, rel=1e-6)
        assert point.status == "converged"


def test_a_curve_of_classifiers_is_of_error_rates() -> None:
    given = {**GIVEN, "teacher": "z", "labels": "sign", "noise": "0", "flip": "0,0.1"}
    question = asked(given)
    assert isinstance(question, Question)
    found = predicted(question)
    assert found.measure == "error_rate"
    expected = [predict(Problem(**{**given, "flip": flip})).error_rate for flip in (0.0, 0.1)]
    assert [point.theory for point in found.points] == pytest.approx(expected, rel=1e-6)


def test_a_picture_carries_its_command_and_its_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "curve.svg"
    line = ["predict", *FLAGS, "--step", "0,1,3", "--out", str(picture)]
    line[line.index("2")] = "0.3..10:4"
    assert run(line) == 0
    assert "wrote" in capsys.readouterr().out
    made_by = "firststep predict --student tanh --teacher sin --alpha 0.3..10:4"
    assert f"<dc:description>{made_by}" in " ".join(picture.read_text().split()).replace("> ", ">")
    rows = rows_of(tmp_path / "curve.csv")
    assert [float(row["step"]) for row in rows] == [0] * 4 + [1] * 4 + [3] * 4
    problem = Problem(**{**GIVEN, "alpha": float(rows[5]["alpha"]), "step": 1.0})
    assert float(rows[5]["theory"]) == pytest.approx(predict(problem).risk, rel=1e-9)


def test_ridges_are_drawn_too(tmp_path: Path) -> None:
    picture = tmp_path / "ridge.pdf"
    assert run(["predict", *FLAGS, "--ridge", "1e-3..1:5", "--out", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"%PDF")
    assert len(rows_of(tmp_path / "ridge.csv")) == 5


def test_networks_are_those_of_simulate_and_beside_them_is_the_theory_of_their_size(
    capsys: pytest.CaptureFixture[str],
) -> None:
    size = ["--dimension", "30", "--replicates", "3", "--seed", "5", "--workers", "1"]
    flags = [*FLAGS, *size, "--json"]
    flags[flags.index("2")] = "1,3"
    assert run(["compare", *flags]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["alpha"] == [1, 3]
    for place, alpha in enumerate((1.0, 3.0)):
        problem = Problem(**{**GIVEN, "alpha": alpha, "dimension": 30})
        expected = simulate(problem, replicates=3, seed=5, workers=1).risk
        assert told["simulated"][place] == pytest.approx(float(expected.mean), rel=1e-12)
        row = compare(problem, replicates=3, seed=5, workers=1)["risk"]
        assert told["theory"][place] == pytest.approx(row.theory, rel=1e-9)
        assert told["standard_error"][place] == pytest.approx(row.standard_error, rel=1e-9)
    assert run(["simulate", *flags]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert alone["simulated"] == told["simulated"]
    assert "theory" not in alone


def test_nothing_asked_is_the_problem_of_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "--json"]) == 0
    said = capsys.readouterr()
    told = json.loads(said.out)["problem"]
    assert (told["student"], told["teacher"], told["dimension"]) == ("tanh", "sin", 500)
    assert "that of the README" in said.err
    readme = (Path(__file__).parent.parent / "README.md").read_text().replace("\\\n", " ")
    words = " ".join(readme.split())
    assert said.err.strip().partition("README, ")[2] in words


def test_numbers_alone_change_the_problem_of_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "--json", "--alpha", "1.5", "--noise", "0.2"]) == 0
    said = capsys.readouterr()
    told = json.loads(said.out)["problem"]
    assert (told["student"], told["alpha"], told["noise"], told["beta"]) == ("tanh", 1.5, 0.2, 1)
    assert "no student and teacher given" in said.err
    assert "--alpha " not in said.err
    assert run(["predict", "--teacher", "sin"]) == 2
    assert "student must be given" in capsys.readouterr().err


def test_what_belongs_to_a_point_is_not_asked_of_a_curve(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = ["predict", *FLAGS]
    line[line.index("2")] = "1,2"
    assert run([*line, "--words"]) == 2
    assert "words must be asked of a single point" in capsys.readouterr().err
    assert run(["predict", *FLAGS, "--out", str(tmp_path / "x.png")]) == 2
    assert "out must be asked of a curve" in capsys.readouterr().err
    assert run([*line, "--out", str(tmp_path / "curve.txt")]) == 2
    assert "out must be a file name that ends in" in capsys.readouterr().err
