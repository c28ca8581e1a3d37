"""``firststep inspect``, and a first layer from one tensor of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firststep import Problem, first_layer, inspect, predict_features, read_tensor
from firststep.cli import run
from firststep.simulation.running.layer import FirstLayer
from tests.trained.tensors import write_safetensors

PROBLEM = Problem(
    student="relu", teacher="tanh", alpha=2, beta=1.25, alpha0=4, step=1, ridge=0.05, noise=0.1
)
FLAGS = ["--student=relu", "--teacher=tanh", "--alpha=2", "--ridge=0.05", "--noise=0.1"]


@pytest.fixture(scope="module")
def layer() -> FirstLayer:
    return first_layer(PROBLEM, 120)


@pytest.fixture
def files(layer: FirstLayer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model as PyTorch keeps it: one neuron a row."""
    monkeypatch.chdir(tmp_path)
    after, before = layer.after.T, layer.before.T
    bias = np.zeros(len(after))
    write_safetensors(Path("model.safetensors"), {"fc1.weight": after, "fc1.bias": bias})
    write_safetensors(Path("init.safetensors"), {"fc1.weight": before, "fc1.bias": bias})
    write_safetensors(Path("nan.safetensors"), {"fc1.weight": np.full((20, 20), np.nan)})
    write_safetensors(Path("other.safetensors"), {"fc1.weight": before.T})
    write_safetensors(Path("bias.safetensors"), {"fc1.bias": bias})
    np.savez("model.npz", fc1=layer.after, theta=layer.teacher)
    np.save("theta.npy", layer.teacher)
    Path("table.csv").write_text("a,b\n1,2\n")
    return tmp_path


def test_command_looks(files: Path, layer: FirstLayer, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["inspect", "model.safetensors", "--before", "init.safetensors"]
    assert run([*command, "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    expected = inspect({"fc1.weight": layer.after.T}, {"fc1.weight": layer.before.T})
    first = expected["fc1.weight"]
    assert first.weights is not None
    assert table["layers"][0]["weights"]["values"] == pytest.approx(first.weights.values)
    assert table["skipped"] == [{"name": "fc1.bias", "reason": "no matrix"}]
    assert run(command) == 0
    told = capsys.readouterr().out
    assert "fc1.weight, change" in told
    assert "outlier 1" in told


@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_command_draws(files: Path, ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    command = ["inspect", "model.safetensors", "--before", "init.safetensors"]
    assert run([*command, "--layer", "fc1.*", "--out", f"out/look{ending}"]) == 0
    assert "wrote" in capsys.readouterr().out
    assert Path(f"out/look{ending}").stat().st_size > 5000
    lines = Path("out/look.csv").read_text().splitlines()
    series = {line.split(",")[-5] for line in lines[1:]}
    assert {"histogram", "law", "outlier"} <= series


def test_command_writes_the_table(files: Path) -> None:
    assert run(["inspect", "model.safetensors", "--out", "look.csv", "--json"]) == 0
    assert Path("look.csv").read_text().startswith("matrix,of,rows,columns,largest,kind")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.safetensors"], "No such file"),
        (["table.csv"], "must be a valid .safetensors, .npz or .npy file of numbers"),
        (["."], "must be a readable .safetensors"),
        (["nan.safetensors"], "must be tensors of finite numbers"),
        (["bias.safetensors"], "at least one matrix"),
        (["model.safetensors:fc2.weight"], "name of a tensor there"),
        (["model.safetensors", "--before", "other.safetensors"], "of the shapes of the weights"),
        (["model.safetensors", "--before", "none.npy"], "before must be a readable"),
        (["model.safetensors", "--layer", "fc2"], "layer must be the name of a matrix"),
        (["model.safetensors", "--out", "look.gif"], "out must be a file name that ends in"),
    ],
)
def test_command_refuses_nonsense(
    files: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["inspect", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("weights", "initial"),
    [
        ("model.safetensors:fc1.weight", "init.safetensors:fc1.weight"),
        ("model.npz:fc1", "other.safetensors:fc1.weight"),
    ],
)
def test_features_of_a_tensor(
    files: Path, layer: FirstLayer, weights: str, initial: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows or columns: the length of the direction says it, and so does the command."""
    expected = predict_features(layer.after, PROBLEM, layer.teacher, initial=layer.before)
    flags = ["--initial", initial, *FLAGS, "--json"]
    assert run(["features", weights, "theta.npy", *flags]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert json.loads(captured.out)["risk"] == pytest.approx(expected.risk, rel=1e-9)
    assert run(["features", weights, "model.npz:theta", *FLAGS]) == 0
    rows = read_tensor(weights).shape[0] == 150
    assert f"one neuron a {'row' if rows else 'column'} (--neurons" in capsys.readouterr().err
    other = "columns" if rows else "rows"
    assert run(["features", weights, "theta.npy", "--neurons", other, *FLAGS]) == 2


def test_features_of_a_square_tensor_are_rows(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generator = np.random.default_rng(0)
    square: Any = generator.standard_normal((120, 120)) / np.sqrt(120)
    write_safetensors(Path("square.safetensors"), {"w": square})
    np.save("square.npy", square.T)
    risks = []
    for weights in ("square.safetensors:w", "square.npy"):
        assert run(["features", weights, "theta.npy", *FLAGS, "--json"]) == 0
        risks.append(json.loads(capsys.readouterr().out)["risk"])
    assert risks[0] == pytest.approx(risks[1], rel=1e-9)
