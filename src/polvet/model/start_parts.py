"""How a start condition falls apart: bounds it gives variables, parts that share no variable, a good order to read in.

Everything here looks at the condition's shape only; `starts.py` counts and draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from polvet.model.expressions import Binary, Expression, Name, children, conjuncts, names
from polvet.model.folding import value_of
from polvet.model.network import Kind, Variable
from polvet.numbers import at_least


def narrowed_bounds(variable: Variable, parts: Sequence[Expression]) -> tuple[int | float | None, int | float | None]:
    """Return the bounds of a variable, narrowed by those conjuncts that compare it with a number."""
    if variable.kind is Kind.BOOL:
        return 0, 1
    lower: int | Fraction | None = variable.lower
    upper: int | Fraction | None = variable.upper
    for part in parts:
        bound = _bound(part, variable)
        if bound is None:
            continue
        operator, number = bound
        if operator in ("≥", "=", ">"):
            least = number + 1 if operator == ">" and variable.kind is Kind.INT else number
            lower = least if lower is None else max(lower, least)
        if operator in ("≤", "=", "<"):
            most = number - 1 if operator == "<" and variable.kind is Kind.INT else number
            upper = most if upper is None else min(upper, most)
    if variable.kind is Kind.REAL:
        return (None if lower is None else at_least(lower)), (None if upper is None else -at_least(-upper))
    if lower is not None and upper is not None and lower > upper:
        lower = upper = variable.lower if variable.lower is not None else 0  # the condition itself is false
    return lower, upper  # type: ignore[return-value]


def _bound(part: Expression, variable: Variable) -> tuple[str, int | Fraction] | None:
    """Return (relation, number) if the part compares just this variable with a number."""
    mirrored = {"≤": "≥", "≥": "≤", "<": ">", ">": "<", "=": "="}
    if not isinstance(part, Binary) or part.operator not in mirrored:
        return None
    if isinstance(part.left, Name) and part.left.name == variable.name:
        operator, number = part.operator, value_of(part.right)
    elif isinstance(part.right, Name) and part.right.name == variable.name:
        operator, number = mirrored[part.operator], value_of(part.left)
    else:
        return None
    if number is None or isinstance(number, bool | float):
        return None
    if variable.kind is Kind.INT and Fraction(number).denominator != 1:
        return None  # left to the evaluation, which is exact
    return operator, (int(number) if variable.kind is Kind.INT else number)


def independent_parts(parts: Sequence[tuple[Expression, list[str]]]) -> list[tuple[list[str], list[Expression]]]:
    """Return groups of parts that share no variable, each with its variables in order of appearance."""
    owner: dict[str, int] = {}
    groups: dict[int, tuple[dict[str, None], list[Expression]]] = {}
    for number, (part, mine) in enumerate(parts):
        touched = sorted({owner[name] for name in mine if name in owner})
        merged: dict[str, None] = {}
        members: list[Expression] = []
        for group in touched:
            variables, expressions = groups.pop(group)
            merged.update(variables)
            members += expressions
        merged.update(dict.fromkeys(mine))
        groups[number] = merged, [*members, part]
        for name in merged:
            owner[name] = number
    return [(list(variables), members) for variables, members in groups.values()]


def names_in_order(part: Expression) -> list[str]:
    """Return the names that an expression reads, in order of their first appearance."""
    read: dict[str, None] = {}
    seen: set[int] = set()
    pending = [part]
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Name):
            read[one.name] = None
        pending += reversed(children(one))
    return list(read)


def reading_order(variables: Sequence[str], reads: Sequence[list[str]]) -> list[str]:
    """Return the variables in an order that finishes conjuncts early, so that few remainders differ.

    Begun conjuncts come first, among them the one with the fewest variables left.
    >>> reading_order(["a", "b", "c", "d"], [["a", "c"], ["b", "d"], ["c", "d"]])
    ['a', 'c', 'd', 'b']
    """
    order: dict[str, None] = {}
    left = list(reads)
    begun = [False] * len(left)
    while any(left):
        best = min((k for k, one in enumerate(left) if one), key=lambda k: (not begun[k], len(left[k])))
        chosen = left[best][0]
        order[chosen] = None
        for k, one in enumerate(left):
            if chosen in one:
                begun[k] = True
                left[k] = [name for name in one if name != chosen]
    order.update(dict.fromkeys(variables))
    return list(order)


def pinned_values(members: Sequence[Expression], name: str) -> list[float] | None:
    """Return the finitely many values that the condition allows a real variable, if it names them."""
    for member in members:
        if name in names(member):
            values = _values_in(member, name)
            if values is not None:
                return sorted(values)
    return None


def _values_in(part: Expression, name: str) -> set[float] | None:
    pending, allowed = [part], set()
    while pending:
        one = pending.pop()
        match one:
            case Binary("∨", left, right):
                pending += (left, right)
            case Binary("∧"):
                choices = [values for c in conjuncts(one) if (values := _values_in(c, name)) is not None]
                if not choices:
                    return None
                allowed |= min(choices, key=len)
            case Binary("=", Name(other), right) if other == name and value_of(right) is not None:
                allowed.add(float(value_of(right) or 0) + 0.0)
            case Binary("=", left, Name(other)) if other == name and value_of(left) is not None:
                allowed.add(float(value_of(left) or 0) + 0.0)
            case _:
                return None
    return allowed
