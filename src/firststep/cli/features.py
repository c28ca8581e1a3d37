"""``firststep features``: a first layer from a file."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

import firststep
from firststep.checks import whole
from firststep.cli.flags import NO_PROBLEM, Backend, Device, Json, ProblemFlags, number
from firststep.cli.output import Bar, show
from firststep.errors import InvalidParameter
from firststep.problem import Problem
from firststep.trained.tensors import read_named, split_name


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LayerFlags:
    """What else is known of the layer, and how to look at it."""

    initial: Annotated[str | None, Parameter(help="the first layer before training")] = None
    bias: Annotated[str | None, Parameter(help="N numbers added to the pre-activations")] = None
    covariance: Annotated[str | None, Parameter(help="covariance of the inputs: d x d")] = None
    neurons: Annotated[
        str | None,
        Parameter(
            help="columns, or rows as in PyTorch; default: columns, of FILE:TENSOR what the length "
            "of the direction says, rows where it says nothing"
        ),
    ] = None
    directions: Annotated[
        str, Parameter(help="auto, or how many directions to condition on, 0 to 3")
    ] = "auto"

    def arrays(self) -> dict[str, Any]:
        """Those of the files that are named."""
        paths = {"initial": self.initial, "bias": self.bias, "covariance": self.covariance}
        return {
            name: None if path is None else read_named(path, name) for name, path in paths.items()
        }


NO_LAYER = LayerFlags()


def features(
    weights: Annotated[
        str,
        Parameter(
            help="the first layer: a file with one array, d x N, one column a neuron; or one "
            "tensor of a .safetensors or .npz file, as model.safetensors:fc1.weight. All that are "
            "files here may be named so"
        ),
    ],
    direction: Annotated[
        str,
        Parameter(
            help="the teacher's direction: d numbers of norm 1; with --teacher-terms a "
            "column a term"
        ),
    ],
    problem: ProblemFlags = NO_PROBLEM,
    layer: LayerFlags = NO_LAYER,
    *,
    replicates: Annotated[
        str, Parameter(help="also fit the layer on so many data sets, and compare")
    ] = "0",
    seed: Annotated[str, number("seed of these data sets")] = "0",
    backend: Backend = "numpy",
    device: Device = "auto",
    json: Json = False,
) -> int:
    """Predict the ridge risk of a trained first layer from its weights, whatever trained it. beta
    is taken from the file.

    Example: firststep features W1.npy theta.npy --initial W0.npy --student relu --teacher tanh
    --alpha 2 --ridge 0.01 --noise 0.1
    """
    given = problem.given()
    columns, teacher = read_named(weights, "weights"), read_named(direction, "direction")
    arrays = layer.arrays()
    if columns.ndim != 2 or columns.size == 0:
        raise InvalidParameter(
            "weights", "a file with a matrix", f"an array of shape {columns.shape}"
        )
    neurons = layer.neurons or _neurons(weights, columns.shape, len(np.atleast_1d(teacher)), json)
    width, dimension = columns.shape if neurons == "rows" else columns.shape[::-1]
    question = Problem(**{"beta": width / dimension, **given})
    auto = layer.directions == "auto"
    options: dict[str, Any] = {
        **arrays,
        "directions": "auto" if auto else whole("directions", layer.directions, 0, 3),
        "neurons": neurons,
        "backend": backend,
        "device": device,
    }
    count = whole("replicates", replicates, 0)
    if not count:
        return show(firststep.predict_features(columns, question, teacher, **options), json)
    with Bar(json, "features") as bar:
        found = firststep.compare_features(
            columns, question, teacher, replicates=count, seed=seed, progress=bar, **options
        )
    return show(found, json)


def _neurons(weights: str, shape: tuple[int, ...], dimension: int, silent: bool) -> str:
    """Where the neurons are: of a tensor by name, what the direction's length says."""
    if split_name(weights)[1] is None:
        return "columns"
    chosen = "columns" if dimension == shape[0] != shape[1] else "rows"
    if not silent:
        told = f"{weights} is {shape[0]} x {shape[1]}: one neuron a {chosen.removesuffix('s')}"
        print(f"{told} (--neurons says otherwise)", file=sys.stderr)
    return chosen
