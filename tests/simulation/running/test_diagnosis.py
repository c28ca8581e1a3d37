"""When ``diagnose_inputs`` says that the covariance alone is wrong: a part of the second table of
docs/inputs.md, and what it hands on.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from firststep import DataInputs, Problem, SpectrumInputs, diagnose_inputs, random_features
from firststep.cli import run
from firststep.simulation.running.measures import measured, reasons_of, whitened
from tests.scripts.calibrate_covariance import KINDS, Kind, elliptical, student, verdicts

D = 200


@pytest.mark.parametrize("spectrum", ["power-law:0.3", "two-level:5:0.2", "power-law:0.6"])
def test_gaussian_inputs_with_a_spectrum(spectrum: str) -> None:
    only, trusted = verdicts(Kind("", spectrum), D, 5, 4)
    assert (only, trusted) == (1, 0)


@pytest.mark.parametrize(
    "entries", [elliptical(60), elliptical(20), student(4)], ids=["scale 60", "scale 20", "t 4"]
)
@pytest.mark.parametrize("ratio", [2, 5])
def test_inputs_that_are_not_gaussian_either(entries, ratio: int) -> None:  # type: ignore[no-untyped-def]
    only, trusted = verdicts(Kind("", "power-law:0.3", entries), D, ratio, 4)
    assert (only, trusted) == (0, 0)


def test_steep_spectra_hide_nothing() -> None:
    """A common scale of the small components alone is seen once the rows are whitened."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((4000, D))
    rows[:, 10:] *= np.sqrt(18 / rng.chisquare(20, (4000, 1)))
    rows *= np.where(np.arange(D) < 10, 60.0, 1.0)
    rows /= math.sqrt(rows.var(axis=0).mean())
    found = diagnose_inputs(rows)
    assert all("covariance is not" in each or "few" in each for each in found.reasons)
    assert not found.covariance_only


def test_whitened_rows_have_the_norms_of_gaussian_ones() -> None:
    """norm of ``reasons_of`` is without bias on them, for any covariance and n = 2 d."""
    rng, seen = np.random.default_rng(4), []
    for _ in range(10):
        rows = whitened(rng.standard_normal((2 * D, D)) * np.geomspace(1, 30, D))
        assert np.cov(rows.T) == pytest.approx(np.eye(D), abs=1e-9)
        directions = rng.standard_normal((D, 200)) / math.sqrt(D)
        looked = measured(rows, directions, rng.permutation(2 * D))
        found = looked.found
        seen.append(2 / D * (found["norm_concentration"] - 1 - found["spread"]))
        assert not {"norm", "kurtosis", "skewness"} & set(reasons_of(looked, rows=2 * D, d=D))
    assert abs(np.mean(seen)) < 4 * np.std(seen, ddof=1) / math.sqrt(10) + 1e-4


def test_what_the_verdict_hands_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = Kind("", "two-level:5:0.2").table(5 * D, D, np.random.default_rng(0))
    data = DataInputs.of(rows, name="rows")
    found = diagnose_inputs(data)
    assert found.spectrum == SpectrumInputs.from_data(data)
    assert not found.trusted
    assert found.steepness == pytest.approx((5 / 1.8) ** 2 / D, rel=0.3)
    verdict = found.verdict
    assert verdict.startswith("covariance only: the theory of inputs with a spectrum is the one")
    assert verdict in str(found)
    listed = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert listed["covariance_only"] is True
    assert listed["spectrum"] == found.spectrum.eigenvalues(D).tolist()
    assert listed["steepness"] == found.steepness
    np.save(tmp_path / "rows.npy", rows)
    out = tmp_path / "spectrum.csv"
    assert run(["diagnose", str(tmp_path / "rows.npy"), "--out", str(out)]) == 0
    assert "covariance only" in capsys.readouterr().out
    asked = Problem(student="tanh", teacher="sin", alpha=2, beta=1, dimension=D)
    read = asked.replace(inputs=f"spectrum:{out}")
    direct = asked.replace(inputs=found.spectrum)
    assert random_features(read).risk == pytest.approx(random_features(direct).risk, rel=1e-12)
    assert run(["diagnose", "gaussian", "--out", str(out)]) == 0
    assert "no spectrum written" in capsys.readouterr().err
    assert run(["diagnose", "gaussian", "--out", "x.npy"]) == 2
    assert "out must be a .csv file" in capsys.readouterr().err


def test_where_no_spectrum_can_be_known() -> None:
    plain = diagnose_inputs("gaussian", 50)
    assert plain.spectrum is None
    assert math.isnan(plain.steepness)
    assert plain.to_dict()["steepness"] is None
    wide = Kind("", "power-law:0.3").table(220, D, np.random.default_rng(0))
    assert diagnose_inputs(wide).spectrum is None
    steep = diagnose_inputs(Kind("", "power-law:1").table(20 * D, D, np.random.default_rng(0)))
    assert "beyond 0.05 d it may be several % off" in steep.verdict


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=[kind.words for kind in KINDS])
def test_rates(kind: Kind) -> None:
    """At rows = 5 d: Gaussian inputs are found, others are not taken for such."""
    only, _ = verdicts(kind, D, 5, 20)
    is_gaussian = kind.words.startswith("Gaussian")
    is_close = any(word in kind.words for word in ("elliptical-t:200", "student-t:10"))
    if is_gaussian:
        assert only >= 0.8
    elif not is_close:
        assert only <= 0.2
