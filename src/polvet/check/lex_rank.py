"""Checking `lex-rank`: a lexicographic ranking proves that every execution of a finite-memory policy ends.

The certificate is a forest. Each component names some nodes, one integer `lambda` per variable and one `potential`
per node; rank(q, v) = lambda . v + potential(q). Accepted if
  1. no cycle of the edges leaves the given components: with each component shrunk to a point they are acyclic;
  2. inside a component no edge can raise the rank, whichever amount its effects choose;
  3. an edge that always lowers the rank, and is only taken where the rank has a lower bound, can be taken only
     finitely often: the other edges between the component's nodes satisfy 1 to 3 with its `children`.
A component whose edges are all of the third sort needs no children. Then no edge of a cycle is taken for ever. Steps that contradict
`relations` of the certificate, which must always hold, are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.check.counters import Malformed, about, find_subject, integer, mapping, sequence
from polvet.check.relations import checked_relations
from polvet.check.subjects import Accepted, CheckResult, Rejected, Subjects
from polvet.errors import LimitReached
from polvet.policy.finite_memory import FiniteMemoryPolicy, Primitive, Unfolding, Window


def check_lex_rank(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that the policy terminates from every valuation."""
    fmp = find_subject(certificate, subjects, about_every_run=True)
    if isinstance(fmp, Rejected):
        return fmp
    if (wrong := check_ranking(fmp, certificate, subjects.budget)) is not None:
        return Rejected(wrong)
    return Accepted(f"every execution of {about(fmp, subjects, certificate)} ends")


def check_ranking(fmp: FiniteMemoryPolicy, certificate: Mapping[str, Any], budget: Budget = UNLIMITED) -> str | None:
    """Return the first thing that is wrong with a ranking, or None if it proves termination."""
    try:
        relations = checked_relations(fmp, certificate, budget)
        graph = Unfolding(fmp, parse_tracked(fmp, certificate.get("tracked", {})), relations, budget=budget)
        agenda: list[tuple[list[Any], Iterable[Primitive], str]] = [
            (sequence(certificate.get("components"), "components"), graph, "components")
        ]
        reached: frozenset[str] = frozenset()
        while agenda:
            budget.check()
            entries, edges, place = agenda.pop()
            components = [_component(entry, fmp, f"{place}[{i}]") for i, entry in enumerate(entries)]
            left = _lower(graph, components, edges, place)
            reached = reached or frozenset(graph.names)  # all of them, once the first level is read
            if unknown := {name for component in components for name in component.potential if name not in reached}:
                raise Malformed(f"{place}: no reachable control state {min(unknown)!r}")
            agenda += [
                (component.children, rest, f"{place}[{index}].children")
                for index, (component, rest) in enumerate(zip(components, left, strict=True))
            ]
    except LimitReached as limit:
        if limit.kind is not None:
            raise
        return str(limit)
    except Malformed as error:
        return str(error)
    return None


@dataclass(frozen=True, slots=True)
class _Component:
    potential: Mapping[str, int]  # of each of its nodes
    weights: tuple[tuple[int, int], ...]  # (index of the variable, lambda), without zeros
    children: list[Any]


def _component(entry: Any, fmp: FiniteMemoryPolicy, place: str) -> _Component:
    entry = mapping(entry, place)
    names = sequence(entry.get("states"), f"{place}.states")
    weights = mapping(entry.get("lambda"), f"{place}.lambda")
    order = {variable.name: index for index, variable in enumerate(fmp.variables)}
    if unknown := [name for name in weights if name not in order]:
        raise Malformed(f"{place}.lambda: no variable '{unknown[0]}'")
    numbers = [(order[name], integer(value, f"{place}.lambda.{name}")) for name, value in weights.items()]
    potential = mapping(entry.get("potential"), f"{place}.potential")
    for name in names:
        if not isinstance(name, str) or name not in potential:
            raise Malformed(f"{place}.potential: {name!r} is missing")
    return _Component(
        {name: integer(potential[name], f"{place}.potential.{name}") for name in names},
        tuple((index, weight) for index, weight in numbers if weight),
        sequence(entry.get("children", []), f"{place}.children"),
    )


def _lower(
    graph: Unfolding, components: Sequence[_Component], edges: Iterable[Primitive], place: str
) -> list[list[Primitive]]:
    """Return for each component the edges that its rank does not remove; Malformed where the ranking is wrong."""
    home: dict[str, int] = {}
    for index, component in enumerate(components):
        for name in component.potential:
            if home.setdefault(name, index) != index:
                raise Malformed(f"{place}: two components share the control state '{name}'")
    left: list[list[Primitive]] = [[] for _ in components]
    between: list[tuple[int | str, int | str]] = []  # the ends of the other edges, a component as one point
    names = graph.names  # grows while the edges are unfolded
    for edge in edges:
        source, target = names[edge.source], names[edge.target]
        index, other = home.get(source, -1), home.get(target, -1)
        if index < 0 or index != other:
            between.append((source if index < 0 else index, target if other < 0 else other))
            continue
        component = components[index]
        change = _change(component, edge, source, target)
        if change is None or change > 0:
            raise Malformed(f"{place}[{index}]: edge {graph.fmp.edges[edge.edge].id!r} can raise the rank")
        # SOUND: only where the rank is bounded below can a decrease not happen infinitely often.
        if change == 0 or not _is_bounded(component, edge):
            left[index].append(edge)
    if (cycle := _find_cycle(between)) is not None:
        name = cycle if isinstance(cycle, str) else next(iter(components[cycle].potential))
        raise Malformed(f"{place}: a cycle through '{name}' is in no component")
    return left


def _change(component: _Component, edge: Primitive, source: str, target: str) -> int | None:
    """Return the largest change of the rank over the edge, None if it has no largest."""
    change = component.potential[target] - component.potential[source]
    for variable, weight in component.weights:
        amount = edge.effects[variable].high if weight > 0 else edge.effects[variable].low
        if amount is None:
            return None
        change += weight * amount
    return change


def _is_bounded(component: _Component, edge: Primitive) -> bool:
    """Return whether the rank has a lower bound wherever the edge is taken."""
    before = edge.before
    for variable, weight in component.weights:  # noqa: SIM110 (a plain loop: every edge comes here)
        if before[variable][0 if weight > 0 else 1] is None:
            return False
    return True


def _find_cycle(edges: Sequence[tuple[int | str, int | str]]) -> int | str | None:
    """Return a point on a cycle of these edges, or behind one; None if there is no cycle (Kahn's algorithm)."""
    successors: dict[int | str, list[int | str]] = {}
    waiting: dict[int | str, int] = {}
    for source, target in edges:
        successors.setdefault(source, []).append(target)
        waiting[target] = waiting.get(target, 0) + 1
    free = [node for node in successors if node not in waiting]
    while free:
        for target in successors.pop(free.pop(), ()):
            waiting[target] -= 1
            if waiting[target] == 0:
                free.append(target)
    return next(iter(successors), None)


def parse_tracked(fmp: FiniteMemoryPolicy, item: Any) -> dict[str, Window]:
    """Return the windows of tracked variables that a certificate names."""
    names = {variable.name for variable in fmp.variables}
    tracked: dict[str, Window] = {}
    for name, ends in mapping(item, "tracked").items():
        if name not in names or not isinstance(ends, list) or len(ends) != 2:
            raise Malformed(f"tracked.{name} is not a window [first, last] of a variable")
        tracked[name] = integer(ends[0], f"tracked.{name}"), integer(ends[1], f"tracked.{name}")
        if tracked[name][0] > tracked[name][1] + 1:
            raise Malformed(f"tracked.{name} is empty")
    return tracked
