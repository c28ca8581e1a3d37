"""The record: validation, defaults, conversions, files."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firststep import DataInputs, InvalidParameter, Problem, SpectrumInputs, readout_law
from firststep.label_faults import LATER
from tests.backends import jnp, needs_jax

GOOD = dict(student="tanh", teacher="sin", alpha=3, beta=1)


def make(**changes: object) -> Problem:
    return Problem(**{**GOOD, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(alpha=-1), ["alpha", "> 0", "-1"]),
        (dict(alpha=math.nan), ["alpha", "nan"]),
        (dict(alpha=math.inf), ["alpha", "finite"]),
        (dict(alpha="lots"), ["alpha", "lots"]),
        (dict(alpha=True), ["alpha", "True"]),
        (dict(beta=0), ["beta", "> 0", "0"]),
        (dict(alpha0=-0.1), ["alpha0", ">= 0"]),
        (dict(step=-1), ["step", ">= 0"]),
        (dict(step_exponent=1.5), ["step-exponent", "<= 1"]),
        (dict(ridge=-1e-9), ["ridge", "0 to 1e30", "-1e-09"]),
        (dict(ridge=math.nan), ["ridge", "nan"]),
        (dict(ridge="1e2..1e-2:5"), ["ridge", "first < last"]),
        (dict(ridge="1e-2..1e2"), ["ridge", "1e-4..1e2:13"]),
        (dict(ridge=[]), ["ridge"]),
        (dict(noise=-1), ["noise"]),
        (dict(student="tnah"), ["student", "did you mean tanh"]),
        (dict(student="exp(z**2)"), ["student", "square integrable", "diverges"]),
        (dict(student="sqrt(abs(z))"), ["student", "derivative", "six digits"]),
        (dict(student="2 + 0*z"), ["student", "constant"]),
        (dict(teacher="open('x')"), ["teacher", "unknown function 'open'"]),
        (dict(readout="1:0.5,2:0.4"), ["readout", "sum to 0.9"]),
        (dict(readout="1:1.5,2:-0.5"), ["readout", "positive"]),
        (dict(readout="1:0.5,1:0.5"), ["readout", "twice"]),
        (dict(readout="nan:1"), ["readout", "finite"]),
        (dict(readout="gausian"), ["readout", "did you mean gaussian"]),
        (dict(readout="1:x"), ["readout", "value:weight"]),
        (dict(readout=3), ["readout"]),
        (dict(init="ball"), ["init", "gaussian, sphere"]),
        (dict(dimension=1), ["dimension", ">= 2"]),
        (dict(dimension=10.5), ["dimension", "10.5"]),
        (dict(dimension=-math.inf), ["dimension"]),
        (dict(alfa=2), ["alfa", "did you mean alpha"]),
        (dict(ridge_convention="bah"), ["ridge-convention", "ba, cui"]),
        (dict(ridge="x", ridge_convention="cui"), ["ridge", "x"]),
        (dict(ridge_convention="cui"), ["ridge", "together with ridge-convention cui"]),
        (dict(ridge=[[1, 2], ["x"]]), ["ridge", "x"]),
        (dict(ridge=1e308), ["ridge", "1e30"]),
        (dict(alpha=10**400), ["alpha", "finite"]),
        (dict(dimension=1e308), ["dimension", "1e9"]),
        (dict(readout={10**400: 1}), ["readout"]),
        (dict(readout="1e200:1"), ["readout", "1e30"]),
        ({"step-exponent": 0.1, "step_exponent": 0.2}, ["step_exponent", "given once"]),
        (dict(loss="logistic"), ["loss", "real labels", "try labels sign"]),
        (dict(loss="hinge"), ["loss", "hinge is a loss of binary labels"]),
        (dict(loss="huber:1", labels="sign"), ["loss", "huber is a loss of real labels"]),
        (dict(loss="huber:-1"), ["loss", "> 0", "-1"]),
        (dict(loss="quantile:1.2"), ["loss", "between 0 and 1", "1.2"]),
        (dict(loss="logistc"), ["loss", "did you mean logistic"]),
        (dict(labels="signs"), ["labels", "did you mean sign"]),
        (dict(labels="sign", flip=0.5), ["flip", "below 0.5"]),
        (dict(labels="sign", flip=-0.1), ["flip", "from 0 to below 0.5"]),
        (dict(flip=0.1), ["flip", "0 with labels real", "try labels sign"]),
        (dict(threshold=0.1), ["threshold", "0 with labels real"]),
        (dict(labels="sign", threshold="x"), ["threshold", "x"]),
        (dict(labels="sign", threshold=1.5), ["threshold", "between -1 and 1", "one class"]),
        (dict(labels="sign", teacher="relu"), ["teacher", "changes its sign", "one class"]),
        (dict(labels="sign", teacher="-abs(z) - 1"), ["teacher", "changes its sign"]),
        (dict(labels="sign", threshold=5, noise=0.1), ["threshold", "-1 and 1", "one class"]),
        (dict(labels="sign", teacher="relu(z) + 3", noise=0.1), ["teacher", "one class"]),
        (dict(labels="logit:3", threshold=-50, flip=0.2), ["threshold", "-1 and 1", "one class"]),
        (dict(labels="logit:2", noise=0.1), ["noise", "0 with labels logit:2.0"]),
        (dict(labels="logit:0"), ["labels", "SLOPE"]),
        (dict(labels="sign", noise_law="t:3"), ["noise-law", "gaussian with labels sign"]),
        (dict(noise_law="t:2"), ["noise-law", "above 2"]),
        (dict(noise_law="mixture:1@0.5"), ["noise-law", "sum to 0.5"]),
        (dict(labels="sign", step_loss="hinge"), ["step-loss", "no gradient"]),
        (dict(labels="sign", step_loss="squared-hinge"), ["step-loss", "only these"]),
        (dict(step_loss="logistic"), ["step-loss", "square with real labels"]),
        (dict(intercept="maybe"), ["intercept", "true or false", "maybe"]),
        (dict(loss="huber:1", ridge=0), ["ridge", "positive with loss huber"]),
        (dict(intercept=True, ridge=[0, 1]), ["ridge", "positive with an intercept"]),
    ],
)
def test_faults_are_one_line_that_names_the_parameter(
    changes: dict[str, object], words: list[str]
) -> None:
    with pytest.raises(InvalidParameter) as caught:
        make(**changes)
    message = str(caught.value)
    assert "\n" not in message
    assert "PydanticUndefined" not in message
    for word in words:
        assert word in message


def test_all_faults_are_found_at_once() -> None:
    with pytest.raises(InvalidParameter) as caught:
        Problem(alpha=-1, beta=0, ridge="z", teacher="nope")
    faults = {fault.parameter for fault in caught.value.faults}
    assert faults == {"student", "teacher", "alpha", "beta", "ridge"}


CLASSIFIED = dict(
    labels="sign", loss="logistic", flip=0.1, threshold=0.3, intercept=True, step_loss="logistic"
)


@pytest.mark.parametrize(
    "changes",
    [
        CLASSIFIED,
        dict(loss="huber:0.5", noise_law="mixture:0.2@0.9,3.0@0.1", noise=0.4),
        dict(labels="logit:2.5", loss="squared-hinge"),
        dict(labels="sign", noise=0.3, teacher="relu"),  # noise makes a second class
        dict(labels="sign", threshold=0.5, teacher="relu"),
    ],
)
def test_losses_and_labels_go_through_files(changes: dict[str, object], tmp_path: Path) -> None:
    problem = make(**changes)
    assert not problem.is_plain
    assert Problem(**problem.to_dict()) == problem
    path = tmp_path / "problem.toml"
    path.write_text(problem.to_toml())
    assert Problem.from_toml(path) == problem
    assert set(problem.all_values()) == set(Problem.model_fields)
    for convert in (problem.to_ba, problem.to_cui):
        with pytest.raises(InvalidParameter):
            convert()


DATA = [
    dict(inputs="power-law:0.3", teacher_overlaps="top:0.123456789012345"),
    dict(inputs="two-level:4:0.2", teacher_overlaps="random", dimension=50),
    dict(inputs="two-level:0.25:0.7"),
    dict(inputs="student-t:5", teacher_overlaps="random"),
    dict(inputs="power-law:1", teacher_overlaps=[0.1, -2.0, 1 / 3, 0.0], dimension=4),
    dict(teacher_terms="relu, maximum(z, 0.5*z), tanh(2*z)"),
    dict(teacher_terms=["relu"], labels="sign", loss="logistic"),
    dict(inputs="rademacher", teacher_terms=("tanh",)),
    dict(inputs="spectrum:FOLDER/one.npy", teacher_overlaps="bottom:0.5"),
    dict(inputs="spectrum:FOLDER/two.csv"),
    dict(inputs="spectrum:FOLDER/two.csv", teacher_overlaps="equal"),
    dict(inputs="FOLDER/rows.npy,standardize"),
]


@pytest.mark.parametrize("changes", DATA, ids=str)
def test_inputs_components_and_terms_go_through_files(
    changes: dict[str, object], tmp_path: Path
) -> None:
    np.save(tmp_path / "one.npy", [4.0, 1.0, 2.0, 0.0])
    np.savetxt(tmp_path / "two.csv", [[1.0, 0.3], [3.0, 0.1], [2.0, 0.0]], delimiter=",")
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).normal(size=(40, 6)))
    told = {
        name: value.replace("FOLDER", str(tmp_path)) if isinstance(value, str) else value
        for name, value in changes.items()
    }
    problem = make(**told)
    assert problem.beyond_plain()
    assert problem.is_plain == ("loss" not in changes)
    for again in (
        Problem(**problem.to_dict()),
        Problem(**json.loads(json.dumps(problem.to_dict()))),
        pickle.loads(pickle.dumps(problem)),
        problem.replace(),
    ):
        assert again == problem
        assert hash(again) == hash(problem)
        assert again.to_dict() == problem.to_dict()
    path = tmp_path / "problem.toml"
    path.write_text(problem.to_toml())
    assert Problem.from_toml(path) == problem
    assert len({make(), problem, problem.replace(alpha=7)}) == 3
    for convert in (problem.to_ba, problem.to_cui):
        with pytest.raises(
            InvalidParameter, match=r"must be .* in \[(Ba|Cui)\]'s notation"
        ) as caught:
            convert()
        assert "\n" not in str(caught.value)


def test_components_of_a_file_follow_the_file(tmp_path: Path) -> None:
    np.save(tmp_path / "two.npy", [[1.0, 0.3], [3.0, 0.1]])
    np.save(tmp_path / "other.npy", [[1.0, 2.0], [3.0, 1.0]])
    problem = make(inputs=f"spectrum:{tmp_path / 'two.npy'}")
    assert problem.to_dict()["teacher_overlaps"] == "file"
    assert problem.teacher_overlaps.components(2) == pytest.approx([1 / 3, 1])
    moved = problem.replace(inputs=f"spectrum:{tmp_path / 'other.npy'}")
    assert moved.teacher_overlaps.components(2) == pytest.approx([0.5, 1])
    given = Problem(**problem.to_dict()).replace(inputs=f"spectrum:{tmp_path / 'other.npy'}")
    assert given == moved
    assert str(problem.replace(inputs="gaussian").teacher_overlaps) == "equal"
    equal = problem.replace(teacher_overlaps="equal")
    assert equal.to_dict()["teacher_overlaps"] == "equal"
    assert Problem(**equal.to_dict()) == equal != problem


def test_arrays_in_memory_are_not_written() -> None:
    for law in (SpectrumInputs.of([1, 2]), DataInputs.of(np.eye(4))):
        problem = make(inputs=law)
        assert pickle.loads(pickle.dumps(problem)) == problem
        with pytest.raises(InvalidParameter, match="inputs must be read from a file to be written"):
            problem.to_toml()


def test_texts_with_quotes_and_backslashes_are_written(tmp_path: Path) -> None:
    name = tmp_path / 'a "b" \\ c.npy'
    np.save(name, [1.0, 2.0])
    problem = make(inputs=f"spectrum:{name}")
    path = tmp_path / "problem.toml"
    path.write_text(problem.to_toml())
    assert Problem.from_toml(path) == problem


def test_long_components_are_short_in_print() -> None:
    problem = make(inputs="power-law:1", teacher_overlaps=np.linspace(0.1, 1, 500), dimension=500)
    assert len(str(problem)) < 500
    assert len(problem.to_dict()["teacher_overlaps"].split(",")) == 500


def test_later_fields_stay_out_of_what_is_stored() -> None:
    """Given at their defaults they change nothing: the keys of old results are found again."""
    told = make(**LATER).to_dict()
    assert told == make().to_dict()
    assert not set(LATER) & set(told)
    assert make(**LATER).is_plain
    assert list(Problem.model_fields)[-len(LATER) :] == list(LATER)


def test_keys_of_old_sweeps_are_found_again() -> None:
    from firststep.sweep.units import Replicate

    kept = json.loads((Path(__file__).parent / "data" / "kept_numbers.json").read_text())
    keys = set(kept["sweeps"]["sweep options"]["keys"])
    found = set()
    for step in np.geomspace(0.1, 10, 3):
        problem = Problem(student="relu", teacher="sin", alpha=2, beta=1, step=step, dimension=30)
        options = {"steps": 2, "optimizer": "adam"}
        for number in range(2):
            found |= {w.key for w in Replicate(problem, "network", 5, number, options).wanted}
    assert found == keys


def test_defaults_and_frozen() -> None:
    problem = make()
    assert (problem.alpha0, problem.step, problem.step_exponent, problem.noise) == (
        3.0,
        1.0,
        0.5,
        0.0,
    )
    assert (str(problem.readout), problem.init, problem.dimension) == (
        "gaussian",
        "gaussian",
        math.inf,
    )
    with pytest.raises(Exception, match="frozen"):
        problem.alpha = 2.0
    assert problem.replace(alpha=7).alpha0 == 7
    assert make(alpha0=2).replace(alpha=7).alpha0 == 2
    assert not make(alpha0=0).takes_step
    assert not make(step=0).takes_step


def test_ridge_forms() -> None:
    assert make(ridge=0.1).ridges == (0.1,)
    assert make(ridge="1e-4..1e2:13").ridges == pytest.approx(np.geomspace(1e-4, 1e2, 13))
    assert make(ridge=["0.1", "1..10:2"]).ridge == (0.1, 1.0, 10.0)
    assert make(ridge=np.array([1.0, 2.0])).ridge == (1.0, 2.0)
    assert make(ridge=(1.0,)).ridge == (1.0,)
    assert make(ridge="0.1, 0.2").ridge == (0.1, 0.2)


def test_cui_ridge_is_the_same_estimator() -> None:
    """sum|y - Phi a|^2 + l|a|^2 and (1/n)|y - Phi a|^2 + (ridge/N)|a|^2 have the same minimiser."""
    problem = make(alpha=3, beta=1.5, ridge=0.1, ridge_convention="cui")
    sizes = problem.sizes(200)
    assert problem.ridge / sizes.width == pytest.approx(0.1 / sizes.samples)


def test_sizes() -> None:
    sizes = make(alpha=2.5, beta=0.3, alpha0=1.21).sizes(100)
    assert (sizes.dimension, sizes.samples, sizes.width, sizes.step_samples) == (100, 250, 30, 121)
    with pytest.raises(InvalidParameter, match=r"at least 50 for alpha = 0\.01"):
        make(alpha=0.01).sizes(10)
    assert make(alpha=0.01).sizes(50).samples == 1
    with pytest.raises(InvalidParameter, match="finite size"):
        make().sizes()
    assert make(alpha0=0).sizes(10).step_samples == 0


def test_named_notations_round_trip() -> None:
    ba = make(noise=0.2, step=2.0, step_exponent=0.25, ridge=(0.1, 1.0))
    assert Problem.from_ba(**ba.to_ba()) == ba
    assert ba.to_ba()["psi1"] == 3.0
    cui = make(alpha0=20, step=3, ridge=0.1 / 3, readout="ones", init="sphere", dimension=1000)
    assert Problem.from_cui(**cui.to_cui()) == cui
    assert cui.to_cui()["lambda_"] == pytest.approx(0.1)
    with pytest.raises(InvalidParameter, match="alpha0 must be equal to alpha"):
        cui.to_ba()
    with pytest.raises(InvalidParameter, match="step-exponent"):
        ba.to_cui()


def test_kernel_lower_bound() -> None:
    exact = 2 / math.pi * math.asin(2 / 3) - 4 / (3 * math.pi)
    assert make(teacher="erf").kernel_lower_bound == pytest.approx(exact, rel=1e-12)
    assert make(teacher="identity").kernel_lower_bound == pytest.approx(0, abs=1e-25)


_problems = st.fixed_dictionaries(
    dict(
        student=st.sampled_from(["tanh", "centered(relu)", "tanh(2*z) + 0.5*(z**2-1)"]),
        teacher=st.sampled_from(["sin", "erf", "z**2 - 1"]),
        alpha=st.floats(1e-3, 1e3),
        beta=st.floats(1e-3, 1e3),
        alpha0=st.floats(0, 1e3),
        step=st.floats(0, 50),
        step_exponent=st.floats(0, 1),
        ridge=st.one_of(st.floats(0, 1e4), st.lists(st.floats(0, 1e4), min_size=2, max_size=4)),
        noise=st.floats(0, 3),
        readout=st.sampled_from(["gaussian", "ones", "signs", "-1:0.25,0.5:0.5,2:0.25"]),
        init=st.sampled_from(["gaussian", "sphere"]),
        dimension=st.one_of(st.integers(2, 10**6), st.just(math.inf)),
    )
)


@given(_problems)
def test_files_and_json_keep_everything(
    tmp_path_factory: pytest.TempPathFactory, fields: dict[str, object]
) -> None:
    problem = Problem(**fields)
    path = tmp_path_factory.mktemp("problem") / "problem.toml"
    path.write_text(problem.to_toml())
    assert Problem.from_toml(path) == problem
    assert Problem(**json.loads(json.dumps(problem.to_dict()))) == problem


def test_broken_files(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="No such file"):
        Problem.from_toml(tmp_path / "missing.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("alpha = = 3")
    with pytest.raises(InvalidParameter, match="valid TOML"):
        Problem.from_toml(broken)
    broken.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidParameter, match="valid TOML"):
        Problem.from_toml(broken)
    broken.write_text('student = "tanh"\nteacher = "sin"\nalpha = 1\nbeta = 1\nstep-exponant = 0.5')
    with pytest.raises(InvalidParameter, match="did you mean step-exponent"):
        Problem.from_toml(broken)


def test_readout_laws() -> None:
    law = readout_law({2: 0.25, -1: 0.25, 0.5: 0.5})
    assert law == readout_law("-1:0.25,0.5:0.5,2:0.25") == readout_law(str(law))
    assert law.mean == pytest.approx(0.5)
    assert law.second_moment == pytest.approx(1.375)
    assert readout_law("signs").mean == 0
    assert readout_law("gaussian").second_moment == 1
    assert str(readout_law("1:1")) == "ones"


def test_replace_never_converts_a_ridge_twice() -> None:
    problem = make(alpha=2, ridge=0.1, ridge_convention="cui")
    assert problem.ridge == pytest.approx(0.05)
    assert problem.replace(alpha=4).ridge == pytest.approx(0.05)
    assert problem.replace(alpha=4, ridge=0.1, ridge_convention="cui").ridge == pytest.approx(0.025)
    with pytest.raises(InvalidParameter, match="together with ridge-convention cui"):
        problem.replace(alpha=4, ridge_convention="cui")


def test_sizes_that_overflow() -> None:
    with pytest.raises(InvalidParameter, match="alpha must be at most"):
        make(alpha=1e308).sizes(60)


@needs_jax
def test_functions_without_text_are_not_written() -> None:
    with pytest.raises(InvalidParameter, match="student must be a name or an expression"):
        make(student=lambda z: jnp.tanh(z)).to_toml()


def test_laws_are_checked_however_they_are_made() -> None:
    from firststep import ReadoutLaw

    with pytest.raises(InvalidParameter, match="sum 1"):
        ReadoutLaw((1.0, 2.0), (0.9, 0.9))
