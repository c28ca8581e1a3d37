"""The figures by name. A figure's module is loaded when it is asked for."""

from __future__ import annotations

import importlib

from firststep.errors import InvalidParameter, nearest
from firststep.figures.core import Figure

NAMES = (
    "ba-fig1",
    "ba-fig2",
    "ba-fig3a",
    "ba-fig3b",
    "ba-fig3c",
    "ba-gaussian-equivalence",
    "ba-rank-one",
    "ba-large-lr",
    "cui-learning-curves",
    "cui-alignment",
    "cui-activations",
    "cui-step-size",
    "cui-learned-function",
    "cui-equivalence",
    "cui-finite-size",
    "cui-phase-diagram",
    "exact-bulk",
    "readout-laws",
    "staircase",
    "optimal-step-and-ridge",
    "classification",
    "separability",
    "label-flips",
    "intercept-threshold",
    "beyond-multi-step",
    "beyond-reuse",
    "beyond-inputs",
    "beyond-multi-index",
    "steep-steps",
    "learning-exponents",
    "sample-budget",
    "teacher-in-spectrum",
    "step-transfer",
)


def figure(name: str) -> Figure:
    """The figure of a name."""
    if name not in NAMES:
        raise InvalidParameter("figure", "one of " + ", ".join(NAMES), name, nearest(name, NAMES))
    return importlib.import_module(f"firststep.figures.{name.replace('-', '_')}").FIGURE
