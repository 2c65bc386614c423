"""A policy that starts in some configurations only: a control state before all others, with a guarded edge to each start."""

from __future__ import annotations

from dataclasses import replace

from polvet.policy.finite_memory.fmp import ALWAYS, Edge, FiniteMemoryPolicy
from polvet.policy.finite_memory.goal import Case, Region

NAME = "(start)"


def started(fmp: FiniteMemoryPolicy, starts: Region) -> FiniteMemoryPolicy:
    """Return the policy whose executions begin where one of the cases holds; a case that names no control state means the initial ones.

    SOUND: its only initial control state is new, is never entered, changes nothing, and is left exactly for the starts.
    """
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


def goal_or_no_start(goal: Region, fmp: FiniteMemoryPolicy) -> Region:
    """Return the goal of a policy that `started` made: where it cannot leave its first control state, it has not begun."""
    return replace(goal, cases=(*goal.cases, Case(frozenset(fmp.initial), ())))
