"""JSON text with exact decimals, laid out for reading: what fits on a line stays on it, two spaces per level."""

from __future__ import annotations

import json
from fractions import Fraction

from polvet.errors import InputError
from polvet.jani.documents import MAX_DEPTH, Json
from polvet.numbers import MAX_DIGITS

WIDTH = 100


def json_text(document: Json) -> str:
    """Return the document on one line.

    >>> json_text({"a": [1, Fraction(1, 4), None]})
    '{"a": [1, 0.25, null]}'
    """
    return _lay_out(document, 0, 0)


def json_lines(document: Json) -> str:
    """Return the document laid out over lines, with a line break at the end.

    >>> print(json_lines({"name": "x" * 50, "values": ["y" * 50, 1]}), end="")
    {
      "name": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
      "values": ["yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", 1]
    }
    """
    return _lay_out(document, 0, WIDTH) + "\n"


def _lay_out(document: Json, level: int, width: int) -> str:
    if level > MAX_DEPTH:
        raise InputError(
            f"the model nests more than {MAX_DEPTH} deep and could not be read again.",
            hint="Split long chains of one operator into halves, or name parts by functions.",
        )
    if type(document) is dict:
        opening, closing = "{", "}"
        items = [
            f"{json.dumps(key, ensure_ascii=False)}: {_lay_out(value, level + 1, width)}"
            for key, value in document.items()
        ]
    elif type(document) is list:
        opening, closing = "[", "]"
        items = [_lay_out(value, level + 1, width) for value in document]
    elif isinstance(document, Fraction):
        return decimal_text(document)
    elif type(document) is int:
        return str(document)
    else:
        return json.dumps(document, ensure_ascii=False)
    fits = not width or (
        sum(len(item) + 2 for item in items) + 2 * level <= width and not any("\n" in item for item in items)
    )
    if fits:
        return opening + ", ".join(items) + closing
    indent = "\n" + "  " * (level + 1)
    return opening + indent + f",{indent}".join(items) + "\n" + "  " * level + closing


def is_decimal(value: Fraction) -> bool:
    """Return whether the fraction is a decimal number of at most MAX_DIGITS digits."""
    places = _places(value)
    return places is not None and places + len(str(abs(value.numerator) // value.denominator)) <= MAX_DIGITS


def decimal_text(value: Fraction) -> str:
    """Return the exact decimal numeral of a fraction that has one; it has a point, so it is read as a real number.

    >>> decimal_text(Fraction(-1, 8)), decimal_text(Fraction(3))
    ('-0.125', '3.0')
    """
    places = _places(value)
    if places is None:
        raise ValueError(f"{value} is not a decimal number")
    places = max(places, 1)
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    return f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}"


def _places(value: Fraction) -> int | None:
    twos = fives = 0
    rest = value.denominator
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    return max(twos, fives) if rest == 1 else None
