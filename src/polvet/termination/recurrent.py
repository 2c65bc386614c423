"""Finding recurrent sets: executions that never end and never repeat, such as a loop that doubles a counter.

Source   Gupta, Henzinger, Majumdar, Rybalchenko, Xu, "Proving non-termination", POPL 2008 (recurrent sets)
Differs  sets are conjunctions of constraints from a fixed pool, sums of variables against small constants. They start
         as everything; where Z3 finds a configuration without a move back into the sets, one constraint of the pool
         that excludes it is added, with backtracking. The checker refutes leaks by elimination, without Z3
Limits   a budget of queries; amounts of intervals are their ends
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.check.lasso import Step
from polvet.check.recurrent_set import bound_rows, find_leak, move_conditions
from polvet.files import Json
from polvet.policy.finite_memory import FiniteMemoryPolicy, Multigraph, Valuation, normalise
from polvet.policy.finite_memory.linear import CONSTANT
from polvet.solvers.smt import Question, Term, affine, every, integer, negated
from polvet.termination.complete import components_of
from polvet.termination.lasso import find_path, name_step

SECONDS = 1.0
"""The longest that one question to Z3 may take."""
MOST_QUERIES = 150
"""Questions per component."""
Rows = dict[str, int]
Sets = dict[str, tuple[Rows, ...]]


def find_recurrent_set(fmp: FiniteMemoryPolicy, *, budget: Budget = UNLIMITED) -> Json | None:
    """Return a `recurrent-set` certificate that the checker accepts, or None."""
    graph = normalise(fmp, budget=budget)
    pool = _pool(fmp)
    for nodes, _ in components_of(graph, range(len(graph.edges))):
        states = [graph.nodes[node].state for node in nodes]
        moves = {state: _moves(fmp, state, set(states)) for state in states}
        search = _Search(fmp, moves, pool, budget)
        for sets in search.closed({state: () for state in states}, 0):
            certificate = _certificate(fmp, graph, sets, moves, budget)
            if certificate is not None and find_leak(fmp, certificate) is None:
                return certificate
    return None


def _pool(fmp: FiniteMemoryPolicy) -> list[Rows]:
    """Return the constraints to choose from: sums of many variables first."""
    names = [variable.name for variable in fmp.variables]
    constants = {0, 1, 2}
    for edge in fmp.edges:
        for atoms in edge.guard:
            for atom in atoms:
                constants |= {atom.value, atom.value + 1}
    pool: list[Rows] = []
    for size in range(min(len(names), 4), 0, -1):
        for chosen in combinations(names, size):
            for constant in sorted(constants):
                pool.append({**dict.fromkeys(chosen, 1), CONSTANT: -constant})
                if size == 1:
                    pool.append({chosen[0]: -1, CONSTANT: constant})
    for first, second in combinations(names, 2):
        for constant in (0, -1):
            pool += [{first: 1, second: -1, CONSTANT: constant}, {first: -1, second: 1, CONSTANT: constant}]
    return pool


def _moves(fmp: FiniteMemoryPolicy, state: str, within: set[str]) -> list[Step]:
    outcome = []
    for edge in fmp.edges:
        if edge.source != state or edge.target not in within:
            continue
        for index, choice in enumerate(edge.choices):
            for high in (True, False):
                amounts = {}
                for name in choice.effects:
                    effect = fmp.effect(choice, name)
                    ends = (effect.high, effect.low) if high else (effect.low, effect.high)
                    amount = next((end for end in ends if end is not None), 0)
                    if amount:
                        amounts[name] = amount
                step = Step(edge, index, amounts)
                if step not in outcome:
                    outcome.append(step)
    return outcome


class _Search:
    """Strengthens sets until they are closed, within a budget of solver queries."""

    def __init__(
        self,
        fmp: FiniteMemoryPolicy,
        moves: Mapping[str, list[Step]],
        pool: Sequence[Rows],
        budget: Budget,
    ) -> None:
        self._fmp, self._moves, self._pool, self._queries, self._budget = fmp, moves, pool, MOST_QUERIES, budget

    def closed(self, sets: Sets, depth: int) -> Iterator[Sets]:
        """Yield closed sets that are stronger than the given ones."""
        if depth > 8:
            return
        leak = self._find_leak(sets)
        if leak is None:
            if self._queries > 0 and sets:
                yield sets
            return
        state, values = leak
        for row in self._pool:
            if self._queries <= 0:
                return
            if _value(row, values) < 0:
                yield from self.closed({**sets, state: (*sets[state], row)}, depth + 1)
        rest = {other: rows for other, rows in sets.items() if other != state}
        if rest:
            yield from self.closed(rest, depth + 1)

    def _find_leak(self, sets: Sets) -> tuple[str, Valuation] | None:
        symbols = {variable.name: integer(variable.name) for variable in self._fmp.variables}

        def holds(row: Mapping[str, int]) -> Any:
            return affine(row, symbols) >= 0

        lists = {state: list(rows) for state, rows in sets.items()}
        for state, rows in sets.items():
            self._budget.check()
            self._queries -= 1
            question = Question(self._budget, SECONDS)
            question.add(*[holds(row) for row in [*rows, *bound_rows(self._fmp)]])
            for step in self._moves[state]:
                for condition in move_conditions(self._fmp, step, lists):
                    question.add(negated(every(holds(row) for row in condition)))
            if question.ask() == "sat":
                outcome = question.values()
                return state, {name: outcome.number(symbol) for name, symbol in symbols.items()}
        return None


def _value(row: Mapping[str, int], values: Mapping[str, int]) -> int:
    return sum(coefficient * (values[name] if name else 1) for name, coefficient in row.items())


def _certificate(
    fmp: FiniteMemoryPolicy, graph: Multigraph, sets: Sets, moves: Mapping[str, list[Step]], budget: Budget
) -> Json | None:
    """Return the certificate with an entry into the sets: a point of an initial set, or along a path."""
    entry = _find_entry(fmp, graph, sets, budget)
    if entry is None:
        return None
    start, valuation, prefix = entry
    return {
        "kind": "recurrent-set",
        "initial_state": start,
        "initial_valuation": valuation,
        "prefix": prefix,
        "sets": {state: [dict(row) for row in rows] for state, rows in sets.items()},
        "moves": {
            state: [
                name_step(fmp, step.edge, step.choice, step.amounts)
                for step in moves[state]
                if step.edge.target in sets
            ]
            for state in sets
        },
    }


def _find_entry(
    fmp: FiniteMemoryPolicy, graph: Multigraph, sets: Sets, budget: Budget
) -> tuple[str, Valuation, list[Json]] | None:
    """Return a start, its valuation and the steps into the sets, as Z3 finds them along shortest paths."""
    for index, node in enumerate(graph.nodes):
        if node.state not in sets:
            continue
        budget.check()
        path = find_path(graph, index)
        question = Question(budget, SECONDS)
        first = {variable.name: integer(variable.name) for variable in fmp.variables}
        values: dict[str, Term] = dict(first)

        question.add(*(affine(row, values) >= 0 for row in bound_rows(fmp)))
        written = []
        for edge in path:
            primitive = graph.edges[edge]
            for position, variable in enumerate(fmp.variables):
                low, high = primitive.before[position]
                question.add(*([values[variable.name] >= low] if low is not None else []))
                question.add(*([values[variable.name] <= high] if high is not None else []))
            effects = {}
            for position, variable in enumerate(fmp.variables):
                effect = primitive.effects[position]
                amount = next((end for end in (effect.high, effect.low) if end is not None), 0)
                values[variable.name] = values[variable.name] + amount
                effects[variable.name] = amount
            question.add(*(affine(row, values) >= 0 for row in bound_rows(fmp)))
            origin = fmp.edges[primitive.edge]
            written.append(name_step(fmp, origin, primitive.choice, effects))
        question.add(*(affine(row, values) >= 0 for row in sets[node.state]))
        if question.ask() == "sat":
            model = question.values()
            start = graph.nodes[graph.edges[path[0]].source].state if path else node.state
            outcome = {name: model.number(term) for name, term in first.items()}
            return start, outcome, written
    return None
