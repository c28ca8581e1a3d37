"""The covariance of a problem's inputs as the theory and the simulation need it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from firststep.errors import InvalidParameter
from firststep.inputs.data import DataInputs
from firststep.inputs.structured import StructuredInputs

if TYPE_CHECKING:
    from firststep.inputs import InputLaw, TeacherOverlaps
    from firststep.problem import Problem
    from firststep.typing import Array, Float

LARGEST = 10**7  # d of a spectrum that is written out: some arrays of 80 MB


class Asked(Protocol):
    """The fields of a Problem that are looked at."""

    @property
    def inputs(self) -> InputLaw: ...
    @property
    def teacher_overlaps(self) -> TeacherOverlaps: ...
    @property
    def dimension(self) -> float: ...


class Structure(NamedTuple):
    """Eigenvalues varpi, the largest first, of mean one under the masses of their average; and the
    teacher's shares t = varpi theta^2, whose sum is one.
    """

    eigenvalues: Float[Array, " s"]
    masses: Float[Array, " s"]
    shares: Float[Array, " s"]


def structure_of(problem: Asked) -> Structure | None:
    """The structure of a problem's inputs at its dimension; None where they are N(0, I).

    Laws that are no N(0, Omega) have none, and are refused.
    """
    law, overlaps = problem.inputs, problem.teacher_overlaps
    if law.is_gaussian:
        return None
    if not isinstance(law, StructuredInputs):
        allowed = "gaussian, power-law:A, two-level:RATIO:SHARE or spectrum:FILE for the theory"
        hint = "simulate(...) runs others; diagnose_inputs(...) says whether the Gaussian theory "
        hint += "can be trusted for them"
        if isinstance(law, DataInputs):
            hint += ", and SpectrumInputs.from_data(rows) has their spectrum"
        raise InvalidParameter("inputs", allowed, str(law), hint)
    if problem.dimension == math.inf:
        values, masses = _limit_of(law)
        _refuse_no_size(law, overlaps)
        squares = overlaps.squares(np.cumsum(masses), masses)
        if squares.shape != values.shape:
            raise _wrong_length(squares.size, values.size)
        return Structure(values, masses, _scaled(values * squares))
    values = eigenvalues_of(law, int(problem.dimension))
    theta = teacher_components(overlaps, values)
    return Structure(values, np.full(values.size, 1 / values.size), values * theta**2)


def without_structure(problem: Problem) -> Problem:
    """The same question of inputs N(0, I), if its inputs are Gaussian with a spectrum."""
    if not isinstance(problem.inputs, StructuredInputs):
        return problem
    return problem.replace(inputs="gaussian", teacher_overlaps="equal")


def eigenvalues_of(law: StructuredInputs, dimension: int) -> Float[Array, " d"]:
    """varpi_j at a dimension, if that many fit."""
    if dimension > LARGEST:
        allowed = f"at most {LARGEST:.0e} with inputs {law}"
        raise InvalidParameter("dimension", allowed, dimension)
    return law.eigenvalues(dimension)


def teacher_components(overlaps: TeacherOverlaps, values: Float[Array, " d"]) -> Float[Array, " d"]:
    """theta_j with sum_j varpi_j theta_j^2 = 1; equal ones where each network draws its own."""
    components = overlaps.components(values.size)
    if components.shape != values.shape:
        raise _wrong_length(components.size, values.size)
    _scaled(values * components**2)  # refuses a teacher without inputs
    return components / math.sqrt(float(values @ components**2))


def _limit_of(law: StructuredInputs) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
    found = law.limit()
    if found is None:
        hint = f"the eigenvalues of {law} are not bounded as d grows"
        raise InvalidParameter("dimension", f"a finite one with inputs {law}", "inf", hint)
    return found


def _refuse_no_size(law: StructuredInputs, overlaps: TeacherOverlaps) -> None:
    """A component for every eigenvector is one of finitely many; those of a file have their own."""
    if law.dimension is None and overlaps.dimension is not None:
        allowed = f"{overlaps.dimension}, the number of components of the teacher"
        raise InvalidParameter("dimension", allowed, "inf")


def _wrong_length(given: int, wanted: int) -> InvalidParameter:
    return InvalidParameter("teacher-overlaps", f"{wanted} components", f"{given}")


def _scaled(shares: Float[Array, " s"]) -> Float[Array, " s"]:
    total = float(shares.sum())
    if not total > 0:
        allowed = "components that are not all zero where the eigenvalues are positive"
        raise InvalidParameter("teacher-overlaps", allowed, "a teacher that sees no input")
    return shares / total
