"""Restricted games over a few variables: what is won there is won in the model, and the search need not look at it again.

Idea     forget all variables but a few, and let them hold whatever is worst. In the restricted game the policy may take only
         actions that are applicable whatever the forgotten variables hold, and every outcome that some of their values
         allow may happen. A truck that can brake in time is safe whatever it carries: a game over its place and speed says
         so, where the model itself has exponentially many states that all say the same
Source   the dual of the relaxed games of `safety/projections.py`
SOUND    where the restricted game is won, let the policy do in each state what it does in the projection: that action is
         applicable, the projection of each of its outcomes is an outcome there, and so is won. `fail` reads kept variables
         only, and won states are outside it. The action ANY stands for "whatever is applicable, or nothing is": its outcomes
         are those of all operators that may be enabled. What writes a kept variable in a way that cannot be told, or beyond its
         bounds, counts as lost
Cost     each pattern is solved once, for all combinations of values (at most MOST_COMBINATIONS)
Limits   as for relaxed games
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.model.expressions import (
    FALSE,
    TRUE,
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    conjunction,
    conjuncts,
    disjunction,
    names,
)
from polvet.model.folding import value_of
from polvet.model.network import Branch, Joint, Kind, NetworkEdge, Update, Variable
from polvet.model.task import Task
from polvet.safety.decide import SAFE
from polvet.safety.game_verdicts import GameVerdicts
from polvet.safety.projections import core_of, count_of, fits, has_one_automaton, solve_game

ANY = "any"
BROKEN = "broken"
"""The variable that tells whether a kept variable was written in a way that cannot be told."""


def iter_won(task: Task, *, budget: Budget = UNLIMITED) -> Iterator[GameVerdicts]:
    """Yield what is won in restricted games: over what decides `fail`, and over that with what its changes depend on."""
    network = task.network
    # SOUND: where operators are disabled out of bounds, forgotten values decide which are enabled.
    if network.disables_out_of_bounds or not has_one_automaton(network):
        return
    core, wider = core_of(task), wider_core_of(task)
    for kept in [core, *([wider] if wider > core else [])]:
        if kept and fits(network, kept):
            yield solve_restricted(task, sorted(network.index_of(name) for name in kept), budget=budget)


def wider_core_of(task: Task) -> set[str]:
    """Return what decides `fail`, and what its changes depend on."""
    core = core_of(task)
    places = {variable.name for variable in task.network.variables}
    return core | {
        name for edge in task.network.edges if _written(edge) & core for name in names(edge.guard) if name in places
    }


def solve_restricted(task: Task, pattern: Sequence[int], *, budget: Budget = UNLIMITED) -> GameVerdicts:
    """Return which combinations of the pattern's variables are won; none where a limit comes first."""
    try:
        return solve_game(task, restrict(task, pattern, budget), pattern, SAFE, budget=budget)
    except LimitReached:
        sizes = (count_of(task.network.variables[k]) for k in pattern)
        return GameVerdicts(tuple(pattern), np.zeros(prod(sizes), dtype=np.uint8))


def restrict(task: Task, pattern: Sequence[int], budget: Budget = UNLIMITED) -> Task:
    """Return the restricted game over the pattern's variables, and one more that tells when it is lost for want of knowledge."""
    network = task.network
    kept = {network.variables[k].name: network.variables[k] for k in pattern}
    edges: list[NetworkEdge] = []
    members: dict[str | None, list[int]] = {}

    def add(label: str | None, edge: NetworkEdge, guard: Expression) -> None:
        members.setdefault(label, []).append(len(edges))
        edges.append(replace(edge, guard=guard))

    for joint in network.joints:
        mine = [_restricted(network.edges[k], kept) for k in budget.each(joint.participants[0])]
        # Guards of operators that are enabled whatever the forgotten variables hold.
        sure = disjunction(*(edge.guard for edge, whole in mine if whole))
        for edge, whole in mine:
            if joint.label is None:
                add(None, edge, edge.guard)
                continue
            add(ANY, edge, edge.guard)
            if sure != FALSE:
                # The guard of one of these implies that one of them holds.
                add(f"operator {joint.label}", edge, edge.guard if whole else conjunction(edge.guard, sure))
    add(ANY, NetworkEdge(TRUE, (Branch(RealLiteral(Fraction(1)), ()),), ""), TRUE)
    labels = tuple(label for label in members if label is not None)
    game = replace(
        network,
        variables=(*kept.values(), Variable(BROKEN, Kind.BOOL, initial=False)),
        scratch=(),
        edges=tuple(edges),
        joints=tuple(Joint(label, (tuple(mine),)) for label, mine in members.items()),
        labels=labels,
        initial_condition=TRUE,
    )
    goal = task.goal if names(task.goal) <= set(kept) else FALSE
    return Task(game, disjunction(task.fail, Name(BROKEN)), goal, TRUE)


def _restricted(edge: NetworkEdge, kept: dict[str, Variable]) -> tuple[NetworkEdge, bool]:
    """Return the edge with all that may happen, and whether its guard can be told."""
    tests = list(conjuncts(edge.guard))
    seen = [test for test in tests if names(test) <= set(kept)]
    possible = []
    for branch in edge.branches:
        chance = value_of(branch.probability)
        if chance is None or chance > 0:
            possible.append(_cautious(branch, kept))
    share = RealLiteral(Fraction(1, max(1, len(possible))))
    branches = tuple(Branch(share, updates) for updates in possible or [_LOST])
    return replace(edge, guard=conjunction(*seen), branches=branches), len(seen) == len(tests)


_LOST = (Update(Name(BROKEN), TRUE),)


def _cautious(branch: Branch, kept: dict[str, Variable]) -> tuple[Update, ...]:
    """Return what the branch does to kept variables; BROKEN where that cannot be told."""
    updates: list[Update] = []
    for update in branch.updates:
        targets = {update.target.name} if isinstance(update.target, Name) else names(update.target)
        if not targets & set(kept):
            continue
        if not isinstance(update.target, Name) or not names(update.value) <= set(kept):
            return _LOST
        updates.append(update)
    checks: list[Expression] = []
    for k, update in enumerate(updates):
        assert isinstance(update.target, Name)
        variable = kept[update.target.name]
        if variable.kind is Kind.BOOL or _is_within(update.value, variable):
            continue
        assert isinstance(variable.lower, int)
        assert isinstance(variable.upper, int)
        low, high = IntLiteral(variable.lower), IntLiteral(variable.upper)
        inside = conjunction(Binary("≤", low, update.value), Binary("≤", update.value, high))
        checks.append(Conditional(inside, FALSE, TRUE))
        updates[k] = replace(update, value=Conditional(inside, update.value, low))
    if checks and len({update.index for update in updates}) > 1:
        return _LOST  # assignments one after the other: what a check reads would have changed
    if checks:
        updates.append(Update(Name(BROKEN), disjunction(*checks), updates[0].index))
    return tuple(updates)


def _is_within(value: Expression, variable: Variable) -> bool:
    number = value_of(value)
    if number is None or isinstance(value, BoolLiteral) or variable.lower is None or variable.upper is None:
        return False
    return variable.lower <= number <= variable.upper


def _written(edge: NetworkEdge) -> set[str]:
    return {u.target.name for branch in edge.branches for u in branch.updates if isinstance(u.target, Name)}
