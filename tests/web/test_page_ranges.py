"""Every state has a finite picture: one value, next to nothing, hostile links."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Page, expect

from firststep.web.about import about
from tests.web.browsing import drawn, in_a_browser, paths

pytestmark = in_a_browser
MOST_TICKS = 30
FLAT = "#quantity=alignment&yscale=linear&axis=step&from=0.1&to=10"

TICKS = """async (ranges) => {
  const { makeScale, axisTicks } = await import('/static/charts/axis.js');
  const { fitRange } = await import('/static/charts/series.js');
  const found = [];
  for (const [kind, low, high] of ranges) {
    const lines = [{ x: [0, 1], y: [low, high] }];
    const x = { scale: 'linear', range: [0, 1] };
    const spec = { x, y: { scale: kind }, lines, points: [], bars: [], levels: [] };
    const range = fitRange(spec);
    const scale = makeScale(kind, range, [0, 400]);
    const { major, minor } = axisTicks(scale, (text) => 8 * text.length);
    found.push([range, major.map((tick) => tick.value), minor.length, scale.toPixel(high)]);
  }
  return found;
}"""


def ranges() -> list[tuple[str, float, float]]:
    """Around every size: one value, one with noise of rounding, and wider and wider ones."""
    sizes = [0.0, *(sign * 10.0**power for sign in (1, -1) for power in range(-300, 300, 37))]
    shares = [0.0, 1e-17, 2.3e-16, 1e-15, 1e-13, 1e-10, 1e-8, 1e-4, 0.3, 1.0, 50.0]
    found = []
    for size, share in itertools.product(sizes, shares):
        high = size + (abs(size) or 1.0) * share
        found += [(kind, size, high) for kind in ("linear", "log")]
    return found


def test_every_range_has_a_few_ticks(page: Page) -> None:
    asked = ranges()
    for (kind, low, high), (range_, major, minor, pixel) in zip(
        asked, page.evaluate(TICKS, asked), strict=True
    ):
        told = (kind, low, high, range_, major)
        assert range_[0] < range_[1], told
        assert all(math.isfinite(value) for value in (*range_, *major)), told
        assert len(major) <= MOST_TICKS, told
        assert minor <= 9 * 620, told
        if kind == "linear" or high > 0:
            assert range_[0] <= high <= range_[1], told
            assert math.isfinite(pixel), told


def test_a_constant_with_noise_of_rounding_is_drawn_as_a_constant(page: Page) -> None:
    """It made an endless loop of ticks."""
    page.goto(page.url.split("#")[0] + FLAT)
    page.reload()
    drawn(page)
    assert len(ticks(page)) <= MOST_TICKS
    heights = {round(y) for y in heights_of_the_line(page)}
    assert len(heights) == 1


def test_what_is_next_to_nothing_is_not_blown_up(page: Page) -> None:
    """The preset without an alignment: 0.0000000004 at most, and the teacher that is missed."""
    preset = next(each for each in about()["presets"] if each["name"] == "no-alignment")
    state = {**preset["state"], "quantity": "alignment", "yscale": "linear"}
    shown(page, state)
    assert max(float(text) for text in ticks(page)) >= 0.005
    chart = page.locator("#learned-chart svg")
    expect(chart).to_contain_text("the teacher itself")
    values = [abs(float(text)) for text in ticks(page, "#learned-chart")]
    assert max(values) >= 1


@pytest.mark.parametrize("name", ["toString", "constructor", "__proto__", "hasOwnProperty"])
def test_a_link_may_name_what_every_object_has(page: Page, name: str) -> None:
    page.goto(f"{page.url.split('#')[0]}#{name}=1&ridge=0.5")
    page.reload()
    drawn(page)
    expect(page.locator("#f-ridge")).to_have_value("0.5")
    expect(page.locator("#notice")).to_contain_text(name)


def test_a_thousand_unknown_names_are_told_in_a_line(page: Page) -> None:
    names = "&".join(f"{'x' * 100}{number}=1" for number in range(1000))
    page.goto(f"{page.url.split('#')[0]}#{names}")
    page.reload()
    drawn(page)
    notice = page.locator("#notice")
    expect(notice).to_contain_text("and 995 more")
    assert len(notice.inner_text()) < 400


def shown(page: Page, state: dict[str, Any]) -> None:
    """A state of the page, in a page that is loaded anew."""
    texts = {
        name: "same" if value is None else ",".join(value) if isinstance(value, list) else value
        for name, value in state.items()
    }
    texts = {name: str(v).lower() if isinstance(v, bool) else v for name, v in texts.items()}
    page.goto(f"{page.url.split('#')[0]}#{urlencode(texts, quote_via=quote)}")
    page.reload()
    page.wait_for_selector("body.ready")
    page.wait_for_function(
        "() => (window.firststepLatency || []).length > 0"
        " || document.querySelector('#e-curve').textContent !== ''"
    )


def ticks(page: Page, chart: str = "#curve-chart") -> list[str]:
    """The numbers at the vertical axis."""
    texts: list[str] = page.locator(f"{chart} svg text").all_text_contents()
    left = [text.replace("−", "-") for text in texts]
    return [text for text in left if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text)]


def heights_of_the_line(page: Page) -> list[float]:
    """Of the places of the line with the most of them."""
    longest = max(paths(page), key=lambda drawing: drawing.count("L"))
    return [float(y) for y in re.findall(r"[ML]-?[0-9.]+ (-?[0-9.]+)", longest)]
