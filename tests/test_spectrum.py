"""The verb ``spectrum`` and its command: predicted spectra beside those of networks.

``python tests/scripts/spectrum_tables.py`` prints the tables of docs/spectra.md.
"""

from __future__ import annotations

import csv
import importlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firststep import InvalidParameter, Problem, simulate, spectral_law, spectrum, weight_spectrum
from firststep.cli import run
from firststep.errors import NotEnoughMemory
from firststep.results import Interrupted
from firststep.simulation.randomness import HostDraws
from firststep.simulation.running.spectra import layer_spectrum
from firststep.spectrum import Spectrum, distance

LARGE = dict(
    student="tanh",
    teacher="tanh",
    alpha=2,
    beta=1,
    alpha0=0.5,
    step=4,
    readout="ones",
    init="sphere",
)
RELU = dict(
    student="centered(relu)",
    teacher="tanh",
    alpha=2,
    beta=1,
    alpha0=0.5,
    step=4,
    readout="signs",
    init="sphere",
    noise=0.1,
)
SMALL = Problem(
    student="tanh", teacher="tanh", alpha=2, beta=0.5, alpha0=1, noise=0.1, step_exponent=0
)
CRITICAL = weight_spectrum(SMALL).threshold
STRUCTURED = dict(student="tanh", teacher="sin", beta=1, readout="ones", noise=0.1)
CASES: dict[str, Problem] = {
    "no step, relu": Problem(student="relu", teacher="tanh", alpha=2, beta=0.5, alpha0=0),
    "small step, 0.8 of the threshold": SMALL.replace(step=0.8 * CRITICAL),
    "small step, twice the threshold": SMALL.replace(step=2 * CRITICAL),
    "exponent 1/4, erf learns sin": Problem(
        student="erf", teacher="sin", alpha=2, beta=2, alpha0=2, step=2, step_exponent=0.25
    ),
    "large step, tanh learns tanh, ones": Problem(**LARGE),
    "large step, relu learns tanh, signs": Problem(**RELU),
    "large step, relu learns relu, ones": Problem(
        student="relu", teacher="relu", alpha=1, beta=2, alpha0=2, step=1, readout="ones"
    ),
    "large step, tanh learns sin, Gaussian readout": Problem(
        student="tanh", teacher="sin", alpha=2, beta=1, alpha0=2, step=2
    ),
    "two levels 5:1, teacher on top, tanh learns sin, ones": Problem(
        **STRUCTURED,
        alpha=2,
        alpha0=2,
        step=2,
        inputs="two-level:5:0.2",
        teacher_overlaps="top:0.3",
    ),
    "power law 0.3, relu learns tanh, signs": Problem(
        student="relu",
        teacher="tanh",
        readout="signs",
        alpha=3,
        beta=1.5,
        alpha0=1,
        step=1,
        noise=0.1,
        inputs="power-law:0.3",
    ),
    "power law 0.4, teacher on top, tanh learns sin, ones": Problem(
        **STRUCTURED, alpha=0.7, alpha0=0.6, inputs="power-law:0.4", teacher_overlaps="top:0.1"
    ),
}


@pytest.mark.parametrize("of", ["weights", "kernel"])
@pytest.mark.parametrize(
    "name",
    [
        "small step, twice the threshold",
        "large step, tanh learns tanh, ones",
        "two levels 5:1, teacher on top, tanh learns sin, ones",
    ],
)
def test_networks_agree(name: str, of: str) -> None:
    found = spectrum(CASES[name], of, 250, 3, 1)
    assert found.distance < 0.025
    assert len(found.outliers) == 1
    assert found.outliers[0].theory == pytest.approx(found.outliers[0].simulated, rel=0.08)
    for level in found.levels[1:]:
        assert level.theory == pytest.approx(level.simulated, abs=0.06 * found.law.edges[1])
    width = np.diff(found.bins)
    assert found.histogram @ width == pytest.approx(1 - 1 / found.sizes.width, rel=1e-9)
    assert found.simulated.shape == (3, found.sizes.width)


def test_the_exact_bulk_is_seen() -> None:
    exact = spectrum(CASES["large step, relu learns tanh, signs"], "weights", 250, 2)
    isotropic = spectrum(
        CASES["large step, relu learns tanh, signs"], "weights", 250, 2, bulk="isotropic"
    )
    assert exact.distance < 0.02
    assert isotropic.distance > 0.15
    assert isotropic.distance == distance(isotropic.law, exact.simulated)


def test_the_spectra_are_those_of_simulate() -> None:
    question = CASES["large step, relu learns relu, ones"].replace(dimension=60)
    expected = simulate(question, 60, 2, 3)
    for number in (0, 1):
        found = layer_spectrum(question, "weights", 60, 3, number)
        np.testing.assert_allclose(
            found[:2], expected.singular_values_weights.values[number], rtol=1e-5
        )
        assert found.shape == (60,)


@pytest.mark.parametrize("alpha", [0.5, 3.0])
def test_the_kernel_is_that_of_the_ridge_samples(alpha: float) -> None:
    """Both shapes against the singular values of all features at once.

    The ridge fit's own training error follows from the same kernel.
    """
    from firststep.simulation.running.layer import first_layer

    question = Problem(
        student="relu",
        teacher="tanh",
        alpha=alpha,
        beta=1.5,
        alpha0=2,
        step=1,
        ridge=0.3,
        dimension=80,
    )
    draws = HostDraws(5, 1, np.dtype(float))
    n = question.sizes().samples
    inputs = draws.rows("ridge inputs", 0, n, 80)
    layer = first_layer(question, 80, 5, 1)
    features = question.student.evaluate(inputs @ layer.after)
    found = layer_spectrum(question, "kernel", 80, 5, 1)
    np.testing.assert_allclose(
        found, np.linalg.svd(features, compute_uv=False) ** 2 / n, rtol=1e-8, atol=1e-12
    )
    labels = np.tanh(inputs @ layer.teacher)
    values, vectors = np.linalg.eigh(features @ features.T / n)
    residual = vectors.T @ labels * 0.3 / (values + 0.3)
    measured = simulate(question, 80, 1, 5, first_replicate=1).training_error.values[0]
    assert residual @ residual / n == pytest.approx(float(measured), rel=1e-6)


def test_what_comes_back(tmp_path: Path) -> None:
    found = spectrum(Problem(**LARGE), "kernel", 60, 2)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["distance"] == found.distance
    assert told["law"]["mass"] == pytest.approx(1, abs=1e-3)
    assert [level["name"] for level in told["levels"]] == [
        "outlier 1",
        "largest in the bulk",
        "smallest in the bulk",
    ]
    assert told["levels"][1]["z"] is None
    assert np.shape(told["simulated"]) == (2, 60)
    assert (
        "eigenvalues of F^T F/n: tanh learns tanh, "
        "d = 60, N = 60, n0 = 30, n = 120, 2 networks, seed 0" in str(found)
    )
    assert "<table>" in found._repr_html_()
    assert found["outlier 1"] == found.outliers[0]
    with pytest.raises(KeyError):
        found["outlier 2"]
    table = list(csv.DictReader(found.to_csv(tmp_path / "a.csv").read_text().splitlines()))
    assert {row["series"] for row in table} >= {
        "theory",
        "histogram",
        "outlier 1, theory",
        "outlier 1, simulated",
    }
    single = spectrum(Problem(**LARGE), "weights", 60, 1)
    assert math.isnan(single.outliers[0].z)
    assert "outlier 1" in str(single)


def test_an_outlier_in_a_gap_is_compared_with_the_nearest_value() -> None:
    question = Problem(**LARGE).replace(dimension=60)
    law = spectral_law(question)
    inside = float(law.quantile(0.5))
    changed = type(law)(**{**law.__dict__, "outliers": (*law.outliers, inside)})
    simulated = np.stack([layer_spectrum(question, "weights", 60, 0, number) for number in (0, 1)])
    found = Spectrum.of(
        question, changed, simulated, sizes=question.sizes(), seed=0, seconds=0.0, interrupted=False
    )
    gap = found["outlier 2 (gap)"]
    assert gap.simulated == pytest.approx(
        np.mean([row[np.argmin(np.abs(row - inside))] for row in simulated])
    )


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    question: Any = Problem(**LARGE)
    with pytest.raises(InvalidParameter, match="problem must be a Problem"):
        spectrum("tanh", "weights", 40)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="of must be one of weights, kernel; got layer"):
        spectrum(question, "layer", 40)
    with pytest.raises(InvalidParameter, match="dimension must be a whole number >= 2"):
        spectrum(question)
    with pytest.raises(InvalidParameter, match="replicates must be a whole number >= 1"):
        spectrum(question, "weights", 40, 0)
    monkeypatch.setattr("firststep.simulation.running.spectra.available_memory", lambda: 10_000)
    with pytest.raises(NotEnoughMemory, match="one network needs"):
        spectrum(question, "weights", 400)


def test_ctrl_c_keeps_what_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(problem: Problem, of: str, dimension: int, seed: int, number: int) -> Any:
        if number == 2:
            raise KeyboardInterrupt
        return layer_spectrum(problem, of, dimension, seed, number)

    monkeypatch.setattr(
        importlib.import_module("firststep.spectrum"), "layer_spectrum", interrupted
    )
    with pytest.raises(Interrupted, match="2 of 5 networks finished") as stopped:
        spectrum(Problem(**LARGE), "weights", 40, 5)
    partial: Any = stopped.value.result
    assert partial.replicates == 2
    assert "interrupted" in str(partial)


FLAGS = [
    "--student",
    "tanh",
    "--teacher",
    "sin",
    "--alpha",
    "2",
    "--beta",
    "1.5",
    "--step",
    "2",
    "--readout",
    "ones",
]


@pytest.mark.parametrize("of", ["weights", "kernel"])
def test_command(of: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "new" / "spectrum.png"
    arguments = ["spectrum", "--of", of, *FLAGS, "--dimension", "40", "--replicates", "2"]
    assert run([*arguments, "--out", str(picture)]) == 0
    printed = capsys.readouterr()
    assert "Kolmogorov-Smirnov" in printed.out
    assert f"wrote {picture} and {picture.with_suffix('.csv')}" in printed.out
    assert printed.err == ""
    assert picture.stat().st_size > 5000
    assert run([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["of"] == of
    assert (
        told["levels"][0]["theory"]
        == spectrum(Problem.model_validate(told["problem"]), of, 40, 2).levels[0].theory
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--dimension", "40", "--of", "kernels"],
            "error: of must be one of weights, kernel; got kernels (did you mean kernel?)",
        ),
        (
            ["--dimension", "40", "--bulk", "round"],
            "error: bulk must be one of exact, isotropic; got round",
        ),
        ([], "error: dimension must be a whole number >= 2; got inf"),
        (
            ["--dimension", "40", "--out", "a.gif"],
            "error: out must be a file name that ends in .png, .pdf, .svg; got a.gif",
        ),
        (
            ["--dimension", "40", "--replicates", "-1"],
            "error: replicates must be a whole number >= 1",
        ),
    ],
)
def test_wrong_input_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["spectrum", *FLAGS, *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(message)
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.slow
@pytest.mark.parametrize("of", ["weights", "kernel"])
@pytest.mark.parametrize("name", CASES)
def test_every_case_of_the_page(name: str, of: str) -> None:
    found = spectrum(CASES[name], of, 600, 12)
    assert found.distance < 10 / found.simulated.shape[1]
    assert all(abs(level.z) < 4 for level in found.outliers)
