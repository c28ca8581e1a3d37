"""What the page is built from: fields, words, presets and limits, in one JSON object."""

from __future__ import annotations

from typing import Any

from firststep.results import versions
from firststep.web import asked
from firststep.web.presets import DEFAULTS, presets
from firststep.web.words import FIELDS, LINES, MAP_QUANTITIES, QUANTITIES, about_words


def about() -> dict[str, Any]:
    def explained(table: dict[str, tuple[str, str]]) -> list[dict[str, Any]]:
        return [
            {"name": name, "label": label, "explanation": why, "anchor": name}
            for name, (label, why) in table.items()
        ]

    return {
        "version": versions()["firststep"],
        "offline": False,
        "defaults": DEFAULTS,
        "presets": presets(),
        "fields": [field.about() for field in FIELDS],
        "axes": list(asked.AXES),
        "map_axes": list(asked.AXES),
        "quantities": explained(QUANTITIES),
        "map_quantities": explained(MAP_QUANTITIES),
        "models": list(asked.MODELS),
        "lines": [
            {**line._asdict(), "quantities": list(line.quantities), "anchor": line.name}
            for line in LINES
        ],
        "words": about_words(),
        "limits": {
            "points": asked.MOST_POINTS,
            "map_points": asked.MOST_MAP_POINTS,
            "map_side": asked.MOST_MAP_SIDE,
            "at": asked.MOST_AT,
            "dimension": asked.LARGEST_DIMENSION,
            "replicates": asked.MOST_REPLICATES,
            "text": asked.LONGEST_TEXT,
        },
    }
