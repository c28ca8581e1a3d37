"""A walk through all states that one control leads to from a preset: every picture is finite.

The quick part draws the library's numbers of every preset with the page's own chart; the slow one
goes to every axis, quantity and scale in the browser.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page

from firststep.problem import Problem
from firststep.results import plain
from firststep.web import asked
from firststep.web.about import about
from firststep.web.curves import along, levels_of, line_of
from firststep.web.meaning import offered
from firststep.web.presets import stories
from firststep.web.words import FIELDS, QUANTITIES
from tests.web.browsing import SLOW, drawn, in_a_browser

pytestmark = in_a_browser
SHARES_AN_EXPLORER = True

PRESETS = {each["name"]: each["state"] for each in about()["presets"]}
SCREENS = {
    f"{story['name']} {number}": screen["state"]
    for story in stories()
    for number, screen in enumerate(story["screens"], 1)
}
MOST_TICKS = 60  # texts of a chart: two axes, the legend, labels
MOST_PATH = 200_000  # characters of one path: an endless loop makes millions
POINTS = 3
SCALES = ("log", "linear")

# What is wrong with the drawings within a node: numbers that are none, too many ticks.
FAULTS = """(host, [mostTicks, mostPath]) => {
  const faults = [];
  const svg = host.querySelector('svg');
  if (!svg) return ['no picture'];
  for (const node of svg.querySelectorAll('*')) {
    for (const { name, value } of node.attributes) {
      if (name.startsWith('aria-') || name === 'class') continue;
      if (/NaN|Infinity|undefined/.test(value)) faults.push(`${node.tagName} ${name}=${value}`);
      if (value.length > mostPath) faults.push(`${node.tagName} ${name} is ${value.length} long`);
    }
  }
  const texts = svg.querySelectorAll('text').length;
  if (texts > mostTicks) faults.push(`${texts} texts`);
  if (!texts) faults.push('no numbers at the axes');
  if (!(svg.getBoundingClientRect().height < 2000)) faults.push('a picture without end');
  return faults.slice(0, 5);
}"""
DRAW = f"""async (asked) => {{
  const {{ Chart }} = await import('/static/charts/chart.js');
  const faultsOf = {FAULTS};
  const host = document.createElement('div');
  host.className = 'chart';
  document.querySelector('#curve-card').append(host);
  const chart = new Chart(host, {{ label: 'walk' }});
  const found = [];
  for (const {{ told, x, y, levels, xscale, yscale, range, floor, marker }} of asked) {{
    const lines = [{{ label: 'line', x, y, color: 'blue' }}];
    for (const each of [lines, []]) {{
      const up = {{ label: 'y', scale: yscale, floor }};
      const axes = {{ x: {{ label: 'x', scale: xscale, range }}, y: up }};
      const rules = levels.map((value) => ({{ label: 'level', y: value, color: 'grey' }}));
      chart.update({{ ...axes, lines: each, levels: rules, marker }});
      for (const fault of faultsOf(host, [{MOST_TICKS}, {MOST_PATH}])) found.push([told, fault]);
    }}
  }}
  host.remove();
  return found;
}}"""


def pictures(state: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All quantities of a state along its axis, in all scales, as the library has them."""
    problem = {name: state[name] for name in FIELDS}
    frame = {"axis": state["axis"], "from": state["from"], "to": state["to"]}
    wanted = asked.Curve.of(
        {
            **frame,
            "problem": problem,
            "scale": state["xscale"],
            "points": POINTS,
            "line": "exact",
            "quantity": state["quantity"],
        }
    )
    axis, found, _ = line_of(wanted)
    levels = [value for value in levels_of(wanted, found).values() if isinstance(value, float)]
    for name in offered(QUANTITIES, wanted.problem):
        y = plain(along(axis, getattr(found, name)))
        for xscale, yscale in itertools.product(SCALES, SCALES):
            yield {
                "told": f"{name} against {axis.name}, {xscale}, {yscale}",
                "x": plain(axis.values),
                "y": y,
                "levels": levels,
                "xscale": xscale,
                "yscale": yscale,
                "range": [state["from"], state["to"]],
                "floor": QUANTITIES[name].floor,
                "marker": {"x": plain(axis.values)[1], "y": y[1], "label": "x = 1"},
            }


@pytest.fixture(scope="module")
def walker(browser: Browser, served: tuple[str, int]) -> Iterator[Page]:
    """A page that stays open, and the complaints of which fail the test that caused them."""
    made = browser.new_page(viewport={"width": 1300, "height": 900})
    made.set_default_timeout(SLOW)
    made.goto(served[0])
    drawn(made)
    yield made
    made.close()


@pytest.fixture
def complaints_of(walker: Page) -> Iterator[list[str]]:
    told: list[str] = []

    def hear(text: str) -> None:
        # A refused question is shown by the browser too, and so are those that a walk in haste
        # makes too many of; the page says what it has to say of them.
        if "Failed to load resource" not in text:
            told.append(text)

    def of_the_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            hear(message.text)

    def of_the_page(error: Error) -> None:
        hear(str(error))

    walker.on("pageerror", of_the_page)
    walker.on("console", of_the_console)
    yield told
    walker.remove_listener("pageerror", of_the_page)
    walker.remove_listener("console", of_the_console)
    assert told == []


def test_the_numbers_of_every_preset_and_screen_have_a_finite_picture(
    walker: Page, complaints_of: list[str]
) -> None:
    told = {}
    for name, state in {**PRESETS, **SCREENS}.items():
        if is_slow(state):
            continue
        told[name] = walker.evaluate(DRAW, list(pictures(state)))
    assert len(told) > 25
    assert {name: faults for name, faults in told.items() if faults} == {}


def is_slow(state: dict[str, Any]) -> bool:
    """Their predictions take half a second or more; the slow walk goes there."""
    problem = Problem(**{name: state[name] for name in FIELDS if state[name] is not None})
    return (
        str(problem.loss) != "square"
        or str(problem.inputs) != "gaussian"
        or problem.dimension != math.inf
        or bool(problem.teacher_terms)
    )


# A link that differs in one control, followed without loading the page again; then the wait for
# the curve, or for the line that says why there is none.
GO = """async (hash) => {
  window.firststepLatency.length = 0;
  const host = document.querySelector('#curve-chart');
  const error = document.querySelector('#e-curve');
  const drawing = host.innerHTML;
  location.hash = hash;
  const begun = performance.now();
  const isThere = () => window.firststepLatency.length > 0 || error.textContent !== ''
    || (performance.now() - begun > 150 && host.innerHTML !== drawing);
  while (!isThere() && performance.now() - begun < 60000) {
    await new Promise((resolve) => { setTimeout(resolve, 10); });
  }
  return [isThere(), error.textContent];
}"""


def link_of(state: dict[str, Any]) -> str:
    def text(value: Any) -> str:
        if value is None:
            return "same"
        if isinstance(value, list):
            return ",".join(value)
        return str(value).lower() if isinstance(value, bool) else str(value)

    return "#" + urlencode({name: text(value) for name, value in state.items()})


def one_control_away(state: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every axis with its range, every quantity along it; both scales of the first and of each."""
    fields = {name: state[name] for name in FIELDS}
    problem = asked.Point.of({"problem": fields}).problem
    for axis, field in FIELDS.items():
        if not field.axis:
            continue
        low, high = field.slider or (0.1, 10.0)
        frame = {"axis": axis, "from": low, "to": high, "xscale": field.scale, "tab": "curve"}
        for quantity in offered(QUANTITIES, problem):
            for yscale in SCALES:
                yield {**state, **frame, "quantity": quantity, "yscale": yscale}
        other = "linear" if field.scale == "log" else "log"
        yield {**state, **frame, "xscale": other}


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_every_state_one_control_away_has_a_finite_picture(
    walker: Page, complaints_of: list[str], preset: str
) -> None:
    host = walker.locator("#curve-chart")
    faults = {}
    for state in one_control_away(PRESETS[preset]):
        told = tuple(state[name] for name in ("axis", "quantity", "xscale", "yscale"))
        is_there, error = walker.evaluate(GO, link_of(state))
        assert is_there, told
        if not error:
            found = host.evaluate(FAULTS, [MOST_TICKS, MOST_PATH])
            faults.update({told: found} if found else {})
    assert faults == {}
