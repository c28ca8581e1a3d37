"""The first state of the page, the states worth seeing of presets.toml, and the stories."""

from __future__ import annotations

import json
import tomllib
from importlib.resources import files
from typing import Any

from firststep.web.checked import Json
from firststep.web.words import FIELDS

PROBLEM: Json = {name: field.default for name, field in FIELDS.items()}
DEFAULTS: Json = {
    **PROBLEM,
    "axis": "alpha",
    "from": 0.25,
    "to": 16.0,
    "xscale": "log",
    "yscale": "log",
    "quantity": "risk",
    "lines": [
        *("exact", "random-features", "kernel-bound", "direction_error_rate", "bayes_error_rate")
    ],
    "tab": "curve",
    "story": "",  # the name of one under way, and the number of its screen
    "screen": 1,
    "lock": "",  # the ends of the vertical axis, where they are to stay
    "pin": "",  # the address of a problem whose curve stays
    "present": "",  # the fields whose sliders are shown while presenting; none: not presenting
    "sim_dimension": 200,
    "sim_replicates": 5,
    "sim_points": 7,
    "sim_seed": 0,
    "sim_model": "network",
    "map_x": "alpha0",
    "map_x_from": 0.25,
    "map_x_to": 32.0,
    "map_y": "step",
    "map_y_from": 0.1,
    "map_y_to": 10.0,
    "map_quantity": "ratio",
}


def presets() -> list[Json]:
    """Every preset with its whole state and its small picture (tests/scripts/thumbnails.py)."""
    told = tomllib.loads(files("firststep.web").joinpath("presets.toml").read_text("utf-8"))
    drawn = json.loads(files("firststep.web").joinpath("thumbnails.json").read_text("utf-8"))
    return [
        {**_preset(name, row, told["groups"][row["group"]]), "thumbnail": drawn.get(name)}
        for name, row in told["presets"].items()
    ]


def stories() -> list[Json]:
    """Every story with the state of each of its screens."""
    told = tomllib.loads(files("firststep.web").joinpath("stories.toml").read_text("utf-8"))
    return [
        {"name": name, "title": row["title"], "screens": [_screen(each) for each in row["screens"]]}
        for name, row in told["stories"].items()
    ]


def _screen(row: Json) -> Json:
    words = {name: row.get(name, "") for name in ("title", "words", "question", "answer")}
    return {**words, "facts": row.get("facts", {}), "state": _state(row, {})}


def _preset(name: str, row: Json, common: Json) -> Json:
    words = {word: row[word] for word in ("group", "label", "caption")}
    return {"name": name, **words, "state": _state(row, common)}


def _state(row: Json, common: Json) -> Json:
    """A whole state of the page, from what differs from the first."""
    along = dict(zip(("axis", "from", "to"), row.get("along", ()), strict=False))
    parts = (row.get(part, {}) for part in ("network", "numbers", "view"))
    state: dict[str, Any] = {**DEFAULTS, **common, **along}
    for part in parts:
        state |= part
    if state["alpha0"] == "same":
        state["alpha0"] = None
    return state
