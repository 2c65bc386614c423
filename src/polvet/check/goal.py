"""Checking `goal-reaching` and `goal-missed`: whether every execution of a finite-memory policy ends in the goal.

`goal-reaching` holds a ranking and the goal: every execution ends, and no configuration in which an execution can
stop lies outside the goal; values tracked in windows (`reach`) and `relations` tell which configurations can be reached at all. A
configuration stops where every choice of every edge is blocked: by a comparison of its guard, or because no amount of
an effect keeps a variable within its bounds. All reasons speak about one variable, so the search for such a
configuration splits cases on intervals, exactly.

`goal-missed` holds a run: its steps are executed, its end stops and lies outside the goal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.check.counters import Malformed, about, find_subject, shortened
from polvet.check.lasso import follow_steps
from polvet.check.lex_rank import check_ranking, parse_tracked
from polvet.check.relations import checked_relations
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.errors import InputError, LimitReached
from polvet.policy.finite_memory import Atom, FiniteMemoryPolicy, Valuation, Window, normalise
from polvet.policy.finite_memory.features import contradictions
from polvet.policy.finite_memory.goal import Case, Region, parse_goal
from polvet.policy.finite_memory.load import read_plan
from polvet.policy.finite_memory.relations import Relation, Relations, tightened
from polvet.policy.finite_memory.starts import goal_or_no_start

Clause = tuple[Atom, ...]
"""Comparisons of which at least one must hold."""
Ends = tuple[int | None, int | None]
_OPPOSITE = {">=": "<", ">": "<=", "<=": ">", "<": ">=", "==": "!=", "!=": "=="}


def check_goal_reaching(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that every execution ends in the goal."""
    # SOUND: an abstraction that goes on says nothing about where the system itself stops.
    fmp = find_subject(certificate, subjects, about_every_run=False)
    if isinstance(fmp, Rejected):
        return fmp
    if (problem := check_ranking(fmp, certificate, subjects.budget)) is not None:
        return Rejected(problem)
    goal = _goal(certificate, fmp, subjects)
    try:
        relations = checked_relations(fmp, certificate, subjects.budget)
        windows = parse_tracked(fmp, certificate.get("reach", {}))
        places = reachable_places(fmp, windows, relations, subjects.budget)
    except LimitReached as limit:
        if limit.kind is not None:
            raise
        return Rejected(str(limit))
    except Malformed as error:
        return Rejected(str(error))
    for state, box in places:
        subjects.budget.check()
        if (
            valuation := find_stop_outside(fmp, goal, state, box, relations.get(state, ()), subjects.budget)
        ) is not None:
            return Rejected(f"an execution may stop in '{state}' with {valuation}")
    return Accepted(f"every execution of {about(fmp, subjects, certificate)} ends with {shortened(goal.text)}")


def check_goal_missed(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate shows an execution that stops outside the goal."""
    fmp = find_subject(certificate, subjects, about_every_run=False)
    if isinstance(fmp, Rejected):
        return fmp
    problem = check_missing_run(fmp, certificate, subjects)
    return (
        Accepted(f"an execution of {about(fmp, subjects, certificate)} stops outside {shortened(certificate['goal'])}")
        if problem is None
        else Rejected(problem)
    )


def check_missing_run(
    fmp: FiniteMemoryPolicy, certificate: Mapping[str, Any], subjects: Subjects | None = None
) -> str | None:
    """Return what is wrong with the run, or None if it stops outside the goal."""
    goal = _goal(certificate, fmp, subjects)
    try:
        here, values = follow_steps(fmp, certificate, "steps", certificate.get("initial_state"))
    except Malformed as error:
        return str(error)
    if not is_stopped(fmp, here, values):
        return "the last configuration does not stop"
    return "the last configuration satisfies the goal" if goal.holds(here, values) else None


def _goal(certificate: Mapping[str, Any], fmp: FiniteMemoryPolicy, subjects: Subjects | None) -> Region:
    """Return the goal, with where an execution cannot stop although the policy that stands for it does."""
    text = certificate.get("goal")
    if not isinstance(text, str):
        raise InputError("the certificate names no goal.", hint="Add 'goal' as polvet terminates --goal writes it.")
    goal = parse_goal(text, fmp)
    states = fmp.control_states[1:] if "start" in certificate else fmp.control_states
    if subjects is not None and subjects.task is not None:
        features = read_plan(subjects.task, policy=subjects.policy, budget=subjects.budget).features
        # SOUND: no execution of rules comes where a number contradicts its control state.
        beside = () if features is None else contradictions(features, states)
        goal = replace(goal, cases=(*goal.cases, *(Case(frozenset({state}), (atom,)) for state, atom in beside)))
    return goal_or_no_start(goal, fmp) if "start" in certificate else goal


def reachable_places(
    fmp: FiniteMemoryPolicy, tracked: Mapping[str, Window], relations: Relations, budget: Budget = UNLIMITED
) -> list[tuple[str, dict[str, Ends]]]:
    """Return control states with intervals of the variables that hold every configuration that can be reached."""
    places = []
    for node in normalise(fmp, tracked, relations=relations, budget=budget).nodes:
        box: dict[str, Ends] = {variable.name: (variable.lower, variable.upper) for variable in fmp.variables}
        places.append((node.state, {**box, **dict(zip(tracked, node.classes, strict=True))}))
    return places


def is_stopped(fmp: FiniteMemoryPolicy, state: str, values: Mapping[str, int]) -> bool:
    """Return whether no edge can be taken in the configuration."""
    return all(any(atom.holds(values[atom.variable]) for atom in clause) for clause in stop_clauses(fmp, state))


def stop_clauses(fmp: FiniteMemoryPolicy, state: str) -> list[Clause]:
    """Return clauses that hold together exactly where an execution in the control state stops."""
    clauses = []
    for edge in fmp.edges:
        if edge.source != state:
            continue
        for choice in edge.choices:
            stuck: list[Atom] = []
            for variable in fmp.variables:
                effect = fmp.effect(choice, variable.name)
                # No amount fits iff even the largest falls below the lower bound, or the smallest exceeds the upper.
                if variable.lower is not None and effect.high is not None:
                    stuck.append(Atom(variable.name, "<", variable.lower - effect.high))
                if variable.upper is not None and effect.low is not None:
                    stuck.append(Atom(variable.name, ">", variable.upper - effect.low))
            for atoms in edge.guard:
                clauses.append((*stuck, *(opposite(atom) for atom in atoms)))
    return clauses


def opposite(atom: Atom) -> Atom:
    """Return the comparison that holds exactly where this one does not."""
    return Atom(atom.variable, _OPPOSITE[atom.operator], atom.value)


def find_stop_outside(
    fmp: FiniteMemoryPolicy,
    goal: Region,
    state: str,
    box: dict[str, Ends],
    relations: Sequence[Relation] = (),
    budget: Budget = UNLIMITED,
) -> Valuation | None:
    """Return a valuation within the box in which an execution may stop in the control state, outside the goal.

    Exact without relations; with them a valuation may contradict one, but where none is returned there is none.
    """
    clauses = stop_clauses(fmp, state)
    clauses += [tuple(opposite(atom) for atom in case.atoms) for case in goal.cases if state in case.states]
    for part in parts_of(clauses, box, budget):
        cut = tightened(tuple(part[variable.name] for variable in fmp.variables), relations)
        if cut is not None:
            return {variable.name: _some(ends) for variable, ends in zip(fmp.variables, cut, strict=True)}
    return None


def parts_of(
    clauses: Sequence[Clause], box: dict[str, Ends], budget: Budget = UNLIMITED, *, apart: bool = True
) -> Iterator[dict[str, Ends]]:
    """Yield boxes whose points satisfy every clause, and which hold all such points of the box, by splitting cases.

    What is split next is the clause that leaves the fewest cases. Boxes that are `apart` are quicker to go through, others are larger.
    """
    agenda = [(clauses, box)]
    while agenda:
        budget.check()
        clauses, here = agenda.pop()
        left: list[Clause] = []
        for clause in clauses:
            parts = [_cut(here[atom.variable], atom) for atom in clause]
            if not any(part == [here[atom.variable]] for atom, part in zip(clause, parts, strict=True)):
                left.append(tuple(atom for atom, part in zip(clause, parts, strict=True) if part))
        if not left:
            yield here
            continue
        narrow = min(left, key=len)
        left.remove(narrow)
        rest = here
        for atom in narrow:
            for ends in _cut(rest[atom.variable], atom):
                agenda.append((left, {**rest, atom.variable: ends}))
            if not apart:
                continue
            # SOUND: a point in which the atom holds is in a box above.
            without = _cut(rest[atom.variable], opposite(atom))
            if not without:
                break
            if len(without) == 1:
                rest = {**rest, atom.variable: without[0]}


def _cut(ends: Ends, atom: Atom) -> list[Ends]:
    """Return the parts of the interval where the atom holds: none, one, or two for `!=`."""
    if atom.operator == "!=":
        return _cut(ends, Atom(atom.variable, "<", atom.value)) + _cut(ends, Atom(atom.variable, ">", atom.value))
    low, high = atom.interval()
    low = ends[0] if low is None else low if ends[0] is None else max(low, ends[0])
    high = ends[1] if high is None else high if ends[1] is None else min(high, ends[1])
    return [] if low is not None and high is not None and low > high else [(low, high)]


def _some(ends: Ends) -> int:
    low, high = ends
    return low if low is not None else high if high is not None else 0
