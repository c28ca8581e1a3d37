"""The page on classifiers and other losses, in a real browser."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect

from firststep import Problem, predict, simulate
from firststep.cli import run
from firststep.web import export
from tests.web.browsing import drawn, in_a_browser, slide
from tests.web.serving import PROBLEM

pytestmark = in_a_browser

CLASSIFIER: dict[str, Any] = {
    **PROBLEM,
    **{"teacher": "z", "noise": 0.0, "labels": "sign", "loss": "logistic", "flip": 0.1},
}
CLASSIFIER_LINK = "#" + urlencode({**CLASSIFIER, "quantity": "error_rate"})
HUBER = "#loss=huber:0.5&ridge=0.3&quantity=test_loss&lines=exact"
SIGNS = "#labels=sign&teacher=z&noise=0&quantity=error_rate"  # the square loss, which is fast


def opened(context: BrowserContext, address: str) -> Page:
    page = context.new_page()
    page.goto(address)
    drawn(page)
    return page


def whole_line(page: Page) -> None:
    """Wait until all points of the slow lines are there."""
    page.wait_for_selector("#curve-card[aria-busy=false]")


def offered(page: Page, select: str) -> list[str]:
    """The options that may be chosen."""
    found: list[str] = page.eval_on_selector_all(
        f"{select} option:not(:disabled)", "all => all.map((option) => option.value)"
    )
    return found


def test_other_labels_pick_what_goes_with_them(
    context: BrowserContext, served: tuple[str, int]
) -> None:
    page = opened(context, served[0] + "#loss=huber:0.5&teacher=z&noise=0")
    assert offered(page, "#f-loss") == ["square", "huber", "quantile"]
    expect(page.locator("#p-loss-huber")).to_have_value("0.5")
    expect(page.locator("#f-flip")).to_be_hidden()
    expect(page.locator("#fields")).to_contain_text(
        "With labels real there is no choice of label flips, threshold, step loss."
    )
    page.select_option("#f-labels", "sign")
    expect(page.locator("#f-loss")).to_have_value("square")
    expect(page.locator("#quantity")).to_have_value("error_rate")
    assert offered(page, "#f-loss") == ["square", "logistic", "hinge", "squared-hinge"]
    expect(page.locator("#f-flip")).to_be_visible()
    expect(page.locator("#f-noise_law")).to_be_hidden()
    expect(page.locator("#line-kernel-bound")).to_be_hidden()
    expect(page.locator("#line-bayes_error_rate")).to_be_visible()
    page.select_option("#f-labels", "logit")
    expect(page.locator("#p-labels-logit")).to_have_value("2")
    expect(page.locator("#f-noise")).to_be_hidden()  # such labels are random by themselves
    page.select_option("#f-labels", "real")
    expect(page.locator("#quantity")).to_have_value("risk")
    page.select_option("#f-loss", "quantile")
    expect(page.locator("#p-loss-quantile")).to_have_value("0.5")
    slide(page, "loss-quantile", 0.9)
    page.wait_for_function("() => location.hash.includes('loss=quantile:0.86')")
    for _ in range(2):
        page.click("#undo")
    expect(page.locator("#f-loss")).to_have_value("square")


def test_errors_of_the_library_stand_at_the_field(
    context: BrowserContext, served: tuple[str, int]
) -> None:
    page = context.new_page()
    page.goto(served[0] + "#loss=logistic&flip=0.1&threshold=2&noise=0")
    expect(page.locator("#e-loss")).to_contain_text("try labels sign")
    expect(page.locator("#e-flip")).to_contain_text("flip must be 0 with labels real")
    expect(page.locator("#f-flip")).to_be_visible()  # what is wrong is not hidden
    page.select_option("#f-labels", "sign")
    expect(page.locator("#e-threshold")).to_contain_text("threshold must be between -1 and 1")
    page.select_option("#f-loss", "square")
    page.fill("#f-threshold", "0.5")
    drawn(page)
    for name in ("loss", "flip", "threshold"):
        expect(page.locator(f"#e-{name}")).to_have_text("")


def curves_asked(page: Page) -> list[dict[str, Any]]:
    """What the page will have asked for."""
    asked: list[dict[str, Any]] = []

    def note(sent: Request) -> None:
        if sent.url.endswith("api/curve") and sent.post_data_json["line"] == "exact":
            asked.append(sent.post_data_json)

    page.on("request", note)
    return asked


def places(asked: list[dict[str, Any]]) -> list[int]:
    return [place for body in asked for place in body["places"]]


def test_a_slow_line_comes_in_parts_and_a_newer_one_ends_it(
    context: BrowserContext, served: tuple[str, int], tmp_path: Path
) -> None:
    """Coarse first; what was answered is kept, and the end is what the library says."""
    page = context.new_page()
    asked = curves_asked(page)
    page.goto(served[0] + HUBER)
    drawn(page)
    page.fill("#f-ridge", "0.4")
    page.wait_for_function("() => location.hash.includes('ridge=0.4')")
    whole_line(page)
    ridges = [body["problem"]["ridge"] for body in asked]
    assert ridges == sorted(ridges)  # never back to the older one
    newer = places([body for body in asked if body["problem"]["ridge"] == 0.4])
    assert sorted(newer) == list(range(33))
    assert set(newer[:5]) == {0, 8, 16, 24, 32}
    older = set(places(asked[: ridges.index(0.4)]))
    count = len(asked)
    page.click("#undo")
    whole_line(page)
    again = places(asked[count:])
    # All but those whose answers were there; a few were on their way.
    assert set(again) | older == set(range(33))
    assert len(again) < 33
    with page.expect_download() as waiting:
        page.click("#save-csv")
    waiting.value.save_as(tmp_path / "curve.csv")
    with (tmp_path / "curve.csv").open() as file:
        table = list(csv.DictReader(file))
    problem = Problem(**{**PROBLEM, "loss": "huber:0.5", "ridge": 0.3})
    rows = [row for row in table if row["series"] == "one step, exact theory"]
    assert len(rows) == 33
    assert rows[0]["loss"] == "huber:0.5"
    chosen = np.array([float(row["alpha"]) for row in rows[::16]])
    told = [float(row["test_loss"]) for row in rows[::16]]
    np.testing.assert_allclose(told, predict(problem, alpha=chosen).test_loss, rtol=1e-5)


def test_a_classifier_has_its_lines_and_panels_say_what_they_cannot_show(
    context: BrowserContext, served: tuple[str, int]
) -> None:
    page = opened(context, served[0] + CLASSIFIER_LINK)
    expect(page.locator("#split")).to_contain_text("not on the scale of its labels")
    expect(page.locator("#weights-notes")).to_contain_text("real labels")
    expect(page.locator("#weights-caption")).to_contain_text("No prediction here")
    expect(page.locator("#trust")).to_contain_text("d = 1000")
    problem = Problem(**CLASSIFIER)
    error = page.locator("#values tr[data-value=error_rate] td")
    expect(error).to_have_text(f"{predict(problem).error_rate:.5g}")
    without = predict(problem.replace(alpha0=0.0)).error_rate
    expect(page.locator("#values")).to_contain_text(f"{without:.5g}")
    expect(page.locator("#learned-chart svg").first).to_contain_text("target E[y | κ]")
    for name in ("best along the step", "Bayes error"):
        expect(page.locator("#curve-chart svg").first).to_contain_text(name)
    expect(page.locator("#level-bayes_error_rate")).to_have_text("0.1")


def test_networks_of_a_classifier_land_on_its_curve(
    context: BrowserContext, served: tuple[str, int], tmp_path: Path
) -> None:
    page = opened(context, served[0] + SIGNS + "&sim_dimension=50&sim_replicates=2&sim_points=2")
    page.click("#run")
    expect(page.locator("#progress-text")).to_contain_text("2 points in", timeout=120_000)
    with page.expect_download() as waiting:
        page.click("#save-csv")
    waiting.value.save_as(tmp_path / "curve.csv")
    with (tmp_path / "curve.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["series"].startswith("network")]
    problem = Problem(**{**PROBLEM, "labels": "sign", "teacher": "z", "noise": 0.0})
    for row in rows:
        found = simulate(problem.replace(alpha=float(row["alpha"])), 50, 2).error_rate
        assert float(row["error_rate"]) == pytest.approx(float(found.mean), rel=1e-6)
    assert len(rows) == 2


def test_networks_that_the_theory_refuses_stand_alone(
    context: BrowserContext, served: tuple[str, int]
) -> None:
    page = opened(context, served[0] + "#sim_dimension=40&sim_replicates=1&sim_points=2")
    message = "noise-law must be another; got this"
    refusal = {"errors": [{"parameter": "noise_law", "message": message}]}
    for call in ("curve", "point"):
        page.route(f"**/api/{call}", lambda route: route.fulfill(status=422, json=refusal))
    page.select_option("#f-noise_law", "t")
    expect(page.locator("#e-noise_law")).to_have_text(message)
    expect(page.locator("#curve-chart.outdated")).to_have_count(1)
    page.click("#run")
    expect(page.locator("#progress-text")).to_contain_text("2 points in", timeout=120_000)
    expect(page.locator("#curve-chart.outdated")).to_have_count(0)
    expect(page.locator("#curve-chart svg").first).to_contain_text("network, d = 40")
    expect(page.locator("#curve-chart svg").first).not_to_contain_text("exact theory")


def test_a_link_holds_the_new_fields_and_an_old_one_means_what_it_meant(
    context: BrowserContext, served: tuple[str, int]
) -> None:
    page = opened(context, served[0] + SIGNS)
    page.fill("#f-flip", "0.2")
    page.select_option("#f-step_loss", "logistic")
    page.wait_for_function("() => location.hash.includes('flip=0.2')")
    names = {part.split("=")[0] for part in page.url.split("#")[1].split("&")}
    shown = {"quantity", "map_quantity"}
    assert names == {*PROBLEM, "labels", "flip", "step_loss", *shown}
    again = opened(context, page.url)
    expect(again.locator("#f-step_loss")).to_have_value("logistic")
    expect(again.locator("#f-flip")).to_have_value("0.2")
    expect(again.locator("#quantity")).to_have_value("error_rate")
    old = opened(context, served[0] + "#student=relu&quantity=gain&lines=exact")
    old.fill("#f-ridge", "0.5")
    old.wait_for_function("() => location.hash.includes('alpha=2')")
    kept = {part.split("=")[0] for part in old.url.split("#")[1].split("&")}
    assert kept == {*PROBLEM, "quantity", "lines"}


def test_a_preset_its_map_and_its_experiment(
    context: BrowserContext, served: tuple[str, int]
) -> None:
    page = opened(context, served[0])
    page.select_option("#preset", "classification")
    expect(page.locator("#quantity")).to_have_value("error_rate")
    expect(page.locator("#preset-caption")).to_contain_text("Ridge regression of the labels")
    page.click("#take-toml")
    page.wait_for_function("() => document.getElementById('take-text').value.includes('[problem]')")
    assert 'labels = "sign"' in page.input_value("#take-text")
    page.click("[data-close=take-dialog]")
    page.click("#tab-map")
    assert offered(page, "#f-map_quantity") == ["error_rate", "test_loss", "risk", "error_gain"]
    expect(page.locator("#map-progress")).to_contain_text("of 33 rows")


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_it_fits(browser: Browser, served: tuple[str, int], size: tuple[int, int]) -> None:
    """Nothing sticks out sideways, with every parameter in sight."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]})
    for state in ("#loss=huber:0.5&noise_law=mixture:1@0.9,5@0.1", SIGNS + "&labels=logit:3"):
        page = context.new_page()
        page.goto(served[0] + state)
        page.wait_for_selector(".parameter:visible")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= size[0]
    context.close()


def test_the_single_file_of_a_classifier(
    context: BrowserContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a grid of four problems."""

    def axis(problem: Problem, name: str, count: int) -> list[float]:
        own = float(getattr(problem, name))
        return [own, 2 * own] if name in ("alpha", "step") else [own]

    monkeypatch.setattr(export, "_axis", axis)
    monkeypatch.setattr(export, "available_cores", lambda: 1)
    path = tmp_path / "page.html"
    flags = ("--labels", "sign", "--teacher", "z", "--noise", "0", "--intercept")
    assert run(["explore", "--export", str(path), *flags]) == 0
    page = opened(context, path.as_uri())
    expect(page.locator("#quantity")).to_have_value("error_rate")
    problem = Problem(
        **{**PROBLEM, "teacher": "z", "noise": 0, "labels": "sign", "intercept": True}
    )
    error = page.locator("#values tr[data-value=error_rate] td")
    expect(error).to_have_text(f"{predict(problem).error_rate:.5g}")
    expect(page.locator("#curve-chart svg").first).to_contain_text("best along the step")
    expect(page.locator("#f-loss")).to_be_disabled()
    expect(page.locator("#f-intercept")).to_be_checked()
    page.click("#take-python")
    expect(page.locator("#take-text")).to_have_value(re.compile("intercept=True"))
    page.click("[data-close=take-dialog]")
    page.select_option("#axis", "step")
    expect(page.locator("#e-curve")).to_have_text("")
    page.click("#tab-map")
    page.select_option("#f-map_x", "alpha")
    page.select_option("#f-map_quantity", "error_gain")
    page.wait_for_selector("#map-chart svg")
    expect(page.locator("#e-map")).to_have_text("")
