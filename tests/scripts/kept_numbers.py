"""Numbers that may not move: a few hundred results by the public door, written down and compared.

    python tests/scripts/kept_numbers.py --write numbers.json           with the tree as it was
    python tests/scripts/kept_numbers.py --check numbers.json           with the tree as it is
    python tests/scripts/kept_numbers.py --check numbers.json --only theory simulation

Theory is compared to 1e-12 of each number, simulations, estimators and keys of stored results to
the bit: on one machine, with the same versions of NumPy, SciPy and JAX. On another, ``--within``
gives all of it a tolerance. Exit code 1 if something moved.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import sqlite3
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import firststep
from firststep import Problem

THEORY = 1e-12  # relative, the rounding of one sum taken in another order
LOSS = 20.0  # of accuracy in functions of kappa, parts of the error and gradients
ZERO = 1e-15  # a smaller change, relative to one, is the rounding of a zero
Found = Iterator[tuple[str, Any]]


def problem(**changes: Any) -> Problem:
    """A question where nothing vanishes and nothing is equal by accident."""
    generic = dict(
        student="tanh",
        teacher="sin(z) + 0.3*(z**2 - 1)",
        alpha=1.7,
        beta=1.2,
        alpha0=2.3,
        step=1.4,
        ridge=0.03,
        noise=0.2,
        readout="-1:0.25,0.5:0.5,2:0.25",
    )
    return Problem(**{**generic, **changes})


STUDENTS = ("tanh", "relu", "erf", "sigmoid", "z + 0.4*(z**2 - 1)", "abs(z)", "sin(2*z)", "gelu")
READOUTS = ("ones", "signs", "gaussian", "-1:0.25,0.5:0.5,2:0.25")
OBSERVED = (
    "risk",
    "training_error",
    "degrees_of_freedom",
    "alignment",
    "gradient_norm",
    "spike_strength",
    "bulk_variance",
    "random_features_risk",
)
FUNCTIONS = ("learned_function", "target_function", "linear_coefficient", "error_by_kappa")


def predictions() -> Found:
    """Every regime, readout law, init and bulk; single problems and arrays."""
    regimes = {
        "large": {},
        "small": {"step_exponent": 0.0},
        "none": {"step": 0.0},
        "finite": {"dimension": 300},
        "finite small": {"dimension": 300, "step_exponent": 0.0},
        "finite middle": {"dimension": 500, "step_exponent": 0.25},
    }
    for regime, readout, init in itertools.product(regimes, READOUTS, ("gaussian", "sphere")):
        for bulk in ("exact", "isotropic"):
            where = f"predict {regime}, {readout}, {init}, {bulk}"
            yield where, one(problem(readout=readout, init=init, **regimes[regime]), bulk)
    for student in STUDENTS:
        for readout in ("signs", "gaussian"):
            yield f"predict {student}, {readout}", one(problem(student=student, readout=readout))
    for number, changes in enumerate(
        (
            {"ridge": 1e-8},
            {"ridge": 10.0},
            {"alpha": 0.4, "beta": 3.0},
            {"noise": 0.0},
            {"alpha0": 0.2, "step": 6.0},
            {"step": 20.0},
            {"step": 1e-3},
            {"teacher": "relu"},
            {"student": "relu", "teacher": "abs(z)", "alpha0": 9.0},
            {"beta": 0.3, "alpha": 5.0},
        )
    ):
        for dimension in (math.inf, 400):
            where = f"predict corner {number}, {dimension}"
            yield where, one(problem(dimension=dimension, **changes))
    batch = firststep.predict(
        problem(), alpha=np.array([0.5, 1.0, 2.0, 4.0]), ridge=np.array([[0.01], [0.3]])
    )
    yield "predict array", {name: getattr(batch, name) for name in OBSERVED}
    path = firststep.predict(problem(ridge=(0.01, 0.1, 1.0), dimension=200))
    yield "predict path", {"text": clean(str(path)), **{n: getattr(path, n) for n in OBSERVED}}
    yield "predict text", clean(str(firststep.predict(problem())))


def one(question: Problem, bulk: str = "exact") -> Any:
    """What the theory says of one problem."""
    try:
        found = firststep.predict(question, bulk=bulk)
    except firststep.FirststepError as error:
        return type(error).__name__
    split = found.error_split
    return {
        **{name: getattr(found, name) for name in OBSERVED},
        **{name: getattr(found, name)[::6] for name in FUNCTIONS},
        "split": [split.along, split.across, split.out_of_reach, split.fluctuation],
    }


def gradients() -> Found:
    """By implicit differentiation."""
    import jax

    for name, changes in {
        "large": {},
        "small": {"step_exponent": 0.0},
        "finite": {"dimension": 200},
        "isotropic": {},
    }.items():
        question, bulk = problem(**changes), "isotropic" if name == "isotropic" else "exact"
        fields = {
            n: float(getattr(question, n)) for n in ("alpha", "beta", "alpha0", "step", "ridge")
        }

        def risk(values: dict[str, Any], asked: Problem = question, which: str = bulk) -> Any:
            return firststep.predict(asked, bulk=which, **values).risk

        with jax.enable_x64(True):
            value, slopes = jax.value_and_grad(risk)(fields)
            yield (
                f"gradient {name}",
                {"risk": float(value), **{k: float(v) for k, v in slopes.items()}},
            )


def closed_forms() -> Found:
    """The small step, the bound, the spectrum of the weights, the optimum."""
    for student, readout in itertools.product(("tanh", "relu", "z + 0.4*(z**2 - 1)"), READOUTS):
        teacher = "sin" if student != "relu" else "sin(z) + 0.3*(z**2 - 1)"
        asked = problem(student=student, teacher=teacher, readout=readout, step_exponent=0.0)
        found, limit = firststep.small_step(asked), firststep.small_step_limit_alpha(asked)
        spectrum = firststep.weight_spectrum(asked)
        yield (
            f"small step {student}, {readout}",
            {
                **numbers_of(found),
                "limit_alpha": numbers_of(limit),
                "limit_beta": firststep.small_step_limit_beta(asked),
                "spectrum": numbers_of(spectrum),
            },
        )
    for student, teacher in (
        ("tanh", "sin"),
        ("erf", "tanh(2*z)"),
        ("relu", "sin"),
        ("sin", "relu"),
    ):
        found = firststep.tau_star(student, teacher)
        bound = firststep.theorem_seven_bound(problem(student=student, teacher=teacher))
        yield f"tau star {student}, {teacher}", {"value": found.value, "bound": bound}
    for over in ("ridge", "step", "ridge,step"):
        found = firststep.optimal(problem(readout="signs", noise=0.5), over)
        yield (
            f"optimal {over}",
            {**found.values, "risk": found.risk, "boundary": dict(found.boundary)},
        )


def spectra() -> Found:
    """Predicted laws, and simulated networks beside them."""
    for of, changes in itertools.product(
        ("weights", "kernel"), ({}, {"readout": "signs", "dimension": 300}, {"student": "relu"})
    ):
        law = firststep.spectral_law(problem(**changes), of)
        yield (
            f"spectrum {of}, {changes}",
            {
                "edges": law.edges,
                "mass": law.mass,
                "outliers": law.outliers,
                "density": law.density[::16],
                "values": law.values[::16],
            },
        )
    found = firststep.spectrum(problem(dimension=80, readout="ones"), replicates=2)
    yield (
        "spectrum simulated",
        {"values": found.simulated, "levels": [v.theory for v in found.levels]},
    )


def simulations() -> Found:
    """Every model and training option, on both backends."""
    sized = problem(dimension=60)
    for model in (
        "network",
        "spiked",
        "conditional",
        "gaussian",
        "random-features",
        "ntk",
        "inner-product-kernel",
        "distance-kernel",
        "linear",
    ):
        for shape in ({}, {"alpha": 0.6, "beta": 2.0}):
            yield f"simulate {model}, {shape}", run(problem(dimension=60, **shape), model=model)
    trainings: tuple[dict[str, Any], ...] = (
        {"steps": 3},
        {"steps": 3, "batches": "same"},
        {"parameterization": "ntk"},
        {"optimizer": "momentum", "steps": 2},
        {"optimizer": "adam", "steps": 2},
        {"optimizer": "adam"},
        {"dtype": "float32"},
        {"test_samples": 500, "seed": 7},
        {"first_replicate": 3},
        {"block": 128},
        {"teacher_terms": "relu,tanh"},
        {"teacher_terms": ("maximum(z,0)",), "steps": 2},
    )
    for options in trainings:
        yield f"simulate {options}", run(sized, **options)
    yield "simulate reuse", run(problem(dimension=60, alpha=2.3), reuse=True)
    yield "simulate path", run(problem(dimension=60, ridge=tuple(np.geomspace(1e-3, 10, 8))))
    yield "simulate ridgeless", run(problem(dimension=60, ridge=0.0))
    for law in (
        "rademacher",
        "uniform",
        "student-t:5",
        "elliptical-t:8",
        "power-law:0.5",
        "mixture:1.5",
    ):
        yield f"simulate {law}", run(sized, inputs=law)
    table = np.random.default_rng(3).standard_normal((4000, 12))
    yield "simulate data", run(problem(), inputs=table, test_samples=200)
    for readout, init in itertools.product(READOUTS, ("gaussian", "sphere")):
        asked = problem(dimension=50, readout=readout, init=init, step_exponent=0.25)
        yield f"simulate {readout}, {init}", run(asked)
    for model in ("network", "spiked", "conditional", "random-features", "ntk", "linear"):
        yield f"simulate {model}, jax", run(sized, model=model, backend="jax", device="cpu")
    yield (
        "simulate jax options",
        run(sized, steps=2, optimizer="adam", inputs="student-t:5", backend="jax", device="cpu"),
    )
    found = firststep.baselines(sized, replicates=2, test_samples=400)
    yield "baselines", {"text": clean(str(found)), "risks": [each.risk.values for each in found]}
    layer = firststep.first_layer(sized, seed=4, steps=2)
    yield (
        "first layer",
        {name: getattr(layer, name) for name in ("before", "after", "readout", "teacher")},
    )


def comparisons() -> Found:
    """Theory beside simulation."""
    compared = firststep.compare(problem(dimension=80), replicates=3, test_samples=800)
    yield "compare", [[row.quantity, row.theory, row.simulated] for row in compared.quantities]
    yield "compare text", clean(str(compared))


def run(asked: Problem, **options: Any) -> Any:
    """All measurements of two replicates."""
    found = firststep.simulate(asked, replicates=2, **{"workers": 1, **options})
    skipped = ("replicate_seconds",)
    kept = {name: values for name, values in found.measurements.items() if name not in skipped}
    told = {name: value for name, value in found.options.items() if name != "inputs_array"}
    return {**kept, "options": told, "bound": found.kernel_lower_bound}


def layers() -> Found:
    """Given first layers: theory, simulation, both."""
    asked = problem(dimension=120, beta=1.5)
    layer = firststep.first_layer(asked, seed=1)
    rng = np.random.default_rng(5)
    bias, root = 0.3 * rng.standard_normal(180), rng.standard_normal((120, 240)) / math.sqrt(240)
    cases: dict[str, dict[str, Any]] = {
        "plain": {},
        "initial": {"initial": layer.before},
        "two": {"directions": 2},
        "none": {"directions": 0},
        "bias": {"bias": bias},
        "covariance": {"covariance": root @ root.T},
    }
    for name, options in cases.items():
        for changes in ({}, {"alpha": 0.6}, {"student": "relu", "ridge": (0.01, 1.0)}):
            found = firststep.predict_features(
                layer.after, asked.replace(**changes), layer.teacher, **options
            )
            yield (
                f"layer {name}, {changes}",
                {
                    "risk": found.risk,
                    "training_error": found.training_error,
                    "degrees_of_freedom": found.degrees_of_freedom,
                    "learned": np.ravel(found.learned_function)[::9],
                },
            )
    several = firststep.first_layer(asked, seed=2, teacher_terms="relu")
    found = firststep.predict_features(
        several.after, asked, several.directions, teacher_terms=("relu",)
    )
    yield (
        "layer terms",
        {"risk": found.risk, "alignments": found.alignments, "text": clean(str(found))},
    )
    jax = firststep.predict_features(layer.after, asked, layer.teacher, backend="jax", device="cpu")
    yield "layer jax", jax.risk


def fits() -> Found:
    """Simulated fits of given layers."""
    asked = problem(dimension=60)
    layer = firststep.first_layer(asked, seed=1)
    for name, options in {
        "plain": {},
        "bias": {"bias": np.linspace(-1, 1, 72)},
        "covariance": {"covariance": np.diag(np.linspace(0.5, 1.5, 60))},
        "inputs": {"inputs": "uniform"},
    }.items():
        found = firststep.simulate_features(
            layer.after, asked, layer.teacher, replicates=2, **options
        )
        kept = {k: v for k, v in found.measurements.items() if k != "replicate_seconds"}
        yield f"fit {name}", {**kept, "options": dict(found.options)}
    compared = firststep.compare_features(layer.after, asked, layer.teacher, replicates=2)
    yield "fit compared", [[row.quantity, row.simulated] for row in compared.quantities]
    told = firststep.diagnose_inputs("student-t:5", 50, rows=1000)
    yield "diagnosis", {**told.to_dict(), "text": str(told)}


def estimators() -> Found:
    """scikit-learn's side."""
    rng = np.random.default_rng(11)
    x = rng.standard_normal((260, 14))
    y = np.tanh(x[:, 0] + 0.5 * x[:, 1]) + 0.1 * rng.standard_normal(260)
    for name, options in {
        "default": {"width": 512},  # what it was before redraws
        "relu": {"activation": "relu", "width": 60},
        "wide": {"width": 400},
    }.items():
        options = {key: value for key, value in options.items() if key in accepted()}
        made = firststep.OneStepRegressor(random_state=3, **options).fit(x, y)
        yield f"estimator {name}", {"predictions": made.predict(x[:40])}
    made = firststep.OneStepFeatures(random_state=3).fit(x, y)
    yield "estimator features", {"sum": made.transform(x[:40]).sum(axis=1)}


def accepted() -> set[str]:
    return set(firststep.OneStepRegressor().get_params())


def sweeps() -> Found:
    """Keys and rows of small sweeps."""
    experiments: dict[str, dict[str, Any]] = {
        "grid": {
            "problem": {
                "student": "tanh",
                "teacher": "sin",
                "beta": 1.0,
                "alpha0": 2.0,
                "noise": 0.1,
                "readout": "signs",
            },
            "axes": {"alpha": [0.5, 2.0], "ridge": [0.01, 0.1], "step": [0.5, 2.0]},
            "predict": {"bulk": ["exact", "isotropic"], "dimension": ["simulated", "inf"]},
            "simulate": {"models": ["network", "spiked"], "dimension": [40], "replicates": 2},
        },
        "options": {
            "seed": 5,
            "problem": {"student": "relu", "teacher": "sin", "beta": 1.0, "alpha": 2.0},
            "axes": {"step": {"logspace": [0.1, 10.0, 3]}},
            "simulate": {
                "models": ["network"],
                "dimension": [30],
                "replicates": 2,
                "steps": 2,
                "optimizer": "adam",
            },
        },
    }
    for name, experiment in experiments.items():
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "store.db"
            found = firststep.run_sweep(experiment, place, workers=1)
            with sqlite3.connect(place) as store:
                columns = [row[1] for row in store.execute("pragma table_info(results)")]
                keys = sorted(
                    str(row[columns.index("key")]) for row in store.execute("select * from results")
                )
        rows = [{k: v for k, v in row.items() if "seconds" not in k} for row in found.rows]
        yield f"sweep {name}", {"keys": keys, "rows": rows}


GROUPS: dict[str, tuple[Callable[[], Found], float]] = {  # with the change that is allowed
    "theory": (predictions, THEORY),
    "closed forms": (closed_forms, THEORY),
    "spectra": (spectra, THEORY),
    "layers": (layers, THEORY),
    "simulation": (simulations, 0.0),
    "fits": (fits, 0.0),
    "estimators": (estimators, 0.0),
    "comparisons": (comparisons, THEORY),
    "sweeps": (sweeps, THEORY),  # their keys are texts, and compared as such
    "gradients": (gradients, LOSS * THEORY),  # last: JAX compiles for a minute
}


def numbers_of(record: Any) -> dict[str, float]:
    return {k: v for k, v in vars(record).items() if isinstance(v, float | int)}


def clean(text: str) -> str:
    """A table without the lines that say how it was computed."""
    lines = text.splitlines()
    return "\n".join(line for line in lines if "seconds" not in line and "residual" not in line)


def plain(value: Any) -> Any:
    """Values fit for JSON, every digit kept; large arrays as their hash and sum."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray):
        if value.size > 400:
            digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
            return {"sha256": digest, "sum": float(np.nansum(value))}
        return plain(value.tolist())
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else str(value)
    return value if isinstance(value, str | int | bool | None) else str(value)


def gap(old: Any, new: Any, size: float = 0.0, skipped: str = "") -> float:
    """The largest change of a number, relative to it or, in a list, to the largest of the list.

    Infinite where the shape or a text changed.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        if old.keys() != new.keys():
            return math.inf
        scales = {
            key: LOSS if key in (*FUNCTIONS, "split") else 1.0 for key in old if key != skipped
        }
        pairs = scales.items()
        return max((gap(old[key], new[key], skipped=skipped) / s for key, s in pairs), default=0.0)
    if isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            return math.inf
        size = max((abs(v) for v in old if isinstance(v, float)), default=0.0)
        pairs_of = zip(old, new, strict=True)
        return max((gap(a, b, size, skipped) for a, b in pairs_of), default=0.0)
    if isinstance(old, str) and isinstance(new, str):
        return 0.0 if clean(old) == clean(new) else math.inf
    numeric = all(isinstance(v, float | int) and not isinstance(v, bool) for v in (old, new))
    if old == new or not numeric:
        return 0.0 if old == new else math.inf
    return abs(old - new) / max(abs(old), size, ZERO / THEORY)


def record(groups: list[str]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for group in groups:
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[group] = {name: plain(value) for name, value in GROUPS[group][0]()}
        print(
            f"{group}: {len(found[group])} results, {time.perf_counter() - began:.0f} s", flush=True
        )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--check", type=Path)
    parser.add_argument("--only", nargs="*", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--within", type=float, default=0.0, help="tolerance of everything")
    asked = parser.parse_args()
    found = record(asked.only)
    if asked.write:
        asked.write.write_text(json.dumps(found, indent=1), encoding="utf-8")
    if not asked.check:
        return 0
    kept, moved = json.loads(asked.check.read_text(encoding="utf-8")), 0
    for group in asked.only:
        allowed = max(asked.within, GROUPS[group][1])
        worst = 0.0
        for name, old in kept[group].items():
            new = json.loads(json.dumps(found[group].get(name)))
            change = gap(old, new, skipped="sha256" if asked.within else "")
            worst = max(worst, change)
            if change > allowed:
                moved += 1
                print(f"moved by {change:.1e}: {group}: {name}")
        print(
            f"{group}: {len(kept[group])} results, largest change {worst:.1e}, allowed {allowed:g}"
        )
    return 1 if moved else 0


if __name__ == "__main__":
    sys.exit(main())
