"""Relations between two counters that hold wherever an execution comes: `x <= y + c`, `x + y <= c`, and so equations.

Source   Mine, "The octagon abstract domain", 2006: sums and differences of two variables, bounded from above
Differs  what is known of single variables are the intervals of a step, under the relations so far; bounds that keep
         growing are given up. What is left is inductive by construction, and the checker says so again
Cost     edges x pairs of variables, a few times
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from polvet.budget import UNLIMITED, Budget
from polvet.check.relations import find_broken, largest_after
from polvet.policy.finite_memory import FiniteMemoryPolicy, Unfolding, portable
from polvet.policy.finite_memory.relations import Box, Form, Relation, greatest

MOST_VARIABLES = 10
MOST_STATES = 2_000
ROUNDS = 3
"""How often a bound may grow before it is given up."""
Sums = dict[Form, int | None]
"""What is known of each sum in a control state: its bound, None if it has none."""


def find_relations(fmp: FiniteMemoryPolicy, budget: Budget = UNLIMITED) -> dict[str, list[Relation]]:
    """Return relations that hold in the control states, by state; only those that the variables' own bounds do not say."""
    if not 2 <= len(fmp.variables) <= MOST_VARIABLES or len(fmp.control_states) > MOST_STATES:
        return {}
    pairs = combinations(range(len(fmp.variables)), 2)
    forms = [((one, a), (other, b)) for one, other in pairs for a in (1, -1) for b in (1, -1)]
    bounds: Box = tuple((variable.lower, variable.upper) for variable in fmp.variables)
    known: dict[str, Sums] = {state: {form: greatest(form, bounds) for form in forms} for state in fmp.initial}
    grown: dict[tuple[str, Form], int] = {}
    changed = True
    while changed:
        changed = False
        steps = Unfolding(fmp, {}, _relations(known, bounds), budget=budget)
        for step in steps:
            source, target = steps.nodes[step.source].state, steps.nodes[step.target].state
            if source not in known:  # reached in this round only: the next one looks at what leaves it
                changed = True
                continue
            held = [Relation(form, bound) for form, bound in known[source].items() if bound is not None]
            after: Sums = {form: largest_after(step, form, bounds, held) for form in forms}
            if target not in known:
                known[target], changed = after, True
                continue
            for form, bound in after.items():
                before = known[target][form]
                if before is None or (bound is not None and bound <= before):
                    continue
                grown[target, form] = grown.get((target, form), 0) + 1
                known[target][form] = bound if grown[target, form] <= ROUNDS else None
                changed = True
    relations = _relations(known, bounds)
    assert find_broken(fmp, relations, budget) is None, "what nothing changes any more is inductive"
    return relations


def _relations(known: dict[str, Sums], bounds: Box) -> dict[str, list[Relation]]:
    outcome: dict[str, list[Relation]] = {}
    for state, sums in known.items():
        for form, bound in sums.items():
            plain = greatest(form, bounds)
            if bound is not None and (plain is None or bound < plain):
                outcome.setdefault(state, []).append(Relation(form, bound))
    return outcome


def written(fmp: FiniteMemoryPolicy, relations: dict[str, list[Relation]]) -> dict[str, list[list[object]]]:
    """Return the relations as certificates have them."""

    def terms(form: Sequence[tuple[int, int]]) -> dict[str, int]:
        return {fmp.variables[index].name: coefficient for index, coefficient in form}

    return {
        state: [[terms(relation.form), portable(relation.bound)] for relation in some]
        for state, some in relations.items()
    }
