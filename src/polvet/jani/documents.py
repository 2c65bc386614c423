"""JSON documents on their way to a model: limits on size, exact numbers, faults that find their own place.

Reading carries no places: a `Fault` names the object it found wrong, and `placed` looks for that very object in the
document to say where it stands. So reading a good file costs nothing for the sake of bad ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

from polvet import files
from polvet.errors import InputError, Where, did_you_mean
from polvet.numbers import MAX_DIGITS, exact

Json: TypeAlias = Any
"""`None`, `bool`, `int`, `Fraction` (a number with a point or an exponent), `str`, `list` or `dict`."""

MAX_DEPTH = 200
"""How deeply a JANI document may nest; every later step may recurse this deep several times over."""

log = logging.getLogger(__name__)


class Fault(Exception):
    """Something is wrong with `inside` (an object or list of the document), or with its item at `key`."""

    def __init__(self, inside: Json, key: str | int | None, what: str, hint: str | None = None) -> None:
        self.inside, self.key, self.what, self.hint = inside, key, what, hint
        super().__init__(what)


_warned: ContextVar[tuple[str, set[str]]] = ContextVar("_warned")


def warn(message: str) -> None:
    """Log a warning about the document that is being read, once per document."""
    file, messages = _warned.get(("document", set()))
    if message not in messages:
        messages.add(message)
        log.warning("%s: %s", file, message)


@contextmanager
def placed(document: Json, where: Where) -> Iterator[None]:
    """Turn a fault somewhere in the document into an InputError that names its place."""
    token = _warned.set((where.file, set()))
    try:
        yield
    except Fault as fault:
        place = where
        for step in _path_to(fault.inside, document):
            place = place.at(step)
        if fault.key is not None:
            place = place.at(fault.key)
        raise InputError(fault.what, place, fault.hint) from None
    finally:
        _warned.reset(token)


def _path_to(target: Json, document: Json) -> tuple[str | int, ...]:
    pending: list[tuple[tuple[str | int, ...], Json]] = [((), document)]
    while pending:
        path, part = pending.pop()
        # An object or list is found by identity; only an empty name is found by its value.
        if part is target or (target == "" and part == ""):
            return path
        if isinstance(part, dict):
            pending.extend(((*path, key), value) for key, value in part.items())
        elif isinstance(part, list):
            pending.extend(((*path, position), value) for position, value in enumerate(part))
    return ()


def below(where: Where, *steps: str | int) -> Where:
    """Return the place some steps deeper, as `where.at(...).at(...)` does, in one go."""
    return Where(where.file, (*where.path, *steps), where.line, where.column)


def load_document(path: str | Path, *, max_bytes: int = files.MAX_BYTES) -> Json:
    """Return the JSON document in the file, its numbers exact; nothing too large or too deep comes through."""
    return parse_document(files.read_text(path, max_bytes=max_bytes), Where(str(path)))


def parse_document(text: str, where: Where) -> Json:
    """Return the JSON document in the text, its numbers exact; nothing too deep comes through."""
    document = files.parse_json(text, where, parse_float=_real_at(where))
    if "\\u" in text:
        _check_texts(document, where)
    check_depth(document, where)
    return document


def _check_texts(document: Json, where: Where) -> None:
    # Half of a surrogate pair can be written in JSON, but never printed or written to a file again.
    pending = [document]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            pending += [*part.keys(), *part.values()]
        elif isinstance(part, list):
            pending += part
        elif isinstance(part, str) and any("\ud800" <= char <= "\udfff" for char in part):
            raise InputError(f"the text {ascii(part)[:60]} is not Unicode.", where, "Remove the lone surrogate.")


def _real_at(where: Where) -> Callable[[str], Fraction]:
    def real(digits: str) -> Fraction:
        value = exact_real(digits)
        if value is None:
            shown = digits if len(digits) <= 24 else f"{digits[:20]}..."
            raise InputError(
                f"the number {shown} needs more than {MAX_DIGITS} digits.",
                where,
                "Write a number nearer to 1.",
            )
        return value

    return real


def exact_real(digits: str) -> Fraction | None:
    """Return the exact value of a decimal numeral, or None if it needs too many digits.

    >>> exact_real("0.1"), exact_real("25e-1"), exact_real("1e999999")
    (Fraction(1, 10), Fraction(5, 2), None)
    """
    value = exact(digits)
    return None if value is None else Fraction(value)


def check_depth(document: Json, where: Where) -> None:
    """Raise an InputError if the document nests more deeply than MAX_DEPTH."""
    level, depth = [document], 0
    while level:
        depth += 1
        below: list[Json] = []
        for part in level:
            if isinstance(part, dict):
                below += [value for value in part.values() if isinstance(value, dict | list)]
            elif isinstance(part, list):
                below += [value for value in part if isinstance(value, dict | list)]
        level = below
        if depth > MAX_DEPTH:
            raise InputError(
                f"the document nests more than {MAX_DEPTH} deep.",
                where,
                "Split long chains of one operator into halves, or name parts by functions.",
            )


def kind_of(value: Json) -> str:
    """Return what a JSON value is, in words.

    >>> kind_of([]), kind_of(True), kind_of(Fraction(1, 2))
    ('a list', 'true or false', 'a number')
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | Fraction():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case _:
            return "an object"


def shown(value: str, longest: int = 60) -> str:
    """Return the text in quotes, cut if it is long.

    >>> shown("abc"), shown("abcdef", 3)
    ("'abc'", "'abc...'")
    """
    return f"'{value}'" if len(value) <= longest else f"'{value[:longest]}...'"


def mapping(value: Json, inside: Json, key: str | int | None, what: str) -> dict[str, Json]:
    """Return the value, which must be an object."""
    if isinstance(value, dict):
        return value
    raise Fault(inside, key, f"is {kind_of(value)}; {what} is an object.", "Write { ... } there.")


def sequence(inside: dict[str, Json], key: str, *, required: bool = False) -> list[Json]:
    """Return the list at a key; an absent one is empty unless it is required."""
    if key not in inside and not required:
        return []
    if key not in inside:
        raise Fault(inside, None, f"the key '{key}' is missing.", f"Add a list '{key}'.")
    value = inside[key]
    if isinstance(value, list):
        return value
    raise Fault(inside, key, f"is {kind_of(value)}; a list is expected.", "Write [ ... ] there.")


def objects(inside: dict[str, Json], key: str, what: str, *, required: bool = False) -> list[dict[str, Json]]:
    """Return the list at a key, each of whose items must be an object."""
    items = sequence(inside, key, required=required)
    return [mapping(item, items, position, what) for position, item in enumerate(items)]


def required(inside: dict[str, Json], key: str, what: str) -> Json:
    """Return the value at a key that must be there and must not be null."""
    value = inside.get(key)
    if value is not None:
        return value
    if key in inside:
        raise Fault(inside, key, f"is null; {what} is expected.", "Give it a value.")
    raise Fault(inside, None, f"the key '{key}' is missing: {what}.", _near_key(key, inside) or f"Add '{key}'.")


def text(inside: dict[str, Json] | list[Json], key: str | int, what: str) -> str:
    """Return the text at a key, which must not be empty."""
    value = required(inside, str(key), what) if isinstance(inside, dict) else inside[int(key)]
    if not isinstance(value, str):
        raise Fault(inside, key, f"is {kind_of(value)}; {what} is a text.", 'Write it between double quotes: "...".')
    if not value:
        raise Fault(inside, key, f"is empty; {what} needs at least one character.", "Give it a name.")
    return value


def optional_text(inside: dict[str, Json], key: str, what: str) -> str | None:
    """Return the text at a key, or None where it is absent or null."""
    return None if inside.get(key) is None else text(inside, key, what)


def truth(inside: dict[str, Json], key: str) -> bool:
    """Return the truth value at a key; absent means false."""
    value = inside.get(key, False)
    if isinstance(value, bool):
        return value
    raise Fault(inside, key, f"is {kind_of(value)}; true or false is expected.", "Write true or false without quotes.")


def know_keys(inside: dict[str, Json], known: frozenset[str], what: str) -> None:
    """Log a warning for each key that means nothing here; keys that start with `x-` may mean anything."""
    for key in inside.keys() - known:
        if not key.startswith("x-") and key != "comment":
            hint = did_you_mean(key, known)
            warn(f"the key {shown(key)} of {what} is not JANI and is ignored." + (f" {hint}" if hint else ""))


def _near_key(key: str, inside: dict[str, Json]) -> str | None:
    near = did_you_mean(key, inside)
    return f"There is a key of nearly that name: {near.removeprefix('Did you mean ').rstrip('?')}." if near else None
