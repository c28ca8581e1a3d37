"""What the page is built from: fields, words, presets and limits, in one JSON object."""

from __future__ import annotations

from collections.abc import Mapping

from firststep.results import versions
from firststep.web import asked
from firststep.web.checked import Json
from firststep.web.meaning import rules, usable
from firststep.web.presets import DEFAULTS, presets, stories
from firststep.web.words import (
    FIELDS,
    GROUPS,
    LINES,
    MAP_QUANTITIES,
    MODELS,
    QUANTITIES,
    WORDS,
    Word,
)


def about() -> Json:
    def told(table: Mapping[str, Word]) -> list[Json]:
        return [word.about() for word in table.values()]

    return {
        "version": versions()["firststep"],
        "offline": False,
        "defaults": DEFAULTS,
        "presets": presets(),
        "stories": stories(),
        "fields": [{**field, "options": usable(field["name"])} for field in told(FIELDS)],
        "groups": [{"title": title, "fields": names} for title, names in GROUPS.items()],
        "rules": rules(),
        "axes": asked.AXES,
        "map_axes": asked.AXES,
        "quantities": told(QUANTITIES),
        "map_quantities": told(MAP_QUANTITIES),
        "models": told(MODELS),
        "lines": told(LINES),
        "words": {name: word.about() for name, word in WORDS.items()},
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
