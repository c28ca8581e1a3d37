"""``predict_features``: the ridge risk of a first layer that is given, whatever made it."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firststep.activations import Activation, activation
from firststep.errors import BackendUnavailable, InvalidParameter, NotConverged
from firststep.numerics.devices import jax_device
from firststep.problem import Problem, Sizes, choice
from firststep.results import versions
from firststep.theory.given_layer.directions import choose_directions
from firststep.theory.given_layer.equations import DeviceMatrices, Layer, LowRank, Matrices, Solver
from firststep.theory.given_layer.nodes import Neurons, Target, TooManyNodes, make_grid
from firststep.theory.given_layer.prediction import FeaturePrediction

Array = NDArray[np.float64]
UNIT = 1e-4  # how far from 1 the norm of the teacher's direction may be


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
    given = _Given.checked(
        weights, problem, teacher, teacher_terms, initial, bias, covariance, neurons
    )
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
        units = Neurons(problem.student, given.bias, along, _scale(given.weights, across))
        target = Target(given.terms, gamma, rest.T @ rest, problem.noise)
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
            matrices,
            grid.omega,
            mean_part,
            slope_part,
            put(variance),
            tall.T @ tall,
            given.sizes.samples,
        )
        solve = Solver(layer, across)
        solutions = tuple(solve(ridge, labels, put(rest.T @ across)) for ridge in problem.ridges)
    return FeaturePrediction(
        problem=problem.replace(dimension=given.sizes.dimension),
        sizes=given.sizes,
        directions=chosen,
        alignments=gamma,
        teacher_terms=given.terms[1:],
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
            "backend", "one that is installed", "jax", "try: pip install jax"
        ) from None
    with (
        jax.enable_x64(True),
        jax.default_device(jax_device(jax, device)),
        jax.default_matmul_precision("highest"),
    ):
        yield DeviceMatrices(jax)


@dataclass(frozen=True)
class _Given:
    """The arguments, checked, in coordinates where the inputs are N(0, I)."""

    weights: Array  # d x N
    teachers: Array  # d x J
    terms: tuple[Activation, ...]
    initial: Array | None
    bias: Array
    sizes: Sizes
    root: Array | None  # covariance = root root^T

    @classmethod
    def checked(
        cls,
        weights: Any,
        problem: Any,
        teacher: Any,
        teacher_terms: Any,
        initial: Any,
        bias: Any,
        covariance: Any,
        neurons: Any,
    ) -> _Given:
        if not isinstance(problem, Problem):
            raise InvalidParameter("problem", "a Problem", problem, "build it with Problem(...)")
        choice("neurons", neurons, ("columns", "rows"))
        further = (
            (teacher_terms,)
            if isinstance(teacher_terms, str) or callable(teacher_terms)
            else tuple(teacher_terms)
        )
        terms = (
            problem.teacher,
            *(activation(each, parameter="teacher-terms") for each in further),
        )
        first = _array("weights", weights, 2)
        first = first.T if neurons == "rows" else first
        dimension, width = first.shape
        teachers = _teachers(teacher, len(terms), dimension, width, neurons)
        if dimension < 2:
            raise InvalidParameter(
                "weights", "of at least 2 inputs", f"an array of shape {np.shape(weights)}"
            )
        sizes = problem.sizes(dimension)
        if sizes.width != width:
            hint = f"problem.replace(beta={width / dimension!r}) has it"
            raise InvalidParameter(
                "beta", f"N/d = {width}/{dimension} for these weights", f"{problem.beta:g}", hint
            )
        start = None if initial is None else _array("initial", initial, 2)
        start = start.T if start is not None and neurons == "rows" else start
        if start is not None and start.shape != first.shape:
            raise InvalidParameter(
                "initial",
                f"of the shape of the weights, {np.shape(weights)}",
                f"{np.shape(initial)}",
            )
        shifts = np.zeros(width) if bias is None else _array("bias", bias, 1)
        if len(shifts) != width:
            raise InvalidParameter(
                "bias", f"{width} numbers, one a neuron", f"{len(shifts)} numbers"
            )
        root = None if covariance is None else _root(_array("covariance", covariance, 2), dimension)
        if root is not None:
            first, teachers = root.T @ first, root.T @ teachers
            start = None if start is None else root.T @ start
        return cls(first, teachers, terms, start, shifts, sizes, root)

    def to_white(self, directions: Any) -> Any:
        """Directions given for the inputs x = root g, as directions for g."""
        if self.root is None or np.ndim(directions) == 0:
            return directions
        array = np.asarray(directions, dtype=float)
        return self.root.T @ array if array.shape[:1] == self.root.shape[:1] else array


def _teachers(source: Any, count: int, dimension: int, width: int, neurons: str) -> Array:
    """The directions of the teacher as columns, each of norm 1."""
    found = _array("teacher", source, 2 if count > 1 else 1)
    found = found if found.ndim == 2 else found[:, None]
    if found.shape != (dimension, count):
        other, one = ("rows", "row") if neurons == "columns" else ("columns", "column")
        hint = f'one neuron a {one}? try neurons="{other}"' if len(found) == width else ""
        allowed = f"of {dimension} numbers, one an input" + (
            f", and {count} columns, one a term" if count > 1 else ""
        )
        raise InvalidParameter("teacher", allowed, f"an array of shape {np.shape(source)}", hint)
    norms = np.linalg.norm(found, axis=0)
    worst = float(norms[np.argmax(np.abs(norms - 1))])
    if abs(worst - 1) > UNIT:
        raise InvalidParameter(
            "teacher", "a direction of norm 1", f"one of norm {worst:.6g}", "divide it by its norm"
        )
    return found


def _array(parameter: str, source: Any, dimensions: int) -> Array:
    words = {1: "a vector", 2: "a matrix"}[dimensions]
    try:
        array = np.asarray(source, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter(
            parameter, f"{words} of numbers", source, "detach it and move it to the host first?"
        ) from None
    if array.ndim != dimensions or array.size == 0:
        raise InvalidParameter(parameter, f"{words} of numbers", f"an array of shape {array.shape}")
    if not np.all(np.isfinite(array)):
        count = int(np.sum(~np.isfinite(array)))
        raise InvalidParameter(
            parameter, f"{words} of finite numbers", f"an array with {count} that are not finite"
        )
    return array


def _root(covariance: Array, dimension: int) -> Array:
    """root with root root^T = covariance, which may be singular."""
    if covariance.shape != (dimension, dimension):
        raise InvalidParameter(
            "covariance",
            f"a {dimension} x {dimension} matrix",
            f"an array of shape {covariance.shape}",
        )
    size = float(np.abs(covariance).max())
    if not np.allclose(covariance, covariance.T, rtol=0, atol=1e-8 * max(size, 1e-300)):
        raise InvalidParameter("covariance", "a symmetric matrix", "one that is not symmetric")
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    if size == 0 or values[0] < -1e-8 * values[-1] or not math.isfinite(float(values[-1])):
        raise InvalidParameter(
            "covariance",
            "a positive semi-definite matrix that is not zero",
            f"smallest eigenvalue {values[0]:.3g}",
        )
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
