"""``advise`` from a table to its words: answers that are known, causes, reports."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

import firststep
from firststep import Advice, InvalidParameter, advise
from firststep.advice.intervals import Interval
from firststep.advice.measured import LINEAR, MEAN, ONE_STEP, REDRAWS, SEVERAL


def drawn(n: int, d: int, kind: str, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    z = x[:, 0]
    y = {"tanh": np.tanh(3 * z), "even": z**2 - 1, "linear": z, "noise": 0 * z}[kind]
    return x, y + (0.2 if kind != "noise" else 1.0) * rng.standard_normal(n)


def asked(n: int, d: int, kind: str, **options: Any) -> Advice:
    return advise(*drawn(n, d, kind), **{"width": 64, **options})


@pytest.fixture(scope="module")
def tanh() -> Advice:
    return asked(600, 20, "tanh")


@pytest.fixture(scope="module")
def diabetes() -> Advice:
    return advise(load_diabetes(as_frame=True).frame, target="target", width=64)


def test_yes_where_a_step_is_known_to_help(tanh: Advice) -> None:
    assert tanh.answer == "yes"
    assert tanh.sentence.startswith("Yes: ")
    assert tanh.causes == ()
    assert tanh.recommended.model in (ONE_STEP, SEVERAL, REDRAWS)
    assert tanh.recommended.call.startswith("OneStepRegressor(")
    assert tanh.measured.gains["one step over no step"].is_positive
    assert tanh.direction.spike_stands_out
    assert tanh.direction.leading_columns()[0][0] == 0


def test_no_on_diabetes(diabetes: Advice) -> None:
    assert diabetes.answer == "no"
    assert "no gain from a step can be told from zero at 95 %" in diabetes.sentence
    assert "a linear fit is enough" in diabetes.causes
    assert diabetes.recommended.model == LINEAR
    assert diabetes.columns[2] == "bmi"
    assert any("bmi" in reason for reason in diabetes.reasons)


@pytest.mark.parametrize(
    ("n", "d", "kind", "cause"),
    [
        (200, 10, "noise", "nothing to learn"),
        (400, 40, "even", "no linear part"),
        (40, 50, "tanh", "too few samples"),
        (300, 20, "linear", "a linear fit is enough"),
    ],
)
def test_no_names_its_cause(n: int, d: int, kind: str, cause: str) -> None:
    found = asked(n, d, kind)
    assert found.answer == "no"
    assert cause in found.causes, found.reasons


def test_redraws_where_one_direction_is_not_enough() -> None:
    """A product of two columns: nothing for one step, and nothing that is linear."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 6))
    found = advise(rows, rows[:, 0] * rows[:, 1] + 0.1 * rng.standard_normal(300), width=32)
    assert found.answer == "no"
    assert found.recommended.model == REDRAWS
    assert found.recommended.call.startswith("OneStepRegressor()")
    assert "But redraws of the whole first layer help" in found.sentence
    assert any(each.startswith("Redraws of the whole") for each in found.reasons)
    assert "redraws" in str(found)


def test_an_exact_linear_fit_is_no_huge_percentage() -> None:
    rows = np.random.default_rng(0).standard_normal((200, 5))
    found = advise(rows, 2 * rows[:, 0] + 1, seed=0, width=32)
    assert "a linear fit is enough" in found.causes
    assert "A linear fit is nearly exact (R² 1)" in str(found)
    assert "times as large" in str(found)
    assert not re.search(r"\d{4,} %", str(found))
    assert found.measured.determination[LINEAR].low > 0.999999
    assert all(each.high <= 1 for each in found.measured.determination.values())


def test_noise_is_hardly_ever_a_yes() -> None:
    """Of five seeds none; tests/scripts/advice_tables.py has twenty, at full size."""
    for seed in range(5):
        found = advise(*drawn(100, 8, "noise", seed + 10), seed=seed, width=16)
        assert found.answer == "no"
        assert found.recommended.model in (MEAN, LINEAR)


def test_the_same_seed_is_the_same_advice() -> None:
    one, other, third = (asked(45, 30, "tanh", width=16, seed=seed) for seed in (5, 5, 6))
    assert str(one) == str(other)
    assert str(one) != str(third)
    assert one.options == {"seed": 5, "width": 16}


@pytest.mark.parametrize(("n", "d"), [(10, 1), (10, 3), (12, 60), (45, 1)])
def test_the_smallest_tables(n: int, d: int) -> None:
    found = asked(n, d, "linear", width=16)
    assert found.answer in ("yes", "no")
    json.dumps(found.to_dict(), allow_nan=False)


def test_two_classes_are_numbers_with_a_note() -> None:
    x, y = drawn(40, 30, "tanh")
    found = advise(x, y > 0, width=16)
    assert "OneStepClassifier" in found.notes_on_data[0]
    assert "OneStepClassifier" in str(found)


def test_text_has_the_verdict_first(diabetes: Advice) -> None:
    lines = str(diabetes).splitlines()
    assert lines[0].endswith("target from 10 columns, 442 rows")
    assert lines[1] == diabetes.sentence
    assert sum(line.startswith("- ") for line in lines) == len(diabetes.reasons) + 1
    assert "nan" not in str(diabetes)
    assert diabetes.sentence in diabetes._repr_html_()


def test_json_has_everything(diabetes: Advice) -> None:
    found = json.loads(json.dumps(diabetes.to_dict(), allow_nan=False))
    assert found["answer"] == "no"
    assert found["level"] == 0.95
    risk = found["measured"]["risks"]["one step"]
    assert risk["low"] < risk["value"] < risk["high"]
    assert found["versions"]["firststep"]
    assert found["matched"]["problem"]["student"] == "tanh(z + 1)"
    assert [point["rows"] for point in found["curve"]["points"]["no step"]][2] == 442


def test_a_report_is_one_file_that_loads_nothing(diabetes: Advice, tmp_path: Any) -> None:
    warned = replace(diabetes, warnings=("a <column> is a copy",))
    path = warned.report(tmp_path / "report.html")
    text = path.read_text()
    assert diabetes.sentence in text
    assert "a &lt;column&gt; is a copy" in text
    assert "data:image/png;base64," in text
    assert not re.findall(r'(?:src|href)="(?!data:)', text)
    assert "<script" not in text
    with pytest.raises(InvalidParameter, match=r"report must be the name of an \.html file"):
        diabetes.report(tmp_path / "report.pdf")


def test_a_report_that_cannot_be_written_is_said_before_the_work() -> None:
    with pytest.raises(InvalidParameter, match="in a folder that exists"):
        asked(20_000, 100, "tanh", report="/nowhere/report.html")
    with pytest.raises(InvalidParameter, match=r"the name of an \.html file; got 3"):
        asked(20_000, 100, "tanh", report=3)


def test_progress_ends_at_its_total() -> None:
    seen: list[tuple[int, int]] = []
    said: list[str] = []
    asked(
        60,
        4,
        "tanh",
        width=16,
        progress=lambda *at: seen.append(at),
        announce=lambda t: said.append(t),
    )
    assert seen[-1][0] == seen[-1][1]
    assert [finished for finished, _ in seen] == list(range(1, len(seen) + 1))
    assert "60 rows x 4 columns" in said[0]


def test_words_of_other_answers(tanh: Advice) -> None:
    """Sentences for outcomes that are rare: a gain that a linear fit has too, and a loss."""
    from firststep.advice.verdict import Evidence, decide

    measured = tanh.measured
    parts = {
        name: getattr(tanh, name)
        for name in ("columns", "target", "direction", "trust", "matched", "recommended", "curve")
    }

    def said(**changes: Interval) -> str:
        gains = {**measured.gains, **{key.replace("_", " "): v for key, v in changes.items()}}
        found = Evidence(rows=600, measured=replace(measured, gains=gains), **parts)
        return decide(found).sentence

    none, loss = Interval(0.0, -0.1, 0.1), Interval(-0.2, -0.3, -0.1)
    beside = said(one_step_over_linear=none, three_steps_over_linear=none)
    assert beside.startswith("No: one step lowers the error of the network by")
    assert "no gain over a linear fit" in beside
    worse = said(one_step_over_no_step=loss, three_steps_over_no_step=loss)
    assert worse.startswith("No: one step makes the error larger")


def test_it_is_public_and_loaded_when_asked_for() -> None:
    assert firststep.advise is advise
    assert "advise" in dir(firststep)
