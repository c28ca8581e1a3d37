"""Random command lines and calls: what a hurried, a mistaken and a hostile user may give.

Everything is small (d of a few tens, a replicate or two), so that what is right runs at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import firststep

NUMBERS = ["0", "1", "2.5", "0.5", "-1", "nan", "inf", "-inf", "1e308", "1e-320", "1e-8", "1e9"]
NUMBERS += ["", "x", "1,2", "1e-3..1:3", "0x10", "１", "1_000", "--", "\u202e", "1" * 400]
FUNCTIONS_OF_Z = ["tanh", "relu", "sin", "z", "0.3*z", "z**2-1", "abs", "exp(z)", "1/z", "log(z)"]
FUNCTIONS_OF_Z += ["tahn", "", "z**z", "tanh(100*z)", "(((((z)))))", "__import__('os')", "1e-9*z"]
FUNCTIONS_OF_Z += ["z" * 50, "max(z, 0)", "maximum(z,0)", "exp(exp(z))", "sqrt(z)", "0*z", "3", "é"]
READOUTS = ["ones", "signs", "gaussian", "1:0.5,2:0.5", "1:2", "0:1", "x", "", "1:nan", "-1:1e400"]
INPUTS = [
    "gaussian",
    "power-law:0.3",
    "two-level:4:0.2",
    "student-t:5",
    "power-law:-1",
    "two-level:4",
]
INPUTS += [
    "spectrum:none.npy",
    "spectrum:",
    "none.csv",
    "two-level:nan:2",
    "power-law:1e400",
    "",
    "x",
]
OVERLAPS = [
    "equal",
    "random",
    "top:0.1",
    "decay:2",
    "top:0",
    "rise:nan",
    "file",
    "1,2",
    "0,0",
    "",
    "x",
]
TERMS = ["relu", "relu,tanh", "rleu", ",", "", "exp(z**2)", "relu," * 30 + "relu"]
WORDS = {
    "--alpha": NUMBERS,
    "--beta": NUMBERS,
    "--alpha0": NUMBERS,
    "--step": NUMBERS,
    "--ridge": NUMBERS,
    "--noise": NUMBERS,
    "--step-exponent": [*NUMBERS, "0.25"],
    "--dimension": ["10", "20", "30", "0", "1", "-5", "inf", "nan", "1e12", "2.5", "", "x"],
    "--student": FUNCTIONS_OF_Z,
    "--teacher": FUNCTIONS_OF_Z,
    "--readout": READOUTS,
    "--inputs": INPUTS,
    "--teacher-overlaps": OVERLAPS,
    "--teacher-terms": TERMS,
    "--init": ["gaussian", "sphere", "cube", ""],
    "--bulk": ["exact", "isotropic", "both", ""],
    "--replicates": ["1", "2", "0", "-1", "x", "nan", "1e3.5"],
    "--seed": ["0", "7", "-1", "x", "1" * 40],
    "--problem": ["none.toml", ".", "/dev/null", ""],
    "--json": [None],
    "--check": ["1", "2", "0", "1.5", "-1", "101", "x", "", "nan"],
    "--workers": ["1", "0", "-2", "x"],
    "--over": ["ridge", "step", "alpha", "ridge,step", ""],
    "--unknown": ["1", None],
}
COMMANDS = ["predict", "simulate", "compare", "optimize", "spectrum", "baselines", "diagnose"]
COMMANDS += ["features", "sweep run", "sweep status", "sweep export", "models", "prdict", ""]
USUAL = ["--student tanh --teacher sin --alpha 2 --beta 1", "--student relu --teacher tanh", ""]


def command_lines(count: int, seed: int) -> Iterator[list[str]]:
    """Mostly right command lines with a few words that may be anything."""
    rng = random.Random(seed)
    for _ in range(count):
        command = rng.choice(COMMANDS)
        words = [*command.split(), *rng.choice(USUAL).split()]
        if command in ("simulate", "compare", "baselines", "spectrum"):
            words += ["--dimension", "12", "--workers", "1", "--replicates", "1"]
        for flag in rng.sample(sorted(WORDS), rng.randrange(4)):
            if flag in words:
                place = words.index(flag)
                del words[place : place + 2]
            value = rng.choice(WORDS[flag])
            words += [flag] if value is None else [flag, value]
        if rng.random() < 0.2:
            words.insert(rng.randrange(len(words) + 1), rng.choice(["none.npy", "x y", "-", "🙂"]))
        yield words


def _things() -> list[object]:
    """What may stand where a number, an array or a name is expected."""
    floats: list[object] = [1.0, 2, 0.5, 0, -1.0, np.nan, np.inf, 1e308, 1e-320, 1e-8, True, None]
    arrays: list[object] = [
        np.array([0.5, 2.0]),
        np.array([]),
        np.array([[1.0], [2.0]]),
        np.array([1 + 1j]),
        np.array([True, False]),
        np.array(["1"]),
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.array([1, None]),
        np.ma.array([1.0, 2.0], mask=[0, 1]),
        np.array([np.nan, 1.0]),
        [[1, 2], [3]],
        [1, 2],
        (0.1,),
    ]
    return [
        *floats,
        *arrays,
        "x",
        "",
        "0.1",
        b"1",
        {},
        {1: 2},
        object(),
        lambda z: z,
        np.float32(2),
    ]


def public_calls(count: int, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Calls of public functions with one to three arguments that may be anything."""
    rng = random.Random(seed)
    things = _things()
    for _ in range(count):
        name = rng.choice(sorted(FUNCTIONS))
        names = rng.sample(ARGUMENTS[name], min(len(ARGUMENTS[name]), rng.randrange(1, 4)))
        yield name, {each: rng.choice(things) for each in names}


PROBLEM = dict(student="tanh", teacher="sin", alpha=2, beta=1)
TEXTS = ["student", "teacher", "readout", "init", "inputs", "teacher_overlaps", "teacher_terms"]
FIELDS = ["alpha", "beta", "alpha0", "step", "ridge", "noise"]


def _simulate(**given: Any) -> Any:
    usual = dict(problem=firststep.Problem(**PROBLEM), dimension=12, replicates=1, workers=1)
    return firststep.simulate(**{**usual, **given})


def _features(**given: Any) -> Any:
    usual = dict(
        weights=np.random.default_rng(0).normal(size=(9, 6)) / 3,
        problem=firststep.Problem(**PROBLEM),
        teacher=np.eye(9)[0],
    )
    return firststep.predict_features(**{**usual, **given})


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Problem": lambda **given: firststep.Problem(**{**PROBLEM, **given}),
    "predict": lambda **given: firststep.predict(
        **{"problem": firststep.Problem(**PROBLEM), **given}
    ),
    "simulate": _simulate,
    "predict_features": _features,
    "run_sweep": lambda **given: firststep.run_sweep(
        {"problem": dict(PROBLEM), "predict": {}, **given}, workers=1
    ),
    "activation": lambda source=None: firststep.activation(source).moments,
    "diagnose_inputs": lambda source="gaussian", **given: firststep.diagnose_inputs(
        source, **{"dimension": 9, "rows": 300, **given}
    ),
}
ARGUMENTS: dict[str, list[str]] = {
    "Problem": [*FIELDS, *TEXTS, "dimension", "step_exponent"],
    "predict": [*FIELDS, "problem", "bulk", "dimension", "check", "seed"],
    "simulate": ["problem", "dimension", "replicates", "seed", "model", "inputs", "teacher_terms"],
    "predict_features": ["weights", "problem", "teacher", "bias", "covariance", "directions"],
    "run_sweep": ["problem", "axes", "simulate", "predict", "zip", "seed", "name"],
    "activation": ["source"],
    "diagnose_inputs": ["source", "dimension", "rows", "seed"],
}
