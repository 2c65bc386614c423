"""Checking `permissive`: a shield whose values prove that every allowed run fails with at most the bound.

A `shield/1` file lists states with `allowed` labels and `value`. Replayed in the slow interpreter, in fractions:
- every start state is listed; fail states have value 1, and runs end there and in goal states;
- every other state allows at least one applicable label (null where only silent operators are enabled), and nothing else;
- the value of a state is at least the expected value of each enabled operator of an allowed label and of each silent
  operator, whose outcomes are all listed;
- a state may also have `mixed`, distributions over applicable labels: each label has exactly one enabled operator there,
  no silent operator is enabled, the weights sum to 1, and the value is at least the expected value of the mixture;
- the value of every start state is at most the bound.
Such values are a pre-fixed point, so no compliant scheduler fails with more. Where the file says that the values are
exact, each must be attained: some allowed operator has it as expected value, and following such operators a fail state
can be reached from every state with a value above 0. Many states are looked at together (check/permissive_bulk.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from polvet.check.all_starts import iter_all_starts
from polvet.check.arena import Arena, find_arena
from polvet.check.box_view import Unreadable
from polvet.check.listed_moves import ListedMoves
from polvet.check.listed_states import ListedStates
from polvet.check.permissive_bulk import BulkShield, reaches
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.model.semantics import State
from polvet.numbers import LONG_DIGITS, exact
from polvet.records.state_json import Malformed

Row = dict[State, Fraction]
FEW = 1_000
"""So many states are simply looked at one after the other in the interpreter."""


def check_permissive(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the shield keeps the probability of failing below its bound."""
    if "task_sha256" not in certificate:
        certificate = {**certificate, "task_sha256": certificate.get("model_sha256")}
    arena = find_arena(certificate, subjects)
    if isinstance(arena, Rejected):
        return arena
    try:
        bound = read_fraction(certificate.get("bound"), "'bound'")
        if not 0 <= bound <= 1:
            return Rejected(f"the bound {bound} is no probability")
        listed, allowed, values = _read(arena, certificate.get("states"))
        exact = certificate.get("values", "exact")
        if exact not in ("exact", "upper-bounds"):
            return Rejected("'values' is neither 'exact' nor 'upper-bounds'")
        starts = list(iter_all_starts(arena))
        mixtures = 0
        if not _check_in_bulk(arena, certificate["states"], allowed, values, exact == "exact"):
            rows = {state: _rows(arena, state, allowed[state]) for state in listed}
            for state, item in zip(listed, certificate["states"], strict=True):
                for mixture in _mixtures(arena, state, item.get("mixed", [])):
                    rows[state] = [*(rows[state] or []), mixture]
                    mixtures += 1
            _check_values(arena, rows, values)
            if exact == "exact":
                _check_attained(arena, rows, values)
    except Malformed as error:
        return Rejected(str(error))
    worst = Fraction(0)
    for state in starts:
        if state not in values:
            return Rejected(f"the start state {arena.show(state)} is not listed")
        worst = max(worst, values[state])
        if values[state] > bound:
            return Rejected(f"the value {values[state]} of {arena.show(state)} is above the bound {bound}")
    choices = sum(len(labels) for labels in allowed.values())
    how = "exactly" if exact == "exact" else "at most"
    return Accepted(
        f"in {arena.about} every run of allowed actions fails with probability at most {bound} "
        f"(worst case {how} {float(worst):.6g}; {len(listed)} states, {choices} allowed actions"
        f"{f' and {mixtures} mixtures of actions' if mixtures else ''})"
    )


def _check_in_bulk(
    arena: Arena, items: list[Any], allowed: dict[State, list[str | None]], values: dict[State, Fraction], exact: bool
) -> bool:
    """Return whether many states could be checked at once, and all is well; Malformed where something is not."""
    if len(values) <= FEW or any("mixed" in item for item in items):
        return False
    states = list(values)
    try:
        moves = ListedMoves(arena, ListedStates(arena.task.network, list(np.array(states, dtype=np.int64).T)))
    except (Unreadable, OverflowError):
        return False  # state by state, then
    doubtful, attaining = BulkShield(moves, list(allowed.values()), list(values.values())).check(exact=exact)
    fail = moves.fail & ~doubtful
    rows = {states[k]: _rows(arena, states[k], allowed[states[k]]) for k in np.flatnonzero(doubtful).tolist()}
    _check_values(arena, rows, values)
    if not exact:
        return True
    known = {state: k for k, state in enumerate(states)} if rows else {}
    for state, choices in rows.items():
        fail[known[state]] = choices is None
        for target in _attaining(arena, state, choices, values):
            attaining.append((np.array([known[state]]), np.array([known[target]])))
    reached = reaches(len(states), fail, attaining)
    for k, (state, value) in enumerate(values.items()):
        if value > 0 and not reached[k]:
            raise Malformed(f"no allowed action attains the value {value} of {arena.show(state)}")
    return True


def _read(arena: Arena, items: Any) -> tuple[list[State], dict[State, list[str | None]], dict[State, Fraction]]:
    if not isinstance(items, list) or not items:
        raise Malformed("'states' is not a list of states")
    listed: list[State] = []
    allowed: dict[State, list[str | None]] = {}
    values: dict[State, Fraction] = {}
    for k, item in enumerate(items):
        what = f"states[{k}]"
        labels = item.get("allowed") if isinstance(item, dict) else None
        if not isinstance(labels, list) or not all(label is None or isinstance(label, str) for label in labels):
            raise Malformed(f"{what} has no list of labels 'allowed'")
        state = arena.read(item.get("state"), what)
        if state in values:
            raise Malformed(f"{what} stands twice")
        listed.append(state)
        allowed[state] = labels
        values[state] = read_fraction(item.get("value"), f"the value of {what}")
        if not 0 <= values[state] <= 1:
            raise Malformed(f"the value {values[state]} of {what} is no probability")
    return listed, allowed, values


def read_fraction(value: Any, what: str) -> Fraction:
    """Return the fraction that is written as text."""
    number = exact(value, digits=LONG_DIGITS) if isinstance(value, str) else None
    if number is None:
        raise Malformed(f"{what} is no fraction")
    return Fraction(number)


def label_rows(arena: Arena, state: State) -> dict[str | None, list[Row]]:
    """Return the distributions the environment may take for each applicable label; none where runs end.

    Silent operators count whatever is chosen; where there is nothing else, they are the pseudo-action None.
    """
    # SOUND: whether fail beats goal plays no part here: runs end in both.
    if arena.is_fail(state) or arena.is_goal(state):
        return {}
    moves = arena.moves(state)
    found: list[tuple[str | None, Row]] = []
    for move in moves:
        row: Row = {}
        for outcome in move.outcomes:
            row[outcome.state] = row.get(outcome.state, Fraction(0)) + outcome.probability
        found.append((move.label, row))
    silent = [row for label, row in found if label is None]
    labels = dict.fromkeys(label for label, _ in found if label is not None)
    if not labels:
        return {None: silent} if silent else {}
    return {label: [*(row for its, row in found if its == label), *silent] for label in labels}


def _rows(arena: Arena, state: State, allowed: list[str | None]) -> list[Row] | None:
    """Return the distributions the environment may take under the allowed labels; None: fail, empty: the run ended."""
    rows = label_rows(arena, state)
    if not rows:
        if allowed:
            raise Malformed(f"runs end in {arena.show(state)}, yet it allows actions")
        return None if arena.is_fail(state) else []
    if not allowed:
        raise Malformed(f"{arena.show(state)} allows no action")
    for label in allowed:
        if label not in rows:
            named = "the silent pseudo-action" if label is None else f"'{label}'"
            raise Malformed(f"{named} is not applicable in {arena.show(state)}")
    return [row for label in dict.fromkeys(allowed) for row in rows[label]]


def _mixtures(arena: Arena, state: State, items: Any) -> list[Row]:
    """Return the distribution over outcomes of each mixture of labels."""
    if not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
        raise Malformed(f"'mixed' of {arena.show(state)} is not a list of distributions")
    if not items:
        return []
    # SOUND: only where a label is one operator and nothing else moves does a mixture of labels mix their outcomes.
    if arena.is_fail(state) or arena.is_goal(state):
        raise Malformed(f"{arena.show(state)} has mixtures, but nobody chooses there")
    moves = arena.moves(state)
    if any(move.label is None for move in moves):
        raise Malformed(f"{arena.show(state)} has mixtures beside silent operators")
    found: list[Row] = []
    for item in items:
        weights = {label: read_fraction(weight, f"a weight of {arena.show(state)}") for label, weight in item.items()}
        if sum(weights.values()) != 1 or min(weights.values()) < 0:
            raise Malformed(f"the weights of a mixture of {arena.show(state)} do not sum to 1")
        row: Row = {}
        for label, weight in weights.items():
            mine = [move for move in moves if move.label == label]
            if len(mine) != 1:
                raise Malformed(f"'{label}' has {len(mine)} operators in {arena.show(state)}; a mixture needs one")
            for outcome in mine[0].outcomes:
                row[outcome.state] = row.get(outcome.state, Fraction(0)) + weight * outcome.probability
        found.append({target: chance for target, chance in row.items() if chance})
    return found


def expected_value(arena: Arena, state: State, row: Row, values: Mapping[State, Fraction]) -> Fraction:
    """Return what is expected of `values` after the step; all outcomes must be listed."""
    total = Fraction(0)
    for target, probability in row.items():
        if target not in values:
            raise Malformed(f"{arena.show(state)} may lead to {arena.show(target)}, which is not listed")
        total += probability * values[target]
    return total


def _check_values(arena: Arena, rows: dict[State, list[Row] | None], values: dict[State, Fraction]) -> None:
    for state, choices in rows.items():
        arena.budget.check()
        if choices is None:
            if values[state] != 1:
                raise Malformed(f"the fail state {arena.show(state)} has the value {values[state]}")
            continue
        for row in choices:
            expected = expected_value(arena, state, row, values)
            if expected > values[state]:
                raise Malformed(f"{arena.show(state)} has the value {values[state]}, an allowed action {expected}")


def _check_attained(arena: Arena, rows: dict[State, list[Row] | None], values: dict[State, Fraction]) -> None:
    """Raise Malformed unless some compliant scheduler attains every value."""
    users: dict[State, list[State]] = {}
    todo: list[State] = []
    for state, choices in rows.items():
        arena.budget.check()
        if choices is None:
            todo.append(state)
        for target in _attaining(arena, state, choices, values):
            users.setdefault(target, []).append(state)
    attained = set(todo)
    while todo:
        for state in users.get(todo.pop(), ()):
            if state not in attained:
                attained.add(state)
                todo.append(state)
    for state, value in values.items():
        if value > 0 and state not in attained:
            raise Malformed(f"no allowed action attains the value {value} of {arena.show(state)}")


def _attaining(
    arena: Arena, state: State, choices: list[Row] | None, values: Mapping[State, Fraction]
) -> Iterator[State]:
    """Yield the outcomes of those operators whose expected value is the state's, where that is above 0."""
    if choices == [] and values[state] != 0:
        raise Malformed(f"runs end safely in {arena.show(state)}, yet its value is {values[state]}")
    for row in choices or ():
        if values[state] > 0 and expected_value(arena, state, row, values) == values[state]:
            yield from row
