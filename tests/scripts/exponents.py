"""Exponents between the small and the large step: d = infinity beside the theory at finite d.

    python tests/scripts/exponents.py

prints the table of docs/validation.md ("Between the small and the large step").
"""

from __future__ import annotations

from typing import Any

from firststep import Problem, predict
from firststep.theory.one_step.question import model_of

SIZES = (10**4, 10**6, 10**8)
CENTRED, BENT = "relu(z) - 0.3989422804014327", "z + 0.4*(z**2 - 1)"
CASES: tuple[tuple[str, str, str, float, dict[str, Any]], ...] = (
    ("tanh", "tanh", "ones", 0.15, {}),
    ("tanh", "tanh", "ones", 0.3, {}),
    ("tanh", "tanh", "ones", 0.42, {}),
    ("tanh(z+0.5)", "tanh", "signs", 0.36, {}),
    ("relu", "relu", "gaussian", 0.15, {}),
    ("relu", "relu", "gaussian", 0.25, {}),
    ("relu", "relu", "gaussian", 0.3, {}),
    ("relu", "relu", "gaussian", 0.36, {}),
    ("tanh", "sin", "gaussian", 0.15, {}),
    ("tanh", "sin", "gaussian", 0.3, {}),
    ("tanh", "sin", "gaussian", 0.36, {}),
    ("tanh", "sin", "gaussian", 0.42, {}),
    (CENTRED, "relu", "gaussian", 0.0, {}),
    (CENTRED, "relu", "gaussian", 0.2, {"init": "gaussian"}),
    (CENTRED, "relu", "signs", 0.2, {}),
    (CENTRED, "relu", "signs", 0.42, {}),
    (CENTRED, "relu", "ones", 0.2, {}),
    (BENT, "sin(z) + 0.3*(z**2 - 1)", "signs", 0.25, {"step": 4}),
    (BENT, "relu", "-1:0.25,0.5:0.75", 0.25, {"step": 3}),
    (BENT, "relu", "signs", 0.36, {"intercept": True}),
)
FIELDS = dict(alpha=2, beta=1, alpha0=4, step=2, ridge=0.1, noise=0.1, init="sphere")


def numbers(problem: Problem) -> str:
    found = predict(problem)
    return f"{found.risk:.5f} ({found.error_split.along:.5f})"


def main() -> None:
    sizes = " | ".join(f"d = 1e{len(str(d)) - 1}" for d in SIZES)
    print(f"| student, teacher, readout | s | {sizes} | d = ∞ | free | d^-a |")
    print("|" + " --- |" * 8)
    for student, teacher, law, exponent, others in CASES:
        asked = dict(student=student, teacher=teacher, readout=law, step_exponent=exponent)
        problem = Problem(**{**FIELDS, **asked, **others})
        orders = model_of(problem, "exact", True).orders
        assert orders is not None
        free = ", ".join(map(str, orders.free)) or "none"
        if orders.penalised is not None:
            free += f" ({orders.penalised.order})"
        found = [numbers(problem.replace(dimension=d)) for d in SIZES]
        row = [*found, numbers(problem), free, f"{orders.approach:.2g}"]
        name = ", ".join([student, teacher, law, *(f"{k} {v}" for k, v in others.items())])
        print(f"| {name} | {exponent:g} | {' | '.join(row)} |")


if __name__ == "__main__":
    main()
