"""``predict_features``: the ridge risk of a first layer that is given, whatever made it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firststep.errors import InvalidParameter, NotConverged
from firststep.given_layer import GivenLayer
from firststep.problem import Problem
from firststep.results import versions
from firststep.theory.binary import BinaryLabels
from firststep.theory.channel import Channel, RealLabels
from firststep.theory.given_layer.directions import Directions, choose_directions
from firststep.theory.given_layer.layer import Layer, LowRank
from firststep.theory.given_layer.loss_fit import LossFit
from firststep.theory.given_layer.matrices import Matrices, matrices_on
from firststep.theory.given_layer.nodes import Grid, Neurons, Target, TooManyNodes, make_grid
from firststep.theory.given_layer.prediction import FeaturePrediction
from firststep.theory.given_layer.risk import Solution, Solver, solved_with_a_loss
from firststep.theory.loss_numbers import has_other_loss
from firststep.theory.terms import MOST as MOST_COORDINATES
from firststep.theory.terms import Coordinates, Rest
from firststep.theory.terms_channel import TermsChannel

if TYPE_CHECKING:
    from firststep.typing import Array, Float

_INSIDE = 1e-10  # squared norm, of the largest, of a neuron that lies inside the directions


def predict_features(
    weights: object,
    problem: Problem,
    teacher: object,
    *,
    teacher_terms: object = (),
    initial: object = None,
    directions: object = "auto",
    bias: object = None,
    covariance: object = None,
    neurons: str = "columns",
    backend: str = "numpy",
    device: str = "auto",
) -> FeaturePrediction:
    """The exact asymptotic ridge risk of one given first layer.

    No ridge data and no test data are drawn. The features are s(W1^T x + bias) with the student s
    of the problem, inputs x ~ N(0, covariance); the labels are s*(<x, teacher>) + noise; the
    readout is fitted on n = alpha d fresh samples with the problem's ridges. How W1 came about does
    not matter (one step, many, another optimiser), as long as the fit's data are fresh. The
    equations are those of ``theory.given_layer.fit``: exact in the limit for weights that are a few
    strong directions plus a bulk.

    Args:
        weights: the first layer W1, an array with one column a neuron (d x N). The weight of a
            PyTorch ``Linear`` has one row a neuron: pass ``neurons="rows"``.
        problem: student, teacher, alpha, ridge, noise, loss, labels and intercept are used; beta
            must be N/d. Its step plays no part.
        teacher: the teacher's direction, d numbers of norm 1; with ``teacher_terms``,
            d x (1 + terms), a column a term.
        teacher_terms: activations of further terms of the teacher,
            y = s*(<x, theta>) + sum_j s_j(<x, theta_j>) + noise, or binary labels of that sum. With
            another loss than the square, an intercept or binary labels along three directions at
            most.
        initial: W0 in the same layout, if it is known: the directions are then those of W1 - W0.
        directions: ``auto`` (by the gaps of the singular values, see ``directions`` of the result),
            how many (1, 2 or 3; 0 is the Gaussian equivalent of the layer, noisy linear features),
            or the directions themselves, d x k.
        bias: N numbers added to the pre-activations; default none.
        covariance: of the inputs, d x d; default the identity.
        neurons: ``columns`` or ``rows``.
        backend, device: ``numpy``, or ``jax`` on ``auto``, ``cpu`` or ``gpu``. Always in double
            precision.
    """
    started = time.perf_counter()
    given = GivenLayer.checked(
        weights=weights,
        problem=problem,
        teacher=teacher,
        teacher_terms=teacher_terms,
        initial=initial,
        bias=bias,
        covariance=covariance,
        neurons=neurons,
    )
    _refuse(given)
    with matrices_on(backend, device) as matrices:
        seen = Conditioned.of(given, directions)
        return seen.predicted(given, matrices, started)


@dataclass(frozen=True)
class Conditioned:
    """The layer and the teacher along some directions and across them, and nodes along them."""

    directions: Directions
    across: Float[Array, "d N"]  # the weights without their part along the directions
    # The teacher's direction without theirs; of several terms their coordinates across.
    teachers: Float[Array, "d J"]
    neurons: Neurons
    target: Target
    grid: Grid
    rest: Rest | None = None  # nodes across, where the teacher has several terms

    @classmethod
    def of(cls, given: GivenLayer, asked: object) -> Conditioned:
        """On the directions asked for; of automatic ones as many as a grid can resolve."""
        white = _White.of(given)
        chosen = choose_directions(white.weights, white.initial, white.of_directions(asked))
        chosen = chosen.towards(white.teachers)
        bias = np.zeros(given.sizes.width) if given.bias is None else given.bias
        while True:
            along = chosen.vectors.T @ white.weights
            across = white.weights - chosen.vectors @ along
            gamma = chosen.vectors.T @ white.teachers
            teachers = white.teachers - chosen.vectors @ gamma
            left, mixing = teachers, None
            if len(given.terms) > 1:
                teachers, mixing = _coordinates(given, teachers)
            scale = _scale(white.weights, across)
            neurons = Neurons(given.problem.student, bias, along, scale)
            target = Target(
                terms=given.terms,
                gamma=gamma,
                across=left.T @ left,
                noise=given.problem.noise * given.problem.noise_law.deviation,
                binary=_binary(given.problem),
                mixing=mixing,
            )
            try:
                grid = make_grid(neurons, target, has_other_loss(given.problem))
                several = target.several
                rest = None if several is None else several.rest(grid.kappa @ gamma)
            except (TooManyNodes, NotConverged):
                if not isinstance(asked, str) or chosen.count == 1:
                    raise
                chosen = chosen.fewer()
            else:
                return cls(
                    directions=chosen,
                    across=across,
                    teachers=teachers,
                    neurons=neurons,
                    target=target,
                    grid=grid,
                    rest=rest,
                )

    def predicted(self, given: GivenLayer, matrices: Matrices, started: float) -> FeaturePrediction:
        """The fits of all ridges: (1) to (3) of ``fit``; ``started`` is when the call did."""
        target = self.target.moments(self.grid.kappa)
        channel = self.channel(given.problem)
        return FeaturePrediction(
            problem=given.problem.replace(dimension=given.sizes.dimension),
            sizes=given.sizes,
            directions=self.directions,
            alignments=self.target.gamma,
            teacher_terms=given.terms[1:],
            spike_strengths=np.sqrt((self.neurons.along**2).mean(axis=1)),
            grid=self.grid,
            target=target,
            label_variance=self.target.label_variance(self.grid.kappa),
            channel=channel,
            solutions=self._solutions(given, matrices, channel),
            backend=matrices.backend,
            seconds=time.perf_counter() - started,
            versions=versions(*matrices.packages),
        )

    def _solutions(
        self, given: GivenLayer, matrices: Matrices, channel: Channel | TermsChannel | None
    ) -> tuple[Solution, ...]:
        """The square loss by its own equations, the others by theirs."""
        problem, target = given.problem, self.target.moments(self.grid.kappa)
        layer = self.layer(matrices, given.sizes.samples)
        along = matrices.put(self.teachers.T @ self.across)
        if not has_other_loss(problem):
            solve = Solver(layer, self.across, self.target.width)
            return tuple(solve(ridge, target, along) for ridge in problem.ridges)
        assert channel is not None
        width = self.target.width
        across = along / width if len(along) > 1 else along[0] / width
        fit = LossFit(layer, channel, across, problem.intercept)
        return solved_with_a_loss(fit, problem.ridges, target, width)

    def channel(self, problem: Problem) -> Channel | TermsChannel | None:
        """What the samples pull at the fit; None where too many terms make the label."""
        shift, terms = self.grid.kappa @ self.target.gamma, self.target.several
        real = None if problem.labels.is_binary else RealLabels.of(problem)
        if terms is not None and self.rest is not None:
            return TermsChannel(problem.loss, terms, real, shift[:, 0], self.rest)
        if len(self.target.terms) > 1:
            return None
        labels = real or BinaryLabels.of(problem)
        return Channel(problem.loss, labels, shift[:, 0], self.target.width)

    def layer(self, matrices: Matrices, samples: int) -> Layer:
        """What the equations need, where the matrices live."""
        omega, across = self.grid.omega, matrices.put(self.across)
        mean, slope, scatter = self.neurons.moments(self.grid.kappa)
        return Layer(
            matrices=matrices,
            omega=omega,
            mean=LowRank.of(mean, omega, matrices),
            slope=LowRank.of(slope, omega, matrices),
            scatter=matrices.put(scatter),
            gram=across.T @ across,
            samples=samples,
        )


def _coordinates(
    given: GivenLayer, teachers: Float[Array, "d J"]
) -> tuple[Float[Array, "d r"], Float[Array, "J r"] | None]:
    """Of several terms across; the ridge risk alone needs none, and has any number of them."""
    found = Coordinates.of(teachers)
    count = found.basis.shape[1]
    if count <= MOST_COORDINATES:
        return found
    if has_other_loss(given.problem) or given.problem.labels.is_binary:
        allowed = f"along at most {MOST_COORDINATES} directions with theta, with this loss"
        raise InvalidParameter("teacher-terms", allowed, f"{count} directions")
    return teachers, None


def _binary(problem: Problem) -> BinaryLabels | None:
    return BinaryLabels.of(problem) if problem.labels.is_binary else None


def _refuse(given: GivenLayer) -> None:
    """Say so where there is no fit."""
    problem = given.problem
    other = has_other_loss(problem)
    if other and min(problem.ridges) <= 0:
        allowed = "> 0 with a loss other than the square or an intercept"
        raise InvalidParameter("ridge", allowed, min(problem.ridges))
    if problem.loss.is_margin and not problem.labels.is_binary:
        hint = f"{problem.loss} is a loss of labels +-1: try labels sign"
        raise InvalidParameter("labels", "sign or logit:SLOPE with this loss", "real", hint)


def _scale(weights: Float[Array, "d N"], across: Float[Array, "d N"]) -> Float[Array, " N"]:
    """The norms of the neurons across the directions; of one inside them, next to nothing."""
    largest = max(float(np.einsum("ij,ij->j", weights, weights).max()), 1e-300)
    return np.sqrt(np.maximum(np.einsum("ij,ij->j", across, across), _INSIDE * largest))


@dataclass(frozen=True)
class _White:
    """The layer in coordinates where the inputs are N(0, I)."""

    weights: Float[Array, "d N"]
    teachers: Float[Array, "d J"]
    initial: Float[Array, "d N"] | None
    root: Float[Array, "d d"] | None  # covariance = root root^T

    @classmethod
    def of(cls, layer: GivenLayer) -> _White:
        weights, teachers, initial = layer.weights, layer.teachers, layer.initial
        if layer.covariance is None:
            return cls(weights, teachers, initial, None)
        root = _root(layer.covariance)
        start = None if initial is None else root.T @ initial
        return cls(root.T @ weights, root.T @ teachers, start, root)

    def of_directions(self, asked: object) -> object:
        """Directions given for the inputs x = root g, as directions for g."""
        if self.root is None or np.asarray(asked).ndim == 0:
            return asked
        array = np.asarray(asked, dtype=float)
        return self.root.T @ array if array.shape[:1] == self.root.shape[:1] else array


def _root(covariance: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """root with root root^T = covariance, which may be singular."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return vectors * np.sqrt(np.maximum(values, 0.0))
