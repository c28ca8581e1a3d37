"""QR codes read back: their format, their correction and their bytes, module by module."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from firststep.cli import qr_code as made
from firststep.cli.qr_code import correction, in_half_blocks, qr_code

FIRST = [*((k, 8) for k in range(6)), (7, 8), (8, 8), (8, 7), *((8, 14 - k) for k in range(9, 15))]
GENERATOR = 0b10100110111  # of the 15 bits of the format
MASK = 0b101010000010010


def format_of(code: np.ndarray, places: list[tuple[int, int]]) -> int:
    """The mask; level and mask are divisible by the generator once unmasked."""
    bits = sum(int(code[place]) << k for k, place in enumerate(places)) ^ MASK
    rest = bits
    for shift in range(4, -1, -1):
        if rest >> (shift + 10) & 1:
            rest ^= GENERATOR << shift
    assert rest == 0
    assert bits >> 13 == 0  # level M
    return bits >> 10 & 7


def power(exponent: int) -> int:
    value = 1
    for _ in range(exponent):
        value = value << 1 ^ (0x11D if value & 0x80 else 0)
    return value


def product(a: int, b: int) -> int:
    told = 0
    while b:
        told ^= a * (b & 1)
        a, b = a << 1 ^ (0x11D if a & 0x80 else 0), b >> 1
    return told


def read(code: np.ndarray) -> bytes:
    """The bytes of a code; every block must be free of errors."""
    size, version = len(code), (len(code) - 17) // 4
    mask = format_of(code, FIRST)
    second = [*((8, size - 1 - k) for k in range(8)), *((size - 15 + k, 8) for k in range(8, 15))]
    assert format_of(code, second) == mask
    _, is_fixed = made._patterns(version)
    y, x = np.indices(code.shape)
    plain = code ^ (made._MASKS[mask](y, x) & ~is_fixed)
    bits, upward = "", True
    for right in [*range(size - 1, 6, -2), 5, 3, 1]:
        for row in range(size - 1, -1, -1) if upward else range(size):
            for column in (right, right - 1):
                bits += "" if is_fixed[row, column] else str(int(plain[row, column]))
        upward = not upward
    words = [int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8)]
    blocks, count = made._BLOCKS[version - 1], made._CORRECTION[version - 1]
    whole = len(words) - blocks * count
    sizes = [whole // blocks + (k >= blocks - whole % blocks) for k in range(blocks)]
    parts: list[list[int]] = [[] for _ in range(blocks)]
    told = iter(words)
    for k in range(max(sizes)):
        for part, length in zip(parts, sizes, strict=True):
            if k < length:
                part.append(next(told))
    data = bytes(word for part in parts for word in part)
    for _ in range(count):
        for part in parts:
            part.append(next(told))
    for part in parts:  # the polynomial of a block vanishes at the roots of the generator
        for root in (power(k) for k in range(count)):
            value = 0
            for word in part:
                value = product(value, root) ^ word
            assert value == 0
    told_bits = "".join(format(byte, "08b") for byte in data)
    assert told_bits[:4] == "0100"
    length_bits = 8 if version < 10 else 16
    length = int(told_bits[4 : 4 + length_bits], 2)
    begin = 4 + length_bits
    return bytes(int(told_bits[begin + 8 * k : begin + 8 * k + 8], 2) for k in range(length))


@pytest.mark.parametrize("length", [0, 1, 14, 15, 26, 42, 62, 84, 106, 122, 152, 180, 213])
def test_a_code_says_its_text(length: int) -> None:
    text = ("http://192.168.1.20:8000/?token=" + "aZ_9-" * 50)[:length]
    assert read(qr_code(text)) == text.encode()


def test_the_correction_is_that_of_the_standard_s_example() -> None:
    """HELLO WORLD, version 1-M, as in every textbook."""
    data = [32, 91, 11, 120, 209, 114, 220, 77, 67, 64, 236, 17, 236, 17, 236, 17]
    assert list(correction(bytes(data), 10)) == [196, 35, 39, 119, 235, 215, 231, 226, 93, 23]


def test_a_code_that_two_other_programs_agree_on() -> None:
    """26 letters x, which segno draws module by module alike and OpenCV reads."""
    code = qr_code("x" * 26)
    assert code.shape == (25, 25)
    digest = hashlib.sha256(np.packbits(code).tobytes()).hexdigest()
    assert digest == "0a050a16fe1b7854f909de7643bf50836aa72f4a3447100e2928490321c69b50"


def test_it_stands_in_a_terminal() -> None:
    code = qr_code("firststep")
    lines = in_half_blocks(code).split("\n")
    assert {len(line) for line in lines} == {len(code) + 2 * made.QUIET}
    halves = {" ": (0, 0), "▀": (1, 0), "▄": (0, 1), "█": (1, 1)}
    rows = [[halves[sign][half] for sign in line] for line in lines for half in (0, 1)]
    light = np.array(rows, bool)
    inside = slice(made.QUIET, made.QUIET + len(code))
    assert np.array_equal(~light[inside, inside], code)


def test_what_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="213 bytes, not 214"):
        qr_code("x" * 214)
