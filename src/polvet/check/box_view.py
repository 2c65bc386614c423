"""What an expression can be over a box of states: intervals of values, and affine sums where it is one.

For the checker of invariants: numpy over many boxes at once, integers in float64. SOUND: every integer below 2^53 is exact
there; anything greater, or any operator that is not read here, gives the interval that says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from polvet.model.expressions import (
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    Select,
    Unary,
    children,
    rebuild,
)
from polvet.model.network import Network, NetworkEdge
from polvet.records.state_json import Malformed

Floats = npt.NDArray[np.float64]
Interval = tuple[Floats, Floats]
LARGE = 2.0**52
DOUBLES = 2**53
"""Integers up to this are doubles."""


class Unreadable(Malformed):
    """The model does something that the checker does not follow over boxes."""


def interval(expression: Expression, place: Mapping[str, int], lower: Floats, upper: Floats) -> Interval:
    """Return bounds on the value in each box [n, variables]; truth values are 0 and 1, (0, 1) is undecided."""
    low, high = _interval(expression, place, lower, upper)
    wide = ~((np.abs(low) < LARGE) & (np.abs(high) < LARGE))
    return np.where(wide, -np.inf, low), np.where(wide, np.inf, high)


def _interval(expression: Expression, place: Mapping[str, int], lower: Floats, upper: Floats) -> Interval:
    count = len(lower)

    def ask(part: Expression) -> Interval:
        return interval(part, place, lower, upper)

    match expression:
        case BoolLiteral(value) | IntLiteral(value) if abs(value) < LARGE:
            return np.full(count, float(value)), np.full(count, float(value))
        case RealLiteral(value) if value.denominator == 1 and abs(value) < LARGE:
            return np.full(count, float(value)), np.full(count, float(value))
        case Name(name):
            return lower[:, place[name]], upper[:, place[name]]
        case Unary("¬", operand):
            a, b = ask(operand)
            return 1 - b, 1 - a
        case Unary("abs", operand):
            a, b = ask(operand)
            least = np.where((a <= 0) & (b >= 0), 0.0, np.minimum(np.abs(a), np.abs(b)))
            return least, np.maximum(np.abs(a), np.abs(b))
        case Binary("+", left, right):
            (a, b), (c, d) = ask(left), ask(right)
            return a + c, b + d
        case Binary("-", left, right):
            (a, b), (c, d) = ask(left), ask(right)
            return a - d, b - c
        case Binary("*", left, right):
            (a, b), (c, d) = ask(left), ask(right)
            with np.errstate(invalid="ignore"):
                corners = np.stack([a * c, a * d, b * c, b * d])
            return corners.min(axis=0), corners.max(axis=0)
        case Binary("%", left, IntLiteral(value)) if 0 < value < LARGE:
            a, b = ask(left)
            with np.errstate(invalid="ignore"):
                return np.where(a == b, np.mod(a, value), 0.0), np.where(a == b, np.mod(b, value), value - 1.0)
        case Binary("min", left, right):
            (a, b), (c, d) = ask(left), ask(right)
            return np.minimum(a, c), np.minimum(b, d)
        case Binary("max", left, right):
            (a, b), (c, d) = ask(left), ask(right)
            return np.maximum(a, c), np.maximum(b, d)
        case Binary("∧", left, right):
            (a, b), (c, d) = ask(left), ask(right)
            return np.minimum(a, c), np.minimum(b, d)
        case Binary("∨", left, right):
            (a, b), (c, d) = ask(left), ask(right)
            return np.maximum(a, c), np.maximum(b, d)
        case Binary("⇒", left, right):
            (a, b), (c, d) = ask(left), ask(right)
            return np.maximum(1 - b, c), np.maximum(1 - a, d)
        case Binary(("=" | "≠" | "<" | "≤" | ">" | "≥") as operator, left, right):
            (a, b), (c, d) = ask(left), ask(right)
            if operator in ("<", "≤", ">", "≥"):
                if operator in (">", "≥"):
                    (a, b), (c, d) = (c, d), (a, b)
                strict = operator in ("<", ">")
                surely = b < c if strict else b <= c
                possibly = a < d if strict else a <= d
            else:
                surely = (a == b) & (c == d) & (a == c)
                possibly = (a <= d) & (c <= b)
                if operator == "≠":
                    surely, possibly = ~possibly, ~surely
            return surely.astype(np.float64), possibly.astype(np.float64)
        case Conditional(test, then, otherwise):
            t, f = ask(test)
            (a, b), (c, d) = ask(then), ask(otherwise)
            low = np.where(t == 1, a, np.where(f == 0, c, np.minimum(a, c)))
            return low, np.where(t == 1, b, np.where(f == 0, d, np.maximum(b, d)))
        case Select(indices, shape, items):
            first, last = np.zeros(count), np.zeros(count)
            for index, length in zip(indices, shape, strict=True):
                a, b = ask(index)
                first, last = first * length + np.maximum(a, 0), last * length + np.minimum(b, length - 1)
            low, high = np.full(count, np.inf), np.full(count, -np.inf)
            for k, item in enumerate(items):
                a, b = ask(item)
                here = (first <= k) & (k <= last)
                low, high = np.where(here, np.minimum(low, a), low), np.where(here, np.maximum(high, b), high)
            return low, high  # no item at all is an error of the model: infinite, which says nothing
        case _:
            return np.full(count, -np.inf), np.full(count, np.inf)


Sum = tuple[dict[int | tuple[int, int], int], int]
"""Coefficients of variables (by place) and of marks [x = value] (by place and value), and a constant."""


def affine(expression: Expression, place: Mapping[str, int]) -> Sum | None:
    """Return the expression as integer coefficients and a constant, None if it is not plainly affine."""
    terms: dict[int | tuple[int, int], int] = {}
    constant = _add(expression, 1, place, terms)
    return None if constant is None else ({key: c for key, c in terms.items() if c}, constant)


def _add(
    expression: Expression, factor: int, place: Mapping[str, int], terms: dict[int | tuple[int, int], int]
) -> int | None:
    """Add the factor times the expression to the terms; return the constant that is left, None if it is not plainly affine."""
    match expression:
        case Binary(("+" | "-") as operator, left, right):
            one = _add(left, factor, place, terms)
            other = None if one is None else _add(right, factor if operator == "+" else -factor, place, terms)
            return None if one is None or other is None else one + other
        case Binary("*", left, right):
            for scale, part in ((left, right), (right, left)):
                known = affine(scale, place)
                if known is not None and not known[0]:
                    return _add(part, factor * known[1], place, terms)
            return None
        case Conditional(Binary("=", Name(name), IntLiteral(value)), IntLiteral(yes), IntLiteral(no)):
            terms[place[name], value] = terms.get((place[name], value), 0) + factor * (yes - no)
            return factor * no
        case BoolLiteral(value) | IntLiteral(value):
            return factor * int(value)
        case RealLiteral(value) if value.denominator == 1:
            return factor * int(value)
        case Name(name):
            terms[place[name]] = terms.get(place[name], 0) + factor
            return 0
        case _:
            return None


def row_of(
    condition: Expression, place: Mapping[str, int], sizes: Sequence[int]
) -> tuple[dict[int | tuple[int, int], int], int | None, int | None] | None:
    """Return the condition as lower <= sum <= upper in exact integers, None if it is no such thing.

    `sizes` has the greatest absolute value of each variable. SOUND: the interpreter computes in doubles where a real number takes
    part, so a sum with one counts only where all its parts are integers that a double holds.
    """
    match condition:
        case Name(name):
            return {place[name]: 1}, 1, 1
        case Unary("¬", Name(name)):
            return {place[name]: 1}, 0, 0
        case Binary(("=" | "<" | "≤" | ">" | "≥") as operator, left, right):
            difference = affine(Binary("-", left, right), place)
            if difference is None or not (_is_exact(left, place, sizes) and _is_exact(right, place, sizes)):
                return None
            terms, constant = difference
            return {
                "=": (terms, -constant, -constant),
                "<": (terms, None, -constant - 1),
                "≤": (terms, None, -constant),
                ">": (terms, -constant + 1, None),
                "≥": (terms, -constant, None),
            }[operator]
        case _:
            return None


def _is_exact(expression: Expression, place: Mapping[str, int], sizes: Sequence[int]) -> bool:
    """Return whether the interpreter's value of an affine expression is the exact sum: doubles, if any, hold every part."""
    pending, real = [expression], False
    while pending:
        part = pending.pop()
        real = real or isinstance(part, RealLiteral)
        pending += children(part)
    return not real or _size(expression, place, sizes) <= DOUBLES


def _size(expression: Expression, place: Mapping[str, int], sizes: Sequence[int]) -> int:
    """Return no less than the absolute value of an affine expression and of everything in it."""
    match expression:
        case Name(name):
            return sizes[place[name]]
        case BoolLiteral(value) | IntLiteral(value):
            return abs(int(value))
        case RealLiteral(value):
            return abs(int(value))
        case Binary("*", left, right):
            one, other = _size(left, place, sizes), _size(right, place, sizes)
            return max(one * other, one, other)
        case _:  # sums and differences; conditionals between numbers
            return sum(_size(part, place, sizes) for part in children(expression))


def alternatives(condition: Expression, most: int = 400) -> list[list[Expression]]:
    """Return the condition as alternatives, each a list of conditions that hold together; large ones stay whole."""
    match condition:
        case Binary("∨", left, right):
            options = alternatives(left, most) + alternatives(right, most)
        case Binary("∧", left, right):
            options = [one + other for one in alternatives(left, most) for other in alternatives(right, most)]
        case _:
            return [[condition]]
    return options if len(options) <= most else [[condition]]


def substituted(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    """Return the expression with names replaced."""
    if isinstance(expression, Name):
        return values.get(expression.name, expression)
    return rebuild(expression, lambda part: substituted(part, values))


def effects(network: Network, edges: Sequence[NetworkEdge], branches: Sequence[int]) -> dict[str, Expression]:
    """Return what each assigned variable is after the step, as an expression over the state before it."""
    scratch = {variable.name: variable for variable in network.scratch}
    now: dict[str, Expression] = {}
    for variable in network.scratch:
        if isinstance(variable.initial, bool):
            now[variable.name] = BoolLiteral(variable.initial)
        elif isinstance(variable.initial, int):
            now[variable.name] = IntLiteral(variable.initial)
        if variable.lower is not None or variable.upper is not None:
            raise Unreadable(f"the transient variable '{variable.name}' has bounds")
    updates = [update for edge, k in zip(edges, branches, strict=True) for update in edge.branches[k].updates]
    for index in sorted({update.index for update in updates}):
        before = dict(now)
        written: set[str] = set()
        for update in (one for one in updates if one.index == index):
            value = substituted(update.value, before)
            if isinstance(update.target, Name):
                written.add(update.target.name)
                now[update.target.name] = value
                continue
            if len(update.target.indices) != 1:
                raise Unreadable("an array of arrays is assigned at a computed index")
            at = substituted(update.target.indices[0], before)
            for k, item in enumerate(update.target.items):
                if isinstance(item, Name):
                    old = now.get(item.name, item)
                    now[item.name] = Conditional(Binary("=", at, IntLiteral(k)), value, old)
    return {name: value for name, value in now.items() if name not in scratch}


def refuse_hidden_errors(edges: Sequence[NetworkEdge], branches: Sequence[int]) -> None:
    """Raise Unreadable where executing these branches may be an error that `effects` does not show.

    That is where a variable is assigned more than once (a value on the way may be outside its bounds, and two at one index are an
    error) or at a computed index, which may be outside its array.
    """
    written: set[str] = set()
    for edge, k in zip(edges, branches, strict=True):
        for update in edge.branches[k].updates:
            if not isinstance(update.target, Name):
                raise Unreadable("an array is assigned at a computed index")
            if update.target.name in written:
                raise Unreadable(f"'{update.target.name}' is assigned twice")
            written.add(update.target.name)
