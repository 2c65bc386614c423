"""Register code: instructions, constants, temporaries, and expressions compiled into them.

Conditions become jumps (`unless` jumps away where the condition is false, `when` where it is true), so `∧` and `∨` cost
nothing of their own. Values end in a register: a variable's own slot, a constant's, or a temporary's.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from polvet.errors import InputError
from polvet.model import arithmetic
from polvet.model.expressions import (
    EQUALITY,
    ORDER,
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    IntLiteral,
    MathConstant,
    Name,
    RealLiteral,
    Select,
    Unary,
)
from polvet.model.kinds import kind_of
from polvet.model.network import Kind

OPERATIONS = tuple(
    """
    HALT EMIT JMP SWITCH JEQ JNE JLT JLE FJEQ FJNE FJLT FJLE JNZ JZ MOV ADD SUB MUL MIN MAX MOD POW ABS SGN FADD FSUB
    FMUL FDIV FMIN FMAX FMOD FPOW FLOG FABS FSGN FLOOR CEIL TRC FUN I2F RANGE GATHER SETW INC STI STF STX STR PUT PUTX
    RET
    """.split()  # noqa: SIM905
)
OP = {name: number for number, name in enumerate(OPERATIONS)}
FUNCTIONS = tuple(
    """
    sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh cot sec csc acot asec acsc coth sech csch acoth asech
    acsch exp
    """.split()  # noqa: SIM905
)
INTEGER = {"+": "ADD", "-": "SUB", "*": "MUL", "min": "MIN", "max": "MAX", "%": "MOD", "pow": "POW"}
REAL = {
    "+": "FADD", "-": "FSUB", "*": "FMUL", "/": "FDIV", "min": "FMIN", "max": "FMAX", "%": "FMOD", "pow": "FPOW",
    "log": "FLOG",
}  # fmt: skip
ROUNDING = {"floor": "FLOOR", "ceil": "CEIL", "trc": "TRC"}
# A comparison as (jump, operands swapped), when it shall jump where it holds; and where it does not hold.
JUMP_WHEN = {
    "=": ("JEQ", False), "≠": ("JNE", False), "<": ("JLT", False), "≤": ("JLE", False), ">": ("JLT", True),
    "≥": ("JLE", True),
}  # fmt: skip
OPPOSITE = {"=": "≠", "≠": "=", "<": "≥", "≥": "<", ">": "≤", "≤": ">"}


class Assembler:
    """Collects code for one program."""

    def __init__(self, slots: Mapping[str, int], kinds: Mapping[str, Kind]) -> None:
        self.slots, self.kinds = slots, kinds
        self.code: list[list[int]] = []
        self.registers: list[int] = [0] * len(slots)
        self.tables: list[list[int]] = []
        self.read: set[int] = set()  # slots that some code reads
        self._constants: dict[tuple[str, int], int] = {}
        self._temporaries: list[int] = []
        self._kinds: dict[int, tuple[Expression, Kind]] = {}  # keeps the expression alive, so ids stay unique

    # -- plumbing

    def copy(self) -> Assembler:
        """Return an assembler with the same code so far; what is emitted there leaves this one as it is."""
        other = Assembler(self.slots, self.kinds)
        other.code, other.registers, other.tables = list(self.code), list(self.registers), list(self.tables)
        other.read, other._constants, other._kinds = set(self.read), dict(self._constants), dict(self._kinds)
        other._temporaries = list(self._temporaries)
        return other

    def emit(self, operation: str, a: int = 0, b: int = 0, c: int = 0) -> int:
        """Append an instruction and return its address."""
        self.code.append([OP[operation], a, b, c])
        return len(self.code) - 1

    @property
    def here(self) -> int:
        """Return the address of the next instruction."""
        return len(self.code)

    def land(self, jumps: Sequence[int]) -> None:
        """Make the jumps lead to the next instruction."""
        for address in jumps:
            self.code[address][3] = len(self.code)

    def constant(self, value: int | float) -> int:
        """Return the register that holds the constant."""
        bits = value if isinstance(value, int) else struct.unpack("<q", struct.pack("<d", value))[0]
        if not -(2**63) <= bits < 2**63:
            raise InputError(f"the number {value} does not fit into 64 bits.", hint="Use smaller numbers.")
        key = ("i" if isinstance(value, int) else "f", bits)
        if key not in self._constants:
            self._constants[key] = len(self.registers)
            self.registers.append(bits)
        return self._constants[key]

    def temporary(self, depth: int) -> int:
        """Return the temporary register of that nesting depth."""
        while depth >= len(self._temporaries):
            self._temporaries.append(len(self.registers))
            self.registers.append(0)
        return self._temporaries[depth]

    def table(self, entries: Sequence[int]) -> int:
        """Return the number of a new table."""
        self.tables.append(list(entries))
        return len(self.tables) - 1

    def kind(self, expression: Expression) -> Kind:
        """Return the kind of the expression, remembered."""
        known = self._kinds.get(id(expression))
        if known is None:
            known = self._kinds[id(expression)] = (expression, kind_of(expression, self.kinds, self.kind))
        return known[1]

    # -- values

    def value(self, expression: Expression, want: Kind | None = None, depth: int = 0) -> int:
        """Return the register that holds the value once the emitted code has run."""
        kind = self.kind(expression)
        if want is Kind.REAL and kind is Kind.INT:
            if isinstance(expression, IntLiteral):
                return self.constant(float(expression.value))
            target = self.temporary(depth)
            self.emit("I2F", target, self.value(expression, Kind.INT, depth))
            return target
        match expression:
            case BoolLiteral(value):
                return self.constant(int(value))
            case IntLiteral(value):
                return self.constant(value)
            case RealLiteral():
                return self.constant(expression.rounded)
            case MathConstant(name):
                return self.constant(arithmetic.CONSTANTS[name])
            case Name(name):
                self.read.add(self.slots[name])
                return self.slots[name]
            case Binary(operator, left, right) if kind is not Kind.BOOL:
                one = self.value(left, kind, depth)
                other = self.value(right, kind, depth + 1)
                target = self.temporary(depth)
                self.emit((INTEGER if kind is Kind.INT else REAL)[operator], target, one, other)
                return target
            case Unary(operator, operand) if kind is not Kind.BOOL:
                return self._unary(operator, operand, depth)
            case Conditional(condition, then, otherwise) if kind is not Kind.BOOL:
                target = self.temporary(depth)
                to_else = self.unless(condition, depth)
                self.emit("MOV", target, self.value(then, kind, depth))
                end = self.emit("JMP")
                self.land(to_else)
                self.emit("MOV", target, self.value(otherwise, kind, depth))
                self.land([end])
                return target
            case Select():
                return self._select(expression, kind, depth)
            case _:
                target = self.temporary(depth)
                is_false = self.unless(expression, depth)
                self.emit("MOV", target, self.constant(1))
                end = self.emit("JMP")
                self.land(is_false)
                self.emit("MOV", target, self.constant(0))
                self.land([end])
                return target

    def _unary(self, operator: str, operand: Expression, depth: int) -> int:
        target = self.temporary(depth)
        integer = self.kind(operand) is Kind.INT
        if operator in ("abs", "sgn"):
            source = self.value(operand, None, depth)
            self.emit(("" if integer else "F") + operator.upper(), target, source)
        elif operator in ROUNDING:
            if integer:
                return self.value(operand, Kind.INT, depth)
            self.emit(ROUNDING[operator], target, self.value(operand, Kind.REAL, depth))
        else:
            self.emit("FUN", target, self.value(operand, Kind.REAL, depth), FUNCTIONS.index(operator))
        return target

    def position(self, select: Select, depth: int) -> int:
        """Return the register that holds the number of the selected item; indices out of range are a fault."""
        result = None
        for index, length in zip(select.indices, select.shape, strict=True):
            at = depth if result is None else depth + 1
            register = self.value(index, Kind.INT, at)
            self.emit("RANGE", register, length)
            if result is None:
                result = register
            else:
                target = self.temporary(depth)
                self.emit("MUL", target, result, self.constant(length))
                self.emit("ADD", target, target, register)
                result = target
        assert result is not None
        return result

    def _select(self, select: Select, kind: Kind, depth: int) -> int:
        if not select.items:
            raise InputError(
                "an element of an empty array.", hint="Give the array at least one element, or guard the access."
            )
        place = self.position(select, depth)
        target = self.temporary(depth)
        simple = (BoolLiteral, IntLiteral, RealLiteral, Name)
        if all(
            isinstance(item, simple) and (kind is self.kind(item) or isinstance(item, IntLiteral))
            for item in select.items
        ):
            entries = [self.value(item, kind, depth + 1) for item in select.items]
            self.emit("GATHER", target, place, self.table(entries))
            return target
        if place != target:
            self.emit("MOV", target, place)
        ends = []
        for number, item in enumerate(select.items):
            skip = self.emit("JNE", target, self.constant(number))
            self.emit("MOV", target, self.value(item, kind, depth + 1))
            ends.append(self.emit("JMP"))
            self.land([skip])
        self.land(ends)
        return target

    # -- conditions

    def unless(self, condition: Expression, depth: int = 0) -> list[int]:
        """Emit a test that falls through where the condition holds; return the jumps taken where it does not."""
        match condition:
            case BoolLiteral(value):
                return [] if value else [self.emit("JMP")]
            case Binary("∧", left, right):
                return self.unless(left, depth) + self.unless(right, depth)
            case Binary("∨", left, right):
                holds = self.when(left, depth)
                fails = self.unless(right, depth)
                self.land(holds)
                return fails
            case Binary("⇒", left, right):
                holds = self.unless(left, depth)
                fails = self.unless(right, depth)
                self.land(holds)
                return fails
            case Unary("¬", operand):
                return self.when(operand, depth)
            case Binary(operator, left, right) if operator in ORDER or operator in EQUALITY:
                return [self._comparison(OPPOSITE[operator], left, right, depth)]
            case Conditional(test, then, otherwise):
                to_else = self.unless(test, depth)
                fails = self.unless(then, depth)
                end = self.emit("JMP")
                self.land(to_else)
                fails += self.unless(otherwise, depth)
                self.land([end])
                return fails
            case _:
                return [self.emit("JZ", self.value(condition, Kind.BOOL, depth))]

    def when(self, condition: Expression, depth: int = 0) -> list[int]:
        """Emit a test that falls through where the condition fails; return the jumps taken where it holds."""
        match condition:
            case BoolLiteral(value):
                return [self.emit("JMP")] if value else []
            case Binary("∨", left, right):
                return self.when(left, depth) + self.when(right, depth)
            case Binary(("∧" | "⇒"), _, _) | Conditional():
                fails = self.unless(condition, depth)
                holds = [self.emit("JMP")]
                self.land(fails)
                return holds
            case Unary("¬", operand):
                return self.unless(operand, depth)
            case Binary(operator, left, right) if operator in ORDER or operator in EQUALITY:
                return [self._comparison(operator, left, right, depth)]
            case _:
                return [self.emit("JNZ", self.value(condition, Kind.BOOL, depth))]

    def _comparison(self, operator: str, left: Expression, right: Expression, depth: int) -> int:
        kind = Kind.REAL if Kind.REAL in (self.kind(left), self.kind(right)) else None
        one = self.value(left, kind, depth)
        other = self.value(right, kind, depth + 1)
        jump, swapped = JUMP_WHEN[operator]
        if swapped:
            one, other = other, one
        return self.emit(("F" if kind is Kind.REAL else "") + jump, one, other)
