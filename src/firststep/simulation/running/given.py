"""``simulate_features``: ridge regression on a given first layer, with fresh data each time."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.errors import InvalidParameter
from firststep.given_layer import GivenLayer
from firststep.inputs import CovarianceInputs, InputLaw, StructuredInputs
from firststep.problem import Problem
from firststep.results import Simulation
from firststep.simulation.backends import Backend
from firststep.simulation.design import Training, chosen_data, make_design
from firststep.simulation.fit.features import Layer
from firststep.simulation.kinds import Measured
from firststep.simulation.models import prepared
from firststep.simulation.models.network import GivenFeatures
from firststep.simulation.running.execute import Job, Plan, Progress, execute
from firststep.simulation.running.options import Run, gathered, nothing_left

if TYPE_CHECKING:
    from firststep.simulation.data.teachers import Directions
    from firststep.typing import Array, Float

ORTHOGONAL = 1e-6  # cosine of two directions, up to the rounding of single precision


@dataclass(frozen=True, eq=False)
class FeaturesJob(Job):
    """A job that brings its first layer and its teacher."""

    weights: Float[Array, "d N"]
    bias: Float[Array, " N"] | None
    teacher: Directions

    @property
    def kernel_lower_bound(self) -> float:
        """nan where directions are not orthogonal: terms along them are not independent."""
        gram = np.atleast_2d(self.teacher.T @ self.teacher)
        if np.abs(gram - np.diag(np.diag(gram))).max() > ORTHOGONAL:
            return math.nan
        return super().kernel_lower_bound

    def measured(self, backend: Backend, number: int) -> Measured:
        model = prepared(self.design, backend)
        assert isinstance(model, GivenFeatures)
        layer = Layer(self.weights, self.bias)
        return model.given(self.problem, (self.seed, number), layer, self.teacher)


def simulate_features(
    weights: object,
    problem: Problem,
    teacher: object,
    *,
    teacher_terms: object = (),
    bias: object = None,
    covariance: object = None,
    neurons: str = "columns",
    inputs: object = None,
    run: Run | Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    **options: object,
) -> Simulation:
    """Fit a readout on a given first layer and test it; the data alone are drawn.

    Features s(<w_i, x> + b_i), labels y = s*(<x, theta>) + noise * eps, and the ridge fit of
    ``simulate`` on n = alpha d samples. Of the problem, student, teacher, alpha, beta, ridge and
    noise count. With the seed and number of a replicate of ``simulate`` the data are those of that
    replicate: ``simulate_features(layer.after, problem, layer.teacher, seed=s, first_replicate=k)``
    with ``layer = first_layer(problem, d, s, k)`` gives its risk.

    Args:
        weights: the first layer, d x N, one column for every neuron (one row, with
            ``neurons="rows"``); N must be that of the problem, beta d.
        problem: the question; its dimension, if it has one, must be d.
        teacher: theta, d numbers of norm 1; with ``teacher_terms`` d x (1 + terms), a column a
            term, theta first. They need not be orthogonal; the bound of fixed kernels is then nan.
            Where the problem has a spectrum of its inputs, <x, theta> has variance 1 instead.
        teacher_terms: activations of further terms of the teacher; default the problem's.
        bias: b, one number for every neuron; none: zero.
        covariance: C, d x d: the inputs are N(0, C).
        neurons: ``columns`` or ``rows``.
        inputs: law of the inputs, as in ``simulate``; default the problem's.
        run: ``Run(...)``, how the replicates are run.
        progress: called with (finished, total) after every replicate.
        options: fields of ``Run`` as plain keywords: replicates, seed, backend, ...
    """
    started = time.perf_counter()
    running = gathered(Run, run, options)
    nothing_left("simulate_features", options, Run)
    layer = GivenLayer.checked(
        weights=weights,
        problem=problem,
        teacher=teacher,
        teacher_terms=teacher_terms,
        bias=bias,
        covariance=covariance,
        neurons=neurons,
    )
    plan = Plan.of(running, layer.sizes, progress, started)
    return execute(_job(layer, plan, inputs), plan, {"bias": layer.bias is not None})


def _job(layer: GivenLayer, plan: Plan, inputs: object) -> FeaturesJob:
    design = make_design(
        layer.problem,
        model=GivenFeatures,
        training=Training(),
        sizes=layer.sizes,
        test_samples=plan.test_samples,
        block=plan.block,
        inputs=_law(inputs, layer),
        teacher_terms=layer.terms[1:],
    )
    teachers = layer.teachers[:, 0] if len(layer.terms) == 1 else layer.teachers
    return FeaturesJob(
        problem=layer.problem,
        design=design,
        seed=plan.run.seed,
        backend=plan.run.where,
        weights=np.ascontiguousarray(layer.weights),
        bias=layer.bias,
        teacher=np.ascontiguousarray(teachers),
    )


def _law(inputs: object, layer: GivenLayer) -> InputLaw:
    law, _ = chosen_data(layer.problem, inputs)
    if layer.covariance is None or isinstance(layer.problem.inputs, StructuredInputs):
        return law
    if not law.is_gaussian:
        raise InvalidParameter("inputs", "gaussian where a covariance is given", str(law))
    return CovarianceInputs.of_checked(layer.covariance)
