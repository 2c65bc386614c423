"""Checking `relations` of a certificate: sums of counters that are bounded in control states, such as `x - y <= 0`.

SOUND: by induction. In an initial control state a relation follows from the variables' bounds. A step from a configuration that
satisfies the relations of its control state keeps those of the next: the sum afterwards is bounded by the intervals of the step, or
by the same sum's bound before and the largest change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.check.counters import Malformed, integer, mapping, sequence
from polvet.policy.finite_memory import FiniteMemoryPolicy, Primitive, Unfolding
from polvet.policy.finite_memory.primitive import shifted
from polvet.policy.finite_memory.relations import Box, Form, Interval, Relation, Relations, greatest


def checked_relations(
    fmp: FiniteMemoryPolicy, certificate: Mapping[str, Any], budget: Budget = UNLIMITED
) -> dict[str, list[Relation]]:
    """Return the relations that the certificate names, by control state; Malformed where one need not hold."""
    relations = _parse(fmp, certificate.get("relations", {}))
    if relations and (broken := find_broken(fmp, relations, budget)) is not None:
        raise Malformed(f"relations: {show(fmp, broken[1])} need not hold in '{broken[0]}'")
    return relations


def find_broken(
    fmp: FiniteMemoryPolicy, relations: Relations, budget: Budget = UNLIMITED
) -> tuple[str, Relation] | None:
    """Return a control state and a relation of it that need not hold there, or None if all of them always do."""
    bounds: Box = tuple((variable.lower, variable.upper) for variable in fmp.variables)
    for state in fmp.initial:
        for relation in relations.get(state, ()):
            if not _is_at_most(greatest(relation.form, bounds), relation.bound):
                return state, relation
    steps = Unfolding(fmp, {}, relations, budget=budget)
    for step in steps:
        source, target = steps.nodes[step.source].state, steps.nodes[step.target].state
        for relation in relations.get(target, ()):
            if not _is_at_most(largest_after(step, relation.form, bounds, relations.get(source, ())), relation.bound):
                return target, relation
    return None


def largest_after(step: Primitive, form: Form, bounds: Box, held: Sequence[Relation]) -> int | None:
    """Return a bound of the sum after the step, None if there is none; `held` are the relations before it."""
    after = [_within(shifted(step.before[k], step.effects[k]), ends) for k, ends in enumerate(bounds)]
    by_intervals = greatest(form, after)
    change = greatest(form, [(effect.low, effect.high) for effect in step.effects])
    sums = [relation.bound + change for relation in held if relation.form == form] if change is not None else []
    return min([*sums, *([] if by_intervals is None else [by_intervals])], default=None)


def _within(one: Interval, other: Interval) -> Interval:
    low = one[0] if other[0] is None else other[0] if one[0] is None else max(one[0], other[0])
    high = one[1] if other[1] is None else other[1] if one[1] is None else min(one[1], other[1])
    return low, high


def _is_at_most(value: int | None, bound: int) -> bool:
    return value is not None and value <= bound


def _parse(fmp: FiniteMemoryPolicy, item: Any) -> dict[str, list[Relation]]:
    order = {variable.name: index for index, variable in enumerate(fmp.variables)}
    relations: dict[str, list[Relation]] = {}
    for state, entries in mapping(item, "relations").items():
        for k, entry in enumerate(sequence(entries, f"relations.{state}")):
            place = f"relations.{state}[{k}]"
            if not isinstance(entry, list) or len(entry) != 2:
                raise Malformed(f"{place} is not a sum and its bound")
            terms = mapping(entry[0], place)
            if unknown := [name for name in terms if name not in order]:
                raise Malformed(f"{place}: no variable '{unknown[0]}'")
            form = sorted((order[name], integer(value, f"{place}.{name}")) for name, value in terms.items())
            if not form or any(coefficient == 0 for _, coefficient in form):
                raise Malformed(f"{place}: a sum without terms, or with a coefficient 0")
            relations.setdefault(state, []).append(Relation(tuple(form), integer(entry[1], place)))
    return relations


def show(fmp: FiniteMemoryPolicy, relation: Relation) -> str:
    """Return the relation as text: `x - y <= 0`."""
    words = " ".join(
        f"{'-' if coefficient < 0 else '+'} {'' if abs(coefficient) == 1 else f'{abs(coefficient)} '}{fmp.variables[k].name}"
        for k, coefficient in relation.form
    )
    return f"{words.removeprefix('+ ')} <= {relation.bound}"
