"""Mistakes of every kind end in one line: never a traceback, never a number made of nonsense."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firststep
from firststep import InvalidParameter, Problem, compare, diagnose_inputs, optimal, predict
from firststep.activations import activation
from firststep.cli import entry
from firststep.errors import FirststepError
from tests.fuzzing import FUNCTIONS, command_lines, public_calls

PROBLEM = Problem(student="tanh", teacher="sin", alpha=2, beta=1)
COMMAND = ["predict", "--student", "tanh", "--teacher", "tanh", "--alpha", "2", "--beta", "1"]


def said(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    """The exit code of a command, and its complaint."""
    code = entry.run([str(word) for word in words])
    return code, capsys.readouterr().err


@pytest.mark.parametrize("command", ["predict --problem", "sweep run"])
@pytest.mark.parametrize(
    "text", ["a=" + "[" * 2000 + "]" * 2000, "alpha=" + "1" * 5000, "alpha = \ufeff", "\x00"]
)
def test_files_that_are_no_toml(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, text: str
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    code, err = said(capsys, *command.split(), path)
    assert code == 2
    assert err.startswith("error: ")
    assert "TOML file" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "parameter"),
    [
        ("--step 1e308", "step"),
        ("--noise 1e300", "noise"),
        ("--alpha0 1e-320", "alpha0"),
        ("--alpha0 1e-8 --dimension 200", "dimension"),
        ("--alpha0 0.002 --dimension 200", "dimension"),
    ],
)
def test_numbers_beyond_the_theory(
    capsys: pytest.CaptureFixture[str], words: str, parameter: str
) -> None:
    code, err = said(capsys, *COMMAND, *words.split())
    assert code == 2
    assert err.startswith(f"error: {parameter} must be ")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("command", ["predict", "simulate", "compare", "optimize", "baselines"])
@pytest.mark.parametrize(
    ("words", "parameter"),
    [
        ("--inputs power-law:-1", "inputs"),
        ("--inputs two-level:4:1", "inputs"),
        ("--inputs two-level:4:0.001 --dimension 30", "dimension"),
        ("--inputs spectrum:none.npy", "inputs"),
        ("--inputs spectrum:negative.npy", "inputs"),
        ("--inputs spectrum:infinite.npy", "inputs"),
        ("--inputs spectrum:nan.npy", "inputs"),
        ("--inputs spectrum:words.csv", "inputs"),
        ("--inputs spectrum:broken.npy", "inputs"),
        ("--inputs spectrum:zeros.npy", "inputs"),
        ("--inputs spectrum:good.npy --dimension 30", "dimension"),
        ("--inputs spectrum:good.npy --teacher-overlaps 1,2", "teacher-overlaps"),
        ("--inputs spectrum:good.npy --teacher-overlaps 0,0,1", "teacher-overlaps"),
        ("--inputs spectrum:good.npy --teacher-overlaps file", "teacher-overlaps"),
        ("--inputs power-law:0.3 --teacher-overlaps top:0", "teacher-overlaps"),
        ("--inputs power-law:0.3 --teacher-overlaps 0,0,0", "teacher-overlaps"),
        ("--inputs power-law:0.3 --teacher-overlaps 1,2 --dimension 30", "dimension"),
        ("--inputs spectrum:ragged.csv", "inputs"),
        ("--inputs spectrum:objects.npz", "inputs"),
        ("--teacher-overlaps bottom:0.1", "teacher-overlaps"),
        ("--inputs power-law:0.3 --teacher-terms relu", "teacher-terms"),
        ("--teacher-terms rleu", "teacher-terms"),
        ("--teacher-terms relu,tanh,sin --dimension 3", "teacher-terms"),
    ],
)
def test_data_that_is_none(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    command: str,
    words: str,
    parameter: str,
) -> None:
    for name, values in (
        ("negative", [1.0, -1.0, 2.0]),
        ("infinite", [1.0, np.inf, 2.0]),
        ("nan", [1.0, np.nan, 2.0]),
        ("zeros", [0.0, 0.0, 0.0]),
        ("good", [2.0, 1.0, 0.0]),
    ):
        np.save(tmp_path / f"{name}.npy", values)
    (tmp_path / "words.csv").write_text("1\nx\n")
    (tmp_path / "ragged.csv").write_text("1,2\n3\n")
    (tmp_path / "objects.npz").write_bytes(b"PK")
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY")
    monkeypatch.chdir(tmp_path)
    code, err = said(capsys, command, *COMMAND[1:], *words.split())
    assert code == 2
    assert err.startswith(f"error: {parameter} must be ")
    assert len(err.splitlines()) == 1
    assert "usecols" not in err  # what a reader advises, and nobody here can do
    assert "allow_pickle" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--flip 0.6 --labels sign", "flip must be a number from 0 to below 0.5; got 0.6"),
        ("--flip -1 --labels sign", "flip must be a number from 0 to below 0.5; got -1"),
        ("--flip x --labels sign", "flip must be a number from 0 to below 0.5; got x"),
        (
            "--inputs two-level:4:0.5 --teacher-overlaps 1,2",
            "dimension must be 2, the number of components of the teacher; got inf",
        ),
        (
            "--inputs two-level:4:0.5 --teacher-overlaps 1,2,3",
            "dimension must be 3, the number of components of the teacher; got inf",
        ),
    ],
)
def test_what_is_allowed_is_said(
    capsys: pytest.CaptureFixture[str], words: str, message: str
) -> None:
    code, err = said(capsys, *COMMAND, *words.split())
    assert code == 2
    assert err.startswith(f"error: {message}")
    assert len(err.splitlines()) == 1


def test_a_teacher_that_says_nothing_is_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["predict", "--student", "tanh", "--teacher", "0", "--alpha", "2", "--beta", "1"]
    assert said(capsys, *words) == (0, "")


def test_sizes_that_do_not_exist_are_refused_in_arrays_too() -> None:
    with pytest.raises(InvalidParameter, match="alpha times dimension rounds to zero"):
        predict(PROBLEM.replace(dimension=100), alpha=np.array([1.0, 0.004]))
    small = PROBLEM.replace(dimension=100, alpha0=2.0)
    assert predict(small, alpha=np.array([1.0, 0.006])).shape == (2,)


def test_a_width_that_no_dimension_has() -> None:
    with pytest.raises(InvalidParameter, match="dimension must be beyond any size for beta = "):
        PROBLEM.replace(beta=1e-320).sizes(10)


def test_a_short_step_sample_costs_nothing() -> None:
    """alpha0 of 1e-8 took 97 s and 2 GB."""
    assert predict(PROBLEM, alpha0=1e-8).points[0].kappa.size < 2000


@pytest.mark.parametrize(
    "call",
    [
        lambda: predict("x"),
        lambda: predict(3),
        lambda: compare("x"),
        lambda: optimal("x"),
        lambda: firststep.simulate(None),
        lambda: predict(PROBLEM, ridge=[[1, 2], [3]]),
        lambda: predict(PROBLEM, alpha=np.ma.array([1.0, 2.0], mask=[0, 1])),
        lambda: predict(PROBLEM, alpha=np.array([True])),
        lambda: predict(PROBLEM, alpha=np.array(["2020-01-01"], dtype="M8[D]")),
        lambda: predict(PROBLEM, alpha=np.array([1 + 2j])),
        lambda: firststep.predict_features(np.ones((9, 5)) * 1j, PROBLEM, np.eye(9)[0]),
        lambda: firststep.simulate_features(np.ones((9, 5)) * 1j, PROBLEM, np.eye(9)[0]),
        lambda: firststep.simulate(PROBLEM, 9, inputs=np.ones((30, 9), bool)),
        lambda: diagnose_inputs(np.random.default_rng(0).normal(size=(500, 9)) * 1e150),
        lambda: diagnose_inputs(np.random.default_rng(0).normal(size=(500, 9)) * 1e-300),
    ],
)
def test_arguments_that_are_no_numbers(call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidParameter):
        call()


@pytest.mark.parametrize("targets", [["a"] * 50, np.array(["2020-01-01"] * 50, dtype="M8[D]")])
def test_targets_that_are_no_numbers(targets: object) -> None:
    pytest.importorskip("sklearn")
    rows = np.random.default_rng(0).normal(size=(50, 4))
    regressor = firststep.OneStepRegressor(width=10)
    with pytest.raises(InvalidParameter, match="y must be numbers"):
        regressor.fit(rows, targets)
    with pytest.raises(InvalidParameter, match="y must be numbers"):
        regressor.fit_stream(lambda: iter([(rows, targets)]))


@pytest.mark.parametrize("text", ["1e-9*z", "0.3*z", "7*z + 0.1", "0.1*z - 1e5"])
def test_linear_functions_have_moments_whatever_their_size(text: str) -> None:
    moments = activation(text).moments
    scale = moments.second_moment
    assert moments.nonlinear_variance <= 1e-20 * scale
    assert moments.linear**2 + moments.mean**2 == pytest.approx(scale, rel=1e-9)


@pytest.mark.parametrize(
    "make",
    [
        lambda: predict(PROBLEM),
        lambda: predict(PROBLEM, ridge=np.array([0.1, 1.0])),
        lambda: predict(PROBLEM, ridge=np.array([0.1, 1.0]))[1],
        lambda: optimal(PROBLEM, "ridge"),
        lambda: compare(PROBLEM, 30, 2),
    ],
)
def test_results_can_be_pickled(make: Callable[[], Any]) -> None:
    result = make()
    again = pickle.loads(pickle.dumps(result))
    assert str(again) == str(result)
    assert again.to_dict() == result.to_dict()


def test_what_nobody_foresaw_is_one_line_and_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("something\nunforeseen")

    monkeypatch.setattr(entry, "app", fails)
    code, err = said(capsys, "predict")
    assert code == entry.UNFORESEEN == 70
    assert err.startswith("error: an unforeseen ZeroDivisionError: something unforeseen")
    assert len(err.splitlines()) == 1
    report = Path(err.split("report it with ")[1].strip().rstrip(")"))
    assert "Traceback" in report.read_text()
    report.unlink()


# Fuzzing ------------------------------------------------------------------------------------------


def check_command_lines(count: int, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    for words in command_lines(count, seed):
        code = entry.run(words)
        err = capsys.readouterr().err
        assert code in (0, 1, 2), f"{words}: exit code {code}: {err}"
        assert "Traceback" not in err, words
        assert code == 0 or err.startswith("error: ") or "\nerror: " in err, f"{words}: {err}"


def check_public_calls(count: int, seed: int) -> None:
    for name, arguments in public_calls(count, seed):
        try:
            FUNCTIONS[name](**arguments)
        except FirststepError:
            continue
        except Exception as error:
            raise AssertionError(f"{name}({arguments}): {type(error).__name__}: {error}") from error


def test_some_command_lines(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_command_lines(150, 0, capsys)


def test_some_calls() -> None:
    check_public_calls(100, 0)


@pytest.mark.slow
def test_many_command_lines(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_command_lines(4000, 1, capsys)


@pytest.mark.slow
def test_many_calls() -> None:
    check_public_calls(2000, 1)


def test_a_name_of_several_lines_is_one_line() -> None:
    with pytest.raises(InvalidParameter) as caught:
        Problem(student="tanh", teacher="sin", alpha=1, beta=1, **{"a\nb": 1})
    assert str(caught.value).startswith("a b must be a field of Problem")
    assert "\n" not in str(caught.value)
