"""The equations of a batch of problems on their nodes, and the state that solves them.

What travels together is one object here: ``Bulk`` is what the resolvent of the trained rows is
made of, ``Mean`` what the mean features are made of, and a ``System`` both of them with the
numbers of the fit. All are tuples of arrays, of NumPy or of JAX, whose leading axis ``batch``
counts problems; an array without it is shared by all of them. Axes: P readout values, K nodes of
kappa, s levels of the inputs' covariance, J nodes of the label, r functions in the basis of mu1,
n = r or 2 r the size of the pencil, Y = r (r + 1)/2 + P the number of overlaps.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from firststep.numerics.batches import Places, take
from firststep.numerics.library import library_of

if TYPE_CHECKING:
    from firststep.typing import Array, Float, Int


class Levels(NamedTuple):
    """The covariance Omega of the inputs: levels varpi, and averages over them (``medium``)."""

    value: Float[Array, "batch s"]  # varpi
    mass: Float[Array, "batch s"]  # of <.>
    share: Float[Array, "batch s"]  # of <.>_t
    teacher: Float[Array, " batch"]  # T_1
    # Of the weights' own spectrum, which no input is seen through, M^-1 stands for M^-1/varpi.
    bare: Float[Array, "batch s"] | None = None  # then it is varpi, a factor of M^-1/varpi


class Bulk(NamedTuple):
    """What the equations (g) and (E) of ``resolvent`` are made of."""

    basis: Float[Array, "batch r K"]  # B
    idle: Float[Array, "batch r"]  # 1 for the rows of B that are not used, and zero
    coordinates: Float[Array, "batch P r"]  # U
    tilt: Float[Array, "batch P"] | None  # e; None for a pencil of one block
    isotropic: Float[Array, "batch P"]  # c of the one-block pencil
    jitter: Float[Array, "batch P"]  # chi
    neurons: Float[Array, "batch P"]  # beta pi_p
    scatter: Float[Array, "batch P K"]  # mu2
    labels: Float[Array, "batch J"]  # y
    label_weights: Float[Array, "batch 3 J"]  # w^0, w^1, w^2
    alpha0: Float[Array, " batch"]
    levels: Levels | None  # None where Omega = 1
    # A, with w^{ab} = A_a A_b, of a teacher of m > 1 directions; None for one
    amplitudes: Float[Array, "batch m1 J"] | None = None
    lean: Float[Array, "batch P"] | None = (
        None  # eps g of typed neurons: C = (1 + eps g Omega)^2 + ..
    )


class Types(NamedTuple):
    """How neurons of one readout value differ by g = w.v and by their u (``typed``)."""

    lean: Float[Array, "batch P"]  # eps g
    pull: Float[Array, "batch P"]  # y
    excess: Float[Array, "batch P"]  # y^2 - 1/(1 - r^2)
    share: Float[Array, "batch P"]  # (V_w + V_n + 2 eps g V_2 + (eps g)^2 V_3)/V
    spread: Float[Array, " batch"]  # V


class Target(NamedTuple):
    """The teacher given kappa: t = s*(gamma kappa + rho z), or a sum of terms."""

    h0: Float[Array, "batch K"]  # E t
    h1: Float[Array, "batch *m K"]  # E[z t]; of m > 1 directions E[zeta_a t], with an axis of them
    h2: Float[Array, "batch K"]  # E t^2 + noise^2


class Mean(NamedTuple):
    """What the mean features are made of."""

    mean: Float[Array, "batch P nodes"]  # mu0 on K nodes, or on 2 K: "common mode" of ``mean``
    by_variance: Float[Array, "batch P K"]  # mu0' = d mu0/dc
    fluctuations: tuple[Float[Array, "batch P nodes"], ...]  # psi^q; on K nodes, if only there
    kappa: Float[Array, " K"]
    target: Target
    length: Float[Array, " batch"]  # of v, at finite d with the own output's part: |v|
    alignment: Float[Array, " batch"]  # gamma
    misalignment: Float[Array, " batch"]  # rho
    linear_chaos: Float[Array, "batch P 3"] | None  # h
    higher_chaos: Float[Array, "batch P 3"] | None  # k
    vector_products: Float[Array, "batch 3 3"] | None  # X[yhat^i] . X[yhat^j]
    dimension: Float[Array, " batch"] | None  # d; None for infinity
    free: Float[Array, "batch K functions"] | None  # fitted freely, where mu0 spans all of them
    # eps^2, or (A/N) b^2 on the levels, where the own output counts: at finite d
    own_shift: Float[Array, " batch"] | Float[Array, "batch s"] | None
    # at_p sqrt(pi_p phi_p/A): the share of the rows along the readout, which the spike has.
    along_readout: Float[Array, "batch P"] | None
    types: Types | None = None  # of typed neurons: the P values are types then

    def part(self, places: Places) -> Mean:
        """Some of the problems; kappa is shared by all."""
        own = self._replace(kappa=None)  # type: ignore[arg-type]
        return take(own, places)._replace(kappa=self.kappa)


class State(NamedTuple):
    """The unknowns."""

    overlaps: Float[Array, "batch r r"]  # M
    diagonal: Float[Array, "batch P"]  # D
    energy: Float[Array, "batch P"]  # E
    resolvent: Float[Array, "batch n n"]  # Z

    def moved(
        self,
        packed: Float[Array, "batch Y"],
        energy: Float[Array, "batch P"],
        resolvent: Float[Array, "batch n2"],
    ) -> State:
        """The state after a change of y and of vech Z, with a new E."""
        matrix, diagonal = unpack(packed, self.overlaps.shape[-1])
        by_resolvent = unfold(resolvent, self.resolvent.shape[-1])
        overlaps, resolvent = self.overlaps + matrix, self.resolvent + by_resolvent
        return State(overlaps, self.diagonal + diagonal, energy, resolvent)


class System(NamedTuple):
    """A batch of problems on their nodes."""

    bulk: Bulk
    mean: Mean
    variance: Float[Array, "batch P"]  # c
    overlap_map: Float[Array, "batch Y K"]  # Lambda
    omega: Float[Array, " K"]
    alpha: Float[Array, " batch"]
    ridge: Float[Array, " batch"]

    @property
    def is_finite(self) -> bool:
        """Whether the dimension is finite."""
        return self.mean.dimension is not None

    @property
    def size(self) -> int:
        """How many problems."""
        return int(self.alpha.shape[0])

    def part(self, places: Places) -> System:
        """Some of the problems."""
        return System(
            bulk=take(self.bulk, places),
            mean=self.mean.part(places),
            variance=self.variance[places],
            overlap_map=self.overlap_map[places],
            omega=self.omega,
            alpha=self.alpha[places],
            ridge=self.ridge[places],
        )


# Symmetric matrices by their upper triangles -----------------------------------------------------


@lru_cache(maxsize=128)
def triangle(size: int) -> tuple[Int[Array, " n2"], Int[Array, " n2"], Float[Array, " n2"]]:
    """Rows, columns and multiplicities of the upper triangle of a symmetric matrix."""
    rows, columns = np.triu_indices(size)
    return rows, columns, np.where(rows == columns, 1.0, 2.0)


def unfold(packed: Float[Array, "batch n2"], size: int) -> Float[Array, "batch n n"]:
    """The symmetric matrices of upper triangles."""
    rows, columns, _ = triangle(size)
    place = np.zeros((size, size), int)
    place[rows, columns] = place[columns, rows] = np.arange(rows.size)
    return packed[:, place]


def unpack(
    packed: Float[Array, "batch Y"], size: int
) -> tuple[Float[Array, "batch r r"], Float[Array, "batch P"]]:
    """The matrices and the diagonals of y = (vech M, D), M of the given size."""
    count = size * (size + 1) // 2
    return unfold(packed[:, :count], size), packed[:, count:]


def apply(
    matrix: Float[Array, "*batch m n"], vector: Float[Array, "*batch n"]
) -> Float[Array, "*batch m"]:
    """Matrices times vectors."""
    return (matrix @ vector[..., None])[..., 0]


def solve_each(
    matrix: Float[Array, "batch n n"], vector: Float[Array, "batch n"]
) -> Float[Array, "batch n"]:
    """Inverse matrices times vectors."""
    return library_of(vector).linalg.solve(matrix, vector[..., None])[..., 0]


def flip(matrix: Float[Array, "*batch m n"]) -> Float[Array, "*batch n m"]:
    """The transposes of a batch of matrices."""
    return matrix.swapaxes(-1, -2)
