"""What a prediction says in words is true: every number and every piece of advice is checked."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from firststep import Problem, predict
from firststep.theory.one_step.in_words import CHANGES, PARTS

BASE: dict[str, Any] = dict(
    student="tanh", teacher="sin", alpha=2.0, beta=1.0, alpha0=8.0, step=2.0, ridge=0.03, noise=0.1
)
STATES: dict[str, dict[str, Any]] = {
    "helps": {"readout": "ones"},
    "below the bound": {"readout": "ones", "alpha": 8.0, "alpha0": 20.0, "step": 3.0, "noise": 0.0},
    "next to nothing": {"readout": "ones", "step": 1e-4},
    "harm": {"student": "relu", "teacher": "hermite2", "readout": "signs", "alpha0": 2.0},
    "too long": {"readout": "ones", "step": 40.0},
    "no step": {"readout": "ones", "step": 0.0},
    "no samples in the step": {"readout": "ones", "alpha0": 0.0},
    "nothing to learn with": {"readout": "0:1"},
    "peak": {"readout": "ones", "alpha": 1.0, "ridge": 1e-5, "noise": 0.3},
    "linear teacher": {"readout": "ones", "teacher": "z"},
    "a small network": {"readout": "signs", "dimension": 60, "student": "relu"},
    "a spectrum": {"readout": "ones", "inputs": "power-law:0.3", "dimension": 400},
    "two directions": {"readout": "ones", "teacher_terms": "relu"},
    "huber": {"readout": "ones", "loss": "huber:1"},
    "signs": {"readout": "ones", "teacher": "z", "labels": "sign", "loss": "logistic", "noise": 0},
    "flips": {"readout": "ones", "teacher": "z", "labels": "sign", "flip": 0.1, "noise": 0},
}


def share(text: str) -> float:
    """Of "41 %" or "−2.7 %"."""
    return float(text.replace("−", "-").replace("+", "").split(" ")[0]) / 100


@pytest.mark.parametrize("name", STATES)
def test_every_sentence_is_true(name: str) -> None:
    problem = Problem(**{**BASE, **STATES[name]})
    found = predict(problem)
    words = found.in_words()
    measure = "error_rate" if problem.labels.is_binary else "risk"
    number = float(getattr(found, measure))
    still = float(getattr(predict(problem.replace(step=0.0)), measure))
    check_the_step(words, problem, number, still)
    if problem.labels.is_binary:
        best = re.search(r"less often than ([0-9.]+)", words)
        assert best is not None
        assert float(best[1].rstrip(".")) == pytest.approx(found.bayes_error_rate, rel=1e-2)
    else:
        check_the_bound(words, problem, number, found.kernel_lower_bound)
    check_what_is_left(words, found)
    check_what_helps(words, problem, measure, number)
    assert ("may be" in words or "infinite size" in words) == bool(found.is_flagged)


def check_the_step(words: str, problem: Problem, number: float, still: float) -> None:
    change = number / still - 1
    if not problem.moves_weights:
        assert words.startswith("Without a step")
        assert f"{number:.3g}" in words
    elif abs(change) < 0.005:
        assert "next to nothing" in words
    else:
        told = re.search(
            r"(cuts|raises) the [a-z ]+ from ([0-9.]+) to ([0-9.]+) \(([^)]*)\)", words
        )
        assert told is not None
        assert (told[1] == "raises") == (change > 0)
        assert float(told[2]) == pytest.approx(still, rel=5e-3)
        assert float(told[3]) == pytest.approx(number, rel=5e-3)
        if "times" not in told[4]:
            assert share(told[4]) == pytest.approx(change, rel=0.06)


def check_the_bound(words: str, problem: Problem, number: float, bound: float) -> None:
    told = re.search(r"That is ([0-9.e+]+)( %| times)( above| below)? the lower bound", words)
    if told is None:
        assert bound < 1e-9 or str(problem.loss) != "square"
        return
    value = float(told[1]) / (100 if told[2] == " %" else 1)
    if told[3] == " below":
        assert 1 - number / bound == pytest.approx(value, rel=0.06)
        return
    assert number / bound - (told[2] == " %") == pytest.approx(value, rel=0.06)
    place = re.search(r"more than about ([0-9.e+]+) d samples", words)
    kept = problem.replace(alpha0=problem.alpha0)
    if place is None:
        assert "do not get below" in words
        assert predict(kept.replace(alpha=max(1000.0, 100 * problem.alpha))).risk >= bound
        return
    alpha = float(place[1])
    assert predict(kept.replace(alpha=1.15 * alpha)).risk < bound
    assert predict(kept.replace(alpha=0.85 * alpha)).risk > bound


def check_what_is_left(words: str, found: Any) -> None:
    told = re.search(r"(Most|The largest part) of what is left \(([0-9.]+ %)\) is ([^.]+)\.", words)
    if told is None:
        assert found.problem.loss.is_margin
        return
    split = found.error_split
    shares = {name: getattr(split, name) / split.risk for name in PARTS}
    name = max(shares, key=lambda each: shares[each])
    assert told[3] == PARTS[name]
    assert share(told[2]) == pytest.approx(shares[name], rel=0.06)
    assert (told[1] == "Most") == (shares[name] > 0.5)


def check_what_helps(words: str, problem: Problem, measure: str, number: float) -> None:
    """Each field moved alone, in a prediction of its own."""
    kept = problem.replace(alpha0=problem.alpha0)
    found = {}
    for field, factor, told in CHANGES:
        before = getattr(kept, field)
        if before == 0 or (field in ("step", "alpha0") and not problem.moves_weights):
            continue
        after = predict(kept.replace(**{field: before * factor}))
        found[told] = float(getattr(after, measure)) / number - 1
    best = min(found.values())
    if best > -0.005:
        assert "No small change" in words
        return
    first = re.search(r"([A-Z][a-z ]+?) would lower it by ([0-9.]+ %)", words)
    assert first is not None
    told = first[1][0].lower() + first[1][1:]
    assert found[told] == pytest.approx(best, rel=1e-6)
    assert share(first[2]) == pytest.approx(-best, rel=0.06)


def test_many_points_have_no_sentences() -> None:
    found = predict(Problem(**{**BASE, "readout": "ones"}), alpha=np.array([1.0, 2.0]))
    with pytest.raises(AttributeError, match="single points"):
        found.in_words()
    assert "cuts the risk" in found[1].in_words()


def test_a_limit_is_said_to_be_one() -> None:
    problem = Problem(**{**BASE, "readout": "ones", "step_exponent": 0.2})
    assert problem.dimension == math.inf
    found = predict(problem)
    assert found.is_flagged
    assert "numbers of infinite size: networks of d = 1000 are above" in found.in_words()
