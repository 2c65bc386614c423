"""Frozen dataclasses as JSON objects: one key for each field, read back by the types that the fields declare.

A field that may be None and has that as its default is left out where it is None; a field made by `later` is always
written, and files of versions before it was added are still read. Keys that no field names are ignored.

Limits   fields are numbers, texts, lists (tuples), objects of these, records, each perhaps None, or Any
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, field, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from polvet.errors import InputError, Where
from polvet.files import Json

HINT = "Write it anew with the command that made it."
WORDS = {int: "an integer", float: "a number", bool: "true or false", str: "a text"}
_ALWAYS = "always"
T = TypeVar("T")


def later() -> Any:
    """Return the declaration of a field that files of earlier versions lack."""
    return field(default=None, metadata={_ALWAYS: True})


def record_to_json(record: Any) -> Json:
    """Return the record as a JSON object, its keys in the order of its fields."""
    return {one.name: _dump(getattr(record, one.name)) for one in fields(record) if _is_written(record, one)}


def record_from_json(kind: type[T], document: Any, where: Where) -> T:
    """Return the record that the JSON object holds, or raise an InputError that names the key which is wrong."""
    if not isinstance(document, dict):
        raise InputError("is no object.", where, HINT)
    shape: Any = kind  # a dataclass, which no type of Python says
    types = _types(shape)
    values = {}
    for one in fields(shape):
        if one.name in document:
            values[one.name] = _read(types[one.name], document[one.name], where.at(one.name))
        elif one.default is not None:
            raise InputError(f"the key '{one.name}' is missing.", where, HINT)
    return kind(**values)


def _is_written(record: Any, one: Field[Any]) -> bool:
    return getattr(record, one.name) is not None or one.default is not None or _ALWAYS in one.metadata


@cache
def _types(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


def _dump(value: Any) -> Any:
    if is_dataclass(value):
        return record_to_json(value)
    if isinstance(value, Mapping):
        return {key: _dump(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_dump(one) for one in value]
    return value.value if isinstance(value, Enum) else value


def _read(kind: Any, value: Any, where: Where) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        (one,) = [argument for argument in arguments if argument is not NoneType]
        return _read(one, value, where)
    if origin is tuple:
        return _read_list(arguments, value, where)
    if origin is not None:  # an object: Mapping[str, T]
        if not isinstance(value, dict):
            raise InputError("is no object.", where, HINT)
        if arguments[1] is Any:
            return value
        return {key: _read(arguments[1], one, where.at(key)) for key, one in value.items()}
    if is_dataclass(kind):
        return record_from_json(kind, value, where)  # type: ignore[arg-type]
    if issubclass(kind, Enum):
        if value not in [one.value for one in kind]:
            raise InputError(f"is none of {', '.join(str(one.value) for one in kind)}.", where, HINT)
        return kind(value)
    if kind is float and type(value) is int:
        return value
    if type(value) is not kind:
        raise InputError(f"is not {WORDS[kind]}.", where, HINT)
    return value


def _read_list(arguments: tuple[Any, ...], value: Any, where: Where) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise InputError("is no list.", where, HINT)
    if arguments[-1] is Ellipsis:
        return tuple(_read(arguments[0], one, where.at(k)) for k, one in enumerate(value))
    if len(value) != len(arguments):
        raise InputError(f"has {len(value)} entries, not {len(arguments)}.", where, HINT)
    return tuple(_read(kind, one, where.at(k)) for k, (kind, one) in enumerate(zip(arguments, value, strict=True)))
