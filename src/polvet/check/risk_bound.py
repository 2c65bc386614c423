"""Checking `risk-bound` and `risk-exceeds`: how likely a run of the policy reaches `fail` at worst, in fractions.

Where several operators may move, the environment takes one; it also picks the start.
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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from polvet.check.all_starts import is_start, iter_all_starts
from polvet.check.bulk import Bulk, Taken, listed_in_bulk
from polvet.check.followed import Followed, Step, find_policy_arena
from polvet.check.listed_moves import INT64, Whole
from polvet.check.listed_states import Bools
from polvet.check.permissive_bulk import scaled
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.model.options import ADVERSARIAL, ENVIRONMENT
from polvet.model.semantics import State
from polvet.numbers import LONG_DIGITS, exact
from polvet.records.packed import unpack_columns
from polvet.records.state_json import Malformed

Row = Mapping[State, Fraction]
T = TypeVar("T")
BLOCK = 4096
MOST = 2**62


def check_risk_bound(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that runs of the policy fail with at most the bound."""
    followed = find_policy_arena(certificate, subjects)
    bound, values = _bound_and_values(certificate)
    item = certificate.get("states")
    if (bulk := listed_in_bulk(followed, item, len(values))) is not None:
        worst = _check_starts_in_bulk(bulk, bound, values)
        listed = _Listed(bulk, values)
        _check_above(
            followed, [bulk.states.state(k) for k in np.flatnonzero(_maybe_not_above(bulk, values)).tolist()], listed
        )
    else:
        worth = _worth(followed, item, values)
        worst = _check_starts(followed, bound, worth)
        _check_above(followed, worth, worth)
    return Accepted(
        f"{subjects.policy} in {followed.arena.about} reaches fail with probability at most {bound}, from any start, "
        f"{ENVIRONMENT[ADVERSARIAL]} (at most {float(worst):.6g}; {len(values):,} states)"
    )


def check_risk_exceeds(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that from some start runs may fail with more than the bound."""
    if certificate.get("kept") is not None:
        return Rejected("it leaves variables out")
    followed = find_policy_arena(certificate, subjects)
    bound, values = _bound_and_values(certificate)
    ranks, item, start = (
        _ranks(certificate.get("ranks"), len(values)),
        certificate.get("states"),
        certificate.get("start"),
    )
    if not isinstance(start, int) or isinstance(start, bool) or not 0 <= start < len(values):
        raise Malformed("'start' is no place in 'states'")
    bulk = listed_in_bulk(followed, item, len(values)) if max(ranks) < MOST else None
    if bulk is not None:
        value = _check_start(followed, bulk.states.state(start), bound, values[start])
        judged = [bulk.states.state(k) for k in np.flatnonzero(_maybe_not_below(bulk, values, ranks)).tolist()]
        _check_below(followed, judged, _Listed(bulk, values), _Listed(bulk, ranks))
    else:
        worth = _worth(followed, item, values)
        value = _check_start(followed, next(islice(worth, start, None)), bound, values[start])
        _check_below(followed, worth, worth, dict(zip(worth, ranks, strict=True)))
    return Accepted(
        f"{subjects.policy} in {followed.arena.about} may reach fail with probability above {bound} "
        f"(at least {float(value):.6g}; {len(values):,} states)"
    )


def possible_rows(step: Step) -> list[Row]:
    """Return the distributions over outcomes that the environment may take in a step."""
    rows: list[Row] = []
    for move in step.moves:
        row: dict[State, Fraction] = {}
        for outcome in move.outcomes:
            row[outcome.state] = row.get(outcome.state, Fraction(0)) + outcome.probability
        rows.append(row)
    return rows


def is_certain(step: Step) -> bool:
    """Return whether all evaluation orders choose alike, and something."""
    return not step.may_stick and len({move.label for move in step.moves if move.label is not None}) <= 1


class _Listed(Mapping[State, T]):
    """What is said of the states of a bulk, each by its place."""

    def __init__(self, bulk: Bulk, values: Sequence[T]) -> None:
        self.bulk, self.said = bulk, values

    def __getitem__(self, state: State) -> T:
        place = int(self.bulk.states.find(np.array([state], dtype=np.int64))[0])
        if place < 0:
            raise KeyError(state)
        return self.said[place]

    def __iter__(self) -> Iterator[State]:
        return (self.bulk.states.state(place) for place in range(len(self)))

    def __len__(self) -> int:
        return len(self.said)


def _check_starts_in_bulk(bulk: Bulk, bound: Fraction, values: Sequence[Fraction]) -> Fraction:
    """Return the greatest value of a start state; Malformed where one is not listed or above the bound."""
    # Distinct values are few: their order stands for them.
    order = {value: rank for rank, value in enumerate(sorted(set(values)))}
    ranks, worst = np.array([order[value] for value in values], dtype=np.int64), -1
    for places in bulk.starts():
        worst = max(worst, int(ranks[places].max()))
    value = values[int(np.flatnonzero(ranks == worst)[0])]
    if value > bound:
        raise Malformed(f"the value {value} of a start state is above {bound}")
    return value


class _Expectations:
    """What operators lead to in the mean, beside the values before them, in exact integers or fractions."""

    def __init__(self, values: Sequence[Fraction]) -> None:
        self.values, self.one = scaled(values)

    def of(self, taken: Taken, begin: int) -> tuple[Whole, Whole]:
        """Return what is expected after the operator, and the value before it, both times its whole."""
        values, whole = self.values, taken.operator.whole
        # SOUND: shares sum to the whole and values are at most `one`: nothing overflows where their product does not.
        if values.dtype != np.int64 or whole * self.one >= INT64:
            values = values.astype(object)
        total = sum(share * values[target] for share, target in zip(taken.operator.shares, taken.targets, strict=True))
        return np.asarray(total), whole * values[begin + taken.source]


def _maybe_not_above(bulk: Bulk, values: Sequence[Fraction]) -> Bools:
    """Return which states the interpreter has to judge; the others are as `_check_above` asks."""
    judged, expectations = np.zeros(len(values), dtype=np.bool_), _Expectations(values)
    for steps in bulk.blocks():
        doubtful = steps.doubtful.copy()
        for taken in steps.taken:
            expected, mine = expectations.of(taken, steps.begin)
            doubtful[taken.source[np.asarray(expected > mine, dtype=np.bool_)]] = True
        judged[steps.begin : steps.begin + len(doubtful)] = doubtful
    return judged


def _maybe_not_below(bulk: Bulk, values: Sequence[Fraction], ranks: Sequence[int]) -> Bools:
    """Return which states the interpreter has to judge; the others are as `_check_below` asks."""
    judged, expectations, rank = np.zeros(len(values), dtype=np.bool_), _Expectations(values), np.array(ranks)
    positive = np.asarray(expectations.values != 0, dtype=np.bool_)
    for steps in bulk.blocks():
        here = slice(steps.begin, steps.begin + len(steps.doubtful))
        attained = np.zeros(len(steps.doubtful), dtype=np.bool_)
        for taken in steps.taken:
            expected, mine = expectations.of(taken, steps.begin)
            falls = np.zeros(len(taken.source), dtype=np.bool_)
            for target in taken.targets:
                falls |= ~positive[target] | (rank[target] < rank[steps.begin + taken.source])
            attained[taken.source[falls & np.asarray(expected >= mine, dtype=np.bool_)]] = True
        certain = ~steps.may_stick & (steps.chosen.sum(axis=0) <= 1)
        judged[here] = steps.doubtful | (positive[here] & (steps.goal | ~certain | ~attained))
    return judged


def _bound_and_values(certificate: Mapping[str, Any]) -> tuple[Fraction, list[Fraction]]:
    """Return the bound, and the value of each listed state in their order."""
    count, values = certificate.get("count"), certificate.get("values")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise Malformed("'count' is no number")
    if not isinstance(values, list) or len(values) != count:
        raise Malformed(f"'values' is not a list of {count:,} probabilities")
    bound = _probability(certificate.get("bound"), "'bound'")
    known: dict[str, Fraction] = {}  # values repeat
    for k, item in enumerate(values):
        if not isinstance(item, str) or item not in known:
            known[item] = _probability(item, f"values[{k}]")
    return bound, [known[item] for item in values]


def _worth(followed: Followed, item: Any, values: Sequence[Fraction]) -> Row:
    listed = unpack_columns(followed.arena.task.network.variables, item, len(values))
    worth = dict(zip(listed, values, strict=True))
    if len(worth) < len(values):
        raise Malformed("a state stands twice")
    return worth


def _probability(item: Any, what: str) -> Fraction:
    number = exact(item, digits=LONG_DIGITS) if isinstance(item, str) else None
    if number is None or not 0 <= number <= 1:
        raise Malformed(f"{what} is no probability")
    return Fraction(number)


def _check_starts(followed: Followed, bound: Fraction, worth: Row) -> Fraction:
    """Return the greatest value of a start state; Malformed where one is not listed or above the bound."""
    arena, worst = followed.arena, Fraction(0)
    for state in iter_all_starts(arena):
        if state not in worth:
            raise Malformed(f"the start state {arena.show(state)} is not listed")
        if worth[state] > bound:
            raise Malformed(f"the value {worth[state]} of the start state {arena.show(state)} is above {bound}")
        worst = max(worst, worth[state])
    return worst


def _check_above(followed: Followed, judged: Iterable[State], worth: Row) -> None:
    arena, states = followed.arena, list(judged)
    for state in states:
        # SOUND: fail is tested first, so that it beats goal.
        if arena.is_fail(state) and worth[state] != 1:
            raise Malformed(f"the fail state {arena.show(state)} has the value {worth[state]}")
    for state, step in _steps(followed, states):
        for row in possible_rows(step):
            for target in row:
                if target not in worth:
                    raise Malformed(f"{arena.show(state)} may lead to {arena.show(target)}, which is not listed")
            if (expected := _expected(row, worth)) > worth[state]:
                raise Malformed(f"{arena.show(state)} has the value {worth[state]}, a move from there {expected}")


def _check_start(followed: Followed, state: State, bound: Fraction, value: Fraction) -> Fraction:
    """Return the value of the named state; Malformed unless runs start there, and it is above the bound."""
    arena = followed.arena
    if not is_start(arena, state):
        raise Malformed(f"{arena.show(state)} is no start state")
    if value <= bound:
        raise Malformed(f"the value {value} of the start state {arena.show(state)} is not above {bound}")
    return value


def _ranks(items: Any, count: int) -> list[int]:
    if not isinstance(items, list) or len(items) != count:
        raise Malformed(f"'ranks' is not a list of {count:,} numbers")
    if any(not isinstance(rank, int) or isinstance(rank, bool) or rank < 0 for rank in items):
        raise Malformed("a rank is no natural number")
    return items


def _check_below(followed: Followed, judged: Iterable[State], worth: Row, ranks: Mapping[State, int]) -> None:
    arena, states = followed.arena, list(judged)
    for state in states:
        if arena.is_goal(state) and not arena.is_fail(state) and worth[state] != 0:
            raise Malformed(f"runs end in the goal state {arena.show(state)}, yet its value is {worth[state]}")
    for state, step in _steps(followed, states):
        if worth[state] == 0:
            continue
        if not is_certain(step):
            raise Malformed(f"what the policy chooses in {arena.show(state)} is not certain")
        if not any(_attains(state, row, worth, ranks) for row in possible_rows(step)):
            raise Malformed(f"no move from {arena.show(state)} attains its value {worth[state]} and lowers its rank")


def _attains(state: State, row: Row, worth: Row, ranks: Mapping[State, int]) -> bool:
    # SOUND: one move must do both, for the environment that is looked at takes one and the same every time.
    falls = any(not worth.get(target) or ranks[target] < ranks[state] for target in row)
    return falls and _expected(row, worth) >= worth[state]


def _expected(row: Row, worth: Row) -> Fraction:
    return sum((chance * worth.get(target, Fraction(0)) for target, chance in row.items()), Fraction(0))


def _steps(followed: Followed, listed: Iterable[State]) -> Iterator[tuple[State, Step]]:
    """Yield what may be done in each listed state where runs go on."""
    arena = followed.arena
    going = (state for state in listed if not arena.is_fail(state) and not arena.is_goal(state))
    while block := list(islice(going, BLOCK)):
        yield from zip(block, followed.steps(block), strict=True)
