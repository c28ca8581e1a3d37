"""What ``diagnose_inputs`` measures on rows of inputs, and what it makes of the numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.linalg

if TYPE_CHECKING:
    from firststep.typing import Array, Float, Int

COMPONENTS = 8  # leading principal components
GROUPS = 8  # of rows, whose scatter gives the errors
FEW = "few rows: "  # before what they are too few for
# How far each number may be from that of N(0, I): docs/inputs.md tells how these were found.
TOLERANCES = {
    "mean": 0.015,
    "scale": 0.012,
    "spread": 0.015,
    "norm": 0.015,
    "kurtosis": 0.05,
    "skewness": 0.1,
    "components": 0.05,
}


class Measured(NamedTuple):
    """Numbers with their standard errors, by name."""

    found: dict[str, float]
    errors: dict[str, float]


def measured(
    rows: Float[Array, "n d"], directions: Float[Array, "d directions"], order: Int[Array, " n"]
) -> Measured:
    """All numbers that have errors, from the scatter of groups of rows in a random order."""
    found = _measure(rows, directions)
    groups = [_measure(rows[part], directions) for part in np.array_split(order, GROUPS)]
    scatter = {key: float(np.std([group[key] for group in groups], ddof=1)) for key in found}
    return Measured(found, {key: value / math.sqrt(GROUPS) for key, value in scatter.items()})


def _measure(
    rows: Float[Array, "n d"], directions: Float[Array, "d directions"]
) -> dict[str, float]:
    """The numbers with an error bar, on one group of rows."""
    count, d = rows.shape
    centre = rows.mean(axis=0)
    centred = rows - centre
    squares = np.einsum("ij,ij->i", centred, centred)
    trace = float(squares.sum()) / (count - 1)
    small = centred.T @ centred if d <= count else centred @ centred.T
    pairs = (np.sum(small * small) - np.sum(squares**2)) / (count * (count - 1))
    projections = rows @ directions
    projections -= projections.mean(axis=0)
    second = np.mean(projections**2, axis=0)
    third, fourth = np.mean(projections**3, axis=0), np.mean(projections**4, axis=0)
    skewness = np.mean(third**2 / second**3) - 6 / count
    return {
        "mean": float(centre @ centre - trace / count) / trace,
        "scale": trace / d,
        "spread": d * float(pairs) / trace**2 - 1,
        "norm_concentration": d / 2 * float(squares.var(ddof=1)) / trace**2,
        "kurtosis": float(np.mean(fourth / second**2)) - 3 + 6 / (count + 1),
        "skewness": math.copysign(math.sqrt(abs(skewness)), skewness),
    }


def components(rows: Float[Array, "n d"], order: Int[Array, " n"]) -> tuple[float, float]:
    """The largest kurtosis along the leading components, and their share of the variance."""
    half, d = len(rows) // 2, rows.shape[1]
    first, second = rows[order[:half]], rows[order[half:]]
    first = first - first.mean(axis=0)
    some = min(COMPONENTS, d)
    _, vectors = scipy.linalg.eigh(first.T @ first, subset_by_index=[d - some, d - 1])
    projections = (second - second.mean(axis=0)) @ vectors
    variance = projections.var(axis=0)
    kurtosis = np.mean(projections**4, axis=0) / variance**2 - 3
    total = float(((second - second.mean(axis=0)) ** 2).sum()) / len(second)
    return float(kurtosis[np.argmax(np.abs(kurtosis))]), float(variance.sum()) / total


def whitened(rows: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """The rows along their principal components, each of variance one.

    Of Gaussian rows, norms then vary less than of N(0, I) by a factor 1 - d/n and pairs of rows
    have products smaller by as much, so that ``norm`` of ``reasons_of`` stays at 0.
    """
    centred = rows - rows.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / (len(rows) - 1))
    return np.asarray(centred @ (vectors / np.sqrt(values)))


def reasons_of(measured: Measured, *, rows: int, d: int) -> dict[str, str]:
    """Sentences about what is further from N(0, I) than is tolerated, beyond its own error, by what
    it is; FEW before it where the error is too large to tell.
    """
    found, errors = measured
    norm = 2 / d * (found["norm_concentration"] - 1 - found["spread"])
    mean = max(found["mean"], 0.0)
    kurtosis, skewness, scale = abs(found["kurtosis"]), found["skewness"], abs(found["scale"] - 1)
    looked = {
        "mean": (
            d * mean**2,
            2 * d * mean * errors["mean"],
            "the mean is not zero: d |m|^4/(tr C)^2 = {:.3g}; standardize",
        ),
        "scale": (
            scale,
            errors["scale"],
            "entries do not have variance one: tr C/d is off by {:.3g}; standardize",
        ),
        "spread": (
            found["spread"],
            errors["spread"],
            "the covariance is not the identity: d tr C^2/(tr C)^2 exceeds 1 by {:.3g}; whiten",
        ),
        "norm": (
            abs(norm),
            2 / d * math.hypot(errors["norm_concentration"], errors["spread"]),
            "sizes of rows do not vary as Gaussian ones: Var|x|^2/(tr C)^2 differs by {:.3g}",
        ),
        "kurtosis": (
            kurtosis,
            errors["kurtosis"],
            "random projections are not Gaussian: excess kurtosis off by {:.3g}",
        ),
        "skewness": (
            skewness,
            errors["skewness"],
            "random projections are not Gaussian: skewness {:.3g}",
        ),
    }
    reasons = {}
    for key, (value, error, words) in looked.items():
        if value > TOLERANCES[key] + 2 * error:
            reasons[key] = words.format(value)
        elif 2 * error > max(TOLERANCES[key], value):
            known = (
                f"the {key} differs by {value:.2g} ± {error:.2g}, {TOLERANCES[key]:g} is tolerated"
            )
            reasons[FEW + key] = f"{rows} rows are too few to tell: {known}"
    return reasons
