"""Checking `lasso`: a start, a prefix and a cycle that can be repeated for ever prove that some execution never ends.

The certificate gives `initial_valuation`, the `prefix` (edges from an initial control state) and the `cycle`: segments
{edges, repeat}. An edge is its id, or {edge, choice, effects} where it has several choices or intervals. The lasso is
replayed: bounds, guards and amounts are checked at every step of the prefix and of the first round. A segment that is
repeated many times is checked in its first and its last round, since values change linearly in between. For the
rounds after the first, let D be the change of a whole round: a bound or comparison that holds now keeps holding
if D does not move the variable against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.check.counters import Malformed, about, find_subject, integer, mapping, sequence
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.policy.finite_memory import Atom, Choice, Edge, EdgeId, FiniteMemoryPolicy, Valuation

MAX_REPLAY = 2_000_000
"""The most steps that are replayed singly where a comparison with == or != does not allow to look at ends only."""


def check_lasso(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that some execution of the policy never ends."""
    fmp = find_subject(certificate, subjects, about_every_run=False, about_endless_run=True)
    if isinstance(fmp, Rejected):
        return fmp
    problem = check_replay(fmp, certificate, subjects.budget)
    return (
        Accepted(f"an execution of {about(fmp, subjects, certificate)} never ends")
        if problem is None
        else Rejected(problem)
    )


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a lasso: an edge, one of its choices, and the amount added to each variable."""

    edge: Edge
    choice: int
    amounts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Segment:
    """Steps that are taken `repeat` times in a row."""

    steps: tuple[Step, ...]
    repeat: int


def check_replay(fmp: FiniteMemoryPolicy, certificate: Mapping[str, Any], budget: Budget = UNLIMITED) -> str | None:
    """Return the first thing that is wrong with a lasso, or None if it can be followed for ever."""
    try:
        valuation, prefix, cycle = parse_lasso(fmp, certificate)
        _follow(fmp, valuation, prefix, cycle, budget)
    except Malformed as error:
        return str(error)
    return None


def parse_lasso(
    fmp: FiniteMemoryPolicy, certificate: Mapping[str, Any]
) -> tuple[Valuation, tuple[Step, ...], tuple[Segment, ...]]:
    """Return the initial valuation, the prefix and the cycle of a lasso certificate."""
    valuation = parse_valuation(fmp, certificate)
    by_id = {edge.id: edge for edge in fmp.edges}
    prefix = parse_steps(fmp, certificate.get("prefix", []), "prefix", by_id)
    segments = []
    for index, item in enumerate(sequence(certificate.get("cycle"), "cycle")):
        entry = mapping(item, f"cycle[{index}]")
        repeat = integer(entry.get("repeat", 1), f"cycle[{index}].repeat")
        steps = parse_steps(fmp, entry.get("edges"), f"cycle[{index}].edges", by_id)
        if repeat < 1 or not steps:
            raise Malformed(f"cycle[{index}] is empty")
        segments.append(Segment(steps, repeat))
    if not segments:
        raise Malformed("the cycle is empty")
    return valuation, prefix, tuple(segments)


def parse_valuation(fmp: FiniteMemoryPolicy, certificate: Mapping[str, Any]) -> Valuation:
    """Return the `initial_valuation` of a certificate: every variable, within its bounds."""
    given = mapping(certificate.get("initial_valuation"), "initial_valuation")
    for name in given:
        if all(variable.name != name for variable in fmp.variables):
            raise Malformed(f"initial_valuation: no variable '{name}'")
    valuation: Valuation = {}
    for variable in fmp.variables:
        if variable.name not in given:
            raise Malformed(f"initial_valuation: '{variable.name}' is missing")
        value = integer(given[variable.name], f"initial_valuation.{variable.name}")
        if not variable.admits(value):
            raise Malformed(f"initial_valuation: {variable.name} = {value} is out of bounds")
        valuation[variable.name] = value
    return valuation


def parse_steps(
    fmp: FiniteMemoryPolicy, items: Any, place: str, by_id: Mapping[EdgeId, Edge] | None = None
) -> tuple[Step, ...]:
    """Return the steps of a list of edges; `by_id` saves finding the edges anew."""
    known = {edge.id: edge for edge in fmp.edges} if by_id is None else by_id
    return tuple(_step(fmp, known, item, f"{place}[{i}]") for i, item in enumerate(sequence(items, place)))


def follow_steps(fmp: FiniteMemoryPolicy, certificate: Mapping[str, Any], key: str, here: Any) -> tuple[str, Valuation]:
    """Return the configuration to which the certificate's steps lead from its start; Malformed where one cannot be taken."""
    values = parse_valuation(fmp, certificate)
    if here not in fmp.initial:
        raise Malformed(f"'{here}' is not initial")
    for number, step in enumerate(parse_steps(fmp, certificate.get(key, []), key)):
        if step.edge.source != here or not step.edge.is_open(values):
            raise Malformed(f"{key}: step {number} cannot be taken")
        for name, amount in step.amounts.items():
            values[name] += amount
        if not all(variable.admits(values[variable.name]) for variable in fmp.variables):
            raise Malformed(f"{key}: step {number} leaves the bounds")
        here = step.edge.target
    return here, values


def _step(fmp: FiniteMemoryPolicy, by_id: Mapping[Any, Edge], item: Any, place: str) -> Step:
    entry = item if isinstance(item, dict) else {"edge": item}
    identity = entry.get("edge")
    if isinstance(identity, bool) or not isinstance(identity, int | str) or identity not in by_id:
        raise Malformed(f"{place}: no edge {identity!r}")
    edge = by_id[identity]
    index = integer(entry.get("choice", 0), f"{place}.choice")
    if not 0 <= index < len(edge.choices):
        raise Malformed(f"{place}: edge {edge.id!r} has no choice {index}")
    if "choice" not in entry and len(edge.choices) > 1:
        raise Malformed(f"{place}: edge {edge.id!r} has several choices, none is named")
    given = mapping(entry.get("effects", {}), f"{place}.effects")
    return Step(edge, index, _amounts(fmp, edge.choices[index], given, place))


def _amounts(fmp: FiniteMemoryPolicy, choice: Choice, given: Mapping[str, Any], place: str) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for variable in fmp.variables:
        effect = fmp.effect(choice, variable.name)
        if variable.name in given:
            amount = integer(given[variable.name], f"{place}.effects.{variable.name}")
            if not effect.allows(amount):
                raise Malformed(f"{place}: the effect on {variable.name} is {effect}, not {amount}")
        elif effect.is_fixed and effect.low is not None:
            amount = effect.low
        else:
            raise Malformed(f"{place}: the amount added to {variable.name} is not given")
        if amount:
            amounts[variable.name] = amount
    if unknown := set(given) - {variable.name for variable in fmp.variables}:
        raise Malformed(f"{place}.effects: no variable '{min(unknown)}'")
    return amounts


def iter_states(fmp: FiniteMemoryPolicy, certificate: Mapping[str, Any]) -> Iterator[tuple[str, Valuation]]:
    """Yield the control states and valuations of the prefix and the first round of the cycle, step by step."""
    valuation, prefix, cycle = parse_lasso(fmp, certificate)
    first = prefix[0] if prefix else cycle[0].steps[0]
    yield first.edge.source, dict(valuation)
    for segment in (Segment(prefix, 1), *cycle):
        for _ in range(segment.repeat):
            for step in segment.steps:
                for name, amount in step.amounts.items():
                    valuation[name] += amount
                yield step.edge.target, dict(valuation)


def _total(steps: tuple[Step, ...]) -> dict[str, int]:
    total: dict[str, int] = {}
    for step in steps:
        for name, amount in step.amounts.items():
            total[name] = total.get(name, 0) + amount
    return total


def _follow(
    fmp: FiniteMemoryPolicy,
    start: Mapping[str, int],
    prefix: tuple[Step, ...],
    cycle: tuple[Segment, ...],
    budget: Budget,
) -> None:
    round_change = dict.fromkeys((variable.name for variable in fmp.variables), 0)
    for segment in cycle:
        for name, amount in _total(segment.steps).items():
            round_change[name] += segment.repeat * amount
    for variable in fmp.variables:
        change = round_change[variable.name]
        if (change < 0 and variable.lower is not None) or (change > 0 and variable.upper is not None):
            raise Malformed(f"a round of the cycle moves {variable.name} by {change:+d}, against its bound")
    still = dict.fromkeys(round_change, 0)
    valuation = dict(start)
    first = prefix[0] if prefix else cycle[0].steps[0]
    here = first.edge.source
    if here not in fmp.initial:
        raise Malformed(f"the lasso starts in '{here}', which is not initial")
    here = _pass(fmp, here, valuation, Segment(prefix, 1), still, "prefix", budget)
    entry = here
    for index, segment in enumerate(cycle):
        here = _pass(fmp, here, valuation, segment, round_change, f"cycle[{index}]", budget)
    if here != entry:
        raise Malformed(f"the cycle starts in '{entry}' and ends in '{here}'")


def _pass(
    fmp: FiniteMemoryPolicy,
    here: str,
    valuation: Valuation,
    segment: Segment,
    drift: Mapping[str, int],
    place: str,
    budget: Budget,
) -> str:
    """Follow the segment, moving `valuation` along, and return the control state at the end."""
    start, steps, repeat = here, segment.steps, segment.repeat
    change = _total(steps)
    singly = repeat > 1 and any(
        atom.operator in ("==", "!=") or len(step.edge.guard) > 1
        for step in steps
        for atoms in step.edge.guard
        for atom in atoms
    )
    if singly and repeat * len(steps) > MAX_REPLAY:
        raise Malformed(f"{place}: {repeat} rounds under a guard with == or != are too many to replay")
    # SOUND: bounds and inequalities are linear in the number of rounds, so the first and the last round tell.
    rounds = range(repeat) if singly else sorted({0, repeat - 1})
    for number in rounds:
        budget.check()
        values = {name: value + number * change.get(name, 0) for name, value in valuation.items()}
        for index, step in enumerate(steps):
            if step.edge.source != here:
                raise Malformed(f"{place}: step {index} leaves '{step.edge.source}', but the policy is in '{here}'")
            if not any(
                all(_holds_for_ever(a, values[a.variable], drift[a.variable]) for a in c) for c in step.edge.guard
            ):
                raise Malformed(f"{place}: step {index} takes edge {step.edge.id!r} against its guard")
            for name, amount in step.amounts.items():
                values[name] += amount
            for variable in fmp.variables:
                if variable.name in step.amounts and not variable.admits(values[variable.name]):
                    raise Malformed(f"{place}: step {index} moves {variable.name} to {values[variable.name]}")
            here = step.edge.target
        if repeat > 1 and here != start:
            raise Malformed(f"{place}: it is repeated, but starts in '{start}' and ends in '{here}'")
    for name, amount in change.items():
        valuation[name] += repeat * amount
    return here


def _holds_for_ever(atom: Atom, value: int, drift: int) -> bool:
    """Return whether the comparison holds for value, value + drift, value + 2 drift, and so on."""
    if not atom.holds(value):
        return False
    match atom.operator:
        case ">=" | ">":
            return drift >= 0
        case "<=" | "<":
            return drift <= 0
        case "==":
            return drift == 0
    distance = atom.value - value  # "!=": the value must never arrive at the constant
    return drift == 0 or distance % drift != 0 or distance // drift < 0
