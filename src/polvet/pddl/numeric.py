"""Numbers of a ground problem: with what never changes folded, and what an outcome makes of them.

A fluent that no ground action changes is the integer that `:init` gives it. One that changes must have a value in `:init`; one
that does not and has none is *undefined*: a comparison with it is false, and so is its opposite; an action that would compute
with it is not applicable.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from polvet.errors import InputError
from polvet.pddl.facts import Values
from polvet.pddl.syntax import FALSE, TRUE, And, Arithmetic, Case, Compare, Condition, Fluent, Not, Number, Or, Shift

APPLY: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
TEST: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip
Known = Callable[[Fluent], int | None]
"""The value of a ground fluent in every state, or None where it may change; raises Undefined."""


class Undefined(Exception):
    """A fluent has no value."""


def unknown(fluent: Fluent) -> int | None:
    """Return that the fluent may change."""
    return None


def ground_number(number: Number, values: Values) -> Number:
    """Return the number with values for its variables."""
    match number:
        case Fluent(function, terms):
            return Fluent(function, tuple(values.get(term, term) for term in terms))
        case Arithmetic(operation, left, right):
            return Arithmetic(operation, ground_number(left, values), ground_number(right, values))
        case _:
            return number


def folded_number(number: Number, known: Known) -> Number:
    """Return the ground number without fluents whose value is known."""
    match number:
        case Fluent():
            value = known(number)
            return number if value is None else value
        case Arithmetic(operation, left, right):
            one, other = folded_number(left, known), folded_number(right, known)
            if isinstance(one, int) and isinstance(other, int):
                return APPLY[operation](one, other)
            if other == 0 and operation in "+-":
                return one
            return other if one == 0 and operation == "+" else Arithmetic(operation, one, other)
        case _:
            return number


def folded_comparison(comparison: Compare, known: Known) -> Condition:
    """Return the ground comparison without fluents whose value is known; true or false where none is left."""
    try:
        left, right = folded_number(comparison.left, known), folded_number(comparison.right, known)
    except Undefined:
        return FALSE
    if isinstance(left, int) and isinstance(right, int):
        return TRUE if TEST[comparison.operator](left, right) else FALSE
    return Compare(comparison.operator, left, right)


def fluents_in(part: Number | Condition) -> Iterator[Fluent]:
    """Yield the fluents that a ground number or condition reads."""
    match part:
        case Fluent():
            yield part
        case Arithmetic(_, left, right) | Compare(_, left, right):
            yield from fluents_in(left)
            yield from fluents_in(right)
        case Case(condition, then, otherwise):
            for one in (condition, then, otherwise):
                yield from fluents_in(one)
        case Not(inner):
            yield from fluents_in(inner)
        case And(parts) | Or(parts):
            for one in parts:
                yield from fluents_in(one)


def value_after(
    shifts: Sequence[tuple[Condition, Shift]], label: str, exclude: Callable[[Condition, Condition], bool]
) -> Number:
    """Return the fluent's value after the changes, each under its condition; what is added is `(+ fluent sum)`.

    Sums commute; two values that may be assigned at once, or one that is assigned and added to, are refused.
    """
    for (one, first), (other, second) in combinations(shifts, 2):
        clash = (first.absolute or second.absolute) and (first.absolute, first.amount) != (
            second.absolute,
            second.amount,
        )
        if clash and not exclude(one, other):
            what = f"{label} may give '{first.fluent}' two values at once."
            raise InputError(what, second.where, "Make the conditions of the two effects exclude each other.")
    fluent, added = shifts[0][1].fluent, 0
    total: Number = 0
    for condition, shift in shifts:
        if shift.absolute:
            continue
        if condition == TRUE and isinstance(shift.amount, int):
            added += shift.amount
            continue
        amount = shift.amount if condition == TRUE else Case(condition, shift.amount, 0)
        total = amount if total == 0 else Arithmetic("+", total, amount)
    if added:
        total = added if total == 0 else Arithmetic("+", total, added)
    value: Number = fluent if total == 0 else Arithmetic("+", fluent, total)
    for condition, shift in reversed(shifts):
        if shift.absolute:
            value = shift.amount if condition == TRUE else Case(condition, shift.amount, value)
    return value
