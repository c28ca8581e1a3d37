"""Values of trees: in blocks the same as alone, and patterns as what they mean."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from firststep.activations import activation
from firststep.numerics import special
from firststep.parsing import parse

# P(z < u), z ~ N(0, 1), to 17 digits, from mpmath
TAIL = {-3.0: 1.3498980316300945e-3, -6.0: 9.8658764503769814e-10, -8.0: 6.220960574271784e-16}


@pytest.mark.parametrize(
    "text", ["tanh", "gelu", "silu", "erf + 0.3*z", "z", "tanh(2*z) + exp(-z**2)", "z**3 - 3*z"]
)
def test_blocks_change_nothing(text: str) -> None:
    """More values than a block, in any layout: those of each piece alone, to the bit."""
    function = activation(text.replace("erf +", "erf(z) +"))
    rng = np.random.default_rng(3)
    z = rng.standard_normal((special.BLOCK + 100, 3))
    for values, alone in (
        (function.evaluate(z), function.evaluate),
        (function.evaluate_derivative(z), function.evaluate_derivative),
        (function.evaluate_both(z)[1], function.evaluate_derivative),
        (function.evaluate(z.T).T, function.evaluate),
    ):
        pieces = np.concatenate([alone(part) for part in np.array_split(z, 8)])
        np.testing.assert_array_equal(values, pieces)
    single = z.astype(np.float32)
    assert function.evaluate(single).dtype == np.float32


def test_gelu_has_its_digits_where_one_plus_erf_has_none() -> None:
    """u P(z < u): 1 + erf(u/sqrt 2) has an error of 1e-16, which is all of it at u = -8."""
    for text in ("gelu", "0.5*z*(1 + erf(0.7071067811865475*z))", "0.5*z*(erf(z/sqrt(2)) + 1)"):
        function = activation(text)
        for u, share in TAIL.items():
            assert float(function(u)) == pytest.approx(u * share, rel=6e-16)
    wide = activation("gelu(2*z)")
    for u, share in TAIL.items():
        assert float(wide(u / 2)) == pytest.approx(u * share, rel=6e-16)


def test_slopes_of_gelu_and_erf_in_their_tails() -> None:
    """Phi + u phi of gelu and (2/sqrt pi) exp(-u^2) of erf: relative to the size of their terms."""
    gelu, erf = activation("gelu"), activation("erf")
    for u, share in TAIL.items():
        density = math.exp(-u * u / 2) / math.sqrt(2 * math.pi)  # u^2 is exact here
        terms = share + abs(u) * density
        assert abs(float(gelu.derivative(u)) - (share + u * density)) <= 6e-16 * terms
    u, exact = 5.3, 7.1305505437526226e-13  # (2/sqrt pi) exp(-u^2), from mpmath; u^2 is rounded
    assert float(erf.derivative(u)) == pytest.approx(exact, rel=6e-16)
    bell = float(activation("exp(-z**2)")(u))
    assert bell == pytest.approx(exact * math.sqrt(math.pi) / 2, rel=6e-16)


def test_texts_are_what_they_were() -> None:
    """They are in the keys of stored results."""
    assert str(activation("gelu")) == "gelu"
    assert str(parse("gelu(2*z)")) == "z*(1 + erf(1.414213562373095*z))"
    assert str(activation("erf").slope) == "1.1283791670955126*exp(-z**2)"


def test_far_arguments_of_sigmoid_warn_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = activation("sigmoid").evaluate(np.array([-1e4, 1e4]))
        slopes = activation("softplus").evaluate_derivative(np.array([-1e4, 1e4]))
    np.testing.assert_array_equal(values, [0.0, 1.0])
    np.testing.assert_array_equal(slopes, [0.0, 1.0])
