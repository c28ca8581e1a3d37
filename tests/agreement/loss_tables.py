"""Verified numbers of fits with other losses: tests/data/loss_tables.json.

``layers``: first layers at d = 400, each ``first_layer`` of its problem and seed, with ``draws``
independent fits by other code. ``networks``: everything drawn anew in each of ``replicates``. A row
has the fields of a Problem that are asked of a layer or network, and for some numbers
(a theory by other code, the mean of the simulation by other code, its standard error).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from firststep import (
    FirstLayer,
    Problem,
    Simulation,
    first_layer,
    predict,
    predict_features,
    simulate,
    simulate_features,
)

_TABLES = json.loads((Path(__file__).parent.parent / "data" / "loss_tables.json").read_text())
LAYERS: dict[str, dict[str, Any]] = _TABLES["layers"]
NETWORKS: dict[str, dict[str, Any]] = _TABLES["networks"]
_MADE = ("student", "teacher", "readout", "alpha", "beta", "alpha0", "step")
_ASKED = ("student", "readout", "alpha", "beta", "alpha0", "step", "step_loss", "dimension")
TESTS = 20_000  # inputs a fit is tested on, as in the verified simulations of layers


class Known(NamedTuple):
    """One number by other code."""

    theory: float
    mean: float
    error: float


class Seen(NamedTuple):
    """A number of ours beside a simulated one: the difference over it, and over the error."""

    quantity: str
    found: float
    mean: float
    error: float

    @property
    def relative(self) -> float:
        return self.found / self.mean - 1

    @property
    def z(self) -> float:
        return (self.found - self.mean) / self.error

    def agrees(self, errors: float = 3.0, share: float = 0.01) -> bool:
        """Within so many standard errors, or so close."""
        return abs(self.z) < errors or abs(self.relative) < share


@dataclass(frozen=True)
class Row:
    """A fit on a layer or on networks, and what is known of it."""

    of: str
    asked: dict[str, Any]
    known: dict[str, Known]

    @property
    def is_layer(self) -> bool:
        return self.of in LAYERS

    @property
    def name(self) -> str:
        asked = self.asked
        constant = " intercept" if asked.get("intercept") else ""
        return f"{self.of} {asked['loss']}{constant} {self.labels} {asked['ridge']:g}"

    @property
    def labels(self) -> str:
        """The law of the labels in a few words."""
        asked = self.asked
        words = [asked["labels"] if asked["labels"] != "real" else asked["teacher"]]
        words += [f"flip {asked['flip']:g}"] if "flip" in asked else []
        words += [f"threshold {asked['threshold']:g}"] if "threshold" in asked else []
        words += [f"noise {asked['noise']:g} {asked['noise_law']}"] if "noise" in asked else []
        return ", ".join(words)

    @property
    def problem(self) -> Problem:
        own = LAYERS[self.of] if self.is_layer else NETWORKS[self.of]
        return Problem(**{name: own[name] for name in _ASKED if name in own}, **self.asked)

    def predicted(self) -> Any:
        """The theory, with the bulk of what was simulated."""
        if self.is_layer:
            made = layer(self.of)
            count = LAYERS[self.of]["directions"]
            return predict_features(
                made.after, self.problem, made.teacher, initial=made.before, directions=count
            )
        return predict(self.problem, bulk="isotropic" if self.model == "spiked" else "exact")

    def simulated(self, replicates: int, seed: int = 0) -> Simulation:
        """Our own simulation."""
        if self.is_layer:
            made = layer(self.of)
            return simulate_features(
                made.after,
                self.problem,
                made.teacher,
                replicates=replicates,
                seed=seed,
                test_samples=TESTS,
            )
        return simulate(self.problem, replicates=replicates, seed=seed, model=self.model)

    @property
    def model(self) -> str:
        return str(NETWORKS[self.of].get("model", "network"))

    def beside_theory(self, found: Any) -> Iterator[Seen]:
        """Numbers of our theory beside the simulation by other code."""
        for quantity, (_, mean, error) in self.known.items():
            yield Seen(quantity, float(getattr(found, quantity)), mean, error)

    def beside_simulation(self, found: Simulation) -> Iterator[Seen]:
        """Means of our simulation beside that by other code, with both errors."""
        for quantity, (_, mean, error) in self.known.items():
            own = getattr(found, quantity)
            both = float(np.hypot(own.standard_error, error))
            yield Seen(quantity, float(own.mean), mean, both)


@cache
def layer(name: str) -> FirstLayer:
    """The first layer that is meant."""
    own = LAYERS[name]
    made = Problem(**{field: own[field] for field in _MADE})
    return first_layer(made, own["dimension"], own["seed"], steps=own.get("steps", 1))


ROWS = tuple(
    Row(row["of"], row["asked"], {name: Known(*of) for name, of in row["published"].items()})
    for row in _TABLES["rows"]
)
