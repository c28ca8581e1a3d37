"""The command line: parse, call the library, print. No mathematics."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter

import firststep
from firststep.cli_explore import explore as run_explorer
from firststep.cli_features import features as run_features
from firststep.cli_spectrum import command as spectrum_command
from firststep.cli_sweep import reproduce, sweep_app
from firststep.errors import FirststepError, InvalidParameter
from firststep.problem import Problem, read_toml, whole
from firststep.results import Interrupted
from firststep.simulation.design import BASELINES, MODEL_MEANINGS, MODELS


def _problem_flags() -> type:
    """A dataclass with one text flag per field of Problem: values are parsed and checked by Problem alone."""

    def flag(text: str | None, several: bool = False, **options: Any) -> Parameter:
        return Parameter(
            help=text,
            group="Problem",
            allow_leading_hyphen=not several,
            consume_multiple=several,
            negative=(),
            **options,
        )

    fields: list[Any] = []
    for name, field in Problem.model_fields.items():
        several = name == "ridge"
        default = (
            ""
            if field.is_required() or field.default_factory or name == "dimension"
            else f" [default: {field.default}]"
        )
        kind = list[str] if several else str
        fields.append(
            (name, Annotated[kind | None, flag(f"{field.description}{default}", several)], None)
        )
    convention = "ba: (1/n)|y - Phi a|^2 + (ridge/N)|a|^2; cui: sum |y - Phi a|^2 + ridge |a|^2 [default: ba]"
    fields.append(("ridge_convention", Annotated[str | None, flag(convention)], None))
    file = "TOML file with some of these fields; flags override it"
    fields.append(("problem_file", Annotated[Path | None, flag(file, name="--problem")], None))
    made = dataclasses.make_dataclass(
        "ProblemFlags", fields, namespace={"__module__": __name__}, frozen=True, kw_only=True
    )
    return Parameter(name="*")(made)


ProblemFlags = _problem_flags()


@Parameter(name="*", group="Run")
@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFlags:
    """How to run: shared by simulate and baselines."""

    replicates: Annotated[
        str, Parameter(help="independent experiments", allow_leading_hyphen=True)
    ] = "10"
    seed: Annotated[
        str, Parameter(help="seed of all random numbers", allow_leading_hyphen=True)
    ] = "0"
    backend: Annotated[str, Parameter(help="numpy, or jax (GPU if there is one)")] = "numpy"
    device: Annotated[str, Parameter(help="auto, cpu or gpu, for the jax backend")] = "auto"
    dtype: Annotated[str, Parameter(help="float64 or float32")] = "float64"
    workers: Annotated[
        str | None,
        Parameter(help="processes; default: by cores and size", allow_leading_hyphen=True),
    ] = None
    test_samples: Annotated[
        str | None, Parameter(help="size of each test set; default max(2000, 4d)")
    ] = None
    json: Annotated[bool, Parameter(help="print one JSON object and nothing else", negative=())] = (
        False
    )

    def options(self) -> dict[str, Any]:
        given = {
            name: getattr(self, name)
            for name in ("replicates", "seed", "backend", "device", "dtype", "test_samples")
        }
        return {**given, "workers": self.workers}


app = App(
    name="firststep",
    help="What one gradient step does to a two-layer network.",
    version=firststep.__version__,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)


def _given(flags: Any) -> dict[str, Any]:
    table = read_toml(flags.problem_file) if flags.problem_file else {}
    given = {
        f.name: getattr(flags, f.name)
        for f in dataclasses.fields(flags)
        if f.name != "problem_file"
    }
    return {**table, **{name: value for name, value in given.items() if value is not None}}


def _problem(flags: Any) -> Problem:
    return Problem(**_given(flags))


@app.command
def simulate(
    problem: ProblemFlags = ProblemFlags(),  # type: ignore[valid-type]  # noqa: B008
    run: RunFlags = RunFlags(),  # noqa: B008
    *,
    model: Annotated[str, Parameter(help="one of " + ", ".join(MODELS))] = "network",
    steps: Annotated[
        str, Parameter(help="number of gradient steps", allow_leading_hyphen=True)
    ] = "1",
    batches: Annotated[
        str, Parameter(help="fresh batch for every step, or the same one")
    ] = "fresh",
    reuse: Annotated[
        bool, Parameter(help="fit the readout on the step's own data", negative=())
    ] = False,
    parameterization: Annotated[str, Parameter(help="mean-field or ntk")] = "mean-field",
    optimizer: Annotated[str, Parameter(help="gradient, momentum or adam")] = "gradient",
    inputs: Annotated[
        str,
        Parameter(
            help="law of the inputs (gaussian, rademacher, uniform, student-t:NU, elliptical-t:NU, power-law:A, mixture:R), or a "
            "file of samples (.npy, .npz, .parquet, .csv), with options after commas: data.npz,key=x,standardize"
        ),
    ] = "gaussian",
    teacher_terms: Annotated[
        str | None,
        Parameter(
            help="further terms of the teacher, such as relu,tanh", allow_leading_hyphen=True
        ),
    ] = None,
    kernel: Annotated[
        str | None,
        Parameter(help="g of a kernel baseline, an expression in z", allow_leading_hyphen=True),
    ] = None,
) -> int:
    """Run the experiment at finite size and print what was measured.

    Example: firststep simulate --student tanh --teacher sin --alpha 3 --beta 1 --alpha0 20 --step 3 --ridge 0.0333 --dimension 1000
    --replicates 20 --seed 0
    """
    question = _problem(problem)
    with _Bar(run.json, model) as bar:
        result = firststep.simulate(
            question,
            model=model,
            steps=whole("steps", steps, 1),
            batches=batches,
            reuse=reuse,
            parameterization=parameterization,
            optimizer=optimizer,
            inputs=inputs,
            teacher_terms=teacher_terms,
            kernel=kernel,
            progress=bar,
            **run.options(),
        )
    _print(result, run.json)
    return 0


_BULK = Annotated[
    str, Parameter(help="exact: the true network; isotropic: the spiked random features model")
]
_JSON = Annotated[bool, Parameter(help="print one JSON object and nothing else", negative=())]


@app.command
def predict(
    problem: ProblemFlags = ProblemFlags(),  # type: ignore[valid-type]  # noqa: B008
    *,
    bulk: _BULK = "exact",
    json: _JSON = False,
) -> int:
    """Print the exact asymptotic risk and what explains it, in milliseconds.

    Example: firststep predict --student tanh --teacher sin --alpha 3 --beta 1 --alpha0 20 --step 3 --ridge 0.0333 --readout ones
    """
    result = firststep.predict(_problem(problem), bulk=bulk)
    _print(result, json)
    solved = (
        result.status == "converged"
        if result.shape == ()
        else bool((result.status == "converged").all())
    )
    if not solved:
        _complain("some points could not be solved: their status says why, and they have no number")
    return 0 if solved else 1


@app.command
def optimize(
    problem: ProblemFlags = ProblemFlags(),  # type: ignore[valid-type]  # noqa: B008
    *,
    over: Annotated[
        str, Parameter(help="one or two of ridge, step, alpha0, beta, separated by a comma")
    ] = "ridge,step",
    bulk: _BULK = "exact",
    json: _JSON = False,
) -> int:
    """Find the ridge, step, ... of least predicted risk.

    Example: firststep optimize --over ridge,step --student tanh --teacher sin --alpha 3 --beta 1 --alpha0 20 --readout ones
    """
    _print(firststep.optimal(_problem(problem), over, bulk=bulk), json)
    return 0


@app.command
def compare(
    problem: ProblemFlags = ProblemFlags(),  # type: ignore[valid-type]  # noqa: B008
    run: RunFlags = RunFlags(),  # noqa: B008
    *,
    model: Annotated[str, Parameter(help="one of network, spiked, random-features")] = "network",
) -> int:
    """Simulate at finite size and print theory, simulation, difference and z-score.

    Example: firststep compare --student relu --teacher tanh --alpha 2 --beta 1 --step 1 --noise 0.1 --dimension 500 --replicates 20
    """
    question = _problem(problem)
    with _Bar(run.json, model) as bar:
        result = firststep.compare(question, model=model, progress=bar, **run.options())
    _print(result, run.json)
    return 0


@app.command
def baselines(
    problem: ProblemFlags = ProblemFlags(),  # type: ignore[valid-type]  # noqa: B008
    run: RunFlags = RunFlags(),  # noqa: B008
    *,
    models: Annotated[
        list[str] | None,
        Parameter(help="which models; default: every baseline", consume_multiple=True, negative=()),
    ] = None,
    inner_product_kernel: Annotated[
        str, Parameter(help="g(<x, y>/d)", allow_leading_hyphen=True)
    ] = "exp(z)",
    distance_kernel: Annotated[
        str, Parameter(help="g(|x - y|^2/d)", allow_leading_hyphen=True)
    ] = "exp(-0.5*z)",
) -> int:
    """Run the fixed-kernel and linear baselines on the same data, with the kernel lower bound."""
    question = _problem(problem)
    chosen = tuple(models or BASELINES)
    with _Bar(run.json, "baselines", parts=len(chosen)) as bar:
        result = firststep.baselines(
            question,
            models=chosen,
            inner_product_kernel=inner_product_kernel,
            distance_kernel=distance_kernel,
            progress=bar,
            **run.options(),
        )
    _print(result, run.json)
    return 0


@app.command
def features(
    weights: Annotated[Path, Parameter(help="the first layer, .npy: d x N, one column a neuron")],
    direction: Annotated[
        Path, Parameter(help="the teacher's direction, .npy: d numbers of norm 1")
    ],
    problem: ProblemFlags = ProblemFlags(),  # type: ignore[valid-type]  # noqa: B008
    *,
    initial: Annotated[Path | None, Parameter(help="the first layer before training, .npy")] = None,
    bias: Annotated[
        Path | None, Parameter(help="N numbers added to the pre-activations, .npy")
    ] = None,
    covariance: Annotated[
        Path | None, Parameter(help="covariance of the inputs, .npy: d x d")
    ] = None,
    neurons: Annotated[str, Parameter(help="columns, or rows as in PyTorch")] = "columns",
    directions: Annotated[
        str, Parameter(help="auto, or how many directions to condition on, 0 to 3")
    ] = "auto",
    teacher_terms: Annotated[
        str,
        Parameter(
            help="further terms of the teacher, separated by commas; the direction then has a column a term"
        ),
    ] = "",
    replicates: Annotated[
        str, Parameter(help="also fit the layer on so many data sets, and compare")
    ] = "0",
    seed: Annotated[
        str, Parameter(help="seed of these data sets", allow_leading_hyphen=True)
    ] = "0",
    backend: Annotated[str, Parameter(help="numpy, or jax (GPU if there is one)")] = "numpy",
    device: Annotated[str, Parameter(help="auto, cpu or gpu, for the jax backend")] = "auto",
    json: _JSON = False,
) -> int:
    """Predict the ridge risk of a trained first layer from its weights, whatever trained it. beta is taken from the file.

    Example: firststep features W1.npy theta.npy --initial W0.npy --student relu --teacher tanh --alpha 2 --ridge 0.01 --noise 0.1
    """
    files = {
        "weights": weights,
        "direction": direction,
        "initial": initial,
        "bias": bias,
        "covariance": covariance,
    }
    with _Bar(json, "features") as bar:
        result = run_features(
            _given(problem),
            files,
            teacher_terms=teacher_terms,
            directions=directions,
            neurons=neurons,
            replicates=replicates,
            seed=seed,
            backend=backend,
            device=device,
            progress=bar,
        )
    _print(result, json)
    return 0


@app.command
def diagnose(
    inputs: Annotated[
        str,
        Parameter(
            help="a file (.npy, .npz, .parquet, .csv), options after commas, or a law such as student-t:5"
        ),
    ],
    *,
    dimension: Annotated[
        str | None, Parameter(help="d, for a law", allow_leading_hyphen=True)
    ] = None,
    rows: Annotated[
        str | None, Parameter(help="how many rows to look at", allow_leading_hyphen=True)
    ] = None,
    seed: Annotated[
        str, Parameter(help="which rows, and which directions", allow_leading_hyphen=True)
    ] = "0",
    json: _JSON = False,
) -> int:
    """Say whether the theory of Gaussian inputs can be trusted for given data. Exit code 0 either way; --json has "trusted".

    Example: firststep diagnose embeddings.npy,standardize
    """
    size = None if dimension is None else whole("dimension", dimension, 2)
    count = None if rows is None else whole("rows", rows, 1)
    _print(firststep.diagnose_inputs(inputs, size, rows=count, seed=whole("seed", seed, 0)), json)
    return 0


@app.command
def demo(
    *,
    out: Annotated[Path, Parameter(help="folder for the figure and its data")] = Path("demo"),
    dimension: Annotated[
        str, Parameter(help="d of the simulated networks", allow_leading_hyphen=True)
    ] = "400",
    replicates: Annotated[
        str, Parameter(help="networks per point", allow_leading_hyphen=True)
    ] = "8",
    seed: Annotated[str, Parameter(allow_leading_hyphen=True)] = "0",
) -> int:
    """Draw risk against sample size for erf learning erf: theory and simulation of a small and a large step, random features."""
    from firststep.figures import demo as figure

    figure.prepare(out)
    with _Bar(False, "demo", parts=figure.PARTS) as bar:
        table = figure.compute(dimension=dimension, replicates=replicates, seed=seed, progress=bar)
    written = figure.write(table, out)
    print(figure.text(table))
    print("wrote " + " and ".join(str(path) for path in written))
    return 0


@app.command
def models() -> int:
    """List the models that simulate and baselines can run."""
    for name, meaning in MODEL_MEANINGS.items():
        print(f"{name:<22}{meaning}")
    return 0


@app.command
def explore(
    problem: ProblemFlags = ProblemFlags(),  # type: ignore[valid-type]  # noqa: B008
    *,
    host: Annotated[
        str,
        Parameter(
            help="address to listen on; others than 127.0.0.1 need the token that is printed"
        ),
    ] = "127.0.0.1",
    port: Annotated[
        str, Parameter(help="port; default: a free one", allow_leading_hyphen=True)
    ] = "0",
    browser: Annotated[
        bool, Parameter(help="open the page in the browser", negative="--no-browser")
    ] = True,
    workers: Annotated[
        str | None,
        Parameter(help="processes for simulations; default: by cores", allow_leading_hyphen=True),
    ] = None,
    export: Annotated[
        Path | None,
        Parameter(help="write one self-contained HTML file with a precomputed grid instead"),
    ] = None,
) -> int:
    """Serve the interactive page on this machine, or write it as one file that works by double click.

    Example: firststep explore --student relu --teacher tanh --readout signs
    """
    return run_explorer(_given(problem), host, port, browser, workers, export)


app.command(sweep_app)
app.command(reproduce)


class _Bar:
    """A progress bar on the terminal's stderr; silent when stderr is not a terminal or JSON is asked."""

    def __init__(self, silent: bool, words: str, parts: int = 1) -> None:
        self._silent = silent or not sys.stderr.isatty()
        self._words, self._parts, self._before, self._last = words, parts, 0, 0

    def __enter__(self) -> Callable[[int, int], None] | None:
        if self._silent:
            return None
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._progress.start()
        self._task = self._progress.add_task(self._words, total=None)
        return self._advance

    def _advance(self, finished: int, total: int) -> None:
        if finished <= self._last:  # the next of several runs has begun
            self._before += self._last
        self._last = finished
        self._progress.update(
            self._task, completed=self._before + finished, total=total * self._parts
        )

    def __exit__(self, *_: object) -> None:
        if not self._silent:
            self._progress.stop()


def _print(result: Any, as_json: bool) -> None:
    print(json.dumps(result.to_dict(), allow_nan=False) if as_json else str(result))


app.command(spectrum_command(ProblemFlags, _given, _Bar, _print))


def _wants_json(arguments: Sequence[str]) -> bool:
    return any(each.split("=")[0] == "--json" for each in arguments)


def _complain(message: str) -> None:
    for line in message.splitlines():
        print(f"error: {line}", file=sys.stderr)


def _interrupted(error: KeyboardInterrupt, arguments: Sequence[str]) -> None:
    """Say what is finished, and print it."""
    partial = error.result if isinstance(error, Interrupted) else None
    if partial is not None:
        _print(partial, _wants_json(arguments))
    print(str(error) or "interrupted", file=sys.stderr)


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one command line: 0 done, 1 failed, 2 wrong input, 130 interrupted."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    try:
        result = app(tokens, exit_on_error=False, print_error=False, help_on_error=False)
        return result if isinstance(result, int) else 0
    except CycloptsError as error:
        _complain(" ".join(str(error).split()))
        return 2
    except InvalidParameter as error:
        _complain(str(error))
        return 2
    except FirststepError as error:
        if getattr(error, "result", None) is not None:
            _print(error.result, _wants_json(tokens))  # type: ignore[attr-defined]
        _complain(str(error))
        return 1
    except KeyboardInterrupt as error:
        _interrupted(error, tokens)
        return 130
    except MemoryError:
        _complain("out of memory; try a smaller --dimension or fewer --workers")
        return 1


def main() -> None:
    try:
        code = run()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except BrokenPipeError:  # the reader of our output has gone: nobody to tell
        os._exit(1)
    except OSError as error:
        _complain(f"the output could not be written: {error.strerror}")
        os._exit(1)
    if code == 130:
        os._exit(130)  # do not wait for anything
    sys.exit(code)


if __name__ == "__main__":
    main()
