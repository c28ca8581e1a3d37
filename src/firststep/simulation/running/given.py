"""``simulate_features``: ridge regression on a first layer that is given, with fresh data in every replicate."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firststep.errors import InvalidParameter
from firststep.inputs import CovarianceInputs, InputLaw, input_law
from firststep.problem import Problem, Sizes
from firststep.results import Simulation
from firststep.simulation.backends import Backend
from firststep.simulation.data.teachers import teacher_terms as terms_of
from firststep.simulation.design import features_design
from firststep.simulation.models.network import Measured, network_kernel
from firststep.simulation.running.execute import Job, Plan, Progress, execute
from firststep.simulation.running.workers import Workers

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FeaturesJob(Job):
    """A job that brings its first layer and its teacher."""

    weights: Array
    bias: Array | None
    teacher: Array  # d, or d x terms

    def measured(self, backend: Backend, number: int) -> Measured:
        kernel = network_kernel(self.design, backend)
        return kernel.given(self.problem, self.seed, number, self.weights, self.bias, self.teacher)


def simulate_features(
    weights: Any,
    problem: Problem,
    teacher: Any,
    *,
    replicates: int = 10,
    seed: int = 0,
    bias: Any = None,
    inputs: Any = "gaussian",
    covariance: Any = None,
    teacher_terms: Any = (),
    test_samples: int | None = None,
    backend: str = "numpy",
    device: str = "auto",
    dtype: str = "float64",
    workers: int | Workers | None = None,
    threads: int = 1,
    block: int | None = None,
    first_replicate: int = 0,
    progress: Progress | None = None,
) -> Simulation:
    """Fit a readout on a given first layer and test it: only the ridge data, their noise and the test data are drawn.

    Features s(<w_i, x> + b_i), labels y = s*(<x, theta>) + noise * eps, and the ridge fit of ``simulate`` on n = alpha d samples.
    Of the problem, student, teacher, alpha, beta, ridge and noise count. With the seed and number of a replicate of ``simulate``
    the data are those of that replicate: ``simulate_features(layer.after, problem, layer.teacher, seed=s, first_replicate=k)``
    with ``layer = first_layer(problem, d, s, k)`` gives its risk.

    Args:
        weights: the first layer, d x N, one column for every neuron; N must be that of the problem, beta d.
        problem: the question; its dimension, if it has one, must be d.
        teacher: theta, d numbers of norm 1; with ``teacher_terms`` d x terms, orthonormal columns, theta first.
        replicates: how many independent data sets.
        seed: a whole number >= 0.
        bias: b, one number for every neuron; none: zero.
        inputs: law of the inputs, as in ``simulate``.
        covariance: C, d x d: the inputs are N(0, C).
        teacher_terms, test_samples, backend, device, dtype, workers, threads, block, first_replicate, progress: as in ``simulate``.
    """
    started = time.perf_counter()
    if not isinstance(problem, Problem):
        raise InvalidParameter(
            "problem", "a Problem", problem, "the order is weights, problem, teacher"
        )
    layer = _array(
        "weights", weights, "a d x N matrix of finite numbers, one column for every neuron", 2
    )
    sizes = _sizes(problem, layer)
    terms = terms_of(teacher_terms)
    directions = _directions(teacher, sizes.dimension, len(terms))
    shift = (
        None
        if bias is None
        else _array("bias", bias, f"{sizes.width} finite numbers, one for every neuron", 1)
    )
    if shift is not None and len(shift) != sizes.width:
        raise InvalidParameter(
            "bias", f"{sizes.width} numbers, one for every neuron", f"{len(shift)}"
        )
    plan = Plan.checked(
        sizes,
        replicates=replicates,
        seed=seed,
        first_replicate=first_replicate,
        test_samples=test_samples,
        backend=backend,
        device=device,
        dtype=dtype,
        threads=threads,
        block=block,
        workers=workers,
        progress=progress,
        started=started,
    )
    design = features_design(
        problem, sizes, plan.test_samples, plan.block, _law(inputs, covariance), terms
    )
    job = FeaturesJob(problem, design, plan.seed, plan.backend, layer, shift, directions)
    return execute(job, plan, {"bias": shift is not None})


def _array(parameter: str, source: Any, allowed: str, axes: int) -> Array:
    try:
        array = np.asarray(source)
        if array.dtype.kind not in "biuf":
            raise TypeError
        array = np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter(parameter, allowed, source) from None
    if array.ndim != axes or array.size == 0:
        raise InvalidParameter(parameter, allowed, f"an array of shape {array.shape}")
    if not np.all(np.isfinite(array)):
        raise InvalidParameter(
            parameter, allowed, f"{int(np.sum(~np.isfinite(array)))} entries that are not finite"
        )
    return array


def _sizes(problem: Problem, layer: Array) -> Sizes:
    """The whole numbers of the problem at the dimension of the weights, which must have the problem's width."""
    d, width = layer.shape
    if problem.dimension not in (np.inf, d):
        raise InvalidParameter(
            "dimension", f"{d} (the rows of the weights) or inf", f"{problem.dimension:g}"
        )
    sizes = problem.sizes(d)
    if sizes.width != width:
        hint = f"beta {problem.beta:g} asks for {sizes.width} neurons in dimension {d}, the weights have {width} columns"
        raise InvalidParameter(
            "beta", f"{width / d!r} for these weights", f"{problem.beta:g}", hint
        )
    return sizes


def _directions(teacher: Any, dimension: int, terms: int) -> Array:
    """theta, or theta and the directions of the further terms as columns."""
    if terms == 0:
        allowed = f"a vector of {dimension} finite numbers with norm 1"
        found = _array(
            "teacher",
            np.squeeze(teacher, 1) if np.shape(teacher) == (dimension, 1) else teacher,
            allowed,
            1,
        )
        columns = found[:, None]
    else:
        allowed = f"{dimension} x {terms + 1} finite numbers, orthonormal columns, with {terms} teacher-terms"
        found = columns = _array("teacher", teacher, allowed, 2)
    if columns.shape != (dimension, terms + 1):
        raise InvalidParameter("teacher", allowed, f"an array of shape {found.shape}")
    if np.abs(columns.T @ columns - np.eye(terms + 1)).max() > 1e-6:
        norms = ", ".join(f"{norm:.6g}" for norm in np.linalg.norm(columns, axis=0))
        raise InvalidParameter(
            "teacher", allowed, f"norm {norms}" + (" or not orthogonal" if terms else "")
        )
    return found


def _law(inputs: Any, covariance: Any) -> InputLaw:
    law = input_law(inputs)
    if covariance is None:
        return law
    if not law.is_gaussian:
        raise InvalidParameter("inputs", "gaussian where a covariance is given", str(law))
    return CovarianceInputs.of(covariance)
