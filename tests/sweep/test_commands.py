"""The commands on sweeps, in this process."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from firststep.cli import run
from tests.sweep.helpers import table

SMALL = """
[problem]
student = "tanh"
teacher = "sin"
beta = 1
alpha0 = 2
[axes]
alpha = [1, 2]
step = [0.5, 1]
readout = ["ones", "signs"]
[predict]
dimension = "simulated"
[simulate]
models = ["network", "random-features"]
dimension = 30
replicates = 2
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(SMALL)
    return Path("small.toml")


def test_from_the_example_to_a_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["sweep", "init"]) == 0
    text = Path("experiment.toml").read_text()
    assert "firststep sweep run experiment.toml" in text
    Path("experiment.toml").write_text(
        text.replace("[200]", "[40]").replace("replicates = 6", "replicates = 2")
    )
    assert run(["sweep", "init"]) == 2
    assert "--force" in capsys.readouterr().err
    for command in (
        "run --workers 1",
        "status",
        "plot --where ridge=0.01",
        "export --csv a.csv --parquet a.parquet --netcdf a.nc",
    ):
        words = shlex.split(command)
        assert run(["sweep", words[0], "experiment.toml", *words[1:]]) == 0, capsys.readouterr().err
    assert {path.suffix for path in tmp_path.iterdir()} == {
        ".toml",
        ".db",
        ".png",
        ".csv",
        ".parquet",
        ".nc",
    }


def test_status_before_and_after(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "status", str(file)]) == 1
    assert "there is no store small.db" in capsys.readouterr().err
    assert run(["sweep", "run", str(file), "--workers", "1"]) == 0
    capsys.readouterr()
    assert run(["sweep", "status", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (
        told["wanted"] == told["finished"] == 8 + 16 + 8
    )  # the random features are shared by both steps
    assert told["failures"] == []


def test_plots_and_their_refusals(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", "run", str(file), "--workers", "1"]) == 0
    for words in (
        "",
        "--x step --y training-error --where alpha=2",
        "--where readout=ones step=1 --out a.pdf",
        "--y alignment --out b.svg",
    ):
        assert run(["sweep", "plot", str(file), *shlex.split(words)]) == 0, capsys.readouterr().err
    capsys.readouterr()
    for words, message in (
        ("--x beta", "x must be an axis of the experiment: alpha, step, readout"),
        ("--y rsk", "did you mean risk?"),
        ("--where step=7", "where step must be one of 0.5, 1.0"),
        ("--where step", "where must be name=value"),
        ("--out a.gif", "out must be one of .png, .pdf, .svg"),
        ("--out /dev/null/a.png", "out must be a file that can be written"),
    ):
        assert run(["sweep", "plot", str(file), *shlex.split(words)]) == 2, words
        assert message in capsys.readouterr().err


def test_a_sweep_of_classifiers(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A field that came later may be an axis, also where it is at its default."""
    text = SMALL.replace("alpha0 = 2", 'alpha0 = 2\nlabels = "sign"\nalpha = 2')
    axes = 'loss = ["square", "logistic"]\nintercept = [false, true]\nridge = [0.1, 1]\n'
    file.write_text(f"{text.split('alpha = [')[0]}{axes}[simulate]{text.split('[simulate]')[1]}")
    assert run(["sweep", "run", str(file), "--workers", "1"]) == 0
    assert "loss square" in capsys.readouterr().out
    assert run(["sweep", "plot", str(file)]) == 0
    assert Path("small.png").exists()


def test_too_many_lines_say_what_to_fix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "many.toml"
    path.write_text(
        SMALL.replace("step = [0.5, 1]", "step = [0.5, 1, 2, 3, 4]")
        .split("[simulate]")[0]
        .replace('"simulated"', '"inf"')
    )
    assert run(["sweep", "run", str(path), "--workers", "1"]) == 0
    capsys.readouterr()
    assert run(["sweep", "plot", str(path), "--x", "alpha"]) == 2
    assert "--where step=0.5" in capsys.readouterr().err


def test_wrong_input_is_one_line_each(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(SMALL.replace("alpha = [1, 2]", "alpha = [1, -2]").replace("teacher", "techer"))
    assert run(["sweep", "run", str(file)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("error: ") for line in lines)
    file.write_text(SMALL)
    for words, message in (
        ("--shard 3/2", "shard must be i/n"),
        ("--workers 0", "workers must be a whole number >= 1"),
        ("--store none/a.db", "folder of the store does not exist"),
    ):
        assert run(["sweep", "run", str(file), *words.split()]) in (1, 2)
        assert message in capsys.readouterr().err
    assert run(["sweep", "export", str(file)]) == 2
    assert run(["sweep", "repair", "none.db"]) == 1
    assert run(["sweep", "merge", "a.db", "none.db"]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_shards_and_merge(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for part in (1, 2):
        assert (
            run(
                [
                    "sweep",
                    "run",
                    str(file),
                    "--shard",
                    f"{part}/2",
                    "--store",
                    f"{part}.db",
                    "--workers",
                    "1",
                ]
            )
            == 0
        )
    assert run(["sweep", "merge", "small.db", "1.db", "2.db"]) == 0
    assert run(["sweep", "status", str(file)]) == 0
    assert "32 of 32 results" in capsys.readouterr().out


def test_the_helpers_table_is_an_experiment() -> None:
    from firststep import Experiment

    assert len(Experiment.from_dict(table()).points) == 6
