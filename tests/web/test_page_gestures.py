"""Drags, Back, undo, the lock of the axis and the ghost of the last curve, in a real browser."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.web.browsing import drawn, in_a_browser, moved, paths, slide

pytestmark = in_a_browser
SHARES_AN_EXPLORER = True

# A hand that holds the slider: input events without the change that ends them.
HOLD = """(slider, place) => {
  slider.value = String(Number(slider.max) * place);
  slider.dispatchEvent(new Event('input', { bubbles: true }));
}"""
LET_GO = "(slider) => slider.dispatchEvent(new Event('change', { bubbles: true }))"
WIDTHS = """() => [...document.querySelectorAll('#curve-chart svg g[clip-path] path')]
  .map((path) => [path.getAttribute('stroke-width'), path.getAttribute('d')])"""
TICKS = """() => [...document.querySelectorAll('#curve-chart svg text')]
  .map((text) => text.textContent).filter((text) => /^[0-9.]+$/.test(text))"""


def test_a_drag_that_rests_is_one_undo(page: Page) -> None:
    slider = page.locator("#s-ridge")
    value = page.input_value("#f-ridge")
    slider.evaluate(HOLD, 0.3)
    page.wait_for_timeout(1300)  # longer than two changes of one gesture lie apart
    slider.evaluate(HOLD, 0.9)
    slider.evaluate(LET_GO)
    page.click("#undo")
    expect(page.locator("#f-ridge")).to_have_value(value)
    expect(page.locator("#undo")).to_be_disabled()


def test_back_goes_back(page: Page) -> None:
    """To before the control that was moved last, and not away from the page."""
    slide(page, "ridge", 0.9)
    page.wait_for_function("() => !location.hash.includes('ridge=0.03&')")
    slide(page, "ridge", 0.95)
    page.select_option("#preset", "peak")
    page.wait_for_function(
        "() => location.hash.includes('1e-5') || location.hash.includes('0.00001')"
    )
    peak = page.url
    page.select_option("#story-choice", "why")
    page.wait_for_function("() => location.hash.includes('story=why')")
    page.click("#story-next")
    page.wait_for_function("() => location.hash.includes('screen=2')")
    page.go_back()
    expect(page.locator("#story-place")).to_contain_text("1 of")
    page.go_back()
    expect(page.locator("#story")).to_be_hidden()
    assert page.url == peak
    expect(page.locator("#f-ridge")).to_have_value("1e-5")
    page.go_back()
    expect(page.locator("#f-ridge")).not_to_have_value("1e-5")
    page.go_back()
    expect(page.locator("#f-ridge")).to_have_value("0.03")
    page.go_forward()
    expect(page.locator("#f-ridge")).not_to_have_value("0.03")
    assert paths(page)


def test_a_locked_axis_stays_in_the_picture_and_the_link(page: Page) -> None:
    ticks = page.evaluate(TICKS)
    page.check("#lock")
    before = paths(page)
    slide(page, "step", 0.0)
    moved(page, before)
    assert page.evaluate(TICKS) == ticks
    page.wait_for_function("() => location.hash.includes('lock=')")
    page.reload()
    drawn(page)
    expect(page.locator("#lock")).to_be_checked()
    assert page.evaluate(TICKS) == ticks
    page.uncheck("#lock")
    page.wait_for_function("() => !location.hash.includes('lock=')")
    page.check("#lock")
    page.select_option("#quantity", "alignment")
    expect(page.locator("#lock")).not_to_be_checked()


def test_a_lock_that_says_nothing_locks_nothing(page: Page) -> None:
    ticks = page.evaluate(TICKS)
    for text in ("nonsense", "3,1", "-1,2", "NaN,1"):
        page.goto(f"{page.url.split('#')[0]}#lock={text}")
        page.reload()
        drawn(page)
        expect(page.locator("#lock")).not_to_be_checked()
        assert page.evaluate(TICKS) == ticks


def test_the_last_curve_stays_behind_while_the_hand_moves(page: Page) -> None:
    before = next(d for width, d in page.evaluate(WIDTHS) if width == "2.5")
    page.check("#lock")  # the same heights, to compare
    slider = page.locator("#s-ridge")
    slider.evaluate(HOLD, 0.8)
    page.wait_for_function(
        "(before) => [...document.querySelectorAll('#curve-chart svg g[clip-path] path')].some("
        "(path) => path.getAttribute('stroke-width') === '1' && path.getAttribute('d') === before)",
        arg=before,
    )
    assert any(width == "2.5" and d != before for width, d in page.evaluate(WIDTHS))
    slider.evaluate(LET_GO)
    page.wait_for_function(
        "(before) => ![...document.querySelectorAll('#curve-chart svg path')].some("
        "(path) => path.getAttribute('d') === before)",
        arg=before,
    )
