"""The best ridge and step of a row of problems, and the curves between them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firststep import Problem, optimal, predict
from firststep.figures import learning_exponents, sample_budget, step_transfer, teacher_in_spectrum
from firststep.figures.core import make
from firststep.figures.shape import Scale
from firststep.figures.tuned import Chosen, tuned
from firststep.sweep.executors import ThisMachine

PROBLEM = Problem(
    student="tanh", teacher="sin", alpha=3, beta=1.2, alpha0=4, step=1, noise=0.2, readout="signs"
)
RANGES = {"ridge": (0.01, 2.0), "step": (0.3, 5.0)}


def test_the_best_values_are_those_of_optimal() -> None:
    alphas = (1.0, 3.0)
    found = tuned(PROBLEM, RANGES, {"alpha": alphas})
    for place, alpha in enumerate(alphas):
        exact = optimal(PROBLEM.replace(alpha=alpha), tuple(RANGES), ranges=RANGES)
        risk = float(predict(PROBLEM, alpha=alpha, **{n: found[n][place] for n in RANGES}).risk)
        # The optimum is flat: values of 2 % are a risk of 1e-4.
        assert risk == pytest.approx(exact.risk, rel=1e-4)
        for name, value in exact.values.items():
            assert found[name][place] == pytest.approx(value, rel=0.02)


def test_an_optimum_beyond_the_range_is_at_its_end() -> None:
    found = tuned(PROBLEM, {"ridge": (1e-3, 0.02)}, {"alpha": [0.5]})
    assert found["ridge"] == pytest.approx([0.02])


def test_between_places_logarithms_are_smooth_and_places_are_exact() -> None:
    chosen = Chosen((1.0, 2.0, 4.0), {"step": np.array([1.03, 2.06, 4.12])})
    step = chosen.between("step")
    assert [step(x) for x in chosen.places] == [1.03, 2.06, 4.12]
    assert step(2**0.5) == pytest.approx(1.03 * 2**0.5)


def test_the_steps_of_a_learning_curve_have_one_spike() -> None:
    case = learning_exponents.CASES[1]
    for alpha in (0.25, 0.7, 16.0):
        asked = learning_exponents.asked(alpha, case, learning_exponents.FIXED, 60)
        strength = float(predict(asked.replace(dimension=60)).spike_strength)
        assert strength == pytest.approx(learning_exponents.SPIKE, rel=0.01)


def test_a_split_spends_the_budget() -> None:
    best = sample_budget.best_at(0.3, 8.0, "N(0, I)", 60)
    assert (best.alpha0, best.alpha) == (pytest.approx(2.4), pytest.approx(5.6))
    split = sample_budget.best_split(8.0, "N(0, I)", 60)
    risks = [
        float(predict(sample_budget.best_at(x, 8.0, "N(0, I)", 60), dimension=60).risk)
        for x in (0.25, split.share, 0.85)
    ]
    assert risks[1] < min(risks[0], risks[2]) < split.without
    assert split.risk == pytest.approx(risks[1], rel=1e-3)


def test_a_kept_step_is_one_rate_at_every_width() -> None:
    widths = (0.5, 2.0)
    found: dict[float, Any] = {
        s: step_transfer.kept(widths, 60, s).values["step"] for s in (0.0, 0.5)
    }
    assert found[0.5][0] == found[0.5][1] == found[0.0][0]
    # eta = etat sqrt N is the same: etat falls like 1/sqrt N.
    assert found[0.0][1] == pytest.approx(found[0.0][0] / 2, rel=0.005)


def test_teachers_of_both_signs_meet_at_equal() -> None:
    assert teacher_in_spectrum.overlaps(0) == teacher_in_spectrum.of_share(1, "top") == "equal"
    along = [teacher_in_spectrum.step_of_one(x, 0.3) for x in (-1e-6, 0.0, 1e-6)]
    aligned = [float(predict(each, dimension=60).alignment) for each in along]
    assert np.ptp(aligned) < 1e-6


def test_slopes_are_those_between_the_risks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning_exponents, "CASES", learning_exponents.CASES[:1])
    scale = Scale(dimension=40, replicates=2, points=4)
    made = make(learning_exponents.FIGURE, tmp_path, scale, ThisMachine(workers=1))
    rows = {(row["panel"], row["curve"], row["x_value"]): row for row in made.rows}
    assert len(rows) == len(made.rows) == 2 * (4 + 3)
    for (panel, curve, x), row in rows.items():
        if panel == "slopes":
            case, label = curve.split(": ")
            low, high = rows[case, label, x / 2], rows[case, label, 2 * x]
            for number in ("theory", "simulated"):
                slope = math.log(low[number] / high[number]) / math.log(4)
                # The simulated slope is the mean over networks, not that of means.
                assert row[number] == pytest.approx(slope, rel=1e-9, abs=0.2 * (number != "theory"))
