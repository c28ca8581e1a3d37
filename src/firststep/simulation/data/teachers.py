"""The teacher: y = s*(<x, theta>) + sum_j s_j(<x, theta_j>) + noise * eps.

theta, theta_1, theta_2, ... are drawn orthonormal. Where the kernels ask for the ``teacher`` they
mean the vector theta, or with further terms the matrix of all directions, d x J.

Where the problem has a spectrum of its inputs, x ~ N(0, Omega), theta has the components of its
overlaps, or is drawn uniform, and they are orthonormal as the inputs see them: theta_i^T Omega
theta_j is 1 or 0, so that the <x, theta_j> are independent N(0, 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from types import ModuleType

    from firststep.activations import Activation
    from firststep.problem import Problem
    from firststep.simulation.backends import Backend, Draws
    from firststep.simulation.design import Design
    from firststep.typing import Array, Float

    Directions: TypeAlias = Float[Array, " d"] | Float[Array, "d J"]


def kernel_lower_bound(problem: Problem, terms: tuple[Activation, ...]) -> float:
    """sum_j (m2_j - c0_j^2 - c1_j^2): orthogonal terms are independent under N(0, I)."""
    return problem.kernel_lower_bound + sum(term.moments.nonlinear_variance for term in terms)


class Metric(NamedTuple):
    """Lengths as the inputs see them: |v|_Omega^2 = v^T Omega v, the variance of <x, v>.

    Omega = diag(root^2). Without a root they are plain lengths. Compiled code takes it as an
    argument.
    """

    root: Float[Array, " d"] | None = None
    theta: Float[Array, " d"] | None = None  # the teacher, where it is not drawn

    def weighted(self, v: Float[Array, " d"]) -> Float[Array, " d"]:
        """Omega v."""
        return v if self.root is None else self.root**2 * v

    def length(self, v: Float[Array, " d"], xp: ModuleType) -> Float[Array, ""]:
        """|v|_Omega."""
        return xp.linalg.norm(v if self.root is None else self.root * v)

    def scaled(self, unit: Float[Array, " d"], xp: ModuleType) -> Float[Array, " d"]:
        """A vector of plain length 1, or 0, at |v|_Omega = 1."""
        if self.root is None:
            return unit
        length = self.length(unit, xp)
        return unit / xp.where(length > 0, length, 1.0)


PLAIN = Metric()


def draw_teacher(
    backend: Backend, draws: Draws, dimension: int, metric: Metric = PLAIN
) -> Float[Array, " d"]:
    """theta: given, or uniform on the unit sphere, at length 1 as the inputs see it."""
    if metric.theta is not None:
        return metric.theta
    direction = draws.vector("teacher", dimension)
    return direction / metric.length(direction, backend.xp)


def draw_directions(
    backend: Backend, draws: Draws, design: Design, metric: Metric = PLAIN
) -> Directions:
    """theta, or all directions: Gaussian vectors, made orthonormal one after the other."""
    xp, d = backend.xp, design.sizes.dimension
    found = [draw_teacher(backend, draws, d, metric)]
    for number in range(len(design.teacher_terms)):
        new = draws.vector("teacher terms", d, number)
        for _ in range(2):  # once leaves rounding of the first pass
            for old in found:
                new = new - old * (metric.weighted(old) @ new)
        found.append(new / metric.length(new, xp))
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
