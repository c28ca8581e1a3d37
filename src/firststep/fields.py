"""How fields of a Problem are read that need more than one of the ``checks``."""

from __future__ import annotations

import math
from functools import lru_cache

from firststep.activations import Activation, activation
from firststep.checks import number
from firststep.errors import InvalidParameter
from firststep.inputs import (
    CovarianceInputs,
    InputLaw,
    SpectrumInputs,
    TeacherOverlaps,
    input_law,
    overlaps_of_file,
    teacher_overlaps,
)


def activation_of(parameter: str, source: object) -> Activation:
    """The student or the teacher; a name is integrated once."""
    return (_named if isinstance(source, str) else _activation)(parameter, source)


def _activation(parameter: str, source: object) -> Activation:
    made = activation(source, parameter=parameter)
    is_student = parameter == "student"
    try:
        moments = made.moments
        if is_student:
            _ = made.slope_moments
    except InvalidParameter as error:  # not integrable
        raise error.at(parameter) from None
    if is_student and moments.second_moment - moments.mean**2 < 1e-20:
        raise InvalidParameter(parameter, "an activation that is not constant", str(made))
    return made


_named = lru_cache(maxsize=1024)(_activation)  # a grid integrates its activations once


def flip_of(value: object) -> float:
    """The probability of a flip."""
    hint = ""
    try:
        flip = number("flip", value, 0)
    except InvalidParameter:
        flip = math.nan
    if flip >= 0.5:
        hint = "at 0.5 a label says nothing; beyond it, its opposite"
    if not flip < 0.5:
        raise InvalidParameter("flip", "a number from 0 to below 0.5", value, hint)
    return flip


def inputs_of(source: object) -> InputLaw:
    """The law of a problem's inputs: one with a text."""
    law = input_law(source)
    if isinstance(law, CovarianceInputs):
        allowed = "a law with a text, for a problem"
        hint = "give its spectrum: SpectrumInputs.of(numpy.linalg.eigvalsh(covariance))"
        raise InvalidParameter("inputs", allowed, "a covariance matrix", hint)
    return law


def own_overlaps(law: object) -> TeacherOverlaps:
    """Where nothing else is asked for: those in the file of a spectrum, or equal ones."""
    if isinstance(law, SpectrumInputs) and law.components is not None:
        return overlaps_of_file(law.components)
    return TeacherOverlaps("equal")


def overlaps_of(source: object, law: object) -> TeacherOverlaps:
    """The components meant; those of a file are looked up in the law of the inputs."""
    made = teacher_overlaps(source)
    if made.kind != "file":
        return made
    if isinstance(law, InputLaw) and own_overlaps(law).kind != "file":
        allowed = "another than file with inputs that have no second column"
        raise InvalidParameter("teacher-overlaps", allowed, "file")
    return own_overlaps(law)
