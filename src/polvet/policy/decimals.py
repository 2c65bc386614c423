"""Decimal numbers to the nearest float32, without the error of rounding twice."""

from __future__ import annotations

import struct
from fractions import Fraction

import numpy as np


def nearest_float32(text: str) -> float:
    """Return the float32 nearest to the decimal number (ties to even), as a Python float; infinite where too large.

    Rounding through float64 is right unless the float64 stands exactly half-way between two float32.
    >>> nearest_float32("0.1") == float(np.float32(0.1))
    True
    >>> nearest_float32("1.00000005960464477540") > nearest_float32("1.000000059604644775390625") == 1.0
    True
    """
    double = float(text)
    try:
        single: float = struct.unpack("f", struct.pack("f", double))[0]
    except OverflowError:
        return float("inf") if double > 0 else float("-inf")
    if double == single or double - double != 0:
        return single
    other = float(np.nextafter(np.float32(single), np.float32(np.inf if double > single else -np.inf)))
    if (single + other) / 2 != double:  # exact: float32 midpoints are float64 numbers
        return single
    exact, half = Fraction(text), Fraction(double)
    if exact == half:
        return single
    return max(single, other) if exact > half else min(single, other)
