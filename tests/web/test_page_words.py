"""The sentences beneath the curve, in a real browser."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from firststep import Problem, predict
from tests.web.browsing import SLOW, in_a_browser, slide
from tests.web.serving import PROBLEM

pytestmark = in_a_browser


def test_they_are_the_library_s_and_follow_the_picture(page: Page) -> None:
    line = page.locator("#sentences")
    problem = Problem(**PROBLEM)
    expect(line).to_have_text(predict(problem).in_words(), timeout=SLOW)
    expect(line).to_have_attribute("aria-live", "polite")
    slide(page, "ridge", 0.9)
    ridge = float(page.input_value("#f-ridge"))
    told = predict(problem.replace(ridge=ridge)).in_words()
    expect(line).to_have_text(told, timeout=SLOW)
    expect(line).not_to_have_class("sentences outdated")
    page.click("#undo")
    expect(line).to_have_text(predict(problem).in_words(), timeout=SLOW)


def test_they_fade_where_the_problem_is_at_fault(page: Page) -> None:
    line = page.locator("#sentences")
    expect(line).not_to_be_empty(timeout=SLOW)
    page.fill("#f-student", "tanh(1000*z)")
    expect(page.locator("#e-curve, #e-student").filter(has_text="tanh(1000*z)")).to_be_visible(
        timeout=SLOW
    )
    expect(line).to_be_empty(timeout=SLOW)
    page.fill("#f-student", "tanh")
    expect(line).to_contain_text("The step cuts the risk", timeout=SLOW)


def test_a_fault_that_is_mended_leaves_no_panel(page: Page) -> None:
    page.fill("#f-student", "tanh(1000*z)")
    expect(page.locator(".error").filter(has_text="too steep").first).to_be_visible(timeout=SLOW)
    page.wait_for_timeout(3000)
    page.fill("#f-student", "tanh")
    expect(page.locator("#sentences")).to_contain_text("The step cuts the risk", timeout=SLOW)
    for error in page.locator(".error").all():
        expect(error).to_be_empty(timeout=SLOW)
