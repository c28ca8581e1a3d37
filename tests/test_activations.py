"""Moments against closed forms, wrappers, callables."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from firststep import InvalidParameter, activation
from firststep.activations import names
from tests.backends import jnp, needs_jax

PI = math.pi
# c0 = E s, c1 = E z s, c2 = E (z^2-1) s, m2 = E s^2, tau = Var s', all in closed form
CLOSED = {
    "erf": (
        0,
        2 / math.sqrt(3 * PI),
        0,
        2 / PI * math.asin(2 / 3),
        4 / PI / math.sqrt(5) - 4 / (3 * PI),
    ),
    "relu": (1 / math.sqrt(2 * PI), 0.5, 1 / math.sqrt(2 * PI), 0.5, 0.25),
    "abs": (math.sqrt(2 / PI), 0, math.sqrt(2 / PI), 1, 1),
    "sin": (0, math.exp(-0.5), 0, (1 - math.exp(-2)) / 2, (1 + math.exp(-2)) / 2 - math.exp(-1)),
    "identity": (0, 1, 0, 1, 0),
    "hermite2": (0, 0, 2, 2, 4),
    "hermite3": (0, 0, 0, 6, 18),
    "hermite4": (0, 0, 0, 24, 96),
    "exp(0.7*z)": tuple(
        math.exp(0.245) * x
        for x in (1, 0.7, 0.49, math.exp(0.735), 0.49 * (math.exp(0.735) - math.exp(0.245)))
    ),
}


@pytest.mark.parametrize("name", CLOSED)
def test_moments_agree_with_closed_forms(name: str) -> None:
    made = activation(name)
    c0, c1, c2, m2, tau = CLOSED[name]
    found = made.moments
    got = (found.mean, found.linear, found.quadratic, found.second_moment, found.nonlinear_variance)
    exact = (c0, c1, c2, m2, m2 - c0**2 - c1**2)
    assert got == pytest.approx(exact, rel=1e-12, abs=1e-12)
    slope = made.slope_moments
    assert (slope.mean, slope.linear, slope.variance) == pytest.approx(
        (c1, c2, tau), rel=1e-12, abs=1e-12
    )
    assert max(abs(a - b) for a, b in zip(got, exact, strict=True)) <= 30 * found.error
    assert found.error < 1e-11


def test_a_jump_has_no_slope_but_a_linear_part() -> None:
    sign = activation("sign")
    assert sign.moments.linear == pytest.approx(math.sqrt(2 / PI), rel=1e-13)
    assert (sign.slope_moments.mean, sign.slope_moments.variance) == (0.0, 0.0)


@pytest.mark.parametrize("name", names())
def test_moments_agree_with_sampling_and_parts(name: str) -> None:
    """Stein's identity E s' = E z s, E z s' = E (z^2-1) s for every continuous activation, and a
    Monte-Carlo check.
    """
    made = activation(name)
    if name != "sign":
        assert made.slope_moments.mean == pytest.approx(made.moments.linear, abs=1e-12)
        assert made.slope_moments.linear == pytest.approx(made.moments.quadratic, abs=1e-12)
    z = np.random.default_rng(1).standard_normal(400_000)
    sample = made(z)
    error = 5 * sample.std() / math.sqrt(len(z)) + 1e-12
    assert made.moments.mean == pytest.approx(sample.mean(), abs=error)
    assert made.moments.second_moment == pytest.approx(
        (sample**2).mean(), abs=5 * (sample**2).std() / math.sqrt(len(z)) + 1e-12
    )


def test_hermite_coefficients() -> None:
    assert activation("hermite3").hermite_coefficients(5) == pytest.approx(
        [0, 0, 0, 6, 0, 0], abs=1e-11
    )
    assert activation("relu").hermite_coefficients(4)[2:] == pytest.approx(
        [1 / math.sqrt(2 * PI), 0, -1 / math.sqrt(2 * PI)], abs=1e-12
    )


def test_wrappers() -> None:
    centered = activation("centered(softplus)")
    assert centered.moments.mean == pytest.approx(0, abs=1e-14)
    assert centered(0.3) == pytest.approx(
        activation("softplus")(0.3) - activation("softplus").moments.mean, abs=1e-14
    )
    normalized = activation("normalized(centered(relu))")
    assert normalized.moments.second_moment == pytest.approx(1, rel=1e-13)
    assert normalized.moments.mean == pytest.approx(0, abs=1e-14)
    assert normalized.derivative(1.0) == pytest.approx(1 / math.sqrt(0.5 - 1 / (2 * PI)), rel=1e-12)


def test_scalars_arrays_and_types() -> None:
    tanh = activation("tanh")
    assert isinstance(tanh(0.5), float)
    assert tanh(np.zeros((2, 3))).shape == (2, 3)
    assert activation("1 + 0*z")([1.0, 2.0]).tolist() == [1.0, 1.0]
    single = activation("gelu").evaluate(np.ones(3, np.float32))
    assert single.dtype == np.float32


def test_equality_text_and_pickling() -> None:
    first, second = activation("tanh(2*z)"), activation(lambda z: np.tanh(2 * z))
    assert first == second
    assert hash(first) == hash(second)
    assert first != activation("tanh")
    assert pickle.loads(pickle.dumps(activation("centered(relu)"))) == activation("centered(relu)")
    assert activation(first) is first


@needs_jax
def test_jax_functions_work_on_both_sides() -> None:
    elu = activation(lambda z: jnp.where(z > 0, z, jnp.expm1(z)), kinks=[0.0])
    same = activation("maximum(z, 0) + minimum(exp(z) - 1, 0)")
    z = np.linspace(-3, 3, 13).reshape(1, 13)
    assert elu(z) == pytest.approx(same(z), abs=1e-15)
    assert elu.derivative(z[:, :6]) == pytest.approx(same.derivative(z[:, :6]), abs=1e-15)
    assert elu.moments.second_moment == pytest.approx(same.moments.second_moment, rel=1e-13)


@pytest.mark.parametrize(
    "source",
    [lambda z: np.where(z > 0, z, 0), lambda z: z.nothing, lambda z: z.sum(), 7, None, ["tanh"]],
)
def test_what_is_not_an_activation(source) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidParameter, match="teacher must be"):
        activation(source, parameter="teacher")


@pytest.mark.parametrize(
    ("text", "words"), [("exp(z**2)", "diverges"), ("1/z", "six digits"), ("log(z)", "not finite")]
)
def test_not_integrable(text: str, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        _ = activation(text).moments


def test_large_trees_travel_and_endless_ones_are_refused() -> None:
    nested = "z"
    for _ in range(6):
        nested = f"gelu({nested})"
    deep = activation(nested)
    assert pickle.loads(pickle.dumps(deep)) == deep
    series = activation(lambda z: sum(np.sin((k + 1) * z) / (k + 1) ** 2 for k in range(100)))
    copy = pickle.loads(pickle.dumps(series))
    assert copy(0.7) == series(0.7)
    for _ in range(20):
        nested = f"silu({nested})"
    with pytest.raises(InvalidParameter, match="too large"):
        activation(nested)


def test_hermite_coefficients_refuse_what_has_none() -> None:
    with pytest.raises(InvalidParameter, match="diverges"):
        activation("exp(z**2)").hermite_coefficients(3)
    with pytest.raises(InvalidParameter, match="degree"):
        activation("tanh").hermite_coefficients(-1)
