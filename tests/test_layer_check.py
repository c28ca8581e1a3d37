"""``check_layers`` and ``predict(..., check=...)``: the average theory against layers drawn."""

from __future__ import annotations

import json
import math
import pickle
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import firststep.layer_check
from firststep import (
    InvalidParameter,
    LayerCheck,
    NotConverged,
    NotEnoughMemory,
    Problem,
    check_layers,
    first_layer,
    predict,
    predict_features,
    simulate,
)
from firststep.cli import run
from firststep.compare import at_size
from firststep.layer_check import AGREES, DIFFERS, UNDECIDED, UNRELIABLE
from firststep.results import Interrupted
from firststep.theory.given_layer.missing import common_mode, heaviness
from firststep.theory.one_step.predict import predict as theory
from tests.backends import needs_jax

PROBLEM = Problem(
    student="relu",
    teacher="tanh",
    alpha=2,
    beta=1.2,
    alpha0=2,
    step=1,
    ridge=0.1,
    noise=0.1,
    dimension=40,
)
COMMAND = ["predict", "--student", "relu", "--teacher", "tanh", "--alpha", "2", "--beta", "1"]


@pytest.fixture(scope="module")
def found() -> LayerCheck:
    return check_layers(PROBLEM, 4, seed=7)


def made(found: LayerCheck, *risks: float, **changes: Any) -> LayerCheck:
    """A check with these risks, against a theory of 1."""
    return replace(found, **{"theory": 1.0, "risks": np.array(risks), **changes})


def by_hand(problem: Problem, seed: int, number: int) -> float:
    layer = first_layer(problem, 40, seed, number)
    return float(
        predict_features(layer.after, problem, layer.teacher, initial=layer.before).risk  # type: ignore[arg-type]
    )


def test_the_layers_are_those_of_first_layer_to_the_bit(found: LayerCheck) -> None:
    risks = [by_hand(PROBLEM, 7, number) for number in range(4)]
    assert found.risks.tolist() == risks
    assert found.mean == np.sum(risks) / 4
    assert found.spread == pytest.approx(np.std(risks, ddof=1), rel=1e-12)
    assert found.standard_error == pytest.approx(np.std(risks, ddof=1) / 2, rel=1e-12)
    assert found.theory == theory(at_size(PROBLEM, None, "network")).risk
    assert found.z == pytest.approx((found.theory - found.mean) / found.standard_error)
    assert found.relative == pytest.approx(found.theory / found.mean - 1)


def test_more_layers_begin_with_the_same_and_other_seeds_do_not(found: LayerCheck) -> None:
    assert check_layers(PROBLEM, 2, seed=7).risks.tolist() == found.risks[:2].tolist()
    assert not set(check_layers(PROBLEM, 2, seed=8).risks) & set(found.risks)


def test_each_layer_is_near_its_own_network() -> None:
    """Layer i is that of replicate i: the difference has none of the spread between networks."""
    problem = PROBLEM.replace(dimension=60, ridge=0.3)
    check = check_layers(problem, 8)
    networks = simulate(problem, None, 8, 0, workers=1).risk.values
    assert np.corrcoef(check.risks, networks)[0, 1] > 0.6
    assert abs(np.mean(check.risks / networks - 1)) < 0.06


def test_predict_has_the_check_and_the_same_numbers(found: LayerCheck) -> None:
    plain = predict(PROBLEM)
    with_check = predict(PROBLEM.replace(dimension=math.inf), dimension=40, check=4, seed=7)
    assert plain.check is None
    assert with_check.risk == plain.risk
    assert with_check.check.risks.tolist() == found.risks.tolist()
    assert with_check.check.verdict == found.verdict
    assert "check" not in plain.to_dict()
    alike = {**plain.to_dict(), "seconds": 0.0, "check": None}
    assert {**with_check.to_dict(), "seconds": 0.0, "check": None} == alike
    assert with_check.to_dict()["check"]["verdict"] == found.verdict
    assert str(plain).splitlines()[1:] == [
        line for line in str(with_check).splitlines()[1:] if "layers" not in line
    ]
    assert str(with_check).splitlines()[-1].strip() == found.verdict
    assert "4 layers drawn at d = 40" in with_check._repr_html_()


def test_a_field_that_is_given_counts_for_the_layers() -> None:
    one = predict(PROBLEM, alpha=3, check=1).check
    assert one.sizes.samples == 120
    assert one.risks.tolist() == check_layers(PROBLEM.replace(alpha=3), 1).risks.tolist()


def test_the_theory_is_at_the_whole_numbers_of_the_layers() -> None:
    rounded = predict(PROBLEM.replace(alpha0=0.03), check=1)  # n0 = 1.2, of which one is drawn
    assert rounded.check.sizes.step_samples == 1
    assert rounded.check.theory == theory(PROBLEM.replace(alpha0=1 / 40)).risk != rounded.risk


def test_a_theory_that_is_far_off_is_called_so() -> None:
    """Of the interpolation peak at finite d the theory has too little."""
    peak = PROBLEM.replace(student="tanh", readout="signs", alpha=1, beta=1, ridge=1e-6)
    check = check_layers(peak, 6)
    assert check.outcome == DIFFERS
    assert check.relative < -0.2
    assert "% below 6 layers drawn at d = 40: " in check.verdict
    assert check.verdict.endswith("do not trust it here; simulate")


@pytest.mark.parametrize(
    ("risks", "outcome", "words"),
    [
        ((0.99, 1.0, 1.01, 1.0), AGREES, "within 0 % of 4 layers drawn at d = 40: 1.0000 ± 0.0041"),
        ((0.97, 0.98, 0.97, 0.98), AGREES, "within 2.6 % of 4 layers"),
        (
            (0.79, 0.8, 0.81, 0.8),
            DIFFERS,
            "is 25 % above 4 layers drawn at d = 40: 0.8000 ± 0.0041",
        ),
        ((1.24, 1.25, 1.26, 1.25), DIFFERS, "is 20 % below 4 layers"),
        ((0.5, 1.5), UNDECIDED, "undecided by 2 layers drawn at d = 40: 1.00 ± 0.50 against 1"),
        ((0.9, 1.0, 1.1, 1.0), UNDECIDED, "ask for about 11 layers"),
        ((0.6, 0.9), UNDECIDED, "(+33 %, +1.7 s.e.)"),
        ((0.1, 2.9), UNDECIDED, ": simulate"),
        ((0.99,), UNDECIDED, "1 layer drawn at d = 40: 0.99 against 1 (+1 %): one layer has no"),
        ((0.8, 0.8), DIFFERS, "is 25 % above"),
        ((math.nan, math.nan), UNDECIDED, "2 layers drawn at d = 40 could not be solved"),
    ],
)
def test_verdicts(found: LayerCheck, risks: tuple[float, ...], outcome: str, words: str) -> None:
    check = made(found, *risks)
    assert check.outcome == outcome
    assert words in check.verdict
    assert len(check.verdict.splitlines()) == 1
    assert json.loads(json.dumps(check.to_dict(), allow_nan=False))["outcome"] == outcome
    assert check.verdict in str(check)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(student="hermite3"), "tails too heavy for N = 48"),
        (dict(student="relu(z-0.5)", teacher="1+0*z"), "lack the common mode of |x|^2"),
        (dict(student="tanh"), ""),
        (dict(teacher="abs"), ""),
        (dict(student="tanh", teacher="1+0*z"), ""),
    ],
)
def test_what_the_layers_cannot_judge(
    found: LayerCheck, changes: dict[str, str], words: str
) -> None:
    check = made(found, 0.5, 0.5, 0.5, problem=PROBLEM.replace(**changes))
    assert (check.outcome == UNRELIABLE) == bool(words)
    assert words in check.verdict


def test_the_numbers_behind_it() -> None:
    assert heaviness(Problem.asked(PROBLEM).student) == pytest.approx(6, rel=1e-4)  # 3/2 / (1/2)^2
    cubic = PROBLEM.replace(student="hermite3").student
    assert heaviness(cubic) == pytest.approx(93, rel=1e-4)
    assert heaviness(PROBLEM.replace(student="exp(z**2/7)").student) > 1e3  # not integrable
    assert heaviness(PROBLEM.replace(student="exp(7*z)").student) > 1e6
    constant = PROBLEM.replace(teacher="2+0*z")
    assert common_mode(constant, 50) == pytest.approx(4 / 100)  # c2 = c0 for relu
    assert common_mode(constant.replace(student="tanh"), 50) == 0  # c2 = 0
    assert common_mode(PROBLEM, 50) == 0  # E s* = 0
    flat = constant.replace(student="tanh(z)+0.3*(z**2-1)")  # c0 = 0
    assert common_mode(flat, 50) == pytest.approx(4 * 12 / 100)


CLASSES = dict(labels="sign", teacher="z", threshold=0.4, flip=0.05, noise=0.0)


@pytest.mark.parametrize(
    ("changes", "quantity"),
    [
        (dict(loss="logistic", **CLASSES), "error_rate"),
        (dict(loss="square", **CLASSES), "error_rate"),
        (dict(loss="huber:0.5", noise=0.5, noise_law="t:3"), "test_loss"),
        (dict(noise=0.5, noise_law="mixture:0.5@0.8,2@0.2"), "risk"),
    ],
)
def test_other_losses_are_judged_by_their_own_number(
    changes: dict[str, Any], quantity: str
) -> None:
    problem = PROBLEM.replace(**changes)
    check = check_layers(problem, 2, seed=3)
    layer = first_layer(problem, 40, 3, 1)
    alone = predict_features(layer.after, problem, layer.teacher, initial=layer.before)  # type: ignore[arg-type]
    assert check.quantity == quantity
    assert check.risks[1] == getattr(alone, quantity)
    assert check.theory == getattr(theory(at_size(problem, None, "network")), quantity)
    assert abs(check.relative) < 0.15
    assert list(check.to_dict()).count(quantity) == 1
    words = quantity.replace("_", " ")
    assert (f"{words}: average theory" in str(check)) == (quantity != "risk")
    assert (f"d = 40: {words} " in check.verdict) == (quantity != "risk")


def test_the_common_mode_of_a_classifier() -> None:
    """E y of threshold 0.4 and flips; a free constant leaves none."""
    problem = PROBLEM.replace(loss="logistic", **CLASSES)
    mean = 0.9 * (1 - 2 * 0.6554217416103242)
    assert common_mode(problem, 50) == pytest.approx(mean**2 / 100, rel=1e-6)
    assert common_mode(problem.replace(intercept=True), 50) == 0
    check = replace(check_layers(problem, 1), theory_risk=1e-3)
    assert check.outcome == UNRELIABLE


def test_layers_that_cannot_be_solved_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = firststep.layer_check.layer_number

    def failing(problem: Problem, seed: int, number: int) -> float:
        if number == 1:
            raise NotConverged("no\nsolution")
        return plain(problem, seed, number)

    monkeypatch.setattr(firststep.layer_check, "layer_number", failing)
    check = check_layers(PROBLEM, 3)
    assert check.failures == {1: "no solution"}
    assert np.isnan(check.risks).tolist() == [False, True, False]
    assert check.solved == 2
    assert check.mean == np.nanmean(check.risks)
    assert "1 of 3 layers could not be solved" in check.verdict
    assert "  layer 1: no solution" in str(check)
    table = json.loads(json.dumps(check.to_dict(), allow_nan=False))
    assert table["failures"] == {"1": "no solution"}
    assert table["risk"]["values"][1] is None


def test_json_and_pickle(found: LayerCheck) -> None:
    table = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    names = (
        "problem bulk dimension samples width step_samples layers seed risk spread theory "
        "difference relative z outcome verdict failures seconds versions interrupted"
    )
    assert " ".join(table) == names
    assert (table["dimension"], table["width"], table["seed"], table["layers"]) == (40, 48, 7, 4)
    assert table["versions"]["firststep"]
    assert Problem(**table["problem"]) == at_size(PROBLEM, None, "network")
    again = pickle.loads(pickle.dumps(predict(PROBLEM, check=1)))
    assert again.check.verdict == check_layers(PROBLEM, 1).verdict
    assert pickle.loads(pickle.dumps(found)).to_dict() == found.to_dict()
    assert str(found) in repr(found)
    assert "<table>" in found._repr_html_()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (dict(check=0), "check must be a whole number >= 1 and <= 100; got 0"),
        (dict(check=1.5), "check must be a whole number >= 1 and <= 100; got 1.5"),
        (dict(check=101), "check must be a whole number >= 1 and <= 100; got 101"),
        (dict(check=True), "check must be a whole number"),
        (dict(check=[1, 2]), "check must be a whole number"),
        (dict(check=2, alpha=[1, 2]), "check must be asked of a single point; got 2 points"),
        (dict(check=2, ridge=(0.1,)), "check must be asked of a single point; got 1 points"),
        (dict(check=2, dimension="inf"), "dimension must be a whole number >= 2 for a check"),
        (dict(check=2, bulk="both"), "bulk must be one of exact, isotropic"),
        (dict(check=2, reuse=True), "reuse must be left out of predict"),
        (dict(check=2, seed=-1), "seed must be a whole number >= 0"),
        (dict(seed=3), "seed must be given together with check; got 3"),
        (dict(dimension=3.7), "dimension must be a whole number >= 2"),
        (dict(dimension=math.nan), "dimension must be a whole number >= 2"),
        (dict(dimension=[40]), "dimension must be a single number; got [40]"),
        (dict(dimension=np.array([40, 80])), "dimension must be a single number"),
        (dict(dimension=[[1], [1, 2]]), "dimension must be a single number"),
        (dict(dimension=None, alpha="x"), "alpha must be"),
    ],
)
def test_mistakes_are_one_line(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParameter, match=r"^[^\n]*$") as error:
        predict(PROBLEM, **given)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (dict(layers=0), "layers must be a whole number >= 1"),
        (
            dict(problem=PROBLEM.replace(ridge=(0.1, 1))),
            "ridge must be a single number for a check",
        ),
        (dict(problem=PROBLEM.replace(dimension="inf")), "dimension must be a whole number >= 2"),
        (dict(problem=3), "problem must be a Problem"),
    ],
)
def test_mistakes_of_check_layers(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        check_layers(**{"problem": PROBLEM, **given})


@needs_jax
def test_arrays_of_jax_have_no_check_but_a_dimension() -> None:
    import jax.numpy as jnp

    with pytest.raises(InvalidParameter, match="check must be asked of plain numbers"):
        predict(PROBLEM, ridge=jnp.array(0.1), check=1)
    assert predict(PROBLEM, dimension=jnp.array(60)).problem.dimension == 60


def test_a_dimension_replaces_that_of_the_problem() -> None:
    large = predict(PROBLEM, dimension=2000, ridge=[0.1, 1.0])
    assert large.problem.dimension == 2000
    assert large.risk[0] == pytest.approx(predict(PROBLEM.replace(dimension=2000)).risk, rel=1e-9)
    assert predict(PROBLEM, dimension="inf").problem.dimension == math.inf


def test_what_does_not_fit_is_refused_before_any_work() -> None:
    begin = time.perf_counter()
    with pytest.raises(NotEnoughMemory, match="dimension must be smaller with these ratios"):
        predict(PROBLEM, dimension=10**6, check=1)
    assert time.perf_counter() - begin < 1


def test_ctrl_c_leaves_what_is_finished() -> None:
    def stop(finished: int, asked: int) -> None:
        assert asked == 5
        if finished == 2:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="interrupted: 2 of 5 layers finished") as stopped:
        predict(PROBLEM, check=5, progress=stop)
    left = stopped.value.result
    assert left is not None
    assert left.check.interrupted
    assert left.check.risks.tolist() == check_layers(PROBLEM, 2).risks.tolist()
    assert "interrupted: 2 of 5 layers are finished" in str(left)


def test_ctrl_c_on_the_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is finished is printed; without a layer the prediction alone."""
    plain = firststep.layer_check.layer_number
    for finished in (0, 1):

        def stopped(problem: Problem, seed: int, number: int, last: int = finished) -> float:
            if number == last:
                raise KeyboardInterrupt
            return plain(problem, seed, number)

        monkeypatch.setattr(firststep.layer_check, "layer_number", stopped)
        assert run([*COMMAND, "--dimension", "40", "--check", "3", "--json"]) == 130
        shown = capsys.readouterr()
        assert shown.err == f"interrupted: {finished} of 3 layers finished\n"
        table = json.loads(shown.out)
        assert table["risk"] > 0
        assert ("check" in table) == bool(finished)


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*COMMAND, "--dimension", "40", "--check", "3", "--seed", "7"]
    assert run([*words, "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    table = json.loads(shown.out)
    asked = Problem(student="relu", teacher="tanh", alpha=2, beta=1, dimension=40)
    assert table["check"]["risk"]["values"] == check_layers(asked, 3, seed=7).risks.tolist()
    assert run(words) == 0
    assert capsys.readouterr().out.splitlines()[-1].strip() == table["check"]["verdict"]


@pytest.mark.parametrize(
    "words",
    [
        "--check 0 --dimension 40",
        "--check 1.5 --dimension 40",
        "--check x --dimension 40",
        "--check 3",
        "--check 3 --dimension 3.7",
        "--check 3 --dimension nan",
        "--check 3 --dimension 40 --ridge 0.1,1",
        "--check 3 --dimension 40 --seed -1",
        "--check 3 --dimension 1000000",
        "--seed 1",
    ],
)
def test_mistakes_on_the_command_line(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COMMAND, *words.split()]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
