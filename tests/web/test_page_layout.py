"""What can be seen: whole texts, the whole figure in the first view, signs that hide nothing."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.web.browsing import SLOW, drawn, in_a_browser, paths

pytestmark = in_a_browser
SHARES_AN_EXPLORER = True

# A projector of 1280 x 720 at 150 %, a desk, a tablet, a phone.
SCREENS = {"projector": (853, 480), "desk": (1440, 900), "tablet": (1024, 768), "phone": (390, 844)}
STATES = {
    "plain": "",
    "a story": "#story=why&screen=2",
    "presenting": "#present=alpha,step,ridge",
    "presenting a story": "#story=why&screen=2&present=alpha,step",
    "pinned": "#ridge=0.3&pin=ridge%3D0.03",
}
# Of every select of the controls the texts that its box has no room for; an arrow takes 26 px.
CUT_OFF = """() => {
  const pen = document.createElement('canvas').getContext('2d');
  const cut = [];
  for (const select of document.querySelectorAll('#side select, .curve-head select')) {
    if (!select.offsetParent) continue;
    const style = getComputedStyle(select);
    pen.font = style.font;
    const room = select.clientWidth - parseFloat(style.paddingLeft) - 26;
    // of what is shown and against what, the one that is chosen
    const all = select.closest('#side') ? [...select.options] : [...select.selectedOptions];
    for (const { text } of all) {
      if (pen.measureText(text).width > room) cut.push([select.id, text, room]);
    }
  }
  return cut;
}"""
# Of every number box the digits it shows beside its arrows, which take 18 px.
ROOM_IN_BOXES = """(text) => {
  const pen = document.createElement('canvas').getContext('2d');
  return [...document.querySelectorAll('#simulate-form input')].filter((box) => {
    const style = getComputedStyle(box);
    pen.font = style.font;
    const room = box.clientWidth - 2 * parseFloat(style.paddingLeft) - 18;
    return pen.measureText(text).width > room;
  }).map((box) => box.id);
}"""
BOXES_OF_TEXTS = """(chart) => [...document.querySelectorAll(chart + ' svg > g:first-of-type text')]
  .map((text) => { const { x, y, width, height } = text.getBoundingClientRect();
    return { x, y, width, height }; })"""


@pytest.fixture(params=SCREENS)
def screen(
    request: pytest.FixtureRequest, browser: Browser, served: tuple[str, int]
) -> Iterator[Page]:
    width, height = SCREENS[request.param]
    context = browser.new_context(viewport={"width": width, "height": height})
    context.set_default_timeout(SLOW)
    page = context.new_page()
    page.goto(served[0])
    drawn(page)
    yield page
    context.close()


def test_the_first_view_holds_the_whole_figure_and_no_text_is_cut_off(screen: Page) -> None:
    base = screen.url.split("#")[0]
    assert screen.viewport_size is not None
    width, height = (screen.viewport_size[name] for name in ("width", "height"))
    assert screen.evaluate(CUT_OFF) == []
    assert screen.evaluate(ROOM_IN_BOXES, "1000") == []
    for state, fragment in STATES.items():
        screen.goto(base + fragment)
        screen.reload()
        drawn(screen)
        figure = screen.locator("#curve-chart svg").bounding_box()
        assert figure is not None
        assert figure["y"] >= 0
        assert figure["y"] + figure["height"] <= height, state
        assert screen.evaluate("() => document.documentElement.scrollWidth") <= width, state


@pytest.mark.parametrize("screen_name", ["projector", "tablet", "phone"])
def test_a_phase_diagram_is_whole_in_the_first_view(
    browser: Browser, served: tuple[str, int], screen_name: str
) -> None:
    width, height = SCREENS[screen_name]
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(served[0] + "#tab=map&map_x=alpha&ridge=0.07")
    page.wait_for_selector("#map-chart svg text", timeout=SLOW)
    figure = page.locator("#map-chart svg").bounding_box()
    assert figure is not None
    assert figure["y"] + figure["height"] <= height
    page.close()


def test_a_phone_keeps_the_figure_and_not_the_sentences_in_sight(
    browser: Browser, served: tuple[str, int]
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(served[0])
    drawn(page)
    stuck = page.locator("#curve-card").bounding_box()
    assert stuck is not None
    assert stuck["height"] <= 440
    page.close()


def test_the_ends_of_a_curve_and_its_handle_hide_nothing(page: Page) -> None:
    """First and last points lie inside the frame, and the handle covers no number of the axis."""
    frame = page.locator("#curve-chart svg clipPath rect").first
    left = float(frame.get_attribute("x") or "nan")
    right = left + float(frame.get_attribute("width") or "nan")
    line = max(paths(page), key=lambda drawing: drawing.count("L"))
    xs = [float(x) for x in re.findall(r"[ML]([0-9.]+) ", line)]
    assert left + 5 < min(xs) < left + 15
    assert right - 15 < max(xs) < right - 5
    grip = page.locator("#curve-chart [role=slider] > path").nth(2).bounding_box()
    assert grip is not None
    assert 10 < grip["height"] < 30  # the handle itself
    for box in page.evaluate(BOXES_OF_TEXTS, "#curve-chart"):
        apart = (
            box["x"] + box["width"] < grip["x"]
            or box["x"] > grip["x"] + grip["width"]
            or box["y"] > grip["y"] + grip["height"] - 1
            or box["y"] + box["height"] < grip["y"]
        )
        assert apart, box


CONTOURS = """async () => {
  const { Pen, svgNode } = await import('/static/charts/svg.js');
  const { drawHeat, heatIds } = await import('/static/charts/heatplot.js');
  const count = 33, values = Array.from({ length: count }, (_, index) => 1 + index);
  const found = [];
  for (const [across, up] of [[1, 0], [0, 1], [1, 1], [1, -1], [1, 0.2]]) {
    const heights = values.map((y) => values.map((x) => across * x + up * y));
    const middle = heights[16][16];
    const pen = Pen.live(document.body, 700);
    const layer = svgNode('g');
    document.querySelector('#curve-chart svg').appendChild(layer);
    const axis = { label: 'x', scale: 'linear', values };
    const contours = [middle - 3.3, middle + 0.3].map((value, index) => (
      { value, label: `level ${index}`, color: 'black', dash: '' }));
    const heat = { x: axis, y: axis, values: heights, title: 'heights', palette: 'sequential',
      colorScale: 'linear', contours, marker: null };
    drawHeat(pen, layer, heat, 700, 420, heatIds());
    const labels = [...layer.querySelectorAll('text')]
      .filter((text) => text.textContent.startsWith('level')).map((text) => text.getBBox())
      .map(({ x, y, width, height }) => [x, y, width, height]);
    const lines = [...layer.querySelectorAll('path[fill=none][stroke-width="1.75"]')]
      .map((line) => line.getAttribute('d'));
    layer.remove();
    found.push([labels, lines]);
  }
  return found;
}"""


def test_no_contour_crosses_its_label(page: Page) -> None:
    for labels, lines in page.evaluate(CONTOURS):
        assert len(labels) == len(lines) == 2
        assert all(line.count("M") >= 2 for line in lines)  # it goes on behind the label
        for x, y, width, height in labels:
            for line in lines:
                for piece in line.split("M")[1:]:
                    places = [tuple(map(float, each.split())) for each in piece.split("L")]
                    for (ax, ay), (bx, by) in itertools.pairwise(places):
                        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
                            at = (ax + share * (bx - ax), ay + share * (by - ay))
                            inside = x < at[0] < x + width and y + 2 < at[1] < y + height - 2
                            assert not inside, (at, (x, y, width, height))


def test_a_story_and_the_sliders_are_in_sight_on_a_phone(
    browser: Browser, served: tuple[str, int]
) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.set_default_timeout(SLOW)
    page.goto(served[0] + "#story=why&screen=2")
    drawn(page)
    title = page.locator("#story-title").bounding_box()
    assert title is not None
    assert title["y"] + title["height"] <= 844
    page.goto(served[0] + "#present=alpha,step")
    drawn(page)
    expect(page.locator("#sentences")).to_contain_text("The step cuts the risk")
    sliders, words = (page.locator(each).bounding_box() for each in ("#fields", "#sentences"))
    assert sliders is not None
    assert words is not None
    assert sliders["y"] + sliders["height"] <= words["y"] + 1
    page.close()


def test_a_story_stands_beside_the_figure(page: Page) -> None:
    page.select_option("#story-choice", "why")
    story = page.locator("#story")
    expect(story).to_be_visible()
    words, figure = story.bounding_box(), page.locator("#curve-chart svg").bounding_box()
    assert words is not None
    assert figure is not None
    assert words["x"] + words["width"] <= figure["x"]
    assert words["y"] < figure["y"] + figure["height"]
