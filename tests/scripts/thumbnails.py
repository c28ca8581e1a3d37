"""The small pictures of the explorer's gallery: numbers of every preset, as the library has them.

python -m tests.scripts.thumbnails        write src/firststep/web/thumbnails.json (a minute or two)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from firststep.results import plain
from firststep.web import answers, asked
from firststep.web.about import about
from firststep.web.curves import along, line_of
from firststep.web.words import FIELDS, LINES

FILE = Path(__file__).parents[2] / "src" / "firststep" / "web" / "thumbnails.json"
POINTS, SIDE = 17, 9  # of a line; of a phase diagram
DIGITS = 4
DRAWN = ("exact", "random-features")


def question(state: dict[str, Any]) -> str:
    """What a picture shows, in short: stored beside it, so that one of an older preset is found."""
    problem = {name: state[name] for name in FIELDS}
    if state["tab"] == "map":
        names = ("map_x", "map_x_from", "map_x_to", "map_y", "map_y_from", "map_y_to")
        shown = {"problem": problem, **{name: state[name] for name in (*names, "map_quantity")}}
    else:
        frame = ("axis", "from", "to", "xscale", "quantity", "lines")
        shown = {"problem": problem, **{name: state[name] for name in frame}}
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:16]


def lines(state: dict[str, Any], places: Iterable[int]) -> dict[str, list[float | None]]:
    """The exact line and that without a step, at some of the places."""
    told = {}
    for name in DRAWN:
        if name not in state["lines"] or state["quantity"] not in LINES[name].quantities:
            continue
        wanted = asked.Curve.of(
            {
                "problem": {name: state[name] for name in FIELDS},
                **{end: state[end] for end in ("axis", "from", "to", "quantity")},
                "scale": state["xscale"],
                "points": POINTS,
                "places": list(places),
                "line": name,
            }
        )
        axis, found, _ = line_of(wanted)
        values = plain(along(axis, getattr(found, state["quantity"])))
        whole = len(values) == POINTS  # what does not depend on the axis comes whole
        told[name] = [values[place] for place in places] if whole else values
    return told


def phase(state: dict[str, Any]) -> list[list[float | None]]:
    body = {
        "problem": {name: state[name] for name in FIELDS},
        **{
            name: {
                "axis": state[f"map_{name}"],
                "from": state[f"map_{name}_from"],
                "to": state[f"map_{name}_to"],
                "scale": "log",
                "count": SIDE,
            }
            for name in ("x", "y")
        },
        "rows": list(range(SIDE)),
        "quantity": state["map_quantity"],
    }
    told: list[list[float | None]] = answers.CALLS["map"](body)["values"]
    return told


def rounded(values: Any) -> Any:
    if isinstance(values, list):
        return [rounded(each) for each in values]
    return None if values is None else float(f"{values:.{DIGITS}g}")


def main() -> None:
    found = {}
    for preset in about()["presets"]:
        state = preset["state"]
        made: dict[str, Any] = {"question": question(state)}
        if state["tab"] == "map":
            made["phase"] = rounded(phase(state))
        else:
            made["lines"] = {n: rounded(y) for n, y in lines(state, range(POINTS)).items()}
        found[preset["name"]] = made
        print(preset["name"], flush=True)
    rows = [f"  {json.dumps(name)}: {json.dumps(made)}" for name, made in found.items()]
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
