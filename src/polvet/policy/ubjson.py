"""UBJSON (draft 12), as far as XGBoost writes it: values to bytes and back.

Typed arrays of numbers become numpy arrays and are written as such; float64 Python numbers are written as float32 `d`,
which is what XGBoost reads.
Limits   depth 64, the size of the data itself; no-op markers and counted objects are read, never written
"""

from __future__ import annotations

import struct
from typing import Any, NoReturn

import numpy as np

from polvet.errors import InputError, Where
from polvet.files import Json

MAX_DEPTH = 64
_NUMPY = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_SIZES = {marker: np.dtype(kind).itemsize for marker, kind in _NUMPY.items()}
_MARKERS = {np.dtype(kind).newbyteorder("="): marker for marker, kind in _NUMPY.items()}


def load(data: bytes, where: Where) -> Any:
    """Return the value that the bytes describe, or raise an InputError with the position of the damage."""
    reader = _Reader(data, where)
    value = reader.value(reader.marker(), 0)
    if reader.position != len(data):
        reader.complain("there are bytes after the end of the document.")
    return value


def dump(value: Any) -> bytes:
    """Return the bytes of a value made of dicts, lists, numpy arrays, texts, numbers, booleans and None.

    >>> load(dump({"a": [1, "b"], "c": True}), Where("memory"))
    {'a': [1, 'b'], 'c': True}
    """
    parts: list[bytes] = []
    _write(value, parts)
    return b"".join(parts)


class _Reader:
    def __init__(self, data: bytes, where: Where) -> None:
        self.data, self.where, self.position = data, where, 0

    def complain(self, what: str) -> NoReturn:
        raise InputError(f"byte {self.position}: {what}", self.where, "The file is damaged or truncated.")

    def take(self, count: int) -> bytes:
        if count < 0 or self.position + count > len(self.data):
            self.complain(f"{count} bytes are needed, {len(self.data) - self.position} are left.")
        part = self.data[self.position : self.position + count]
        self.position += count
        return part

    def marker(self) -> str:
        marker = "N"
        while marker == "N":  # no-op
            marker = chr(self.take(1)[0])
        return marker

    def number(self, marker: str) -> int | float:
        kind = _NUMPY[marker]
        return np.frombuffer(self.take(_SIZES[marker]), dtype=kind)[0].item()  # type: ignore[no-any-return]

    def length(self) -> int:
        marker = self.marker()
        if marker not in "iUIlL":
            self.complain(f"a length is needed, not the marker {marker!r}.")
        length = int(self.number(marker))
        if not 0 <= length <= len(self.data):
            self.complain(f"the length {length} is impossible.")
        return length

    def text(self) -> str:
        try:
            return self.take(self.length()).decode()
        except UnicodeDecodeError:
            self.complain("a text is not UTF-8.")

    def value(self, marker: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            self.complain(f"the document nests more than {MAX_DEPTH} deep.")
        if marker in _NUMPY:
            return self.number(marker)
        if marker == "S":
            return self.text()
        if marker == "C":
            return chr(self.take(1)[0])
        if marker in "ZTF":
            return {"Z": None, "T": True, "F": False}[marker]
        if marker == "[":
            return self.array(depth)
        if marker == "{":
            return self.object(depth)
        return self.complain(f"the marker {marker!r} is unknown.")

    def header(self) -> tuple[str | None, int | None]:
        """Return (type of all items, number of items) where an optimised container states them."""
        kind: str | None = None
        if self.data[self.position : self.position + 1] == b"$":
            self.position += 1
            kind = self.marker()
            if self.data[self.position : self.position + 1] != b"#":
                self.complain("a container with a type needs a count.")
        if self.data[self.position : self.position + 1] == b"#":
            self.position += 1
            return kind, self.length()
        return kind, None

    def array(self, depth: int) -> Any:
        kind, count = self.header()
        if kind is not None and count is not None:
            if kind in _NUMPY:
                raw = np.frombuffer(self.take(count * _SIZES[kind]), dtype=_NUMPY[kind])
                return raw.astype(raw.dtype.newbyteorder("="))
            if kind in "ZTF[{":  # items of zero bytes: a small file could claim any number of them
                self.complain(f"an array of type {kind!r} is not read.")
            return [self.value(kind, depth + 1) for _ in range(count)]
        if count is not None:
            return [self.value(self.marker(), depth + 1) for _ in range(count)]
        items: list[Any] = []
        while (marker := self.marker()) != "]":
            items.append(self.value(marker, depth + 1))
        return items

    def object(self, depth: int) -> Json:
        kind, count = self.header()
        members: Json = {}
        while count is None or len(members) < count:
            if count is None and self.data[self.position : self.position + 1] == b"}":
                self.position += 1
                break
            key = self.text()
            if key in members:
                self.complain(f"the key '{key}' stands twice in one object.")
            members[key] = self.value(kind or self.marker(), depth + 1)
        return members


def _write(value: Any, parts: list[bytes]) -> None:
    if value is None or isinstance(value, bool):
        parts.append({None: b"Z", True: b"T", False: b"F"}[value])
    elif isinstance(value, int):
        marker = next((m for m in "iIlL" if -(2 ** (8 * _SIZES[m] - 1)) <= value < 2 ** (8 * _SIZES[m] - 1)), None)
        if marker is None:
            raise InputError(f"the integer {value} does not fit 64 bits.", hint="Save the model as JSON.")
        parts.append(marker.encode() + value.to_bytes(_SIZES[marker], "big", signed=True))
    elif isinstance(value, float):
        parts.append(b"d" + struct.pack(">f", value))
    elif isinstance(value, str):
        parts.append(b"S" + _prefixed(value))
    elif isinstance(value, np.ndarray):
        marker = _MARKERS[value.dtype.newbyteorder("=")]
        parts.append(b"[$" + marker.encode() + b"#L" + struct.pack(">q", value.size))
        parts.append(value.astype(_NUMPY[marker]).tobytes())
    elif isinstance(value, dict):
        parts.append(b"{")
        for key, item in value.items():
            parts.append(_prefixed(key))
            _write(item, parts)
        parts.append(b"}")
    else:
        parts.append(b"[#L" + struct.pack(">q", len(value)))
        for item in value:
            _write(item, parts)


def _prefixed(text: str) -> bytes:
    raw = text.encode()
    return b"L" + struct.pack(">q", len(raw)) + raw
