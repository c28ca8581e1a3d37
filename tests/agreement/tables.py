"""Published numbers for the simulator to reproduce: mean and standard error of independent
simulations.

``SECTION_9``: networks and spiked random features at d = 2000, rows on the sphere, all-ones
readout, no noise.
``CONVERGENCE``: spiked random features of tanh learning sin at several sizes. ``SMALL_STEP``: the
network with a small step.
``reference()``: 59 networks simulated by other code, tests/data/reference.json.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firststep import Problem


@dataclass(frozen=True)
class Case:
    """One simulation to repeat, and what it should give: (mean, standard error) per ridge."""

    name: str
    problem: Problem
    model: str
    dimension: int
    replicates: int
    risk: tuple[tuple[float, float], ...]
    training_error: tuple[tuple[float, float], ...] = ()


def _sphere(**fields: Any) -> Problem:
    return Problem(
        **{
            "student": "tanh",
            "teacher": "tanh",
            "beta": 1,
            "readout": "ones",
            "init": "sphere",
            **fields,
        }
    )


_first = _sphere(alpha=3.0, alpha0=0.5, step=4, ridge=(1e-3, 1e-1))
_second = _sphere(alpha=1.6, alpha0=0.5, step=1, ridge=(1e-1,))
_third = _sphere(alpha=1.6, alpha0=2.0, step=2, ridge=(1.0,))
SECTION_9 = (
    Case(
        "tanh, alpha0 0.5, step 4", _first, "spiked", 2000, 8, ((0.2488, 0.0015), (0.2008, 0.0010))
    ),
    Case(
        "tanh, alpha0 0.5, step 4", _first, "network", 2000, 8, ((0.2881, 0.0036), (0.2286, 0.0018))
    ),
    Case("tanh, alpha0 0.5, step 1", _second, "spiked", 2000, 8, ((0.1656, 0.0007),)),
    Case("tanh, alpha0 0.5, step 1", _second, "network", 2000, 8, ((0.1660, 0.0016),)),
    Case("tanh, alpha0 2, step 2", _third, "spiked", 2000, 8, ((0.1161, 0.0007),)),
    Case("tanh, alpha0 2, step 2", _third, "network", 2000, 8, ((0.1170, 0.0007),)),
)


def _sine(alpha: float) -> Problem:
    return _sphere(
        teacher="sin", alpha=alpha, alpha0=20, step=3, ridge=(0.1,), ridge_convention="cui"
    )


CONVERGENCE = (
    Case("tanh/sin, alpha 0.9", _sine(0.9), "spiked", 500, 80, ((0.04361, 0.00016),)),
    Case("tanh/sin, alpha 0.9", _sine(0.9), "spiked", 1000, 40, ((0.04310, 0.00014),)),
    Case("tanh/sin, alpha 0.9", _sine(0.9), "spiked", 2000, 16, ((0.04286, 0.00015),)),
    Case("tanh/sin, alpha 3", _sine(3.0), "spiked", 500, 80, ((0.03296, 0.00008),)),
    Case("tanh/sin, alpha 3", _sine(3.0), "spiked", 1000, 40, ((0.03275, 0.00007),)),
    Case("tanh/sin, alpha 3", _sine(3.0), "spiked", 2000, 16, ((0.03266, 0.00009),)),
    Case("tanh/sin, alpha 3", _sine(3.0), "network", 2000, 6, ((0.0317, 0.0003),)),
)
LARGE = (
    Case("tanh/sin, alpha 0.9", _sine(0.9), "spiked", 4000, 16, ((0.04271, 0.00023),)),
    Case("tanh/sin, alpha 3", _sine(3.0), "spiked", 4000, 16, ((0.03259, 0.00017),)),
)


def _small(eta: float) -> Problem:
    return Problem.from_ba(
        sigma="tanh",
        sigma_star="centered(softplus)",
        psi1=6,
        psi2=2,
        eta=eta,
        lambda_=(1e-4,),
        sigma_epsilon=0.25,
    )


SMALL_STEP = (
    Case("small step, eta 0", _small(0), "network", 512, 50, ((0.0873, 0.0004),)),
    Case("small step, eta 1", _small(1), "network", 512, 50, ((0.0862, 0.0004),)),
    Case("small step, eta 3", _small(3), "network", 512, 50, ((0.0806, 0.0004),)),
)


def reference() -> tuple[Case, ...]:
    entries = json.loads((Path(__file__).parent.parent / "data" / "reference.json").read_text())[
        "entries"
    ]
    cases = []
    for entry in entries:
        fields = {
            name: entry[name]
            for name in (
                "student",
                "teacher",
                "alpha",
                "beta",
                "alpha0",
                "step",
                "step_exponent",
                "noise",
            )
        }
        problem = Problem(
            **fields, readout=entry["readout"], init=entry["init"], ridge=tuple(entry["ridge"])
        )
        laws = f"{entry['readout']}, {entry['init']}"
        setting = f"{laws}, alpha0 {entry['alpha0']:g}, step {entry['step']:g}"
        name = f"{entry['student']}/{entry['teacher']}, {setting}"
        cases.append(
            Case(
                name,
                problem,
                "network",
                entry["dimension"],
                entry["replicates"],
                tuple(zip(entry["risk_mean"], entry["risk_standard_error"], strict=True)),
                tuple(
                    zip(
                        entry["training_error_mean"],
                        entry["training_error_standard_error"],
                        strict=True,
                    )
                ),
            )
        )
    return tuple(cases)
