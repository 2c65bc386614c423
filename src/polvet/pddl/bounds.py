"""Between which integers each fluent stays: told by intervals, declared by the task, or refused at the effect that leaves them.

Source   Cousot and Cousot, Abstract interpretation, POPL 1977: intervals, widened to infinity where they grow for long (`WIDEN_AFTER`
         rounds), then narrowed for as long as that helps
Differs  guards and conditions of effects that are linear narrow the intervals that the effects compute with (`narrowed`). Where no
         bound follows so, two invariants are tried: an outcome that takes an atom which is never given back happens once, so what
         it adds is counted (`_counted`); and what only passes from fluents that are bounded below has a sum that never grows (`_conserved`)
Costs    a fluent that nothing reads, that is only added to and has no bounds (`total-cost`) is no part of a state: it is what a step costs
SOUND    nothing rests on these bounds: an assignment that leaves them is an error wherever models run
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from polvet.errors import InputError, Where
from polvet.pddl.ground import GroundAction, Grounding, Outcome, literals
from polvet.pddl.numeric import fluents_in
from polvet.pddl.syntax import (
    FALSE,
    And,
    Arithmetic,
    Atom,
    Case,
    Compare,
    Condition,
    Fluent,
    Number,
    Or,
    changes,
    negated,
    shifts,
)

Interval = tuple[float, float]
"""Least and greatest value; infinite where there is none."""
Box = Mapping[Fluent, Interval]
Moves = Sequence[tuple[GroundAction, tuple[Outcome, ...]]]
WIDEN_AFTER, NARROWINGS = 20, 20
LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of fluents that are variables; the others are costs of steps."""

    ranges: Mapping[Fluent, tuple[int, int]]
    costs: frozenset[Fluent]


def find_bounds(
    grounding: Grounding, outcomes: Sequence[tuple[Outcome, ...]], declared: Mapping[str, tuple[int, int]]
) -> Bounds:
    """Return the bounds of all fluents that may change; `declared` holds some by function (`fuel`) or by fluent (`fuel(a)`)."""
    moves = [
        (action, mine)
        for action, mine in zip(grounding.actions, outcomes, strict=True)
        if any(outcome.numbers for outcome in mine)
    ]
    known = {
        fluent: given
        for fluent in grounding.fluents
        if (given := declared.get(str(fluent), declared.get(fluent.function))) is not None
    }
    first = grounding.reach.problem.numbers
    for fluent, (least, most) in known.items():
        if not least <= first[fluent] <= most:
            what = f"'{fluent}' is {first[fluent]} at first, which is not between {least} and {most}."
            raise InputError(what, Where("bounds"), "Widen the bounds that the task declares.")
    box = _fixpoint(grounding, moves, known)
    read = read_fluents(grounding, outcomes)
    ranges: dict[Fluent, tuple[int, int]] = {}
    costs: set[Fluent] = set()
    for fluent in grounding.fluents:
        low, high = box[fluent]
        if low == -inf:
            low = -_counted(fluent, box, grounding, moves, -1)
        if high == inf:
            high = _counted(fluent, box, grounding, moves, 1)
        if high == inf:
            high = _conserved(fluent, box, grounding, moves)
        if low >= -LARGEST and high <= LARGEST:
            ranges[fluent] = int(low), int(high)
        elif fluent not in read:
            costs.add(fluent)
        else:
            raise _unbounded(fluent, "greater" if high > LARGEST else "less", grounding)
    return Bounds(ranges, frozenset(costs))


def _unbounded(fluent: Fluent, way: str, grounding: Grounding) -> InputError:
    place, name = next(
        (shift.where, action.label)
        for action in grounding.actions
        for shift in shifts(action.effect)
        if shift.fluent == fluent
        and (shift.absolute or not isinstance(shift.amount, int) or (shift.amount > 0) == (way == "greater"))
    )
    what = f"no bound follows for '{fluent}': {name} makes it {way}, and nothing says how far."
    hint = f"Compare it with its limit in the precondition, or declare it in a task.toml: [bounds] {fluent.function} = [0, 100]."
    return InputError(what, place, hint)


def read_fluents(grounding: Grounding, outcomes: Sequence[tuple[Outcome, ...]]) -> set[Fluent]:
    """Return the fluents whose value matters: to guards, conditions, other fluents and the goal, or that are assigned."""
    read = set(fluents_in(grounding.condition(grounding.reach.problem.goal)))
    for action, mine in zip(grounding.actions, outcomes, strict=True):
        read.update(fluents_in(action.guard))
        for outcome in mine:
            for _, after in outcome.values:
                read.update(fluents_in(after))
            for fluent, value in outcome.numbers:
                match value:
                    case Arithmetic("+", left, right) if left == fluent:
                        read.update(fluents_in(right))
                    case _:
                        read.update((fluent, *fluents_in(value)))
    return read


def _fixpoint(grounding: Grounding, moves: Moves, known: Box) -> dict[Fluent, Interval]:
    """Return intervals that hold at first and that no outcome leaves."""
    first = {fluent: _point(grounding.reach.problem.numbers[fluent]) for fluent in grounding.fluents}
    box = {**first, **known}
    turn = 0
    while (after := _step(first, box, moves, known)) != box:
        for fluent, (low, high) in after.items():
            least, most = box[fluent]
            if turn >= WIDEN_AFTER:
                low, high = (-inf if low < least else low), (inf if high > most else high)
            box[fluent] = min(low, least), max(high, most)
        turn += 1
        if turn > WIDEN_AFTER + 2 * len(box) + 1:
            break  # every end has been widened
    for _ in range(NARROWINGS):
        # SOUND: one more step from what no outcome leaves is again such, and lies within it.
        after = _step(first, box, moves, known)
        if after == box:
            break
        box = after
    return box


def _step(first: Box, box: Box, moves: Moves, known: Box) -> dict[Fluent, Interval]:
    after = dict(first)
    for action, outcomes in moves:
        here = narrowed(box, action.guard)
        if here is not None:
            for outcome in outcomes:
                for fluent, value in outcome.numbers:
                    after[fluent] = _joined(after[fluent], interval(value, here))
    return {**after, **known}


def _counted(fluent: Fluent, box: Box, grounding: Grounding, moves: Moves, sign: int) -> float:
    """Return how large `sign` times the fluent may become, where what is added to it is added by outcomes that happen once."""
    given = {change.atom for action in grounding.actions for change in changes(action.effect) if change.value}
    base: float = sign * grounding.reach.problem.numbers[fluent]
    spent: dict[Atom, float] = {}
    for action, outcome, here in _changes(fluent, box, moves):
        needed = {atom for atom, value in literals(action.guard) if value and atom not in given}
        consumed = min(
            (atom for atom, after in outcome.values if after == FALSE and atom in needed), key=str, default=None
        )
        for leaf in _leaves(dict(outcome.numbers)[fluent]):
            match leaf:
                case Arithmetic("+", left, right) if left == fluent and fluent not in fluents_in(right):
                    by = max(sign * end for end in interval(right, here))
                    if by > 0 and consumed is None:
                        return inf
                    if by > 0 and consumed is not None:
                        spent[consumed] = max(by, spent.get(consumed, 0))
                case _ if leaf != fluent:
                    if fluent in fluents_in(leaf):
                        return inf
                    base = max(base, *(sign * end for end in interval(leaf, here)))
    return base + sum(spent.values())


def _conserved(fluent: Fluent, box: Box, grounding: Grounding, moves: Moves) -> float:
    """Return how large the fluent may become, where it and others that are bounded below have a sum that never grows."""
    first = grounding.reach.problem.numbers
    pending: list[frozenset[Fluent]] = [frozenset({fluent})]
    seen = set(pending)
    while pending:
        members = pending.pop()
        growing = _growing(members, moves)
        if growing is None:
            return sum(first[one] for one in members) - sum(box[one][0] for one in members if one != fluent)
        for other in growing:
            wider = members | {other}
            if box[other][0] > -inf and wider not in seen and len(seen) < 10 * (1 + len(box)):
                seen.add(wider)
                pending.append(wider)
    return inf


def _growing(members: frozenset[Fluent], moves: Moves) -> list[Fluent] | None:
    """Return what decreases in an outcome in which the members' sum grows; None where it never grows."""
    for _, outcomes in moves:
        for outcome in outcomes:
            added = {one: _added(one, value) for one, value in outcome.numbers}
            mine = [added[one] for one in added if one in members]
            if any(by is None for by in mine):
                return []
            if sum(by for by in mine if by is not None) > 0:
                return [one for one, by in added.items() if by is not None and by < 0 and one not in members]
    return None


def _added(fluent: Fluent, value: Number) -> int | None:
    match value:
        case Arithmetic("+", left, int(by)) if left == fluent:
            return by
        case _:
            return None


def _changes(fluent: Fluent, box: Box, moves: Moves) -> Iterator[tuple[GroundAction, Outcome, Box]]:
    for action, outcomes in moves:
        here = narrowed(box, action.guard)
        for outcome in outcomes:
            if here is not None and any(one == fluent for one, _ in outcome.numbers):
                yield action, outcome, here


def _leaves(value: Number) -> Iterator[Number]:
    match value:
        case Case(_, then, otherwise):
            yield from _leaves(then)
            yield from _leaves(otherwise)
        case _:
            yield value


def interval(number: Number, box: Box) -> Interval:
    """Return an interval that holds the number wherever the fluents are in the box.

    >>> interval(Arithmetic("-", 3, Fluent("f", ())), {Fluent("f", ()): (0, 2)})
    (1, 3)
    """
    if (split := _split(number)) is not None:
        condition, then, otherwise = split
        cases = ((then, narrowed(box, condition)), (otherwise, narrowed(box, negated(condition))))
        values = [interval(value, here) for value, here in cases if here is not None]
        return _joined(values[0], values[-1]) if values else interval(otherwise, box)
    match number:
        case int():
            return _point(number)
        case Fluent():
            return box[number]
        case Arithmetic(operator, left, right):
            (a, b), (c, d) = interval(left, box), interval(right, box)
            if operator == "+":
                return a + c, b + d
            if operator == "-":
                return a - d, b - c
            products = [0 if 0 in (x, y) else x * y for x in (a, b) for y in (c, d)]
            return min(products), max(products)
        case _:
            raise AssertionError("cases were split")


def _split(number: Number) -> tuple[Condition, Number, Number] | None:
    """Return the number as two cases, by the first case in it; None where there is none."""
    match number:
        case Case(condition, then, otherwise):
            return condition, then, otherwise
        case Arithmetic(operator, left, right):
            if (split := _split(left)) is not None:
                condition, then, otherwise = split
                return condition, Arithmetic(operator, then, right), Arithmetic(operator, otherwise, right)
            if (split := _split(right)) is not None:
                condition, then, otherwise = split
                return condition, Arithmetic(operator, left, then), Arithmetic(operator, left, otherwise)
    return None


def narrowed(box: Box, condition: Condition) -> Box | None:
    """Return the box without what the condition excludes, as far as its linear parts tell; None where it cannot hold.

    >>> f = Fluent("f", ())
    >>> narrowed({f: (0, 9)}, Compare("<", f, 4))
    {Fluent(function='f', terms=()): (0, 3)}
    """
    match condition:
        case Compare():
            return _compared(box, condition)
        case And(parts):
            inner: Box | None = box
            for part in (*parts, *parts):  # a second look sees more
                inner = None if inner is None else narrowed(inner, part)
            return inner
        case Or(parts):
            cases = [case for part in parts if (case := narrowed(box, part)) is not None]
            if not cases:
                return None
            return {
                fluent: (min(case[fluent][0] for case in cases), max(case[fluent][1] for case in cases))
                for fluent in box
            }
        case _:
            return box


def _compared(box: Box, condition: Compare) -> Box | None:
    (a, b), (c, d) = interval(condition.left, box), interval(condition.right, box)
    operator = condition.operator
    if not {"<": a < d, "<=": a <= d, "=": a <= d and c <= b, "!=": (a, b) != (c, d) or a != b}[operator]:
        return None
    terms: dict[Fluent, int] = {}
    constant = _linear(Arithmetic("-", condition.left, condition.right), 1, terms)
    if constant is None:
        return box
    if operator == "!=":
        return _without(box, terms, constant)
    inner: Box | None = _at_most(box, terms, constant + (operator == "<"))
    if operator == "=" and inner is not None:
        inner = _at_most(inner, {fluent: -factor for fluent, factor in terms.items()}, -constant)
    return inner


def _at_most(box: Box, terms: Mapping[Fluent, int], constant: int) -> Box | None:
    """Return the box where terms + constant <= 0."""
    inner = dict(box)
    for fluent, factor in terms.items():
        others = sum(min(by * end for end in inner[one]) for one, by in terms.items() if one != fluent and by)
        limit = -constant - others
        if limit == inf or factor == 0:
            continue
        low, high = inner[fluent]
        low, high = (low, min(high, limit // factor)) if factor > 0 else (max(low, -(limit // -factor)), high)
        if low > high:
            return None
        inner[fluent] = low, high
    return inner


def _without(box: Box, terms: Mapping[Fluent, int], constant: int) -> Box:
    """Return the box where terms + constant != 0: an end of the only fluent may go."""
    left = [(fluent, factor) for fluent, factor in terms.items() if factor]
    if len(left) != 1 or constant % left[0][1]:
        return box
    (fluent, factor), (low, high) = left[0], box[left[0][0]]
    gone = -constant // factor
    return {**box, fluent: (low + (low == gone), high - (high == gone))}


def _linear(number: Number, factor: int, terms: dict[Fluent, int]) -> int | None:
    """Add `factor` times the number to the terms and return its constant part; None where it is not linear."""
    match number:
        case int():
            return factor * number
        case Fluent():
            terms[number] = terms.get(number, 0) + factor
            return 0
        case Arithmetic("*", int(by), other) | Arithmetic("*", other, int(by)):
            return _linear(other, factor * by, terms)
        case Arithmetic("+" | "-" as operator, left, right):
            parts = _linear(left, factor, terms), _linear(right, factor if operator == "+" else -factor, terms)
            return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
        case _:
            return None


def _joined(one: Interval, other: Interval) -> Interval:
    return min(one[0], other[0]), max(one[1], other[1])


def _point(value: int) -> Interval:
    return value, value
