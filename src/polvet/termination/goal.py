"""Goal reaching: a terminating policy that can only stop inside the goal; or a run that stops outside.

Source   "Hierarchical Decompositions and Termination Analysis for Generalized Planning", Section 3.1.1: a terminating
         policy whose execution ends only at states satisfying the goal is *goal achieving*
Differs  stopping configurations are looked for by splitting cases on intervals, exactly (`polvet.check.goal`); whether
         one is reached is asked along paths, where Z3 proposes start and amounts and the run is executed
Limits   reachability of a stopping configuration is undecidable in general: then the verdict is unknown
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.check.goal import check_missing_run, find_stop_outside, opposite, reachable_places, stop_clauses
from polvet.errors import Limit, LimitReached
from polvet.files import Json
from polvet.policy.finite_memory import FiniteMemoryPolicy, Multigraph, Valuation, Window, dump_fmp, normalise, portable
from polvet.policy.finite_memory.goal import Region
from polvet.policy.finite_memory.relations import Relation, Relations
from polvet.solvers.smt import Question, Term, either, integer
from polvet.termination.guards import MAX_NODES, windows_of
from polvet.termination.lasso import name_step
from polvet.termination.relations import find_relations, written
from polvet.termination.verdicts import Nonterminating, TerminationResult, Unknown

SECONDS = 2.0
"""The longest that Z3 may look for one run."""
MAX_PATHS = 40
MAX_LENGTH = 25


@dataclass(frozen=True, slots=True)
class Reaching:
    """No execution can stop outside the goal; `tracked` are the windows and `relations` the sums that show it."""

    tracked: dict[str, Window]
    relations: dict[str, list[Relation]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Missed:
    """An executed run that stops outside the goal, as a `goal-missed` certificate."""

    certificate: Json


@dataclass(frozen=True, slots=True)
class Undecided:
    """A configuration that would stop outside the goal, to which no run is known."""

    state: str
    valuation: Valuation


@dataclass(frozen=True, slots=True)
class PlanVerdict:
    """What is said of a plan: the verdict as a word, its evidence, and where it is unknown the reason and the limit."""

    word: str
    certificate: Mapping[str, Any] | None = None
    reason: str | None = None
    limit: Limit | None = None


def judge_plan(
    fmp: FiniteMemoryPolicy, result: TerminationResult, goal: Region | None, budget: Budget = UNLIMITED
) -> PlanVerdict:
    """Return the verdict of the termination test; with a goal a terminating policy must also end in it."""
    word, certificate = result.verdict.value, None if isinstance(result, Unknown) else result.certificate
    if isinstance(result, Unknown) and goal is None:
        return PlanVerdict(word, None, result.reason, result.limit)
    if goal is None or isinstance(result, Nonterminating):
        return PlanVerdict(word, certificate)
    try:
        outcome = check_goal(fmp, goal, budget)
    except LimitReached as limit:
        return PlanVerdict("unknown", None, f"{word}; where it stops was not decided: {limit}", limit.kind)
    match outcome:
        case Missed():
            missed = {**outcome.certificate, "fmp": dump_fmp(fmp)}
            return PlanVerdict("goal-missed", missed, "an execution stops outside the goal")
        case Undecided(state, valuation):
            reason = f"{word}; whether it stops in '{state}' with {valuation} was not decided"
            return PlanVerdict("unknown", None, reason)
        case _ if isinstance(result, Unknown):
            reason = f"it can only stop in the goal, but: {result.reason}"
            return PlanVerdict("unknown", None, reason, result.limit)
        case _ if certificate is None:
            return PlanVerdict(
                "unknown", None, "it can only stop in the goal, but this method has no certificate that it ends"
            )
        case Reaching(tracked, relations):
            reaching = {**certificate, "kind": "goal-reaching", "goal": goal.text, "reach": tracked}
            if relations:
                reaching["relations"] = written(fmp, relations)
            return PlanVerdict("goal-reaching", reaching)


def check_goal(fmp: FiniteMemoryPolicy, goal: Region, budget: Budget = UNLIMITED) -> Reaching | Missed | Undecided:
    """Return whether the stopping configurations of the policy all lie in the goal; termination is not asked here."""
    undecided: Undecided | None = None
    graph = normalise(fmp, budget=budget)
    windows = windows_within(fmp, budget)
    stops = _stops_outside(fmp, goal, windows, {}, budget)
    if not stops:
        return Reaching(windows)
    relations = find_relations(fmp, budget)
    for state, valuation in (
        _stops_outside(fmp, goal, windows, relations, budget).items() if relations else stops.items()
    ):
        for path in _paths_to(graph, state):
            budget.check()
            run = _run_along(graph, goal, path, state, budget)
            if run is not None and check_missing_run(fmp, run) is None:
                return Missed(run)
        undecided = undecided or Undecided(state, valuation)
    return undecided or Reaching(windows, relations)


def _stops_outside(
    fmp: FiniteMemoryPolicy, goal: Region, windows: dict[str, Window], relations: Relations, budget: Budget
) -> dict[str, Valuation]:
    """Return control states in which an execution may stop outside the goal, each with a valuation."""
    stops: dict[str, Valuation] = {}
    for state, box in reachable_places(fmp, windows, relations, budget):
        budget.check()
        valuation = (
            None if state in stops else find_stop_outside(fmp, goal, state, box, relations.get(state, ()), budget)
        )
        if valuation is not None:
            stops[state] = valuation
    return stops


def windows_within(fmp: FiniteMemoryPolicy, budget: Budget) -> dict[str, Window]:
    """Return windows of values to be tracked; none if that takes too many nodes."""
    windows = windows_of(fmp)
    try:
        normalise(fmp, windows, max_nodes=MAX_NODES, budget=budget)
    except LimitReached as limit:
        if limit.kind is not None:
            raise
        return {}
    return windows


def _paths_to(graph: Multigraph, state: str) -> Iterator[tuple[int, list[int]]]:
    """Yield paths from initial nodes to the control state, shortest first, as start node and edges."""
    leaving: dict[int, list[int]] = {}
    for index, edge in enumerate(graph.edges):
        leaving.setdefault(edge.source, []).append(index)
    layer: list[tuple[int, list[int], int]] = [(node, [], node) for node in graph.initial]
    count = 0
    for _ in range(MAX_LENGTH):
        following: list[tuple[int, list[int], int]] = []
        for start, path, here in layer:
            if graph.nodes[here].state == state:
                yield start, path
                count += 1
                if count >= MAX_PATHS:
                    return
            if len(following) < 2000:
                following += [(start, [*path, edge], graph.edges[edge].target) for edge in leaving.get(here, ())]
        layer = following


def _run_along(graph: Multigraph, goal: Region, path: tuple[int, list[int]], state: str, budget: Budget) -> Json | None:
    """Return a run along the path that stops outside the goal, as Z3 proposes it."""
    start, edges = path
    fmp = graph.fmp
    question = Question(budget, SECONDS)

    first = {variable.name: integer(variable.name) for variable in fmp.variables}
    values: dict[str, Term] = dict(first)
    amounts: list[Json] = []

    def keep_bounds() -> None:
        for variable in fmp.variables:
            if variable.lower is not None:
                question.add(values[variable.name] >= variable.lower)
            if variable.upper is not None:
                question.add(values[variable.name] <= variable.upper)

    keep_bounds()
    for number, index in enumerate(edges):
        primitive = graph.edges[index]
        question.add(
            [atom.holds(values[atom.variable]) for atom in fmp.edges[primitive.edge].guard[primitive.conjunction]]
        )
        chosen = {}
        for variable, effect in zip(fmp.variables, primitive.effects, strict=True):
            amount: Any = integer(f"{variable.name}+{number}")
            if effect.low is not None:
                question.add(amount >= effect.low)
            if effect.high is not None:
                question.add(amount <= effect.high)
            chosen[variable.name] = amount
        values = {name: value + chosen[name] for name, value in values.items()}
        amounts.append(chosen)
        keep_bounds()
    clauses = stop_clauses(fmp, state)
    clauses += [tuple(opposite(atom) for atom in case.atoms) for case in goal.cases if state in case.states]
    question.add([either(atom.holds(values[atom.variable]) for atom in clause) for clause in clauses])
    if question.ask() != "sat":
        return None
    outcome = question.values()
    steps = []
    for index, chosen in zip(edges, amounts, strict=True):
        primitive = graph.edges[index]
        given = {name: outcome.number(term) for name, term in chosen.items()}
        steps.append(name_step(fmp, fmp.edges[primitive.edge], primitive.choice, given))
    return {
        "kind": "goal-missed",
        "goal": goal.text,
        "initial_state": graph.nodes[start].state,
        "initial_valuation": {name: portable(outcome.number(term)) for name, term in first.items()},
        "steps": steps,
    }
