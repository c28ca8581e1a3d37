"""The output of the network before its step: y - f instead of y. It counts at finite d, where the
readout meets the random rows.
"""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from firststep import Problem, activation, predict
from firststep.theory.one_step.projection import coherent_energy, readout_share
from firststep.theory.one_step.system import State
from firststep.theory.student import slope_constants
from tests.theory.one_step.test_parts import prepared
from tests.theory.one_step.test_predict import solve


@pytest.mark.parametrize(
    ("size", "step", "readout"),
    [
        (1, 0.5, "signs"),
        pytest.param(1, 0.3, "1:0.5,2:0.5", marks=pytest.mark.slow),
        pytest.param(4, 0.5, "signs", marks=pytest.mark.slow),
        (4, 0.3, "1:0.5,2:0.5"),
    ],
)
def test_paired_simulations_with_and_without_it(size: float, step: float, readout: str) -> None:
    """Networks that step on y - f and on y, with the same random numbers: the difference of their
    risks is that of the theory. It helps small students and harms large ones.
    """
    d = 120
    problem = Problem(
        student=f"{size}*tanh(z)",
        teacher="sin",
        beta=1,
        alpha0=4,
        alpha=4,
        noise=0.1,
        readout=readout,
        step=step,
        ridge=0.01,
        dimension=d,
    )
    law, noise, ridge = problem.readout, problem.noise, problem.ridge
    rng = np.random.default_rng(7)
    n = 4 * d
    differences = []
    with threadpool_limits(1):
        for _ in range(200):
            theta = rng.standard_normal(d)
            theta /= np.linalg.norm(theta)
            start = rng.standard_normal((d, d)) / np.sqrt(d)
            values = rng.choice(np.array(law.values), d, p=np.array(law.weights))
            step_inputs, inputs, tests = (rng.standard_normal((rows, d)) for rows in (n, n, 2000))
            labels = np.sin(step_inputs @ theta) + noise * rng.standard_normal(n)
            wanted = np.sin(inputs @ theta) + noise * rng.standard_normal(n)
            inner = step_inputs @ start
            output, slope = size * np.tanh(inner) @ values / d, size * (1 - np.tanh(inner) ** 2)
            risks = []
            for residual in (labels, labels - output):
                weights = start + step * step_inputs.T @ (residual[:, None] * values * slope) / n
                features, seen = (
                    size * np.tanh(inputs @ weights) / np.sqrt(d),
                    size * np.tanh(tests @ weights) / np.sqrt(d),
                )
                fit = np.linalg.solve(
                    features.T @ features / n + ridge / d * np.eye(d), features.T @ wanted / n
                )
                risks.append(np.mean((seen @ fit - np.sin(tests @ theta)) ** 2))
            differences.append(risks[0] - risks[1])
    measured, error = np.mean(differences), np.std(differences) / np.sqrt(len(differences))
    expected = solve(problem, has_own_output=False).risk - solve(problem).risk
    assert abs(expected) > 10 * error
    assert expected == pytest.approx(measured, rel=0.2 if size > 1 else 0.12, abs=3 * error)


def test_noise_along_the_readout_by_brute_force() -> None:
    """In a drawn matrix: the inverse of D + rows rows^T, the rows without what they have along the
    readout, seen by sums over neurons of one value.
    """
    rng = np.random.default_rng(3)
    count, d = 800, 600
    values = np.array([0.5, np.sqrt(1.75)])  # of mean square 1
    diagonal, kind = np.array([0.3, 0.8]), np.repeat([0, 1], count // 2)
    units = np.stack([kind == p for p in (0, 1)]) / np.sqrt(count / 2)
    found, energy = np.zeros((2, 2)), np.zeros(2)
    draws = 6
    for _ in range(draws):
        rows = rng.standard_normal((count, d)) * np.sqrt(0.4 / d)
        plain = np.linalg.inv(np.diag(diagonal[kind]) + rows @ rows.T)
        energy += np.array([1 / np.diag(plain)[kind == p].mean() for p in (0, 1)]) / draws
        moved = rows - np.outer(values[kind], values[kind] @ rows) / count
        found += units @ np.linalg.solve(np.diag(diagonal[kind]) + moved @ moved.T, units.T) / draws

    class Parts:
        along_readout = values[None] * np.sqrt(0.5)

    state = State(None, diagonal[None], energy[None], None)
    noise = coherent_energy(Parts, state)  # type: ignore[arg-type]
    assert found == pytest.approx(np.linalg.inv(noise[0]), rel=0.05, abs=0.02 * np.abs(found).max())
    assert abs(found[1, 1] * energy[1] - 1) > 0.1  # it is not a small effect here


def test_it_vanishes_with_the_dimension_and_is_not_in_the_spiked_model() -> None:
    problem = Problem(
        student="tanh",
        teacher="sin",
        beta=1,
        alpha0=4,
        alpha=4,
        noise=0.1,
        readout="signs",
        step=1,
        ridge=0.01,
    )
    gaps = []
    for d in (200, 2000, 20_000):
        with_it, without = (
            solve(problem.replace(dimension=d), has_own_output=own).risk for own in (True, False)
        )
        gaps.append(abs(without / with_it - 1))
    assert gaps[0] > 3 * gaps[1] > 9 * gaps[2]
    spiked = problem.replace(dimension=200)
    assert solve(spiked, "isotropic").risk == solve(spiked, "isotropic", has_own_output=False).risk


@pytest.mark.parametrize("readout", ["signs", "gaussian"])
def test_derivative_of_the_coherent_part(readout: str) -> None:
    """d J/dE and d J/dD of J = s^T noise^-1 s, as the gradient of the error uses them."""
    problem = Problem(
        student="relu",
        teacher="sin",
        beta=1,
        alpha0=2,
        alpha=3,
        readout=readout,
        step=1,
        ridge=0.05,
        dimension=300,
    )
    system, solution = prepared(problem)
    bulk, mean, state = system.bulk, system.mean, solution.state
    source = np.random.default_rng(0).standard_normal(bulk.neurons.shape)

    def value(energy: np.ndarray, diagonal: np.ndarray) -> float:
        noise = coherent_energy(mean, state._replace(energy=energy, diagonal=diagonal))
        return float(source[0] @ np.linalg.solve(noise[0], source[0]))

    answer = np.linalg.solve(coherent_energy(mean, state)[0], source[0])
    t = readout_share(mean, state)[0]
    crossed = (answer @ t) * answer * t / (state.energy - state.diagonal)[0]
    for place in range(0, source.shape[1], 7):
        h = 1e-5 * state.energy[0, place]
        move = np.zeros_like(state.energy)
        move[0, place] = h
        by_energy = (
            value(state.energy + move, state.diagonal) - value(state.energy - move, state.diagonal)
        ) / (2 * h)
        by_diagonal = (
            value(state.energy, state.diagonal + move) - value(state.energy, state.diagonal - move)
        ) / (2 * h)
        expected = crossed[place] - answer[place] ** 2
        assert by_energy == pytest.approx(expected, rel=1e-5, abs=1e-7)
        assert by_diagonal == pytest.approx(-crossed[place], rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("student", ["3*(z*z - 1)", "hermite2", "abs"])
def test_an_even_student_has_no_spike_of_its_own(student: str) -> None:
    """E s' is zero but for rounding: the own output has no direction, whatever the rounding is."""
    assert slope_constants(activation(student)).c1 == 0
    problem = Problem(
        student=student,
        teacher="relu",
        alpha=2,
        beta=1,
        alpha0=2,
        step=0.5,
        ridge=0.1,
        dimension=200,
    )
    assert prepared(problem)[0].mean.own_shift == 0


def test_a_student_that_is_next_to_nothing() -> None:
    """What the rows add to the energy of a neuron is then below its rounding."""
    problem = Problem(student="1e-9*z", teacher="tanh", alpha=2, beta=1, ridge=0.05, dimension=200)
    assert predict(problem).risk == pytest.approx(problem.teacher.moments.second_moment, rel=1e-6)
