"""Do all runs from a cell return to listed cells without failing on the way? Sets of states are followed until they do.

Source   invariance by recurrent sets: that no run leaves a set for more than k steps, and none fails on the way, is enough
         (k-step or "almost" invariance; Poincaré sections of hybrid systems are the case where runs return at a switch)
A part of a set that lies in listed cells is done, however early. A set that several ways lead on from is cut where `cuts` says (the
thresholds of trees): each piece then goes its own way. A cell that does not return as a whole, or fails, is halved and tried again.
SOUND: nothing here drops a state but what `check.flow` and `check.narrowing` drop; a cell counts as returning only if every part of it,
at every depth of halving, came to lie in listed cells, ended in the goal or had nowhere to go, and none might fail
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.check.affine_forms import Bools, Floats
from polvet.check.flow import Flow, Went
from polvet.check.narrowing import cut
from polvet.check.state_sets import Sets, joined

Ints = np.ndarray
Inside = Callable[[Floats, Floats, Ints], Bools]
"""Which boxes lie in listed cells as a whole; the last argument says of which judged box each is a part."""
RETURNS, FAILS, OPEN = 0, 1, 2
TOGETHER = 1 << 12


@dataclass(frozen=True, slots=True)
class Plan:
    """How cells are followed: at most so many steps, parts of one set at once, and halvings; where sets are cut, per variable."""

    steps: int
    parts: int
    halvings: int
    cuts: tuple[Floats, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """RETURNS, FAILS or OPEN for each box that was followed; where parts of open ones were when they were given up, and of which."""

    how: Ints
    landed: Sets
    source: Ints


def inside_of(marks: Bools) -> Callable[[Ints, Ints], Bools]:
    """Return the question whether all cells between two corners [n, variables] are listed, answered in constant time."""
    table = np.zeros([size + 1 for size in marks.shape], dtype=np.int32)
    table[tuple(slice(1, None) for _ in marks.shape)] = marks
    for axis in range(table.ndim):
        np.cumsum(table, axis=axis, out=table)

    def all_listed(first: Ints, last: Ints) -> Bools:
        total = np.zeros(len(first), dtype=np.int64)
        for corner in product((0, 1), repeat=table.ndim):
            at = tuple(last[:, d] + 1 if up else first[:, d] for d, up in enumerate(corner))
            total += (-1) ** (table.ndim - sum(corner)) * table[at].astype(np.int64)
        return np.asarray(total == (last - first + 1).prod(axis=1))

    return all_listed


def judge(flow: Flow, boxes: tuple[Floats, Floats], inside: Inside, plan: Plan, budget: Budget = UNLIMITED) -> Judged:
    """Follow boxes and, where that does not do, their halves."""
    (low, high), count = boxes, len(boxes[0])
    how, own = np.full(count, RETURNS, dtype=np.int8), np.arange(count)
    for depth in range(plan.halvings + 1):
        found = _followed(flow, flow.boxes(low, high), own, inside, plan, budget)
        left = np.flatnonzero(found.how != RETURNS)
        if depth == plan.halvings:
            np.maximum.at(how, own[left], found.how[left])
            # One part that fails outweighs those that are open.
            how[own[found.how == FAILS]] = FAILS
            return Judged(how, found.landed, own[found.source])
        if not len(left):
            break
        low, high, parent = _halves(flow.whole, low[left], high[left], depth)
        own = own[left][parent]
    return Judged(how, flow.boxes(low[:0], high[:0]), own[:0])


def _halves(wholes: Sequence[bool], low: Floats, high: Floats, depth: int) -> tuple[Floats, Floats, Ints]:
    """Return both halves of boxes, of their real variables in turn, and the number of the box of each."""
    reals = [k for k, whole in enumerate(wholes) if not whole] or list(range(len(wholes)))
    place = reals[depth % len(reals)]
    middle = low[:, place] / 2 + high[:, place] / 2
    middle = np.floor(middle) + 1 if wholes[place] else middle
    # SOUND: where the box is one value wide, all of it is in the lower half.
    two = (low[:, place] < middle) & (middle <= high[:, place])
    lower_end, upper_begin = high.copy(), low[two].copy()
    before = middle - 1 if wholes[place] else np.nextafter(middle, -np.inf)
    lower_end[two, place], upper_begin[:, place] = before[two], middle[two]
    parent = np.concatenate([np.arange(len(low)), np.flatnonzero(two)])
    return np.concatenate([low, upper_begin]), np.concatenate([lower_end, high[two]]), parent


def _followed(flow: Flow, sets: Sets, own: Ints, inside: Inside, plan: Plan, budget: Budget) -> Judged:
    count, source = len(sets), np.arange(len(sets))
    how = np.where(flow.may_fail(sets), FAILS, RETURNS).astype(np.int8)
    landed, parts = [sets.take([])], [source[:0]]
    on = how[source] == RETURNS
    sets, source = sets.take(on), source[on]
    for _ in range(plan.steps):
        if not len(source):
            break
        went = _step(flow, sets, plan, budget)
        how[source[went.broken]] = FAILS
        sets, source = went.sets, source[went.source]
        how[source[flow.may_fail(sets)]] = FAILS
        going = how[source] == RETURNS
        sets, source = sets.take(going), source[going]
        out = ~inside(*sets.ends, own[source])
        sets, source = sets.take(out), source[out]
        many = (np.bincount(source, minlength=count) > plan.parts)[source]
        how[source[many]] = OPEN
        landed.append(sets.take(many))
        parts.append(source[many])
        sets, source = sets.take(~many), source[~many]
    how[source] = OPEN
    return Judged(how, joined([*landed, sets]), np.concatenate([*parts, source]))


def _step(flow: Flow, sets: Sets, plan: Plan, budget: Budget) -> Went:
    """Return what follows, of pieces where several ways lead on from a set that a cut goes through."""
    went = _gone(flow, sets, budget)
    pieces = np.ones(len(sets))
    for place, cuts in enumerate(plan.cuts):
        low, high = sets.ends[0][:, place], sets.ends[1][:, place]
        pieces *= 1 + np.searchsorted(cuts, high, side="right") - np.searchsorted(cuts, low, side="right")
    several = np.bincount(went.source, minlength=len(sets)) > 1
    chosen = np.flatnonzero(several & (pieces > 1) & (pieces <= plan.parts))
    if not len(chosen):
        return went
    parts, source = _pieces(sets.take(chosen), plan)
    again = _gone(flow, parts, budget)
    kept = ~np.isin(went.source, chosen)
    broken = went.broken.copy()
    broken[chosen] = False
    broken[chosen[source[again.broken]]] = True
    whole = joined([went.sets.take(kept), again.sets])
    return Went(whole, np.concatenate([went.source[kept], chosen[source[again.source]]]), broken)


def _gone(flow: Flow, sets: Sets, budget: Budget) -> Went:
    """Return what follows, some sets at a time, so that limits are kept where there are many."""
    begins = range(0, max(len(sets), 1), TOGETHER)
    parts = [flow.step(sets.take(np.arange(k, min(k + TOGETHER, len(sets))))) for k in budget.each(begins)]
    sources = [part.source + begin for begin, part in zip(begins, parts, strict=True)]
    broken = np.concatenate([part.broken for part in parts])
    return Went(joined([part.sets for part in parts]), np.concatenate(sources), broken)


def _pieces(sets: Sets, plan: Plan) -> tuple[Sets, Ints]:
    """Return the sets cut wherever a cut goes through them, and the number of the set of each piece."""
    source = np.arange(len(sets))
    for place, cuts in enumerate(plan.cuts):
        for at in cuts.tolist():
            through = (sets.ends[0][:, place] < at) & (at <= sets.ends[1][:, place])
            if through.any():
                parts, mine = cut(sets.take(through), place, at)
                source = np.concatenate([source[~through], source[through][mine]])
                sets = joined([sets.take(~through), parts])
    return sets, source
