"""Experiment files: what they mean, and every fault of one at once."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from firststep import Experiment, InvalidParameter, Problem
from firststep.sweep.units import Predictions, Replicate
from tests.backends import jnp, needs_jax
from tests.sweep.helpers import PROBLEM, table


def test_grid_of_crossed_and_zipped_axes() -> None:
    made = Experiment.from_dict(
        dict(
            problem=dict(student="tanh", teacher="sin", beta=1),
            axes={
                "alpha": [1, 2, 3],
                "step": {"linspace": [0, 2, 5]},
                "alpha0": [2, 4, 6],
                "ridge": {"logspace": [1e-2, 1, 3]},
            },
            zip=[["alpha", "alpha0"]],
            predict={},
        )
    )
    assert made.shape == (3, 5, 3)
    assert [axis.name for axis in made.axes] == ["alpha", "step", "ridge"]
    assert all(point.problem.alpha0 == 2 * point.problem.alpha for point in made.points)
    assert sorted({point.problem.ridge for point in made.points}) == pytest.approx([0.01, 0.1, 1.0])
    assert {point.problem.step for point in made.points} == {0, 0.5, 1, 1.5, 2}
    assert made.points[1].place == (0, 0, 1)


def test_units_share_networks_between_ridges_and_batch_theory() -> None:
    made = Experiment.from_dict(table())
    units = made.units()
    theory = [unit for unit in units if isinstance(unit, Predictions)]
    assert sum(len(unit.problems) for unit in theory) == 12
    assert len(theory) == 2  # one batch for each dimension
    replicates = [unit for unit in units if isinstance(unit, Replicate)]
    assert len(replicates) == 3 * 3 * 2  # alpha, replicate, model: both ridges together
    assert all(unit.problem.ridges == (0.01, 0.1) for unit in replicates)
    assert [unit.replicate for unit in replicates] == sorted(unit.replicate for unit in replicates)


def test_theory_at_the_sizes_of_the_simulation() -> None:
    made = Experiment.from_dict(table(axes=dict(alpha=[1.23])))
    (_, limit), (_, sized) = made.theory_problems(made.points[0])
    assert limit.dimension == math.inf
    assert (sized.dimension, sized.alpha) == (30, 37 / 30)


def test_several_ridges_of_the_problem_are_an_axis() -> None:
    made = Experiment.from_dict(dict(problem=dict(PROBLEM, alpha=2, ridge="1e-3..1:4"), predict={}))
    assert made.shape == (4,)
    assert made.axes[0].name == "ridge"


def test_ridge_of_the_other_convention_follows_alpha() -> None:
    problem = dict(PROBLEM, ridge_convention="cui", ridge=0.1)
    made = Experiment.from_dict(dict(problem=problem, axes=dict(alpha=[1, 4]), predict={}))
    assert [point.problem.ridge for point in made.points] == [0.1, 0.025]


def test_every_fault_of_a_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(
        """
sede = 1
zip = [["alpha", "beta"], 3]
[problem]
student = "tahn"
alhpa = 3
dimension = 100
[axes]
alpha = [1, -2, "x"]
step = { linspce = [0, 2, 3] }
ridge = [1, 1]
noise = { logspace = [0, 1, 3] }
readout = []
[predict]
bulk = "exct"
dimension = 1
[simulate]
model = "network"
replicates = 0
batches = "some"
backend = "cuda"
"""
    )
    with pytest.raises(InvalidParameter) as caught:
        Experiment.from_toml(path)
    told = {fault.parameter: str(fault) for fault in caught.value.faults}
    assert set(told) >= {
        "sede",
        "zip[0]",
        "zip[1]",
        "problem.student",
        "problem.teacher",
        "problem.beta",
        "problem.alhpa",
        "problem.dimension",
        "axes.alpha[1]",
        "axes.alpha[2]",
        "axes.step",
        "axes.ridge",
        "axes.noise.logspace",
        "axes.readout",
        "predict.bulk",
        "predict.dimension",
        "simulate.model",
        "simulate.dimension",
        "simulate.replicates",
        "simulate",
        "simulate.backend",
    }
    assert "did you mean seed?" in told["sede"]
    assert "did you mean tanh?" in told["problem.student"]
    assert "did you mean alpha?" in told["problem.alhpa"]
    assert "did you mean models?" in told["simulate.model"]
    assert "did you mean exact?" in told["predict.bulk"]
    assert all("\n" not in line for line in told.values())


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"predict": None, "simulate": None}, "predict"),
        ({"axes": {"alpha": [0.001]}}, "simulate.dimension"),
        ({"axes": 3}, "axes"),
        ({"problem": {**PROBLEM, "alpha": 1}}, "problem.alpha"),
        ({"simulate": {"dimension": 30, "replicates": 2, "steps": 2, "reuse": "yes"}}, "simulate"),
        ({"name": ""}, "name"),
        ({"seed": -1}, "seed"),
    ],
)
def test_faults_name_their_place(changes: dict[str, object], parameter: str) -> None:
    given = {name: value for name, value in table(**changes).items() if value is not None}
    with pytest.raises(InvalidParameter) as caught:
        Experiment.from_dict(given)
    assert parameter in [fault.parameter for fault in caught.value.faults]


def test_unreadable_files(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("alpha = = 3")
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"# \xe9")
    for path in (broken, latin, tmp_path / "none.toml", tmp_path):
        with pytest.raises(InvalidParameter, match="experiment must be"):
            Experiment.from_toml(path)


@needs_jax
def test_a_function_of_a_script_has_no_name_to_keep() -> None:
    with pytest.raises(InvalidParameter, match="a name or an expression"):
        Experiment.from_dict(
            table(problem={**PROBLEM, "student": lambda z: jnp.tanh(z) + 0.1 * jnp.sin(z) ** 3})
        )


def test_values_of_arrays_are_taken() -> None:
    made = Experiment.from_dict(
        dict(problem=PROBLEM, axes=dict(alpha=np.linspace(1, 2, 3)), predict={})
    )
    assert [point.problem for point in made.points] == [
        Problem(**PROBLEM, alpha=a) for a in (1, 1.5, 2)
    ]


def test_an_experiment_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="an empty \\[predict\\] table will do"):
        Experiment.from_dict({**table(), "predict": None, "simulate": None})


def test_names_are_texts() -> None:
    with pytest.raises(InvalidParameter, match="problem must be a table of names; got 3"):
        Experiment.from_dict(table(problem={**PROBLEM, 3: 4}))


def test_an_axis_that_cannot_be_read_is_not_missed_as_well() -> None:
    with pytest.raises(InvalidParameter) as caught:
        Experiment.from_dict(table(axes={"alpha": {"logspace": [0, 1, 2]}}))
    assert [fault.parameter for fault in caught.value.faults] == ["axes.alpha.logspace"]


def test_options_enter_the_keys_as_they_are_given() -> None:
    """A default written out is another key than one left out, but for options that came later."""
    simulate = dict(dimension=30, replicates=1)
    told = Experiment.from_dict(
        table(
            simulate=dict(
                simulate,
                steps=1,
                block="64",
                optimizer="gradient",
                inputs="gaussian",
                teacher_terms=[],
                weight_decay=0,
                damping=0.1,
            )
        )
    )
    assert told.options == {"steps": 1, "block": 64}
    later = dict(simulate, optimizer="adam", inputs="student-t:5.0", teacher_terms="relu")
    assert Experiment.from_dict(table(simulate=later)).options == {
        "optimizer": "adam",
        "inputs": "student-t:5",
        "teacher_terms": ("relu",),
    }
    turned = dict(simulate, optimizer="whitened", damping=0.02, weight_decay=0.1)
    assert Experiment.from_dict(table(simulate=turned)).options == {
        "optimizer": "whitened",
        "damping": 0.02,
        "weight_decay": 0.1,
    }
    with pytest.raises(InvalidParameter, match="simulate must be a finite number >= 0; got -1"):
        Experiment.from_dict(table(simulate=dict(simulate, weight_decay=-1)))
    assert Experiment.from_dict(table(simulate=simulate)).options == {}


def test_inputs_are_given_once(tmp_path: Path) -> None:
    """By the problem or by the simulation; where the problem has none, as ever."""
    networks = dict(dimension=30, inputs="student-t:5", teacher_terms="relu")
    for own in (
        dict(problem={**PROBLEM, "inputs": "power-law:1", "teacher_terms": ""}),
        dict(axes=dict(alpha=[1], inputs=["gaussian", "power-law:1"])),
    ):
        asked = {**table(), **own, "simulate": networks}
        with pytest.raises(InvalidParameter) as caught:
            Experiment.from_dict(asked)
        told = {fault.parameter: fault.allowed for fault in caught.value.faults}
        assert told == {"simulate.inputs": "left out where the problem has inputs"}
    both = table(problem={**PROBLEM, "teacher_terms": "tanh"}, simulate=networks)
    with pytest.raises(InvalidParameter, match=r"simulate\.teacher_terms must be left out"):
        Experiment.from_dict(both)
    assert Experiment.from_dict(table(simulate=networks)).options["inputs"] == "student-t:5"


def test_arrays_of_the_problem_have_the_size_of_the_networks(tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", np.linspace(1, 2, 20))
    problem = {**PROBLEM, "alpha": 2, "inputs": f"spectrum:{tmp_path / 's.npy'}"}
    asked = dict(problem=problem, simulate=dict(dimension=20))
    made = Experiment.from_dict(asked)
    assert "sha256=" in made.points[0].problem.to_dict()["inputs"]
    for axes in ({}, dict(ridge=[0.1, 1])):
        with pytest.raises(InvalidParameter, match=r"simulate\.dimension must be 20, the number"):
            Experiment.from_dict({**asked, "axes": axes, "simulate": dict(dimension=30)})


def test_zipped_axes_are_checked_together() -> None:
    axes = dict(labels=["real", "sign"], loss=["square", "logistic"], alpha=[1, 2])
    made = Experiment.from_dict(
        dict(problem=dict(PROBLEM), axes=axes, zip=[["labels", "loss"]], predict={})
    )
    assert made.shape == (2, 2)
    with pytest.raises(InvalidParameter, match=r"axes\.loss\[1\]"):
        Experiment.from_dict(dict(problem=dict(PROBLEM), axes=axes, predict={}))
    axes = dict(inputs=["gaussian", "power-law:1"], teacher_overlaps=["equal", "top:2"])
    with pytest.raises(InvalidParameter, match=r"axes\.teacher_overlaps\[1\] must be top:SHARE"):
        Experiment.from_dict(
            dict(problem={**PROBLEM, "alpha": 1}, axes=axes, zip=[list(axes)], predict={})
        )
