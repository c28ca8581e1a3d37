"""Shared settings: examples are chosen the same way every time, so a failure can be repeated."""

from __future__ import annotations

import pytest
from hypothesis import settings

from firststep import Problem

settings.register_profile("firststep", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("firststep")


@pytest.fixture
def generic() -> Problem:
    """A problem where nothing vanishes: non-odd student, mixed teacher, noise, three readout values, Gaussian rows."""
    return Problem(
        student="tanh(1.3*z) + 0.4*(z**2-1)",
        teacher="sin(z) + 0.3*z**2",
        alpha=2.5,
        beta=1.5,
        alpha0=3.0,
        step=0.7,
        ridge=0.05,
        noise=0.2,
        readout="-1:0.25,0.5:0.5,2:0.25",
    )
