"""A first layer from a file: the command, and theory beside simulation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from firststep import InvalidParameter, Problem
from firststep.cli import run
from firststep.compare import compare_features
from firststep.simulation.running.layer import FirstLayer, first_layer
from firststep.theory.given_layer.predict import predict_features

FLAGS = [
    "--student",
    "relu",
    "--teacher",
    "tanh",
    "--alpha",
    "2",
    "--ridge",
    "0.05",
    "--noise",
    "0.1",
]
PROBLEM = Problem(
    student="relu",
    teacher="tanh",
    alpha=2.0,
    beta=1.25,
    alpha0=1.0,
    step=1.0,
    ridge=0.05,
    noise=0.1,
)


@pytest.fixture(scope="module")
def layer() -> FirstLayer:
    return first_layer(PROBLEM, 120)


@pytest.fixture
def files(layer: FirstLayer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("W1.npy", layer.after)
    np.save("W1-rows.npy", layer.after.T)
    np.save("W0.npy", layer.before)
    np.savez("both.npz", after=layer.after, before=layer.before)
    np.savez("one.npz", layer.after)
    np.save("theta.npy", layer.teacher)
    Path("text.npy").write_text("hello")
    Path("text.npz").write_text("PK hello")
    return tmp_path


def test_command_predicts(
    files: Path, layer: FirstLayer, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = predict_features(layer.after, PROBLEM, layer.teacher, initial=layer.before)
    assert run(["features", "W1.npy", "theta.npy", "--initial", "W0.npy", *FLAGS, "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["risk"] == pytest.approx(expected.risk, rel=1e-12)
    assert table["problem"]["beta"] == 1.25
    assert (
        run(
            [
                "features",
                "W1-rows.npy",
                "theta.npy",
                "--neurons",
                "rows",
                "--directions",
                "2",
                *FLAGS,
            ]
        )
        == 0
    )
    assert "2 (the 2 leading of W1, as asked)" in capsys.readouterr().out
    assert run(["features", "one.npz", "theta.npy", *FLAGS]) == 0


def test_command_compares(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["features", "W1.npy", "theta.npy", *FLAGS, "--replicates", "3", "--seed", "5"]) == 0
    text = capsys.readouterr().out
    assert "theory (of the given layer, 1 direction)" in text
    assert "3 replicates, seed 5" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.npy", "theta.npy"], "weights must be a readable .safetensors, .npz or .npy file"),
        (
            ["text.npy", "theta.npy"],
            "weights must be a valid .safetensors, .npz or .npy file of numbers",
        ),
        (
            ["text.npz", "theta.npy"],
            "weights must be a valid .safetensors, .npz or .npy file of numbers",
        ),
        (["both.npz", "theta.npy"], "weights must be a file with one array"),
        (["theta.npy", "theta.npy"], "weights must be a file with a matrix"),
        (["W1.npy", "W0.npy"], "teacher must be a vector"),
        (["W1.npy", "theta.npy", "--neurons", "rows"], 'try neurons="columns"'),
        (["W1.npy", "theta.npy", "--directions", "7"], "directions must be"),
        (["W1.npy", "theta.npy", "--beta", "3"], "beta must be N/d = 150/120"),
        (["W1.npy", "theta.npy", "--replicates", "-1"], "replicates must be"),
        (["W1.npy", "theta.npy", "--teacher-terms", "blah"], "teacher-terms must be"),
    ],
)
def test_command_refuses_nonsense(
    files: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["features", *arguments, *FLAGS]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_comparison_agrees(layer: FirstLayer) -> None:
    found = compare_features(
        layer.after,
        PROBLEM.replace(ridge=(0.02, 0.5)),
        layer.teacher,
        initial=layer.before,
        replicates=40,
    )
    assert found.largest_z < 4.5
    assert [row.quantity for row in found.quantities] == ["risk"] * 2 + ["training_error"] * 2
    assert abs(found["risk"].relative) < 0.05
    assert found.to_dict()["bulk"] == "given"


def test_comparison_knows_terms_bias_covariance_and_rows() -> None:
    generator = np.random.default_rng(0)
    d, width = 100, 80
    problem = Problem(
        student="tanh", teacher="sin", alpha=2.0, beta=width / d, ridge=0.1, noise=0.2
    )
    pair = np.linalg.qr(generator.standard_normal((d, 2)))[0]
    weights = (
        generator.standard_normal((d, width)) / np.sqrt(d)
        + np.outer(pair.sum(axis=1), generator.standard_normal(width)) / 2
    )
    covariance = np.diag(np.linspace(0.3, 1.7, d))
    found = compare_features(
        weights.T,
        problem,
        pair,
        teacher_terms=("relu",),
        bias=generator.standard_normal(width) / 2,
        covariance=covariance,
        neurons="rows",
        replicates=40,
        seed=3,
    )
    assert found.largest_z < 4.5
    assert abs(found["risk"].relative) < 0.06
    with pytest.raises(InvalidParameter, match="replicates"):
        compare_features(weights, problem, pair, teacher_terms=("relu",), replicates=0)
