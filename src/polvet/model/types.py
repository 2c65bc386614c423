"""The types of JANI: bool, int, real, bounded int and real, arrays; bounds may be expressions over constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from polvet.model.expressions import Expression


@dataclass(frozen=True, slots=True)
class BoolType:
    """`true` or `false`."""

    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True, slots=True)
class IntType:
    """Integers, perhaps between bounds (either may be absent)."""

    lower: Expression | None = None
    upper: Expression | None = None

    def __str__(self) -> str:
        return "int" if self.lower is None and self.upper is None else "bounded int"


@dataclass(frozen=True, slots=True)
class RealType:
    """Real numbers (double precision while running), perhaps between bounds."""

    lower: Expression | None = None
    upper: Expression | None = None

    def __str__(self) -> str:
        return "real" if self.lower is None and self.upper is None else "bounded real"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """Arrays; the length comes with the initial value."""

    base: Type

    def __str__(self) -> str:
        return f"array of {self.base}"


Type: TypeAlias = BoolType | IntType | RealType | ArrayType
BOOL, INT, REAL = BoolType(), IntType(), RealType()
