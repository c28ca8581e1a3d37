"""The teacher: y = s*(<x, theta>) + sum_j s_j(<x, theta_j>) + noise * eps, with theta, theta_1, theta_2, ... orthonormal.

Where the kernel asks for the ``teacher`` it means the vector theta, or with further terms the matrix d x terms of all directions.
"""

from __future__ import annotations

from typing import Any

from firststep.activations import Activation
from firststep.problem import Problem
from firststep.simulation.backends import Backend, Draws
from firststep.simulation.design import Design


def kernel_lower_bound(problem: Problem, terms: tuple[Activation, ...]) -> float:
    """sum_j (m2_j - c0_j^2 - c1_j^2): terms along orthogonal directions are independent under N(0, I)."""
    return problem.kernel_lower_bound + sum(term.moments.nonlinear_variance for term in terms)


def draw_teacher(backend: Backend, draws: Draws, dimension: int) -> Any:
    """theta, uniform on the unit sphere."""
    direction = draws.vector("teacher", dimension)
    return direction / backend.xp.linalg.norm(direction)


def draw_directions(backend: Backend, draws: Draws, design: Design) -> Any:
    """theta, or with further terms all directions as columns: Gaussian vectors, made orthonormal one after the other."""
    xp, d = backend.xp, design.sizes.dimension
    found = [draw_teacher(backend, draws, d)]
    for number in range(len(design.teacher_terms)):
        new = draws.vector("teacher terms", d, number)
        for _ in range(2):  # once leaves rounding of the first pass
            for old in found:
                new = new - old * (old @ new)
        found.append(new / xp.linalg.norm(new))
    return xp.stack(found, axis=1) if design.teacher_terms else found[0]


def first_direction(teacher: Any) -> Any:
    """theta, of the vector or the matrix."""
    return teacher if teacher.ndim == 1 else teacher[:, 0]


def clean_labels(backend: Backend, design: Design, inputs: Any, teacher: Any) -> Any:
    """s*(<x, theta>) + sum_j s_j(<x, theta_j>), one for every row."""
    projections = inputs @ teacher
    if teacher.ndim == 1:
        return design.teacher.evaluate(projections, backend.xp, backend.special)
    terms = (design.teacher, *design.teacher_terms)
    return sum(
        term.evaluate(projections[:, j], backend.xp, backend.special)
        for j, term in enumerate(terms)
    )


def labels(
    backend: Backend, design: Design, inputs: Any, teacher: Any, noise: Any, errors: Any
) -> Any:
    """The clean labels + noise * eps."""
    return clean_labels(backend, design, inputs, teacher) + noise * errors
