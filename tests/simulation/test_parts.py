"""Random streams, singular values, conditional features, workers."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kstest

from firststep import InvalidParameter, Problem, WorkerFailed, activation, readout_law
from firststep.simulation.backends import available_memory, block_rows, make_backend
from firststep.simulation.design import Training, make_design
from firststep.simulation.fit.features import chebyshev_basis, conditional_table
from firststep.simulation.models.observables import LeadingSingularValues
from firststep.simulation.randomness import CHUNK, PURPOSES, HostDraws
from firststep.simulation.running.workers import Workers
from firststep.simulation.weights.draw import draw_readout
from tests.backends import BACKENDS
from tests.jobs import misbehave, square
from tests.memory import bytes_used, needs_proc
from tests.processes import alive, eventually, started


@pytest.mark.parametrize("backend_name", BACKENDS)
def test_rows_do_not_depend_on_where_they_are_read(backend_name: str) -> None:
    backend = make_backend(backend_name)
    with backend.scope():
        draws = backend.draws(backend.key(3, 1))
        whole = np.asarray(draws.rows("ridge inputs", 0, 5 * CHUNK + 17, 6))
        assert np.array_equal(
            whole[2 * CHUNK : 4 * CHUNK],
            np.asarray(draws.rows("ridge inputs", 2 * CHUNK, 2 * CHUNK, 6)),
        )
        assert np.array_equal(
            whole[5 * CHUNK :], np.asarray(draws.rows("ridge inputs", 5 * CHUNK, 17, 6))
        )


@pytest.mark.parametrize("backend_name", BACKENDS)
def test_streams_are_gaussian_and_distinct(backend_name: str) -> None:
    backend = make_backend(backend_name)
    with backend.scope():
        streams = [
            np.asarray(
                backend.draws(backend.key(seed, number)).rows(purpose, 0, 300, 30, index)
            ).ravel()
            for seed in (0, 1, 2**40)
            for number in (0, 1)
            for purpose in PURPOSES
            for index in (0, 1)
        ]
    everything = np.concatenate(streams)
    assert kstest(everything, "norm").pvalue > 1e-3
    assert len({stream[0] for stream in streams}) == len(streams)
    correlations = np.corrcoef(np.stack(streams)) - np.eye(len(streams))
    assert np.abs(correlations).max() < 6 / math.sqrt(streams[0].size)


def test_readout_laws_are_drawn_with_their_weights() -> None:
    backend = make_backend()
    for text in ("ones", "signs", "-1:0.25,0.5:0.5,2:0.25", "gaussian"):
        law = readout_law(text)
        values = draw_readout(backend, HostDraws(0, 0), law, 40_000)
        assert values.mean() == pytest.approx(law.mean, abs=0.03)
        assert (values**2).mean() == pytest.approx(law.second_moment, abs=0.04)
        if law.values:
            assert set(values) == set(law.values)


@pytest.mark.parametrize("shape", [(60, 60), (80, 30), (30, 80), (1, 9), (9, 1), (2, 2)])
@pytest.mark.parametrize("spike", [0.0, 3.0])
@pytest.mark.parametrize("backend_name", BACKENDS)
def test_singular_values(shape: tuple[int, int], spike: float, backend_name: str) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal(shape) / math.sqrt(shape[0])
    matrix += spike * np.outer(*(rng.standard_normal(size) / math.sqrt(size) for size in shape))
    backend = make_backend(backend_name)
    with backend.scope():
        on_device, start = (
            backend.to_device(matrix),
            backend.to_device(rng.standard_normal(shape[1])),
        )
        found = LeadingSingularValues(backend)(on_device, start, 2)
    left, values, _ = np.linalg.svd(matrix)
    assert found.values == pytest.approx(values[: len(found.values)], rel=5e-3)
    if spike:
        assert abs(np.asarray(found.left) @ left[:, 0]) == pytest.approx(1, abs=1e-3)


def test_singular_values_of_special_matrices() -> None:
    backend = make_backend()

    def of(matrix):  # type: ignore[no-untyped-def]
        start = np.ones(matrix.shape[1]) + np.arange(matrix.shape[1])
        return LeadingSingularValues(backend)(matrix, start, 2).values

    assert of(np.zeros((4, 5))).tolist() == [0, 0]
    assert of(np.outer([1.0, 2.0, 2.0], [3.0, 4.0])) == pytest.approx([15, 0], abs=1e-9)
    rng = np.random.default_rng(5)
    base, column, row = (
        rng.standard_normal((30, 20)),
        rng.standard_normal(30),
        rng.standard_normal(20),
    )
    found = LeadingSingularValues(backend)(base, np.ones(20), 1, minus=(column, row))
    assert found.values[0] == pytest.approx(
        np.linalg.norm(base - np.outer(column, row), 2), rel=2e-3
    )
    large = np.random.default_rng(0).standard_normal((400, 400)) / 20
    assert of(large) == pytest.approx(np.linalg.svd(large, compute_uv=False)[:2], rel=4e-3)


@pytest.mark.parametrize("name", ["tanh", "relu", "tanh(1.3*z) + 0.4*(z**2-1)"])
def test_conditional_table_reproduces_the_moments(name: str) -> None:
    """mu0, mu1, mu2 at arbitrary kappa against sampling of s(<w, x>) given kappa = <x, vh>."""
    rng = np.random.default_rng(0)
    student = activation(name)
    weights = rng.standard_normal((6, 4)) * 0.6
    direction = rng.standard_normal(6)
    direction /= np.linalg.norm(direction)
    mean, slope, variance, rest = conditional_table(student, weights, direction)
    assert np.abs(direction @ rest).max() < 1e-14
    for kappa in (-1.7, 0.0, 0.9, 3.1):
        basis = chebyshev_basis(np.array([kappa]), mean.shape[0], np)
        x = rng.standard_normal((300_000, 6))
        x += np.outer(kappa - x @ direction, direction)
        sample = student(x @ weights)
        along = x @ rest
        norms = (rest**2).sum(axis=0)
        estimated_slope = (sample * along).mean(axis=0) / norms
        assert (basis @ mean)[0] == pytest.approx(sample.mean(axis=0), abs=0.03)
        assert (basis @ slope)[0] == pytest.approx(estimated_slope, abs=0.03)
        residual = sample - sample.mean(axis=0) - estimated_slope * along
        assert (basis @ variance)[0] == pytest.approx(
            (residual**2).mean(axis=0), abs=0.05, rel=0.05
        )


# Workers ------------------------------------------------------------------------------------------


def test_workers_answer_in_any_order() -> None:
    with Workers(2) as workers:
        for _ in range(2):
            assert dict(workers.run(square, range(20))) == {n: n * n for n in range(20)}


def test_a_killed_worker_is_reported_and_replaced() -> None:
    with Workers(1) as workers:
        with pytest.raises(WorkerFailed, match=r"signal 9 \(SIGKILL\).*out of memory"):
            list(workers.run(misbehave, [1, 2, 3, 4]))
        with pytest.raises(InvalidParameter, match="number must be anything but 5"):
            list(workers.run(misbehave, [1, 5]))
        assert dict(workers.run(square, [2])) == {2: 4}


def test_scripts_need_no_main_guard_and_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from firststep import Problem, Workers, simulate\n"
        "print('once')\n"
        "p = Problem(student='tanh', teacher='tanh', alpha=2, beta=1)\n"
        "workers = Workers(2)\n"
        "print(simulate(p, 30, 4, workers=workers, test_samples=100).replicates)\n"
        "def tell(done, total):\n"
        "    print(*[each.pid for each in workers._processes], flush=True)\n"
        "simulate(p, 200, 10**6, workers=workers, progress=tell)\n"
    )
    with started([sys.executable, str(script)]) as parent:
        assert parent.stdout is not None
        lines = [parent.stdout.readline().split() for _ in range(3)]
        assert lines[:2] == [["once"], ["4"]]
        pids = [int(word) for word in lines[2]]
        assert len(pids) == 2
        parent.kill()
        assert eventually(lambda: not any(alive(pid) for pid in pids))


def test_available_memory_is_plausible() -> None:
    free = available_memory()
    assert free is None or 10**7 < free < 10**14


MEASURED = dict(student="tanh", teacher="sin", alpha=2.0, alpha0=2.0, beta=1.0, ridge=0.0)
MEASURED_DIMENSION = 700
MODELS = ("network", "conditional", "distance-kernel", "ntk")


@pytest.fixture(scope="module")
def used() -> dict[str, int]:
    cases = [{"model": model} for model in MODELS]
    return dict(zip(MODELS, bytes_used(MEASURED, MEASURED_DIMENSION, cases), strict=True))


@needs_proc
@pytest.mark.parametrize("model", MODELS)
def test_memory_is_estimated_from_above(model: str, used: dict[str, int]) -> None:
    """The peak of a real process against the number used to refuse what does not fit."""
    problem, d = Problem(**MEASURED), MEASURED_DIMENSION
    sizes = problem.sizes(d)
    block = block_rows(sizes.width, d, make_backend())
    design = make_design(problem, model, Training(), sizes, 4 * d, block, None)
    assert 0.9 * used[model] < design.memory(8) < 3 * used[model]
