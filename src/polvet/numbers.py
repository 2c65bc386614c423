"""Numbers as people and files write them, read exactly, and never at a price: the one reader of numerals.

A numeral of eleven characters may spell a number of a billion digits. SOUND: its size is tested on the text, before any digit
is computed; what it returns fits a double, so that `float` of it never overflows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import gcd, inf, lcm, nextafter

MAX_DIGITS = 400
"""Significant digits of a numeral, and the greatest power of ten."""
LONG_DIGITS = 4_300
"""Of either side of a quotient that polvet wrote itself: as many as Python's `int` reads."""
LARGEST = Fraction(sys.float_info.max)

_DECIMAL = re.compile(r"[-+]?([0-9]*)(?:\.([0-9]*))?(?:[eE]([-+]?[0-9]{1,6}))?")
_QUOTIENT = re.compile(r"([-+]?[0-9]+)/([0-9]+)")


def whole_multiple(values: Sequence[Fraction]) -> list[int]:
    """Return the integers without a common divisor that stand to each other as the fractions do.

    >>> whole_multiple([Fraction(1, 2), Fraction(2, 3)])
    [3, 4]
    """
    scale = lcm(*(value.denominator for value in values))
    whole = [int(value * scale) for value in values]
    divisor = gcd(*whole) or 1
    return [value // divisor for value in whole]


@lru_cache(maxsize=4096)
def exact(text: str, *, digits: int = MAX_DIGITS) -> int | Fraction | None:
    """Return the number that the text spells: an int for plain digits, else a Fraction; None where it is none or too large.

    `digits` bounds both sides of a quotient.
    >>> exact("12"), exact("-2.50"), exact("1/3"), exact("25e-1")
    (12, Fraction(-5, 2), Fraction(1, 3), Fraction(5, 2))
    >>> exact("1e999999999"), exact("1/0"), exact("nan"), exact("9" * 351), exact("")
    (None, None, None, None, None)
    """
    numeral = text.strip()
    value: int | Fraction
    if parts := _QUOTIENT.fullmatch(numeral):
        if max(len(side) for side in parts.groups()) > digits or not int(parts[2]):
            return None
        value = Fraction(int(parts[1]), int(parts[2]))
    elif parts := _DECIMAL.fullmatch(numeral):
        whole, places, exponent = parts[1], parts[2] or "", int(parts[3] or 0)
        scale = exponent - len(places)
        significant = len((whole + places).lstrip("0"))
        if not whole + places or significant > MAX_DIGITS or not -2 * MAX_DIGITS <= scale <= MAX_DIGITS:
            return None
        value = int(numeral) if parts[2] is None and parts[3] is None else Fraction(numeral)
    else:
        return None
    return value if -LARGEST <= value <= LARGEST else None


def at_least(bound: int | Fraction) -> float:
    """Return the smallest double that is at least the exact bound."""
    real = float(bound)
    return real if Fraction(real) >= bound else nextafter(real, inf)
