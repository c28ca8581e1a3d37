"""``simulate_features``: ridge regression on a first layer that is given, with fresh data in every replicate."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firststep.errors import InvalidParameter
from firststep.given_layer import GivenLayer
from firststep.inputs import CovarianceInputs, InputLaw, input_law
from firststep.problem import Problem
from firststep.results import Simulation
from firststep.simulation.backends import Backend
from firststep.simulation.design import features_design
from firststep.simulation.models.network import Measured, network_kernel
from firststep.simulation.running.execute import Job, Plan, Progress, execute
from firststep.simulation.running.workers import Workers

Array = NDArray[np.float64]
ORTHOGONAL = 1e-6  # cosine of two directions, up to the rounding of single precision


@dataclass(frozen=True, eq=False)
class FeaturesJob(Job):
    """A job that brings its first layer and its teacher."""

    weights: Array
    bias: Array | None
    teacher: Array  # d, or d x terms

    @property
    def kernel_lower_bound(self) -> float:
        """nan where directions are not orthogonal: terms along them are not independent."""
        gram = np.atleast_2d(self.teacher.T @ self.teacher)
        if np.abs(gram - np.diag(np.diag(gram))).max() > ORTHOGONAL:
            return math.nan
        return super().kernel_lower_bound

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
    neurons: str = "columns",
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
        weights: the first layer, d x N, one column for every neuron (or one row, with ``neurons="rows"``); N must be that of the
            problem, beta d.
        problem: the question; its dimension, if it has one, must be d.
        teacher: theta, d numbers of norm 1; with ``teacher_terms`` d x (1 + terms), a column a term, theta first. They need not
            be orthogonal; the bound of fixed kernels is then nan.
        replicates: how many independent data sets.
        seed: a whole number >= 0.
        bias: b, one number for every neuron; none: zero.
        inputs: law of the inputs, as in ``simulate``.
        covariance: C, d x d: the inputs are N(0, C).
        teacher_terms, test_samples, backend, device, dtype, workers, threads, block, first_replicate, progress: as in ``simulate``.
    """
    started = time.perf_counter()
    layer = GivenLayer.checked(
        weights=weights,
        problem=problem,
        teacher=teacher,
        teacher_terms=teacher_terms,
        bias=bias,
        covariance=covariance,
        neurons=neurons,
    )
    sizes = layer.sizes
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
        problem, sizes, plan.test_samples, plan.block, _law(inputs, layer), layer.terms[1:]
    )
    teachers = layer.teachers[:, 0] if len(layer.terms) == 1 else layer.teachers
    job = FeaturesJob(
        problem,
        design,
        plan.seed,
        plan.backend,
        weights=np.ascontiguousarray(layer.weights),
        bias=layer.bias,
        teacher=np.ascontiguousarray(teachers),
    )
    return execute(job, plan, {"bias": layer.bias is not None})


def _law(inputs: Any, layer: GivenLayer) -> InputLaw:
    law = input_law(inputs)
    if layer.covariance is None:
        return law
    if not law.is_gaussian:
        raise InvalidParameter("inputs", "gaussian where a covariance is given", str(law))
    return CovarianceInputs.of_checked(layer.covariance)
