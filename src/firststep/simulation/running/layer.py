"""The first layer of one simulated network, before and after its steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firststep.errors import InvalidParameter
from firststep.inputs import input_law
from firststep.problem import Problem, whole
from firststep.simulation.backends import block_rows, make_backend
from firststep.simulation.data.teachers import first_direction
from firststep.simulation.design import Training, make_design, test_set_size
from firststep.simulation.models.network import NetworkKernel
from firststep.simulation.running.simulate import sizes_for
from firststep.teacher_terms import teacher_terms as terms_of

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FirstLayer:
    """The first layer of one replicate: W0 and W1 (d x N, a column for every neuron), the readout at and the teacher's direction.

    With further terms of the teacher, ``directions`` has a column for each of them, ``teacher`` first.
    """

    before: Array
    after: Array
    readout: Array
    teacher: Array
    directions: Array


def first_layer(
    problem: Problem,
    dimension: int | None = None,
    seed: int = 0,
    replicate: int = 0,
    *,
    steps: int = 1,
    batches: str = "fresh",
    parameterization: str = "mean-field",
    optimizer: str = "gradient",
    inputs: Any = "gaussian",
    teacher_terms: Any = (),
    test_samples: int | None = None,
) -> FirstLayer:
    """The weights that ``simulate`` trains in this replicate with these options: the same random numbers, without the fit.

    ``test_samples`` matters only where the inputs are an array: which rows the steps see depends on how many the test set takes.
    """
    path = training_path(
        problem,
        dimension,
        seed,
        replicate,
        steps=steps,
        batches=batches,
        parameterization=parameterization,
        optimizer=optimizer,
        inputs=inputs,
        teacher_terms=teacher_terms,
        test_samples=test_samples,
    )
    for layer in path:
        last = layer
    return last


def training_path(
    problem: Problem,
    dimension: int | None = None,
    seed: int = 0,
    replicate: int = 0,
    *,
    steps: int,
    batches: str = "fresh",
    parameterization: str = "mean-field",
    optimizer: str = "gradient",
    inputs: Any = "gaussian",
    teacher_terms: Any = (),
    test_samples: int | None = None,
) -> Iterator[FirstLayer]:
    """The first layers after 0, 1, ..., ``steps`` steps, one after the other, each step computed once.

    The last is ``first_layer`` with the same options. Of a problem without a step all are W0.
    """
    if not isinstance(problem, Problem):
        raise InvalidParameter("problem", "a Problem", problem, "build it with Problem(...)")
    law = input_law(inputs)
    sizes = sizes_for(problem, dimension, law)
    training = Training.checked(steps, batches, False, parameterization, optimizer)
    backend = make_backend("numpy", "cpu", "float64", 1)
    rows = block_rows(sizes.width, sizes.dimension, backend)
    tests = test_set_size(test_samples, sizes)
    design = make_design(
        problem, "network", training, sizes, tests, rows, None, law, terms_of(teacher_terms)
    )
    seed, number = whole("seed", seed, 0), whole("replicate", replicate, 0)

    def layers() -> Iterator[FirstLayer]:
        path = NetworkKernel(design, backend).path(problem, seed, number)
        last = None
        for _ in range(training.steps + 1):
            with (
                backend.scope(),
                np.errstate(all="ignore"),
            ):  # not while the caller works on what we yield
                last = next(path, last)
            assert last is not None
            teacher, before, readout, after = last
            yield FirstLayer(
                before, after, readout, first_direction(teacher), teacher.reshape(len(teacher), -1)
            )

    return layers()
