"""What a caller names: a file, one tensor of it, arrays of Python; matrices and pairs of factors.

``model.safetensors:fc1.weight`` is one tensor of a file. Names of Windows have a colon too, so the
one that counts stands behind the ending of the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from firststep.checks import real_array
from firststep.errors import InvalidParameter, nearest, shown
from firststep.trained.files import Tensor, held, names_of, open_tensors

if TYPE_CHECKING:
    from firststep.typing import Array, Float

_INSIDE = re.compile(r"(.+\.(?:safetensors|npz|npy)):(.+)", re.IGNORECASE | re.DOTALL)
# The two factors of a low-rank change, as PEFT and as Kohya's scripts name them: change = B A.
_DOWN = re.compile(
    r"(?P<stem>.*?)[._](?:lora_A|lora_down)(?:\.(?!weight$)[^.]+)?(?:\.weight)?", re.DOTALL
)
_UP = {"lora_A": "lora_B", "lora_down": "lora_up"}


def split_name(source: str) -> tuple[str, str | None]:
    """The file and the tensor of ``file:tensor``; a file that is there is a file."""
    found = None if os.path.exists(source) else _INSIDE.fullmatch(source)
    return (source, None) if found is None else (found[1], found[2])


@dataclass(frozen=True, eq=False)
class Source:
    """The tensors that were named, and where they are from."""

    words: str  # for titles
    tensors: dict[str, Tensor]

    @classmethod
    def of(cls, given: object, parameter: str) -> Source:
        """Of a file, ``file:tensor``, an array, or a mapping of names to arrays."""
        if isinstance(given, str | Path):
            name, wanted = split_name(str(given))
            tensors = open_tensors(Path(name), parameter)
            if wanted is not None:
                tensors = {wanted: chosen(tensors, wanted, parameter, name)}
            return cls(str(given), tensors)
        if isinstance(given, Mapping):
            return cls("arrays", {str(name): _array(str(name), a) for name, a in given.items()})
        if given is None or isinstance(given, bytes | int | float | complex | list | tuple):
            allowed = "a file, file:tensor, an array, or a mapping of names to arrays"
            raise InvalidParameter(parameter, allowed, given)
        return cls("an array", {"weights": _array("weights", given)})

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]


def chosen(tensors: dict[str, Tensor], name: str, parameter: str, file: str) -> Tensor:
    """The tensor of this name."""
    if name not in tensors:
        hint = nearest(name, tensors) or f"{shown(file, 60)} holds {names_of(tensors)}"
        raise InvalidParameter(parameter, "the name of a tensor there", name, hint)
    return tensors[name]


def _array(name: str, source: object) -> Tensor:
    """An array of NumPy, JAX or PyTorch; the last without importing it."""
    if hasattr(source, "detach"):
        source = source.detach()
        source = source.cpu() if hasattr(source, "cpu") else source
        if "bfloat16" in str(getattr(source, "dtype", "")) and hasattr(source, "float"):
            source = source.float()
    array = np.asarray(source) if not isinstance(source, np.ma.MaskedArray) else source
    kind = getattr(array, "dtype", np.dtype(object)).kind
    if kind not in "fiub" or isinstance(array, np.ma.MaskedArray):  # bfloat16 of JAX, or no numbers
        array = real_array(name, source, "an array of real numbers")
    return held(name, array)


def matrix_of(tensor: Tensor, parameter: str) -> Float[Array, "m n"]:
    """Its numbers in double precision, all finite; (first, all others) if it has more axes."""
    found = np.asarray(tensor.load())
    if found.dtype.kind not in "fiu":
        raise InvalidParameter(parameter, "of real numbers", f"{tensor.name} of {tensor.dtype}")
    matrix = found.reshape(found.shape[0], -1).astype(np.float64)
    wrong = int(matrix.size - np.count_nonzero(np.isfinite(matrix)))
    if wrong:
        given = f"{shown(tensor.name, 60)} with {wrong} of {matrix.size} that are not"
        raise InvalidParameter(parameter, "tensors of finite numbers", given)
    return matrix


def read_tensor(source: str | Path) -> Float[Array, "..."]:
    """One tensor of a file, in double precision: ``model.safetensors:fc1.weight``.

    A file with only one needs no name. Its shape is that of the file: PyTorch keeps a linear layer
    with one row a neuron.
    """
    return read_named(source, "source")


def read_named(source: str | Path, parameter: str) -> Float[Array, "..."]:
    """The same, its faults under the name of a parameter."""
    found = Source.of(str(source), parameter)
    if len(found.tensors) != 1:
        hint = f"it holds {names_of(found.tensors)}"
        if found.tensors:
            hint += f"; name one as {Path(str(source)).name}:{shown(next(iter(found.tensors)), 40)}"
        raise InvalidParameter(parameter, "a file with one array", str(source), hint)
    (tensor,) = found.tensors.values()
    if not tensor.is_float and tensor.dtype in ("BOOL", "bool"):
        raise InvalidParameter(parameter, "of real numbers", f"{tensor.name} of {tensor.dtype}")
    try:
        array = np.asarray(tensor.load())
    except KeyError:
        raise InvalidParameter(
            parameter, "of real numbers", f"{tensor.name} of {tensor.dtype}"
        ) from None
    return real_array(parameter, array, "an array of numbers")


@dataclass(frozen=True, eq=False)
class Factors:
    """A low-rank change B A and its scale."""

    name: str
    down: Tensor  # A: r x n
    up: Tensor  # B: m x r
    alpha: Tensor | None  # the scale is alpha/r

    @property
    def shape(self) -> tuple[int, ...]:
        return self.up.shape[0], self.down.shape[1]

    @property
    def rank(self) -> int:
        return self.down.shape[0]

    def scale(self) -> float:
        return 1.0 if self.alpha is None else float(np.ravel(self.alpha.load())[0]) / self.rank


def factors_of(tensors: dict[str, Tensor]) -> tuple[list[Factors], set[str]]:
    """The pairs of factors among the tensors, and the names they use up."""
    pairs: list[Factors] = []
    used: set[str] = set()
    for name, down in tensors.items():
        found = _DOWN.fullmatch(name)
        kind = next((key for key in _UP if key in name), None)
        if found is None or kind is None:
            continue
        up = tensors.get(name.replace(kind, _UP[kind]))
        if up is None or len(down.shape) != 2 or len(up.shape) != 2:
            continue
        if up.shape[1] != down.shape[0] or not (down.is_float and up.is_float):
            continue
        alpha = tensors.get(f"{found['stem']}.alpha")
        alpha = alpha if alpha is not None and alpha.entries == 1 and alpha.is_float else None
        pairs.append(Factors(found["stem"], down, up, alpha))
        used |= {name, up.name} | ({alpha.name} if alpha is not None else set())
    return pairs, used
