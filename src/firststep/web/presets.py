"""States of the page worth seeing: the papers' figures and some phenomena."""

from __future__ import annotations

from typing import Any

PROBLEM: dict[str, Any] = {
    "student": "tanh",
    "teacher": "sin",
    "alpha": 2.0,
    "beta": 1.0,
    "alpha0": 8.0,
    "step": 2.0,
    "step_exponent": 0.5,
    "ridge": 0.03,
    "noise": 0.1,
    "readout": "ones",
    "init": "gaussian",
    "dimension": "inf",
}
DEFAULTS: dict[str, Any] = {
    **PROBLEM,
    "axis": "alpha",
    "from": 0.25,
    "to": 16.0,
    "xscale": "log",
    "yscale": "log",
    "quantity": "risk",
    "lines": ["exact", "random-features", "kernel-bound"],
    "tab": "curve",
    "sim_dimension": 200,
    "sim_replicates": 5,
    "sim_points": 7,
    "sim_seed": 0,
    "sim_model": "network",
    "map_x": "alpha0",
    "map_x_from": 0.25,
    "map_x_to": 32.0,
    "map_y": "step",
    "map_y_from": 0.1,
    "map_y_to": 10.0,
    "map_quantity": "ratio",
}

_BA = dict(readout="gaussian", init="gaussian", alpha0=None)
_CUI = dict(noise=0.0, init="sphere", readout="ones", ridge=0.05)
_WITH_ISOTROPIC = ["exact", "isotropic", "random-features", "kernel-bound"]


def _along(axis: str, low: float, high: float, **more: Any) -> dict[str, Any]:
    return {"axis": axis, "from": low, "to": high, **more}


# name, group, label, caption, what differs from the defaults
_TABLE: tuple[tuple[str, str, str, str, dict[str, Any]], ...] = (
    (
        "peak",
        "Phenomena",
        "double-descent peak",
        "With almost no ridge the risk peaks where samples and neurons are equally many, α = β; raise the ridge and the peak goes.",
        dict(ridge=1e-5, noise=0.3, lines=["exact", "random-features", "optimal-ridge"], **_along("alpha", 0.2, 8)),
    ),
    (
        "short-step",
        "Phenomena",
        "step too small",
        "A step of 0.05 is hardly better than none; move along the step to see where learning sets in and where it is too much.",
        dict(step=0.05, dimension=200, **_along("step", 0.01, 20)),
    ),
    (
        "no-alignment",
        "Phenomena",
        "no alignment",
        "The teacher z² - 1 has no linear part: the gradient does not see its direction, and the step only adds noise.",
        dict(teacher="hermite2", student="relu", readout="signs", alpha0=2.0, noise=0.0, **_along("alpha0", 0.25, 32)),
    ),
    (
        "beating-kernels",
        "Phenomena",
        "beating the kernel bound",
        "With enough samples in the step the risk falls below what any fixed kernel can reach, even with infinite data.",
        dict(alpha=8.0, alpha0=20.0, step=3.0, ridge=0.0125, noise=0.0, **_along("alpha0", 0.5, 64)),
    ),
    (
        "ba-fig1",
        "[Ba]",
        "Figure 1: below the lower bound",
        "erf learns erf after a large step: below the kernel lower bound, like d/n.",
        dict(_BA, student="erf", teacher="erf", alpha=4.0, beta=2.0, step=2.0, ridge=0.01, noise=0.1, **_along("alpha", 0.5, 32)),
    ),
    (
        "ba-fig2",
        "[Ba]",
        "Figure 2: neurons turn to the teacher",
        "The figure follows neurons through many steps; here is what the first one does to ReLU neurons.",
        dict(
            _BA,
            student="relu",
            teacher="relu",
            alpha=10.0,
            beta=1.0,
            step=1.0,
            ridge=0.01,
            noise=0.0,
            readout="signs",
            **_along("step", 0.05, 10),
        ),
    ),
    (
        "ba-fig3a",
        "[Ba]",
        "Figure 3(a): a small step helps",
        "tanh learns softplus after a small step, N = 2d: the gain is small and largest at the peak, n = N.",
        dict(
            _BA,
            quantity="gain",
            yscale="linear",
            student="tanh",
            teacher="centered(softplus)",
            alpha=4.0,
            beta=2.0,
            step=2.0,
            step_exponent=0.0,
            ridge=1e-4,
            noise=0.25,
            **_along("alpha", 0.5, 16),
        ),
    ),
    (
        "ba-fig3b",
        "[Ba]",
        "Figure 3(b): the gain fades with the width",
        "tanh learns ReLU after a small step, n = 5d.",
        dict(
            _BA,
            student="tanh",
            teacher="centered(relu)",
            alpha=5.0,
            beta=2.0,
            step=2.0,
            step_exponent=0.0,
            ridge=0.01,
            noise=0.1,
            **_along("beta", 0.5, 8),
        ),
    ),
    (
        "ba-fig3c",
        "[Ba]",
        "Figure 3(c): from small to large steps",
        "erf learns erf with η = N^(1/4); change the exponent, d is finite.",
        dict(
            _BA,
            student="erf",
            teacher="erf",
            alpha=4.0,
            beta=2.0,
            step=1.0,
            step_exponent=0.25,
            ridge=1e-3,
            noise=0.1,
            dimension=256,
            **_along("alpha", 0.5, 16),
        ),
    ),
    (
        "ba-gaussian-equivalence",
        "[Ba]",
        "Theorem 3: while the weights move little",
        "erf learns erf: the risk along the size of a small step.",
        dict(
            _BA,
            student="erf",
            teacher="erf",
            alpha=8.0,
            beta=2.0,
            step=4.0,
            step_exponent=0.0,
            ridge=0.01,
            noise=0.1,
            dimension=512,
            alpha0=8.0,
            **_along("step", 0.5, 128),
        ),
    ),
    (
        "ba-rank-one",
        "[Ba]",
        "Proposition 2: the gradient is almost of rank one",
        "After a small step of size 6 one singular value leaves the bulk of the weights.",
        dict(
            _BA,
            student="tanh",
            teacher="tanh",
            alpha=2.0,
            beta=1.0,
            step=6.0,
            step_exponent=0.0,
            noise=0.1,
            dimension=300,
            **_along("step", 0.2, 20),
        ),
    ),
    (
        "ba-large-lr",
        "[Ba]",
        "Corollary 8: the d/n rate",
        "erf learns erf after the step 4√N, N = 4d.",
        dict(_BA, student="erf", teacher="erf", alpha=8.0, beta=4.0, step=4.0, ridge=0.1, noise=0.0, **_along("alpha", 1, 32)),
    ),
    (
        "cui-learning-curves",
        "[Cui]",
        "learning curves",
        "tanh learns tanh with α₀ = 8 samples in the step.",
        dict(_CUI, teacher="tanh", alpha0=8.0, step=3.0, lines=_WITH_ISOTROPIC, **_along("alpha", 0.5, 8)),
    ),
    (
        "cui-alignment",
        "[Cui]",
        "more data in the step",
        "The alignment grows with α₀, and the risk falls with it.",
        dict(_CUI, teacher="tanh", quantity="alignment", yscale="linear", **_along("alpha0", 0.125, 16)),
    ),
    (
        "cui-activations",
        "[Cui]",
        "activations",
        "A student that is not odd learns from a signed readout; change it and see.",
        dict(_CUI, student="tanh(z + 0.5)", teacher="sin", readout="signs", **_along("alpha", 0.5, 8)),
    ),
    (
        "cui-step-size",
        "[Cui]",
        "step size: optimum and instability",
        "Too short a step learns nothing, too long a one does harm.",
        dict(_CUI, teacher="tanh", dimension=200, **_along("step", 0.05, 20)),
    ),
    (
        "cui-learned-function",
        "[Cui]",
        "the learned function",
        "tanh with a signed readout learns sin(1.5 z) along the direction of the step.",
        dict(
            _CUI, teacher="sin(1.5*z)", alpha=8.0, alpha0=16.0, step=3.0, ridge=0.0125, readout="signs", **_along("alpha", 0.5, 32)
        ),
    ),
    (
        "cui-equivalence",
        "[Cui]",
        "equivalent models",
        "Exact and isotropic theory; simulate the network and the spiked model.",
        dict(_CUI, teacher="sin", alpha0=8.0, step=3.0, lines=_WITH_ISOTROPIC, **_along("alpha", 0.5, 8)),
    ),
    (
        "cui-finite-size",
        "[Cui]",
        "finite size",
        "Theory with its corrections at d = 200; simulate networks of that size.",
        dict(_CUI, teacher="tanh", step=1.0, dimension=200, **_along("alpha", 0.5, 8)),
    ),
    (
        "cui-phase-diagram",
        "[Cui]",
        "phase diagram",
        "Blue: one step beats every kernel. Choose the gain as the colour to see where the step helps at all.",
        dict(_CUI, teacher="sin", tab="map"),
    ),
    (
        "exact-bulk",
        "firststep",
        "where the isotropic theory fails",
        "relu with few samples in the step: the published theory is 20 % off.",
        dict(
            student="centered(relu)",
            teacher="tanh",
            alpha0=0.5,
            step=4.0,
            ridge=0.01,
            noise=0.1,
            readout="signs",
            init="sphere",
            lines=_WITH_ISOTROPIC,
            **_along("step", 0.25, 8),
        ),
    ),
    (
        "readout-laws",
        "firststep",
        "readout laws",
        "With two readout values the network has two shapes to build from; try ones and signs.",
        dict(teacher="sin", alpha=4.0, noise=0.0, readout="1:0.5,3:0.5", init="sphere", **_along("step", 0.25, 8)),
    ),
    (
        "optimal-step-and-ridge",
        "firststep",
        "the best ridge",
        "The fixed ridge loses most where data are few.",
        dict(
            teacher="tanh",
            alpha=4.0,
            alpha0=None,
            step=1.0,
            ridge=0.01,
            noise=0.3,
            init="sphere",
            lines=["exact", "random-features", "kernel-bound", "optimal-ridge"],
            **_along("alpha", 0.5, 16),
        ),
    ),
)


def presets() -> list[dict[str, Any]]:
    """Every preset with its whole state."""
    return [
        {"name": name, "group": group, "label": label, "caption": caption, "state": {**DEFAULTS, **changes}}
        for name, group, label, caption, changes in _TABLE
    ]
