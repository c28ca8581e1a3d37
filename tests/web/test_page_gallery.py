"""The gallery of presets, and the sketch of the network beside the sentences."""

from __future__ import annotations

import math
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from firststep import Problem, predict
from firststep.web.about import about
from tests.scripts.thumbnails import POINTS, lines, phase, question
from tests.web.browsing import SLOW, in_a_browser, slide
from tests.web.serving import PROBLEM

SHARES_AN_EXPLORER = True
PRESETS = {each["name"]: each for each in about()["presets"]}
WRITE = "python -m tests.scripts.thumbnails writes them anew"


def same(one: list[float | None], other: list[float | None]) -> bool:
    """To the digits that are kept; where the theory has no number there is none."""
    return len(one) == len(other) and all(
        a is b is None or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-3))
        for a, b in zip(one, other, strict=True)
    )


def test_every_preset_has_a_picture_of_its_state() -> None:
    for name, preset in PRESETS.items():
        assert preset["thumbnail"], f"{name}: {WRITE}"
        assert preset["thumbnail"]["question"] == question(preset["state"]), f"{name}: {WRITE}"


def drawn_lines(preset: dict[str, Any], places: list[int]) -> dict[str, list[float | None]]:
    kept = preset["thumbnail"]["lines"]
    return {name: [values[place] for place in places] for name, values in kept.items()}


@pytest.mark.parametrize("name", ["peak", "no-alignment", "ba-fig2", "cui-alignment"])
def test_some_pictures_are_the_library_s(name: str) -> None:
    places = [0, 8, POINTS - 1]
    found, kept = lines(PRESETS[name]["state"], places), drawn_lines(PRESETS[name], places)
    assert found.keys() == kept.keys()
    assert all(same(found[line], kept[line]) for line in kept), WRITE


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_all_pictures_are_the_library_s(name: str) -> None:
    preset = PRESETS[name]
    if "phase" in preset["thumbnail"]:
        rows = phase(preset["state"])
        assert all(map(same, rows, preset["thumbnail"]["phase"])), WRITE
        return
    places = list(range(POINTS))
    found, kept = lines(preset["state"], places), drawn_lines(preset, places)
    assert found.keys() == kept.keys()
    assert all(same(found[line], kept[line]) for line in kept), WRITE


@in_a_browser
def test_a_picture_of_the_gallery_leads_to_its_preset(page: Page) -> None:
    page.focus("#gallery")
    page.keyboard.press("Enter")
    cards = page.locator("#gallery-cards button")
    expect(cards).to_have_count(len(PRESETS))
    for card in cards.all():
        drawing = card.locator("svg path, svg rect").first
        expect(drawing).to_be_attached()
        for attribute in ("d", "x"):
            assert "NaN" not in (drawing.get_attribute(attribute) or "")
    card = page.locator('[data-preset="beating-kernels"]')
    expect(card).to_contain_text("beating the kernel bound")
    expect(card).to_contain_text("below what any fixed kernel can reach")
    card.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#gallery-dialog")).to_be_hidden()
    expect(page.locator("#preset")).to_have_value("beating-kernels")
    expect(page.locator("#f-alpha0")).to_have_value("20")
    page.click("#gallery")
    page.keyboard.press("Escape")
    expect(page.locator("#gallery-dialog")).to_be_hidden()
    page.click("#undo")
    expect(page.locator("#f-alpha0")).to_have_value("8")


TIP = """() => {
  const path = [...document.querySelectorAll('#sketch path')]
    .find((node) => node.getAttribute('stroke-width') === '3');
  const [from, to] = path.getAttribute('d').slice(1).split('L')
    .map((each) => each.split(' ').map(Number));
  return [to[0] - from[0], from[1] - to[1]];
}"""
NEURONS = "() => document.querySelectorAll('#sketch circle').length"


@in_a_browser
def test_the_sketch_turns_towards_the_teacher(page: Page) -> None:
    """Its arrow has the angle of the library's alignment, and neurons and samples are counted."""
    sketch = page.locator("#sketch svg")

    def angle_of(**changes: Any) -> float:
        cosine = float(predict(Problem(**{**PROBLEM, **changes})).alignment)
        return math.degrees(math.acos(cosine))

    def told(degrees: float, samples: str) -> str:
        return f"after a step on {samples} d samples, {round(degrees)}° from the teacher."

    expect(sketch).to_have_attribute(
        "aria-label", "A network of 1 d neurons, fitted on 2 d samples, " + told(angle_of(), "8")
    )
    across, up = page.evaluate(TIP)
    assert math.degrees(math.atan2(across, up)) == pytest.approx(angle_of(), abs=0.5)
    page.fill("#f-alpha0", "0.5")
    blind = angle_of(alpha0=0.5)
    assert blind > angle_of() + 20
    expect(sketch).to_have_attribute(
        "aria-label", "A network of 1 d neurons, fitted on 2 d samples, " + told(blind, "0.5")
    )
    across, up = page.evaluate(TIP)
    assert math.degrees(math.atan2(across, up)) == pytest.approx(blind, abs=0.5)
    before = page.evaluate(NEURONS)
    page.fill("#f-beta", "20")
    expect(sketch).to_have_attribute(
        "aria-label",
        "A network of 20 d neurons, fitted on 2 d samples, " + told(blind, "0.5"),
        timeout=SLOW,
    )
    assert page.evaluate(NEURONS) > before
    page.fill("#f-student", "x")
    expect(page.locator("#sketch")).to_have_class("sketch outdated")
    page.fill("#f-student", "tanh")
    expect(page.locator("#sketch")).to_have_class("sketch")
    slide(page, "step", 0.0)
    expect(sketch).to_have_attribute(
        "aria-label", "A network of 20 d neurons, fitted on 2 d samples; it takes no step."
    )
