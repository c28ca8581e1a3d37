"""What is wrong with the inputs of a problem and the components and terms of its teacher, taken
together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from firststep.errors import Fault, InvalidParameter
from firststep.inputs import InputLaw, SpectrumInputs, StructuredInputs, TeacherOverlaps
from firststep.structure import teacher_components

if TYPE_CHECKING:
    from firststep.activations import Activation


class Asked(Protocol):
    """The fields of a Problem that are looked at."""

    @property
    def inputs(self) -> InputLaw: ...
    @property
    def teacher_overlaps(self) -> TeacherOverlaps: ...
    @property
    def teacher_terms(self) -> tuple[Activation, ...]: ...
    @property
    def dimension(self) -> float: ...


def fixed_dimension(problem: Asked) -> int | None:
    """d, where an array of the question has a size."""
    return problem.inputs.dimension or problem.teacher_overlaps.dimension


def dimension_fault(problem: Asked, dimension: int) -> Fault | None:
    """What speaks against a dimension."""
    try:
        problem.inputs.refuse_dimension(dimension)
    except InvalidParameter as error:
        return error.faults[0]
    count, terms = problem.teacher_overlaps.dimension, problem.teacher_terms
    if count not in (None, dimension):
        allowed = f"{count}, the number of components of the teacher"
        return Fault("dimension", allowed, str(dimension))
    if len(terms) >= dimension:
        return Fault("teacher-terms", f"fewer than the dimension, {dimension}", f"{len(terms)}")
    return None


def of_the_data(problem: Asked) -> Iterator[Fault]:
    """Components without a spectrum, arrays that do not fit, a teacher that sees no input, and
    terms beside a spectrum.
    """
    law, overlaps, size = problem.inputs, problem.teacher_overlaps, problem.dimension
    structured = isinstance(law, StructuredInputs)
    if overlaps.needs_spectrum and not structured:
        hint = "components mean something where eigenvalues differ: try inputs power-law:0.3"
        allowed = f"equal or random with inputs {law}"
        yield Fault("teacher-overlaps", allowed, str(overlaps)[:40], hint)
    elif law.dimension is not None and overlaps.dimension not in (None, law.dimension):
        allowed = f"{law.dimension} components, one for each of the {law.counted} of the inputs"
        yield Fault("teacher-overlaps", allowed, f"{overlaps.dimension}")
    elif isinstance(law, SpectrumInputs):
        yield from _blindness(problem, law)
    if structured and problem.teacher_terms:
        given = ",".join(map(str, problem.teacher_terms))
        hint = "simulate(..., teacher_terms=...) runs them"
        yield Fault("teacher-terms", f"none with inputs {law}", given, hint)
    fault = None if size == math.inf else dimension_fault(problem, int(size))
    if fault is not None:
        yield fault


def _blindness(problem: Asked, law: SpectrumInputs) -> Iterator[Fault]:
    """Of a teacher whose components are all where the eigenvalues are zero."""
    try:
        teacher_components(problem.teacher_overlaps, law.eigenvalues(law.dimension))
    except InvalidParameter as error:
        yield from error.faults
