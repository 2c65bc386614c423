"""How long a terminating policy can run, as a power of the largest initial value: Theta(n^k), or exponential.

Source   Zuleger, "The polynomial complexity of vector addition systems with states", FoSSaCS 2020, which completes
         Brazdil, Chatterjee, Kucera, Novotny, Velan, Zuleger, "Efficient algorithms for asymptotic bounds on
         termination time in VASS", LICS 2018. `_layer` is the pair of dual linear programs of his Algorithm 1,
         `longest_run` its loop; `vExp` and `tExp` are the exponents of variables and transitions
Differs  the programs are asked one inequality at a time, in Z3's exact linear arithmetic
Limits   one strongly connected component at a time; of several components in a row the exponents are only combined
         where no variable can grow beyond the order of n, otherwise the answer is a lower bound. Lower bounds only
         on variables, guards upward closed, no endless effects
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.policy.finite_memory import FiniteMemoryPolicy, Multigraph, normalise
from polvet.solvers.smt import Question, exactly, real, total
from polvet.termination.complete import Cycle, components_of, find_ranking
from polvet.termination.walks import Row, best_change, rows_of

MAX_EDGES = 400
MAX_EXPONENT = 64


@dataclass(frozen=True, slots=True)
class LongestRun:
    """The length of the longest run: `relation` with n^exponent, or exponential, or unknown for a reason."""

    relation: str  # "theta", "at-least", "exponential", "constant" or "unknown"
    exponent: int | None = None
    reason: str | None = None

    def __str__(self) -> str:
        match self.relation:
            case "theta":
                return f"Theta(n^{self.exponent})" if self.exponent != 1 else "Theta(n)"
            case "constant":
                return "Theta(1)"
            case "at-least":
                return f"at least of order n^{self.exponent}"
            case "exponential":
                return "at least exponential"
        return f"unknown ({self.reason})"


@dataclass(slots=True)
class _Exponents:
    transitions: dict[int, int] = field(default_factory=dict)
    variables: dict[int, int] = field(default_factory=dict)


def longest_run(fmp: FiniteMemoryPolicy, *, budget: Budget = UNLIMITED) -> LongestRun:
    """Return the order of the longest run when every initial value is at most n."""
    reason = _why_not(fmp)
    if reason is not None:
        return LongestRun("unknown", reason=reason)
    graph = normalise(fmp, budget=budget)
    if isinstance(find_ranking(graph, budget=budget), Cycle):
        return LongestRun("unknown", reason="the policy does not terminate")
    parts = components_of(graph, range(len(graph.edges)))
    if sum(len(edges) for _, edges in parts) > MAX_EDGES:
        return LongestRun("unknown", reason=f"more than {MAX_EDGES} edges on cycles")
    if not parts:
        return LongestRun("constant", 0)
    best, grows = 0, False
    for _, edges in parts:
        outcome = _exponents(graph, edges, budget)
        if outcome is None:
            return LongestRun("exponential")
        best = max(best, *outcome.transitions.values())
        grows = grows or any(exponent > 1 for exponent in outcome.variables.values())
    return LongestRun("at-least" if grows and len(parts) > 1 else "theta", best)


def _why_not(fmp: FiniteMemoryPolicy) -> str | None:
    if any(variable.upper is not None or variable.lower is None for variable in fmp.variables):
        return "a variable is not bounded below only"
    for edge in fmp.edges:
        if any(atom.operator not in (">=", ">") for atoms in edge.guard for atom in atoms):
            return "a guard is not upward closed"
        for choice in edge.choices:
            if any(fmp.effect(choice, name).high is None for name in choice.effects):
                return "an effect has no upper end"
    return None


def _exponents(graph: Multigraph, edges: list[int], budget: Budget) -> _Exponents | None:
    """Return the exponents of a strongly connected part, or None if they are not all finite: exponential."""
    rows = rows_of(graph)
    outcome = _Exponents()
    layers: list[list[list[int]]] = [[list(edges)]]  # layers[l]: the edges of each node of layer l
    changed_at = 0
    for level in range(1, MAX_EXPONENT + 1):
        budget.check()
        alive = [edge for part in layers[level - 1] for edge in part]
        if not alive:
            return outcome
        before = len(outcome.transitions) + len(outcome.variables)
        idle, steady = _layer(graph, rows, alive, layers, level, outcome, budget)
        for row in steady:
            outcome.variables[row] = level
        for edge in idle:
            outcome.transitions[edge] = level
        gone = set(idle)
        layers.append(
            [
                inside
                for part in layers[level - 1]
                for _, inside in components_of(graph, [edge for edge in part if edge not in gone])
            ]
        )
        for edge in alive:  # what lies between the components of the next layer is also taken at most n^level times
            if edge not in gone and not any(edge in part for part in layers[level]):
                outcome.transitions[edge] = level
        if len(outcome.transitions) + len(outcome.variables) > before:
            changed_at = level
        # From here on every constraint would be the same as before: nothing can change any more.
        elif level > changed_at + max(outcome.variables.values(), default=0) + 1:
            return None
    return None


def _layer(
    graph: Multigraph,
    rows: list[Row],
    alive: list[int],
    layers: list[list[list[int]]],
    level: int,
    outcome: _Exponents,
    budget: Budget,
) -> tuple[list[int], list[int]]:
    """Return the edges that no balanced multi-cycle uses, and the rows without exponent that none raises."""
    question = Question(budget, logic="QF_LRA")
    flow = {edge: real(f"f{edge}") for edge in alive}
    question.add([value >= 0 for value in flow.values()])
    balance: dict[int, list[Any]] = {}
    for edge, value in flow.items():
        balance.setdefault(graph.edges[edge].target, []).append(value)
        balance.setdefault(graph.edges[edge].source, []).append(-value)
    question.add([total(terms) == 0 for terms in balance.values()])

    def change(row: int, inside: list[int]) -> Any:
        terms = [(best_change(graph.edges[edge], rows[row]) or 0) * flow[edge] for edge in inside if edge in flow]
        return total([exactly(Fraction(0)), *terms])

    for row in range(len(rows)):
        # A variable of exponent k is refilled whenever a node of layer (level - k) is left: it counts per node there.
        place = max(0, level - outcome.variables[row]) if row in outcome.variables else 0
        question.add([change(row, part) >= 0 for part in layers[place]])

    def is_possible(wish: Any) -> bool:
        budget.check()
        question.push()
        question.add(wish)
        answer = question.ask()
        question.pop()
        if answer == "unknown":
            budget.check()
        return answer == "sat"

    idle = [edge for edge in alive if not is_possible(flow[edge] >= 1)]
    everything = layers[0][0]
    steady = [
        row
        for row in range(len(rows))
        if row not in outcome.variables and not is_possible(change(row, everything) >= 1)
    ]
    return idle, steady
