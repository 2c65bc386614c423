"""The type of an expression by JANI's rules: int is accepted where real is expected, never the other way round.

`type_of` is what everybody uses; `Names` says what the names mean at one place of a model. Types here carry no bounds.
Differs  `pow` of two integers is an integer, as the tools that write JANI expect; `=` compares no arrays
Cost     linear in the expression; no recursion except into the elements of `ac`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from polvet.errors import InputError, Where, did_you_mean
from polvet.model.automata import Function, Model
from polvet.model.expressions import (
    EQUALITY,
    LOGICAL,
    ORDER,
    REAL_BINARY,
    ROUNDING,
    ArrayBuild,
    ArrayLiteral,
    Binary,
    BoolLiteral,
    Call,
    Conditional,
    Element,
    Expression,
    IntLiteral,
    MathConstant,
    Name,
    RealLiteral,
    Select,
    Unary,
    children,
)
from polvet.model.types import BOOL, INT, REAL, ArrayType, IntType, RealType, Type

_LEAVES = frozenset((BoolLiteral, IntLiteral, RealLiteral, MathConstant, Name))
_LOGICAL, _EQUALITY, _ORDER = frozenset(LOGICAL), frozenset(EQUALITY), frozenset(ORDER)
_ANYTHING = ArrayType(ArrayType(BOOL))  # stands for the elements of an empty array; compared by identity


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of a function's parameters, and of its result."""

    parameters: tuple[Type, ...]
    result: Type


@dataclass(frozen=True, slots=True)
class Names:
    """What names mean at one place: the types of constants and variables, and the functions."""

    types: Mapping[str, Type]
    functions: Mapping[str, Signature] = field(default_factory=dict)

    def extended(self, types: Mapping[str, Type], functions: Mapping[str, Signature] | None = None) -> Names:
        """Return the names with more of them, which hide those of before."""
        return Names(
            {**self.types, **types} if types else self.types,
            {**self.functions, **functions} if functions else self.functions,
        )


class TypeFault(Exception):
    """An expression breaks a rule: which node, what, and what to do."""

    def __init__(self, node: Expression, what: str, hint: str) -> None:
        self.node, self.what, self.hint = node, what, hint
        super().__init__(what)


def type_of(expression: Expression, names: Names, where: Where | None = None) -> Type:
    """Return the type of the expression, or raise an InputError with the place in it.

    >>> str(type_of(Binary("+", Name("x"), RealLiteral(1)), Names({"x": INT})))
    'real'
    """
    try:
        return _type_of(expression, names)
    except TypeFault as fault:
        place = None if where is None else _place(fault.node, expression, where)
        raise InputError(fault.what, place, fault.hint) from None


def types_of(model: Model) -> Names:
    """Return what names mean in the model."""
    return constants_of(model).extended({variable.name: plain(variable.type) for variable in model.variables})


def constants_of(model: Model) -> Names:
    """Return the names of the constants alone, and the model's functions."""
    return Names(
        {constant.name: plain(constant.type) for constant in model.constants},
        {function.name: signature(function) for function in model.functions},
    )


def at(where: Where, *steps: str | int) -> Where:
    """Return the place some JSON keys deeper; a place with a line is near enough and stays."""
    return where if where.line is not None else Where(where.file, (*where.path, *steps))


def signature(function: Function) -> Signature:
    """Return the signature of a function."""
    return Signature(tuple(plain(kind) for _, kind in function.parameters), plain(function.type))


def plain(kind: Type) -> Type:
    """Return the type without its bounds.

    >>> plain(ArrayType(IntType(IntLiteral(0), None))) == ArrayType(INT)
    True
    """
    match kind:
        case IntType():
            return INT
        case RealType():
            return REAL
        case ArrayType(base):
            return ArrayType(plain(base))
        case _:
            return kind


def accepts(target: Type, source: Type) -> bool:
    """Return whether a value of one type may be assigned to a variable of another; both without bounds.

    >>> accepts(REAL, INT), accepts(INT, REAL)
    (True, False)
    """
    while isinstance(target, ArrayType) and isinstance(source, ArrayType) and source is not _ANYTHING:
        target, source = target.base, source.base
    return source is _ANYTHING or target == source or (target is REAL and source is INT)


def _join(one: Type, other: Type) -> Type | None:
    if accepts(one, other):
        return one
    return other if accepts(other, one) else None


def _type_of(expression: Expression, names: Names) -> Type:
    # Parents stand before their children in `order`, so backwards every child has its type when its parent asks.
    order: list[Expression] = []
    pending = [expression]
    while pending:
        node = pending.pop()
        order.append(node)
        kind = type(node)
        if kind is Binary:
            pending += (node.left, node.right)  # type: ignore[union-attr]
        elif kind is ArrayBuild:
            pending.append(node.length)  # type: ignore[union-attr]
        elif kind not in _LEAVES:
            pending += children(node)
    types: dict[int, Type] = {}
    for node in reversed(order):
        key = id(node)
        if key not in types:
            types[key] = _binary(node, types) if type(node) is Binary else _rule(node, names, types)
    return types[id(expression)]


def _binary(node: Binary, types: Mapping[int, Type]) -> Type:
    operator, left, right = node.operator, types[id(node.left)], types[id(node.right)]
    if operator in _LOGICAL:
        if left is BOOL and right is BOOL:
            return BOOL
        raise _operand(node, operator, right if left is BOOL else left, "bool")
    if operator in _EQUALITY:
        if (left is BOOL and right is BOOL) or (_is_number(left) and _is_number(right)):
            return BOOL
        raise TypeFault(node, f"'{operator}' compares {_a(left)} with {_a(right)}.", "Compare two values of one kind.")
    if not (_is_number(left) and _is_number(right)):
        raise _operand(node, operator, right if _is_number(left) else left, "a number")
    if operator in _ORDER:
        return BOOL
    if operator == "%" and not (left is INT and right is INT):
        raise _operand(node, operator, right if left is INT else left, "int")
    return INT if left is INT and right is INT and operator not in REAL_BINARY else REAL


def _rule(node: Expression, names: Names, types: Mapping[int, Type]) -> Type:
    match node:
        case Name(name):
            if (kind := names.types.get(name)) is None:
                hint = did_you_mean(name, names.types) or "Declare it, or check its spelling."
                raise TypeFault(node, f"no variable or constant '{name[:60]}' here.", hint)
            return kind
        case BoolLiteral():
            return BOOL
        case IntLiteral():
            return INT
        case RealLiteral() | MathConstant():
            return REAL
        case Unary(operator, operand):
            return _unary(node, operator, types[id(operand)])
        case Conditional(condition, then, otherwise):
            if types[id(condition)] is not BOOL:
                raise _operand(node, "ite", types[id(condition)], "bool")
            joined = _join(types[id(then)], types[id(otherwise)])
            if joined is None:
                what = f"'ite' chooses between {_a(types[id(then)])} and {_a(types[id(otherwise)])}."
                raise TypeFault(node, what, "Give both branches one type.")
            return joined
        case Call(function, arguments):
            return _call(node, function, [types[id(argument)] for argument in arguments], names)
        case Element(array, index):
            base = types[id(array)]
            if not isinstance(base, ArrayType) or base is _ANYTHING:
                raise TypeFault(node, f"an element of {_a(base)} is asked for.", "Only arrays have elements.")
            if types[id(index)] is not INT:
                raise TypeFault(node, f"the index of an array is {_a(types[id(index)])}.", "Use an integer.")
            return base.base
        case ArrayLiteral(elements):
            return ArrayType(_joined(node, [types[id(element)] for element in elements]))
        case ArrayBuild(variable, length, element):
            if types[id(length)] is not INT:
                raise TypeFault(node, f"the length of an array is {_a(types[id(length)])}.", "Use an integer.")
            return ArrayType(_type_of(element, names.extended({variable: INT})))
        case Select(indices, _, items):
            if any(types[id(index)] is not INT for index in indices):
                raise TypeFault(node, "an index is not an integer.", "Use an integer.")
            return _joined(node, [types[id(item)] for item in items])
        case Binary():
            return _binary(node, types)


def _unary(node: Expression, operator: str, operand: Type) -> Type:
    if operator == "¬":
        if operand is not BOOL:
            raise _operand(node, operator, operand, "bool")
        return BOOL
    if not _is_number(operand):
        raise _operand(node, operator, operand, "a number")
    if operator in ROUNDING or operator == "sgn":
        return INT
    return operand if operator == "abs" else REAL


def _call(node: Expression, function: str, arguments: list[Type], names: Names) -> Type:
    known = names.functions.get(function)
    if known is None:
        hint = did_you_mean(function, names.functions) or "Declare it, or check its spelling."
        raise TypeFault(node, f"no function '{function[:60]}' here.", hint)
    if len(arguments) != len(known.parameters):
        what = f"the function '{function}' takes {len(known.parameters)} arguments, not {len(arguments)}."
        raise TypeFault(node, what, "Give it one argument per parameter.")
    for position, (parameter, argument) in enumerate(zip(known.parameters, arguments, strict=True)):
        if not accepts(parameter, argument):
            what = f"argument {position} of '{function}' is {_a(argument)}; {_a(parameter)} is expected."
            raise TypeFault(node, what, "Convert it, for example by floor or ceil.")
    return known.result


def _joined(node: Expression, kinds: Iterable[Type]) -> Type:
    result: Type | None = None
    for kind in kinds:
        joined = kind if result is None else _join(result, kind)
        if joined is None:
            raise TypeFault(node, f"an array of {result} holds {_a(kind)}.", "Give all elements one type.")
        result = joined
    return _ANYTHING if result is None else result


def _is_number(kind: Type) -> bool:
    return kind is INT or kind is REAL


def _operand(node: Expression, operator: str, operand: Type, expected: str) -> TypeFault:
    hint = {"bool": "Compare it with something first.", "int": "Convert it by floor or ceil."}.get(expected)
    return TypeFault(node, f"'{operator}' takes {expected}, not {_a(operand)}.", hint or "Check its operands.")


def _a(kind: Type) -> str:
    if kind is _ANYTHING:
        return "an empty array"
    return f"an {kind}" if str(kind)[0] in "ai" else f"a {kind}"


def _place(target: Expression, expression: Expression, where: Where) -> Where:
    """Return the place of the node inside the expression, in JANI's keys; a place with a line is near enough."""
    if where.line is not None:
        return where
    pending: list[tuple[tuple[str | int, ...], Expression]] = [((), expression)]
    while pending:
        path, node = pending.pop()
        if node is target:
            return Where(where.file, (*where.path, *path))
        pending.extend(((*path, *step), child) for step, child in reversed(_steps(node)))
    return where


def _steps(node: Expression) -> list[tuple[tuple[str | int, ...], Expression]]:
    match node:
        case Unary(_, operand):
            return [(("exp",), operand)]
        case Binary(_, left, right):
            return [(("left",), left), (("right",), right)]
        case Conditional(condition, then, otherwise):
            return [(("if",), condition), (("then",), then), (("else",), otherwise)]
        case Call(_, arguments):
            return [(("args", position), argument) for position, argument in enumerate(arguments)]
        case Element(array, index):
            return [(("exp",), array), (("index",), index)]
        case ArrayLiteral(elements):
            return [(("elements", position), element) for position, element in enumerate(elements)]
        case ArrayBuild(_, length, element):
            return [(("length",), length), (("exp",), element)]
        case _:
            return []
