"""What figures are made of: the verdict, the table, resuming, the catalogue, the command."""

from __future__ import annotations

import csv
import math
import pickle
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

from firststep import InvalidParameter, Problem, compare
from firststep.cli import run
from firststep.figures import catalogue
from firststep.figures.core import Figure, make
from firststep.figures.shape import Axis, Curve, Panel, Scale
from firststep.figures.shape import predicted as theory_of
from firststep.figures.verdict import judge, row_of, score
from firststep.sweep.executors import ThisMachine

PROBLEM = dict(
    student="tanh", teacher="sin", beta=1, alpha0=2, noise=0.1, readout="signs", ridge=0.1
)


def small(bulk: str | None = "as the model", bias: float = 0.0) -> Figure:
    curve = Curve("network", lambda a: Problem(**PROBLEM, alpha=a + bias), at=(1.0, 2.0), bulk=bulk)
    still = Curve(
        "no step",
        lambda a: Problem(**PROBLEM, alpha=a),
        at=(1.0, 2.0),
        model="random-features",
        color="orange",
    )
    return Figure(
        "small",
        "A small figure",
        "firststep",
        "Nothing to see.",
        lambda scale: [
            Panel([curve, still], Axis("alpha", "samples"), "risk", bound=curve.problem(1.0))
        ],
        quick=Scale(40, 4),
        full=Scale(80, 8, full=True),
    )


def row(z: float, relative: float, replicates: int = 10, judged: bool = True) -> dict[str, object]:
    return dict(
        curve="a",
        x="alpha",
        x_value=1.0,
        theory=1.0,
        simulated=1.0,
        standard_error=0.1,
        z=z,
        relative=relative,
        score=score(z, replicates),
        judged=judged,
    )


def test_the_score_takes_out_the_tails_of_few_replicates() -> None:
    assert score(2.0, 10_000) == pytest.approx(2.0, abs=1e-3)
    assert score(-3.0, 5) == pytest.approx(-scipy.stats.norm.isf(scipy.stats.t.sf(3.0, 4)))
    assert abs(score(3.0, 4)) < 2.5
    assert math.isnan(score(3.0, 1))
    assert math.isnan(score(math.nan, 5))


def test_the_verdict() -> None:
    good = judge([row(2.0, 0.03), row(-1.0, 0.2), row(30.0, 0.001)])
    assert good.agrees
    assert good.points == 3
    bad = judge([row(2.0, 0.03), row(9.0, 0.03), row(9.0, 0.5, judged=False)])
    assert [each["z"] for each in bad.apart] == [9.0]
    assert "DISAGREE at 1 points" in str(bad)
    assert str(judge([])) == "no point has both theory and simulation"
    rng = np.random.default_rng(0)
    wrong = sum(
        not judge([row(t, 0.1, 6) for t in scipy.stats.t.rvs(5, size=40, random_state=rng)]).agrees
        for _ in range(400)
    )
    assert wrong <= 12  # true agreement is called disagreement about one time in a hundred


def test_a_figure_is_computed_drawn_written_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(small(), tmp_path, small().quick)
    assert [path.suffix for path in made.files] == [".png", ".pdf", ".csv", ".txt", ".json"]
    assert all(path.stat().st_size > 100 for path in made.files)
    with made.files[2].open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    direct = compare(Problem(**PROBLEM, alpha=2.0), 40, 4)["risk"]
    found = next(each for each in rows if each["curve"] == "network" and each["x_value"] == "2.0")
    assert float(found["simulated"]) == pytest.approx(direct.simulated, rel=1e-10)
    assert float(found["standard_error"]) == pytest.approx(direct.standard_error, rel=1e-10)
    assert float(found["theory"]) == pytest.approx(direct.theory, rel=1e-9)
    assert float(found["z"]) == pytest.approx(direct.z, rel=1e-6)

    def never(unit: object) -> object:
        raise AssertionError("nothing is left to compute")

    monkeypatch.setattr("firststep.sweep.executors.compute", never)
    again = make(small(), tmp_path, small().quick)
    assert [each["simulated"] for each in again.rows] == [each["simulated"] for each in made.rows]


def test_theory_of_several_kinds_of_problem() -> None:
    problems = [
        Problem(**PROBLEM, alpha=1),
        Problem(**{**PROBLEM, "student": "erf"}, alpha=1),
        Problem(**PROBLEM, alpha=2),
    ]
    from firststep import predict

    assert list(theory_of(problems, "risk", "exact")) == pytest.approx(
        [predict(p).risk for p in problems], rel=1e-10
    )


def test_every_figure_of_the_catalogue_describes_itself() -> None:
    for name in catalogue.NAMES:
        figure = catalogue.figure(name)
        assert figure.name == name
        assert figure.title
        assert figure.source
        assert len(figure.caption) > 40
        assert figure.full.full
        assert not figure.quick.full
    with pytest.raises(InvalidParameter, match="did you mean ba-fig1"):
        catalogue.figure("ba-fig-1")


def test_the_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["reproduce", "list"]) == 0
    assert capsys.readouterr().out.count("\n") == len(catalogue.NAMES)
    assert run(["reproduce", "nothing"]) == 2
    assert "figure must be one of" in capsys.readouterr().err
    assert run(["reproduce", "ba-fig1", "--quick", "--full"]) == 2
    monkeypatch.setattr(catalogue, "figure", lambda name: small())
    assert run(["reproduce", "ba-fig1", "--out", str(tmp_path / "here"), "--workers", "1"]) == 0
    assert "4 points with theory and simulation: agree" in capsys.readouterr().out
    assert (tmp_path / "here" / "small.png").exists()
    monkeypatch.setattr(catalogue, "figure", lambda name: small(bias=0.0, bulk="isotropic"))
    assert run(["reproduce", "ba-fig1", "--out", "/dev/null/x"]) == 2
    assert "out must be a folder that can be written" in capsys.readouterr().err


def test_predictions_for_every_replicate_are_compared_with_their_own() -> None:
    problem = Problem(**PROBLEM, alpha=1.0)
    curve = Curve("networks", lambda _: problem, bulk="given layer")
    panel = Panel([curve], Axis("alpha", "alpha"), title="panel")
    values, each = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.1, 2.1, 3.0, 4.2])
    row = row_of(panel, curve, 1.0, problem=problem, simulated=values, theory=each, seed=0)
    assert (row["panel"], row["x"], row["bulk"]) == ("panel", "alpha", "given layer")
    assert row["difference"] == pytest.approx(0.1)
    assert row["z"] == pytest.approx(0.1 / (np.std(each - values, ddof=1) / 2))
    assert row["standard_error"] == pytest.approx(np.std(values, ddof=1) / 2)


def test_a_figure_without_theory_is_made_at_any_size(tmp_path: Path) -> None:
    """Every curve at every exponent, the laws of the inputs and the optimizers among the keys."""
    scale = Scale(dimension=30, replicates=2, points=2)
    figure = catalogue.figure("steep-steps")
    made = make(figure, tmp_path, scale, executor=ThisMachine(workers=1))
    assert made.verdict.points == 0
    assert len(made.rows) == 2 * (4 + 5 + 5)
    assert all(math.isfinite(row["simulated"]) for row in made.rows)
    risks = {(r["panel"], r["curve"], r["x_value"]): r["simulated"] for r in made.rows}
    assert len({*risks.values()}) == len(made.rows)
    assert all(path.stat().st_size > 100 for path in made.files)


class InThisProcess:
    """Workers whose jobs and answers are pickled, but do not leave: no process has to start."""

    def __init__(self, count: int) -> None:
        assert count >= 1

    def __enter__(self) -> InThisProcess:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, job: Any, numbers: Sequence[int]) -> Iterator[tuple[int, Any]]:
        sent = pickle.loads(pickle.dumps(job))
        for number in reversed(numbers):  # they may finish in any order
            yield number, pickle.loads(pickle.dumps(sent(number)))


@pytest.mark.parametrize(
    "name",
    [
        "beyond-multi-step",
        "beyond-inputs",
        pytest.param("beyond-multi-index", marks=pytest.mark.slow),  # many label rules
    ],
)
def test_figures_with_a_computation_of_their_own_are_made_at_any_size(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module(f"firststep.figures.{name.replace('-', '_')}")
    monkeypatch.setattr("firststep.figures.core.Workers", InThisProcess)
    if name == "beyond-multi-step":
        monkeypatch.setattr(module, "SHOWN", (0, 1, 3))
    figure = catalogue.figure(name)
    scale = Scale(dimension=40, replicates=2, points=2)
    made = make(figure, tmp_path, scale, executor=ThisMachine(workers=1))
    assert made.verdict.points > 0
    assert all(math.isfinite(row["simulated"]) for row in made.rows)
    assert all(path.stat().st_size > 100 for path in made.files)
