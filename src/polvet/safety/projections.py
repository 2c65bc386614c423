"""Relaxed games over a few variables: what is lost there is lost in the model, and the search need not look at it again.

Idea     forget all variables but a few. In the relaxed game the policy may pick any single operator whose guard holds as
         far as it reads the variables that are left, and outcomes that depend on forgotten variables do not happen.
         A package left behind on a one-way road dooms the run whatever happens to the others: a game over the truck and
         that one package says so, where the model itself has exponentially many states that all say the same
Source   pattern databases (Culberson and Schaeffer 1998; Edelkamp, Planning with pattern databases, 2001), for safety
SOUND    if a state is safe, its projection is: let the policy copy, in each projected state, an operator of the action a
         safe policy takes. That operator is in the relaxed game (its guard got weaker), and its relaxed outcomes are
         projections of some of that action's outcomes, which are safe. Where runs may end, the relaxed game is won: at
         goal states as far as their condition can be told, and wherever no operator is known to be enabled for all
         values of what was forgotten. So where the relaxed game is lost, every state with these values is unsafe.
         A *topped* variable (`Top`) is known below a value, and only as "at least that" from there on: there it is forgotten, but
         for tests of it alone that all these values pass, or none does. What it is assigned then is for the policy to choose.
Cost     each pattern is solved once, for all combinations of values (at most MOST_COMBINATIONS)
Limits   one automaton; bounded integers and truth values in the patterns; the variables of `fail` are in all of them
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.kernel.compiled import Compiled, Words
from polvet.model.evaluate import compile_expression
from polvet.model.expressions import (
    FALSE,
    TRUE,
    Binary,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    conjunction,
    conjuncts,
    disjunction,
    names,
    negation,
)
from polvet.model.folding import value_of
from polvet.model.network import Branch, Joint, Kind, Network, NetworkEdge, OutOfBounds, Variable
from polvet.model.task import NOTHING_ELSE, Task
from polvet.safety.decide import UNSAFE, Decider, compile_task
from polvet.safety.game_verdicts import GameVerdicts
from polvet.safety.lost_ranks import ranks_of

MOST_COMBINATIONS = 1_000_000
MOST_IN_ALL = 40_000_000
PATIENCE = 2


def iter_lost(task: Task, *, budget: Budget = UNLIMITED) -> Iterator[GameVerdicts]:
    """Yield what is lost in the relaxed games: over what decides `fail` alone, then over each pattern of `choose_patterns`.

    Two patterns in a row that say no more than the first game end the search: the others are of the same kind.
    """
    network = task.network
    # SOUND: where operators are disabled out of bounds, forgotten values decide which are enabled.
    if network.disables_out_of_bounds or not has_one_automaton(network):
        return
    core = tuple(sorted(network.index_of(name) for name in core_of(task)))
    if not core or not fits(network, core_of(task)):
        return
    first = solve_pattern(task, core, budget=budget)
    yield first
    room, idle = MOST_IN_ALL, 0
    for pattern, top in choose_patterns(task):
        if pattern == core:
            continue
        room -= prod(_counts(network, pattern, top))
        if room < 0:
            return
        game = solve_pattern(task, pattern, top, budget=budget)
        idle = idle + 1 if game.share <= first.share else 0
        if idle == 0:
            yield game
        if idle >= PATIENCE:
            return


def has_one_automaton(network: Network) -> bool:
    """Return whether every operator is a single edge. SOUND: an operator of several automata is not one of its edges."""
    return all(len(joint.participants) == 1 for joint in network.joints)


def core_of(task: Task) -> set[str]:
    """Return the variables of `fail`, and those in guards of edges that write them."""
    place = {variable.name for variable in task.network.variables}
    core = names(task.fail)
    for edge in task.network.edges:
        written = {u.target.name for branch in edge.branches for u in branch.updates if isinstance(u.target, Name)}
        if written & names(task.fail):
            core = core | {name for name in names(edge.guard) if name in place}
    return core


@dataclass(frozen=True, slots=True)
class Top:
    """A variable whose values from `value` on are one: every test of it alone holds for all of them or for none."""

    name: str
    value: int


def top_of(task: Task, name: str) -> Top | None:
    """Return the least top of an integer variable, above its least value; None where it has no use, or `fail` reads it."""
    variable = next(one for one in task.network.variables if one.name == name)
    if variable.kind is not Kind.INT or name in names(task.fail):
        return None
    assert variable.lower is not None
    assert variable.upper is not None
    least = int(variable.lower) + 1
    guards = (test for edge in task.network.edges for test in conjuncts(edge.guard))
    for test in dict.fromkeys((*guards, *conjuncts(task.goal))):
        if names(test) == {name}:
            truths = [_holds(test, name, value) for value in range(int(variable.lower), int(variable.upper) + 1)]
            change = max((k for k in range(1, len(truths)) if truths[k] != truths[k - 1]), default=0)
            least = max(least, int(variable.lower) + change)
    return Top(name, least) if least < int(variable.upper) else None


def _holds(test: Expression, name: str, value: int) -> bool:
    return bool(compile_expression(test, {name: 0})((value,)))


def choose_patterns(task: Task) -> list[tuple[tuple[int, ...], Top | None]]:
    """Return patterns worth trying: what decides `fail`, with each variable of the goal and what moves along with it.

    Where these have too many combinations of values, the variable of the goal is topped.
    """
    network = task.network
    place = {variable.name: k for k, variable in enumerate(network.variables)}
    if not has_one_automaton(network):
        return []
    if not all(is_countable(network.variables[place[name]]) for name in names(task.fail)):
        return []
    core = core_of(task)
    patterns: dict[tuple[tuple[int, ...], Top | None], None] = {}
    for wanted in sorted(names(task.goal) - core):
        pattern = set(core) | {wanted}
        if not fits(network, pattern):
            continue
        top = None
        companions = sorted(_companions(network, wanted) - pattern)
        for companion, tried in ((one, way) for way in (None, top_of(task, wanted)) for one in companions):
            if fits(network, pattern | {companion}, tried):
                pattern.add(companion)
                top = tried
                break
        patterns[tuple(sorted(place[name] for name in pattern)), top] = None
    if not patterns and fits(network, core):
        patterns[tuple(sorted(place[name] for name in core)), None] = None
    return list(patterns)


def _companions(network: Network, name: str) -> set[str]:
    """Return the variables that every edge which changes this one changes as well."""
    sets = []
    variables = {variable.name for variable in network.variables}  # a transient one is no part of a state
    for edge in network.edges:
        for branch in edge.branches:
            written = {u.target.name for u in branch.updates if isinstance(u.target, Name)} & variables
            if name in written:
                sets.append(written - {name})
    return {other for other in set().union(*sets) if sum(other in one for one in sets) * 2 > len(sets)}


def fits(network: Network, pattern: set[str], top: Top | None = None) -> bool:
    """Return whether these variables have a moderate number of combinations of values."""
    places = [k for k, variable in enumerate(network.variables) if variable.name in pattern]
    countable = all(is_countable(network.variables[k]) for k in places)
    return countable and prod(_counts(network, places, top)) <= MOST_COMBINATIONS


def _counts(network: Network, pattern: Sequence[int], top: Top | None) -> list[int]:
    """Return how many values each of the variables has in a game."""
    return [count_of(topped(network.variables[k], top)) for k in pattern]


def topped(variable: Variable, top: Top | None) -> Variable:
    """Return the variable as it is in the game: without values above the top."""
    return replace(variable, upper=top.value) if top is not None and variable.name == top.name else variable


def is_countable(variable: Variable) -> bool:
    """Return whether the variable has finitely many values."""
    return variable.kind is Kind.BOOL or (
        variable.kind is Kind.INT and variable.lower is not None and variable.upper is not None
    )


def count_of(variable: Variable) -> int:
    """Return how many values the variable has."""
    if variable.kind is Kind.BOOL:
        return 2
    assert variable.lower is not None
    assert variable.upper is not None
    return int(variable.upper) - int(variable.lower) + 1


def solve_pattern(
    task: Task, pattern: Sequence[int], top: Top | None = None, *, budget: Budget = UNLIMITED
) -> GameVerdicts:
    """Return which combinations of the pattern's variables are lost, with ranks; nothing is lost where a limit comes first."""
    shape = _counts(task.network, pattern, top)
    tops = () if top is None else ((task.network.index_of(top.name), top.value),)
    try:
        ranks = ranks_of(*_compiled(relax(task, pattern, top, budget), len(pattern), budget), budget=budget)
    except LimitReached:
        ranks = None
    if ranks is None:
        return GameVerdicts(tuple(pattern), np.zeros(prod(shape), dtype=np.uint8), tops)
    verdicts = np.where(ranks >= 0, UNSAFE, 0).astype(np.uint8)
    return GameVerdicts(tuple(pattern), verdicts, tops, ranks=ranks.reshape(shape))


def solve_game(
    task: Task, game: Task, pattern: Sequence[int], wanted: int, *, budget: Budget = UNLIMITED
) -> GameVerdicts:
    """Return the wanted verdict where the game has it; variables of the game beyond the pattern start at 0."""
    compiled, states = _compiled(game, len(pattern), budget)
    decider = Decider(replace(game, network=compiled.network, avoid=NOTHING_ELSE), compiled=compiled)
    known = decider.known_packed(states, budget=budget)
    return GameVerdicts(tuple(pattern), np.where(known == wanted, known, 0).astype(np.uint8))


def _compiled(game: Task, size: int, budget: Budget) -> tuple[Compiled, Words]:
    """Return the game as the kernel runs it, and all combinations of its first variables' values, the others at 0."""
    compiled = compile_task(
        replace(game, avoid=NOTHING_ELSE, network=replace(game.network, out_of_bounds=OutOfBounds.DISABLE)), budget
    )
    variables = list(game.network.variables[:size])
    sizes = [count_of(variable) for variable in variables]
    rows = np.indices(sizes, dtype=np.int64).reshape(len(sizes), -1).T.copy()
    rows += np.array([0 if v.kind is Kind.BOOL else int(v.lower or 0) for v in variables], dtype=np.int64)
    more = np.zeros((len(rows), len(game.network.variables) - size), dtype=np.int64)
    return compiled, compiled.machine.pack(np.concatenate([rows, more], axis=1))


def relax(task: Task, pattern: Sequence[int], top: Top | None = None, budget: Budget = UNLIMITED) -> Task:
    """Return the relaxed game over the pattern's variables: a task in which every operator has a label of its own."""
    network = task.network
    kept = {network.variables[k].name for k in pattern}
    edges: list[NetworkEdge] = []
    always: list[Expression] = []  # guards of operators that are enabled whatever the forgotten variables hold
    won: list[Expression] = []  # guards of operators without an outcome that can be told
    for edge in budget.each(network.edges):
        # What does not read the topped variable is the same at the top and below.
        for view in _views(network, kept, top if top is not None and top.name in _read(edge) else None):
            view = replace(view, top=top)
            tests = [view.told(test) for test in conjuncts(edge.guard)]
            guard = conjunction(view.here, *(test for test in tests if test is not None))
            if None not in tests:
                always.append(guard)
            choices = [one for branch in edge.branches if (one := view.relaxed(branch))]
            if not choices:
                won.append(guard)
            for branches in product(*choices) if choices else ():
                chance = RealLiteral(Fraction(1, len(branches)))
                played = tuple(replace(one, probability=chance) for one in branches)
                edges.append(replace(edge, guard=guard, branches=played))
    labels = tuple(f"operator {k}" for k in range(len(edges)))
    game = replace(
        network,
        variables=tuple(topped(network.variables[k], top) for k in pattern),
        scratch=(),
        edges=tuple(edges),
        joints=tuple(Joint(label, ((k,),)) for k, label in enumerate(labels)),
        labels=labels,
        initial_condition=TRUE,
    )
    ended = negation(disjunction(*always))
    goals = [
        conjunction(view.here, *(told for test in conjuncts(task.goal) if (told := view.told(test)) is not None))
        for view in _views(network, kept, top)
    ]
    return Task(game, task.fail, disjunction(*goals, ended, *won), TRUE)


@dataclass(frozen=True, slots=True)
class View:
    """What is known in a part of the game: below the top all that is kept, at the top the topped variable is as good as forgotten."""

    here: Expression
    kept: frozenset[str]
    network: Network
    top: Top | None = None
    at_top: bool = False

    def told(self, test: Expression) -> Expression | None:
        """Return the test as far as it can be told: itself, true or false; None where it cannot."""
        if names(test) <= self.kept:
            return test
        if self.at_top and self.top is not None and names(test) == {self.top.name}:
            return TRUE if _holds(test, self.top.name, self.top.value) else FALSE  # as for all values above: `top_of`
        return None

    def relaxed(self, branch: Branch) -> list[Branch]:
        """Return what the policy may make of the branch; nothing where it cannot be told whether and where it leads."""
        relaxed = _relaxed(branch, self.kept)
        if relaxed is None or self.top is None:
            return [] if relaxed is None else [relaxed]
        mine = [update for update in branch.updates if update.target == Name(self.top.name)]
        if not mine:
            return [relaxed]
        if len({update.index for update in branch.updates}) > 1:
            return []  # what is assigned later may read the exact value
        others = tuple(update for update in relaxed.updates if update.target != Name(self.top.name))
        if not self.at_top:
            value = Binary("min", mine[0].value, IntLiteral(self.top.value))
            return [replace(relaxed, updates=(*others, replace(mine[0], value=value)))]
        lower = next(int(v.lower or 0) for v in self.network.variables if v.name == self.top.name)
        return [
            replace(relaxed, updates=(*others, replace(mine[0], value=IntLiteral(value))))
            for value in range(lower, self.top.value + 1)
        ]


def _views(network: Network, kept: set[str], top: Top | None) -> tuple[View, ...]:
    if top is None:
        return (View(TRUE, frozenset(kept), network),)
    at = Binary("=", Name(top.name), IntLiteral(top.value))
    return (
        View(negation(at), frozenset(kept), network, top),
        View(at, frozenset(kept - {top.name}), network, top, at_top=True),
    )


def _read(edge: NetworkEdge) -> set[str]:
    updates = [update for branch in edge.branches for update in branch.updates]
    written = [update.target for update in updates if not isinstance(update.target, Name)]
    return names(edge.guard).union(*(names(part) for part in (*(one.value for one in updates), *written)))


def _relaxed(branch: Branch, kept: Set[str]) -> Branch | None:
    """Return the branch over the kept variables; None where it cannot be told whether and where it leads."""
    chance = value_of(branch.probability)
    if chance is None or chance <= 0:
        return None
    updates = []
    for update in branch.updates:
        targets = {update.target.name} if isinstance(update.target, Name) else names(update.target)
        if not targets & kept:
            continue
        if not isinstance(update.target, Name) or not names(update.value) <= kept:
            return None
        updates.append(update)
    return replace(branch, updates=tuple(updates))
