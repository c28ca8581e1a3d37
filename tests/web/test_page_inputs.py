"""The page on inputs with a spectrum, teachers of several terms and steps in between."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from firststep import Problem, predict
from firststep.cli import run
from firststep.web import export
from tests.web.browsing import drawn, in_a_browser, slide
from tests.web.serving import PROBLEM

pytestmark = in_a_browser


def shows(page: Page, name: str, value: float) -> None:
    """Wait until a value of the table is the library's."""
    told = page.locator(f"#values tr[data-value={name}] td")
    expect(told).to_have_text(f"{float(f'{value:.5g}')}".replace("-", "−"))


def test_inputs_the_teacher_s_place_and_its_terms(page: Page, tmp_path: Path) -> None:
    """In the address, the table and the program; what has no place is put away and goes back."""
    expect(page.locator("#f-teacher_overlaps")).to_be_hidden()
    page.select_option("#f-inputs", "two-level")
    expect(page.locator("#f-teacher_terms")).to_be_hidden()
    expect(page.locator("#fields")).to_contain_text(
        "With inputs two-level there is no choice of further terms."
    )
    page.fill("#p-inputs-two-level-1", "0.3")
    slide(page, "inputs-two-level", 0.5)
    page.select_option("#f-teacher_overlaps", "top")
    page.fill("#p-teacher_overlaps-top", "0.3")
    own = {"inputs": "two-level:3.16:0.3", "teacher_overlaps": "top:0.3"}
    shows(page, "risk", predict(Problem(**{**PROBLEM, **own})).risk)
    expect(page.locator("#weights-notes")).to_be_empty()  # the edge and the outlier are predicted
    expect(page.locator("#split")).to_contain_text("the whole signal")
    for name, text in own.items():
        page.wait_for_function(f"() => location.hash.includes('{name}={text}')")
    page.click("#take-command")
    flags = "--inputs two-level:3.16:0.3 --teacher-overlaps top:0.3"
    expect(page.locator("#take-text")).to_have_value(re.compile(flags))
    page.click("[data-close=take-dialog]")
    page.select_option("#f-inputs", "gaussian")
    page.fill("#f-teacher_terms", "relu, z")
    found = predict(Problem(**{**PROBLEM, "teacher_terms": "relu,z"}))
    for number, value in enumerate(found.alignments, 1):
        shows(page, f"alignment_{number}", value)
    expect(page.locator("#level-kernel-bound")).to_have_text(f"{found.kernel_lower_bound:.3g}")
    expect(page.locator("#curve-card")).to_have_attribute("aria-busy", "false")
    with page.expect_download() as waiting:
        page.click("#save-csv")
    waiting.value.save_as(tmp_path / "curve.csv")
    with (tmp_path / "curve.csv").open() as file:
        row = next(csv.DictReader(file))
    told = {name: row[name] for name in ("inputs", "teacher_overlaps", "teacher_terms")}
    assert told == {"inputs": "gaussian", "teacher_overlaps": "equal", "teacher_terms": "relu, z"}
    assert Problem(**{**PROBLEM, **told}) == found.problem
    page.wait_for_function("() => location.hash.includes('teacher_terms=relu')")
    page.reload()
    expect(page.locator("#f-teacher_terms")).to_have_value("relu, z")


def test_what_cannot_be_is_said_at_the_field(
    context: BrowserContext, served: tuple[str, int]
) -> None:
    page = context.new_page()
    page.goto(served[0] + "#inputs=spectrum:secret.npy")
    expect(page.locator("#e-inputs")).to_contain_text("no file is read for the page")
    page.select_option("#f-inputs", "power-law")
    expect(page.locator("#e-inputs")).to_have_text("")
    expect(page.locator("#e-dimension")).to_contain_text("a finite one with inputs power-law:0.3")
    page.uncheck("#inf-dimension")
    page.fill("#f-dimension", "60")
    shows(
        page,
        "risk",
        predict(Problem(**PROBLEM | {"inputs": "power-law:0.3", "dimension": 60})).risk,
    )
    expect(page.locator("#e-dimension")).to_have_text("")
    # A line that comes in parts has its band all the same.
    expect(page.locator("#curve-card")).to_have_attribute("aria-busy", "false")
    expect(page.locator("#curve-chart svg polygon")).to_have_count(2)
    for terms, message in (("relu,", "teacher-terms must be"), ("z,z,z,z", "at most 3")):
        page.goto(f"{served[0]}#teacher_terms={terms}")
        expect(page.locator("#e-teacher_terms")).to_contain_text(message)
    page.goto(served[0] + "#teacher_terms=relu&inputs=two-level:4:0.2")
    expect(page.locator("#e-teacher_terms")).to_contain_text("none with inputs two-level:4:0.2")


def test_a_step_between_small_and_large(page: Page) -> None:
    page.select_option("#s-step_exponent", "other")
    expect(page.locator("#f-step_exponent")).to_have_value("0.25")
    page.fill("#f-step_exponent", "0.3")
    shows(page, "risk", predict(Problem(**{**PROBLEM, "step_exponent": 0.3})).risk)
    page.fill("#f-step_exponent", "0.6")
    expect(page.locator("#e-step_exponent")).to_contain_text("from 0 to 0.5 at d = infinity")


@pytest.mark.parametrize(
    "own",
    [
        {"teacher_terms": "relu"},
        pytest.param(
            {"inputs": "power-law:0.3", "teacher_overlaps": "top:0.1"}, marks=pytest.mark.slow
        ),
    ],
)
def test_the_single_file(
    context: BrowserContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, Any]
) -> None:
    """Of a grid of two problems."""

    def axis(problem: Problem, name: str, count: int) -> list[float]:
        value = float(getattr(problem, name))
        return [value, 2 * value] if name == "alpha" else [value]

    monkeypatch.setattr(export, "_axis", axis)
    monkeypatch.setattr(export, "available_cores", lambda: 1)
    path = tmp_path / "page.html"
    given = {**own, **({"dimension": 60} if "inputs" in own else {})}
    flags = [text for name, value in given.items() for text in (f"--{name}", str(value))]
    flags = [text.replace("_", "-") if text.startswith("--") else text for text in flags]
    assert run(["explore", "--export", str(path), *flags]) == 0
    page = context.new_page()
    page.goto(path.as_uri())
    drawn(page)
    found = predict(Problem(**{**PROBLEM, **given}))
    expect(page.locator("#level-kernel-bound")).to_have_text(f"{found.kernel_lower_bound:.3g}")
    for number, value in enumerate(found.alignments if "teacher_terms" in own else [], 1):
        told = page.locator(f"#values tr[data-value=alignment_{number}] td")
        expect(told).to_have_text(re.compile(f"{value:.4g}"[:5]))
    notes = page.locator("#weights-notes")
    if "teacher_terms" in own:
        expect(notes).to_contain_text("teachers of one direction")
    else:
        expect(notes).to_be_empty()
    for name, value in own.items():
        expect(page.locator(f"#f-{name}")).to_be_disabled()
        expect(page.locator(f"#f-{name}")).to_have_value(value.split(":")[0])
    page.click("#take-toml")
    for name, value in own.items():
        expect(page.locator("#take-text")).to_have_value(re.compile(f'{name} = "{value}"'))
