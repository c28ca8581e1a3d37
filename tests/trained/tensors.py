"""Files of tensors, written by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

NAMES = {"<f8": "F64", "<f4": "F32", "<f2": "F16", "<i8": "I64", "<u2": "BF16"}


def safetensors(header: bytes | object, data: bytes) -> bytes:
    """The bytes of a file with this header, right or wrong."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def write_safetensors(
    path: Path,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    brain: Sequence[str] = (),
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Arrays as .safetensors; those named in ``brain`` hold the bits of bfloat16."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    data = b""
    for name, array in arrays.items():
        raw = np.ascontiguousarray(array).tobytes()
        assert (NAMES[array.dtype.str] == "BF16") == (name in brain)
        header[name] = {
            "dtype": NAMES[array.dtype.str],
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    path.write_bytes(safetensors(header, data))
