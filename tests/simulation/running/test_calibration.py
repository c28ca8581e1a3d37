"""The verdicts of ``diagnose_inputs`` against what the inputs do to the risk: a part of the table
of docs/inputs.md.
"""

from __future__ import annotations

import numpy as np
import pytest

from firststep import Workers, simulate
from tests.scripts.calibrate import PROBLEMS, row

D, REPLICATES = 400, 16


@pytest.fixture(scope="module")
def workers():  # type: ignore[no-untyped-def]
    with Workers(2) as made:
        yield made


@pytest.fixture(scope="module")
def gaussian(workers: Workers) -> dict[str, np.ndarray]:
    return {
        name: simulate(problem, D, REPLICATES, workers=workers).risk.values
        for name, problem in PROBLEMS.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "law",
    ["rademacher", "uniform", "mixture:10", "student-t:6", "elliptical-t:200", "power-law:0.1"],
)
def test_on_trusted_inputs_the_risk_is_that_of_gaussian_ones(
    law: str, gaussian: dict[str, np.ndarray], workers: Workers
) -> None:
    seen, found = row(law, D, REPLICATES, gaussian, workers)
    assert seen.trusted, seen.reasons
    for name, (difference, error) in found.items():
        assert abs(difference) < 0.03 + 3 * error, (law, name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "law", ["student-t:3", "elliptical-t:40", "power-law:0.2", "mean:0.05", "scale:1.05"]
)
def test_on_inputs_that_are_not_trusted_it_is_not(
    law: str, gaussian: dict[str, np.ndarray], workers: Workers
) -> None:
    seen, found = row(law, D, REPLICATES, gaussian, workers)
    assert not seen.trusted
    assert any(abs(difference) > 0.03 + 2 * error for difference, error in found.values()), law
