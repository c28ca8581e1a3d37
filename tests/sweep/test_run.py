"""Sweeps: the same numbers as predict and simulate, computed once, whoever computes them."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from firststep import Experiment, InvalidParameter, Problem, predict, run_sweep, simulate
from firststep.store import DONE, LOST, REFUSED, Store
from firststep.sweep import units as units_module
from firststep.sweep.engine import execute
from firststep.sweep.executors import ThisMachine
from firststep.sweep.units import Predictions, Replicate, compute
from tests.backends import needs_jax
from tests.sweep.helpers import PROBLEM, contents, table


def test_numbers_are_those_of_predict_and_simulate(tmp_path: Path) -> None:
    done = run_sweep(table(), tmp_path / "a.db", workers=1)
    assert done.complete
    for row in done.rows:
        problem = Problem(**PROBLEM, alpha=row["alpha"], ridge=row["ridge"])
        if row["verb"] == "predict" and row["dimension"] == "inf":
            assert row["risk"] == pytest.approx(predict(problem).risk, rel=1e-10)
            assert row["random_features_risk"] == pytest.approx(
                predict(problem).random_features_risk, rel=1e-10
            )
        elif row["verb"] == "simulate":
            found = simulate(problem, 30, 3, model=row["model"])
            assert row["risk"] == pytest.approx(found.risk.values[row["replicate"]], rel=1e-9)
    count = {
        verb: sum(row["verb"] == verb for row in done.rows) for verb in ("predict", "simulate")
    }
    assert count == {"predict": 12, "simulate": 36}


def test_a_second_run_computes_nothing_and_a_changed_axis_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    run_sweep(table(), path, workers=1)
    calls: list[object] = []
    monkeypatch.setattr(
        "firststep.sweep.executors.compute", lambda unit: calls.append(unit) or compute(unit)
    )
    again = run_sweep(table(), path, workers=1)
    assert not calls
    assert again.tally.found == again.tally.wanted
    wider = run_sweep(table(axes=dict(alpha=[1, 2, 8], ridge=[0.01, 0.1, 1.0])), path, workers=1)
    assert wider.complete
    replicates = [unit for unit in calls if isinstance(unit, Replicate)]
    old = [unit for unit in replicates if unit.problem.alpha in (1, 2)]
    assert len(old) == 2 * 2 * 3
    assert all(unit.kept == {1.0} for unit in old)
    assert len([unit for unit in replicates if unit.problem.alpha == 8]) == 2 * 3


def test_models_without_a_step_are_computed_once_for_all_steps(tmp_path: Path) -> None:
    grid = table(
        axes=dict(alpha=[2], step=[0.5, 1, 2]),
        simulate=dict(models=["random-features", "linear"], dimension=30, replicates=2),
    )
    del grid["predict"]
    done = run_sweep(grid, tmp_path / "a.db", workers=1)
    assert done.tally.wanted == 4
    assert len(done.rows) == 12
    direct = simulate(Problem(**PROBLEM, alpha=2, step=2), 30, 2, model="random-features")
    rows = [row for row in done.rows if row["model"] == "random-features" and row["step"] == 2]
    assert [row["risk"] for row in rows] == pytest.approx(list(direct.risk.values), rel=1e-12)


def test_results_do_not_depend_on_the_executor(tmp_path: Path) -> None:
    for name, workers in (("one", 1), ("two", 2)):
        run_sweep(table(), tmp_path / f"{name}.db", workers=workers)
    assert contents(tmp_path / "one.db") == contents(tmp_path / "two.db")


def test_shards_make_the_whole(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        run_sweep(table(), tmp_path / f"{number}.db", shard=f"{number}/3", workers=1)
    run_sweep(table(), tmp_path / "whole.db", workers=1)
    with Store(tmp_path / "1.db") as store:
        for number in (2, 3):
            store.merge(tmp_path / f"{number}.db")
    assert contents(tmp_path / "1.db") == contents(tmp_path / "whole.db")
    for bad in ("0/3", "4/3", "x", "1/2/3", "1"):
        with pytest.raises(InvalidParameter, match="shard must be i/n"):
            run_sweep(table(), shard=bad)


def test_what_cannot_be_computed_is_recorded_and_does_not_stop_the_rest(tmp_path: Path) -> None:
    grid = table(axes=dict(alpha=[1, 2], ridge=[0.0, 0.1]))
    path = tmp_path / "a.db"
    done = run_sweep(grid, path, workers=1)
    assert not done.complete
    assert len(done.failures) == 4  # theory has no ridge 0; the simulation has
    assert all("ridge must be" in line and "theory" in line for line in done.failures)
    assert all(math.isfinite(row["risk"]) for row in done.rows if row["status"] == DONE)
    assert (
        run_sweep(grid, path, workers=1).tally.finished == done.tally.wanted
    )  # refused for good: not tried again
    retried = run_sweep(grid, path, workers=1, retry=True)
    assert retried.tally.refused == 4


def test_what_was_lost_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"

    def no_memory(*_: object, **__: object) -> object:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(units_module, "simulate", no_memory)
        done = run_sweep(table(), path, workers=1)
    with Store(path) as store:
        states = list(store.statuses().values())
    assert states.count(LOST) == 36
    assert states.count(DONE) == 12
    assert "out of memory" in done.failures[0]
    assert run_sweep(table(), path, workers=1).complete


def test_a_fault_of_ours_is_kept_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> object:
        raise TypeError("oops")

    monkeypatch.setattr(units_module, "simulate", broken)
    records = compute(Replicate(Problem(**PROBLEM, alpha=2, dimension=30), "network", 0, 0))
    assert [(each.status, each.reason) for each in records] == [(REFUSED, "TypeError: oops")]


def test_a_chunk_with_a_bad_problem_solves_the_others() -> None:
    problem = Problem(**PROBLEM, alpha=2)
    unit = Predictions((problem, problem.replace(ridge=0.0), problem.replace(alpha=3)))
    assert [each.status for each in compute(unit)] == [DONE, REFUSED, DONE]


def test_tables(tmp_path: Path) -> None:
    done = run_sweep(table(), tmp_path / "a.db", workers=1)
    frame = done.frame()
    assert len(frame) == len(done.rows) == 48
    mean = frame[(frame.model == "network") & (frame.alpha == 2) & (frame.ridge == 0.1)].risk.mean()
    data = done.dataset()
    assert dict(data.sizes) == {
        "bulk": 1,
        "theory_dimension": 2,
        "alpha": 3,
        "ridge": 2,
        "model": 2,
        "dimension": 1,
        "replicate": 3,
    }
    assert float(data.risk.sel(model="network", alpha=2, ridge=0.1).mean()) == pytest.approx(mean)
    assert not np.isnan(data.theory_risk.values).any()
    entry = next(
        e for e in done.summary() if (e["model"], e["alpha"], e["ridge"]) == ("network", 2, 0.1)
    )
    assert (entry["count"], entry["mean"]["risk"]) == (3, pytest.approx(mean))
    done.to_csv(tmp_path / "a.csv")
    with (tmp_path / "a.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [float(line["risk"]) for line in lines] == [row["risk"] for row in done.rows]
    assert lines[0]["dimension"] == "inf"
    done.to_parquet(tmp_path / "a.parquet")
    import pyarrow.parquet
    import xarray

    assert pyarrow.parquet.read_table(tmp_path / "a.parquet").num_rows == 48
    done.to_netcdf(tmp_path / "a.nc")
    with xarray.open_dataset(tmp_path / "a.nc", engine="scipy") as back:
        assert float(back.risk.sum()) == pytest.approx(float(data.risk.sum()))
    assert not list(tmp_path.glob(".*part"))


def test_zipped_axes_are_coordinates_of_the_first() -> None:
    grid = dict(
        problem=dict(student="tanh", teacher="sin", beta=1),
        axes=dict(alpha=[1, 2], alpha0=[3, 4]),
        zip=[["alpha", "alpha0"]],
        predict={},
    )
    data = run_sweep(grid, workers=1).dataset()
    assert data.alpha0.dims == ("alpha",)
    assert float(data.theory_risk.sel(alpha=2).squeeze()) == pytest.approx(
        predict(Problem(student="tanh", teacher="sin", beta=1, alpha=2, alpha0=4)).risk
    )


def test_axes_of_words() -> None:
    grid = dict(
        problem=dict(teacher="sin", beta=1),
        axes=dict(student=["tanh", "erf"], readout=["ones", "signs"], alpha=[2]),
        predict={},
    )
    data = run_sweep(grid, workers=1).dataset()
    assert float(data.theory_risk.sel(student="erf", readout="ones").squeeze()) == pytest.approx(
        predict(Problem(student="erf", teacher="sin", beta=1, alpha=2, readout="ones")).risk
    )


def test_one_device_takes_one_process() -> None:
    units = Experiment.from_dict(
        table(simulate=dict(dimension=30, replicates=2, backend="jax"))
    ).units()
    assert ThisMachine().count(units) == 1
    with pytest.raises(InvalidParameter, match="workers must be 1 with the jax backend"):
        ThisMachine(4).count(units)


@needs_jax
def test_jax_backend_in_a_sweep(tmp_path: Path) -> None:
    grid = table(
        axes=dict(alpha=[2], ridge=[0.01]),
        simulate=dict(dimension=30, replicates=2, backend="jax", device="cpu"),
    )
    done = run_sweep(grid, tmp_path / "a.db")
    assert done.complete
    ours = [row["risk"] for row in done.rows if row["model"] == "network" and row["ridge"] == 0.01]
    direct = simulate(Problem(**PROBLEM, alpha=2, ridge=0.01), 30, 2, backend="jax", device="cpu")
    assert ours == pytest.approx(list(direct.risk.values), rel=1e-9)
    with Store(tmp_path / "a.db") as store:
        assert "jax" in store.runs()[0]["versions"]


def test_the_watcher_sees_every_unit(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with Store(tmp_path / "a.db") as store:
        execute(
            Experiment.from_dict(table()).units(),
            store,
            ThisMachine(1),
            watch=lambda t: seen.append((t.finished, t.wanted)),
        )
    assert seen[0] == (0, 48)
    assert seen[-1] == (48, 48)
    assert [number for number, _ in seen] == sorted(number for number, _ in seen)


def test_losses_and_labels_are_axes_like_others(tmp_path: Path) -> None:
    """Theory and networks of every loss, each with its losses and error rates."""
    axes = dict(loss=["square", "logistic"], flip=[0.0, 0.1])
    plain = {**PROBLEM, "labels": "sign", "alpha": 2, "ridge": 0.1, "intercept": True}
    asked = table(problem=plain, axes=axes)
    done = run_sweep(asked, tmp_path / "a.db", workers=1)
    simulated = [row for row in done.rows if row["verb"] == "simulate"]
    assert all(row["status"] == DONE for row in simulated)
    assert len(simulated) == 2**2 * 2 * 3
    predicted = [row for row in done.rows if row["verb"] == "predict"]
    assert {row["status"] for row in predicted} == {DONE}
    assert all(0 < row["error_rate"] < 0.5 for row in predicted)
    for row in simulated:
        changes = {name: row[name] for name in ("loss", "flip") if name in row}
        problem = Problem(**plain, **changes)
        found = simulate(problem, 30, 3, model=row["model"])
        for name in ("error_rate", "test_loss", "training_loss", "training_error_rate"):
            expected = getattr(found, name).values[row["replicate"]]
            assert row[name] == pytest.approx(expected, rel=1e-9)
    means = {
        (e["loss"], e["flip"], e["model"]): e["count"]
        for e in done.summary()
        if e["verb"] == "simulate"
    }
    assert set(means.values()) == {3}
    assert len(means) == 8
    done.to_csv(tmp_path / "a.csv")
    with open(tmp_path / "a.csv", newline="") as lines:
        read = list(csv.DictReader(lines))
    assert {row["loss"] for row in read} == {"square", "logistic"}
    assert {row["step_loss"] for row in read} == {"square"}


def test_inputs_components_and_terms_are_axes_like_others(tmp_path: Path) -> None:
    """Zipped, as components mean nothing without a spectrum; each point a problem of its own."""
    axes = dict(
        inputs=["gaussian", "power-law:0.5", "two-level:4:0.2"],
        teacher_overlaps=["equal", [1.0, 0.5, *[0.0] * 28], "random"],
        ridge=[0.1, 1.0],
    )
    problem = {**PROBLEM, "alpha": 2}
    networks = dict(models=["network", "linear"], dimension=30, replicates=2)
    asked = dict(
        problem=problem, axes=axes, zip=[["inputs", "teacher_overlaps"]], simulate=networks
    )
    done = run_sweep(asked, tmp_path / "a.db", workers=1)
    assert done.complete
    assert {row["status"] for row in done.rows} == {DONE}
    assert len(done.rows) == 3 * 2 * 2 * 2
    for row in done.rows:
        changes = {name: row[name] for name in (*list(axes)[:2],) if name in row}
        asked_for = Problem(**problem, ridge=row["ridge"], **changes)
        found = simulate(asked_for, 30, 2, model=row["model"])
        expected = found.risk.values[row["replicate"]]
        assert row["risk"] == pytest.approx(expected, rel=1e-9)
    assert len({row["risk"] for row in done.rows}) == len(done.rows)
    means = {(e["inputs"], e["teacher_overlaps"]) for e in done.summary()}
    assert [each[0] for each in sorted(means)] == sorted(axes["inputs"])
    done.to_csv(tmp_path / "a.csv")
    with open(tmp_path / "a.csv", newline="") as lines:
        read = list(csv.DictReader(lines))
    assert {row["inputs"] for row in read} == set(axes["inputs"])
    assert {row["teacher_terms"] for row in read} == {""}
    pytest.importorskip("xarray")
    assert done.dataset().risk.shape == (2, 1, 3, 2, 2)
    again = run_sweep(asked, tmp_path / "a.db", workers=1)
    assert [row["risk"] for row in again.rows] == [row["risk"] for row in done.rows]


def test_terms_are_an_axis(tmp_path: Path) -> None:
    axes = dict(teacher_terms=["", "relu", ["relu", "tanh"]], alpha=[1, 2])
    asked = dict(problem=dict(PROBLEM), axes=axes, simulate=dict(dimension=30, replicates=1))
    done = run_sweep(asked, tmp_path / "a.db", workers=1)
    assert done.complete
    risks = {(row.get("teacher_terms", ""), row["alpha"]): row["risk"] for row in done.rows}
    for (terms, alpha), risk in risks.items():
        found = simulate(Problem(**PROBLEM, alpha=alpha), 30, 1, teacher_terms=terms)
        assert risk == pytest.approx(found.risk.values[0], rel=1e-9)
    assert len(risks) == 6
