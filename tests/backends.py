"""The array libraries tests run on. JAX is an extra: what needs it is skipped without it."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

HAS_JAX = find_spec("jax") is not None
needs_jax = pytest.mark.needs_jax
BACKENDS = ["numpy", pytest.param("jax", marks=needs_jax)]
# What compiles for long and says little that other tests of JAX do not.
SLOW_IN_JAX = ["numpy", pytest.param("jax", marks=[needs_jax, pytest.mark.slow])]


def _of_jax(name: str) -> Any:
    return import_module(name) if HAS_JAX else None


jax, jnp, jsp = _of_jax("jax"), _of_jax("jax.numpy"), _of_jax("jax.scipy.special")
