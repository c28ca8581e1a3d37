"""Spectra of the inputs and where the teacher lies in them: properties, limits, and the theory's
view of a problem.
"""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firststep import InvalidParameter, Problem, SpectrumInputs, input_law
from firststep.inputs import DataInputs, StructuredInputs, teacher_overlaps
from firststep.structure import LARGEST, structure_of, teacher_components

GOOD = dict(student="tanh", teacher="sin", alpha=3, beta=1)
LAWS = ("power-law:0.3", "power-law:2", "two-level:4:0.2", "two-level:0.1:0.35", "two-level:1:0.5")
OVERLAPS = ("equal", "random", "top:0.1", "bottom:0.3", "decay:0.7", "decay:2", "rise:1.3")


def make(**changes: object) -> Problem:
    return Problem(**{**GOOD, **changes})


# Spectra ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", LAWS)
@pytest.mark.parametrize("d", [7, 400])
def test_eigenvalues_are_sorted_and_of_mean_one(text: str, d: int) -> None:
    law = input_law(text)
    assert isinstance(law, StructuredInputs)
    values = law.eigenvalues(d)
    assert values.shape == (d,)
    assert values.mean() == pytest.approx(1, rel=1e-12)
    assert np.all(np.diff(values) <= 0)
    assert np.all(values > 0)
    assert not law.has_unit_covariance
    assert input_law(str(law)) == law
    assert pickle.loads(pickle.dumps(law)) == law


def test_a_power_law_is_one() -> None:
    values = input_law("power-law:0.45").eigenvalues(300)  # type: ignore[attr-defined]
    j = np.arange(1, 301)
    assert np.polyfit(np.log(j), np.log(values), 1)[0] == pytest.approx(-0.45, rel=1e-10)


@given(st.floats(0.01, 100), st.floats(0.02, 0.98), st.integers(60, 500))
def test_two_levels_are_two(ratio: float, share: float, d: int) -> None:
    law = input_law(f"two-level:{ratio!r}:{share!r}")
    assert isinstance(law, StructuredInputs)
    assert input_law(str(law)) == law
    values, count = law.eigenvalues(d), math.floor(share * d + 0.5)
    one = d / (count * ratio + d - count)
    assert np.sum(np.isclose(values, one * ratio)) == (count if abs(ratio - 1) > 1e-6 else d)
    limit = law.limit()
    assert limit is not None
    levels, masses = limit
    assert masses.sum() == pytest.approx(1)
    assert levels @ masses == pytest.approx(1)
    assert np.all(np.diff(levels) <= 0)
    top = masses[0]
    assert top == pytest.approx(share if ratio > 1 else 1 - share)


def test_a_spectrum_of_an_array() -> None:
    law = SpectrumInputs.of([1.0, 4.0, 0.0, 3.0])
    assert law.eigenvalues(4) == pytest.approx([2, 1.5, 0.5, 0])
    assert law.components is None
    assert law.dimension == 4
    assert law == SpectrumInputs.of(np.array([8, 2, 6, 0]))
    assert "4 eigenvalues" in repr(law)
    both = SpectrumInputs.of([[1.0, 5.0], [4.0, -10.0]])
    assert both.eigenvalues(2) == pytest.approx([1.6, 0.4])
    assert both.components == pytest.approx([-1, 0.5])
    assert pickle.loads(pickle.dumps(both)) == both
    huge = SpectrumInputs.of([1e308, 1e308, 0.5e308])
    assert huge.eigenvalues(3) == pytest.approx([1.2, 1.2, 0.6])
    values, masses = law.limit()
    assert values @ masses == pytest.approx(1)


BAD = {
    "negative": ([1.0, -0.1], "not negative, and not all zero; got -0.1"),
    "infinite": ([1.0, math.inf], "finite eigenvalues .* got inf"),
    "not a number": ([1.0, math.nan], "finite eigenvalues .* got nan"),
    "zeros": ([0.0, 0.0], "got zeros"),
    "one": ([1.0], "at least two eigenvalues"),
    "a table": (np.ones((4, 3)), "in one column, or in two"),
    "words": (np.array(["a", "b"]), "entries of type"),
    "complex": (np.array([1 + 1j, 2]), "entries of type complex"),
    "component": ([[1.0, math.nan], [2.0, 1.0]], "finite components of the teacher"),
    "no component": ([[1.0, 0.0], [2.0, 0.0]], "sees no input"),
    "component on nothing": ([[1.0, 0.0], [0.0, 1.0]], "sees no input"),
}


@pytest.mark.parametrize("case", BAD)
def test_spectra_that_are_none(case: str, tmp_path: Path) -> None:
    source, words = BAD[case]
    with pytest.raises(InvalidParameter, match=words) as caught:
        SpectrumInputs.of(source)
    assert "\n" not in str(caught.value)
    assert caught.value.faults[0].parameter == "inputs"
    np.save(tmp_path / "a.npy", np.asarray(source))
    with pytest.raises(InvalidParameter, match=words):
        input_law(f"spectrum:{tmp_path / 'a.npy'}")


def test_files_of_spectra(tmp_path: Path) -> None:
    values = np.random.default_rng(0).exponential(size=30)
    np.save(tmp_path / "a.npy", values)
    np.savetxt(tmp_path / "a.csv", values, header="eigenvalue", comments="")
    law, other = (input_law(f"spectrum:{tmp_path / name}") for name in ("a.npy", "a.csv"))
    assert isinstance(law, SpectrumInputs)
    assert isinstance(other, SpectrumInputs)
    assert law.sha256 == other.sha256
    assert law.eigenvalues(30) == pytest.approx(np.sort(values)[::-1] / values.mean())
    assert input_law(str(law)) == law
    assert set(law.describe()) == {"name", "eigenvalues", "sha256"}
    np.save(tmp_path / "a.npy", values + 1)
    with pytest.raises(InvalidParameter, match="no longer the one this was written for"):
        input_law(str(law))
    for text, words in [
        ("spectrum:", "spectrum:FILE"),
        ("spectrum", "spectrum:FILE"),
        ("spectrum:none.npy", "a readable file"),
        (f"spectrum:{tmp_path}", "a file of type"),
        (f"spectrum:{tmp_path / 'a.npy'},sha256=x", "no longer the one"),
        ("two-level:4", "two-level:RATIO:SHARE, RATIO > 0"),
        ("two-level:4:1", "SHARE inside"),
        ("two-level:4:0", "SHARE inside"),
        ("two-level:-1:0.5", "RATIO > 0"),
        ("two-level:nan:0.5", "RATIO > 0"),
        ("two-level:4:0.2:1", "RATIO > 0"),
    ]:
        with pytest.raises(InvalidParameter, match=words) as caught:
            input_law(text)
        assert "\n" not in str(caught.value)
    with pytest.raises(InvalidParameter, match="dimension must be 30, the number of eigenvalues"):
        law.eigenvalues(31)
    with pytest.raises(InvalidParameter, match=r"dimension must be at least 50 .* got 20"):
        input_law("two-level:4:0.01").refuse_dimension(20)
    input_law("two-level:4:0.01").refuse_dimension(50)


# The teacher --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", OVERLAPS)
def test_components_have_texts(text: str) -> None:
    made = teacher_overlaps(text)
    assert str(made) == text
    assert teacher_overlaps(str(made)) == made == teacher_overlaps(made)
    assert hash(teacher_overlaps(text)) == hash(made)
    assert pickle.loads(pickle.dumps(made)) == made
    assert made.needs_spectrum == (text not in ("equal", "random"))
    assert made.is_random == (text == "random")


@given(st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=20).filter(any))
def test_components_in_numbers_keep_every_digit(values: list[float]) -> None:
    made = teacher_overlaps(values)
    assert teacher_overlaps(str(made)) == made
    assert made.components(len(values)) == pytest.approx(np.array(values) / np.abs(values).max())


def test_components_by_their_definitions() -> None:
    j = np.arange(1, 31)
    found = {text: teacher_overlaps(text).components(30) for text in OVERLAPS}
    assert np.array_equal(found["equal"], np.ones(30))
    assert found["top:0.1"].tolist() == [1.0] * 3 + [0.0] * 27
    assert found["bottom:0.3"].tolist() == [0.0] * 21 + [1.0] * 9
    assert found["decay:0.7"] == pytest.approx(j**-0.35)
    assert found["rise:1.3"] == pytest.approx(j**0.65)
    assert teacher_overlaps("top:0.001").components(30).sum() == 1


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("equals", "did you mean equal"),
        ("top", "SHARE inside"),
        ("top:0", "SHARE inside"),
        ("top:1", "SHARE inside"),
        ("bottom:nan", "SHARE inside"),
        ("decay:0", "B > 0"),
        ("decay:11", "<= 10"),
        ("rise:x", "B > 0"),
        ("equal:1", "teacher-overlaps must be equal, random"),
        ("0.5", "components separated by commas"),
        ("1,x", "components separated by commas"),
        ("1,,2", "components separated by commas"),
        ("0,0", "one is not zero; got 0"),
        ("1,nan", "finite"),
        ("1,inf", "finite"),
        ([1.0], "an array of shape"),
        (np.ones((3, 2)), "an array of shape"),
        ([None, 1], "entries of type list"),
        (["a", "b"], "entries of type list"),
        ([True, False], "entries of type"),
        (3, "teacher-overlaps must be"),
        (None, "teacher-overlaps must be"),
        ({1: 2}, "teacher-overlaps must be"),
    ],
    ids=str,
)
def test_components_that_are_none(source: object, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words) as caught:
        teacher_overlaps(source)
    assert "\n" not in str(caught.value)
    assert caught.value.faults[0].parameter == "teacher-overlaps"


# What the theory sees -----------------------------------------------------------------------------


@pytest.mark.parametrize("inputs", LAWS)
@pytest.mark.parametrize("overlaps", OVERLAPS)
def test_the_teacher_has_variance_one(inputs: str, overlaps: str) -> None:
    problem = make(inputs=inputs, teacher_overlaps=overlaps, dimension=150)
    found = structure_of(problem)
    assert found is not None
    law = problem.inputs
    assert isinstance(law, StructuredInputs)
    theta = teacher_components(problem.teacher_overlaps, law.eigenvalues(150))
    assert theta @ (law.eigenvalues(150) * theta) == pytest.approx(1, rel=1e-12)
    assert found.shares == pytest.approx(law.eigenvalues(150) * theta**2)
    assert found.shares.sum() == pytest.approx(1, rel=1e-12)
    assert found.masses.sum() == pytest.approx(1, rel=1e-12)
    assert found.eigenvalues @ found.masses == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("inputs", ["two-level:4:0.2", "two-level:0.1:0.35"])
@pytest.mark.parametrize("overlaps", OVERLAPS)
def test_infinite_dimension_is_the_limit(inputs: str, overlaps: str) -> None:
    """Moments of the spectrum and of the teacher in it, against a large finite d, where a sum of
    j^-B is off by d^(B - 1).
    """
    off = 5e-3 if overlaps == "decay:0.7" else 2e-4
    given = dict(inputs=inputs, teacher_overlaps=overlaps)
    limit, large = structure_of(make(**given)), structure_of(make(**given, dimension=400_000))
    assert limit is not None
    assert large is not None
    for k in range(4):
        for weights in ("masses", "shares"):
            left, right = (getattr(s, weights) @ s.eigenvalues**k for s in (limit, large))
            assert left == pytest.approx(right, rel=off), (k, weights)


def test_steep_components_are_at_the_very_top() -> None:
    """Also where the sum converges slowly: B = 1, as log(0.2 d)/log d."""
    for power in (1, 1.5, 3):
        found = structure_of(make(inputs="two-level:4:0.2", teacher_overlaps=f"decay:{power}"))
        assert found is not None
        assert found.shares.tolist() == [1.0, 0.0]
    shares = []
    for d in (10**2, 10**4, 10**6):
        at = make(inputs="two-level:4:0.2", teacher_overlaps="decay:1", dimension=d)
        found = structure_of(at)
        assert found is not None
        shares.append(found.shares[: d // 5].sum())
    assert shares[0] < shares[1] < shares[2] < 1


def test_a_file_at_infinite_dimension(tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", np.stack([[1.0, 3.0, 2.0], [0.5, 0.0, 1.0]], axis=1))
    problem = make(inputs=f"spectrum:{tmp_path / 's.npy'}")
    assert str(problem.teacher_overlaps) == "file"
    found, finite = structure_of(problem), structure_of(problem.replace(dimension=3))
    assert found is not None
    assert finite is not None
    shares = np.array([0, 2 / 2, 1 / 2 * 0.25])
    assert found.shares == pytest.approx(shares / shares.sum())
    assert finite.shares == pytest.approx(found.shares)
    assert finite.eigenvalues == pytest.approx([1.5, 1.0, 0.5])


def test_without_a_spectrum_there_is_no_structure() -> None:
    assert structure_of(make()) is None
    assert structure_of(make(teacher_overlaps="random", dimension=40)) is None


@pytest.mark.parametrize("inputs", ["student-t:5", "rademacher", "mixture:2", "data"])
def test_other_inputs_have_no_theory(inputs: object) -> None:
    law = np.random.default_rng(0).normal(size=(50, 6)) if inputs == "data" else inputs
    with pytest.raises(InvalidParameter, match="diagnose_inputs") as caught:
        structure_of(make(inputs=law))
    assert "\n" not in str(caught.value)


def test_dimensions_without_a_theory() -> None:
    with pytest.raises(InvalidParameter, match=r"dimension must be a finite one .* not bounded"):
        structure_of(make(inputs="power-law:0.3"))
    with pytest.raises(InvalidParameter, match="dimension must be at most 1e"):
        structure_of(make(inputs="power-law:0.3", dimension=10 * LARGEST))
    with pytest.raises(InvalidParameter, match="dimension must be 5, the number of components"):
        structure_of(make(inputs="two-level:4:0.2", teacher_overlaps=[1, 2, 3, 4, 5]))


# The problem --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "parameter", "words"),
    [
        (dict(teacher_overlaps="top:0.1"), "teacher-overlaps", "equal or random with inputs gauss"),
        (
            dict(teacher_overlaps="1,2,3", inputs="student-t:5"),
            "teacher-overlaps",
            "equal or random with inputs student-t:5",
        ),
        (
            dict(inputs="power-law:0.3", teacher_terms="relu"),
            "teacher-terms",
            "none with inputs power-law:0.3; got relu",
        ),
        (
            dict(inputs="power-law:0.3", teacher_overlaps="1,2,3", dimension=4),
            "dimension",
            "3, the number of components of the teacher; got 4",
        ),
        (dict(inputs=SpectrumInputs.of([1, 2]), dimension=3), "dimension", "2, the number of eig"),
        (
            dict(inputs=SpectrumInputs.of([1, 2]), teacher_overlaps=[1, 2, 3]),
            "teacher-overlaps",
            "2 components, one for each of the eigenvalues",
        ),
        (
            dict(inputs=SpectrumInputs.of([1, 0]), teacher_overlaps=[0, 1]),
            "teacher-overlaps",
            "sees no input",
        ),
        (
            dict(inputs=SpectrumInputs.of([1, 1, 0, 0]), teacher_overlaps="bottom:0.5"),
            "teacher-overlaps",
            "sees no input",
        ),
        (dict(inputs="two-level:4:0.001", dimension=40), "dimension", "at least 500"),
        (dict(teacher_overlaps="file"), "teacher-overlaps", "no second column"),
        (dict(teacher_terms="relu,tanh,sin", dimension=3), "teacher-terms", "fewer than"),
        (dict(inputs=DataInputs.of(np.eye(5)), dimension=9), "dimension", "5, the number of col"),
        (dict(teacher_terms="rleu"), "teacher-terms", "did you mean relu"),
        (dict(teacher_terms="exp(z**2)"), "teacher-terms", "square integrable"),
        (
            dict(labels="sign", teacher="relu", teacher_terms="abs"),
            "teacher",
            "got relu \\+ abs .*one class",
        ),
    ],
)
def test_what_does_not_go_together(changes: dict[str, object], parameter: str, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words) as caught:
        make(**changes)
    assert "\n" not in str(caught.value)
    assert caught.value.faults[0].parameter == parameter


def test_a_covariance_is_not_a_problem_s() -> None:
    from firststep.inputs import CovarianceInputs

    with pytest.raises(InvalidParameter, match=r"SpectrumInputs\.of\(numpy\.linalg\.eigvalsh"):
        make(inputs=CovarianceInputs.of(np.diag([1.0, 2.0])))


def test_all_faults_of_the_data_at_once() -> None:
    with pytest.raises(InvalidParameter) as caught:
        make(inputs="power-law:-1", teacher_overlaps="top:2", teacher_terms="rleu", alpha=-1)
    found = {fault.parameter for fault in caught.value.faults}
    assert found == {"inputs", "teacher-overlaps", "teacher-terms", "alpha"}
    with pytest.raises(InvalidParameter) as caught:
        make(teacher_overlaps="top:0.1", noise_law="t:3", labels="sign", loss="huber:1")
    found = {fault.parameter for fault in caught.value.faults}
    assert found == {"teacher-overlaps", "noise-law", "loss"}


def test_labels_of_the_sum_of_the_terms() -> None:
    assert make(labels="sign", teacher="relu", teacher_terms="tanh").teacher_terms
    assert math.isnan(make(labels="sign", teacher_terms="relu").bayes_error_rate)
    assert math.isnan(make(labels="sign", flip=0.1, inputs="student-t:5").bayes_error_rate)
    plain = make(labels="sign", flip=0.1)
    assert plain.bayes_error_rate == pytest.approx(0.1)
    assert plain.replace(inputs="power-law:1").bayes_error_rate == pytest.approx(0.1)
