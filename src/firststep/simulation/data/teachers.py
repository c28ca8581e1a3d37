"""The teacher: y = s*(<x, theta>) + sum_j s_j(<x, theta_j>) + noise * eps.

theta, theta_1, theta_2, ... are drawn orthonormal. Where the kernels ask for the ``teacher`` they
mean the vector theta, or with further terms the matrix of all directions, d x J.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from firststep.activations import Activation
    from firststep.problem import Problem
    from firststep.simulation.backends import Backend, Draws
    from firststep.simulation.design import Design
    from firststep.typing import Array, Float

    Directions: TypeAlias = Float[Array, " d"] | Float[Array, "d J"]


def kernel_lower_bound(problem: Problem, terms: tuple[Activation, ...]) -> float:
    """sum_j (m2_j - c0_j^2 - c1_j^2): orthogonal terms are independent under N(0, I)."""
    return problem.kernel_lower_bound + sum(term.moments.nonlinear_variance for term in terms)


def draw_teacher(backend: Backend, draws: Draws, dimension: int) -> Float[Array, " d"]:
    """theta, uniform on the unit sphere."""
    direction = draws.vector("teacher", dimension)
    return direction / backend.xp.linalg.norm(direction)


def draw_directions(backend: Backend, draws: Draws, design: Design) -> Directions:
    """theta, or all directions: Gaussian vectors, made orthonormal one after the other."""
    xp, d = backend.xp, design.sizes.dimension
    found = [draw_teacher(backend, draws, d)]
    for number in range(len(design.teacher_terms)):
        new = draws.vector("teacher terms", d, number)
        for _ in range(2):  # once leaves rounding of the first pass
            for old in found:
                new = new - old * (old @ new)
        found.append(new / xp.linalg.norm(new))
    return xp.stack(found, axis=1) if design.teacher_terms else found[0]


def first_direction(teacher: Directions) -> Float[Array, " d"]:
    """theta, of the vector or the matrix."""
    return teacher if teacher.ndim == 1 else teacher[:, 0]


def clean_labels(
    backend: Backend, design: Design, inputs: Float[Array, "n d"], teacher: Directions
) -> Float[Array, " n"]:
    """s*(<x, theta>) + sum_j s_j(<x, theta_j>), one for every row."""
    projections = inputs @ teacher
    if teacher.ndim == 1:
        return design.teacher.evaluate(projections)
    first, *others = (design.teacher, *design.teacher_terms)
    total = first.evaluate(projections[:, 0])
    for j, term in enumerate(others, start=1):
        total = total + term.evaluate(projections[:, j])
    return total
