"""Checking `recurrent-set`: sets of configurations that can always be stayed in prove that some execution never ends.

For every control state in `sets` the certificate gives linear constraints (>= 0) on the variables and the `moves` that
are considered. Accepted if the prefix leads into the set of its last control state, and if from every configuration
within the sets and the bounds some move is open, keeps the bounds and leads into the set of its target. The negation is
split into cases, one violated constraint per move; each case is refuted by exact elimination over the integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.check.counters import Malformed, about, find_subject, integer, mapping, sequence
from polvet.check.lasso import Step, follow_steps, parse_steps
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.policy.finite_memory import Atom, FiniteMemoryPolicy
from polvet.policy.finite_memory.linear import CONSTANT, is_infeasible, plus

Row = dict[str, int]
MAX_CASES = 20_000


def check_recurrent_set(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that some execution of the policy never ends."""
    fmp = find_subject(certificate, subjects, about_every_run=False)
    if isinstance(fmp, Rejected):
        return fmp
    problem = find_leak(fmp, certificate, subjects.budget)
    return (
        Accepted(f"an execution of {about(fmp, subjects, certificate)} never ends")
        if problem is None
        else Rejected(problem)
    )


def find_leak(fmp: FiniteMemoryPolicy, certificate: Mapping[str, Any], budget: Budget = UNLIMITED) -> str | None:
    """Return the first thing that is wrong with the sets, or None if they can be stayed in for ever."""
    try:
        sets = {
            state: [_row(fmp, row, f"sets.{state}") for row in sequence(rows, f"sets.{state}")]
            for state, rows in mapping(certificate.get("sets"), "sets").items()
        }
        moves = mapping(certificate.get("moves"), "moves")
        problem = _find_flaw_of_entry(fmp, certificate, sets)
        if problem is not None:
            return problem
        for state, rows in sets.items():
            steps = parse_steps(fmp, moves.get(state, []), f"moves.{state}")
            if any(step.edge.source != state for step in steps):
                return f"moves.{state}: a move starts elsewhere"
            conditions = [condition for step in steps for condition in move_conditions(fmp, step, sets)]
            cases = 1
            for condition in conditions:
                cases *= len(condition)
            if cases > MAX_CASES:
                return f"sets.{state}: {cases} cases are too many"
            here = [*rows, *bound_rows(fmp)]
            for violated in product(*conditions):
                budget.check()
                # SOUND: over the integers, not (row >= 0) is (-row - 1 >= 0).
                if not is_infeasible([*here, *(plus(plus({}, row, -1), {CONSTANT: -1}) for row in violated)]):
                    return f"sets.{state}: no move may be left at some configuration"
    except Malformed as error:
        return str(error)
    return None


def _find_flaw_of_entry(
    fmp: FiniteMemoryPolicy, certificate: Mapping[str, Any], sets: Mapping[str, list[Row]]
) -> str | None:
    here, values = follow_steps(fmp, certificate, "prefix", certificate.get("initial_state"))
    if here not in sets:
        return f"there is no set for '{here}'"
    if any(sum(c * (values[n] if n else 1) for n, c in row.items()) < 0 for row in sets[here]):
        return "the prefix does not lead into the sets"
    return None


def _row(fmp: FiniteMemoryPolicy, item: Any, place: str) -> Row:
    names = {variable.name for variable in fmp.variables} | {CONSTANT}
    row = {name: integer(value, place) for name, value in mapping(item, place).items()}
    if unknown := set(row) - names:
        raise Malformed(f"{place}: no variable '{min(unknown)}'")
    return row


def bound_rows(fmp: FiniteMemoryPolicy) -> list[Row]:
    """Return the default bounds as constraints."""
    rows = []
    for variable in fmp.variables:
        if variable.lower is not None:
            rows.append({variable.name: 1, CONSTANT: -variable.lower})
        if variable.upper is not None:
            rows.append({variable.name: -1, CONSTANT: variable.upper})
    return rows


def move_conditions(fmp: FiniteMemoryPolicy, step: Step, sets: Mapping[str, list[Row]]) -> list[list[Row]]:
    """Return, for every guard conjunction of the move, the constraints under which it can be taken into the sets.

    A conjunction with `!=` is left out, as is a move whose target has no set: then fewer ways are considered.
    """
    if step.edge.target not in sets:
        return []
    after = [*sets[step.edge.target], *bound_rows(fmp)]
    shifted = [plus(row, {CONSTANT: sum(row.get(n, 0) * d for n, d in step.amounts.items())}) for row in after]
    found = []
    for atoms in step.edge.guard:
        if all(atom.operator != "!=" for atom in atoms):
            found.append([*shifted, *(row for atom in atoms for row in atom_rows(atom))])
    return found


def atom_rows(atom: Atom) -> list[Row]:
    """Return the comparison as constraints."""
    low, high = atom.interval()
    rows = []
    if low is not None:
        rows.append({atom.variable: 1, CONSTANT: -low})
    if high is not None:
        rows.append({atom.variable: -1, CONSTANT: high})
    return rows
