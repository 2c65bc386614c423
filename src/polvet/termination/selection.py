"""Some of the edges of a plan, or of the rules of a sketch, that surely end and reach the goal, chosen by search with learned clauses.

Z3 proposes which candidates to take. Where they run for ever, a smallest set that does is learned: no later proposal holds
all of it. Where an execution stops outside the goal, it is learned that one of its own candidates must go, or one that goes on from
there must come. SOUND: whatever contains these candidates runs for ever, or makes that execution, too. Where Z3 proposes nothing
more, that is not believed: `_choice` looks for a choice that breaks no clause, itself.

Source   generate and test with a termination test: Srivastava et al., AAAI 2011; counterexample-guided synthesis: Solar-Lezama 2008
Cost     exponential in the worst case; one termination test and one goal test per proposal, some more for each clause
Limits   what the tests for guards cannot decide is passed over: then *impossible* is not said
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.check.goal import is_stopped
from polvet.check.lasso import check_replay, parse_steps, parse_valuation
from polvet.errors import LimitReached
from polvet.policy.finite_memory import EdgeId, FiniteMemoryPolicy, normalise
from polvet.policy.finite_memory.goal import Region
from polvet.solvers.smt import Question, either, negated, truth
from polvet.termination.complete import Cycle, find_ranking
from polvet.termination.decide import terminates
from polvet.termination.goal import Missed, Reaching, check_goal
from polvet.termination.lasso import lasso_certificate
from polvet.termination.verdicts import Nonterminating, Terminating

Candidate = str
Clause = tuple[tuple[Candidate, bool], ...]
"""Candidates that are taken (True) or not: at least one of these must be so."""
SECONDS = 5.0
"""How long the methods for guards may try, for one proposal."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """A plan, and of each edge the candidate that it belongs to; edges of none are always there. `fixed` ones are always taken."""

    plan: FiniteMemoryPolicy
    owner: Mapping[EdgeId, Candidate]
    fixed: frozenset[Candidate] = frozenset()

    def part(self, taken: Collection[Candidate]) -> FiniteMemoryPolicy:
        """Return the plan with the edges of these candidates only."""
        edges = tuple(edge for edge in self.plan.edges if edge.id not in self.owner or self.owner[edge.id] in taken)
        return replace(self.plan, edges=edges)

    def owners(self, edges: Iterable[EdgeId]) -> frozenset[Candidate]:
        """Return the candidates of the edges."""
        return frozenset(self.owner[edge] for edge in edges if edge in self.owner)


@dataclass(frozen=True, slots=True)
class Selection:
    """The candidates that were chosen, None if no choice will do; and what the search did."""

    taken: tuple[Candidate, ...] | None
    proposals: int
    loops: int  # clauses learned from what runs for ever
    stops: int  # clauses learned from executions that stop outside the goal


def select(candidates: Candidates, goal: Region, budget: Budget = UNLIMITED) -> Selection:
    """Return candidates whose plan surely ends in the goal; LimitReached where that was not decided."""
    order = tuple(dict.fromkeys(candidates.owner.values()))
    question = Question(budget, logic="QF_FD")
    take = {one: truth(f"take {one}") for one in order}
    clauses: list[Clause] = []

    def demand(*clause: tuple[Candidate, bool]) -> None:
        clauses.append(clause)
        question.add(either(take[one] if wanted else negated(take[one]) for one, wanted in clause))

    for one in sorted(candidates.fixed):
        demand((one, True))
    proposals = loops = stops = passed = 0
    while True:
        budget.check()
        answer = question.ask()
        if answer == "unknown":
            budget.check()
            raise LimitReached("Z3 proposes nothing more, and does not say why")
        if answer == "sat":
            values = question.values()
            taken = [one for one in order if values.holds(take[one])]
        elif (choice := _choice(clauses, budget)) is not None:
            taken = [one for one in order if choice.get(one)]
        else:
            if passed:
                raise LimitReached(f"{passed} of {proposals} proposals could not be decided, because of their guards")
            return Selection(None, proposals, loops, stops)
        proposals += 1
        plan = candidates.part(taken)
        loop = _find_loop(candidates, plan, budget)
        judged = check_goal(plan, goal, budget) if loop is None else None
        if isinstance(judged, Reaching):
            return Selection(tuple(taken), proposals, loops, stops)
        if loop is not None and loop.certain:
            loops += 1
            demand(*((one, False) for one in sorted(_smallest(candidates, loop.candidates, budget))))
        elif isinstance(judged, Missed):
            stops += 1
            run, ways_on = _stop(candidates, judged.certificate)
            others = sorted(ways_on - set(taken))
            demand(*((one, False) for one in sorted(run)), *((one, True) for one in others))
        else:
            passed += 1
            demand(*((one, one not in taken) for one in order))


def _choice(clauses: Sequence[Clause], budget: Budget) -> dict[Candidate, bool] | None:
    """Return what to take and what not so that every clause holds, None if there is no way (DPLL, shortest clauses first)."""
    agenda: list[dict[Candidate, bool]] = [{}]
    while agenda:
        budget.check()
        taken = agenda.pop()
        unmet = [clause for clause in clauses if not any(taken.get(one) is wanted for one, wanted in clause)]
        if not unmet:
            return taken
        shortest = min(([part for part in clause if part[0] not in taken] for clause in unmet), key=len)
        if shortest:
            one, wanted = shortest[0]
            if len(shortest) > 1:
                agenda.append({**taken, one: not wanted})
            agenda.append({**taken, one: wanted})
    return None


@dataclass(frozen=True, slots=True)
class _Loop:
    """Candidates that run for ever on their own; not `certain` where the methods for guards say neither."""

    candidates: frozenset[Candidate]
    certain: bool = True


def _find_loop(candidates: Candidates, plan: FiniteMemoryPolicy, budget: Budget) -> _Loop | None:
    """Return candidates of a run for ever, None if the plan ends."""
    graph = normalise(plan, budget=budget)
    cycle = find_ranking(graph, budget=budget)
    if not isinstance(cycle, Cycle):
        return None
    lasso: Mapping[str, Any] = lasso_certificate(graph, cycle)
    if check_replay(plan, lasso) is not None:
        result = terminates(plan, budget=budget.at_most(SECONDS))
        if isinstance(result, Terminating):
            return None
        if (
            not isinstance(result, Nonterminating)
            or result.certificate is None
            or result.certificate["kind"] != "lasso"
        ):
            budget.check()
            return _Loop(frozenset(), certain=False)
        lasso = result.certificate
    steps = [*lasso["prefix"], *(step for segment in lasso["cycle"] for step in segment["edges"])]
    return _Loop(candidates.owners(_edge(step) for step in steps))


def _edge(step: Any) -> EdgeId:
    edge: EdgeId = step["edge"] if isinstance(step, dict) else step
    return edge


def _smallest(candidates: Candidates, core: frozenset[Candidate], budget: Budget) -> frozenset[Candidate]:
    """Return some of the candidates that run for ever on their own; without any of them the others end, or are not decided."""
    for one in sorted(core):
        if one in core:
            loop = _find_loop(candidates, candidates.part(core - {one}), budget)
            if loop is not None and loop.certain:
                core = loop.candidates
    return core


def _stop(candidates: Candidates, run: Mapping[str, Any]) -> tuple[frozenset[Candidate], frozenset[Candidate]]:
    """Return the candidates of the run, and those with an edge that goes on where it stops."""
    plan, here, values = candidates.plan, run["initial_state"], parse_valuation(candidates.plan, run)
    steps = parse_steps(plan, run["steps"], "steps")
    for step in steps:
        for name, amount in step.amounts.items():
            values[name] += amount
        here = step.edge.target
    on = [
        edge.id
        for edge in plan.edges
        if edge.source == here and not is_stopped(replace(plan, edges=(edge,)), here, values)
    ]
    return candidates.owners(step.edge.id for step in steps), candidates.owners(on)
