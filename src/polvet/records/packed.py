"""Many states in a certificate: one column per variable, sorted, in the smallest integers that hold it, compressed.

`{"variables": [...], "types": ["u1", "f8", ...], "data": base64 of zlib of the columns, one after another, little-endian}`
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polvet.files import Json
from polvet.model.network import Kind, Variable
from polvet.model.semantics import State
from polvet.records.state_json import Malformed

TYPES = ("u1", "u2", "i1", "i2", "i4", "i8")
MOST_BYTES = 2**28
"""Of the columns together: a few kilobytes may unpack to a thousand times as much."""


def pack_columns(variables: Sequence[Variable], rows: NDArray[np.int64]) -> Json:
    """Return the rows (reals as the bits of a double) as a certificate holds them."""
    order = np.lexsort(rows.T[::-1]) if rows.size else np.arange(len(rows))
    types, data = [], []
    for column, variable in zip(rows.T, variables, strict=True):
        values = column[order]
        kind = "f8" if variable.kind is Kind.REAL else _smallest(values)
        types.append(kind)
        data.append((values.view(np.float64) if kind == "f8" else values).astype(f"<{kind}").tobytes())
    packed = base64.b64encode(zlib.compress(b"".join(data), 1)).decode("ascii")
    return {"variables": [variable.name for variable in variables], "types": types, "data": packed}


def _smallest(values: NDArray[Any]) -> str:
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    return next(kind for kind in TYPES if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)


def unpack_columns(variables: Sequence[Variable], item: Any, count: int) -> list[State]:
    """Return the states; Malformed where shape, names, types or bounds do not fit the variables."""
    columns = [
        _listed(variable, values)
        for variable, values in zip(variables, unpack_arrays(variables, item, count), strict=True)
    ]
    return list(zip(*columns, strict=True)) if columns else [()] * count


def unpack_arrays(variables: Sequence[Variable], item: Any, count: int) -> list[NDArray[Any]]:
    """Return one array per variable; Malformed where shape, names, types or bounds do not fit the variables."""
    if not isinstance(item, dict) or item.get("variables") != [variable.name for variable in variables]:
        raise Malformed("'states' does not name the task's variables in order")
    types, data = item.get("types"), item.get("data")
    if not isinstance(types, list) or len(types) != len(variables) or not isinstance(data, str):
        raise Malformed("'states' lacks types or data")
    if any(kind not in (*TYPES, "f8") for kind in types):
        raise Malformed("'states' has an unknown type")
    # SOUND: sizes are tested before memory is taken. Listed states differ, so that there are no more than the task has.
    if (most := _most_states(variables)) is not None and count > most:
        raise Malformed(f"the task has {most:,} states at most, not {count:,}")
    size = count * sum(np.dtype(kind).itemsize for kind in types)
    if size > MOST_BYTES:
        raise Malformed(f"'states' is larger than {MOST_BYTES} bytes")
    try:
        stream = zlib.decompressobj()
        raw = stream.decompress(base64.b64decode(data, validate=True), size + 1)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise Malformed(f"'states' cannot be unpacked: {error}") from None
    if len(raw) != size:
        raise Malformed(f"'states' does not hold {count} states")
    columns: list[NDArray[Any]] = []
    at = 0
    for variable, kind in zip(variables, types, strict=True):
        width = count * np.dtype(kind).itemsize
        columns.append(_checked(variable, kind, np.frombuffer(raw[at : at + width], dtype=f"<{kind}")))
        at += width
    return columns


def _most_states(variables: Sequence[Variable]) -> int | None:
    """How many states the bounds leave; None where they leave infinitely many."""
    count = 1
    for variable in variables:
        if variable.kind is Kind.BOOL:
            count *= 2
        elif variable.kind is Kind.REAL or variable.lower is None or variable.upper is None:
            return None
        else:
            count *= int(variable.upper) - int(variable.lower) + 1
    return count


def fits(variables: Sequence[Variable], count: int) -> bool:
    """Return whether so many states can surely be listed."""
    return count * sum(map(_most_bytes, variables)) <= MOST_BYTES


def _most_bytes(variable: Variable) -> int:
    """How many bytes a value of the variable takes at most."""
    lower, upper = (0, 1) if variable.kind is Kind.BOOL else (variable.lower, variable.upper)
    if variable.kind is Kind.REAL or lower is None or upper is None:
        return 8
    return np.dtype(_smallest(np.array([int(lower), int(upper)], dtype=object))).itemsize


def _checked(variable: Variable, kind: str, values: NDArray[Any]) -> NDArray[Any]:
    if (kind == "f8") != (variable.kind is Kind.REAL):
        raise Malformed(f"the type of '{variable.name}' is wrong")
    if kind == "f8" and not np.isfinite(values).all():
        raise Malformed(f"'{variable.name}' has a value that is no number")
    lower, upper = (0, 1) if variable.kind is Kind.BOOL else (variable.lower, variable.upper)
    if values.size:
        least, most = values.min().item(), values.max().item()
        if (lower is not None and least < lower) or (upper is not None and most > upper):
            raise Malformed(f"'{variable.name}' is outside its bounds")
    return values


def _listed(variable: Variable, values: NDArray[Any]) -> list[Any]:
    numbers: list[Any] = values.tolist()
    return [bool(value) for value in numbers] if variable.kind is Kind.BOOL else numbers
