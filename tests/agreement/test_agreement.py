"""The simulator against numbers simulated by other code (slow: about ten minutes on two cores)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.agreement import tables
from tests.scripts.agree import compare

REFERENCE = tables.reference()


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [*tables.SECTION_9, *tables.CONVERGENCE, *tables.SMALL_STEP],
    ids=lambda c: f"{c.name}, {c.model}, {c.dimension}",
)
def test_within_three_standard_errors(case: tables.Case) -> None:
    for each in compare(case):
        assert abs(each.z) < 3, each.row()


@pytest.mark.slow
@pytest.mark.parametrize("case", REFERENCE[::7], ids=lambda c: f"{c.name}, {c.dimension}")
def test_reference_networks(case: tables.Case) -> None:
    scores = [each.z for each in compare(case, replicates=max(4, 4 * 2048 // case.dimension))]
    assert (
        np.max(np.abs(scores)) < 4
    )  # the risk and training error at two ridges of 9 networks: 36 numbers


def test_small_networks_agree_with_the_reference() -> None:
    """A quick version for every run: the reference networks at d = 512 with fewer replicates."""
    quick = [case for case in REFERENCE if case.dimension == 512]
    assert len(quick) == 3
    for case in quick:
        for each in compare(case, replicates=10, seed=1):
            assert abs(each.z) < 4, each.row()
