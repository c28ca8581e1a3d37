"""What goes into files and comes from them: pictures that say what they show, own points."""

from __future__ import annotations

import csv
import zlib
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.web.browsing import drawn, in_a_browser

pytestmark = in_a_browser
SHARES_AN_EXPLORER = True
TOLD = ("step exponent = 0.5", "σ = tanh", "σ* = sin", "η̃ = 2", "λ = 0.03", "α₀ = 8", "d = ∞")
CHART = "#curve-chart svg"


def saved(page: Page, kind: str, folder: Path) -> Path:
    with page.expect_download() as waiting:
        page.click(f"#save-{kind}")
    waiting.value.save_as(folder / f"curve.{kind}")
    return folder / f"curve.{kind}"


def chunks_of(png: bytes) -> list[tuple[bytes, bytes]]:
    """Kinds and contents; every checksum is right."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    found, at = [], 8
    while at < len(png):
        size = int.from_bytes(png[at : at + 4])
        kind, content = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        check = int.from_bytes(png[at + 8 + size : at + 12 + size])
        assert zlib.crc32(kind + content) == check, kind
        found.append((kind, content))
        at += 12 + size
    return found


def test_pictures_carry_the_parameters(page: Page, tmp_path: Path) -> None:
    chunks = chunks_of(saved(page, "png", tmp_path).read_bytes())
    assert [kind for kind, _ in chunks][-1] == b"IEND"
    texts = {
        content.split(b"\0", 1)[0].decode(): content.split(b"\0\0\0\0\0", 1)[1].decode()
        for kind, content in chunks
        if kind == b"iTXt"
    }
    assert set(texts) == {"Description", "Source", "Software"}
    assert all(text in texts["Description"] for text in TOLD), texts["Description"]
    assert "student=tanh" in texts["Source"]
    svg = saved(page, "svg", tmp_path).read_text()
    assert all(text in " ".join(svg.split("<text")) or text in svg for text in TOLD[1:3])
    assert "student=tanh" in svg  # the link, as its description
    words = page.evaluate(
        """(text) => [...new DOMParser().parseFromString(text, 'image/svg+xml')
          .querySelectorAll('text')].map((node) => node.textContent).join(' ')""",
        svg,
    )
    assert all(text in words for text in TOLD)


def test_simulated_points_survive_a_reload(page: Page, tmp_path: Path) -> None:
    page.fill("#f-sim_dimension", "50")
    page.fill("#f-sim_points", "3")
    page.click("#run")
    expect(page.locator("#progress-text")).to_contain_text("3 points in", timeout=120_000)
    page.wait_for_function("() => location.hash.includes('sim_points=3')")

    def networks() -> list[dict[str, str]]:
        with saved(page, "csv", tmp_path).open() as file:
            return [row for row in csv.DictReader(file) if row["series"].startswith("network")]

    before = networks()
    assert len(before) == 3
    page.reload()
    drawn(page)
    expect(page.locator(CHART)).to_contain_text("network, d = 50")
    assert networks() == before
    page.click("#clear-points")
    expect(page.locator(CHART)).not_to_contain_text("network, d = 50")
    page.reload()
    drawn(page)
    expect(page.locator(CHART)).not_to_contain_text("network, d = 50")


TABLES = {
    "names": "risk,step,standard_error,alpha\n0.2,9,0.01,1\n0.1,9,0.02,4\n,,,\n",
    "order": "1;0.2;0.01\n4;0.1;0.02\n",
    "other names": '# measured\n"samples"\t"mse"\n1\t0.2\n4\t0.1\n',
}


@pytest.mark.parametrize("kind", TABLES)
def test_own_points_are_put_on_the_curve(page: Page, kind: str, tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    table.write_text(TABLES[kind])
    page.set_input_files("#own-file", table)
    expect(page.locator(CHART)).to_contain_text("mine.csv")

    def mine() -> list[tuple[float, ...]]:
        with saved(page, "csv", tmp_path).open() as file:
            rows = [row for row in csv.DictReader(file) if row["series"] == "mine.csv"]
        names = ("alpha", "risk", "standard_error")
        return [tuple(float(row[name] or 0) for name in names) for row in rows]

    errors = (0.0, 0.0) if kind == "other names" else (0.01, 0.02)
    assert mine() == [(1.0, 0.2, errors[0]), (4.0, 0.1, errors[1])]
    page.reload()
    drawn(page)
    expect(page.locator(CHART)).to_contain_text("mine.csv")
    page.select_option("#axis", "step")
    expect(page.locator(CHART)).not_to_contain_text("mine.csv")
    page.select_option("#axis", "alpha")
    page.click("#clear-own")
    expect(page.locator(CHART)).not_to_contain_text("mine.csv")


REFUSED = [
    ("", "it is empty"),
    ("a,b\nx,y\n", "must have a column alpha and a column risk"),
    ("1,2\n" * 2001, "at most 2000 points"),
    ("1,2\n" * 300_000, "at most 1 MB"),
]


def test_a_table_without_points_is_refused_in_a_line(page: Page, tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    for text, told in REFUSED:
        table.write_text(text)
        page.set_input_files("#own-file", table)
        expect(page.locator("#e-own")).to_contain_text(told)
        assert "\n" not in (page.locator("#e-own").text_content() or "")
    table.write_text("1,2\n")
    page.set_input_files("#own-file", table)
    expect(page.locator("#e-own")).to_be_empty()
