"""The rows of an SQLite file without SQLite: from every page that is whole, wherever it stands.

SQLite finds rows from the top of a tree; where a page above is gone, all below it is out of its
reach. Here every page is looked at by itself: the leaves of tables hold rows whole, with their
number, and need nobody above them. Pages are those of the file and those of its write-ahead log,
old versions among them: whoever reads them decides which of two rows is the newer one.

The format is described in "Database File Format" of SQLite's documentation, sections 1.5, 1.6, 2.1
and 4.1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_LEAF = 0x0D  # the first byte of a leaf of a table
_HEAD = 100  # bytes before the first page's own head
_LOG_HEAD, _FRAME_HEAD = 32, 24  # bytes of the head of a log, and of each page in it
_MOST_COLUMNS = 64  # of a row of ours: a head that says more is none
_SIZES = (4096, 1024, 2048, 8192, 16384, 32768, 65536, 512)  # of pages; the first is ours

Value = bytes | int | float | None  # of a column; texts are bytes


class Row(NamedTuple):
    number: int
    values: tuple[Value, ...]


def rows(data: bytes, log: bytes = b"") -> Iterator[Row]:
    """Every row of every leaf that can be read, of a file and of its log."""
    size = page_size(data)
    base = [data[start : start + size] for start in range(0, len(data), size)]
    for number, page in enumerate(base):
        yield from _of_leaf(page, _HEAD if number == 0 else 0, size, base)
    yield from _of_log(log, size, base)


def page_size(data: bytes) -> int:
    """What the head of the file says, or where that is damaged, what makes most pages leaves."""
    said = int.from_bytes(data[16:18], "big")
    said = 65536 if said == 1 else said
    if data[:16] == b"SQLite format 3\x00" and said in _SIZES:
        return said

    def leaves(size: int) -> int:
        return sum(data[start] == _LEAF for start in range(size, len(data), size)) * size

    return max(_SIZES, key=leaves)


def _of_log(data: bytes, size: int, base: list[bytes]) -> Iterator[Row]:
    """Rows of the pages of a log; where their rows go on is looked up in it first."""
    step = _FRAME_HEAD + size
    newest = dict(enumerate(base))
    frames = []
    for start in range(_LOG_HEAD, len(data) - step + 1, step):
        number = int.from_bytes(data[start : start + 4], "big") - 1
        page = data[start + _FRAME_HEAD : start + step]
        newest[number] = page
        frames.append((number, page))
    pages = [newest.get(number, b"") for number in range(max(newest, default=-1) + 1)]
    for number, page in frames:
        yield from _of_leaf(page, _HEAD if number == 0 else 0, size, pages)


def _of_leaf(page: bytes, head: int, size: int, pages: list[bytes]) -> Iterator[Row]:
    """The rows of a page, if it is a leaf of a table; what is cut off is left out."""
    if len(page) < head + 8 or page[head] != _LEAF:
        return
    count = int.from_bytes(page[head + 3 : head + 5], "big")
    for place in range(head + 8, min(head + 8 + 2 * count, len(page) - 1), 2):
        start = int.from_bytes(page[place : place + 2], "big")
        try:
            yield _cell(page, start, size, pages)
        except (IndexError, ValueError, struct.error):
            continue


def _cell(page: bytes, start: int, size: int, pages: list[bytes]) -> Row:
    """One row: the length of its record, its number, and the record, which may go on elsewhere."""
    length, start = _varint(page, start)
    number, start = _varint(page, start)
    here = _length_here(length, size)
    record = page[start : start + here]
    if here < length:
        following = int.from_bytes(page[start + here : start + here + 4], "big")
        record += _overflow(following, length - here, size, pages)
    if len(record) != length:
        raise ValueError("the row is cut short")
    return Row(number, _values(record))


def _length_here(length: int, size: int) -> int:
    """How much of a record stands in the leaf itself (section 1.6: P, U, X, M, K there)."""
    most = size - 35
    if length <= most:
        return length
    least = (size - 12) * 32 // 255 - 23
    kept = least + (length - least) % (size - 4)
    return kept if kept <= most else least


def _overflow(page: int, length: int, size: int, pages: list[bytes]) -> bytes:
    """The rest of a record from a chain of pages, each with the number of the next in front."""
    found = b""
    while length > len(found):
        if not 0 < page <= len(pages) or len(found) // (size - 4) > len(pages):
            raise ValueError("the row goes on in a page that is not there")
        text = pages[page - 1]
        found += text[4:size]
        page = int.from_bytes(text[:4], "big")
    return found[:length]


def _values(record: bytes) -> tuple[Value, ...]:
    """The columns of a record: a head of types, then the values (section 2.1)."""
    head, place = _varint(record, 0)
    kinds = []
    while place < head:
        kind, place = _varint(record, place)
        kinds.append(kind)
    if place != head or not 0 < len(kinds) <= _MOST_COLUMNS:
        raise ValueError("this is no row")
    found = []
    for kind in kinds:
        value, place = _value(record, place, kind)
        found.append(value)
    return tuple(found)


_WHOLE = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # bytes of a whole number, by its kind
_CONSTANT: dict[int, Value] = {0: None, 8: 0, 9: 1}


def _value(record: bytes, place: int, kind: int) -> tuple[Value, int]:
    if kind in _CONSTANT:
        return _CONSTANT[kind], place
    if kind in _WHOLE:
        end = place + _WHOLE[kind]
        return int.from_bytes(record[place:end], "big", signed=True), end
    if kind == 7:
        return struct.unpack(">d", record[place : place + 8])[0], place + 8
    if kind < 12:
        raise ValueError("a kind of value that does not exist")
    end = place + (kind - 12) // 2
    if end > len(record):
        raise ValueError("the value is cut short")
    return record[place:end], end


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A whole number of one to nine bytes, seven bits each but for the ninth."""
    found = 0
    for _ in range(8):
        byte = data[place]
        place += 1
        found = found << 7 | byte & 0x7F
        if byte < 0x80:
            return found, place
    return found << 8 | data[place], place + 1
