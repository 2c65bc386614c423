"""States that are unsafe because games over a few variables are lost, with evidence: ranks over boxes, and a search down to these.

A relaxed game (safety/projections.py) says which combinations of a few variables are lost whatever the others hold, and its ranks
(safety/lost_ranks.py) why. The search stops where some game is lost; the certificate lists the states that it took, and the boxes of as few
games as tell all of them. The checker (check/lost_projection.py) knows no game: it follows every operator out of every box.
Limits   what the checker cannot follow over boxes: then a search without smaller games makes the evidence
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.check.arena import Arena
from polvet.check.invariant_space import ANYTHING, read_space
from polvet.check.lost_boxes import check_games, read_games
from polvet.errors import InputError, LimitReached
from polvet.files import Json
from polvet.kernel.compiled import Words
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.records.certificate_files import Certificate
from polvet.records.state_json import Malformed
from polvet.safety.certificates import prove, ranked_certificate
from polvet.safety.decide import Decider
from polvet.safety.exits import least_of
from polvet.safety.game_verdicts import GameVerdicts
from polvet.safety.lost_ranks import ranked_boxes
from polvet.symbolic.conserved import unchanging_sums
from polvet.symbolic.linear import NotLinear
from polvet.symbolic.operators import linear_task
from polvet.verdict import Verdict
from polvet.verify.linearized import stopped_after

GAMES_SHARE = 0.5
"""The part of the time that may go into evidence with smaller games, before a search without them is tried."""


def prove_unsafe(
    task: Task,
    lost: Sequence[GameVerdicts],
    states: Sequence[State],
    *,
    budget: Budget = UNLIMITED,
    most: int | None = None,
) -> Certificate:
    """Return the certificate that all the states are unsafe: by what games lost, where that tells it, else by ranks of states."""
    games = [told for told in lost if told.ranks is not None]
    if games:
        try:
            certificate = prove_lost(task, games, states, budget=budget.share(GAMES_SHARE), most=most)
            if certificate is not None:
                return certificate
        except LimitReached:
            budget.check()
    prover = Decider(task, algorithm="lazy", share=True)
    return prove(prover, states, Verdict.UNSAFE, budget=budget, most=most)


def prove_lost(
    task: Task,
    games: Sequence[GameVerdicts],
    states: Sequence[State],
    *,
    budget: Budget = UNLIMITED,
    most: int | None = None,
) -> Certificate | None:
    """Return the certificate: a `lost-projection`, `unsafe-rank` where no game is needed, None where the checker will not follow."""
    prover = Decider(task, algorithm="lazy", share=True)
    for told in games:
        prover.foresee(told)
    distinct = list(dict.fromkeys(states))
    ranked = prover.unsafe_rank(distinct, budget=budget, most=most)
    is_fail = prover.compiled.semantics.compile(task.fail)
    ends = [one.state for one in ranked if one.rank == 0 and not is_fail(one.state)]
    if not ends:
        return ranked_certificate(task, distinct, ranked)
    chosen = _telling(prover, games, prover.compiled.pack(ends))
    rows = _rows(task, ends, budget)
    certificate = {**ranked_certificate(task, distinct, ranked, "lost-projection"), "rows": rows}
    certificate["lost"] = [_boxes(task, one) for one in chosen]
    arena = Arena.of(task, budget=budget)
    try:
        space = read_space(arena, {None: ANYTHING}, certificate["rows"], [])
        check_games(space, read_games(space, certificate["lost"]))
    except (InputError, Malformed):
        return None
    return certificate


def _telling(prover: Decider, games: Sequence[GameVerdicts], ends: Words) -> list[GameVerdicts]:
    """Return a few of the games that together tell all these states: each time the one that tells most of what is left."""
    values = prover.compiled.machine.unpack(ends)
    least = [least_of(variable) for variable in prover.task.network.variables]
    tells = np.array([told.loses(least, values) for told in games])
    chosen: list[GameVerdicts] = []
    left = np.ones(len(values), dtype=np.bool_)
    while left.any():
        best = int(np.argmax((tells & left).sum(axis=1)))
        chosen.append(games[best])
        left &= ~tells[best]
    return chosen


def _rows(task: Task, states: Sequence[State], budget: Budget) -> list[Json]:
    """Return the sums that no operator changes, between the least and the greatest value in these states."""
    try:
        with stopped_after(budget):
            sums = unchanging_sums(linear_task(task))
    except NotLinear:
        return []
    variables = task.network.variables
    rows: list[Json] = []
    for row in sums:
        if row.marks:
            continue
        values = [row.value(state) for state in states]
        terms = {variables[place].name: factor for place, factor in row.terms}
        rows.append({"terms": terms, "marks": [], "lower": min(values), "upper": max(values)})
    return rows


def _boxes(task: Task, told: GameVerdicts) -> list[Json]:
    """Return the boxes of a game over values of the variables, with their ranks."""
    assert told.ranks is not None
    variables = [task.network.variables[k] for k in told.variables]
    tops = dict(told.tops)
    topped = [axis for axis, place in enumerate(told.variables) if place in tops]
    items: list[Json] = []
    for box in ranked_boxes(told.ranks, topped):
        ends, rank = {}, box.rank
        for axis, variable in enumerate(variables):
            least, last = least_of(variable), told.ranks.shape[axis] - 1
            low, high = box.low[axis], box.high[axis]
            rank -= box.slopes[axis] * (low + least)
            if (low, high) != (0, last):
                greatest = int(variable.upper or 0) if high == last and axis in topped else high + least
                ends[variable.name] = [low + least, greatest]
        slopes = {one.name: slope for one, slope in zip(variables, box.slopes, strict=True) if slope}
        items.append({"box": ends, "rank": rank, "slopes": slopes})
    return items
