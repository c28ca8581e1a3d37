"""The device that JAX computes on."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from firststep.errors import BackendUnavailable


def jax_device(jax: ModuleType, device: str) -> Any:
    """The device meant by auto, cpu or gpu, or a message that says which there are."""
    if device == "auto":
        return jax.devices()[0]
    try:
        return jax.devices(device)[0]
    except RuntimeError:
        found = ", ".join(sorted({each.platform for each in jax.devices()}))
        raise BackendUnavailable(
            "device", f"one that JAX finds here ({found})", device, "no GPU is visible"
        ) from None
