"""Stories: their numbers are the library's, and they are played with the keyboard."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from firststep import Problem, predict
from firststep.cli import run
from firststep.web import export
from firststep.web.about import about
from firststep.web.asked import PageProblem
from firststep.web.presets import stories
from firststep.web.words import FIELDS
from tests.web.browsing import SLOW, drawn, in_a_browser, moved, paths, slide

SCREENS = {
    f"{story['name']} {number}": screen
    for story in stories()
    for number, screen in enumerate(story["screens"], 1)
}
SHARES = {"fluctuation": "fluctuation", "across": "across", "shape": "along"}
SHARES |= {"out_of_reach": "out_of_reach"}


@pytest.mark.parametrize("name", SCREENS)
def test_the_numbers_of_a_screen_are_those_of_its_state(name: str) -> None:
    screen = SCREENS[name]
    problem = PageProblem.of({field: screen["state"][field] for field in FIELDS})
    found = predict(problem)
    assert screen["facts"], "a screen without a number says nothing that could be checked"
    for quantity, told in screen["facts"].items():
        text = f"{screen['words']} {screen['answer']}"
        if quantity in SHARES:
            split = found.error_split
            value = 100 * getattr(split, SHARES[quantity]) / split.risk
            assert value == pytest.approx(told, abs=0.5)
            assert f"{told} %" in text
            continue
        value = found.error_split.total if quantity == "total" else getattr(found, quantity)
        assert float(f"{value:.3g}") == pytest.approx(told, rel=1e-12), quantity
        assert re.search(rf"(?<![0-9.]){re.escape(f'{told:.15g}')}(?![0-9])", text), quantity


# Numbers of the sentences that belong to other states than the screen's own.
BESIDE: list[tuple[str, dict[str, Any], str, str]] = [
    ("why 3", {"alpha0": 0.5}, "alignment", "0.542"),
    ("why 3", {"alpha0": 0.5}, "risk", "0.252"),
    ("why 3", {"alpha0": 32.0}, "alignment", "0.982"),
    ("why 3", {"alpha0": 32.0}, "risk", "0.056"),
    ("why 4", {"step": 3.98}, "risk", "0.0544"),
    ("infinity 3", {"step": 2.0, "dimension": 300}, "risk", "0.0748"),
    ("infinity 3", {"step": 2.0, "dimension": "inf"}, "risk", "0.0742"),
    ("peak 2", {"alpha": 0.5}, "risk", "0.409"),
    ("peak 2", {"alpha": 1.0, "step": 0.0}, "risk", "13.2"),
    ("direction 4", {}, "second alignment", "0.583"),
    ("classes 1", {"alpha": 32.0}, "error_rate", "0.286"),
    ("classes 2", {"alpha": 0.5}, "error_rate", "0.238"),
    ("classes 3", {"loss": "logistic"}, "error_rate", "0.179"),
    ("inputs 1", {"alpha0": 1.0}, "risk", "0.0407"),
    ("inputs 2", {"alpha0": 1.0}, "risk", "0.327"),
    ("inputs 2", {"alpha0": 1.0}, "alignment", "0.266"),
    ("inputs 3", {"teacher_overlaps": "rise:1"}, "risk", "0.0968"),
    ("inputs 3", {"teacher_overlaps": "rise:1"}, "random_features_risk", "0.26"),
]


@pytest.mark.parametrize(("name", "changes", "quantity", "told"), BESIDE)
def test_numbers_beside_a_screen(
    name: str, changes: dict[str, Any], quantity: str, told: str
) -> None:
    screen = SCREENS[name]
    problem = Problem(**{field: screen["state"][field] for field in FIELDS} | changes)
    found = predict(problem)
    value = found.alignments[1] if quantity == "second alignment" else getattr(found, quantity)
    assert f"{value:.3g}" == told
    assert told in f"{screen['words']} {screen['answer']}"


def test_there_are_eight_of_three_or_four_screens_with_a_question() -> None:
    for story in stories():
        assert 3 <= len(story["screens"]) <= 4
        assert any(screen["question"] for screen in story["screens"])
        for screen in story["screens"]:
            assert bool(screen["question"]) == bool(screen["answer"])
    assert len(stories()) == 8
    assert len({story["title"] for story in about()["stories"]}) == 8


@in_a_browser
def test_a_story_is_played_with_the_keyboard(page: Page) -> None:
    page.select_option("#preset", "beating-kernels")
    page.focus("#story-choice")
    page.select_option("#story-choice", "peak")
    expect(page.locator("#preset-caption")).to_have_text("")  # that of the preset is of the past
    first, second, _ = (SCREENS[f"peak {number}"] for number in (1, 2, 3))
    expect(page.locator("#story-words")).to_have_text(first["words"])
    expect(page.locator("#f-ridge")).to_have_value("1e-5")
    page.focus("#story-next")
    page.keyboard.press("Enter")
    expect(page.locator("#story-place")).to_have_text("The double-descent peak, 2 of 3")
    expect(page.locator("#f-alpha")).to_have_value("4")
    answer = page.locator("#story-question p")
    expect(answer).to_be_hidden()
    page.focus("#story-question summary")
    page.keyboard.press("Enter")
    expect(answer).to_have_text(second["answer"])
    assert "story=peak" in page.url or page.wait_for_url("**story=peak**screen=2**") is None
    page.reload()  # a link shows the same screen
    drawn(page)
    expect(page.locator("#story-place")).to_have_text("The double-descent peak, 2 of 3")
    page.focus("#story-back")
    page.keyboard.press("Enter")
    expect(page.locator("#story-back")).to_be_disabled()
    for _ in range(3):
        page.click("#story-next")
    expect(page.locator("#story")).to_be_hidden()
    expect(page.locator("#f-ridge")).to_have_value("0.3")  # the picture stays
    page.click("#undo")
    expect(page.locator("#story")).to_be_visible()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a small grid and the story of the peak, which is of another noise."""
    path = tmp_path_factory.mktemp("export") / "page.html"
    with pytest.MonkeyPatch.context() as patch:
        sizes = {"alpha": 2, "beta": 2, "alpha0": 2, "step": 2, "ridge": 2}
        patch.setattr(export, "FINE", sizes)
        patch.setitem(export.ENDS, "alpha0", (2.0, 32.0))
        patch.setattr(export, "available_cores", lambda: 1)
        assert run(["explore", "--export", str(path)]) == 0
    return path


@in_a_browser
def test_a_story_is_played_in_an_exported_file(context: BrowserContext, exported: Path) -> None:
    """Its screens are recorded, and no number of another problem is shown for them."""
    context.set_offline(True)
    page = context.new_page()
    page.goto(exported.as_uri())
    drawn(page)
    page.select_option("#story-choice", "peak")
    for number in (1, 2, 3):
        screen = SCREENS[f"peak {number}"]
        problem = PageProblem.of({field: screen["state"][field] for field in FIELDS})
        found = predict(problem)
        expect(page.locator("#story-place")).to_contain_text(f"{number} of 3")
        risk = page.locator("#values tr[data-value=risk] td")
        expect(risk).to_have_text(re.compile(re.escape(f"{found.risk:.4g}"[:4])))
        expect(page.locator("#weights-caption")).to_contain_text("One network")
        expect(page.locator("#e-curve")).to_be_empty()
        if number == 2:
            slide(page, "ridge", 1.0)
            expect(page.locator("#e-curve")).to_contain_text("a screen of a story is recorded")
            page.click("#take-python")
            expect(page.locator("#take-status")).to_contain_text("recorded as it is")
            page.keyboard.press("Escape")
        page.focus("#story-next")
        page.keyboard.press("Enter")
    expect(page.locator("#story")).to_be_hidden()
    expect(page.locator("#e-curve")).to_be_empty()
    before = paths(page)
    value = page.input_value("#f-step")
    for place in (0.0, 1.0):  # its grid has two values
        slide(page, "step", place)
        if page.input_value("#f-step") != value:
            break
    moved(page, before)
    page.goto(exported.as_uri() + "#beta=1.234")  # no number of the nearest width for this one
    page.reload()
    expect(page.locator("#e-beta")).to_contain_text("the file has no numbers at beta = 1.234")


@in_a_browser
def test_a_link_may_name_a_story_or_a_screen_that_is_not_there(page: Page) -> None:
    base = page.url.split("#")[0]
    page.goto(f"{base}#story=why&screen=99")
    page.reload()
    drawn(page)
    expect(page.locator("#story-place")).to_have_text("Why a step helps, 4 of 4")
    page.goto(f"{base}#story=nonsense")
    page.reload()
    drawn(page)
    expect(page.locator("#story")).to_be_hidden()
    expect(page.locator("#notice")).to_contain_text("story")


@in_a_browser
def test_a_presentation_fills_a_projector(browser: Browser, served: tuple[str, int]) -> None:
    """1280 x 720 at 150 %: the whole figure with its axis, the sliders asked for, the sentence."""
    context = browser.new_context(viewport={"width": 853, "height": 480}, device_scale_factor=1.5)
    context.set_default_timeout(SLOW)
    page = context.new_page()
    page.goto(f"{served[0]}#present=alpha,step,nonsense")
    drawn(page)
    figure = page.locator("#curve-chart svg").bounding_box()
    assert figure is not None
    assert figure["y"] >= 0
    assert figure["y"] + figure["height"] <= 480
    assert figure["width"] > 800
    shown = page.locator("#fields .field:visible")
    assert [each.get_attribute("data-field") for each in shown.all()] == ["alpha", "step"]
    for slider in ("#s-alpha", "#s-step"):
        box = page.locator(slider).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 480
    expect(page.locator("#sentences")).to_contain_text("The step cuts the risk", timeout=SLOW)
    expect(page.locator("#simulate-form")).to_be_hidden()
    page.keyboard.press("p")
    expect(page.locator("#simulate-form")).to_be_visible()
    page.keyboard.press("p")
    expect(page.locator("#present-end")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#present")).to_be_focused()
    context.close()


@in_a_browser
def test_an_address_asks_for_the_presentation(page: Page, served: tuple[str, int]) -> None:
    page.goto(f"{served[0]}?present#axis=ridge")
    drawn(page)
    expect(page.locator("#present-end")).to_be_visible()
    shown = page.locator("#fields .field:visible")
    assert {each.get_attribute("data-field") for each in shown.all()} == {"ridge", "step", "alpha0"}
    assert "?" not in page.url
    assert "present=" in page.url
    page.goto(f"{served[0]}?present=alpha")
    drawn(page)
    assert [each.get_attribute("data-field") for each in shown.all()] == ["alpha"]
