"""Options as objects: Training and Run, and the plain keywords they stand for."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from firststep import (
    InvalidParameter,
    Problem,
    Workers,
    baselines,
    first_layer,
    simulate,
    simulate_features,
    training_path,
)
from firststep.simulation.design import Training
from firststep.simulation.running.options import Run

D, TESTS = 20, 100


def test_objects_and_keywords_are_one_thing(generic: Problem) -> None:
    training = Training(steps=2, optimizer="momentum")
    run = Run(replicates=2, seed=3, first_replicate=1, test_samples=TESTS, block=128)
    found = simulate(generic, D, training=training, run=run)
    plain = simulate(
        generic,
        D,
        2,
        3,
        steps=2,
        optimizer="momentum",
        first_replicate=1,
        test_samples=TESTS,
        block=128,
    )
    table = simulate(generic, D, training=training.to_dict(), run=run.to_dict())
    for other in (plain, table):
        assert np.array_equal(found.risk.values, other.risk.values)
        assert found.options == other.options
        assert found.replicate_numbers == other.replicate_numbers == (1, 2)
    layer = first_layer(generic, D, 3, 1, training=training)
    assert np.array_equal(layer.after, first_layer(generic, D, 3, 1, **training.to_dict()).after)
    *_, last = training_path(generic, D, 3, 1, training=training)
    assert np.array_equal(layer.after, last.after)
    fitted = simulate_features(layer.after, generic, layer.teacher, run=run.replace(replicates=1))
    assert np.array_equal(fitted.risk.values[0], found.risk.values[0])
    several = baselines(generic, D, models=("linear",), run=run)
    assert several["linear"].replicates == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            dict(training=Training(), steps=2),
            "steps must be given in training or as a keyword, not",
        ),
        (
            dict(run=Run(), replicates=2),
            "replicates must be given in run or as a keyword, not both",
        ),
        (dict(run=Run(), dtype="float32"), "dtype must be given in run or as a keyword, not both"),
        (dict(training=3), "training must be a Training, or a table of its fields; got 3"),
        (dict(run=Training()), "run must be a Run"),
        (dict(stepz=2), r"stepz must be an option of simulate; got 2 \(did you mean steps\?\)"),
        (dict(colour=2), r"colour must be an option of simulate; got 2 \(the options are steps, "),
        (
            dict(training=dict(stepz=2)),
            r"stepz must be a field of Training; got 2 \(did you mean s",
        ),
    ],
    ids=str,
)
def test_nonsense(options: dict[str, object], words: str, generic: Problem) -> None:
    with pytest.raises(InvalidParameter, match=words):
        simulate(generic, D, **options)


def test_positional_replicates_and_seed_are_keywords_of_run(generic: Problem) -> None:
    for positional in ((2,), (None, 1)):
        with pytest.raises(InvalidParameter, match="given in run or as a keyword"):
            simulate(generic, D, *positional, run=Run())


def test_all_faults_at_once() -> None:
    with pytest.raises(InvalidParameter) as caught:
        Run(replicates=0, backend="torch", block="x", threads=0, test_samples=1, workers=0)
    assert [fault.parameter for fault in caught.value.faults] == [
        "replicates",
        "test-samples",
        "backend",
        "workers",
        "threads",
        "block",
    ]
    with pytest.raises(InvalidParameter) as caught:
        Training(steps=0, batches="some", reuse=1, parameterization="none", optimizer="adm")
    assert len(caught.value.faults) == 5
    assert "did you mean adam?" in str(caught.value)
    with pytest.raises(InvalidParameter, match="batches must be same when reuse is combined"):
        Training(steps=2, reuse=True)


def test_frozen_equal_and_hashable() -> None:
    assert Training(steps=2) == Training(**{"steps": "2"})
    assert hash(Training(steps=2)) == hash(Training(steps=2))
    assert Training(steps=2).replace(optimizer="adam") == Training(steps=2, optimizer="adam")
    with pytest.raises(ValueError, match="frozen"):
        Run().seed = 1  # type: ignore[misc]
    assert repr(Training()).startswith("Training(steps=1, batches='fresh', reuse=False")


def test_files(tmp_path: Path) -> None:
    run, training = Run(seed=2**70, test_samples=50), Training(steps=3, reuse=True, batches="same")
    for record in (run, training):
        path = tmp_path / "record.toml"
        path.write_text(record.to_toml())
        assert type(record).from_toml(path) == record
        assert type(record)(**tomllib.loads(path.read_text())) == record
        assert type(record)(**json.loads(json.dumps(record.to_dict()))) == record
    assert "first-replicate = 0" in run.to_toml()
    assert Run(**{"first-replicate": 3}).first_replicate == 3
    with Workers(2) as workers:
        assert Run(workers=workers).to_dict()["workers"] == 2
