"""Batches taken in parts are the batches of ``jax.numpy``, with their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.backends import jax, jnp, needs_jax

if TYPE_CHECKING:
    from firststep.typing import Array

pytestmark = needs_jax

# One part; several; more than one fits in; two axes, and a number that equal parts do not divide.
BATCHES = [((3,), 4), ((7,), 50), ((2,), 80), ((5, 17), 20)]
CALLS: dict[str, Callable[[Any, Array], Any]] = {
    "solve": lambda linalg, a: linalg.solve(a, a[..., :3] ** 2),
    "inv": lambda linalg, a: linalg.inv(a),
    "cholesky": lambda linalg, a: linalg.cholesky(a @ a.swapaxes(-1, -2)),
    "eigh": lambda linalg, a: linalg.eigh(a + a.swapaxes(-1, -2))[0],
    "eigvalsh": lambda linalg, a: linalg.eigvalsh(a + a.swapaxes(-1, -2)),
    "svd": lambda linalg, a: linalg.svd(a[..., :5], full_matrices=False)[1],
}
DIFFERENTIATED = ["solve", "inv", "cholesky"]


def matrices(batch: tuple[int, ...], size: int) -> Array:
    rng = np.random.default_rng(size)
    return rng.standard_normal((*batch, size, size)) / np.sqrt(size) + 3 * np.eye(size)


@pytest.mark.parametrize("name", CALLS)
def test_parts_are_the_whole(name: str) -> None:
    parts, call = import_module("firststep.numerics.in_parts"), CALLS[name]
    with jax.enable_x64(True):
        for batch, size in BATCHES:
            given = jnp.asarray(matrices(batch, size))
            expected = call(np.linalg, np.asarray(given))
            np.testing.assert_allclose(call(parts, given), expected, rtol=1e-9, atol=1e-12)
            mapped = jax.vmap(lambda one: call(parts, one))(given)
            np.testing.assert_allclose(mapped, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_derivatives(name: str) -> None:
    """Backwards, and forwards over backwards: of a batch, through vmap, and by JAX one by one."""
    parts, call = import_module("firststep.numerics.in_parts"), CALLS[name]
    given = matrices((7,), 50)

    def slopes(linalg: Any, at: Array, direction: Array) -> tuple[Array, Array]:
        gradient = jax.grad(lambda a: jnp.sum(jnp.sin(call(linalg, a))))
        return jax.jvp(gradient, (at,), (direction,))

    with jax.enable_x64(True):
        ways = jnp.asarray(given), jnp.asarray(given[:, ::-1])
        expected = jax.lax.map(lambda one: slopes(jnp.linalg, *one), ways)
        for found in (slopes(parts, *ways), jax.vmap(partial(slopes, parts))(*ways)):
            for each, right in zip(found, expected, strict=True):
                np.testing.assert_allclose(each, right, rtol=1e-8, atol=1e-10)
