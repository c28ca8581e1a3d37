"""Levels of a spectrum, their averages and moments; traces of words against drawn matrices."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import firststep.theory.medium as medium_module
from firststep import Problem, predict
from firststep.inputs import SpectrumInputs
from firststep.structure import Structure, structure_of
from firststep.theory.medium import ISOTROPIC, Medium, Words, non_crossing
from firststep.theory.one_step.question import medium_of

# Every word of ``norms`` and of the squared covariance of ``model_error``: letters, then powers.
WORDS = [
    ((1,), (2,)),
    ((2,), (2,)),
    ((1, 1), (0, 0)),
    ((1, 1), (0, 1)),
    ((1, 1), (1, 1)),
    ((1, 1), (0, 2)),
    ((1, 1, 1), (0, 1, 1)),
    ((1, 1, 1), (0, 0, 1)),
    ((1, 1, 1, 1), (0, 1, 0, 1)),
    ((1, 2), (0, 0)),
    ((1, 2), (0, 1)),
    ((1, 2), (1, 1)),
    ((1, 2, 1), (0, 0, 1)),
    ((1, 1, 2), (0, 1, 1)),
    ((2, 2), (0, 0)),
    ((2, 2), (1, 1)),
]


def structured(inputs: str, overlaps: str = "equal", dimension: float = 600) -> Structure:
    problem = Problem(
        student="tanh",
        teacher="sin",
        alpha=1,
        beta=1,
        inputs=inputs,
        teacher_overlaps=overlaps,
        dimension=dimension,
    )
    found = structure_of(problem)
    assert found is not None
    return found


@pytest.fixture(scope="module", params=["two-level:5:0.2", "power-law:0.2"])
def drawn(request: pytest.FixtureRequest) -> tuple[Words, np.ndarray]:
    """Words, and their traces in six drawn matrices: (draws, words)."""
    d, n0, draws = 600, 780, 6
    rng = np.random.default_rng(0)
    structure = structured(request.param, dimension=d)
    y = np.tanh(rng.standard_normal(n0)) + 0.3 * rng.exponential(size=n0) + 0.2
    root = np.sqrt(structure.eigenvalues)
    found = np.empty((draws, len(WORDS)))
    for draw in range(draws):
        # Complex inputs: their traces have no terms of order 1/d.
        x = rng.standard_normal((n0, 2 * d)).view(complex) * (root / np.sqrt(2))
        letters = {j: (x.conj().T * y**j) @ x / n0 for j in (1, 2)}
        for place, (word, powers) in enumerate(WORDS):
            first, *others = [
                letters[letter] * structure.eigenvalues**power
                for letter, power in zip(word, powers, strict=True)
            ]
            for other in others[:-1]:
                first = first @ other
            last = others[-1].T if others else np.eye(d)
            found[draw, place] = np.sum(first * last).real / d
    words = Words(Medium.of(structure), lambda j: np.array([[np.mean(y**j)]]), np.array([[1.3]]))
    return words, found


@pytest.mark.parametrize("place", range(len(WORDS)), ids=str)
def test_words_have_the_traces_of_drawn_matrices(
    drawn: tuple[Words, np.ndarray], place: int
) -> None:
    words, found = drawn
    each = found[:, place]
    expected = float(words.trace(*WORDS[place])[0, 0])
    error = each.std(ddof=1) / np.sqrt(each.size)
    assert error < 0.015 * abs(expected)
    assert abs(each.mean() - expected) < 4 * error + 0.004 * abs(expected)


def test_words_turn_round() -> None:
    """A trace does not change when its word is turned; reversing it gives the transpose."""
    structure = structured("power-law:0.4", "top:0.3", 300)
    moments = {1: 0.3, 2: 1.1, 3: 0.5, 4: 2.2, 5: 1.4, 6: 7.0}
    words = Words(Medium.of(structure), lambda j: np.array([[moments[j]]]), np.array([[0.7]]))
    letters, powers = (1, 2, 1), (1, 0, 2)
    plain = float(words.trace(letters, powers)[0, 0])
    for turn in (1, 2):
        turned = [(*each[turn:], *each[:turn]) for each in (letters, powers)]
        assert float(words.trace(*turned)[0, 0]) == pytest.approx(plain, rel=1e-13)
    backwards = words.trace(letters[::-1], (powers[1], powers[0], powers[2]))
    assert float(backwards[0, 0]) == pytest.approx(plain, rel=1e-13)
    apart = words.trace((1, 2, 1), (1, 1, 1))
    assert abs(float(apart[0, 0]) / plain - 1) > 1e-3


@pytest.mark.parametrize("count", range(1, 7))
def test_non_crossing_partitions_are_counted_by_catalan_numbers(count: int) -> None:
    found = non_crossing(count)
    assert len(found) == math.comb(2 * count, count) // (count + 1)
    assert len({frozenset(map(frozenset, blocks)) for blocks, _ in found}) == len(found)
    for blocks, gaps in found:
        for parts in (blocks, gaps):
            assert sorted(itertools.chain(*parts)) == list(range(count))
        assert len(blocks) + len(gaps) == count + 1
    sizes = sorted(len(blocks) for blocks, _ in found)  # Narayana numbers, which read both ways
    for k in range(1, count + 1):
        assert sizes.count(k) == math.comb(count, k) * math.comb(count, k - 1) // count


def test_complements_by_hand() -> None:
    """Gap i lies after point i. The complement of the complement is the partition, turned."""
    by_blocks = {frozenset(map(frozenset, b)): frozenset(map(frozenset, g)) for b, g in _of(4)}

    def parts(*blocks: tuple[int, ...]) -> frozenset[frozenset[int]]:
        return frozenset(map(frozenset, blocks))

    assert by_blocks[parts((0, 1, 2, 3))] == parts((0,), (1,), (2,), (3,))
    assert by_blocks[parts((0,), (1,), (2,), (3,))] == parts((0, 1, 2, 3))
    assert by_blocks[parts((0, 2), (1,), (3,))] == parts((0, 1), (2, 3))
    assert by_blocks[parts((0, 1), (2, 3))] == parts((0,), (2,), (1, 3))
    for blocks, gaps in by_blocks.items():
        again = by_blocks[gaps]
        assert frozenset(frozenset((i + 1) % 4 for i in block) for block in again) == blocks


def _of(count: int) -> tuple[tuple[medium_module.Partition, medium_module.Partition], ...]:
    return non_crossing(count)


# Levels -------------------------------------------------------------------------------------------


def gaps(structure: Structure, levels: Medium) -> tuple[float, float]:
    """The largest relative errors of averages of smooth functions: over all, and the teacher's."""
    value, mass, share = map(np.array, levels[:3])
    all_of = structure.eigenvalues
    worst = np.zeros(2)
    for k, j, x in itertools.product((0, 1, 2), (1, 2), (0.1, 1.0, 10.0, 100.0)):
        few, many = (v**k / (1 + x * v) ** j for v in (value, all_of))
        pairs = [(mass @ few, structure.masses @ many), (share @ few, structure.shares @ many)]
        worst = np.maximum(worst, [abs(a / b - 1) for a, b in pairs])
    return float(worst[0]), float(worst[1])


@pytest.mark.parametrize(
    ("inputs", "overlaps", "dimension", "limit"),
    [
        ("power-law:0.3", "equal", 2000, 1e-12),
        ("power-law:0.3", "decay:1.5", 2000, 1e-11),
        ("power-law:0.3", "rise:2", 2000, 1e-8),
        ("power-law:0.6", "equal", 2000, 1e-11),
        ("power-law:1", "equal", 200, 1e-10),
        ("power-law:1", "decay:1.5", 2000, 1e-10),
        # A teacher that ends within a panel: as many of its moments are kept as there are nodes.
        ("power-law:0.3", "top:0.1", 2000, 1e-6),
        ("power-law:0.3", "bottom:0.5", 2000, 1e-6),
        ("power-law:0.6", "bottom:0.5", 2000, 1e-6),
    ],
)
def test_few_levels_have_the_averages_of_all_eigenvalues(
    inputs: str, overlaps: str, dimension: int, limit: float
) -> None:
    structure = structured(inputs, overlaps, dimension)
    levels = Medium.of(structure)
    assert 20 < len(levels.levels) < 70 < dimension
    over_all, teacher = gaps(structure, levels)
    assert over_all < 1e-10
    assert teacher < limit


def test_moments_are_those_of_all_eigenvalues() -> None:
    for inputs, overlaps in (("power-law:1.2", "bottom:0.5"), ("power-law:0.3", "top:0.1")):
        structure = structured(inputs, overlaps, 1500)
        levels = Medium.of(structure)
        assert len(levels.levels) < 1500
        for k in range(8):
            powers = structure.eigenvalues**k
            assert levels.o[k] == pytest.approx(np.mean(powers), rel=1e-12)
            assert levels.t[k] == pytest.approx(structure.shares @ powers, rel=1e-12)
        # and the panels keep them: 23 of the masses, 11 of the teacher's shares
        value, mass, share = map(np.array, levels[:3])
        for k in range(8):
            assert mass @ value**k == pytest.approx(levels.o[k], rel=1e-12)
            assert share @ value**k == pytest.approx(levels.t[k], rel=1e-12)


def test_equal_eigenvalues_are_one_level() -> None:
    found = Medium.of(structured("two-level:5:0.2", "top:0.3", 1000))
    assert found.levels == pytest.approx([5 / 1.8, 1 / 1.8], rel=1e-14)
    assert found.masses == pytest.approx([0.2, 0.8], rel=1e-12)
    assert found.shares == pytest.approx([10 / 11, 1 / 11], rel=1e-12)  # 200 x 5 and 100 x 1
    one = Medium.of(structured("two-level:1:0.5", "top:0.3", 1000))
    for name, value in zip(Medium._fields, one, strict=True):
        assert value == pytest.approx(getattr(ISOTROPIC, name), rel=1e-12)


@pytest.mark.parametrize("dimension", [2, 3, 17, 24, 25, 40])
def test_small_dimensions(dimension: int) -> None:
    """As many levels as eigenvalues, or, just above, hardly fewer."""
    structure = structured("power-law:0.7", "rise:1", dimension)
    found = Medium.of(structure)
    if dimension <= 24:
        assert found.levels == pytest.approx(structure.eigenvalues, rel=1e-14)
        assert found.masses == pytest.approx(structure.masses, rel=1e-12)
        assert found.shares == pytest.approx(structure.shares, rel=1e-12)
    assert gaps(structure, found) < (1e-11, 1e-8)
    assert sum(found.masses) == pytest.approx(1, rel=1e-12)
    assert min(found.levels) > 0


def test_clusters_of_eigenvalues_are_as_many_levels_as_clusters() -> None:
    """Lanczos' method ends where the eigenvalues of a panel hardly differ but in a few places."""
    near = 1e-11 * np.arange(20.0)
    values = np.concatenate([2 + near, 1.5 + near, 1.4 + near])
    values = np.sort(values / values.mean())[::-1]
    shares = np.linspace(1, 2, 60) / 90
    structure = Structure(values, np.full(60, 1 / 60), shares)
    found = Medium.of(structure)
    assert len(found.levels) == 3
    assert found.masses == pytest.approx([1 / 3] * 3, rel=1e-9)
    assert gaps(structure, found) < (1e-9, 1e-9)


def test_zero_eigenvalues_keep_their_mass() -> None:
    """They are a level of their own, not quite zero: two blocks divide by it. The others are fewer
    than they are.
    """
    values = np.concatenate([np.linspace(4, 1, 30), np.zeros(20)])
    values /= values.mean()
    shares = np.where(values > 0, 1 / 30, 0.0)
    found = Medium.of(Structure(values, np.full(50, 1 / 50), shares))
    assert len(found.levels) == 14
    assert 0 < found.levels[-1] < 1e-10
    assert found.masses[-1] == pytest.approx(0.4, rel=1e-12)
    assert found.shares[-1] == 0
    assert found.o[2] == pytest.approx(np.mean(values**2), rel=1e-14)


def test_the_limit_is_that_of_many_dimensions() -> None:
    problem = Problem(
        student="tanh",
        teacher="sin",
        alpha=1,
        beta=1,
        inputs="two-level:3:0.37",
        dimension=math.inf,
    )
    for overlaps in ("equal", "top:0.2", "bottom:0.7", "decay:0.6", "rise:1.3"):
        asked = problem.replace(teacher_overlaps=overlaps)
        limit, near = medium_of(asked), medium_of(asked.replace(dimension=1_000_000))
        assert limit.levels == pytest.approx(near.levels, rel=1e-5)
        # Sums of j^-B begin at 1: of order d^(B - 1) apart.
        apart = 1e-2 if overlaps == "decay:0.6" else 1e-4
        assert limit.shares == pytest.approx(near.shares, rel=apart)
        assert limit.t == pytest.approx(near.t, rel=apart)


@pytest.mark.parametrize("power", [1, 1.5, 3])
def test_a_teacher_on_few_of_infinitely_many_eigenvectors(power: float) -> None:
    """Components j^-B/2 with B >= 1: the first level has all of the teacher."""
    problem = Problem(
        student="tanh",
        teacher="sin",
        alpha=1,
        beta=1,
        inputs="two-level:5:0.2",
        teacher_overlaps=f"decay:{power}",
        dimension=math.inf,
    )
    assert medium_of(problem).shares == pytest.approx([1, 0], abs=1e-14)
    near = medium_of(problem.replace(dimension=1_000_000))
    assert near.shares[0] > 0.97  # from which it is log d away at B = 1


def test_the_risk_is_that_of_all_eigenvalues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where eigenvalues are those of data, and the teacher's components drawn."""
    rng = np.random.default_rng(0)
    d = 200
    data = rng.standard_normal((2 * d, d))
    eigenvalues = np.linalg.eigvalsh(data.T @ data / (2 * d))[::-1]
    theirs = np.stack([eigenvalues, rng.standard_normal(d)], 1)
    for inputs, overlaps, limit in (
        ("power-law:0.3", "top:0.3", 1e-8),
        ("power-law:0.6", "equal", 1e-11),
        (SpectrumInputs.of(theirs), "equal", 1e-7),
    ):
        problem = Problem(
            student="tanh",
            teacher="sin",
            alpha=2,
            beta=1,
            alpha0=2,
            step=1,
            ridge=0.01,
            noise=0.1,
            readout="ones",
            inputs=inputs,
            dimension=d,
            **({} if overlaps == "equal" else {"teacher_overlaps": overlaps}),
        )
        few = predict(problem).risk
        monkeypatch.setattr(medium_module, "_NODES", d)
        every = predict(problem).risk
        monkeypatch.undo()
        assert few != every
        assert few == pytest.approx(every, rel=limit)
