"""Everybody can use the page: axe-core has nothing against any kind of state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

from tests.web.axe import axe_source, violations
from tests.web.browsing import SLOW, drawn, in_a_browser

pytestmark = in_a_browser
SHARES_AN_EXPLORER = True

WIDE, NARROW, PROJECTOR = (1300, 900), (390, 844), (853, 480)
LIGHT_MAP = "#tab=map&map_x=alpha&ridge=0.07"
STATES: dict[str, tuple[str, str | None]] = {  # the address, and what is clicked
    "plain": ("", None),
    "story": ("#story=why&screen=2", "#story-question summary"),
    "presenting": ("#present=alpha,step,ridge", None),
    "presenting a story": ("#story=why&screen=2&present=step", None),
    "pinned": ("#ridge=0.3&pin=ridge%3D0.03", None),
    "classes": ("#labels=sign&teacher=z&quantity=error_rate&flip=0.1&noise=0", None),
    "at fault": ("#student=x", None),
    "map": (LIGHT_MAP, None),
    "taken away": ("", "#take-python"),
    "gallery": ("", "#gallery"),
    "about": ("", "#about"),
}


@pytest.fixture(scope="module")
def axe(request: pytest.FixtureRequest) -> str:
    return axe_source(request.config.cache.mkdir("axe-core"))  # type: ignore[union-attr]


def visit(page: Page, address: str, state: str) -> None:
    page.goto("about:blank")
    fragment, clicked = STATES[state]
    page.goto(address + fragment)
    page.wait_for_selector("body.ready")
    if state == "map":
        page.wait_for_selector("#map-chart svg text")
    elif state == "at fault":
        page.wait_for_function("() => document.querySelector('#e-student').textContent")
    else:
        drawn(page)
    if clicked:
        page.click(clicked)


Scheme = Literal["light", "dark"]
LOOKS: list[tuple[tuple[int, int], Scheme]] = [(WIDE, "light"), (NARROW, "dark")]
MORE: list[tuple[tuple[int, int], Scheme]] = [
    *((WIDE, "dark"), (NARROW, "light"), (PROJECTOR, "light"), (PROJECTOR, "dark"))
]


@pytest.fixture(scope="module")
def opened(browser: Browser) -> Iterator[Page]:
    made = browser.new_page()
    made.set_default_timeout(SLOW)
    yield made
    made.close()


def found_in(
    page: Page, axe: str, looks: list[tuple[tuple[int, int], Scheme]]
) -> dict[str, list[str]]:
    found = {}
    for (width, height), scheme in looks:
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        found[f"{width} x {height}, {scheme}"] = violations(page, axe)
    return {look: told for look, told in found.items() if told}


@pytest.mark.parametrize("state", STATES)
def test_axe_finds_nothing(opened: Page, served: tuple[str, int], axe: str, state: str) -> None:
    visit(opened, served[0], state)
    assert found_in(opened, axe, LOOKS) == {}


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_axe_finds_nothing_at_any_size_or_light(
    opened: Page, served: tuple[str, int], axe: str, state: str
) -> None:
    visit(opened, served[0], state)
    assert found_in(opened, axe, MORE) == {}
