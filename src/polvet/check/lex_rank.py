"""Checking `lex-rank`: a lexicographic ranking proves that every execution of a finite-memory policy ends.

The certificate is a forest. Each component names some nodes, one integer `lambda` per variable and one `potential`
per node; rank(q, v) = lambda . v + potential(q). Accepted if
  1. no cycle of the edges leaves the given components: with each component shrunk to a point they are acyclic;
  2. inside a component no edge can raise the rank, whichever amount its effects choose;
  3. an edge that always lowers the rank, and is only taken where the rank has a lower bound, can be taken only
     finitely often: the other edges between the component's nodes satisfy 1 to 3 with its `children`.
A component whose edges are all of the third sort needs no children. Then no edge of a cycle is taken for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.check.checker import Accepted, CheckResult, Rejected, Subjects
from polvet.check.counters import Malformed, about, find_subject, integer, mapping, sequence
from polvet.errors import LimitReached
from polvet.policy.finite_memory import FiniteMemoryPolicy, Multigraph, Primitive, Window, normalise


def check_lex_rank(certificate: Mapping[str, Any], subjects: Subjects) -> CheckResult:
    """Return whether the certificate proves that the policy terminates from every valuation."""
    fmp = find_subject(certificate, subjects, about_every_run=True)
    if isinstance(fmp, Rejected):
        return fmp
    result = check_ranking(fmp, certificate, subjects.budget)
    return Accepted(f"every execution of {about(fmp, subjects)} ends") if result is None else Rejected(result)


def check_ranking(fmp: FiniteMemoryPolicy, certificate: Mapping[str, Any], budget: Budget = UNLIMITED) -> str | None:
    """Return the first thing that is wrong with a ranking, or None if it proves termination."""
    try:
        graph = normalise(fmp, parse_tracked(fmp, certificate.get("tracked", {})), budget=budget)
        number = {name: index for index, name in enumerate(graph.names)}
        agenda = [(sequence(certificate.get("components"), "components"), list(graph.edges), "components")]
        while agenda:
            budget.check()
            entries, edges, place = agenda.pop()
            components = [_component(entry, graph, number, f"{place}[{i}]") for i, entry in enumerate(entries)]
            owner = _owners(components, place)
            if (cycle := _find_cycle_outside(edges, owner)) is not None:
                return f"{place}: a cycle through '{graph.names[cycle]}' is in no component"
            inside: list[list[Primitive]] = [[] for _ in components]
            for edge in edges:
                home = owner.get(edge.source)
                if home is not None and home == owner.get(edge.target):
                    inside[home].append(edge)
            for index, component in enumerate(components):
                here = f"{place}[{index}]"
                left = []
                for edge in inside[index]:
                    change = _change(component, edge)
                    if change is None or change > 0:
                        return f"{here}: edge {fmp.edges[edge.edge].id!r} can raise the rank"
                    # SOUND: only where the rank is bounded below can a decrease not happen infinitely often.
                    if change == 0 or not _is_bounded(component, edge):
                        left.append(edge)
                agenda.append((component.children, left, f"{here}.children"))
    except LimitReached as limit:
        if limit.kind is not None:
            raise
        return str(limit)
    except Malformed as error:
        return str(error)
    return None


@dataclass(frozen=True, slots=True)
class _Component:
    nodes: frozenset[int]
    weights: tuple[tuple[int, int], ...]  # (index of the variable, lambda), without zeros
    potential: Mapping[int, int]
    children: list[Any]


def _component(entry: Any, graph: Multigraph, number: Mapping[str, int], place: str) -> _Component:
    entry = mapping(entry, place)
    names = sequence(entry.get("states"), f"{place}.states")
    for name in names:
        if not isinstance(name, str) or name not in number:
            raise Malformed(f"{place}.states: no reachable control state {name!r}")
    given = mapping(entry.get("lambda"), f"{place}.lambda")
    order = {variable.name: index for index, variable in enumerate(graph.fmp.variables)}
    for name in given:
        if name not in order:
            raise Malformed(f"{place}.lambda: no variable '{name}'")
    weights = [(order[name], integer(value, f"{place}.lambda.{name}")) for name, value in given.items()]
    potential = mapping(entry.get("potential"), f"{place}.potential")
    if missing := [name for name in names if name not in potential]:
        raise Malformed(f"{place}.potential: '{missing[0]}' is missing")
    return _Component(
        frozenset(number[name] for name in names),
        tuple((index, weight) for index, weight in weights if weight),
        {number[name]: integer(potential[name], f"{place}.potential.{name}") for name in names},
        sequence(entry.get("children", []), f"{place}.children"),
    )


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


def _owners(components: Sequence[_Component], place: str) -> dict[int, int]:
    owner: dict[int, int] = {}
    for index, component in enumerate(components):
        for node in component.nodes:
            if node in owner:
                raise Malformed(f"{place}: two components share a control state")
            owner[node] = index
    return owner


def _find_cycle_outside(edges: Sequence[Primitive], owner: Mapping[int, int]) -> int | None:
    """Return a node on a cycle once every component is shrunk to a point, or None (Kahn's algorithm)."""

    def point(node: int) -> int:
        return -1 - owner[node] if node in owner else node

    successors: dict[int, list[int]] = {}
    waiting: dict[int, int] = {}
    for edge in edges:
        source, target = point(edge.source), point(edge.target)
        if source == target and source < 0:
            continue
        successors.setdefault(source, []).append(target)
        waiting[target] = waiting.get(target, 0) + 1
        waiting.setdefault(source, 0)
    free = [node for node, count in waiting.items() if count == 0]
    while free:
        for target in successors.get(free.pop(), ()):
            waiting[target] -= 1
            if waiting[target] == 0:
                free.append(target)
    left = [node for node, count in waiting.items() if count > 0]
    if not left:
        return None
    return left[0] if left[0] >= 0 else next(node for node, home in owner.items() if -1 - home == left[0])


def _change(component: _Component, edge: Primitive) -> int | None:
    """Return the largest change of the rank over the edge, None if it has no largest."""
    change = component.potential[edge.target] - component.potential[edge.source]
    for variable, weight in component.weights:
        amount = edge.effects[variable].high if weight > 0 else edge.effects[variable].low
        if amount is None:
            return None
        change += weight * amount
    return change


def _is_bounded(component: _Component, edge: Primitive) -> bool:
    return all(edge.before[variable][0 if weight > 0 else 1] is not None for variable, weight in component.weights)
