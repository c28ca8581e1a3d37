"""The first layer of one simulated network, before and after its steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firststep.checks import whole
from firststep.problem import Problem
from firststep.simulation.backends import block_rows, make_backend
from firststep.simulation.data.teachers import first_direction
from firststep.simulation.design import Training, chosen_data, make_design, test_set_size
from firststep.simulation.models.network import Network
from firststep.simulation.running.options import gathered, nothing_left
from firststep.simulation.running.simulate import sizes_for

if TYPE_CHECKING:
    from firststep.typing import Array, Float


@dataclass(frozen=True, eq=False)
class FirstLayer:
    """The first layer of one replicate: W0, W1, the readout at and the teacher's direction.

    With further terms of the teacher, ``directions`` has a column for each, ``teacher`` first. They
    have norm 1, or where the problem has a spectrum of its inputs theta^T Omega theta = 1.
    """

    before: Float[Array, "d N"]
    after: Float[Array, "d N"]
    readout: Float[Array, " N"]
    teacher: Float[Array, " d"]
    directions: Float[Array, "d J"]


def first_layer(
    problem: Problem,
    dimension: int | None = None,
    seed: int = 0,
    replicate: int = 0,
    **options: Any,
) -> FirstLayer:
    """The weights that ``simulate`` trains in this replicate with these options, without the fit.

    The random numbers are the same. ``options`` are those of ``training_path``: ``training`` or its
    fields as plain keywords (steps, batches, parameterization, optimizer), ``inputs``,
    ``teacher_terms``, and ``test_samples``, which matters only where the inputs are an array: which
    rows the steps see depends on how many the test set takes.
    """
    for layer in training_path(problem, dimension, seed, replicate, **options):
        last = layer
    return last


def training_path(
    problem: Problem,
    dimension: int | None = None,
    seed: int = 0,
    replicate: int = 0,
    *,
    training: Training | Mapping[str, Any] | None = None,
    inputs: object = None,
    teacher_terms: object = (),
    test_samples: int | None = None,
    **options: object,
) -> Iterator[FirstLayer]:
    """The first layers after 0, 1, ..., ``steps`` steps, one after the other, each computed once.

    The last is ``first_layer`` with the same options. Of a problem without a step all are W0.
    """
    problem = Problem.asked(problem)
    trained = gathered(Training, training, options)
    nothing_left("first_layer", options, Training)
    law, terms = chosen_data(problem, inputs, teacher_terms)
    sizes = sizes_for(problem, dimension, law)
    backend = make_backend("numpy", "cpu", "float64", 1)
    design = make_design(
        problem,
        model=Network,
        training=trained,
        sizes=sizes,
        test_samples=test_set_size(test_samples, sizes),
        block=block_rows(sizes.width, sizes.dimension, backend),
        inputs=law,
        teacher_terms=terms,
    )
    seed, number = whole("seed", seed, 0), whole("replicate", replicate, 0)

    def layers() -> Iterator[FirstLayer]:
        path = Network(design, backend).path(problem, seed, number)
        last = None
        for _ in range(trained.steps + 1):
            # not while the caller works on what we yield
            with backend.scope(), np.errstate(all="ignore"):
                last = next(path, last)
            assert last is not None
            start, after = last
            yield FirstLayer(
                before=start.weights,
                after=after,
                readout=start.readout,
                teacher=first_direction(start.teacher),
                directions=start.teacher.reshape(len(start.teacher), -1),
            )

    return layers()
