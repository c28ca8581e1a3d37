"""The safe parser and the symbolic derivative."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firststep.activations import activation
from firststep.errors import InvalidParameter
from firststep.expressions import ACTIVATIONS, FUNCTIONS, Z, differentiate, evaluate, name_of, trace
from firststep.handwriting import WRITTEN
from firststep.kinks import kinks
from firststep.numerics.library import NUMPY
from firststep.parsing import parse
from tests.backends import jax, jnp, jsp, needs_jax

POINTS = np.linspace(-3.05, 2.95, 41)


def value(expression, z=POINTS):  # type: ignore[no-untyped-def]
    return evaluate([expression], z)[0]


def test_arithmetic_means_what_python_means() -> None:
    z = POINTS
    cases = {
        "tanh(2*z) + 0.5*(z**2-1)": np.tanh(2 * z) + 0.5 * (z**2 - 1),
        "-z**2": -(z**2),
        "2 - z - 1": 1 - z,
        "8 / 2 / 2 * z": 2 * z,
        "z^3": z**3,
        "2**-1 * z": z / 2,
        "exp(-z*z) * cos(pi*z) / (1 + e)": np.exp(-z * z) * np.cos(np.pi * z) / (1 + np.e),
        "maximum(z, 0) + minimum(exp(z) - 1, 0)": np.where(z > 0, z, np.exp(z) - 1),
        "sqrt(1 + z**2) - arctan(z)": np.sqrt(1 + z**2) - np.arctan(z),
        "2**z": 2.0**z,
    }
    for text, expected in cases.items():
        assert value(parse(text)) == pytest.approx(expected, rel=1e-14, abs=1e-15), text


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "z.real",
        "z[0]",
        "(lambda: z)()",
        "[z for z in (1,)]",
        "z if z else 1",
        "open('x')",
        "z and 1",
        "z < 1",
        "'text'",
        "True",
        "f'{z}'",
        "z := 1",
        "tanh(z, 2)",
        "tanh(*z)",
        "tanh(x=z)",
        "w",
        "exp",
        "relu + z",
        "1/0*z",
        "9**9**9**9",
        "1e999*z",
        "z**z",
        "(-1)**0.5*z",
        "",
        "   ",
        "z +",
        "z\n+1; import os",
        "(" * 300 + "z" + ")" * 300,
        "-" * 300 + "z",
        "1if z else 2",
        "z+" * 900 + "z",
        "z" * 3000,
        "\x00",
        "normalized(0*z)",
        "centered(exp(z**2))",
    ],
)
def test_everything_else_is_refused_in_one_line(text: str) -> None:
    if text == "exp":  # a known function of z, though not a sensible activation
        assert name_of(parse(text)) == "exp(z)"
        return
    with pytest.raises(InvalidParameter) as caught:
        parse(text, "student")
    message = str(caught.value)
    assert message.startswith("student must be")
    assert "\n" not in message
    assert len(message) < 600


def test_unknown_names_get_the_nearest_one() -> None:
    for wrong, right in {
        "tahn": "tanh",
        "Relu": "relu",
        "softpluss": "softplus",
        "hermit3": "hermite3",
    }.items():
        with pytest.raises(InvalidParameter, match=f"did you mean {right}"):
            parse(wrong)
    with pytest.raises(InvalidParameter, match="did you mean sin"):
        parse("1 + sine(z)")


WRITTEN_BY_HAND = {
    "|z|": "abs(z)",
    "|z| + |z - 1|": "abs(z) + abs(z-1)",
    "2|z-1|": "2*abs(z-1)",
    "|z||z-1|": "abs(z)*abs(z-1)",
    "|2-|z||": "abs(2-abs(z))",
    "||z|-1|": "abs(abs(z)-1)",
    "tanh(|z|)|z|": "tanh(abs(z))*abs(z)",
    "2 tanh(z)": "2*tanh(z)",
    "2tanh(2z)": "2*tanh(2*z)",
    "z tanh(z)": "z*tanh(z)",
    "(z+1)(z-1)": "(z+1)*(z-1)",
    "2(z+1)": "2*(z+1)",
    "z(z+1)": "z*(z+1)",
    "1e-3z": "0.001*z",
    "2 pi z": "2*pi*z",
    "2e z": "2*e*z",
    "z² − 1": "z**2 - 1",
    "3z¹⁰": "3*z**10",
    "2·z": "2*z",
    "2 z^2": "2*z**2",
    "swish": "silu",
    "swish(2z)": "silu(2*z)",
    "atan(z)": "arctan(z)",
}


@pytest.mark.parametrize("text", WRITTEN_BY_HAND)
def test_what_people_write_is_understood(text: str) -> None:
    assert parse(text) is parse(WRITTEN_BY_HAND[text])  # expressions are kept once


HINTED = {
    "x": "the variable is z",
    "tanh(x)": "the variable is z",
    "tanh(2 x)": "the variable is z",
    "leaky_relu": re.escape("write maximum(z, 0.01*z)"),
    "mish(z)": re.escape("write z*tanh(softplus(z))"),
    "max(0, z)": re.escape("write maximum(z, 0)"),
    "tanh z": re.escape("tanh needs its argument in brackets, as in tanh(z)"),
    "|z": "brackets do not match",
    "(|z)|": "brackets do not match",
    "2 tanh(z": "brackets do not match",
}


@pytest.mark.parametrize("text", HINTED)
def test_what_cannot_be_understood_has_the_right_hint(text: str) -> None:
    with pytest.raises(InvalidParameter, match=HINTED[text]):
        parse(text)


def test_functions_that_are_written_out_are_what_they_are_called() -> None:
    z = np.linspace(-4, 4, 41)
    truth = {
        "leaky_relu": np.where(z > 0, z, 0.01 * z),
        "elu": np.where(z > 0, z, np.expm1(z)),
        "mish": z * np.tanh(np.log1p(np.exp(z))),
        "heaviside": np.heaviside(z, 0.5),
        "hardtanh": np.clip(z, -1, 1),
        "relu6": np.clip(z, 0, 6),
        "softsign": z / (1 + np.abs(z)),
        "max": np.maximum(z, 0),
        "min": np.minimum(z, 0),
        "square": z**2,
    }
    truth |= {"step": truth["heaviside"], "leakyrelu": truth["leaky_relu"]}
    assert set(truth) == set(WRITTEN)
    for name, values in truth.items():
        np.testing.assert_allclose(activation(WRITTEN[name])(z), values, atol=1e-12)


TWINS = {  # in words of JAX, which may not be there
    "tanh": lambda z: jnp.tanh(z),
    "erf": lambda z: jsp.erf(z),
    "sin": lambda z: jnp.sin(z),
    "cos": lambda z: jnp.cos(z),
    "exp": lambda z: jnp.exp(z),
    "arctan": lambda z: jnp.arctan(z),
    "sigmoid": lambda z: jax.nn.sigmoid(z),
    "softplus": lambda z: jax.nn.softplus(z),
    "relu": lambda z: jax.nn.relu(z),
    "abs": lambda z: jnp.abs(z),
    "sign": lambda z: jnp.sign(z),
    "gelu": lambda z: jax.nn.gelu(z, approximate=False),
    "identity": lambda z: z,
    "silu": lambda z: jax.nn.silu(z),
    "hermite2": lambda z: z**2 - 1,
    "hermite3": lambda z: z**3 - 3 * z,
    "hermite4": lambda z: z**4 - 6 * z**2 + 3,
    "sinh": lambda z: jnp.sinh(z),
    "cosh": lambda z: jnp.cosh(z),
    "log": lambda z: jnp.log(z),
    "sqrt": lambda z: jnp.sqrt(z),
}


def test_every_function_has_a_reference() -> None:
    assert set(TWINS) == set(FUNCTIONS)


@pytest.mark.parametrize("name", sorted(TWINS))
@needs_jax
def test_values_and_derivatives_agree_with_jax(name: str) -> None:
    points = np.abs(POINTS) if name in ("log", "sqrt") else POINTS
    expression, twin = parse(name), TWINS[name]
    with jax.enable_x64(True):
        expected = np.asarray(twin(jnp.asarray(points)))
        slope = np.asarray(jax.vmap(jax.grad(lambda z: twin(z)))(jnp.asarray(points)))
    assert value(expression, points) == pytest.approx(expected, rel=1e-13, abs=1e-14)
    assert value(differentiate(expression), points) == pytest.approx(slope, rel=1e-12, abs=1e-14)


_smooth = st.sampled_from(
    [
        "tanh",
        "erf",
        "sin",
        "cos",
        "softplus",
        "gelu",
        "sigmoid",
        "hermite2",
        "arctan",
        "silu",
        "relu",
        "abs",
    ]
)
_texts = st.recursive(
    st.one_of(st.just("z"), st.floats(-2, 2).map(lambda x: f"({x:.3f})")),
    lambda inner: st.one_of(
        st.tuples(_smooth, inner).map(lambda p: f"{p[0]}({p[1]})"),
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]} / (1.5 + ({p[1]})**2))"),
        st.tuples(inner, st.integers(2, 4)).map(lambda p: f"({p[0]})**{p[1]}"),
        st.tuples(inner, inner).map(lambda p: f"maximum({p[0]}, {p[1]})"),
    ),
    max_leaves=6,
)


@given(_texts)
@needs_jax
def test_random_expressions_agree_with_jax_and_print_themselves(text: str) -> None:
    expression = parse(text)
    assert parse(name_of(expression)) is expression
    places = np.array(
        [z for z in POINTS if min([abs(z - k) for k in kinks(expression)], default=1) > 0.02]
    )
    with jax.enable_x64(True):

        def on_jax(z):  # type: ignore[no-untyped-def]
            return evaluate([expression], jnp.atleast_1d(z))[0][0]

        slopes = np.asarray(jax.vmap(jax.grad(on_jax))(jnp.asarray(places)))
        values = np.asarray(jax.vmap(on_jax)(jnp.asarray(places)))
    assert value(expression, places) == pytest.approx(values, rel=1e-9, abs=1e-11)
    assert value(differentiate(expression), places) == pytest.approx(slopes, rel=1e-7, abs=1e-9)


def test_kinks_are_found() -> None:
    assert kinks(parse("relu(2*z - 1)")) == (0.5,)
    assert kinks(parse("abs(z**2 - 2)")) == pytest.approx((-np.sqrt(2), np.sqrt(2)), abs=1e-12)
    assert kinks(parse("sign(sin(z)) + tanh(z)")) == pytest.approx(
        [k * np.pi for k in range(-3, 4)], abs=1e-9
    )
    assert kinks(parse("maximum(z, -z/2 + 1)")) == pytest.approx([2 / 3], abs=1e-15)
    assert kinks(parse("tanh(z)")) == ()
    assert kinks(parse("abs(3 + 0*z)*z")) == ()


def test_common_subexpressions_are_computed_once() -> None:
    calls = []

    class Counting:
        def __getattr__(self, name):  # type: ignore[no-untyped-def]
            calls.append(name)
            return getattr(np, name)

    expression = parse("tanh(2*z)**2 + tanh(2*z)")
    counting = dataclasses.replace(NUMPY, xp=Counting())
    evaluate([expression, differentiate(expression)], POINTS, counting)
    assert calls.count("tanh") == 1


def test_numpy_functions_can_be_traced() -> None:
    from scipy.special import erf, expit

    cases = [
        (lambda z: np.tanh(2 * z) + 0.5 * (z**2 - 1), "tanh(2*z) + 0.5*(z**2 - 1)"),
        (lambda z: np.maximum(0, z), "maximum(0, z)"),
        (lambda z: erf(z) - expit(z), "erf(z) - sigmoid(z)"),
        (lambda z: abs(z) / (1 + np.square(z)), "abs(z)/(1 + z**2)"),
        (lambda z: np.float64(3) * np.exp(-z), "3*exp(-z)"),
    ]
    for function, text in cases:
        traced = trace(function)
        assert str(traced) == text
        assert value(traced) == pytest.approx(function(POINTS), rel=1e-14)
    for hopeless in (
        lambda z: np.where(z > 0, z, 0),
        lambda z: float(z),
        lambda z: "text",
        lambda z: np.cumsum(z),
    ):
        assert trace(hopeless) is None


def test_names_survive_printing() -> None:
    for name in ACTIVATIONS:
        assert name_of(parse(name)) == name
    for text in ("centered(relu)", "normalized(centered(gelu))", "2*centered(abs) - 1"):
        assert name_of(parse(text)) == text
    assert name_of(Z) == "identity"
