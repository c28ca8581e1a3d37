"""The first layer of one simulated network, before and after its step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firststep.problem import Problem, whole
from firststep.simulation.backends import block_rows, make_backend
from firststep.simulation.design import Training, make_design
from firststep.simulation.network import NetworkKernel

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FirstLayer:
    """W0 and W1 (d x N), the readout at and the teacher's direction of one replicate."""

    before: Array
    after: Array
    readout: Array
    teacher: Array


def first_layer(problem: Problem, dimension: int | None = None, seed: int = 0, replicate: int = 0) -> FirstLayer:
    """The weights that ``simulate`` trains in this replicate: the same random numbers, without the fit."""
    sizes = problem.sizes(dimension)
    backend = make_backend("numpy", "cpu", "float64", 1)
    rows = block_rows(sizes.width, sizes.dimension, backend)
    design = make_design(problem, "network", Training(), sizes, 2, rows, None)
    with backend.scope(), np.errstate(all="ignore"):
        number = whole("replicate", replicate, 0)
        teacher, before, readout, after = NetworkKernel(design, backend).layer(problem, whole("seed", seed, 0), number)
    return FirstLayer(before, after, readout, teacher)
