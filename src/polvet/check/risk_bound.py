"""Checking `risk-bound` and `risk-exceeds`: how likely a run of the policy reaches `fail` at worst, in fractions.

Where several operators may move, the environment takes one (in a Markov chain they are equally likely); it also picks the start.
Both list `states`, packed, and a probability for each in `values`; what leads where is asked of the slow interpreter.

`risk-bound`: no value is below what may follow. Every start is listed with a value of at most `bound`; a fail state has the
value 1; elsewhere the value is at least the expected one of every move that some float32 evaluation order may make, and all
outcomes are listed. Such values are a pre-fixed point: no environment makes failing likelier than they say.

`risk-exceeds`: no value is above what the environment can attain. The listed state at place `start` is a start whose value is
above `bound`; goal states have the value 0, and what is not listed counts as 0. In every other state with a value above 0 all
evaluation orders choose alike, and one move has at least the value as expected one, and an outcome of value 0 or of smaller rank.
SOUND: taking those moves, a run surely comes to a fail state or to the value 0, because from everywhere the `ranks` fall to the
end with a probability above 0 and states are finitely many. Until then the expected value never falls; in the end it is at most
the probability of having failed. No variables are left out: the rest does not tell whether the whole task has such a start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from typing import Any

from polvet.check.all_starts import is_start, iter_all_starts
from polvet.check.followed import Followed, Step, find_policy_arena
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.model.automata import ModelType
from polvet.model.semantics import Move, State
from polvet.numbers import LONG_DIGITS, exact
from polvet.records.packed import unpack_columns
from polvet.records.state_json import Malformed

Row = dict[State, Fraction]
BLOCK = 4096


def check_risk_bound(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that runs of the policy fail with at most the bound."""
    followed = find_policy_arena(certificate, subjects)
    bound, worth = _read(followed, certificate)
    worst = _check_starts(followed, bound, worth)
    _check_above(followed, worth)
    return Accepted(
        f"{subjects.policy} in {followed.arena.about} reaches fail with probability at most {bound}, from any start "
        f"(at most {float(worst):.6g}; {len(worth):,} states)"
    )


def check_risk_exceeds(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that from some start runs may fail with more than the bound."""
    if certificate.get("kept") is not None:
        return Rejected("it leaves variables out")
    followed = find_policy_arena(certificate, subjects)
    bound, worth = _read(followed, certificate)
    value = _check_start(followed, certificate.get("start"), bound, worth)
    _check_below(followed, worth, _ranks(certificate.get("ranks"), worth))
    return Accepted(
        f"{subjects.policy} in {followed.arena.about} may reach fail with probability above {bound} "
        f"(at least {float(value):.6g}; {len(worth):,} states)"
    )


def possible_rows(followed: Followed, step: Step) -> list[Row]:
    """Return the distributions over outcomes that a step may be drawn from: nobody's choice in a Markov chain."""
    if followed.arena.task.network.model.type is not ModelType.DTMC:
        return [_mixed([move]) for move in step.moves]
    labels = {move.label for move in step.moves if move.label is not None}
    # Silent operators move with every label, and alone where there is none.
    groups = [[move for move in step.moves if move.label in (None, label)] for label in sorted(labels)]
    groups = groups or [list(step.moves)]
    return [_mixed(group) for group in groups if group]


def is_certain(step: Step) -> bool:
    """Return whether all evaluation orders choose alike, and something."""
    return not step.may_stick and len({move.label for move in step.moves if move.label is not None}) <= 1


def _mixed(moves: Sequence[Move]) -> Row:
    row: Row = {}
    for move in moves:
        for outcome in move.outcomes:
            row[outcome.state] = row.get(outcome.state, Fraction(0)) + outcome.probability / len(moves)
    return row


def _read(followed: Followed, certificate: Mapping[str, Any]) -> tuple[Fraction, Row]:
    """Return the bound, and the value of each listed state in their order."""
    count, values = certificate.get("count"), certificate.get("values")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise Malformed("'count' is no number")
    if not isinstance(values, list) or len(values) != count:
        raise Malformed(f"'values' is not a list of {count:,} probabilities")
    bound = _probability(certificate.get("bound"), "'bound'")
    listed = unpack_columns(followed.arena.task.network.variables, certificate.get("states"), count)
    worth = {
        state: _probability(item, f"values[{k}]") for k, (state, item) in enumerate(zip(listed, values, strict=True))
    }
    if len(worth) < count:
        raise Malformed("a state stands twice")
    return bound, worth


def _probability(item: Any, what: str) -> Fraction:
    number = exact(item, digits=LONG_DIGITS) if isinstance(item, str) else None
    if number is None or not 0 <= number <= 1:
        raise Malformed(f"{what} is no probability")
    return Fraction(number)


def _check_starts(followed: Followed, bound: Fraction, worth: Row) -> Fraction:
    """Return the greatest value of a start state; Malformed where one is not listed or above the bound."""
    arena, worst = followed.arena, None
    for state in iter_all_starts(arena):
        if state not in worth:
            raise Malformed(f"the start state {arena.show(state)} is not listed")
        if worth[state] > bound:
            raise Malformed(f"the value {worth[state]} of the start state {arena.show(state)} is above {bound}")
        worst = worth[state] if worst is None else max(worst, worth[state])
    if worst is None:
        raise Malformed("there is no start state")
    return worst


def _check_above(followed: Followed, worth: Row) -> None:
    arena = followed.arena
    for state in worth:
        # SOUND: fail is tested first, so that it beats goal.
        if arena.is_fail(state) and worth[state] != 1:
            raise Malformed(f"the fail state {arena.show(state)} has the value {worth[state]}")
    for state, step in _steps(followed, worth):
        for row in possible_rows(followed, step):
            for target in row:
                if target not in worth:
                    raise Malformed(f"{arena.show(state)} may lead to {arena.show(target)}, which is not listed")
            if (expected := _expected(row, worth)) > worth[state]:
                raise Malformed(f"{arena.show(state)} has the value {worth[state]}, a move from there {expected}")


def _check_start(followed: Followed, place: Any, bound: Fraction, worth: Row) -> Fraction:
    """Return the value of the named start state; Malformed unless it is one, with a value above the bound."""
    if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < len(worth):
        raise Malformed("'start' is no place in 'states'")
    arena, state = followed.arena, next(islice(worth, place, None))
    if not is_start(arena, state):
        raise Malformed(f"{arena.show(state)} is no start state")
    if worth[state] <= bound:
        raise Malformed(f"the value {worth[state]} of the start state {arena.show(state)} is not above {bound}")
    return worth[state]


def _ranks(items: Any, worth: Row) -> dict[State, int]:
    if not isinstance(items, list) or len(items) != len(worth):
        raise Malformed(f"'ranks' is not a list of {len(worth):,} numbers")
    if any(not isinstance(rank, int) or isinstance(rank, bool) or rank < 0 for rank in items):
        raise Malformed("a rank is no natural number")
    return dict(zip(worth, items, strict=True))


def _check_below(followed: Followed, worth: Row, ranks: Mapping[State, int]) -> None:
    arena = followed.arena
    for state in worth:
        if arena.is_goal(state) and not arena.is_fail(state) and worth[state] != 0:
            raise Malformed(f"runs end in the goal state {arena.show(state)}, yet its value is {worth[state]}")
    for state, step in _steps(followed, worth):
        if worth[state] == 0:
            continue
        if not is_certain(step):
            raise Malformed(f"what the policy chooses in {arena.show(state)} is not certain")
        if not any(_attains(state, row, worth, ranks) for row in possible_rows(followed, step)):
            raise Malformed(f"no move from {arena.show(state)} attains its value {worth[state]} and lowers its rank")


def _attains(state: State, row: Row, worth: Row, ranks: Mapping[State, int]) -> bool:
    # SOUND: one move must do both, for the environment that is looked at takes one and the same every time.
    falls = any(not worth.get(target) or ranks[target] < ranks[state] for target in row)
    return falls and _expected(row, worth) >= worth[state]


def _expected(row: Row, worth: Row) -> Fraction:
    return sum((chance * worth.get(target, Fraction(0)) for target, chance in row.items()), Fraction(0))


def _steps(followed: Followed, listed: Mapping[State, Any]) -> Iterator[tuple[State, Step]]:
    """Yield what may be done in each listed state where runs go on."""
    arena = followed.arena
    going = (state for state in listed if not arena.is_fail(state) and not arena.is_goal(state))
    while block := list(islice(going, BLOCK)):
        yield from zip(block, followed.steps(block), strict=True)
