"""The command line as a user meets it: real processes, their output, their exit codes."""

from __future__ import annotations

import dataclasses
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from firststep import InvalidParameter, Problem, compare, simulate
from firststep.cli import run
from firststep.cli.flags import NO_RUN, ProblemFlags
from firststep.cli.simulate import NO_MODEL
from firststep.figures import demo as figure
from tests.backends import needs_jax
from tests.processes import (
    LOADED,
    PATIENCE,
    computes,
    processor_seconds,
    seconds_of_ended_children,
    started,
    workers_compute,
)

COMMAND = [sys.executable, "-m", "firststep.cli"]
BASE = [
    "--student",
    "tanh",
    "--teacher",
    "sin",
    "--alpha",
    "3",
    "--beta",
    "1",
    "--alpha0",
    "4",
    "--step",
    "3",
    "--ridge",
    "0.0333",
]
SMALL = [*BASE, "--dimension", "40", "--replicates", "3", "--test-samples", "300"]


def call(*arguments: str, **options) -> subprocess.CompletedProcess[str]:  # type: ignore[no-untyped-def]
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE, **options
    )


def test_json_is_one_object_and_nothing_else() -> None:
    done = call("simulate", *SMALL, "--seed", "7", "--json")
    assert done.returncode == 0
    assert done.stderr == ""
    found = json.loads(done.stdout)
    for key in (
        "problem",
        "model",
        "dimension",
        "replicates",
        "risk",
        "training_error",
        "alignment",
        "spike_strength",
        "kernel_lower_bound",
        "seconds",
        "versions",
    ):
        assert key in found
    for key in ("risk", "training_error", "alignment", "spike_strength"):
        assert set(found[key]) == {"mean", "standard_error", "values"}
        assert len(found[key]["values"]) == 3
    assert found["problem"]["student"] == "tanh"
    assert (found["model"], found["dimension"], found["replicates"]) == ("network", 40, 3)
    again = simulate(Problem(**found["problem"]), replicates=3, seed=7, test_samples=300)
    assert found["risk"]["values"] == list(again.risk.values)


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", *SMALL, "--alpha", "1"]) == 2  # a flag given twice
    capsys.readouterr()
    assert run(["simulate", *SMALL]) == 0
    text = capsys.readouterr().out
    assert re.search(r"test risk +0\.\d+ ± 0\.\d+", text)
    for words in (
        "d = 40, N = 40, n0 = 160, n = 120",
        "3 replicates, seed 0",
        "alignment",
        "kernel lower bound",
    ):
        assert words in text


def test_several_ridges_and_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "simulate",
        "--student",
        "centered(relu)",
        "--teacher",
        "tanh(2*z)",
        "--alpha",
        "2",
        "--beta",
        "0.5",
        "--alpha0",
        "2",
        "--step",
        "1.5",
        "--step-exponent",
        "0.25",
        "--ridge",
        "0.5",
        "1e-3..1:4",
        "--ridge-convention",
        "cui",
        "--noise",
        "0.1",
        "--readout",
        "-1:0.25,0.5:0.5,2:0.25",
        "--init",
        "sphere",
        "--dimension",
        "30",
        "--replicates",
        "2",
        "--seed",
        "3",
        "--model",
        "network",
        "--backend",
        "numpy",
        "--workers",
        "1",
        "--reuse",
        "--steps",
        "2",
        "--batches",
        "same",
        "--parameterization",
        "mean-field",
        "--dtype",
        "float64",
        "--device",
        "cpu",
        "--test-samples",
        "100",
        "--json",
    ]
    assert run(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["problem"]["ridge"] == pytest.approx([0.125, 0.00025, 0.0025, 0.025, 0.25])
    assert len(found["risk"]["mean"]) == 5
    assert [len(row) for row in found["risk"]["values"]] == [5, 5]
    assert found["problem"]["readout"] == "-1.0:0.25,0.5:0.5,2.0:0.25"
    assert found["options"]["reuse"] is True


def test_problem_files_and_overrides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "problem.toml"
    path.write_text(
        'student = "tanh"\nteacher = "sin"\nalpha = 2\nbeta = 1\n'
        "step-exponent = 0\ndimension = 20\n"
    )
    assert (
        run(
            [
                "simulate",
                "--problem",
                str(path),
                "--alpha",
                "4",
                "--replicates",
                "1",
                "--test-samples",
                "50",
                "--json",
            ]
        )
        == 0
    )
    problem = json.loads(capsys.readouterr().out)["problem"]
    assert (
        problem["alpha"],
        problem["alpha0"],
        problem["step_exponent"],
        problem["dimension"],
    ) == (4, 4, 0, 20)


def test_baselines(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["baselines", *SMALL]) == 0
    text = capsys.readouterr().out
    for model in (
        "random-features",
        "ntk",
        "inner-product-kernel",
        "distance-kernel",
        "linear",
        "kernel lower bound",
    ):
        assert model in text
    assert run(["baselines", *SMALL, "--models", "linear", "ntk", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["model"] for each in found["baselines"]] == ["linear", "ntk"]
    assert found["kernel_lower_bound"] == pytest.approx(0.0644529, rel=1e-5)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--alpha", "-3"], ["alpha", "> 0", "-3"]),
        (["--alpha", "nan"], ["alpha", "nan"]),
        (["--beta", "0"], ["beta", "> 0", "got 0"]),
        (["--student", "tnah"], ["student", "did you mean tanh"]),
        (["--student", "__import__('os')"], ["student", "unknown function '__import__'"]),
        (["--teacher", "z.real"], ["teacher", "attribute is not allowed"]),
        (["--student", "exp(z**2)"], ["student", "square integrable"]),
        (["--readout", "1:0.5,2:0.4"], ["readout", "sum to 1", "0.9"]),
        (["--dimension", "0"], ["dimension", ">= 2"]),
        (["--alpha", "0.001", "--dimension", "30"], ["dimension", "at least 500"]),
        (["--dimension", "3000000"], ["dimension", "needs", "TB", "free"]),
        (["--dimension", "inf"], ["dimension", "finite size"]),
        pytest.param(["--backend", "jax", "--device", "gpu"], ["device", "gpu"], marks=needs_jax),
        (["--backend", "cupy"], ["backend", "numpy, jax"]),
        (["--ridge", "abc"], ["ridge", "abc"]),
        (["--workers", "-2"], ["workers", ">= 1"]),
        (["--replicates", "many"], ["replicates", "many"]),
        (["--problem", "missing.toml"], ["problem", "missing.toml"]),
        (["--alfa", "3"], ["--alfa", "--alpha"]),
        (["--model", "netwrk"], ["model", "did you mean network"]),
        (["stray"], ["stray"]),
        (["--loss", "logistic"], ["loss", "real labels", "try labels sign"]),
        (["--labels", "sign", "--flip", "0.5"], ["flip", "below 0.5"]),
        (["--labels", "sign", "--threshold", "-4"], ["threshold", "between -1 and 1"]),
        (["--labels", "sign", "--teacher", "z**2"], ["teacher", "one class"]),
        (["--loss", "huber:-1"], ["loss", "> 0"]),
        (["--loss", "quantile:2"], ["loss", "between 0 and 1"]),
        (["--step-loss", "quantile:0.5"], ["step-loss", "no gradient"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line_and_exit_code_2(
    flags: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = {
        name: value
        for name, value in zip(SMALL[::2], SMALL[1::2], strict=True)
        if name not in flags
    }
    arguments = [token for pair in given.items() for token in pair]
    assert run(["simulate", *arguments, *flags]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("error: ")
    assert output.err.count("\n") == 1
    assert "Traceback" not in output.err
    for word in words:
        assert word in output.err


def test_losses_and_labels_have_flags(capsys: pytest.CaptureFixture[str]) -> None:
    told = "--loss logistic --labels sign --flip 0.1 --threshold -0.5 --intercept"
    flags = [*told.split(), "--step-loss", "square"]
    assert run(["simulate", *SMALL, *flags, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    problem = Problem.model_validate(found["problem"])
    assert (str(problem.loss), problem.flip, problem.threshold) == ("logistic", 0.1, -0.5)
    assert problem.intercept
    direct = simulate(problem, 40, 3, test_samples=300)
    for name in ("error_rate", "test_loss", "training_loss", "training_error_rate"):
        assert found[name]["mean"] == pytest.approx(getattr(direct, name).mean)
    size = ["--dimension", "40"]
    assert run(["spectrum", *size, *BASE, *flags]) == 2
    assert "loss must be left at its default" in capsys.readouterr().err
    told = ["--over", "ridge", "--objective", "test-loss", "--readout", "ones"]
    assert run(["optimize", *BASE, *flags, *told, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["objective"] == "test_loss"
    assert run(["optimize", *BASE, *flags, "--objective", "accuracy"]) == 2
    assert "objective must be one of" in capsys.readouterr().err
    assert run(["predict", *BASE, *flags, "--readout", "ones", "--json"]) == 0
    assert 0.1 < json.loads(capsys.readouterr().out)["error_rate"] < 0.5
    assert run(["diagnose", "x.npy", "--loss", "logistic"]) == 2


def test_missing_flags_are_all_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--teacher", "sin"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["student", "alpha", "beta"]


def test_help_names_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--help"]) == 0
    text = capsys.readouterr().out
    for name in (
        *Problem.model_fields,
        "ridge-convention",
        "replicates",
        "seed",
        "model",
        "backend",
        "workers",
        "reuse",
        "steps",
    ):
        assert f"--{name.replace('_', '-')}" in text
    assert run(["--version"]) == 0
    assert run(["models"]) == 0
    assert "spiked random features" in capsys.readouterr().out


def test_a_run_that_cannot_be_finished_fails_with_code_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["simulate", *SMALL, "--model", "distance-kernel", "--kernel", "z"]) == 1
    assert "not a kernel" in capsys.readouterr().err


@pytest.mark.parametrize(("workers", "as_json"), [(1, True), (2, False)])
def test_ctrl_c_ends_at_once_and_says_what_is_finished(workers: int, as_json: bool) -> None:
    size = ["--dimension", "150", "--replicates", "100000", "--workers", str(workers)]
    flags, before = ["--json"] if as_json else [], seconds_of_ended_children()
    with started([*COMMAND, "simulate", *BASE, *size, *flags]) as process:
        pids = workers_compute(process) if workers > 1 else []
        computes(process, LOADED if workers == 1 else 0)
        process.send_signal(signal.SIGINT)
        then = processor_seconds([process.pid, *pids])
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert seconds_of_ended_children() - before - then < 5
    assert "Traceback" not in err
    finished = int(re.search(r"interrupted: (\d+) of 100000 replicates finished", err)[1])  # type: ignore[index]
    assert finished > 0
    if as_json:
        found = json.loads(out)
        assert found["interrupted"] is True
        assert found["replicates"] == len(found["risk"]["values"]) == finished
    else:
        assert "only the finished replicates are shown" in out


@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.3])
def test_ctrl_c_while_it_loads_is_quiet(seconds: float) -> None:
    """Loading takes about one second of the processor."""
    command = [str(Path(sys.executable).parent / "firststep"), "simulate", *BASE]
    with started([*command, "--dimension", "150", "--replicates", "1000"]) as process:
        computes(process, seconds)
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=PATIENCE)[1]
    if seconds > 0:  # before that the interpreter itself may still be starting
        assert process.returncode == 130
        assert "Traceback" not in err


def test_ctrl_c_while_it_loads_cannot_be_lost() -> None:
    """Something that is imported catches every exception just then."""
    program = """
import os, signal, sys
import firststep_command

class Catches:
    def find_spec(self, name, *rest):
        if name == "firststep.cli":
            try:
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1000):
                    pass
            except BaseException:
                pass

sys.meta_path.insert(0, Catches())
sys.argv = ["firststep", "models"]
firststep_command.main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_a_killed_worker_loses_nothing() -> None:
    size = ["--dimension", "100", "--replicates", "100000", "--workers", "2"]
    with started([*COMMAND, "simulate", *BASE, *size]) as process:
        os.kill(workers_compute(process)[0], signal.SIGKILL)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "SIGKILL" in err
    assert "Traceback" not in err
    assert "only the finished replicates are shown" in out


def test_output_that_cannot_be_written() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{' '.join(COMMAND)} models > /dev/full"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 1
    assert done.stderr == "error: the output could not be written: No space left on device\n"


def test_progress_bar_on_a_terminal() -> None:
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "simulate", *SMALL], stdout=subprocess.PIPE, stderr=child, stdin=child
    )
    os.close(child)
    seen = b""
    while select.select([parent], [], [], PATIENCE)[0]:
        try:
            part = os.read(parent, 4096)
        except OSError:
            break
        if not part:
            break
        seen += part
    out = process.communicate(timeout=PATIENCE)[0].decode()
    os.close(parent)
    assert process.returncode == 0
    assert b"3/3" in seen
    assert "test risk" in out


def test_closed_pipe_is_quiet() -> None:
    reader = subprocess.run(
        ["bash", "-c", f"{' '.join(COMMAND)} simulate {' '.join(SMALL)} | true"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert "Traceback" not in reader.stderr


def test_demo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figure, "FINE", 5)  # what is drawn is not looked at
    monkeypatch.setattr(figure, "available_cores", lambda: 1)
    assert (
        run(
            [
                "demo",
                "--out",
                str(tmp_path / "new" / "folder"),
                "--dimension",
                "20",
                "--replicates",
                "2",
            ]
        )
        == 0
    )
    folder = tmp_path / "new" / "folder"
    assert (folder / "demo.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    lines = (folder / "demo.csv").read_text().splitlines()
    assert len(lines) == 1 + 33
    assert lines[0].startswith("curve,model,alpha,risk,standard_error")
    assert "kernel lower bound 0.04015" in capsys.readouterr().out
    blocked = tmp_path / "file"
    blocked.write_text("")
    before = time.process_time()
    assert run(["demo", "--out", str(blocked), "--dimension", "1000", "--replicates", "200"]) == 2
    assert time.process_time() - before < 5  # said before the work
    assert "out must be a folder that can be written" in capsys.readouterr().err


THEORY = [
    "--student",
    "tanh",
    "--teacher",
    "sin",
    "--alpha",
    "3",
    "--beta",
    "1",
    "--alpha0",
    "4",
    "--step",
    "3",
    "--readout",
    "ones",
]


def test_predict_as_json_and_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", *THEORY, "--ridge", "0.0333", "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    found = json.loads(shown.out)
    asked = (
        "problem risk training_error alignment spike_strength bulk_variance "
        "random_features_risk kernel_lower_bound tau_star status"
    )
    assert set(asked.split()) | {"residual", "iterations", "quadrature_error", "seconds"} <= set(
        found
    )
    assert found["status"] == "converged"
    assert 0 < found["risk"] < found["random_features_risk"]
    assert (
        run(
            [
                "predict",
                *THEORY,
                "--ridge",
                "1e-3..1:3",
                "--bulk",
                "isotropic",
                "--dimension",
                "500",
            ]
        )
        == 0
    )
    text = capsys.readouterr().out
    assert "isotropic bulk" in text
    assert text.count("converged") == 3


def test_optimize_and_compare(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["optimize", *THEORY, "--over", "ridge", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["over"] == ["ridge"]
    assert 1e-4 < found["optimum"]["ridge"] < 1
    assert (
        run(["compare", *THEORY, "--dimension", "60", "--replicates", "3", "--test-samples", "300"])
        == 0
    )
    text = capsys.readouterr().out
    assert re.search(r"risk +0\.\d+ +0\.\d+ ± 0\.\d+ +[+-]\d+\.\d+ % +[+-]\d", text)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["predict", *THEORY, "--ridge", "0"], 2, "ridge must be finite and > 0"),
        (["predict", *THEORY, "--bulk", "flat"], 2, "bulk must be one of exact, isotropic"),
        (
            ["predict", *THEORY, "--step-exponent", "0.6"],
            2,
            "step-exponent must be from 0 to 0.5 at d = infinity",
        ),
        (["predict", *THEORY, "--reuse"], 2, "Unknown option"),
        (["predict", *THEORY[:-2], "--student", "sin(40*z)", "--step", "50"], 2, "student"),
        (["optimize", *THEORY, "--over", "rdge"], 2, "did you mean ridge"),
        (["compare", *THEORY], 2, "dimension must be a whole number"),
        (
            ["compare", *THEORY, "--dimension", "50", "--model", "ntk"],
            2,
            "model must be one of network, spiked, random-features",
        ),
    ],
)
def test_mistakes_in_theory_commands_are_one_line(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert words in shown.err
    assert "Traceback" not in shown.err


def test_what_cannot_be_resolved_has_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    steep = [
        "predict",
        "--student",
        "sin(40*z)",
        "--teacher",
        "sin",
        "--alpha",
        "3",
        "--beta",
        "1",
        "--step",
        "50",
    ]
    assert run(steep) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: the ")


def test_a_teacher_that_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(
            [
                "predict",
                "--student",
                "tanh",
                "--teacher",
                "0*z",
                "--alpha",
                "3",
                "--beta",
                "1",
                "--noise",
                "0.3",
                "--json",
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["status"] == "converged"


def test_diagnose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", "elliptical-t:5", "--dimension", "50", "--rows", "2000"]) == 0
    assert "norm" in capsys.readouterr().out
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).standard_normal((4000, 20)))
    assert run(["diagnose", str(tmp_path / "rows.npy"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trusted"] in (True, False)
    for arguments in (
        ["nofile.npy"],
        ["gaussian", "--dimension", "-3"],
        ["gaussian", "--rows", "none"],
        ["student-t:1"],
    ):
        assert run(["diagnose", *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "option",
    [
        {"optimizer": "adam"},
        {"optimizer": "muon"},
        {"weight_decay": 0.1},
        {"inputs": np.eye(50)[:, :20]},
        {"inputs": "student-t:5"},
        {"teacher_terms": ("relu",)},
        {"steps": 2},
        {"training": {"steps": 2}},
    ],
)
def test_compare_refuses_what_the_theory_does_not_know(option: dict[str, object]) -> None:
    problem = Problem(student="tanh", teacher="sin", alpha=2, beta=1)
    with pytest.raises(InvalidParameter, match="left at its default"):
        compare(problem, 20, 2, **option)


def test_compare_takes_defaults_that_are_said() -> None:
    problem = Problem(student="tanh", teacher="sin", alpha=2, beta=1)
    said = {"steps": "1", "batches": "fresh", "reuse": False, "optimizer": "gradient"}
    said |= {"weight_decay": 0, "damping": 0.1}
    silent, told = (compare(problem, 20, 2, test_samples=100, **each) for each in ({}, said))
    assert told.quantities == silent.quantities


def test_a_command_loads_only_what_it_needs() -> None:
    program = (
        "import sys; from firststep.cli import run; "
        "slow = ('scipy.interpolate', 'scipy.optimize'); "
        "print([name for name in slow if name in sys.modules]); run(['predict', *sys.argv[1:]]); "
        "heavy = ('jax', 'matplotlib', 'sklearn', 'starlette', 'pandas', 'scipy.stats'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *THEORY], capture_output=True, text=True, check=True
    )
    assert [done.stdout.splitlines()[place] for place in (0, -1)] == ["[]", "[]"]


def test_a_field_of_problem_is_a_flag_of_every_command_that_takes_one() -> None:
    """Nothing but Problem names its fields: a new one is a flag without a further line."""
    for command in ("simulate", "predict", "optimize", "compare", "baselines", "spectrum"):
        assert run([command, "--student", "tanh"]) == 2
    assert [field.name for field in dataclasses.fields(ProblemFlags)] == [
        *Problem.model_fields,
        "ridge_convention",
        "problem_file",
    ]


def test_a_flag_of_a_run_is_an_option_of_simulate() -> None:
    """By the same name and with the same default: the command passes on what it is given."""
    problem = Problem(student="tanh", teacher="sin", alpha=2, beta=1)
    found = simulate(problem, 20, **NO_RUN.options(), **NO_MODEL.options())
    assert np.array_equal(found.risk.values, simulate(problem, 20).risk.values)
    assert found.options == simulate(problem, 20).options


@pytest.mark.parametrize("terms", ["maximum(z,0)", "relu, maximum(z,0)"])
def test_terms_of_a_teacher_are_not_cut_at_every_comma(
    terms: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count = 2 + terms.count("relu")
    np.save(tmp_path / "w.npy", np.random.default_rng(0).standard_normal((20, 30)) / 20**0.5)
    np.save(tmp_path / "t.npy", np.eye(20)[:, :count])
    flags = ["--student", "tanh", "--teacher", "sin", "--alpha", "2", "--teacher-terms", terms]
    files = [str(tmp_path / "w.npy"), str(tmp_path / "t.npy")]
    assert run(["features", *files, *flags, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["teacher_terms"]) == count - 1


def test_inputs_components_and_terms_have_one_flag_each(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The flag is the field of the problem, whatever the command."""
    common = ["--student", "tanh", "--teacher", "sin", "--alpha", "2", "--beta", "1"]
    size = ["--dimension", "20", "--replicates", "2", "--test-samples", "200", "--json"]
    flags = ["--inputs", "power-law:0.5", "--teacher-overlaps", "-1,0.5" + ",0.25" * 18]
    fields = dict(inputs="power-law:0.5", teacher_overlaps=[-1, 0.5, *[0.25] * 18])
    problem = Problem(student="tanh", teacher="sin", alpha=2, beta=1, dimension=20, **fields)
    assert run(["simulate", *common, *flags, *size]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = simulate(problem, replicates=2, test_samples=200)
    assert found["risk"]["mean"] == pytest.approx(expected.risk.mean)
    assert Problem(**found["problem"]) == problem
    assert run(["baselines", *common, *flags, *size, "--models", "linear"]) == 0
    assert json.loads(capsys.readouterr().out)["problem"] == found["problem"]
    (tmp_path / "p.toml").write_text(problem.to_toml())
    assert run(["simulate", "--problem", str(tmp_path / "p.toml"), *size[2:]]) == 0
    assert json.loads(capsys.readouterr().out)["risk"] == found["risk"]
    assert run(["simulate", *common, "--teacher-terms", "relu,maximum(z, 0.5*z)", *size]) == 0
    assert json.loads(capsys.readouterr().out)["options"]["teacher_terms"] == [
        "relu",
        "maximum(z, 0.5*z)",
    ]
    assert run(["simulate", *common, *flags[:2], *size, "--model", "spiked"]) == 2
    assert "any but spiked with inputs power-law:0.5" in capsys.readouterr().err
