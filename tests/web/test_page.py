"""The page in a real browser: Chromium without a window, driven by Playwright.

Left out, and said so, where there is none.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from firststep import Problem, predict, simulate
from firststep.cli import run
from firststep.web import export
from firststep.web.pages import read_static
from firststep.web.single_file import bundle, imported
from tests.processes import eventually, seconds_until_rest
from tests.web.browsing import drawn, in_a_browser, moved, paths, slide
from tests.web.serving import CURVE, PROBLEM, wait_for_networks

pytestmark = in_a_browser


def test_it_loads_and_shows_the_library_s_numbers(page: Page) -> None:
    problem = Problem(
        student="tanh",
        teacher="sin",
        alpha=2,
        beta=1,
        alpha0=8,
        step=2,
        ridge=0.03,
        noise=0.1,
        readout="ones",
    )
    risk = predict(problem).risk
    expect(page.locator("body")).to_contain_text(f"{risk:.5g}")
    for chart in ("#learned-chart", "#weights-chart"):
        page.wait_for_selector(f"{chart} svg path")
    expect(page.locator("#split")).to_be_visible()


def test_a_slider_moves_the_curve(page: Page) -> None:
    before, value = paths(page), page.input_value("#f-ridge")
    slide(page, "ridge", 0.9)
    moved(page, before)
    assert page.input_value("#f-ridge") != value
    page.click("#undo")
    expect(page.locator("#f-ridge")).to_have_value(value)


ASK = """async ([curve, ridge]) => {
  const body = JSON.stringify({ ...curve, problem: { ...curve.problem, ridge } });
  const begin = performance.now();
  const headers = { 'content-type': 'application/json' };
  await (await fetch('api/curve', { method: 'POST', headers, body })).json();
  return performance.now() - begin;
}"""


def test_latency(page: Page) -> None:
    """From the input event to the drawn curve. On a busy machine a few times what one answer takes.

    docs/benchmarks.md has the numbers.
    """
    for number in range(12):
        slide(page, "ridge", 0.3 + 0.04 * number)
        page.wait_for_timeout(120)
    times = sorted(page.evaluate("() => window.firststepLatency.slice(-10)"))
    asked = [page.evaluate(ASK, [CURVE, 0.011 + 0.001 * number]) for number in range(5)]
    assert times[len(times) // 2] < max(500, 8 * sorted(asked)[2])


def test_a_bad_expression_says_so_and_a_good_one_mends_it(page: Page) -> None:
    before = paths(page)
    page.fill("#f-student", "tahn(z)")
    expect(page.locator("#e-student")).to_contain_text("student must be")
    page.fill("#f-student", "tanh(2*z) + 0.1*z")
    expect(page.locator("#e-student")).to_have_text("")
    moved(page, before)


def test_networks_land_on_the_curve(page: Page, tmp_path: Path) -> None:
    """What is drawn at the end is the library's mean and standard error over all replicates."""
    page.fill("#f-sim_dimension", "60")
    page.click("#run")
    expect(page.locator("#progress-text")).to_contain_text("7 points in", timeout=120_000)
    page.wait_for_function(
        "() => document.querySelector('#curve-chart svg').textContent.includes('network')"
    )
    with page.expect_download() as waiting:
        page.click("#save-csv")
    waiting.value.save_as(tmp_path / "curve.csv")
    with (tmp_path / "curve.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["series"].startswith("network")]
    assert len(rows) == 7
    problem = Problem(
        student="tanh",
        teacher="sin",
        alpha=2,
        beta=1,
        alpha0=8,
        step=2,
        ridge=0.03,
        noise=0.1,
        readout="ones",
    )
    for row in rows[::3]:
        expected = simulate(problem.replace(alpha=float(row["alpha"])), 60, 5).risk
        assert float(row["risk"]) == pytest.approx(float(expected.mean), rel=1e-6)
        assert float(row["standard_error"]) == pytest.approx(
            float(expected.standard_error), rel=1e-6
        )


def test_the_dimension_of_the_theory_keeps_the_points(page: Page) -> None:
    page.fill("#f-sim_dimension", "50")
    page.click("#run")
    expect(page.locator("#progress-text")).to_contain_text("7 points in", timeout=120_000)
    before = paths(page)
    page.uncheck("#inf-dimension")
    page.fill("#f-dimension", "50")
    moved(page, before)
    assert "network" in str(page.text_content("#curve-chart svg"))


def test_too_many_points_are_refused(page: Page) -> None:
    page.fill("#f-sim_points", "1000000000")
    page.click("#run")
    expect(page.locator("#e-simulate")).to_contain_text(
        "points must be a whole number from 1 to 24"
    )


def test_cancel_frees_the_machine(page: Page, served: tuple[str, int]) -> None:
    page.fill("#f-sim_dimension", "500")
    page.fill("#f-sim_replicates", "50")
    page.click("#run")
    wait_for_networks(served[1])
    page.click("#cancel")
    assert seconds_until_rest(served[1]) < 6
    expect(page.locator("#run")).to_be_enabled()


def test_a_closed_tab_frees_the_machine(page: Page, served: tuple[str, int]) -> None:
    page.fill("#f-sim_dimension", "500")
    page.fill("#f-sim_replicates", "50")
    page.click("#run")
    wait_for_networks(served[1])
    page.close()
    assert seconds_until_rest(served[1]) < 6


def test_the_address_holds_the_state(page: Page, context: BrowserContext) -> None:
    page.fill("#f-student", "relu")
    page.fill("#f-readout", "signs")
    slide(page, "step", 0.4)
    page.select_option("#axis", "step")
    page.wait_for_function(
        "() => ['relu', 'readout=signs', 'axis=step'].every((each) => location.hash.includes(each))"
    )
    step = page.input_value("#f-step")
    again = context.new_page()
    again.goto(page.url)
    drawn(again)
    expect(again.locator("#f-student")).to_have_value("relu")
    expect(again.locator("#f-readout")).to_have_value("signs")
    expect(again.locator("#f-step")).to_have_value(step)
    assert eventually(lambda: paths(again) == paths(page))


def test_nonsense_in_the_address_is_ignored(
    context: BrowserContext, served: tuple[str, int]
) -> None:
    page = context.new_page()
    page.goto(served[0] + "#student=%3Cscript%3E&alpha=banana&axis=up&tab=none&lines=x,y&hello=1")
    expect(page.locator("#e-student")).to_contain_text("student must be")
    page.fill("#f-student", "tanh")
    drawn(page)


def test_the_point_can_be_dragged_and_moved_by_keys(page: Page) -> None:
    before = float(page.input_value("#f-alpha"))
    handle = page.locator("#curve-chart [role=slider]").first
    handle.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "before => Number(document.getElementById('f-alpha').value) > before", arg=before
    )


@pytest.mark.parametrize("kind", ["png", "svg", "csv"])
def test_downloads(page: Page, kind: str, tmp_path: Path) -> None:
    with page.expect_download() as waiting:
        page.click(f"#save-{kind}")
    path = tmp_path / f"curve.{kind}"
    waiting.value.save_as(path)
    begin = path.read_bytes()[:300]
    if kind == "png":
        assert begin.startswith(b"\x89PNG")
    elif kind == "svg":
        assert b"<svg" in begin
    else:
        rows = path.read_text().splitlines()
        assert rows[0].startswith("series,alpha,risk,standard_error,model_error,student,")
        assert len(rows) > 100


TAKEN = [("python", "firststep.predict"), ("command", "firststep predict"), ("toml", "[problem]")]


@pytest.mark.parametrize(("button", "words"), TAKEN)
def test_take_away(page: Page, button: str, words: str) -> None:
    page.click(f"#take-{button}")
    assert words in taken(page)


def taken(page: Page) -> str:
    """What the dialog offers."""
    node = "document.getElementById('take-text')"
    text = f"({node}.value || {node}.textContent)"
    page.wait_for_function(f"() => {text}.includes('firststep') || {text}.includes('[problem]')")
    return str(page.evaluate(f"() => {text}"))


LIGHT_MAP = "#map_x=alpha&ridge=0.07"  # a map that takes little time and memory


def test_presets_and_the_map(context: BrowserContext, served: tuple[str, int]) -> None:
    page = context.new_page()
    page.goto(served[0] + LIGHT_MAP)  # no test before this one asks for it
    drawn(page)
    page.click("#tab-map")
    page.wait_for_selector("#map-chart svg")
    expect(page.locator("#map-progress")).to_contain_text("of 33 rows")
    expect(page.locator("#map-progress")).to_have_text("", timeout=120_000)
    page.click("#tab-curve")
    page.select_option("#preset", "exact-bulk")
    expect(page.locator("#f-student")).to_have_value("centered(relu)")
    expect(page.locator("#line-isotropic")).to_be_checked()


SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SIZES = [(1400, 900), (820, 1100), (390, 844), (320, 640)]


@pytest.mark.parametrize("size", SIZES)
def test_it_fits(browser: Browser, served: tuple[str, int], size: tuple[int, int]) -> None:
    """Nothing sticks out sideways, at any width, in either tab, light or dark."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]})
    page = context.new_page()
    page.goto(served[0] + LIGHT_MAP)
    drawn(page)
    for tab in ("curve", "map"):
        page.click(f"#tab-{tab}")
        page.wait_for_selector(f"#{tab}-chart svg")
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            page.wait_for_timeout(150)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= size[0]
    context.close()


# The finite-size error ----------------------------------------------------------------------------

BANDS = "#curve-chart svg polygon"


def test_lines_have_bands(page: Page, tmp_path: Path) -> None:
    """At d = infinity after the lines; in the picture and the table, not in the address."""
    expect(page.locator(BANDS)).to_have_count(2)  # the exact line and that without the step
    page.check("#line-isotropic")
    page.wait_for_function(f"() => document.querySelectorAll('{BANDS}').length === 2")
    page.uncheck("#line-isotropic")
    page.uncheck("#inf-dimension")
    page.fill("#f-dimension", "150")
    expect(page.locator("#trust")).not_to_contain_text("networks of d")
    expect(page.locator(BANDS)).to_have_count(2)
    expect(page.locator("#curve-chart svg")).to_contain_text("± finite-size error")
    for kind in ("svg", "csv"):
        with page.expect_download() as waiting:
            page.click(f"#save-{kind}")
        waiting.value.save_as(tmp_path / f"curve.{kind}")
    assert (tmp_path / "curve.svg").read_text().count("<polygon") == 2
    with (tmp_path / "curve.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["series"] == "one step, exact theory"]
    there = {name: float(rows[7][name]) for name in ("alpha", "dimension")}
    problem = Problem(**{**PROBLEM, **there})
    assert float(rows[7]["model_error"]) == pytest.approx(predict(problem).model_error, rel=1e-6)
    page.wait_for_function("() => location.hash.includes('dimension=150')")
    names = {part.split("=")[0] for part in page.url.split("#")[1].split("&")}
    assert names - {"lines"} == set(PROBLEM)
    page.select_option("#quantity", "training_error")
    expect(page.locator(BANDS)).to_have_count(0)


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_a_huge_band_leaves_the_axis_alone(
    context: BrowserContext, served: tuple[str, int], scale: str
) -> None:
    """At n = N with next to no ridge: the same lines and ticks without bands and with huge ones."""

    def changed(size: float | None) -> Callable[[Route], None]:
        def answer(route: Route) -> None:
            if size is None and route.request.url.endswith("band"):
                route.fulfill(json={"band": None})
                return
            found = route.fetch()
            told = found.json()
            if size is None:
                told["band"] = None
            elif told["band"]:
                told["band"]["high"] = [size * value for value in told["band"]["high"]]
            route.fulfill(response=found, json=told)

        return answer

    drawings = []
    for size in (None, 1e6):
        page = context.new_page()
        for call in ("curve", "band"):
            page.route(f"**/api/{call}", changed(size))
        page.goto(f"{served[0]}#ridge=1e-6&beta=2&dimension=150&yscale={scale}")
        drawn(page)
        expect(page.locator("#trust")).not_to_be_empty()  # the ring stands where it will
        expect(page.locator("#curve-chart svg")).to_contain_text("no step")
        expect(page.locator(BANDS)).to_have_count(0 if size is None else 2)
        texts = page.locator("#curve-chart svg text").all_text_contents()
        drawings.append((paths(page), [text for text in texts if "finite-size" not in text]))
        if size is not None:
            clip = page.locator(BANDS).first.evaluate(
                "band => band.parentNode.getAttribute('clip-path')"
            )
            assert clip.startswith("url(#")
    assert drawings[0] == drawings[1]


def test_a_doubtful_risk_is_said_to_be_so(context: BrowserContext, served: tuple[str, int]) -> None:
    page = context.new_page()
    page.goto(f"{served[0]}#student=10*tanh(z)&dimension=200&step=0.1")
    drawn(page)
    fields = {**PROBLEM, "student": "10*tanh(z)", "dimension": 200, "step": 0.1}
    expected = predict(Problem(**fields))
    assert expected.is_flagged
    share = f"{100 * expected.model_error / expected.risk:.2g} %"
    warning = page.locator("#trust.flagged")
    expect(warning).to_be_visible()
    expect(warning).to_have_attribute("aria-live", "polite")
    expect(warning).to_have_text(f"May be {share} off: {expected.model_error_reason}.")
    expect(page.locator("#values tr[data-value=model_error] td")).to_contain_text(share)
    expect(page.locator("#curve-notes .flagged")).to_contain_text(f"may be {share} off")
    ring = page.locator("#curve-chart [role=slider] circle").first.bounding_box()
    assert ring is not None
    page.mouse.move(ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2)
    expect(page.locator("#curve-chart svg")).to_contain_text(f"May be {share} off")
    page.check("#inf-dimension")
    page.fill("#f-student", "tanh")
    expect(page.locator("#trust")).to_contain_text("networks of d = 1000")
    calm = predict(Problem(**{**PROBLEM, "step": 0.1}))
    expect(page.locator("#trust.flagged")).to_have_count(int(calm.is_flagged))


# One file -----------------------------------------------------------------------------------------


def test_modules_can_be_joined() -> None:
    static = read_static()
    joined = bundle(static)
    assert not re.search(r"^\s*(import|export)\b", joined, re.MULTILINE)
    names = re.findall(r"^(?:async function|function|class|const|let) (\w+)", joined, re.MULTILINE)
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)
    scripts = {name for name in static if name.endswith(".js")}
    assert scripts == set(re.findall(r"^// ([\w./]+\.js)$", joined, re.MULTILINE)), (
        "a module that nothing imports"
    )


FOLDERS = ("page", "charts", "state", "controls", "panels", "main.js")  # each imports from the left


def test_the_folders_of_the_page_import_one_way() -> None:
    for name, source in read_static().items():
        if not name.endswith(".js"):
            continue
        level = FOLDERS.index(name.split("/")[0])
        text = source.decode()
        wanted = imported(name, text)
        assert len(wanted) == len(re.findall(r"^\s*import\b", text, re.MULTILINE)), name
        for each in wanted:
            assert FOLDERS.index(each.split("/")[0]) <= level, f"{name} imports {each}"


def small_export(path: Path, *flags: str) -> Path:
    """A small grid, without the smallest alpha0, where the largest step takes long to compute."""
    sizes = {"alpha": 3, "beta": 2, "alpha0": 2, "step": 3, "ridge": 2}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "FINE", sizes)
        patch.setitem(export.ENDS, "alpha0", (2.0, 32.0))
        patch.setattr(export, "available_cores", lambda: 1)
        assert run(["explore", "--export", str(path), *flags]) == 0
    return path


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_export(tmp_path_factory.mktemp("export") / "page.html")


def test_the_single_file_works_without_a_network(context: BrowserContext, exported: Path) -> None:
    context.set_offline(True)
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(exported.as_uri())
    drawn(page)
    for chart in ("#learned-chart", "#weights-chart"):
        page.wait_for_selector(f"{chart} svg path")
    before = paths(page)
    slide(page, "step", 1.0)
    moved(page, before)
    assert "10" in page.input_value("#f-step")
    expect(page.locator("#sketch svg")).to_have_attribute("aria-label", re.compile("teacher"))
    expect(page.locator("#gallery")).to_be_hidden()  # its grid is that of one network
    page.check("#lock")
    page.set_input_files(
        "#own-file", {"name": "own.csv", "mimeType": "text/csv", "buffer": b"1,0.2\n4,0.1\n"}
    )
    expect(page.locator("#curve-chart svg")).to_contain_text("own.csv")
    page.click("#tab-map")
    page.wait_for_selector("#map-chart svg")
    page.click("#take-python")
    assert "step=10" in taken(page)
    assert not page.locator("#notice").is_visible()
    assert all(url.startswith(("file:", "data:", "blob:")) for url in asked)


def test_the_single_file_has_the_library_s_numbers(context: BrowserContext, exported: Path) -> None:
    page = context.new_page()
    page.goto(exported.as_uri())
    drawn(page)
    problem = Problem(
        student="tanh",
        teacher="sin",
        alpha=2,
        beta=1,
        alpha0=8,
        step=2,
        ridge=0.03,
        noise=0.1,
        readout="ones",
    )
    expect(page.locator("body")).to_contain_text(f"{predict(problem).risk:.5g}")


def test_the_single_file_has_bands_at_a_finite_dimension(
    context: BrowserContext, exported: Path, tmp_path: Path
) -> None:
    """At d = infinity they would take too long, and the page goes without them."""
    page = context.new_page()
    page.goto(exported.as_uri())
    drawn(page)
    expect(page.locator("#values")).to_contain_text("test risk")
    expect(page.locator(BANDS)).to_have_count(0)
    expect(page.locator("#trust")).to_be_hidden()
    page.goto(small_export(tmp_path / "finite.html", "--dimension", "150").as_uri())
    drawn(page)
    expect(page.locator(BANDS)).to_have_count(2)
    expected = predict(Problem(**{**PROBLEM, "dimension": 150}))
    expect(page.locator("#trust")).to_contain_text(expected.model_error_reason)
    share = f"{100 * expected.model_error / expected.risk:.2g} %"
    expect(page.locator("#values tr[data-value=model_error] td")).to_contain_text(share)


def test_export_refuses_a_folder_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explore", "--export", "/nowhere/at/all.html"]) == 2
    assert "export must be" in capsys.readouterr().err
