"""One door for a given first layer: the three verbs about it accept and refuse the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from firststep import (
    InvalidParameter,
    Problem,
    compare_features,
    predict_features,
    simulate_features,
)
from firststep.teacher_terms import teacher_terms

D, N = 20, 30
PROBLEM = Problem(student="tanh", teacher="sin", alpha=2.0, beta=1.5, ridge=0.1, noise=0.2)
RNG = np.random.default_rng(0)
WEIGHTS = RNG.standard_normal((D, N)) / math.sqrt(D)
THETA, OTHER = np.eye(D)[0], np.eye(D)[1]
SLANTED = np.stack([THETA, 0.6 * THETA + 0.8 * OTHER], axis=1)
PAIR = np.eye(D)[:, :2]
FACTOR = RNG.standard_normal((D, D)) / math.sqrt(D)
COVARIANCE = FACTOR @ FACTOR.T + 0.3 * np.eye(D)
NEARLY = COVARIANCE + 3e-9 * np.abs(COVARIANCE).max() * np.triu(np.ones((D, D)), 1)


def _predicted(weights: Any, problem: Any, teacher: Any, **options: Any) -> Any:
    return predict_features(weights, problem, teacher, directions=1, **options)


def _simulated(weights: Any, problem: Any, teacher: Any, **options: Any) -> Any:
    return simulate_features(weights, problem, teacher, replicates=1, test_samples=50, **options)


def _compared(weights: Any, problem: Any, teacher: Any, **options: Any) -> Any:
    return compare_features(
        weights, problem, teacher, directions=1, replicates=1, test_samples=50, **options
    )


VERBS = pytest.mark.parametrize("verb", [_predicted, _simulated, _compared])
GOOD: dict[str, dict[str, Any]] = {
    "plain": {},
    "lists": dict(weights=WEIGHTS.tolist(), teacher=THETA.tolist()),
    "single precision": dict(weights=WEIGHTS.astype("float32")),
    "neurons as rows": dict(weights=WEIGHTS.T, neurons="rows"),
    "teacher as a column": dict(teacher=THETA[:, None]),
    "norm within rounding": dict(teacher=(1 + 5e-5) * THETA),
    "dimension said": dict(problem=PROBLEM.replace(dimension=D)),
    "bias": dict(bias=np.linspace(-1, 1, N)),
    "covariance": dict(covariance=COVARIANCE),
    "covariance with rounding": dict(covariance=NEARLY),
    "singular covariance": dict(covariance=np.diag(np.arange(D) / D)),
    "no terms": dict(teacher_terms=""),
    "terms as none": dict(teacher_terms=None),
    "one term": dict(teacher_terms="maximum(z,0)", teacher=PAIR),
    "two terms in a text": dict(teacher_terms="relu, maximum(z, 0)", teacher=np.eye(D)[:, :3]),
    "a term as a function": dict(teacher_terms=[PROBLEM.student], teacher=PAIR),
    "terms one after the other": dict(teacher_terms=iter(["relu"]), teacher=PAIR),
    "directions not orthogonal": dict(teacher_terms="relu", teacher=SLANTED),
}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "vector": (dict(weights=WEIGHTS[0]), "weights must be a matrix of numbers"),
    "words": (dict(weights="W1"), "weights must be a matrix of numbers"),
    "numbers as words": (dict(weights=WEIGHTS.astype(str)), "weights must be a matrix of numbers"),
    "complex": (dict(weights=WEIGHTS + 1j), "weights must be a matrix of numbers"),
    "nan": (dict(weights=np.full((D, N), np.nan)), "with 600 that are not finite"),
    "width": (dict(weights=WEIGHTS[:, 1:]), "beta must be N/d = 29/20 for these weights; got 1.5"),
    "one input": (
        dict(weights=np.ones((1, 3)), teacher=[1.0], problem=PROBLEM.replace(beta=3)),
        "weights must be of at least 2 inputs",
    ),
    "rows for columns": (dict(weights=WEIGHTS.T), 'try neurons="rows"'),
    "neither": (dict(neurons="both"), "neurons must be one of columns, rows"),
    "dimension": (
        dict(problem=PROBLEM.replace(dimension=D + 1)),
        "dimension must be 20, as the weights have it, or inf; got 21",
    ),
    "problem": (dict(problem="tanh"), "problem must be a Problem"),
    "norm": (dict(teacher=(1 + 2e-4) * THETA), "teacher must be a direction of norm 1; got one of"),
    "length": (dict(teacher=THETA[1:]), "teacher must be of 20 numbers, one an input; got"),
    "too many directions": (dict(teacher=PAIR), "teacher must be a vector of numbers"),
    "too few directions": (dict(teacher_terms="relu"), "teacher must be a matrix of numbers"),
    "other count": (
        dict(teacher=PAIR, teacher_terms="relu,relu"),
        "teacher must be of 20 numbers, one an input, and 3 columns, one a term",
    ),
    "norm of a term": (dict(teacher=PAIR * [1, 2], teacher_terms="relu"), "one of norm 2"),
    "empty term": (dict(teacher=PAIR, teacher_terms="relu,"), "teacher-terms must be"),
    "unknown term": (dict(teacher=PAIR, teacher_terms="blah"), "teacher-terms must be"),
    "number for a term": (dict(teacher_terms=3), "teacher-terms must be activations, such as"),
    "terms without order": (dict(teacher=PAIR, teacher_terms={"relu"}), "teacher-terms must be"),
    "wild term": (
        dict(teacher=PAIR, teacher_terms="exp(z**2)"),
        "teacher-terms must be an activation that is square integrable",
    ),
    "bias": (dict(bias=np.zeros(3)), "bias must be 30 numbers, one for every neuron; got 3"),
    "bias as a column": (dict(bias=np.zeros((N, 1))), "bias must be a vector of numbers"),
    "covariance of another size": (dict(covariance=np.eye(3)), "must be a 20 x 20 matrix"),
    "covariance as a vector": (dict(covariance=np.ones(D)), "must be a 20 x 20 matrix"),
    "negative covariance": (dict(covariance=-np.eye(D)), "must be a positive semi-definite"),
    "no covariance": (dict(covariance=np.zeros((D, D))), "must be a positive semi-definite"),
    "not symmetric": (
        dict(covariance=COVARIANCE + 1e-6 * np.triu(np.ones((D, D)), 1)),
        "covariance must be a symmetric d x d matrix",
    ),
    "infinite": (dict(covariance=np.full((D, D), np.inf)), "got not finite"),
}


def _called(verb: Callable[..., Any], changes: dict[str, Any]) -> Any:
    given = {"weights": WEIGHTS, "problem": PROBLEM, "teacher": THETA, **changes}
    return verb(given.pop("weights"), given.pop("problem"), given.pop("teacher"), **given)


@VERBS
@pytest.mark.parametrize("case", [name for name in GOOD if name != "terms one after the other"])
def test_all_accept(verb: Callable[..., Any], case: str) -> None:
    _called(verb, GOOD[case])


@pytest.mark.parametrize("verb", [_predicted, _simulated])
def test_terms_may_come_one_after_the_other(verb: Callable[..., Any]) -> None:
    _called(verb, dict(teacher_terms=iter(["relu"]), teacher=PAIR))


@VERBS
@pytest.mark.parametrize("case", BAD)
def test_all_refuse_with_the_same_words(verb: Callable[..., Any], case: str) -> None:
    changes, words = BAD[case]
    with pytest.raises(InvalidParameter) as caught:
        _called(verb, changes)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_theory_and_simulation_agree_where_directions_are_not_orthogonal() -> None:
    """The same direction twice is one term with the sum; slanted ones agree with the theory."""
    twice = np.stack([THETA, THETA], axis=1)
    one = simulate_features(WEIGHTS, PROBLEM, twice, teacher_terms="tanh(z)", replicates=2)
    both = PROBLEM.replace(teacher="sin(z) + tanh(z)")
    other = simulate_features(WEIGHTS, both, THETA, replicates=2)
    assert one.risk.values == pytest.approx(other.risk.values, rel=1e-9)
    assert math.isnan(one.kernel_lower_bound)
    assert math.isfinite(other.kernel_lower_bound)
    orthogonal = simulate_features(WEIGHTS, PROBLEM, PAIR, teacher_terms="relu", replicates=1)
    assert math.isfinite(orthogonal.kernel_lower_bound)
    rng = np.random.default_rng(1)
    wide = np.zeros((100, 2))
    wide[:D] = SLANTED
    weights = rng.standard_normal((100, 150)) / 10
    found = compare_features(
        weights, PROBLEM, wide, teacher_terms="relu", directions=1, replicates=40
    )
    assert found.largest_z < 4.5
    assert abs(found["risk"].relative) < 0.06


def test_rows_and_columns_are_one_layer() -> None:
    options = dict(replicates=2, test_samples=50)
    columns = simulate_features(WEIGHTS, PROBLEM, THETA, **options)
    rows = simulate_features(WEIGHTS.T, PROBLEM, THETA, neurons="rows", **options)
    assert np.array_equal(columns.risk.values, rows.risk.values)


def test_one_reader_of_terms() -> None:
    assert [str(each) for each in teacher_terms("relu, maximum(z, 0)")] == ["relu", "maximum(z, 0)"]
    assert teacher_terms(None) == teacher_terms(" ") == teacher_terms([]) == ()
