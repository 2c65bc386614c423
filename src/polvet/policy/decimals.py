"""Decimal numbers to the nearest float32, without the error of rounding twice."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np

TOO_LARGE = 2.0**128 - 2.0**103
"""Half-way between the greatest float32 and 2^128: from here on a number becomes infinite."""


def nearest_float32(text: str) -> float:
    """Return the float32 nearest to the decimal number (ties to even), as a Python float; infinite where too large.

    Rounding through float64 is right unless the float64 stands exactly half-way between two float32.
    >>> nearest_float32("0.1") == float(np.float32(0.1))
    True
    >>> nearest_float32("1.00000005960464477540") > nearest_float32("1.000000059604644775390625") == 1.0
    True
    """
    double = float(text)
    if abs(double) >= TOO_LARGE:
        if abs(double) == TOO_LARGE > abs(Fraction(text)):
            return math.copysign(float(np.finfo(np.float32).max), double)
        return math.copysign(math.inf, double)
    single: float = struct.unpack("f", struct.pack("f", double))[0]
    if double == single or math.isnan(double):
        return single
    with np.errstate(over="ignore"):
        other = float(np.nextafter(np.float32(single), np.float32(np.inf if double > single else -np.inf)))
    if (single + other) / 2 != double:  # exact: float32 midpoints are float64 numbers
        return single
    exact, half = Fraction(text), Fraction(double)
    if exact == half:
        return single
    return max(single, other) if exact > half else min(single, other)
