"""The halting set of a policy: where its executions can stop, as cases that `--goal` reads.

A configuration stops where every choice of every edge is blocked (`polvet.check.goal`). Listed are those that tracked values and
relations between variables do not rule out: every execution that ends does so in one of them, but not all of them need be reached.
"""

from __future__ import annotations

from polvet.budget import UNLIMITED, Budget
from polvet.check.goal import Ends, opposite, parts_of, reachable_places, stop_clauses
from polvet.policy.finite_memory import FiniteMemoryPolicy
from polvet.policy.finite_memory.goal import Region
from polvet.policy.finite_memory.relations import Box, tightened
from polvet.termination.goal import windows_within
from polvet.termination.relations import find_relations


def halting_set(
    fmp: FiniteMemoryPolicy, beside: Region | None = None, budget: Budget = UNLIMITED, *, before: str | None = None
) -> list[str]:
    """Return the cases, such as `state == q2 && x == 0`; none where no execution can stop.

    Where a policy begins in some configurations only, the control state `before` these is none of them; nor is what lies in `beside`.
    """
    relations = find_relations(fmp, budget)
    stops: dict[str, list[Box]] = {}
    for state, box in reachable_places(fmp, windows_within(fmp, budget), relations, budget):
        if state == before:
            continue
        others = () if beside is None else [case.atoms for case in beside.cases if state in case.states]
        clauses = stop_clauses(fmp, state) + [tuple(opposite(atom) for atom in atoms) for atoms in others]
        for part in parts_of(clauses, box, budget, apart=False):
            cut = tightened(tuple(part[variable.name] for variable in fmp.variables), relations.get(state, ()))
            if cut is not None:
                _add(stops.setdefault(state, []), cut)
    return [_case(fmp, state, box) for state, boxes in stops.items() for box in boxes]


def _add(boxes: list[Box], box: Box) -> None:
    """Add the box, unless one holds it already; those that it holds go, and one beside it in a single variable joins it."""
    if any(_holds(other, box) for other in boxes):
        return
    boxes[:] = [other for other in boxes if not _holds(box, other)]
    for other in boxes:
        apart = [k for k, (one, two) in enumerate(zip(other, box, strict=True)) if one != two]
        if len(apart) == 1 and (joined := _joined(other[apart[0]], box[apart[0]])) is not None:
            boxes.remove(other)
            _add(boxes, (*box[: apart[0]], joined, *box[apart[0] + 1 :]))
            return
    boxes.append(box)


def _holds(outer: Box, inner: Box) -> bool:
    return all(
        (low is None or (other[0] is not None and low <= other[0]))
        and (high is None or (other[1] is not None and other[1] <= high))
        for (low, high), other in zip(outer, inner, strict=True)
    )


def _joined(one: Ends, other: Ends) -> Ends | None:
    """Return both intervals as one, if no integer lies between them."""
    first, second = sorted((one, other), key=lambda ends: (ends[0] is not None, ends[0] or 0))
    if first[1] is not None and second[0] is not None and second[0] > first[1] + 1:
        return None
    high = None if first[1] is None or second[1] is None else max(first[1], second[1])
    return first[0], high


def _case(fmp: FiniteMemoryPolicy, state: str, box: Box) -> str:
    atoms = [f"state == {state}"]
    for variable, (low, high) in zip(fmp.variables, box, strict=True):
        if low is not None and low == high:
            atoms.append(f"{variable.name} == {low}")
            continue
        atoms += [] if low in (None, variable.lower) else [f"{variable.name} >= {low}"]
        atoms += [] if high in (None, variable.upper) else [f"{variable.name} <= {high}"]
    return " && ".join(atoms)
