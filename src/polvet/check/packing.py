"""Bytes as text in a certificate: compressed, then in base 64; read back with a limit on their number."""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Any

from polvet.records.state_json import Malformed


def pack(content: bytes) -> str:
    """Return bytes as text."""
    return base64.b64encode(zlib.compress(content, 6)).decode("ascii")


def unpack(item: Any, size: int, what: str) -> bytes:
    """Return the bytes that `pack` wrote; Malformed if there are not so many."""
    if not isinstance(item, str):
        raise Malformed(f"{what} is no text")
    try:
        raw = zlib.decompressobj().decompress(base64.b64decode(item, validate=True), size + 1)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise Malformed(f"{what} cannot be unpacked: {error}") from None
    if len(raw) != size:
        raise Malformed(f"{what} does not hold {size} bytes")
    return raw
