"""The spectra of simulated first layers and of their kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from firststep.errors import NotConverged, NotEnoughMemory
from firststep.problem import Problem, Sizes
from firststep.simulation.backends import available_memory, block_rows, make_backend
from firststep.simulation.data.rows import Data, InputArrays, Replicate
from firststep.simulation.design import Training, make_design, test_set_size
from firststep.simulation.models.network import Network
from firststep.simulation.running.layer import first_layer

if TYPE_CHECKING:
    from firststep.typing import Array, Float


def layer_spectrum(
    problem: Problem, of: str, dimension: int | None = None, seed: int = 0, replicate: int = 0
) -> Float[Array, " values"]:
    """What is not zero by shape, largest first, of the network that ``simulate`` trains.

    weights: the min(d, N) singular values of W1. kernel: the min(n, N) eigenvalues of F^T F/n, F =
    s(X W1) the features of the replicate's own n ridge samples.
    """
    sizes = problem.sizes(dimension)
    check_memory(sizes, of)
    layer = first_layer(problem, dimension, seed, replicate)
    with np.errstate(all="ignore"):
        if of == "weights":
            return _finite(np.linalg.svd(layer.after, compute_uv=False))
        gram = _gram(problem, sizes, layer.after, seed, replicate)
    return np.maximum(np.linalg.eigvalsh(_finite(gram))[::-1], 0.0)


def check_memory(sizes: Sizes, of: str) -> None:
    """Refuse what does not fit before any work is done."""
    d, n, width = sizes.dimension, sizes.samples, sizes.width
    small = min(d, width) if of == "weights" else min(n, width)
    needed = 8 * (
        5 * d * width + 3 * small * small + (n * width if of == "kernel" and n < width else 0)
    )
    free = available_memory()
    if free is not None and needed > 0.9 * free:
        hint = f"one network needs {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free"
        raise NotEnoughMemory("dimension", "smaller with these ratios", d, hint)


def _finite(values: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    if not np.all(np.isfinite(values)):
        reason = "the student overflows on these weights; try a smaller step"
        raise NotConverged(f"the simulated spectrum is not finite: {reason}")
    return values


def _gram(
    problem: Problem, sizes: Sizes, weights: Float[Array, "d N"], seed: int, replicate: int
) -> Float[Array, "m m"]:
    """F^T F/n, or F F^T/n if that is smaller, of the samples of this replicate's ridge fit."""
    backend = make_backend("numpy", "cpu", "float64", 1)
    rows = block_rows(sizes.width, sizes.dimension, backend)
    design = make_design(
        problem,
        model=Network,
        training=Training(),
        sizes=sizes,
        test_samples=test_set_size(None, sizes),
        block=rows,
    )
    data = Data.of(design, backend, Replicate(InputArrays(design, backend).key(seed, replicate)))
    blocks = []
    gram = np.zeros((sizes.width, sizes.width) if sizes.samples >= sizes.width else (0, 0))
    for start in range(0, sizes.samples, rows):
        inputs = data.inputs("ridge", start, min(rows, sizes.samples - start))
        features = problem.student.evaluate(inputs @ weights)
        if gram.size:
            gram += features.T @ features
        else:
            blocks.append(features)
    if blocks:
        features = np.concatenate(blocks)
        gram = features @ features.T
    return gram / sizes.samples
