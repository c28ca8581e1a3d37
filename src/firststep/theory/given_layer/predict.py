"""``predict_features``: the ridge risk of a first layer that is given, whatever made it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firststep.errors import BackendUnavailable, InvalidParameter, NotConverged
from firststep.given_layer import GivenLayer
from firststep.numerics.devices import jax_device
from firststep.problem import Problem, choice
from firststep.results import versions
from firststep.theory.given_layer.directions import choose_directions
from firststep.theory.given_layer.equations import DeviceMatrices, Layer, LowRank, Matrices, Solver
from firststep.theory.given_layer.nodes import Neurons, Target, TooManyNodes, make_grid
from firststep.theory.given_layer.prediction import FeaturePrediction

Array = NDArray[np.float64]


def predict_features(
    weights: Any,
    problem: Problem,
    teacher: Any,
    *,
    teacher_terms: Any = (),
    initial: Any = None,
    directions: Any = "auto",
    bias: Any = None,
    covariance: Any = None,
    neurons: str = "columns",
    backend: str = "numpy",
    device: str = "auto",
) -> FeaturePrediction:
    """The exact asymptotic ridge risk of one given first layer: no ridge data and no test data are drawn.

    The features are s(W1^T x + bias) with the student s of the problem, inputs x ~ N(0, covariance); the labels are
    s*(<x, teacher>) + noise; the readout is fitted on n = alpha d fresh samples with the problem's ridges. How W1 came about does
    not matter (one step, many, another optimiser), as long as the fit's data are fresh. The equations are those of
    ``theory.quenched``: exact in the limit for weights that are a few strong directions plus a bulk.

    Args:
        weights: the first layer W1, an array with one column a neuron (d x N). The weight of a PyTorch ``Linear`` has one row a
            neuron: pass ``neurons="rows"``.
        problem: student, teacher, alpha, ridge and noise are used; beta must be N/d. Its step plays no part.
        teacher: the teacher's direction, d numbers of norm 1; with ``teacher_terms``, d x (1 + terms), a column a term.
        teacher_terms: activations of further terms of the teacher, y = s*(<x, theta>) + sum_j s_j(<x, theta_j>) + noise.
        initial: W0 in the same layout, if it is known: the directions are then those of W1 - W0.
        directions: ``auto`` (by the gaps of the singular values, see ``directions`` of the result), how many (1, 2 or 3; 0 is the
            Gaussian equivalent of the layer, noisy linear features), or the directions themselves, d x k.
        bias: N numbers added to the pre-activations; default none.
        covariance: of the inputs, d x d; default the identity.
        neurons: ``columns`` or ``rows``.
        backend, device: ``numpy``, or ``jax`` on ``auto``, ``cpu`` or ``gpu``. Always in double precision.
    """
    started = time.perf_counter()
    layer_given = GivenLayer.checked(
        weights=weights,
        problem=problem,
        teacher=teacher,
        teacher_terms=teacher_terms,
        initial=initial,
        bias=bias,
        covariance=covariance,
        neurons=neurons,
    )
    given, sizes = _White.of(layer_given), layer_given.sizes
    shifts = np.zeros(sizes.width) if layer_given.bias is None else layer_given.bias
    choice("backend", backend, ("numpy", "jax"))
    choice("device", device, ("auto", "cpu", "gpu"))
    if backend == "numpy" and device == "gpu":
        raise InvalidParameter(
            "device", "cpu or auto for the numpy backend", "gpu", 'try backend="jax"'
        )
    chosen = choose_directions(given.weights, given.initial, given.to_white(directions)).towards(
        given.teachers
    )
    while True:
        along = chosen.vectors.T @ given.weights
        across = given.weights - chosen.vectors @ along
        gamma = chosen.vectors.T @ given.teachers
        rest = given.teachers - chosen.vectors @ gamma
        units = Neurons(problem.student, shifts, along, _scale(given.weights, across))
        target = Target(layer_given.terms, gamma, rest.T @ rest, problem.noise)
        try:
            grid = make_grid(units, target)
            break
        except (TooManyNodes, NotConverged):
            if not isinstance(directions, str) or chosen.count == 1:
                raise
            chosen = chosen.fewer()
    mean, slope, variance = units.moments(grid.kappa)
    labels = target.moments(grid.kappa)
    with _matrices(backend, device) as matrices:
        put = matrices.put
        parts = [LowRank.of(each, grid.omega) for each in (mean, slope)]
        mean_part, slope_part = (LowRank(each.nodes, put(each.neurons)) for each in parts)
        tall = put(across)
        layer = Layer(
            matrices, grid.omega, mean_part, slope_part, put(variance), tall.T @ tall, sizes.samples
        )
        solve = Solver(layer, across)
        solutions = tuple(solve(ridge, labels, put(rest.T @ across)) for ridge in problem.ridges)
    return FeaturePrediction(
        problem=problem.replace(dimension=sizes.dimension),
        sizes=sizes,
        directions=chosen,
        alignments=gamma,
        teacher_terms=layer_given.terms[1:],
        spike_strengths=np.sqrt((along**2).mean(axis=1)),
        grid=grid,
        target=labels,
        solutions=solutions,
        backend=backend,
        seconds=time.perf_counter() - started,
        versions=versions(*(("jax", "jaxlib") if backend == "jax" else ())),
    )


def _scale(weights: Array, across: Array) -> Array:
    """The norms of the neurons across the directions; of one that lies inside them, next to nothing."""
    largest = max(float(np.einsum("ij,ij->j", weights, weights).max()), 1e-300)
    return np.asarray(np.sqrt(np.maximum(np.einsum("ij,ij->j", across, across), 1e-10 * largest)))


@contextlib.contextmanager
def _matrices(backend: str, device: str) -> Iterator[Matrices]:
    if backend == "numpy":
        yield Matrices()
        return
    try:
        import jax
        import jax.scipy.linalg
    except ImportError:
        raise BackendUnavailable(
            "backend", "one that is installed", "jax", "try: pip install 'firststep[jax]'"
        ) from None
    with (
        jax.enable_x64(True),
        jax.default_device(jax_device(jax, device)),
        jax.default_matmul_precision("highest"),
    ):
        yield DeviceMatrices(jax)


@dataclass(frozen=True)
class _White:
    """The layer in coordinates where the inputs are N(0, I)."""

    weights: Array  # d x N
    teachers: Array  # d x J
    initial: Array | None
    root: Array | None  # covariance = root root^T

    @classmethod
    def of(cls, layer: GivenLayer) -> _White:
        weights, teachers, initial = layer.weights, layer.teachers, layer.initial
        if layer.covariance is None:
            return cls(weights, teachers, initial, None)
        root = _root(layer.covariance)
        start = None if initial is None else root.T @ initial
        return cls(root.T @ weights, root.T @ teachers, start, root)

    def to_white(self, directions: Any) -> Any:
        """Directions given for the inputs x = root g, as directions for g."""
        if self.root is None or np.ndim(directions) == 0:
            return directions
        array = np.asarray(directions, dtype=float)
        return self.root.T @ array if array.shape[:1] == self.root.shape[:1] else array


def _root(covariance: Array) -> Array:
    """root with root root^T = covariance, which may be singular."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
