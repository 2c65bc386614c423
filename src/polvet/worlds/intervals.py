"""Worlds whose probabilities are known within intervals: as given, or from counted transitions with a stated confidence.

robust   whatever the true probabilities within the intervals are, and however they change from step to step, the worst of them is
         a *vertex*: all but one at an end of their interval. So an action becomes one operator per vertex, all with its label, among which
         the environment picks, as models have it anyway: shields, values and certificates of such a model hold for all distributions
counted  the interval of an outcome seen k times in n holds every p with n KL(k/n || p) <= ln(1/alpha): Chernoff's bound on binomial
         tails. Doubts are shared by all states, actions, possible outcomes and numbers of visits, so that all intervals hold together
         with the confidence, whoever chose the actions and whenever the log ended
unseen   outcomes that were promised to be possible but not seen have such an interval, too, and count as failing; so does coming to
         a state in which nothing was tried. An action that was not tried in a state is not applicable there
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from polvet.errors import InputError, Where
from polvet.model.tables import Outcome, TransitionTable
from polvet.worlds.table import simplest_fraction

DIGITS = 10**6
"""Ends of counted intervals are multiples of one part in so many, rounded outward."""
MOST_VERTICES = 4_096
LOGGED = "transitions"
"""What worlds that are known from a log are called: an outcome that was never seen is one that fails."""
Interval = tuple[Fraction, Fraction]
Rows = Mapping[tuple[int, int], Mapping[int, Interval]]


@dataclass(frozen=True, slots=True)
class IntervalTable:
    """A finite world of intervals: per state and action, between what the probability of each next state lies.

    `unseen` is how likely an action at most leads where nobody knows; `lost` are states in which nobody knows what follows.
    """

    name: str
    states: int
    labels: tuple[str, ...]
    rows: Rows
    starts: tuple[int, ...]
    unseen: Mapping[tuple[int, int], Fraction]
    lost: frozenset[int]


def vertices(intervals: Sequence[Interval]) -> list[tuple[Fraction, ...]]:
    """Return the vertices of the distributions within the intervals; none where there is no distribution.

    >>> half, tenth = Fraction(1, 2), Fraction(1, 10)
    >>> [tuple(map(str, one)) for one in vertices([(half - tenth, half + tenth), (Fraction(0), Fraction(1))])]
    [('2/5', '3/5'), ('3/5', '2/5')]
    """
    loose = [k for k, (low, high) in enumerate(intervals) if low < high]
    if len(loose) * 2 ** max(0, len(loose) - 1) > MOST_VERTICES:
        raise InputError(
            f"an action has {len(loose)} outcomes of unknown probability.",
            Where("intervals"),
            "Join outcomes, or give narrower intervals: at most 10 may be unknown.",
        )
    fixed = [low for low, _ in intervals]
    points: dict[tuple[Fraction, ...], None] = {}
    for free in loose or range(min(1, len(intervals))):
        others = [k for k in loose if k != free]
        for ends in product((0, 1), repeat=len(others)):
            point = list(fixed)
            for k, end in zip(others, ends, strict=True):
                point[k] = intervals[k][end]
            point[free] = 1 - sum((p for k, p in enumerate(point) if k != free), Fraction(0))
            if intervals[free][0] <= point[free] <= intervals[free][1]:
                points[tuple(point)] = None
    return list(points)


def table_of_intervals(given: IntervalTable) -> TransitionTable:
    """Return the table of the vertices: the environment picks among those of an action."""
    rows: dict[tuple[int, int], tuple[Outcome, ...]] = {}
    others: list[tuple[int, int, tuple[Outcome, ...]]] = []
    for (state, action), row in sorted(given.rows.items()):
        place = Where(given.name).at(state).at(given.labels[action])
        for low, high in row.values():
            if not 0 <= low <= high <= 1:
                raise InputError(
                    f"[{low}, {high}] is no interval of probabilities.", place, "Give 0 <= low <= high <= 1."
                )
        targets = list(row)
        intervals = [row[target] for target in targets]
        unseen = given.unseen.get((state, action), Fraction(0))
        if unseen:
            targets.append(state)
            intervals.append((Fraction(0), unseen))
        points = vertices(intervals)
        if not points:
            raise InputError("no distribution lies within the intervals.", place, "Widen them.")
        for k, point in enumerate(points):
            outcomes = []
            for number, (target, chance) in enumerate(zip(targets, point, strict=True)):
                failed = target in given.lost or (unseen > 0 and number == len(targets) - 1)
                if chance:
                    outcomes.append(Outcome(chance, target, event="failed" if failed else None))
            if k == 0:
                rows[state, action] = tuple(outcomes)
            else:
                others.append((state, action, tuple(outcomes)))
    return TransitionTable(given.name, given.states, given.labels, rows, given.starts, others=tuple(others))


def read_intervals(
    rows: Mapping[tuple[int, str], Mapping[int, object]], starts: Sequence[int] | None = None
) -> IntervalTable:
    """Return the table of rows by state and label: for each next state (low, high), or one probability."""
    labels = tuple(dict.fromkeys(label for _, label in rows))
    by_number: dict[tuple[int, int], dict[int, Interval]] = {}
    for (state, label), row in rows.items():
        by_number[state, labels.index(label)] = {
            target: _interval(one, Where("intervals").at(state).at(label)) for target, one in row.items()
        }
    states = 1 + max((max(state, *row) for (state, _), row in by_number.items() if row), default=0)
    return IntervalTable("intervals", states, labels, by_number, tuple(starts or (0,)), {}, frozenset())


def _interval(given: object, where: Where) -> Interval:
    ends = given if isinstance(given, tuple | list) else (given, given)
    try:
        low, high = (simplest_fraction(one) if isinstance(one, float) else Fraction(one) for one in ends)
    except (TypeError, ValueError):
        raise InputError(f"{given!r} is no interval.", where, "Give (low, high), or one probability.") from None
    return low, high


def count_transitions(
    log: Iterable[tuple[int, int, int]],
    labels: Sequence[str],
    *,
    outcomes: int | Callable[[int, int], int],
    confidence: float,
    ends: Iterable[int] = (),
    states: int | None = None,
    starts: Sequence[int] | None = None,
) -> IntervalTable:
    """Return intervals from logged transitions (state, number of the action, next state) that hold with the confidence.

    `outcomes` is a promise: no action of a state leads to more different states (or, where it is a function of the two, to more than it
    says). `ends` are states where runs end.
    """
    where = Where("transitions")
    counts: dict[tuple[int, int], Counter[int]] = {}
    for source, action, target in log:
        counts.setdefault((int(source), int(action)), Counter())[int(target)] += 1
    if not counts:
        raise InputError("there are no transitions.", where, "Give (state, action, next state).")
    if not 0 < confidence < 1:
        raise InputError(f"the confidence {confidence} is no probability.", where, "Give 0.95.")
    visited = {state for (source, _), row in counts.items() for state in (source, *row)}
    total = max(visited) + 1 if states is None else states
    actions = {action for _, action in counts}
    if min(visited) < 0 or max(visited) >= total or min(actions) < 0 or max(actions) >= len(labels):
        raise InputError(
            "a state or an action has no such number.", where, f"Number them from 0; {len(labels)} labels."
        )
    end = frozenset(ends)
    tests = 2 * total * len(labels) * total  # SOUND: also of pairs and outcomes that are not in the log
    rows: dict[tuple[int, int], dict[int, Interval]] = {}
    unseen: dict[tuple[int, int], Fraction] = {}
    for (source, action), row in counts.items():
        if source in end:
            raise InputError(
                f"something is done in state {source}, where runs end.", where, "Leave it out of fail and goal."
            )
        most = outcomes(source, action) if callable(outcomes) else outcomes
        if len(row) > most:
            what = f"'{labels[action]}' led from state {source} to {len(row)} different states."
            raise InputError(what, where, f"Promise more than outcomes={most}.")
        visits = row.total()
        doubt = (1 - confidence) / (tests * visits * (visits + 1))  # over all numbers of visits, they add up
        rows[source, action] = {target: counted_interval(k, visits, doubt) for target, k in row.items()}
        left = min(most, total) - len(row)
        if left:
            unseen[source, action] = min(Fraction(1), left * counted_interval(0, visits, doubt)[1])
    running = {source for source, _ in rows}
    for state in starts or (0,):
        if state not in running | end:
            raise InputError(f"nothing was tried in the start state {state}.", where, "Log what is done there.")
    return IntervalTable(
        LOGGED, total, tuple(labels), rows, tuple(starts or (0,)), unseen, frozenset(visited - running - end)
    )


def counted_interval(count: int, visits: int, doubt: float) -> Interval:
    """Return between what the probability of an outcome lies; it is wrong on each side with at most the doubt.

    >>> counted_interval(0, 100, 0.01)
    (Fraction(0, 1), Fraction(2813, 62500))
    """
    enough = -math.log(doubt) / visits
    share = count / visits
    low = _solve(share, 0.0, enough)
    high = _solve(share, 1.0, enough)
    down, up = math.floor((low - 1e-9) * DIGITS), math.ceil((high + 1e-9) * DIGITS)
    return max(Fraction(0), Fraction(down, DIGITS)), min(Fraction(1), Fraction(up, DIGITS))


def _solve(share: float, end: float, enough: float) -> float:
    """Return the probability between the share and the end where the divergence from the share is enough, or the end."""
    near, far = share, end
    for _ in range(60):
        middle = (near + far) / 2
        near, far = (middle, far) if divergence(share, middle) <= enough else (near, middle)
    return far


def divergence(share: float, chance: float) -> float:
    """Return KL(share || chance), the Kullback-Leibler divergence of two coins."""
    total = 0.0
    for p, q in ((share, chance), (1 - share, 1 - chance)):
        if p > 0:
            total += p * math.log(p / q) if q > 0 else math.inf
    return max(0.0, total)
