"""The explorer in a frame of another site's page: of the origin that was named, and of no other."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.web.browsing import SLOW, in_a_browser
from tests.web.serving import explorer

pytestmark = in_a_browser


class Course(http.server.BaseHTTPRequestHandler):
    """A page with one frame, the address of which is its query."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        address = self.path.partition("?")[2]
        self.wfile.write(f'<iframe src="{address}" width=900 height=700></iframe>'.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def course() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Course)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_page_of_the_named_origin_shows_it_and_others_do_not(
    browser: Browser, course: str
) -> None:
    page = browser.new_page()
    page.set_default_timeout(SLOW)
    other = course.replace("127.0.0.1", "localhost")
    with explorer("--embed", course) as (address, _):
        page.goto(f"{course}/?{address}")
        frame = page.frame_locator("iframe")
        expect(frame.locator("#curve-chart svg")).to_contain_text("exact theory", timeout=SLOW)
        page.goto(f"{other}/?{address}")
        page.wait_for_timeout(500)
        assert page.frames[1].locator("#curve-chart").count() == 0
    page.close()
