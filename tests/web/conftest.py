"""A browser, an explorer and a page of it, for the tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from firststep.web import recorded
from tests.web.browsing import CHROMIUM, SLOW, drawn
from tests.web.serving import explorer

expect.set_options(timeout=SLOW)  # no test depends on an idle machine


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None, "FIRSTSTEP_BROWSER=required, but there is no chromium"
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture(scope="session", autouse=True)
def one_story() -> Iterator[None]:
    """Exported pages record one story: all of them take a minute or two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorded, "TOLD", ("peak",))
        yield


@pytest.fixture(scope="session")
def shared_explorer() -> Iterator[tuple[str, int]]:
    with explorer() as (address, process):
        yield address, process.pid


@pytest.fixture(scope="module")
def served(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """The explorer of a module; those that only look at the page share one, which takes seconds to
    start.
    """
    if getattr(request.module, "SHARES_AN_EXPLORER", False):
        shared: tuple[str, int] = request.getfixturevalue("shared_explorer")
        yield shared
        return
    with explorer() as (address, process):
        yield address, process.pid


@pytest.fixture
def complaints() -> list[str]:
    return []


@pytest.fixture
def context(browser: Browser, complaints: list[str]) -> Iterator[BrowserContext]:
    """A fresh profile.

    Whatever its pages complain about (errors, breaches of the content policy) fails the test.
    """
    made = browser.new_context(viewport={"width": 1300, "height": 900})
    made.set_default_timeout(SLOW)
    made.on(
        "console",
        lambda message: complaints.append(message.text) if message.type == "error" else None,
    )
    made.on("weberror", lambda error: complaints.append(str(error.error)))
    yield made
    made.close()
    unexpected = [
        text for text in complaints if "status of 422" not in text
    ]  # a refused expression is shown by the browser too
    assert not unexpected


@pytest.fixture
def page(context: BrowserContext, served: tuple[str, int]) -> Page:
    opened = context.new_page()
    opened.goto(served[0])
    drawn(opened)
    return opened
