"""Options of the verbs: how to run, and how plain keywords become records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field

from firststep.checks import MAX_SIZE, choice, whole
from firststep.errors import InvalidParameter, nearest
from firststep.records import Record
from firststep.simulation.backends import BACKENDS, DEVICES, DTYPES
from firststep.simulation.running.workers import Workers

R = TypeVar("R", bound=Record)


def _whole(name: str, low: int, high: int | None = None) -> BeforeValidator:
    return BeforeValidator(lambda value: whole(name, value, low, high))


def _whole_or_none(name: str, low: int, high: int | None = None) -> BeforeValidator:
    return BeforeValidator(lambda v: None if v is None else whole(name, v, low, high))


def _one_of(name: str, options: tuple[str, ...]) -> BeforeValidator:
    return BeforeValidator(lambda value: choice(name, value, options))


def _workers(value: object) -> int | Workers | None:
    return value if value is None or isinstance(value, Workers) else whole("workers", value, 1)


class Run(Record):
    """How a simulation is run: which replicates, on what, and how much at a time.

    ``replicates`` independent experiments from number ``first_replicate``, with the ``seed``;
    ``test_samples`` for each (none: max(2000, 4 d)). ``backend`` numpy or jax on ``device`` auto,
    cpu or gpu with ``dtype`` float64 or float32; ``workers`` processes, or ``Workers`` that several
    calls share (none: as many as pay), with ``threads`` of BLAS each; ``block`` rows of data at a
    time (none: by shape).
    """

    replicates: Annotated[int, _whole("replicates", 1, MAX_SIZE)] = Field(
        default=10, description="independent experiments"
    )
    seed: Annotated[int, _whole("seed", 0)] = Field(
        default=0, description="seed of all random numbers"
    )
    first_replicate: Annotated[int, _whole("first-replicate", 0, MAX_SIZE)] = Field(
        default=0, description="number of the first replicate"
    )
    test_samples: Annotated[int | None, _whole_or_none("test-samples", 2, MAX_SIZE)] = Field(
        default=None, description="size of each test set; default max(2000, 4d)"
    )
    backend: Annotated[str, _one_of("backend", BACKENDS)] = Field(
        default="numpy", description="numpy, or jax (GPU if there is one)"
    )
    device: Annotated[str, _one_of("device", DEVICES)] = Field(
        default="auto", description="auto, cpu or gpu, for the jax backend"
    )
    dtype: Annotated[str, _one_of("dtype", DTYPES)] = Field(
        default="float64", description="float64 or float32"
    )
    workers: Annotated[int | Workers | None, BeforeValidator(_workers)] = Field(
        default=None, description="processes; default: by cores and size"
    )
    threads: Annotated[int, _whole("threads", 1)] = Field(
        default=1, description="BLAS threads of each process"
    )
    block: Annotated[int | None, _whole_or_none("block", 1)] = Field(
        default=None, description="rows of data handled at a time; default: by shape"
    )

    @property
    def where(self) -> tuple[str, str, str, int]:
        """What ``make_backend`` takes."""
        return self.backend, self.device, self.dtype, self.threads

    def to_dict(self) -> dict[str, Any]:
        workers = self.workers.count if isinstance(self.workers, Workers) else self.workers
        return {**super().to_dict(), "workers": workers}


def gathered(kind: type[R], given: object, keywords: dict[str, object]) -> R:
    """The record given, or that of the keywords that are its fields, which are used up."""
    own = {name: keywords.pop(name) for name in kind.model_fields if name in keywords}
    if given is None:
        return kind(**own)
    word = kind.__name__.lower()
    if isinstance(given, Mapping):
        given = kind(**given)
    if not isinstance(given, kind):
        raise InvalidParameter(word, f"a {kind.__name__}, or a table of its fields", given)
    for name, value in own.items():
        allowed = f"given in {word} or as a keyword, not both"
        raise InvalidParameter(name.replace("_", "-"), allowed, value)
    return given


def nothing_left(verb: str, keywords: Mapping[str, object], *kinds: type[Record]) -> None:
    """Refuse keywords that are no option."""
    for name, value in keywords.items():
        known = [field for kind in kinds for field in kind.model_fields]
        hint = nearest(name, known) or f"the options are {', '.join(known)}"
        raise InvalidParameter(name.replace("_", "-"), f"an option of {verb}", value, hint)
