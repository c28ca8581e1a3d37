"""The stories of the exported page, which has no library behind it: what every screen asks, and the
answers, as the server would give them.
"""

from __future__ import annotations

from collections.abc import Iterator

from firststep.errors import FirststepError
from firststep.simulation.running.workers import Workers
from firststep.web import answers
from firststep.web.checked import Json
from firststep.web.meaning import SPECTRA
from firststep.web.presets import stories
from firststep.web.words import FIELDS, LINES

TOLD: tuple[str, ...] | None = None  # the stories that are recorded; None: all
POINTS, SLOW_POINTS = 41, 17  # of a line; where every point takes long
Question = tuple[str, Json]


def recorded(defaults: Json, cores: int) -> tuple[list[Json], list[Json]]:
    """The stories, and [call, body, answer] of all that their screens ask.

    ``defaults``: the first state of the page; a curve is asked for with the default of its axis.
    """
    told = [story for story in stories() if TOLD is None or story["name"] in TOLD]
    screens = [screen["state"] for story in told for screen in story["screens"]]
    asked = [question for state in screens for question in questions(state, defaults)]
    found: list[Json] = [{} for _ in asked]
    with Workers(cores) as workers:
        for place, answer in workers.survive(answered, asked):
            if isinstance(answer, BaseException):
                raise answer
            found[place] = answer
    return told, [
        {"call": call, "body": body, "answer": answer}
        for (call, body), answer in zip(asked, found, strict=True)
    ]


def questions(state: Json, defaults: Json) -> Iterator[Question]:
    """What the page asks of a screen: its lines, its point and its weights."""
    problem = {name: state[name] for name in FIELDS}
    along = {**problem, state["axis"]: defaults[state["axis"]]}
    frame = {name: state[name] for name in ("axis", "from", "to", "quantity")}
    points = SLOW_POINTS if is_slow(problem) else POINTS
    for name, line in LINES.items():
        if line.level or name not in state["lines"] or state["quantity"] not in line.quantities:
            continue
        scale = {"scale": state["xscale"], "points": points, "line": name}
        yield "curve", {"problem": along, **frame, **scale}
    yield "point", {"problem": problem}
    yield "weights", {"problem": problem}


def is_slow(problem: Json) -> bool:
    spectrum = str(problem["inputs"]).split(":")[0] in SPECTRA
    return problem["loss"] != "square" or problem["step_loss"] != "square" or spectrum


def answered(question: Question) -> Json:
    """The answer, or the words that a panel shows in its place."""
    call, body = question
    try:
        return answers.CALLS[call](body)
    except FirststepError as error:
        return {"refused": " ".join(str(error).split())}
