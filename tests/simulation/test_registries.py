"""A law, a model, an optimiser or a loss is one class, registered once: here toy ones are added."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firststep import InvalidParameter, Problem, input_law, simulate
from firststep.inputs import LAWS, InputLaw
from firststep.simulation.design import Training, make_design
from firststep.simulation.fit.readout import FITS, Fitted, ReadoutFit
from firststep.simulation.kinds import MODELS, OPTIMIZERS, Measured, Model, Optimizer
from firststep.simulation.models import prepared
from firststep.simulation.models.network import Network
from tests.backends import BACKENDS

D, TESTS = 20, 200
DOCS = Path(__file__).parents[2] / "docs"


class Squashed(InputLaw):
    """Entries tanh(A g), scaled to variance one."""

    kind, meaning = "squashed", "entries proportional to tanh(A g), i.i.d."
    letter, parameter_meaning = "A", "the steepness"

    def shared_arrays(self, dimension: int) -> tuple[np.ndarray, ...]:
        z = np.linspace(-9, 9, 20001)
        density = np.exp(-z * z / 2) / np.exp(-z * z / 2).sum()
        return (np.array([1 / np.sqrt(np.tanh(self.parameter * z) ** 2 @ density)]),)

    def rows(self, block: Any) -> Any:
        return block.xp.tanh(self.parameter * block.entries()) * block.arrays[0]


class Doubled(Network):
    """The trained network with weights twice as large."""

    name, meaning = "doubled", "the trained network, its weights doubled"

    def make(self, problem: Any, replicate: Any, start: Any) -> Any:
        made = super().make(problem, replicate, start)
        return made._replace(layer=made.layer._replace(weights=2 * made.layer.weights))


class Mean(Model):
    """Predicts zero."""

    name, meaning, is_baseline = "zero", "predicts zero", True

    def replicate(self, problem: Problem, seed: int, number: int) -> Measured:
        rows = self.backend.draws(self.backend.key(seed, number)).vector("test inputs", 100)
        count = len(problem.ridges)
        return {
            "risk": np.full(count, np.mean(problem.teacher(rows) ** 2)),
            "risk_test_error": np.zeros(count),
            "training_error": np.zeros(count),
            "learned_function": np.zeros((count, 24)),
        }

    @classmethod
    def memory(cls, design: Any, itemsize: int) -> int:
        return itemsize


class Sign(Optimizer):
    """W + (eta/sqrt(N d)) sign G."""

    name, meaning, starts_as_gradient = "signs", "W + (eta/sqrt(N d)) sign G", False

    def change(self, gradient: Any) -> Any:
        scale = np.sqrt(self.sizes.width * self.sizes.dimension)
        return (self.learning_rate / scale) * self.xp.sign(gradient)


class Shrunk(ReadoutFit):
    """Ten times the ridge, by plain linear algebra on collected features."""

    name, meaning = "shrunk", "(1/n)|y - F b|^2 + 10 ridge |b|^2"

    def __call__(self, replicate: Any, layer: Any, ridges: tuple[float, ...]) -> Fitted:
        features, targets = self.rows.collect(replicate, layer)
        n, width = features.shape
        gram, right = features.T @ features / n, features.T @ targets / n
        solutions = [np.linalg.solve(gram + 10 * ridge * np.eye(width), right) for ridge in ridges]
        solution = np.stack(solutions, axis=1)
        return Fitted(solution, ((targets[:, None] - features @ solution) ** 2).mean(axis=0))


@pytest.fixture(autouse=True)
def added() -> Iterator[None]:
    entries = [(LAWS, Squashed), (MODELS, Doubled), (MODELS, Mean), (OPTIMIZERS, Sign)]
    for registry, entry in (*entries, (FITS, Shrunk)):
        registry.add(entry)
    yield
    for registry, entry in (*entries, (FITS, Shrunk)):
        registry.remove(entry.kind if registry is LAWS else entry.name)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_law_that_is_added_is_simulated_and_told_of(backend: str, generic: Problem) -> None:
    found = simulate(generic, D, 2, inputs="squashed:3", test_samples=TESTS, backend=backend)
    assert found.options["inputs"] == "squashed:3"
    assert np.isfinite(found.risk.mean)
    plain = simulate(generic, D, 2, test_samples=TESTS, backend=backend)
    assert found.risk.mean != plain.risk.mean
    assert input_law("squashed:3") == Squashed(3.0)
    with pytest.raises(InvalidParameter, match="squashed:A, the steepness, > 0 and <= 1e"):
        input_law("squashed:0")
    with pytest.raises(InvalidParameter, match=r"spectrum:FILE, squashed:A, a file .*did you mean"):
        input_law("squashd:3")


def test_a_model_that_is_added_is_simulated_and_told_of(generic: Problem) -> None:
    found = simulate(generic, D, 2, model="doubled", test_samples=TESTS, steps=2)
    plain = simulate(generic, D, 2, test_samples=TESTS, steps=2)
    assert found.model == "doubled"
    assert np.array_equal(found.alignment.values, plain.alignment.values)
    assert not np.allclose(found.risk.values, plain.risk.values)
    zero = simulate(generic, D, 2, model="zero")
    assert zero.risk.mean == pytest.approx(generic.teacher.moments.second_moment, rel=0.5)
    assert [*MODELS.where("is_baseline")][-1] == "zero"
    assert MODELS.where("meaning")["doubled"] == Doubled.meaning
    with pytest.raises(InvalidParameter, match=r"model must be one of network, .*linear, doubled"):
        simulate(generic, D, 1, model="doublet")


def test_an_optimiser_that_is_added_trains(generic: Problem) -> None:
    """The first step of adam is the sign of the gradient, up to its floor."""
    found, adam = (
        simulate(generic, D, 2, optimizer=name, test_samples=TESTS) for name in ("signs", "adam")
    )
    assert found.risk.values == pytest.approx(adam.risk.values, rel=1e-4)
    assert found.options["optimizer"] == "signs"
    with pytest.raises(InvalidParameter, match=r"one of gradient, .*, muon, signs; got sigm"):
        simulate(generic, D, 1, optimizer="sigm")


@pytest.mark.parametrize("alpha", [2.5, 0.6])
def test_a_loss_that_is_added_is_fitted(alpha: float, generic: Problem) -> None:
    from dataclasses import replace

    from firststep.simulation.backends import make_backend

    problem, backend = generic.replace(alpha=alpha), make_backend()
    design = make_design(
        problem,
        model="network",
        training=Training(),
        sizes=problem.sizes(D),
        test_samples=TESTS,
        block=128,
    )
    with backend.scope():
        other = prepared(replace(design, fit="shrunk"), backend).replicate(problem, 1, 0)
        larger = problem.replace(ridge=10 * problem.ridge)
        plain = prepared(design, backend).replicate(larger, 1, 0)
    assert other["risk"] == pytest.approx(plain["risk"], rel=1e-6)
    assert other["training_error"] == pytest.approx(plain["training_error"], rel=1e-6)


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ValueError, match="already a model called zero"):
        MODELS.add(Mean)


def test_documents_have_a_row_for_every_entry() -> None:
    inputs, simulation = ((DOCS / f"{name}.md").read_text() for name in ("inputs", "simulation"))
    toys = (Squashed, Doubled, Mean, Sign, Shrunk)
    for law in LAWS.values():
        assert law in toys or f"| `{law.form()}` |" in inputs, law
    for entry in (*MODELS.values(), *OPTIMIZERS.values(), *FITS.values()):
        assert entry in toys or f"| `{entry.name}` |" in simulation, entry
