"""``inspect``: the bulk of every matrix of a model, what stands out of it, and what training moved.

The table has a line for the weights of every matrix and, where the model before training is given,
one for the change W - W0.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from firststep.checks import flag
from firststep.errors import InvalidParameter, nearest, shown
from firststep.results import Interrupted, Shown, per_cent, versions, with_error
from firststep.trained.files import Tensor, names_of
from firststep.trained.look import Look, Overlaps, look_at, look_at_factors, overlaps
from firststep.trained.tensors import Factors, Source, factors_of, matrix_of
from firststep.writing import write_csv

LARGEST = 8192  # short side; beyond, minutes and gigabytes: only when it is named
_SPEED = 2e10  # operations a second, of one core
_BYTES = 5 * 8  # of an entry, while a matrix is looked at: copies in double precision
_DETAILED = 3  # layers: of more only the table is printed
HEAD = ("matrix", "shape", "bulk", "sd", "edge", "stand out", "largest", "ratio", "share")


@dataclass(frozen=True, eq=False)
class LayerLook:
    """One matrix of a model: its weights, what training changed, and what the two share."""

    name: str
    shape: tuple[int, ...]
    weights: Look | None  # none: zeros, or of a pair of factors, which is a change
    change: Look | None  # none: no weights before, or no change
    # First directions of W - W0 beside those of W, and of W0 beside those of W.
    with_change: Overlaps | None = None
    with_initial: Overlaps | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        parts = ("weights", "change", "with_change", "with_initial")
        found: dict[str, Any] = {"name": self.name, "shape": list(self.shape)}
        for part in parts:
            value = getattr(self, part)
            found[part] = None if value is None else value.to_dict()
        return {**found, "note": self.note}


@dataclass(frozen=True, eq=False, repr=False)
class Inspection(Shown):
    """A look into trained weights: what ``inspect`` returns."""

    source: str
    before: str | None
    layers: tuple[LayerLook, ...]
    skipped: tuple[tuple[str, str], ...]  # (name, why)
    seconds: float
    interrupted: bool = False

    def __getitem__(self, name: str) -> LayerLook:
        return {layer.name: layer for layer in self.layers}[name]

    def __iter__(self) -> Iterator[LayerLook]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def title(self) -> str:
        count = f"{len(self.layers)} matri{'ces' if len(self.layers) != 1 else 'x'}"
        before = "" if self.before is None else f", before training {shown(self.before, 60)}"
        return f"{shown(self.source, 60)}: {count}{before}"

    @property
    def head(self) -> Sequence[str]:
        return HEAD

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The lines of the table: matrix, shape, bulk, sd of its entries, where it ends, how many
        values stand out, the largest, its ratio to the second, and the share of the squared norm.
        """
        for layer in self.layers:
            shape = " x ".join(map(str, layer.shape))
            lines = [(layer.name, layer.weights), (f"{layer.name}, change", layer.change)]
            lines = [line for line in lines if line[1] is not None]
            for name, look in lines or [(layer.name, None)]:
                yield (shown(name, 50), shape, *_cells(look))

    def notes(self) -> Iterator[str]:
        if len(self.layers) <= _DETAILED:
            for layer in self.layers:
                yield from _details(layer)
        for layer in self.layers:
            if layer.note:
                yield f"  {shown(layer.name, 50)}: {layer.note}"
        reasons: dict[str, list[str]] = {}
        for name, why in self.skipped:
            reasons.setdefault(why, []).append(name)
        for why, names in reasons.items():
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield f"  skipped, {why}: {', '.join(shown(name, 40) for name in names[:3])}{more}"
        if self.interrupted:
            yield "interrupted: only the finished matrices are shown"

    def to_dict(self) -> dict[str, Any]:
        """Plain values fit for JSON."""
        return {
            "source": self.source,
            "before": self.before,
            "layers": [layer.to_dict() for layer in self.layers],
            "skipped": [{"name": name, "reason": why} for name, why in self.skipped],
            "seconds": self.seconds,
            "versions": versions(),
            "interrupted": self.interrupted,
        }

    def to_csv(self, path: Path) -> Path:
        """The table with all numbers, a line for each matrix and each change."""
        fits = ("kind", "count", "deviation", "edge", "threshold", "distance", "bound", "kurtosis")
        names = (*fits, "norm", "ratio", "share", "effective_rank")
        lines: list[tuple[Any, ...]] = [("matrix", "of", "rows", "columns", "largest", *names)]
        for layer in self.layers:
            for of, look in (("weights", layer.weights), ("change", layer.change)):
                if look is not None:
                    values = (getattr(look, name) for name in names)
                    lines.append((layer.name, of, *look.shape, look.values[0], *values))
        write_csv(path, lines)
        return path


def _cells(look: Look | None) -> tuple[str, ...]:
    if look is None:
        return "zeros", *["-"] * 6

    def number(value: float) -> str:
        return f"{value:.4g}" if math.isfinite(value) else "-"

    return (
        look.words,
        number(look.deviation),
        number(look.edge),
        "-" if look.count is None else str(look.count),
        number(float(look.values[0])),
        number(look.ratio),
        per_cent(look.share),
    )


def _details(layer: LayerLook) -> Iterator[str]:
    """All that is known of a layer, in lines."""
    for name, look in ((layer.name, layer.weights), (f"{layer.name}, change", layer.change)):
        if look is None:
            continue
        fits = ""
        if math.isfinite(look.distance):
            fits = f"; distance to noise {look.distance:.4f}, noise has less than {look.bound:.4f}"
        word = "" if look.is_noise else "not of this kind: "
        yield f"  {shown(name, 50)}: {word}{look.reason}{fits}"
        if look.zero_rows or look.zero_columns:
            yield f"    {look.zero_rows} rows and {look.zero_columns} columns of zeros left out"
        if not look.count:
            values = ", ".join(f"{value:.4g}" for value in look.values[:5])
            rank = f"effective rank {look.effective_rank:.1f}"
            yield f"    largest values {values}; {rank} of {len(look.values)}"
        scaled = " of the scaled matrix" if look.is_scaled else ""
        for k, each in enumerate(look.outliers[:5], 1):
            chance = f", p = {each.p_value:.1g}" if math.isfinite(each.p_value) else ""
            chance = ", p < 1e-10" if each.p_value < 1e-10 else chance
            yield (
                f"    outlier {k}{scaled}: {each.value:.5g}{chance}; before noise "
                f"{with_error(each.size, each.size_error)}, squared overlap of rows "
                f"{each.rows_overlap:.3f}, of columns {each.columns_overlap:.3f}"
            )
    if layer.with_change is not None:
        yield from _overlap_lines("weights with change", layer.with_change)
    if layer.with_initial is not None:
        yield from _overlap_lines("weights with those before", layer.with_initial)


def _overlap_lines(words: str, found: Overlaps) -> Iterator[str]:
    for side, table, chance in (
        ("rows", found.rows, found.rows_chance),
        ("columns", found.columns, found.columns_chance),
    ):
        parts = "; ".join(", ".join(f"{value:.3f}" for value in line) for line in table[:3, :3])
        told = f"by chance less than {chance:.3f}"
        yield f"    {words}, squared overlaps of the first directions, {side}: {parts} ({told})"


def inspect(
    weights: object,
    before: object = None,
    *,
    layer: str | Sequence[str] | None = None,
    flatten: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Inspection:
    """Look into trained weights: bulk, outliers with error bars, and what training changed.

    Args:
        weights: a .safetensors, .npz or .npy file, one tensor of it (``file:tensor``), an array, or
            a mapping of names to arrays such as a state dict of PyTorch. Pairs of LoRA factors are
            changes on their own.
        before: the same before training, matched by name: W - W0 is then looked at too.
        layer: names of the matrices to look at, or patterns with *; default: all.
        flatten: look at tensors of more than two axes as matrices, the first axis against all
            others; otherwise they are skipped.
        progress: called with (finished, total) after every matrix.
    """
    begin = time.perf_counter()
    flatten = flag("flatten", flatten)
    source = Source.of(weights, "weights")
    start = None if before is None else Source.of(before, "before")
    wanted, skipped = _wanted(source, layer, flatten)
    found: list[LayerLook] = []

    def told(interrupted: bool) -> Inspection:
        return Inspection(
            source=source.words,
            before=None if start is None else start.words,
            layers=tuple(found),
            skipped=tuple(skipped),
            seconds=time.perf_counter() - begin,
            interrupted=interrupted,
        )

    try:
        for number, each in enumerate(wanted):
            found.append(_layer(each, source, start))
            if progress is not None:
                progress(number + 1, len(wanted))
    except KeyboardInterrupt:
        done = f"interrupted: {len(found)} of {len(wanted)} matrices finished"
        raise Interrupted(told(True) if found else None, done) from None
    return told(False)


def _wanted(
    source: Source, layer: str | Sequence[str] | None, flatten: bool
) -> tuple[list[Tensor | Factors], list[tuple[str, str]]]:
    """What is looked at, and what is not and why."""
    patterns = _patterns(layer)
    pairs, used = factors_of(source.tensors)
    candidates: list[Tensor | Factors] = [*pairs]
    candidates += [each for name, each in source.tensors.items() if name not in used]
    names = [each.name for each in candidates]
    for pattern in patterns:
        if not any(_matches(name, pattern) for name in names):
            hint = nearest(pattern, names) or f"there are {names_of(source.tensors)}"
            raise InvalidParameter("layer", "the name of a matrix, or a pattern", pattern, hint)
    wanted: list[Tensor | Factors] = []
    skipped: list[tuple[str, str]] = []
    for each in candidates:
        if patterns and not any(_matches(each.name, pattern) for pattern in patterns):
            continue
        reason = "" if isinstance(each, Factors) else _unsuited(each, flatten)
        if not reason and each.name not in patterns:
            reason = _too_large(each.shape)
        if reason:
            skipped.append((each.name, reason))
        else:
            wanted.append(each)
    if not wanted:
        hint = f"{shown(skipped[0][0], 40)}: {skipped[0][1]}" if skipped else "there is no tensor"
        allowed = "tensors with at least one matrix of floating-point numbers"
        raise InvalidParameter("weights", allowed, source.words, hint)
    return wanted, skipped


def _patterns(layer: object) -> tuple[str, ...]:
    if layer is None:
        return ()
    if isinstance(layer, str):
        return (layer,)
    if isinstance(layer, Sequence) and all(isinstance(each, str) for each in layer):
        return tuple(layer)
    raise InvalidParameter("layer", "a name, a pattern, or several of them", layer)


def _matches(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)


def _unsuited(tensor: Tensor, flatten: bool) -> str:
    """Why a tensor is no matrix to look at; nothing if it is one."""
    if not tensor.is_float:
        return f"type {tensor.dtype} is no floating-point number that can be read"
    if len(tensor.shape) < 2:
        return "no matrix"
    if len(tensor.shape) > 2 and not flatten:
        return "more than two axes (flatten looks at the first against all others)"
    if tensor.entries == 0:
        return "empty"
    return ""


def _too_large(shape: tuple[int, ...]) -> str:
    rows, columns = shape[0], math.prod(shape[1:])
    long, short = max(rows, columns), min(rows, columns)
    if short <= LARGEST and long * short <= LARGEST * 16 * LARGEST:
        return ""
    # Products and eigenvalues for the law, and again for rows and columns of one size.
    seconds = 3 * (2 * long * short**2 + 1.4 * short**3) / _SPEED
    size = _BYTES * long * short / 2**30
    minutes = max(1, round(seconds / 60))
    return f"large: about {minutes} minutes of a core and {size:.0f} GiB; name it as the layer"


def _layer(each: Tensor | Factors, source: Source, start: Source | None) -> LayerLook:
    if isinstance(each, Factors):
        return _pair(each)
    matrix = matrix_of(each, "weights")
    other, note = (None, "") if start is None else _before(each, source, start)
    look = look_at(matrix)
    found = LayerLook(each.name, each.shape, look, None, note=note)
    if other is None:
        return found
    initial = matrix_of(other, "before")
    changed = look_at(matrix - initial)
    if changed is None:
        return replace(found, note="did not change")
    if look is None:
        return replace(found, change=changed)
    first = look_at(initial)
    return replace(
        found,
        change=changed,
        with_change=overlaps(look, changed),
        with_initial=None if first is None else overlaps(look, first),
    )


def _before(each: Tensor, source: Source, start: Source) -> tuple[Tensor | None, str]:
    """The tensor before training: of the same name, or the only one where there is only one."""
    other = start.tensors.get(each.name)
    if other is None and len(source.tensors) == 1 and len(start.tensors) == 1:
        (other,) = start.tensors.values()
    if other is None:
        return None, "not there before training"
    if other.shape != each.shape:
        given = f"{shown(other.name, 60)} of shape {other.shape}"
        allowed = f"of the shapes of the weights, {each.shape}"
        raise InvalidParameter("before", allowed, given)
    return other, ""


def _pair(pair: Factors) -> LayerLook:
    down, up = matrix_of(pair.down, "weights"), matrix_of(pair.up, "weights")
    scale = pair.scale()
    if not np.isfinite(scale):
        raise InvalidParameter("weights", "tensors of finite numbers", f"{pair.name}.alpha")
    found = look_at_factors(down, up, scale)
    told = "" if pair.alpha is None else f" times alpha/r = {scale:.4g}"
    note = f"B A of the pair of factors{told}"
    return LayerLook(pair.name, pair.shape, None, found, note=note)
