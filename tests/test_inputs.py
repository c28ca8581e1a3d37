"""Laws of the inputs as texts and files, their options, what the command line and experiments make
of them, and the diagnosis.
"""

from __future__ import annotations

import json
import math
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from firststep import (
    DataInputs,
    Experiment,
    InputDiagnosis,
    InputLaw,
    InvalidParameter,
    Problem,
    diagnose_inputs,
    input_law,
    run_sweep,
    simulate,
)
from firststep.cli import run
from firststep.inputs import CovarianceInputs, Held
from firststep.sweep.units import Replicate

ROWS = np.random.default_rng(0).standard_normal((400, 6)) * [1, 2, 3, 4, 5, 6] + 1


# Texts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "parameter", "back"),
    [
        ("gaussian", "gaussian", None, "gaussian"),
        (" Rademacher ", "rademacher", None, "rademacher"),
        ("uniform", "uniform", None, "uniform"),
        ("student-t:5", "student-t", 5.0, "student-t:5"),
        ("elliptical-t:2.5", "elliptical-t", 2.5, "elliptical-t:2.5"),
        ("power-law:1e0", "power-law", 1.0, "power-law:1"),
        ("mixture:0.1", "mixture", 0.1, "mixture:0.1"),
    ],
)
def test_texts(text: str, kind: str, parameter: float | None, back: str) -> None:
    law = input_law(text)
    assert (law.kind, law.parameter, str(law)) == (kind, parameter, back)
    assert input_law(back) == law
    assert hash(input_law(back)) == hash(law)
    assert input_law(law) is law
    assert law.is_gaussian == (kind == "gaussian")
    assert law.dimension is None
    assert pickle.loads(pickle.dumps(law)) == law


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("gausian", "did you mean gaussian"),
        ("student-t", "inputs must be student-t:NU, the degrees of freedom, > 2 and <= 1e"),
        ("student-t:2", "> 2"),
        ("student-t:x", "got student-t:x"),
        ("elliptical-t:nan", "> 2"),
        ("elliptical-t:inf", "<= 1e"),
        ("power-law:-1", "power-law:A, the exponent, > 0"),
        ("mixture:0", "mixture:R, the distance"),
        ("gaussian:3", "gaussian without a number"),
        ("", "inputs must be gaussian, rademacher"),
        (3, "inputs must be gaussian, rademacher"),
        (None, "inputs must be"),
        ([1, 2], "inputs must be"),
        ("none.npy", r"a readable file; got none\.npy \(No such file"),
        ("none.npy,whitten", r"whitten is none of them"),
        ("none.npy,key", "key is none of them"),
        ("none.npy,standardize=1", "standardize=1 is none of them"),
    ],
    ids=str,
)
def test_nonsense_texts(source: object, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words) as caught:
        input_law(source)
    assert "\n" not in str(caught.value)


# Arrays and files ---------------------------------------------------------------------------------


def test_arrays_are_compared_by_content() -> None:
    left, right = DataInputs.of(ROWS), DataInputs.of(ROWS.copy())
    assert left == right
    assert hash(left) == hash(right)
    assert left != DataInputs.of(ROWS + 1)
    assert left.dimension == 6
    assert not left.is_gaussian
    assert not left.array.flags.writeable
    assert ROWS.flags.writeable
    assert not np.shares_memory(left.array, ROWS)
    assert Held(ROWS.reshape(300, 8)) != Held(ROWS)
    assert pickle.loads(pickle.dumps(left)) == left
    assert input_law(ROWS) == left
    assert isinstance(left, InputLaw)
    assert "400 rows x 6 columns" in repr(left)
    assert DataInputs.of(ROWS.astype(np.float32)).array.dtype == np.float64
    integers = (10 * ROWS).astype(int)
    assert np.array_equal(DataInputs.of(integers).array, integers)
    import pandas

    assert input_law(pandas.DataFrame(ROWS)) == left
    with pytest.raises(InvalidParameter, match="can be standardized"):
        DataInputs.of(np.array([[1.0, 0.0], [2.0, 1e-200], [3.0, 2e-200]]), standardize=True)


def write(path: Path, rows: np.ndarray) -> None:
    if path.suffix == ".npy":
        np.save(path, rows)
    elif path.suffix == ".npz":
        np.savez(path, x=rows)
    elif path.suffix == ".csv":
        header = (
            ",".join(f"column {i}" for i in range(rows.shape[1])) if "header" in path.name else ""
        )
        np.savetxt(path, rows, delimiter=",", fmt="%.17g", header=header, comments="")
    else:
        import pyarrow
        import pyarrow.parquet

        columns = {f"c{i}": rows[:, i] for i in range(rows.shape[1])}
        pyarrow.parquet.write_table(pyarrow.table({**columns, "word": ["a"] * len(rows)}), path)


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.csv", "header.csv", "a.parquet"])
def test_every_kind_of_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    write(path, ROWS)
    found = DataInputs.load(path)
    assert found.array == pytest.approx(ROWS, rel=1e-15)
    assert found.sha256 == DataInputs.of(ROWS).sha256
    assert found.name == str(path)
    assert ("1 columns that are not numeric were dropped: word" in found.notes) == (
        name == "a.parquet"
    )
    text = str(found)
    assert input_law(text) == found
    assert input_law(str(path)) == input_law(path) == found
    write(path, ROWS + 1)
    with pytest.raises(
        InvalidParameter, match="the file is no longer the one this was written for"
    ):
        input_law(text)


def test_archives_of_several_arrays(tmp_path: Path) -> None:
    path = tmp_path / "several.npz"
    np.savez(path, train=ROWS, test=ROWS[:50])
    assert len(DataInputs.load(path, key="test").array) == 50
    law = input_law(f"{path},key=test,standardize")
    assert isinstance(law, DataInputs)
    assert law.standardize
    assert input_law(str(law)) == law
    with pytest.raises(
        InvalidParameter, match=r"key must be the name of one array .* holds train, test"
    ):
        DataInputs.load(path)
    with pytest.raises(InvalidParameter, match="did you mean train"):
        DataInputs.load(path, key="trian")
    np.save(tmp_path / "a.npy", ROWS)
    with pytest.raises(InvalidParameter, match=r"key must be given only for \.npz"):
        DataInputs.load(tmp_path / "a.npy", key="x")


def bad_files(folder: Path) -> dict[str, str]:
    """Files with something wrong, and a word of the message."""
    np.save(folder / "nan.npy", np.where(np.arange(2400).reshape(400, 6) == 607, np.nan, ROWS))
    np.save(folder / "inf.npy", np.where(ROWS > 0, ROWS, -np.inf))
    np.save(folder / "one.npy", ROWS[:, 0])
    np.save(folder / "image.npy", ROWS.reshape(100, 4, 6))
    np.save(folder / "words.npy", np.array([["a", "b"], ["c", "d"]]))
    np.save(folder / "complex.npy", ROWS + 1j)
    np.save(folder / "empty.npy", np.zeros((0, 6)))
    np.save(folder / "row.npy", ROWS[:1])
    np.save(folder / "constant.npy", np.ones((50, 4)))
    np.save(folder / "objects.npy", np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    np.savez(folder / "nothing.npz")
    whole = (folder / "inf.npy").read_bytes()
    (folder / "half.npy").write_bytes(whole[: len(whole) // 2])
    for name in ("noise.npy", "noise.npz", "noise.parquet", "noise.csv"):
        (folder / name).write_bytes(bytes(range(256)) * 3)
    for name in ("empty.npz", "empty.parquet", "empty.csv", "none.npy"):
        (folder / name).write_bytes(b"")
    (folder / "ragged.csv").write_text("1,2\n3,4,5\n")
    (folder / "words.csv").write_text("a,b\n1,2\n3,x\n")
    (folder / "header.csv").write_text("a,b\n")
    (folder / "gap.csv").write_text("1,2\n3,\n5,6\n")
    (folder / "old.txt").write_text("1 2\n3 4\n")
    (folder / "folder.npy").mkdir()
    return {
        "nan.npy": "got 1 that is not finite, the first in row 102, column 2",
        "inf.npy": "that are not finite",
        "one.npy": "got 400 ",
        "image.npy": "reshape it to samples x columns",
        "words.npy": "entries of type",
        "complex.npy": "complex",
        "empty.npy": "0 x 6",
        "row.npy": "1 x 6",
        "constant.npy": "two columns that are not constant",
        "objects.npy": "valid .npy",
        "nothing.npz": "holds nothing",
        "half.npy": "valid .npy",
        "noise.npy": "valid .npy",
        "noise.npz": "valid .npz",
        "noise.parquet": "valid .parquet",
        "noise.csv": "valid .csv",
        "empty.npz": "valid .npz",
        "empty.parquet": "valid .parquet",
        "empty.csv": "first line is empty",
        "none.npy": "valid .npy",
        "ragged.csv": "valid .csv",
        "words.csv": "valid .csv",
        "header.csv": "two rows",
        "gap.csv": "valid .csv",
        "old.txt": r"of type \.npy",
        "folder.npy": "readable file",
        "missing.parquet": "readable file",
        "missing.csv": "readable file",
    }


def test_bad_files_give_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, words in bad_files(tmp_path).items():
        with pytest.raises(InvalidParameter, match=words) as caught:
            DataInputs.load(tmp_path / name)
        assert "\n" not in str(caught.value), name
        assert len(str(caught.value)) < 500
    arguments = ["simulate", "--student", "tanh", "--teacher", "sin", "--alpha", "1", "--beta", "1"]
    assert run([*arguments, "--inputs", str(tmp_path / "nan.npy")]) == 2
    assert capsys.readouterr().err.startswith("error: inputs must be a table of finite numbers")


def test_a_missing_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidParameter, match=r"pip install 'firststep\[tables\]'"):
        DataInputs.load(tmp_path / "a.parquet")


def test_constant_columns_are_dropped() -> None:
    found = DataInputs.of(np.hstack([ROWS, np.full((400, 2), 3.0)]))
    assert np.array_equal(found.array, ROWS)
    assert found.notes == ("2 of 8 columns are constant and were dropped",)
    assert found.describe()["notes"] == list(found.notes)


def test_standardized_columns() -> None:
    found = DataInputs.of(ROWS, standardize=True)
    assert found.array == pytest.approx((ROWS - ROWS.mean(axis=0)) / ROWS.std(axis=0), abs=1e-12)
    assert found != DataInputs.of(ROWS)
    with pytest.raises(InvalidParameter, match="standardize must be True or False"):
        DataInputs.of(ROWS, standardize="yes")  # type: ignore[arg-type]


def test_whitened_rows() -> None:
    rng = np.random.default_rng(1)
    mixed = ROWS @ rng.standard_normal((6, 9))  # rank 6 in 9 columns
    found = DataInputs.of(mixed, whiten=True)
    assert found.array.shape == (400, 6)
    assert found.array.mean(axis=0) == pytest.approx(np.zeros(6), abs=1e-10)
    assert found.array.T @ found.array / 400 == pytest.approx(np.eye(6), abs=1e-9)
    values = np.linalg.eigvalsh(np.cov(mixed.T))
    effective = values.sum() ** 2 / (values**2).sum()
    assert found.notes == (
        f"whitened: rank 6 of 9 columns (effective rank (tr C)^2/tr C^2 = {effective:.1f} before)",
    )
    distances = np.linalg.norm(found.array[:50, None] - found.array[None, :50], axis=2)
    inverse = np.linalg.pinv(np.cov(mixed.T, bias=True), rcond=1e-10, hermitian=True)
    difference = mixed[:50, None] - mixed[None, :50]
    assert distances**2 == pytest.approx(
        np.einsum("ijk,kl,ijl->ij", difference, inverse, difference), rel=1e-6, abs=1e-6
    )
    with pytest.raises(
        InvalidParameter,
        match="whiten must be asked for more rows than columns; got 5 rows of rank 4",
    ):
        DataInputs.of(ROWS[:5], whiten=True)


def test_covariances_are_compared_by_content() -> None:
    assert CovarianceInputs.of(np.eye(3)) == CovarianceInputs.of(np.eye(3))
    assert CovarianceInputs.of(np.eye(3)) != CovarianceInputs.of(2 * np.eye(3))
    assert set(CovarianceInputs.of(np.eye(3)).describe()) == {"shape", "sha256_of_root"}
    with pytest.raises(InvalidParameter, match="covariance must be a symmetric d x d matrix"):
        CovarianceInputs.of("identity")


# Where they are used ------------------------------------------------------------------------------


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).standard_normal((700, 20)))
    common = [
        "simulate",
        "--student",
        "tanh",
        "--teacher",
        "sin",
        "--alpha",
        "2",
        "--beta",
        "1",
        "--replicates",
        "2",
        "--json",
    ]
    common += [
        "--test-samples",
        "300",
        "--optimizer",
        "adam",
        "--steps",
        "2",
        "--teacher-terms",
        "relu,maximum(z,0)",
    ]
    assert run([*common, "--inputs", f"{tmp_path / 'rows.npy'},whiten"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["dimension"] == 20
    assert found["options"]["optimizer"] == "adam"
    assert found["options"]["teacher_terms"] == ["relu", "maximum(z, 0)"]
    assert found["options"]["inputs_array"]["shape"] == [700, 20]
    assert found["options"]["inputs_array"]["whiten"] is True
    assert len(found["options"]["inputs_array"]["sha256"]) == 64
    assert found["kernel_lower_bound"] is None
    assert run([*common, "--inputs", "student-t:1", "--dimension", "20"]) == 2
    assert "student-t:NU" in capsys.readouterr().err
    assert run([*common[:-6], "--optimizer", "adamw", "--dimension", "20"]) == 2
    assert "did you mean adam?" in capsys.readouterr().err
    turned = [*common[:-6], "--optimizer", "whitened", "--damping", "0.02", "--weight-decay", "0.1"]
    assert run([*turned, "--inputs", "power-law:1", "--dimension", "20"]) == 0
    told = json.loads(capsys.readouterr().out)["options"]
    assert (told["damping"], told["weight_decay"]) == (0.02, 0.1)
    rows = ["--inputs", f"{tmp_path / 'rows.npy'}"]
    for wrong in (
        [*turned, "--weight-decay", "2", "--dimension", "20"],
        [*common[:-6], "--optimizer", "whitened-exact", *rows],
    ):
        assert run(wrong) == 2
        assert capsys.readouterr().err.count("\n") == 1


def experiment(**changes: object) -> Experiment:
    problem = dict(student="tanh", teacher="sin", alpha=2, beta=1)
    return Experiment.from_dict(
        dict(
            problem=problem, simulate=dict(dimension=20, replicates=2, test_samples=300, **changes)
        )
    )


def test_experiments(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).standard_normal((700, 20)))
    plain = [wanted.key for unit in experiment().units() for wanted in unit.wanted]
    default = experiment(inputs="gaussian", optimizer="gradient", teacher_terms=[])
    assert default.options == {"test_samples": 300}
    assert [wanted.key for unit in default.units() for wanted in unit.wanted] == plain
    made = experiment(
        inputs=f"{tmp_path / 'rows.npy'},standardize",
        optimizer="momentum",
        teacher_terms="relu,tanh",
        steps=2,
    )
    assert made.options["teacher_terms"] == ("relu", "tanh")
    assert "sha256=" in made.options["inputs"]
    swept = run_sweep(made, tmp_path / "store.db")
    assert swept.complete
    law = DataInputs.load(tmp_path / "rows.npy", standardize=True)
    problem = Problem(student="tanh", teacher="sin", alpha=2, beta=1)
    options = dict(
        test_samples=300, inputs=law, optimizer="momentum", teacher_terms=["relu", "tanh"], steps=2
    )
    direct = simulate(problem, 20, 2, **options)
    assert [row["risk"] for row in swept.rows] == pytest.approx(
        direct.risk.values.tolist(), rel=1e-12
    )
    keys = {wanted.key for unit in made.units() for wanted in unit.wanted}
    np.save(tmp_path / "rows.npy", np.random.default_rng(1).standard_normal((700, 20)))
    changed = experiment(
        inputs=f"{tmp_path / 'rows.npy'},standardize",
        optimizer="momentum",
        teacher_terms="relu,tanh",
        steps=2,
    )
    assert not keys & {wanted.key for unit in changed.units() for wanted in unit.wanted}


def test_keys_of_old_results_are_what_they_were() -> None:
    made = experiment(steps=2, batches="same")
    units = [unit for unit in made.units() if isinstance(unit, Replicate)]
    assert units[0].computation == (
        '{"batches":"same","model":"network","revision":1,"seed":0,"steps":2,"test_samples":300,"verb":"simulate"}'
    )


def test_faults_of_experiments(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    with pytest.raises(InvalidParameter) as caught:
        experiment(inputs="student-t:1", optimizer="adamm", teacher_terms="reluu")
    told = {fault.parameter: str(fault) for fault in caught.value.faults}
    assert set(told) == {"simulate.inputs", "simulate", "simulate.teacher_terms"}
    with pytest.raises(
        InvalidParameter,
        match=r"simulate\.dimension must be 6, the number of columns of the inputs; got \[20\]",
    ):
        experiment(inputs=str(tmp_path / "rows.npy"))


def test_the_example_of_the_docs_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parent.parent / "docs" / "inputs.md").read_text()
    examples = re.findall(r"^```python\n(.*?)^```", page, flags=re.S | re.M)
    assert len(examples) == 2
    scope: dict[str, object] = {}
    for example in examples:
        exec(compile(example, "inputs.md", "exec"), scope)
    printed = capsys.readouterr().out
    assert "whitened: rank 50 of 50 columns" in printed
    assert "trusted: the Gaussian theory" in printed


# Diagnosis ----------------------------------------------------------------------------------------


def test_the_numbers_of_the_diagnosis_against_their_definitions() -> None:
    """On data where everything is off, against closed forms of its law: x = m + s * C^(1/2) t with
    t elliptical.
    """
    rng = np.random.default_rng(0)
    d, count = 60, 20_000
    variances = np.linspace(0.5, 2.5, d)
    scales = np.sqrt(rng.choice([0.5, 1.5], size=(count, 1)))  # E q = 1, Var q = 1/4
    mean = np.zeros(d)
    mean[3] = 2.0
    x = mean + scales * rng.standard_normal((count, d)) * np.sqrt(variances)
    found = diagnose_inputs(x)
    trace, square = variances.sum(), (variances**2).sum()
    assert found.mean == pytest.approx(4 / trace, abs=4 * found.errors["mean"])
    assert found.scale == pytest.approx(trace / d, abs=4 * found.errors["scale"])
    assert found.effective_dimension == pytest.approx(
        trace**2 / (d * square), abs=4 * found.errors["effective_dimension"]
    )
    norm = d / 2 * (0.25 + 1.25 * 2 * square / trace**2)  # Var(q |g|^2) = E q^2 E|g|^4 - 1
    assert found.norm_concentration == pytest.approx(
        norm, abs=4 * found.errors["norm_concentration"]
    )
    assert found.kurtosis == pytest.approx(3 * 0.25, abs=4 * found.errors["kurtosis"])
    assert abs(found.skewness) < 0.05
    assert found.entry_kurtosis == pytest.approx(0.75, abs=0.1)
    assert found.largest_entry == pytest.approx((np.abs(x - x.mean(axis=0)) / x.std(axis=0)).max())
    assert found.duplicates == 0
    assert not found.trusted
    assert len(found.reasons) == 5


def test_the_diagnosis_sees_skewness_components_and_copies() -> None:
    rng = np.random.default_rng(0)
    skewed = rng.standard_normal((6000, 40)) + (
        rng.exponential(size=(6000, 1)) - 1
    ) * rng.standard_normal(40)
    skewed = diagnose_inputs(DataInputs.of(skewed, standardize=True))
    assert any("skewness" in reason for reason in skewed.reasons)
    clusters = (
        rng.standard_normal((6000, 40))
        + 6 * rng.choice([-1.0, 1.0], size=(6000, 1)) * np.eye(40)[0]
    )
    found = diagnose_inputs(clusters)
    assert found.component_kurtosis < -1.5
    assert found.component_share == pytest.approx((37 + 7) / 76, abs=0.03)
    assert any("leading components" in reason for reason in found.reasons)
    copies = rng.standard_normal((3000, 40))
    found = diagnose_inputs(np.vstack([copies, copies[:100]]))
    assert found.duplicates == 100
    assert found.reasons == ("100 rows occur twice: training and test data would share them",)


@pytest.mark.parametrize("law", ["gaussian", "rademacher", "uniform", "student-t:10", "mixture:3"])
def test_trusted_laws(law: str) -> None:
    found = diagnose_inputs(law, 400)
    assert found.trusted, found.reasons
    assert (found.name, found.dimension) == (law, 400)
    if (
        law != "gaussian" and "mixture" not in law
    ):  # few dimensions: sums of entries are not Gaussian yet
        assert not diagnose_inputs(law, 20).trusted


@pytest.mark.parametrize(
    "law", ["elliptical-t:5", "elliptical-t:20", "power-law:0.5", "power-law:1", "student-t:2.5"]
)
def test_laws_that_are_not_trusted(law: str) -> None:
    found = diagnose_inputs(law, 200)
    assert not found.trusted
    assert found.reasons


def test_digits_are_not_gaussian() -> None:
    """The handwritten digits of scikit-learn: neither raw, nor standardised, nor whitened."""
    digits = load_digits().data
    for options in (dict(), dict(standardize=True), dict(whiten=True)):
        found = diagnose_inputs(DataInputs.of(digits, **options))
        assert not found.trusted
    assert found.dimension == 61
    assert found.effective_dimension == pytest.approx(1, abs=0.02)
    assert any("sizes of rows" in reason for reason in found.reasons)


def test_tables_of_the_diagnosis() -> None:
    found = diagnose_inputs("elliptical-t:5", 50, rows=1000)
    assert isinstance(found, InputDiagnosis)
    text = str(found)
    for words in (
        "elliptical-t:5: 1000 rows in dimension 50",
        "norm concentration",
        "not trusted:",
        "sizes of rows",
    ):
        assert words in text
    assert "trusted: the Gaussian theory" in str(diagnose_inputs("gaussian", 50))
    assert "<table>" in found._repr_html_()
    listed = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert listed["trusted"] is False
    assert listed["norm_concentration"] == found.norm_concentration
    assert (
        diagnose_inputs("gaussian", 50, seed=1).kurtosis != diagnose_inputs("gaussian", 50).kurtosis
    )
    with pytest.raises(Exception, match=r"frozen|cannot assign"):
        found.mean = 0.0  # type: ignore[misc]


def test_samples_of_data_are_looked_at() -> None:
    rows = np.random.default_rng(0).standard_normal((3000, 20))
    assert diagnose_inputs(rows, rows=1000).rows == 1000
    assert diagnose_inputs(rows).rows == 3000
    assert math.isclose(diagnose_inputs(rows).scale, rows.var(axis=0, ddof=1).mean(), rel_tol=1e-9)
    wide = diagnose_inputs(np.random.default_rng(0).standard_normal((300, 500)))
    assert wide.effective_dimension == pytest.approx(1, abs=0.05)
    for options, words in [
        (dict(rows=100), "rows must be a whole number >= 200"),
        (dict(rows=4000), "rows must be"),
        (dict(dimension=21), "dimension must be 20"),
        (dict(seed=-1), "seed must be"),
    ]:
        with pytest.raises(InvalidParameter, match=words):
            diagnose_inputs(rows, **options)
    with pytest.raises(InvalidParameter, match="at least 200 rows to be diagnosed; got 150 rows"):
        diagnose_inputs(rows[:150])
