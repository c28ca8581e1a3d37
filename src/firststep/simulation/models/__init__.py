"""One replicate of every model. Importing this registers them."""

from functools import lru_cache
from typing import TYPE_CHECKING

from firststep.simulation.models import network  # noqa: F401  registers its models, before
from firststep.simulation.weights import optimizers  # noqa: F401

# isort: split
from firststep.simulation.models import baselines  # noqa: F401  the baselines

if TYPE_CHECKING:
    from firststep.simulation.backends import Backend
    from firststep.simulation.design import Design
    from firststep.simulation.kinds import Model


def prepared(design: "Design", backend: "Backend") -> "Model":
    """The model of a design; compiled stages are kept for the next call with the same shapes.

    Where nothing is compiled there is nothing to keep, least of all an array of data.
    """
    return (_made if backend.name == "numpy" and design.inputs.held else _kept)(design, backend)


def _made(design: "Design", backend: "Backend") -> "Model":
    return design.model(design, backend)


_kept = lru_cache(maxsize=32)(_made)
