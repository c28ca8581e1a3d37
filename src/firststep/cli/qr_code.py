"""A QR code of a short text for the terminal: ISO/IEC 18004, bytes, error correction M, versions 1
to 10, so that a telephone in the room finds the address of the explorer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from firststep.typing import Array

if TYPE_CHECKING:
    from firststep.typing import Bool

# Of versions 1 to 10 at level M: code words of error correction a block, and blocks.
_CORRECTION = (10, 16, 26, 18, 24, 16, 18, 22, 22, 26)
_BLOCKS = (1, 1, 1, 2, 2, 4, 4, 4, 5, 5)
_LEVEL_M = 0
_MASKS: tuple[Callable[[Array, Array], Array], ...] = (
    lambda y, x: (x + y) % 2 == 0,
    lambda y, x: y % 2 == 0,
    lambda y, x: x % 3 == 0,
    lambda y, x: (x + y) % 3 == 0,
    lambda y, x: (x // 3 + y // 2) % 2 == 0,
    lambda y, x: x * y % 2 + x * y % 3 == 0,
    lambda y, x: (x * y % 2 + x * y % 3) % 2 == 0,
    lambda y, x: ((x + y) % 2 + x * y % 3) % 2 == 0,
)
QUIET = 2  # light modules around the code; 4 are asked for, a terminal has its own margin


def qr_code(text: str) -> Bool[Array, "size size"]:
    """The modules, true where they are dark; ``ValueError`` for more than 213 bytes."""
    data = text.encode()
    version = next((v for v in range(1, 11) if len(data) <= _room(v)), None)
    if version is None:
        raise ValueError(f"a QR code of version 10 has room for {_room(10)} bytes, not {len(data)}")
    words = _interleaved(_padded(data, version), version)
    fixed, is_fixed = _patterns(version)
    drawn = _with_words(fixed, is_fixed, words)
    places: Array = np.indices(drawn.shape)
    masked = []
    for number, mask in enumerate(_MASKS):
        made = drawn ^ (mask(places[0], places[1]) & ~is_fixed)
        _put_format(made, number)
        masked.append(made)
    return min(masked, key=_penalty)


def in_half_blocks(code: Bool[Array, "size size"]) -> str:
    """Two rows of modules a line of text, dark modules as spaces: for light text on dark ground."""
    light = np.pad(~code, QUIET, constant_values=True)
    if len(light) % 2:
        light = np.vstack([light, np.ones((1, light.shape[1]), bool)])
    signs = np.array([[" ", "▄"], ["▀", "█"]])
    rows = signs[light[::2].astype(int), light[1::2].astype(int)]
    return "\n".join("".join(row) for row in rows)


def _raw_words(version: int) -> int:
    """Code words of a version: its modules less those of the patterns, an eighth."""
    modules = (16 * version + 128) * version + 64
    if version >= 2:
        count = version // 7 + 2
        modules -= (25 * count - 10) * count - 55
    return (modules - (36 if version >= 7 else 0)) // 8


def _data_words(version: int) -> int:
    return _raw_words(version) - _CORRECTION[version - 1] * _BLOCKS[version - 1]


def _length_bits(version: int) -> int:
    return 8 if version < 10 else 16


def _room(version: int) -> int:
    return (8 * _data_words(version) - 4 - _length_bits(version)) // 8


def _padded(data: bytes, version: int) -> bytes:
    """Mode 0100 (bytes), the length, the bytes, an end and pads."""
    bits = "0100" + format(len(data), f"0{_length_bits(version)}b")
    bits += "".join(format(byte, "08b") for byte in data)
    whole = 8 * _data_words(version)
    bits += "0" * min(4, whole - len(bits))
    bits += "0" * (-len(bits) % 8)
    words = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))
    return words + (b"\xec\x11" * whole)[: whole // 8 - len(words)]


def _times(a: int, b: int) -> int:
    """The product in GF(256) by x^8 + x^4 + x^3 + x^2 + 1."""
    product = 0
    for bit in range(7, -1, -1):
        product = (product << 1) ^ ((product >> 7) * 0x11D)
        product ^= ((b >> bit) & 1) * a
    return product


def correction(data: bytes, count: int) -> bytes:
    """The remainder of data(x) x^count by (x - 1)(x - 2)(x - 4) ... (x - 2^(count - 1))."""
    divisor, root = [0] * (count - 1) + [1], 1
    for _ in range(count):
        for place in range(count):
            divisor[place] = _times(divisor[place], root)
            if place + 1 < count:
                divisor[place] ^= divisor[place + 1]
        root = _times(root, 2)
    rest = [0] * count
    for byte in data:
        factor = byte ^ rest.pop(0)
        rest.append(0)
        rest = [old ^ _times(each, factor) for old, each in zip(rest, divisor, strict=True)]
    return bytes(rest)


def _interleaved(data: bytes, version: int) -> bytes:
    """Blocks with their correction, one word of each in turn; the last blocks may be longer."""
    count, blocks = _CORRECTION[version - 1], _BLOCKS[version - 1]
    short, longer = divmod(len(data), blocks)
    parts, at = [], 0
    for number in range(blocks):
        size = short + (number >= blocks - longer)
        parts.append(data[at : at + size])
        at += size
    ends = [correction(part, count) for part in parts]
    told = [part[k] for k in range(short + 1) for part in parts if k < len(part)]
    return bytes(told + [end[k] for k in range(count) for end in ends])


def _patterns(version: int) -> tuple[Bool[Array, "size size"], Bool[Array, "size size"]]:
    """What does not depend on the text, and where it stands; the place of the format is kept."""
    size = 17 + 4 * version
    code, fixed = np.zeros((size, size), bool), np.zeros((size, size), bool)
    code[6], code[:, 6] = np.arange(size) % 2 == 0, np.arange(size) % 2 == 0
    fixed[6] = fixed[:, 6] = True
    for y, x in ((3, 3), (3, size - 4), (size - 4, 3)):
        for i in range(max(0, y - 4), min(size, y + 5)):
            for j in range(max(0, x - 4), min(size, x + 5)):
                code[i, j] = max(abs(i - y), abs(j - x)) not in (2, 4)
                fixed[i, j] = True
    places = _alignment(version, size)
    corners = {(6, 6), (6, size - 7), (size - 7, 6)}
    for y, x in ((y, x) for y in places for x in places if (y, x) not in corners):
        for i in range(-2, 3):
            for j in range(-2, 3):
                code[y + i, x + j] = max(abs(i), abs(j)) != 1
                fixed[y + i, x + j] = True
    fixed[8, :9] = fixed[:9, 8] = fixed[8, size - 8 :] = fixed[size - 8 :, 8] = True
    if version >= 7:
        _put_version(code, fixed, version)
    return code, fixed


def _alignment(version: int, size: int) -> list[int]:
    if version == 1:
        return []
    count = version // 7 + 2
    step = (version * 8 + count * 3 + 5) // (count * 4 - 4) * 2
    return [6, *(size - 7 - step * k for k in range(count - 1))]


def _put_version(code: Array, fixed: Array, version: int) -> None:
    """Six bits of the version and twelve of its correction, twice."""
    rest = version
    for _ in range(12):
        rest = (rest << 1) ^ ((rest >> 11) * 0x1F25)
    bits = version << 12 | rest
    for k in range(18):
        along, across = len(code) - 11 + k % 3, k // 3
        for place in ((along, across), (across, along)):
            code[place] = bits >> k & 1
            fixed[place] = True


def _put_format(code: Array, mask: int) -> None:
    """Level and mask with their correction, twice; and the module that is always dark."""
    data = _LEVEL_M << 3 | mask
    rest = data
    for _ in range(10):
        rest = (rest << 1) ^ ((rest >> 9) * 0x537)
    bits = (data << 10 | rest) ^ 0x5412
    size = len(code)
    corner = [(7, 8), (8, 8), (8, 7)]
    first = [*((k, 8) for k in range(6)), *corner, *((8, 14 - k) for k in range(9, 15))]
    second = [*((8, size - 1 - k) for k in range(8)), *((size - 15 + k, 8) for k in range(8, 15))]
    for places in (first, second):
        for k, place in enumerate(places):
            code[place] = bits >> k & 1
    code[size - 8, 8] = True


def _places(size: int) -> Iterator[tuple[int, int]]:
    """Two columns at a time from the right, up and down in turn, but for the timing column."""
    for right in range(size - 1, 0, -2):
        column = right - (right <= 6)
        for along in range(size):
            upward = (column + 1) & 2 == 0
            y = size - 1 - along if upward else along
            yield y, column
            yield y, column - 1


def _with_words(fixed: Array, is_fixed: Array, words: bytes) -> Bool[Array, "size size"]:
    code = fixed.copy()
    bits = iter("".join(format(word, "08b") for word in words))
    for place in _places(len(code)):
        if not is_fixed[place]:
            code[place] = next(bits, "0") == "1"
    return code


def _penalty(code: Bool[Array, "size size"]) -> int:
    """How hard a code is to read: long runs, blocks, patterns like the corners, much of a kind."""
    told = 0
    for lines in (code, code.T):
        for line in lines:
            text = "".join("1" if dark else "0" for dark in line)
            runs = text.replace("01", "0 1").replace("10", "1 0").split()
            told += sum(len(run) - 2 for run in runs if len(run) >= 5)
            for pattern in ("10111010000", "00001011101"):
                told += 40 * sum(text.startswith(pattern, at) for at in range(len(text) - 10))
    same = (code[1:, 1:] == code[:-1, 1:]) & (code[1:, 1:] == code[1:, :-1])
    told += 3 * int((same & (code[1:, 1:] == code[:-1, :-1])).sum())
    return told + 10 * int(abs(20 * code.mean() - 10))
