"""What stands out of a bulk: noise, low rank plus noise, layers of ours, heavy tails, JAX."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from firststep import Interrupted, Problem, inspect, spectral_law, training_path
from firststep.trained import inspection as module
from firststep.trained.look import Look, look_at
from tests.backends import needs_jax

PROBLEM = Problem(
    student="relu", teacher="tanh", alpha=2, beta=1.2, alpha0=4, step=1, ridge=0.1, noise=0.1
)


def look(matrix: Any) -> Look:
    found = look_at(matrix)
    assert found is not None
    return found


def spiked(
    generator: np.random.Generator, shape: tuple[int, int], sizes: list[float]
) -> tuple[Any, Any, Any]:
    """Noise of variance one plus a signal with these singular values, and its vectors."""
    left = np.linalg.qr(generator.standard_normal((shape[0], len(sizes))))[0]
    right = np.linalg.qr(generator.standard_normal((shape[1], len(sizes))))[0]
    return left * sizes @ right.T + generator.standard_normal(shape), left, right


def alarms(draw: Callable[[np.random.Generator], Any], count: int) -> tuple[int, list[str]]:
    generator = np.random.default_rng(0)
    found = [look(draw(generator)) for _ in range(count)]
    return sum(bool(each.count) for each in found), [each.kind for each in found]


def most(count: int, rate: float) -> int:
    """What a rate exceeds once in ten thousand."""
    return int(binom.ppf(0.9999, count, rate))


@pytest.mark.parametrize("shape", [(20, 20), (30, 60), (100, 25)])
@pytest.mark.parametrize("law", ["normal", "uniform"])
def test_noise_has_outliers_once_in_a_hundred(shape: tuple[int, int], law: str) -> None:
    def draw(generator: np.random.Generator) -> Any:
        if law == "normal":
            return generator.standard_normal(shape)
        return generator.uniform(-1, 1, shape)

    wrong, kinds = alarms(draw, 400)
    assert wrong <= most(400, 0.015)
    assert kinds.count("equal") >= 400 - most(400, 0.025)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(20, 20), (60, 40), (300, 60), (100, 100), (200, 200)])
def test_false_alarms_by_shape(shape: tuple[int, int]) -> None:
    count = 1500
    wrong, kinds = alarms(lambda generator: generator.standard_normal(shape), count)
    assert wrong <= most(count, 0.01)
    assert kinds.count("equal") >= count - most(count, 0.02)


def test_rows_and_columns_of_unequal_size() -> None:
    def draw(generator: np.random.Generator) -> Any:
        rows, columns = generator.uniform(0.2, 2, (90, 1)), generator.uniform(0.5, 1.5, 60)
        return generator.standard_normal((90, 60)) * rows * columns

    wrong, kinds = alarms(draw, 30)
    assert wrong <= most(30, 0.02)
    assert kinds.count("scaled") >= 26
    generator = np.random.default_rng(1)
    rows = generator.uniform(0.2, 2, (200, 1))
    noise, _, _ = spiked(generator, (200, 150), [])
    signal = np.outer(generator.standard_normal(200), generator.standard_normal(150)) / 3
    found = look(noise * rows + signal)
    assert (found.kind, found.count) == ("scaled", 1)
    assert "rows and columns are brought to one size" in found.reason
    u = signal[:, 0] / np.linalg.norm(signal[:, 0])
    assert (found.left[:, 0] @ u) ** 2 > 0.5


def test_a_bulk_with_an_edge_of_its_own() -> None:
    """Products of two matrices of noise are no noise, and nothing stands out of them."""

    def draw(generator: np.random.Generator) -> Any:
        return generator.standard_normal((100, 80)) @ generator.standard_normal((80, 80))

    wrong, kinds = alarms(draw, 25)
    assert wrong <= most(25, 0.02)
    assert kinds.count("edge") + kinds.count("gap") == 25
    generator = np.random.default_rng(2)
    product = draw(generator)
    added = 2 * np.linalg.norm(product, 2)
    signal = added * np.outer(np.full(100, 0.1), np.full(80, 80**-0.5))
    found = look(product + signal)
    assert found.count == 1
    # Sizes are worked out from the bulk that is there, without a law.
    assert abs(found.outliers[0].size - added) < 5 * found.outliers[0].size_error


@pytest.mark.parametrize("shape", [(200, 100), (80, 160)])
def test_low_rank_plus_noise(shape: tuple[int, int]) -> None:
    """Counts, sizes within their error bars, and overlaps with the true vectors."""
    generator = np.random.default_rng(3)
    scale = math.sqrt(math.sqrt(shape[0] * shape[1]))
    sizes = [6.0 * scale, 3.0 * scale, 1.8 * scale]
    scores, overlaps, others = [], [], 0
    for _ in range(25):
        matrix, left, right = spiked(generator, shape, sizes)
        found = look(matrix)
        if (found.kind, found.count) != ("equal", 3):
            others += 1
            continue
        for k, each in enumerate(found.outliers):
            scores.append((each.size - sizes[k]) / each.size_error)
            overlaps.append(
                (
                    float(found.left[:, k] @ left[:, k]) ** 2 - each.rows_overlap,
                    float(found.right[:, k] @ right[:, k]) ** 2 - each.columns_overlap,
                )
            )
        assert found.deviation == pytest.approx(1, rel=0.03)
    assert others <= most(25, 0.03)
    assert abs(np.mean(scores)) < 4 / math.sqrt(len(scores))
    assert 0.8 < np.std(scores) < 1.2
    assert np.abs(np.mean(overlaps, axis=0)).max() < 0.03


def test_a_signal_below_the_edge_is_not_seen() -> None:
    generator = np.random.default_rng(4)
    matrix, _, _ = spiked(generator, (150, 150), [0.5 * math.sqrt(150)])
    assert look(matrix).count == 0


def test_units_do_not_matter() -> None:
    matrix, _, _ = spiked(np.random.default_rng(5), (60, 40), [40.0])
    plain = look(matrix)
    for unit in (1e-160, 1e-30, 1e200):
        found = look(unit * matrix)
        assert (found.kind, found.count) == (plain.kind, plain.count)
        assert found.outliers[0].size / unit == pytest.approx(plain.outliers[0].size)
        assert found.edge / unit == pytest.approx(plain.edge)
    turned = look(matrix.T)
    assert turned.outliers[0].rows_overlap == pytest.approx(plain.outliers[0].columns_overlap)
    assert turned.outliers[0].size == pytest.approx(plain.outliers[0].size)


def test_zeros_are_left_out() -> None:
    matrix, _, _ = spiked(np.random.default_rng(6), (60, 40), [40.0])
    padded = np.zeros((65, 43))
    padded[5:, :40] = matrix
    found = look(padded)
    assert (found.zero_rows, found.zero_columns, found.count) == (5, 3, 1)
    assert found.left.shape[0] == 65
    assert not found.left[:5].any()
    assert found.outliers[0].size == pytest.approx(look(matrix).outliers[0].size)
    assert look_at(np.zeros((4, 4))) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("one entry", "made by one entry, row 18, column 6"),
        ("low rank", "of rank 5"),
        ("small", "too few"),
        ("power law", "no edge to stand out of"),
    ],
)
def test_what_is_not_of_this_kind_says_so(name: str, words: str) -> None:
    generator = np.random.default_rng(7)
    axes = np.linalg.qr(generator.standard_normal((200, 200)))[0]
    matrix = {
        "one entry": lambda: _one_large_entry(generator),
        "low rank": lambda: (
            generator.standard_normal((200, 5)) @ generator.standard_normal((5, 150))
        ),
        "small": lambda: np.diag([3.0, 2.0, 1.0]),
        "power law": lambda: (
            generator.standard_normal((300, 200)) * np.arange(1, 201.0) ** -1 @ axes
        ),
    }[name]()
    found = look(matrix)
    assert (found.kind, found.count, found.outliers) == ("none", None, ())
    assert words in found.reason
    told = str(inspect(matrix))
    assert "not of this kind" in told
    assert "effective rank" in told


def _one_large_entry(generator: np.random.Generator) -> Any:
    matrix = generator.standard_normal((200, 150))
    matrix[17, 5] = 60.0
    return matrix


def test_a_row_of_large_weights_is_no_single_entry() -> None:
    generator = np.random.default_rng(12)
    matrix = generator.standard_normal((100, 80))
    matrix[3, :6] += 12.0
    found = look(matrix)
    assert found.count == 1
    assert found.left[3, 0] ** 2 > 0.8


def test_quantised_noise_is_noise_and_an_orthogonal_matrix_is_not() -> None:
    generator = np.random.default_rng(8)
    assert look(np.round(2 * generator.standard_normal((100, 70)))).kind == "equal"
    found = look(np.linalg.qr(generator.standard_normal((80, 80)))[0])
    assert (found.kind, found.count) == ("gap", 0)
    assert "orthogonal" in found.reason


@pytest.mark.parametrize("options", [{}, {"optimizer": "adam"}], ids=["gradient", "adam"])
def test_layers_of_ours_along_training(options: dict[str, Any]) -> None:
    """One direction after the first step, found in the change at once; with plain steps a relu
    finds a second one, below the noise of W but not of the change.
    """
    problem = PROBLEM if not options else PROBLEM.replace(step=0.05)
    counts = []
    for number, layer in enumerate(training_path(problem, 200, steps=10, **options)):
        if number not in (0, 1, 3, 10):
            continue
        found = inspect({"W": layer.after}, {"W": layer.before})["W"]
        weights, change = found.weights, found.change
        assert weights is not None
        assert weights.is_noise
        if not number:
            assert (weights.count, change) == (0, None)
            assert found.note == "did not change"
            continue
        assert change is not None
        assert change.kind in ("edge", "gap")
        counts.append((weights.count, change.count))
        assert found.with_change is not None
        assert found.with_initial is not None
        if weights.count:
            assert found.with_initial.rows[0, 0] < 0.15
            assert found.with_change.rows[0, 0] > 0.5
            assert found.with_change.columns[0, 0] > 0.5
        # The direction of the change is the teacher's.
        assert (change.left[:, 0] @ layer.teacher) ** 2 > 0.3
    expected = [(0, 1), (1, 1), (1, 1)] if options else [(1, 1), (1, 2), (1, 2)]
    assert counts == expected


def test_the_spike_of_one_step_is_that_of_the_theory() -> None:
    """Number and value of the outlier against the predicted spectrum, and the bulk's edge."""
    problem = PROBLEM.replace(student="tanh", teacher="sin", readout="ones", step=2, dimension=300)
    law = spectral_law(problem)
    values, edges = [], []
    for replicate in range(6):
        *_, layer = training_path(problem, replicate=replicate, steps=1)
        found = inspect(layer.after).layers[0].weights
        assert found is not None
        assert found.count == len(law.outliers) == 1
        values.append(found.values[0])
        edges.append(found.edge)
    error = np.std(values, ddof=1) / math.sqrt(len(values))
    assert abs(np.mean(values) - law.outliers[0]) < 5 * error
    assert np.mean(edges) == pytest.approx(law.edges[1], rel=0.03)


@needs_jax
def test_a_network_trained_by_jax() -> None:
    """Two layers learn the product of two directions: both are in the first layer, and are the
    plane of the teacher.
    """
    import jax
    import jax.numpy as jnp

    generator = np.random.default_rng(9)
    d, width, samples = 80, 128, 2000
    x = generator.standard_normal((samples, d)).astype(np.float32)
    y = x[:, 0] * x[:, 1]
    start = {
        "fc1.weight": generator.uniform(-1, 1, (width, d)).astype(np.float32) / math.sqrt(d),
        "fc2.weight": generator.uniform(-1, 1, (1, width)).astype(np.float32) / math.sqrt(width),
    }

    def loss(weights: Any) -> Any:
        hidden = jax.nn.relu(x @ weights["fc1.weight"].T)
        return jnp.mean((hidden @ weights["fc2.weight"][0] - y) ** 2)

    @jax.jit
    def trained(weights: Any) -> Any:
        step = lambda _, w: jax.tree.map(lambda p, g: p - 0.1 * g, w, jax.grad(loss)(w))  # noqa: E731
        return jax.lax.fori_loop(0, 300, step, weights)

    after = trained(start)
    found = inspect(after, start)
    first = found["fc1.weight"]
    assert first.weights is not None
    assert first.change is not None
    assert first.change.count is not None
    assert first.change.count >= 2
    assert first.change.share > 0.4
    plane = first.change.right[:2, :2]  # the teacher's two inputs
    assert np.linalg.norm(plane) ** 2 > 1.5
    second = found["fc2.weight"].change
    assert second is not None
    assert second.kind == "none"


def test_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def look_once(matrix: Any) -> Look | None:
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return look_at(matrix)

    monkeypatch.setattr(module, "look_at", look_once)
    arrays = {name: np.random.default_rng(0).standard_normal((20, 20)) for name in "ab"}
    with pytest.raises(Interrupted, match="1 of 2 matrices") as caught:
        inspect(arrays)
    assert "interrupted" in str(caught.value.result)


def test_what_is_shown_and_written(tmp_path: Path) -> None:
    matrix, _, _ = spiked(np.random.default_rng(10), (60, 40), [40.0])
    ticks: list[tuple[int, int]] = []
    found = inspect(
        {"a": matrix, "b": matrix, "bias": np.ones(3)},
        {"a": np.zeros((60, 40))},
        progress=lambda done, total: ticks.append((done, total)),
    )
    assert ticks == [(1, 2), (2, 2)]
    told = str(found)
    assert "2 matrices" in told
    assert "before noise" in told
    assert "b: not there before training" in told
    assert "skipped, no matrix: bias" in told
    assert "<table>" in found._repr_html_()
    table = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert table["layers"][0]["weights"]["count"] == 1
    assert table["layers"][0]["change"]["outliers"][0]["size_error"] > 0
    lines = found.to_csv(tmp_path / "table.csv").read_text().splitlines()
    assert len(lines) == 4
    assert len(found) == 2
