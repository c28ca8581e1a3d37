"""The array libraries tests run on. JAX is an extra: what needs it is skipped without it, and says so."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

HAS_JAX = find_spec("jax") is not None
needs_jax = pytest.mark.needs_jax

BACKENDS = ["numpy", pytest.param("jax", marks=needs_jax)]
jax: Any = None
jnp: Any = None
jsp: Any = None
if HAS_JAX:
    pass
