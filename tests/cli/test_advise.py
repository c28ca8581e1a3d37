"""``firststep advise``: output, files, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from firststep.cli import run


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 3))
    price = np.tanh(2 * x[:, :1]) + 0.1 * rng.standard_normal((40, 1))
    path = tmp_path / "houses.csv"
    np.savetxt(
        path, np.hstack([x, price]), delimiter=",", header="area,age,rooms,price", comments=""
    )
    return path


def test_text_json_and_report(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.html"
    words = ["advise", str(table), "--target", "price", "--width", "16"]
    assert run([*words, "--drop", "age", "--report", str(report)]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "houses.csv: price from 2 columns, 40 rows"
    assert out.splitlines()[1].startswith(("Yes: ", "No: "))
    assert out.splitlines()[-1] == f"wrote {report}"
    assert "in memory" in err
    assert report.read_text().startswith("<!doctype html>")
    assert run([*words, "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == ""
    assert found["columns"] == ["area", "age", "rooms"]
    assert found["answer"] in ("yes", "no")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--target prize", "did you mean price?"),
        ("", "target must be the name or place of a column"),
        ("--target price --drop price", "drop must be"),
        ("--target price --rows 5", "rows must be a whole number >= 10"),
        ("--target price --seed x", "seed must be"),
        ("--target price --report x.pdf", "report must be the name of an .html file"),
    ],
)
def test_mistakes_end_in_one_line(
    table: Path, flags: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["advise", str(table), *flags.split()]) == 2
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 1
    assert err[0].startswith("error: ")
    assert words in err[0]


def test_interrupted(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import firststep.advice.asking as asking

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(asking, "find_direction", stop)
    assert run(["advise", str(table), "--target", "price", "--width", "16"]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "interrupted"
