"""What the page says goes together is what the library takes, and no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from firststep import InvalidParameter, Problem, predict
from firststep.losses import LOSSES
from firststep.web import answers, meaning
from firststep.web.about import about
from firststep.web.words import FIELDS, KINDS, LINES, MAP_QUANTITIES, QUANTITIES
from tests.web.serving import CURVE, PROBLEM

LABELS = {"real": "real", "sign": "sign", "logit": "logit:0.7"}
VALUES = {  # of every law one, and of the numbers that may be switched off
    "loss": ["square", "huber:0.4", "quantile:0.3", "logistic", "hinge", "squared-hinge"],
    "step_loss": ["square", "logistic"],
    "noise_law": ["gaussian", "t:4", "mixture:1@0.7,3@0.3"],
    "flip": [0.0, 0.2],
    "threshold": [0.0, 0.3],
    "noise": [0.0, 0.4],
}
OF_THE_DATA = {  # the fields that inputs decide on
    "teacher_overlaps": ["equal", "top:0.3", "bottom:0.4", "decay:0.7", "rise:2"],
    "teacher_terms": ["", "relu"],
}
INPUTS = {"gaussian": "gaussian", "power-law": "power-law:0.2", "two-level": "two-level:3:0.4"}
LAWS = {**LABELS, **INPUTS}
BY_LABELS, BY_INPUTS = [("labels", n) for n in LABELS], [("inputs", n) for n in INPUTS]
KINDS_OF: dict[str, dict[str, Any]] = {
    "ridge": {},
    "loss": {"loss": "huber:0.7"},
    "classes": {"labels": "sign", "loss": "squared-hinge", "noise": 0.0, "flip": 0.1},
}


def test_the_values_tried_are_all_there_are() -> None:
    for name in ("loss", "step_loss", "noise_law"):
        tried = {str(value).split(":")[0] for value in VALUES[name]}
        assert tried == set(map(str, meaning.usable(name))) - {""}
    told = {field["name"]: field["options"] for field in about()["fields"]}
    assert set(told["labels"]) == set(LABELS)
    assert set(told["loss"]) == set(LOSSES)
    with_number = {name for name, kind in LOSSES.items() if kind.parameter_name}
    assert set(FIELDS["loss"].parameters) == with_number


@pytest.mark.parametrize(("by", "law"), [*BY_LABELS, *BY_INPUTS])
@pytest.mark.parametrize("name", [*VALUES, *OF_THE_DATA])
def test_the_page_offers_what_the_library_takes(by: str, law: str, name: str) -> None:
    limit = meaning.rules()["limits"][by][law].get(name)
    trial = {**PROBLEM, "student": "relu", "noise": 0.0, "dimension": 40, by: LAWS[law]}
    if (name in OF_THE_DATA) != (by == "inputs"):
        assert limit is None
        return
    for value in [*VALUES.get(name, []), *OF_THE_DATA.get(name, [])]:
        held = value.split(":")[0] if isinstance(value, str) else value
        is_offered = limit is None or held in limit["allowed"]
        try:
            Problem(**{**trial, name: value})
            refused = False
        except InvalidParameter as error:
            refused = any(f.parameter.replace("-", "_") == name for f in error.faults)
        assert is_offered != refused, value
    if limit is not None:
        assert limit["allowed"]
        assert limit["why"].startswith(FIELDS[name].label)
        assert "\n" not in limit["why"]


def test_first_values_of_parameters_are_problems() -> None:
    """And so are the ends of their sliders."""
    for name in ("loss", "labels", "noise_law", "inputs", "teacher_overlaps"):
        for law, several in FIELDS[name].parameters.items():
            given: dict[str, Any] = {"labels": "sign"} if name == "labels" else {}
            given |= {"inputs": "power-law:0.3"} if name == "teacher_overlaps" else {}
            made = Problem(**{**PROBLEM, "noise": 0.0, **given, name: meaning._text(name, law)})
            assert str(getattr(made, name)).split(":")[0] == law
            for place in (0, 1):  # of a text that is its first value
                ends = [(each.slider or (each.default,) * 2)[place] for each in several]
                text = ":".join(map(str, [law, *ends]))
                Problem(**{**PROBLEM, "noise": 0.0, **given, name: text})


@pytest.mark.parametrize("kind", KINDS)
def test_every_quantity_of_a_kind_is_a_number(kind: str) -> None:
    problem = Problem(**{**PROBLEM, **KINDS_OF[kind]})
    assert meaning.kind_of(problem) == kind
    found, names = predict(problem), meaning.offered(QUANTITIES, problem)
    assert names[0] == meaning.main_quantity(problem)
    for name in names:
        assert np.isfinite(getattr(found, name)), name
    for name in set(QUANTITIES) - set(names):
        body = {**CURVE, "problem": {**PROBLEM, **KINDS_OF[kind]}, "points": 2, "quantity": name}
        with pytest.raises(InvalidParameter, match="quantity must be one of"):
            answers.curve(body)
    for level in (LINES[name].level for name in meaning.offered(LINES, problem)):
        assert not level or np.isfinite(getattr(found, level))


def test_names_of_lines_and_maps() -> None:
    for line in LINES.values():
        assert set(line.quantities) <= set(QUANTITIES)
        assert set(line.kinds) <= set(KINDS)
    for kind in KINDS:
        problem = Problem(**{**PROBLEM, **KINDS_OF[kind]})
        assert meaning.offered(MAP_QUANTITIES, problem)


def test_labels_that_are_random_given_the_input_are_known_to_be_slow() -> None:
    """Those whose probability is strictly between the flips somewhere."""
    assert set(meaning.SPREAD) == set(meaning.rules()["binary"])
    u = np.linspace(-2, 2, 11)
    for law, field in meaning.SPREAD.items():
        problem = Problem(**{**PROBLEM, "noise": 0.0, "labels": LABELS[law], "flip": 0.1})
        told = problem.label_probability(u)
        is_sure = bool(np.all(np.isclose(np.abs(told - 0.5), 0.4) | (told == 0.5)))
        assert is_sure == (field is not None)
        if field is not None:
            spread = problem.replace(**{field: 0.3}).label_probability(u)
            assert np.any((spread > 0.11) & (spread < 0.49))
