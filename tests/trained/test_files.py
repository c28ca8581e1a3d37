"""Tensors in files: what is read, what is listed, and what is refused in one line."""

from __future__ import annotations

import contextlib
import io
import json
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firststep import InvalidParameter, inspect, read_tensor
from firststep.trained.files import open_tensors
from firststep.trained.tensors import Source, factors_of, split_name
from tests.trained.tensors import safetensors, write_safetensors

GENERATOR = np.random.default_rng(0)
WEIGHT = GENERATOR.standard_normal((30, 20))


def test_types_of_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    half = (WEIGHT.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    arrays = {
        "double": WEIGHT,
        "single": WEIGHT.astype(np.float32),
        "half": WEIGHT.astype(np.float16),
        "brain": half,
        "whole": np.arange(6),
        "scalar": np.array(3.0),
        "empty": np.zeros((0, 4)),
    }
    write_safetensors(path, arrays, brain=("brain",), metadata={"format": "pt"})
    found = open_tensors(path, "weights")
    assert list(found) == list(arrays)
    assert not found["whole"].is_float
    assert np.array_equal(read_tensor(f"{path}:double"), WEIGHT)
    assert np.array_equal(read_tensor(f"{path}:single"), WEIGHT.astype(np.float32))
    assert np.array_equal(read_tensor(f"{path}:half"), WEIGHT.astype(np.float16))
    assert np.allclose(read_tensor(f"{path}:brain"), WEIGHT, rtol=2**-7)
    assert read_tensor(f"{path}:scalar").shape == ()
    assert isinstance(found["double"].load(), np.memmap)  # nothing is read until it is used
    with pytest.raises(InvalidParameter, match="of real numbers; got whole of I64"):
        read_tensor(f"{path}:whole")


def test_one_tensor_by_name(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    np.savez(path, **{"fc.weight": WEIGHT, "fc.bias": WEIGHT[0]})
    assert np.array_equal(read_tensor(f"{path}:fc.weight"), WEIGHT)
    with pytest.raises(InvalidParameter, match=r"did you mean fc\.weight"):
        read_tensor(f"{path}:fc.weigth")
    with pytest.raises(InvalidParameter, match=r"name one as model\.npz:fc\.weight"):
        read_tensor(path)
    np.save(tmp_path / "one.npy", WEIGHT)
    assert np.array_equal(read_tensor(tmp_path / "one.npy"), WEIGHT)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (r"C:\nets\model.safetensors", (r"C:\nets\model.safetensors", None)),
        (r"C:\nets\model.safetensors:a:b", (r"C:\nets\model.safetensors", "a:b")),
        ("W1.npy", ("W1.npy", None)),
        ("MODEL.NPZ:x", ("MODEL.NPZ", "x")),
        ("there:x", ("there:x", None)),
    ],
)
def test_names_with_colons(name: str, parts: tuple[str, str | None]) -> None:
    assert split_name(name) == parts


def test_a_file_whose_name_has_a_tensor_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Path("a.npy:b").open("wb") as file:
        np.save(file, WEIGHT)
    assert read_tensor("a.npy:b").shape == (30, 20)


def _entry(**changes: Any) -> dict[str, Any]:
    return {"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]} | changes}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "ends before its header"),
        (b"\x00" * 7, "ends before its header"),
        ((2**62).to_bytes(8, "little") + b"{}", "ends before its header"),
        (safetensors(b"{not json", b""), "no JSON"),
        (safetensors(b"[1]", b""), "no table of tensors"),
        (safetensors(b'{"a": 1, "a": 2}', b""), "one entry a name"),
        (safetensors(b"[" * 100_000, b""), "no JSON"),
        (safetensors({"a": 3}, b""), "no dtype"),
        (safetensors(_entry(data_offsets=[0, 16]), b"x" * 15), "beyond the end"),
        (safetensors(_entry(data_offsets=[16, 0]), b"x" * 16), "beyond the end"),
        (safetensors(_entry(shape=[2, 3]), b"x" * 16), "does not take 16 bytes"),
        (safetensors(_entry(shape=[-2, -2]), b"x" * 16), "whole numbers"),
        (safetensors(_entry(shape=[2.0, 2]), b"x" * 16), "whole numbers"),
        (safetensors(_entry(shape=[True, 4]), b"x" * 16), "whole numbers"),
        (safetensors(_entry(dtype=7), b"x" * 16), "dtype is no name"),
        (safetensors({**_entry(), "b": _entry()["a"]}, b"x" * 16), "overlap"),
        (b"hello, this is text", "ends before its header"),
    ],
)
def test_broken_safetensors(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(InvalidParameter, match=words) as caught:
        inspect(str(path))
    assert str(caught.value).count("\n") == 0


def test_bytes_changed_at_random_never_end_in_another_error(tmp_path: Path) -> None:
    """Whatever a header says, the answer is a look or one line."""
    draw = random.Random(0)
    good = {
        "safetensors": safetensors(_entry(), bytes(16)),
        "npz": _archived(a=WEIGHT[:3, :3]),
        "npy": _saved(WEIGHT[:3, :3]),
    }
    refused = 0
    for kind, content in good.items():
        path = tmp_path / f"model.{kind}"
        for _ in range(150):
            changed = bytearray(content)
            for _ in range(draw.randint(1, 4)):
                changed[draw.randrange(len(changed))] = draw.randrange(256)
            cut = draw.random() < 0.3
            path.write_bytes(changed[: draw.randrange(len(changed))] if cut else changed)
            told = ""
            with contextlib.suppress(InvalidParameter):
                try:
                    inspect(str(path))
                except InvalidParameter as error:
                    told = str(error)
                    raise
            refused += bool(told)
            assert "\n" not in told
    assert 100 < refused < 450


def _saved(array: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _archived(**arrays: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def test_files_that_could_run_code_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", b"cos\nsystem\n(S'exit 1'\ntR.")
    with pytest.raises(InvalidParameter, match=r"save it as \.safetensors"):
        inspect(path)
    objects = tmp_path / "objects.npy"
    np.save(objects, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidParameter, match="cannot be read as such"):
        inspect(objects)


def test_an_archive_that_promises_more_than_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    header = io.BytesIO()
    description = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)}
    np.lib.format.write_array_header_1_0(header, description)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", header.getvalue() + bytes(8))
    with pytest.raises(InvalidParameter, match="a is cut off"):
        inspect(path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite(tmp_path: Path, value: float) -> None:
    wrong = WEIGHT.copy()
    wrong[3, 4] = value
    with pytest.raises(InvalidParameter, match="fc with 1 of 600 that are not"):
        inspect({"fc": wrong})
    with pytest.raises(InvalidParameter, match="before must be tensors of finite"):
        inspect({"fc": WEIGHT}, {"fc": wrong})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"a": "text"}, "a must be an array of real numbers"),
        ({"a": np.ma.masked_array(WEIGHT)}, "masked entries"),
        ({"a": WEIGHT[0]}, "a: no matrix"),
        ({}, "there is no tensor"),
        (None, "weights must be a file"),
        (3.0, "weights must be a file"),
        ({"a": WEIGHT.astype(int)}, "no floating-point number"),
        ({"a": np.zeros((3, 3, 3))}, "more than two axes"),
    ],
)
def test_what_is_no_matrix(given: object, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        inspect(given)


def test_shapes_before_and_after_must_agree() -> None:
    with pytest.raises(InvalidParameter, match=r"before must be of the shapes of the weights"):
        inspect({"a": WEIGHT}, {"a": WEIGHT.T})


class _Tensor:
    """What a tensor of PyTorch does that matters here."""

    def __init__(self, array: Any, dtype: str, grad: bool = True) -> None:
        self.array, self.dtype, self.grad = array, f"torch.{dtype}", grad

    def detach(self) -> _Tensor:
        return _Tensor(self.array, self.dtype.removeprefix("torch."), False)

    def cpu(self) -> _Tensor:
        return self

    def float(self) -> _Tensor:
        return _Tensor(self.array, "float32", self.grad)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if "bfloat16" in self.dtype:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return np.asarray(self.array, dtype)


def test_state_dicts() -> None:
    source = Source.of({"a": _Tensor(WEIGHT, "float64"), "b": _Tensor(WEIGHT, "bfloat16")}, "w")
    assert np.array_equal(source["a"].load(), WEIGHT)
    assert np.array_equal(source["b"].load(), WEIGHT)


def test_axes_beyond_two_when_asked() -> None:
    kernel = GENERATOR.standard_normal((40, 3, 3, 3))
    found = inspect({"conv": kernel, "fc": WEIGHT})
    assert [layer.name for layer in found] == ["fc"]
    assert found.skipped[0][0] == "conv"
    look = inspect({"conv": kernel}, flatten=True)["conv"].weights
    assert look is not None
    assert look.shape == (40, 27)


def test_pairs_of_factors(tmp_path: Path) -> None:
    down, up = GENERATOR.standard_normal((4, 50)), GENERATOR.standard_normal((70, 4))
    names = {
        "m.q.lora_A.weight": down,
        "m.q.lora_B.weight": up,
        "m.k.lora_A.default.weight": down,
        "m.k.lora_B.default.weight": up,
        "u_v.lora_down.weight": down,
        "u_v.lora_up.weight": up,
        "u_v.alpha": np.array(2.0),
        "lonely.lora_A.weight": down,
        "fc.weight": WEIGHT,
    }
    path = tmp_path / "adapter.safetensors"
    write_safetensors(path, names)
    pairs, used = factors_of(open_tensors(path, "weights"))
    assert [pair.name for pair in pairs] == ["m.q", "m.k", "u_v"]
    assert set(names) - used == {"lonely.lora_A.weight", "fc.weight"}
    found = inspect(path)
    expected = np.linalg.svd(up @ down, compute_uv=False)[:4]
    for name, scale in (("m.q", 1.0), ("m.k", 1.0), ("u_v", 0.5)):
        look = found[name].change
        assert look is not None
        assert look.shape == (70, 50)
        assert look.values == pytest.approx(scale * expected)
        assert look.count is None
        assert "rank 4" in look.reason
        back = look.left * look.values @ look.right.T
        assert back == pytest.approx(scale * up @ down)
    assert found["fc.weight"].weights is not None


def test_layers_by_name_and_pattern() -> None:
    arrays = {"a.q": WEIGHT, "a.k": WEIGHT, "b.q": WEIGHT}
    assert [layer.name for layer in inspect(arrays, layer="*.q")] == ["a.q", "b.q"]
    assert [layer.name for layer in inspect(arrays, layer=["a.k", "b.*"])] == ["a.k", "b.q"]
    with pytest.raises(InvalidParameter, match="layer must be the name of a matrix"):
        inspect(arrays, layer="c")
    with pytest.raises(InvalidParameter, match="layer must be"):
        inspect(arrays, layer=3)  # type: ignore[arg-type]


def test_what_would_take_long_waits_for_its_name(tmp_path: Path) -> None:
    path = tmp_path / "large.safetensors"
    header = {
        "large": {"dtype": "F16", "shape": [10000, 10000], "data_offsets": [0, 2 * 10**8]},
        "small": {"dtype": "F32", "shape": [2, 2], "data_offsets": [2 * 10**8, 2 * 10**8 + 16]},
    }
    text = json.dumps(header).encode()
    with path.open("wb") as file:  # a hole of 200 MB
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + 2 * 10**8 + 16)
    found = inspect(path)
    assert [layer.name for layer in found] == ["small"]
    assert "minutes of a core" in str(found)
