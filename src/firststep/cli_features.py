"""The command for a first layer from a file: ``firststep features``."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from firststep.compare import compare_features
from firststep.errors import InvalidParameter
from firststep.problem import Problem, whole
from firststep.theory.given_layer.predict import predict_features


def features(
    given: Mapping[str, Any],
    files: Mapping[str, Path | None],
    *,
    teacher_terms: str,
    directions: str,
    neurons: str,
    replicates: str,
    seed: str,
    backend: str,
    device: str,
    progress: Any = None,
) -> Any:
    """The prediction, or with ``replicates`` the comparison, of the layer in ``files``; ``given``: fields of the problem."""
    arrays = {name: _load(name, path) for name, path in files.items() if path is not None}
    weights = arrays.pop("weights")
    if weights.ndim != 2 or weights.size == 0:
        raise InvalidParameter(
            "weights", "a file with a matrix", f"an array of shape {weights.shape}"
        )
    width, dimension = weights.shape if neurons == "rows" else weights.shape[::-1]
    problem = Problem(**{"beta": width / dimension, **given})
    terms = tuple(each.strip() for each in teacher_terms.split(",") if each.strip())
    options: dict[str, Any] = {
        **{name: arrays.get(name) for name in ("initial", "bias", "covariance")},
        "teacher_terms": terms,
        "directions": directions if directions == "auto" else whole("directions", directions, 0, 3),
        "neurons": neurons,
    }
    count = whole("replicates", replicates, 0)
    if not count:
        return predict_features(
            weights, problem, arrays["direction"], backend=backend, device=device, **options
        )
    return compare_features(
        weights,
        problem,
        arrays["direction"],
        replicates=count,
        seed=seed,
        backend=backend,
        device=device,
        progress=progress,
        **options,
    )


def _load(parameter: str, path: Path) -> np.ndarray:
    """The array of an .npy file, or the only one of an .npz file."""
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.lib.npyio.NpzFile):
            with found:
                if len(found.files) != 1:
                    names = ", ".join(found.files) or "nothing"
                    raise InvalidParameter(
                        parameter,
                        "a file with one array",
                        f"{path} with {names}",
                        "save it with numpy.save",
                    )
                found = found[found.files[0]]
        return np.asarray(found, dtype=float)
    except InvalidParameter:
        raise
    except OSError as error:
        raise InvalidParameter(
            parameter, "a readable .npy or .npz file", str(path), error.strerror or ""
        ) from None
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile):
        raise InvalidParameter(
            parameter,
            "an .npy or .npz file of numbers",
            str(path),
            "NumPy could not read it as such",
        ) from None
