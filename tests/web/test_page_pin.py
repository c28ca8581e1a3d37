"""A pinned problem stays while the hand moves on, in a real browser."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, expect

from firststep import Problem, predict
from tests.web.browsing import SLOW, drawn, in_a_browser, moved, paths, slide
from tests.web.serving import PROBLEM

pytestmark = in_a_browser


def test_the_pinned_curve_is_kept_in_the_picture_the_link_and_the_csv(
    page: Page, tmp_path: Path
) -> None:
    page.click("#pin")
    place = page.locator("#pinned")
    expect(place).to_contain_text("A: the problem that is shown.")
    told = predict(Problem(**PROBLEM)).in_words()
    expect(place).to_contain_text(told, timeout=SLOW)
    before = paths(page)
    slide(page, "ridge", 0.9)
    moved(page, before)
    expect(place).to_contain_text("A: ridge 0.03; the rest as here.")
    expect(place).to_contain_text(told)
    expect(place.locator(".piece")).to_have_count(5)
    page.wait_for_function("() => !location.hash.includes('ridge=0.03&')")
    page.reload()
    drawn(page)
    expect(page.locator("#pin")).to_have_attribute("aria-pressed", "true")
    expect(place).to_contain_text("A: ridge 0.03; the rest as here.")
    expect(page.locator("#curve-chart svg")).to_contain_text("A, pinned", timeout=SLOW)
    with page.expect_download() as waiting:
        page.click("#save-csv")
    waiting.value.save_as(tmp_path / "curve.csv")
    with (tmp_path / "curve.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["series"] == "A, pinned"]
    alpha = np.array([float(row["alpha"]) for row in rows])
    assert len(alpha) == 60
    expected = predict(Problem(**PROBLEM), alpha=alpha).risk
    np.testing.assert_allclose([float(row["risk"]) for row in rows], expected, rtol=1e-6)
    page.click("#pin")
    expect(place).to_be_hidden()
    expect(page.locator("#curve-chart svg")).not_to_contain_text("A, pinned")
    page.click("#undo")
    expect(place).to_be_visible()


def test_a_pin_that_says_nothing_is_that_of_the_first_state(page: Page) -> None:
    page.goto(page.url.split("#")[0] + "#pin=nonsense%3D1%26toString%3D2&ridge=0.5")
    page.reload()
    drawn(page)
    expect(page.locator("#pinned")).to_contain_text("A: ridge 0.03; the rest as here.")
