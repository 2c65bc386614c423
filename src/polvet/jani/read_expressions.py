"""Read JANI's expressions and types; anything unsupported is refused by its name and place."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from polvet.errors import did_you_mean
from polvet.jani.documents import Fault, Json, kind_of, know_keys, required, sequence, shown, text
from polvet.jani.features import OTHER_SPELLINGS, UNSUPPORTED_OPERATORS, UNSUPPORTED_TYPES
from polvet.model import expressions
from polvet.model.expressions import (
    FALSE,
    TRUE,
    ArrayBuild,
    ArrayLiteral,
    Binary,
    Call,
    Conditional,
    Element,
    Expression,
    IntLiteral,
    MathConstant,
    Name,
    RealLiteral,
    Unary,
)
from polvet.model.types import BOOL, INT, REAL, ArrayType, IntType, RealType, Type

UNARY = frozenset(expressions.UNARY)
BINARY = frozenset(expressions.BINARY)
OTHERS = ("ite", "call", "aa", "av", "ac", "let")
OPERATORS = (*expressions.UNARY, *expressions.BINARY, *OTHERS)

# Literals and names are equal wherever they stand, so each is made once.
_integer = lru_cache(maxsize=4096)(IntLiteral)
_real = lru_cache(maxsize=4096)(RealLiteral)
_name = lru_cache(maxsize=4096)(Name)

_UNARY_KEYS = frozenset(("op", "exp"))
_BINARY_KEYS = frozenset(("op", "left", "right"))


def read_expression(document: Json) -> Expression:
    """Return the expression of a JSON value that is not null.

    >>> read_expression({"op": "+", "left": "x", "right": 1})
    Binary(operator='+', left=Name(name='x'), right=IntLiteral(value=1))
    """
    if type(document) is dict:
        operator = document.get("op")
        if type(operator) is not str:
            return _without_operator(document)
        if operator in BINARY:
            left, right = document.get("left"), document.get("right")
            if operator == "-" and "exp" in document and left is None and right is None:
                # Storm writes a unary minus, which JANI does not have.
                return Binary("-", _integer(0), read_expression(operand(document, "exp")))
            if left is None or right is None:
                left, right = operand(document, "left"), operand(document, "right")
            if len(document) > 3:
                know_keys(document, _BINARY_KEYS, f"an expression '{operator}'")
            return Binary(operator, read_expression(left), read_expression(right))
        if operator in UNARY:
            if len(document) > 2:
                know_keys(document, _UNARY_KEYS, f"an expression '{operator}'")
            return Unary(operator, read_expression(operand(document, "exp")))
        return _other(document, operator)
    return read_leaf(document)


def read_leaf(document: Json) -> Expression:
    """Return the name or literal of a JSON value that is neither null nor an object."""
    match document:
        case str():
            if not document:
                raise Fault(document, None, "a name is empty.", "Write the name of a variable or constant.")
            return _name(document)
        case bool():
            return TRUE if document else FALSE
        case int():
            return _integer(document)
        case Fraction():
            return _real(document)
        case float():
            raise Fault(document, None, "a number was read inexactly.", "Use polvet.jani.documents.load_document.")
        case _:
            raise Fault(
                document,
                None,
                f"is {kind_of(document)}; an expression is expected.",
                'Write a number, a name or an object with "op".',
            )


def operand(document: dict[str, Json], key: str) -> Json:
    """Return the operand at a key, which must be there; an empty name is refused here, where its place is known."""
    value = required(document, key, "an expression")
    if value == "":
        raise Fault(document, key, "a name is empty.", "Write the name of a variable or constant.")
    return value


def _without_operator(document: dict[str, Json]) -> Expression:
    if "op" in document:
        raise Fault(document, "op", f"is {kind_of(document['op'])}; an operator is a text.", 'Write for example "+".')
    if "constant" in document:
        name = document["constant"]
        if name in ("π", "e"):
            return MathConstant(name)
        raise Fault(document, "constant", "is not a constant of JANI.", "JANI knows 'π' and 'e'.")
    if "distribution" in document:
        name = shown(str(document["distribution"]))
        raise Fault(
            document,
            "distribution",
            f"sampling from a distribution ({name}) is not supported.",
            "Only discrete models are read: write the outcomes as destinations with probabilities.",
        )
    raise Fault(document, None, "an expression has neither 'op' nor 'constant'.", 'Add "op", for example "+".')


def _other(document: dict[str, Json], operator: str) -> Expression:
    match operator:
        case "ite":
            know_keys(document, frozenset(("op", "if", "then", "else")), "an expression 'ite'")
            condition, then, otherwise = (operand(document, key) for key in ("if", "then", "else"))
            return Conditional(read_expression(condition), read_expression(then), read_expression(otherwise))
        case "call":
            know_keys(document, frozenset(("op", "function", "args")), "a call")
            function = text(document, "function", "the name of a function")
            return Call(function, read_expressions(sequence(document, "args", required=True)))
        case "aa":
            know_keys(document, frozenset(("op", "exp", "index")), "an array access")
            return Element(read_expression(operand(document, "exp")), read_expression(operand(document, "index")))
        case "av":
            know_keys(document, frozenset(("op", "elements")), "an array value")
            return ArrayLiteral(read_expressions(sequence(document, "elements", required=True)))
        case "ac":
            know_keys(document, frozenset(("op", "var", "length", "exp")), "an array constructor")
            variable = text(document, "var", "the name of the index variable")
            length, element = operand(document, "length"), operand(document, "exp")
            return ArrayBuild(variable, read_expression(length), read_expression(element))
        case "let":
            know_keys(document, frozenset(("op", "variables", "expression")), "an expression 'let'")
            if sequence(document, "variables"):
                raise Fault(document, "variables", "variables of 'let' are not supported.", "Use a function instead.")
            return read_expression(operand(document, "expression"))
        case _:
            raise unknown_operator(document, operator, OPERATORS)


def unknown_operator(document: dict[str, Json], operator: str, known: tuple[str, ...]) -> Fault:
    """Return the fault that says why an operator is not read here."""
    if operator in UNSUPPORTED_OPERATORS:
        return Fault(
            document, "op", f"{UNSUPPORTED_OPERATORS[operator]} is not supported.", "Only discrete models are read."
        )
    if operator in OTHER_SPELLINGS:
        hint: str | None = f"JANI writes '{OTHER_SPELLINGS[operator]}'."
    else:
        hint = did_you_mean(operator, known)
    return Fault(
        document, "op", f"no operator {shown(operator)} in an expression.", hint or f"Use one of {' '.join(known)}"
    )


def read_expressions(documents: list[Json]) -> tuple[Expression, ...]:
    """Return the expressions of a list."""
    for position, document in enumerate(documents):
        if document is None or document == "":
            raise Fault(documents, position, "an expression is expected.", "Write a number, a name or an operation.")
    return tuple([read_expression(document) for document in documents])


def read_wrapped(inside: dict[str, Json], key: str) -> Expression | None:
    """Return the expression of `{"exp": ...}` at a key, as guards and probabilities have it; None where absent."""
    wrapper = inside.get(key)
    if wrapper is None:
        return None
    if type(wrapper) is not dict or "exp" not in wrapper:
        raise Fault(inside, key, "an object with 'exp' is expected.", 'Write {"exp": ...} around the expression.')
    if len(wrapper) > 1:
        know_keys(wrapper, frozenset(("exp",)), f"'{key}'")
    return read_expression(operand(wrapper, "exp"))


def read_optional(inside: dict[str, Json], key: str) -> Expression | None:
    """Return the expression at a key; None where it is absent or null."""
    return None if inside.get(key) is None else read_expression(operand(inside, key))


def read_type(inside: dict[str, Json], key: str) -> Type:
    """Return the type at a key."""
    document = required(inside, key, "a type")
    match document:
        case "bool":
            return BOOL
        case "int":
            return INT
        case "real":
            return REAL
        case str() if document in UNSUPPORTED_TYPES:
            raise Fault(inside, key, f"{UNSUPPORTED_TYPES[document]} are not supported.", "Only discrete time is run.")
        case str():
            hint = did_you_mean(document, ("bool", "int", "real"))
            raise Fault(
                inside, key, f"no type {shown(document)}.", hint or "Use bool, int, real, or an object with 'kind'."
            )
        case dict():
            return _compound_type(document)
        case _:
            raise Fault(
                inside, key, f"is {kind_of(document)}; a type is a text or an object.", 'Write for example "int".'
            )


def _compound_type(document: dict[str, Json]) -> Type:
    kind = text(document, "kind", "the kind of the type")
    if kind == "array":
        know_keys(document, frozenset(("kind", "base")), "an array type")
        return ArrayType(read_type(document, "base"))
    if kind == "bounded":
        know_keys(document, frozenset(("kind", "base", "lower-bound", "upper-bound")), "a bounded type")
        base = read_type(document, "base")
        lower, upper = read_optional(document, "lower-bound"), read_optional(document, "upper-bound")
        if lower is None and upper is None:
            raise Fault(document, None, "a bounded type has no bound.", "Add 'lower-bound' or 'upper-bound'.")
        if base == INT:
            return IntType(lower, upper)
        if base == REAL:
            return RealType(lower, upper)
        raise Fault(document, "base", "only int and real can be bounded.", 'Write "int" or "real".')
    if kind in UNSUPPORTED_TYPES:
        raise Fault(document, "kind", f"{UNSUPPORTED_TYPES[kind]} are not supported.", "Use bool, int, real or arrays.")
    raise Fault(
        document,
        "kind",
        f"no kind of type {shown(kind)}.",
        did_you_mean(kind, ("bounded", "array")) or "Use 'bounded' or 'array'.",
    )
