"""What the tests of the page do in the browser."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from playwright.sync_api import Page

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
LEFT_OUT = CHROMIUM is None and os.environ.get("FIRSTSTEP_BROWSER") != "required"
in_a_browser = pytest.mark.skipif(
    LEFT_OUT, reason="no chromium on this machine: apt-get install chromium"
)
SLOW = 60_000  # milliseconds a busy machine may take


def drawn(page: Page) -> None:
    """Wait until the exact curve is there."""
    page.wait_for_function("() => (window.firststepLatency || []).length > 0")
    page.wait_for_selector("#curve-chart svg path")


def paths(page: Page, chart: str = "#curve-chart") -> list[str]:
    found: list[str] = page.eval_on_selector_all(
        f"{chart} svg path", "all => all.map(path => path.getAttribute('d'))"
    )
    return found


def moved(page: Page, before: list[str], chart: str = "#curve-chart") -> None:
    """Wait until the curves are others."""
    script = """([chart, before]) => before !== JSON.stringify(
      [...document.querySelectorAll(chart + ' svg path')].map((path) => path.getAttribute('d')))"""
    page.wait_for_function(script, arg=[chart, json.dumps(before, separators=(",", ":"))])


def slide(page: Page, name: str, place: float) -> None:
    """Set a slider the way a hand does: an input event."""
    script = """(slider, place) => {
      slider.value = String(Number(slider.min) + place * (Number(slider.max) - Number(slider.min)));
      slider.dispatchEvent(new Event('input', { bubbles: true }));
      slider.dispatchEvent(new Event('change', { bubbles: true }));
    }"""
    page.locator(f"#s-{name}").evaluate(script, place)
