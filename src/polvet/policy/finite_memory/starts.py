"""A policy that starts in some configurations only: a control state before all others, with a guarded edge to each start."""

from __future__ import annotations

from dataclasses import replace

from polvet.errors import InputError, Where
from polvet.policy.finite_memory.fmp import ALWAYS, Edge, FiniteMemoryPolicy
from polvet.policy.finite_memory.goal import Case, Region

NAME = "(start)"


def started(fmp: FiniteMemoryPolicy, starts: Region) -> FiniteMemoryPolicy:
    """Return the policy whose executions begin where one of the cases holds; a case that names no control state means the initial ones.

    SOUND: its only initial control state is new, is never entered, changes nothing, and is left exactly for the starts. Where there is
    none, everything would be true of all executions.
    """
    if not any(_is_possible(case, fmp) for case in starts.cases):
        raise InputError("no execution begins there.", Where("start"), "Name starts within the counters' bounds.")
    name = NAME
    while name in fmp.control_states:
        name += "'"
    taken, everywhere = {edge.id for edge in fmp.edges}, frozenset(fmp.control_states)
    edges = []
    for number, case in enumerate(starts.cases):
        for state in fmp.initial if case.states == everywhere else sorted(case.states):
            identity = f"start {number}: {state}"
            while identity in taken:
                identity += "'"
            edges.append(Edge(identity, name, state, guard=(case.atoms,) if case.atoms else ALWAYS))
            taken.add(identity)
    return replace(fmp, control_states=(name, *fmp.control_states), initial=(name,), edges=(*edges, *fmp.edges))


def _is_possible(case: Case, fmp: FiniteMemoryPolicy) -> bool:
    """Return whether some configuration is in the case: if any value of a variable is, then one at or beside a bound or a constant is."""
    values = {0, *(atom.value for atom in case.atoms)}
    values |= {end for variable in fmp.variables for end in (variable.lower, variable.upper) if end is not None}
    tried = {value + by for value in values for by in (-1, 0, 1)}
    return bool(case.states) and all(
        any(one.admits(value) and all(a.holds(value) for a in case.atoms if a.variable == one.name) for value in tried)
        for one in fmp.variables
    )


def goal_or_no_start(goal: Region, fmp: FiniteMemoryPolicy) -> Region:
    """Return the goal of a policy that `started` made: where it cannot leave its first control state, it has not begun."""
    return replace(goal, cases=(*goal.cases, Case(frozenset(fmp.initial), ())))
