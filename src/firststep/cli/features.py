"""``firststep features``: a first layer from a file."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from cyclopts import Parameter

import firststep
from firststep.checks import whole
from firststep.cli.flags import NO_PROBLEM, Backend, Device, Json, ProblemFlags, number
from firststep.cli.output import Bar, show
from firststep.errors import InvalidParameter
from firststep.problem import Problem
from firststep.typing import Array

if TYPE_CHECKING:
    from firststep.typing import Float


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LayerFlags:
    """What else is known of the layer, and how to look at it."""

    initial: Annotated[Path | None, Parameter(help="the first layer before training, .npy")] = None
    bias: Annotated[Path | None, Parameter(help="N numbers added to the pre-activations, .npy")] = (
        None
    )
    covariance: Annotated[Path | None, Parameter(help="covariance of the inputs, .npy: d x d")] = (
        None
    )
    neurons: Annotated[str, Parameter(help="columns, or rows as in PyTorch")] = "columns"
    directions: Annotated[
        str, Parameter(help="auto, or how many directions to condition on, 0 to 3")
    ] = "auto"


NO_LAYER = LayerFlags()


def features(
    weights: Annotated[Path, Parameter(help="the first layer, .npy: d x N, one column a neuron")],
    direction: Annotated[
        Path,
        Parameter(
            help="the teacher's direction, .npy: d numbers of norm 1; with --teacher-terms a "
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
    columns, teacher = _loaded("weights", weights), _loaded("direction", direction)
    arrays = {
        name: None if path is None else _loaded(name, path)
        for name in ("initial", "bias", "covariance")
        for path in [getattr(layer, name)]
    }
    if columns.ndim != 2 or columns.size == 0:
        raise InvalidParameter(
            "weights", "a file with a matrix", f"an array of shape {columns.shape}"
        )
    width, dimension = columns.shape if layer.neurons == "rows" else columns.shape[::-1]
    question = Problem(**{"beta": width / dimension, **given})
    auto = layer.directions == "auto"
    options: dict[str, Any] = {
        **arrays,
        "directions": "auto" if auto else whole("directions", layer.directions, 0, 3),
        "neurons": layer.neurons,
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


def _loaded(parameter: str, path: Path) -> Float[Array, " ..."]:
    """The array of an .npy file, or the only one of an .npz file."""
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.lib.npyio.NpzFile):
            with found:
                if len(found.files) != 1:
                    given = f"{path} with {', '.join(found.files) or 'nothing'}"
                    hint = "save it with numpy.save"
                    raise InvalidParameter(parameter, "a file with one array", given, hint)
                found = found[found.files[0]]
        return np.asarray(found, dtype=float)
    except InvalidParameter:
        raise
    except OSError as error:
        allowed, why = "a readable .npy or .npz file", error.strerror or ""
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile):
        allowed, why = "an .npy or .npz file of numbers", "NumPy could not read it as such"
    raise InvalidParameter(parameter, allowed, str(path), why)
