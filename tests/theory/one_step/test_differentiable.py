"""The JAX side: gradients by implicit differentiation, arrays, jit and vmap."""

from __future__ import annotations

import math
import re
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from firststep import InvalidParameter, Problem, predict
from tests.backends import jax, jnp, needs_jax

pytestmark = needs_jax

FIELDS = ("ridge", "step", "alpha", "beta", "alpha0", "noise")


@pytest.mark.parametrize(
    "problem",
    [
        Problem(
            student="relu",
            teacher="tanh",
            alpha=3,
            beta=1,
            alpha0=2,
            step=1,
            ridge=0.03,
            readout="signs",
            noise=0.1,
        ),
        pytest.param(
            Problem(
                student="tanh",
                teacher="relu",
                alpha=2,
                beta=1.5,
                alpha0=0.7,
                step=2,
                ridge=0.1,
                readout="ones",
                noise=0.2,
                dimension=300,
            ),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            Problem(
                student="relu",
                teacher="tanh",
                teacher_terms="relu,0.5*(z**2-1)",
                alpha=2,
                beta=1.2,
                alpha0=2,
                step=1.5,
                ridge=0.05,
                readout="signs",
                noise=0.3,
                dimension=400,
            ),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["two blocks, infinite", "one block, d = 300", "three directions, d = 400"],
)
def test_gradients_agree_with_finite_differences(problem: Problem) -> None:
    values = {name: float(getattr(problem, name)) for name in FIELDS}
    with jax.enable_x64(True):
        value, gradient = jax.value_and_grad(lambda v: predict(problem, **v).risk)(values)
    assert float(value) == pytest.approx(predict(problem).risk, rel=1e-9)
    for name, at in values.items():
        h = 1e-4 * at
        difference = (
            predict(problem, **{name: at + h}).risk - predict(problem, **{name: at - h}).risk
        ) / (2 * h)
        assert float(gradient[name]) == pytest.approx(difference, rel=2e-5, abs=1e-8), name


def test_a_gaussian_readout_has_a_gradient() -> None:
    """At d = infinity, where the functions that are fitted freely come from the nodes of kappa."""
    problem = Problem(
        student="tanh", teacher="sin", alpha=2, beta=1, alpha0=2, step=1.5, ridge=0.1, noise=0.1
    )
    with jax.enable_x64(True):
        value, slope = jax.value_and_grad(lambda r: predict(problem, ridge=r).risk)(0.1)
    h = 1e-4
    around = predict(problem, ridge=np.array([0.1 - h, 0.1, 0.1 + h])).risk
    assert float(value) == pytest.approx(around[1], rel=1e-8)
    assert float(slope) == pytest.approx((around[2] - around[0]) / (2 * h), rel=5e-5)


def test_arrays_jit_and_the_numpy_solver_agree() -> None:
    problem = Problem(
        student="tanh",
        teacher="sin",
        alpha=3,
        beta=1,
        alpha0=2,
        step=1,
        ridge=0.03,
        readout="ones",
        noise=0.1,
    )
    ridges, alphas = np.geomspace(1e-6, 1e2, 4)[:, None], np.array([0.5, 1.0, 4.0])
    expected = predict(problem, ridge=ridges, alpha=alphas)
    with jax.enable_x64(True):
        found = predict(problem, ridge=jnp.asarray(ridges), alpha=jnp.asarray(alphas))
        assert found.risk.shape == (4, 3)
        assert np.asarray(found.risk) == pytest.approx(expected.risk, rel=1e-10)
        assert np.asarray(found.training_error) == pytest.approx(
            expected.training_error, rel=1e-8, abs=1e-12
        )
        assert np.all(np.asarray(found.residual) < 1e-9)
        inside = jax.jit(lambda ridge: predict(problem, ridge=ridge).risk)(0.03)
        assert float(inside) == pytest.approx(predict(problem).risk, rel=1e-9)
    assert not jax.config.jax_enable_x64  # the user's own setting is left alone


@pytest.mark.parametrize("dimension", [math.inf, pytest.param(300, marks=pytest.mark.slow)])
def test_no_batch_is_one_that_xla_waits_for(dimension: float) -> None:
    """What ``numerics.in_parts`` says of some versions of JAX: read from the program, as the wait
    is seldom.
    """
    parts = import_module("firststep.numerics.in_parts")
    if not parts.is_needed():
        pytest.skip("this version of JAX divides no batches")
    problem = Problem(
        student="tanh",
        teacher="sin",
        alpha=3,
        beta=1,
        alpha0=2,
        step=1,
        readout="signs",
        dimension=dimension,
    )
    with jax.enable_x64(True):
        slopes = jax.vmap(jax.grad(lambda ridge: predict(problem, ridge=ridge).risk))
        program = jax.jit(slopes).lower(jnp.geomspace(1e-3, 1, 100)).as_text()
    times = {"getrf": 1, "trsm": 1, "potrf": 1 / 3, "syevd": 5, "gesdd": 10}  # by jaxlib's count
    calls = re.findall(r"@lapack_d(\w+)_ffi\(.* : \((?:.*, )?tensor<([\dx]+)xf64>\) ->", program)
    assert len(calls) == program.count("@lapack") > 20
    for name, shape in calls:
        *batch, rows, columns = map(int, shape.split("x"))
        operations = times[name] * rows * rows * columns
        assert math.prod(batch) == 1 or math.prod(batch) * operations < parts.DIVIDED, name


@pytest.mark.slow
def test_gradients_of_the_training_error_through_vmap() -> None:
    problem = Problem(
        student="tanh",
        teacher="sin",
        alpha=3,
        beta=1,
        alpha0=2,
        step=1,
        ridge=0.03,
        readout="ones",
        noise=0.1,
    )
    with jax.enable_x64(True):
        slopes = jax.vmap(jax.grad(lambda ridge: predict(problem, ridge=ridge).training_error))(
            jnp.array([0.03, 0.3])
        )
    for ridge, slope in zip((0.03, 0.3), slopes, strict=True):
        h = 1e-4 * ridge
        difference = (
            predict(problem, ridge=ridge + h).training_error
            - predict(problem, ridge=ridge - h).training_error
        ) / (2 * h)
        assert float(slope) == pytest.approx(difference, rel=1e-5)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"step": [0.0, 1.0]}, "step must be positive everywhere, or zero everywhere"),
        ({"ridge": [-1.0]}, "ridge must be finite and > 0"),
        ({"alpha": [float("nan")]}, "alpha must be finite and > 0"),
    ],
)
def test_what_it_refuses(fields: dict[str, Any], words: str) -> None:
    problem = Problem(student="tanh", teacher="sin", alpha=3, beta=1, alpha0=2, readout="ones")
    with jax.enable_x64(True), pytest.raises(InvalidParameter, match=words):
        predict(problem, **{name: jnp.asarray(value) for name, value in fields.items()})


def test_noise_inside_jit_is_refused() -> None:
    problem = Problem(student="tanh", teacher="sin", alpha=3, beta=1, alpha0=2, readout="ones")
    with (
        jax.enable_x64(True),
        pytest.raises(InvalidParameter, match="noise must be known where it is used"),
    ):
        jax.jit(lambda noise: predict(problem, noise=noise).risk)(0.1)


def test_a_width_inside_jit_at_finite_dimension() -> None:
    """The own output is label noise that depends on beta, which nobody knows while compiling."""
    problem = Problem(
        student="3*tanh(z)",
        teacher="sin",
        alpha=3,
        beta=1,
        alpha0=2,
        step=0.5,
        ridge=0.03,
        readout="signs",
        noise=0.1,
        dimension=150,
    )
    with jax.enable_x64(True):
        found = jax.jit(lambda beta: predict(problem, beta=beta).risk)(1.3)
    assert float(found) == pytest.approx(predict(problem, beta=1.3).risk, rel=1e-6)
