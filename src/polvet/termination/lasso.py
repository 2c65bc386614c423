"""From closed walks that sustain to a lasso: one closed walk, the amounts, a prefix and an initial valuation.

The walks are joined where they meet (Euler's argument); a walk that is taken many times stays one segment with a
repeat count, so the lasso is short even where the numbers are huge. The start is the least valuation that pays for
the deepest point of prefix and first round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from polvet.files import Json
from polvet.policy.finite_memory import (
    Edge,
    Effect,
    FiniteMemoryPolicy,
    Multigraph,
    Primitive,
    Valuation,
    portable,
)
from polvet.policy.finite_memory.relations import Interval
from polvet.termination.complete import Cycle

Segment = tuple[list[int], int]
"""Primitive edges of the graph that follow one another, and how often."""


def lasso_certificate(graph: Multigraph, cycle: Cycle) -> Json:
    """Return the `lasso` certificate of the cycle; whether it replays is for the checker to say."""
    segments = join_walks(cycle)
    if len(segments) == 1:
        [(walk, repeat)] = segments
        turn = min(range(len(walk)), key=_distances(graph, [graph.edges[edge].source for edge in walk]).__getitem__)
        segments = [(walk[turn:] + walk[:turn], repeat)]
    start = graph.edges[segments[0][0][0]].source
    return write_lasso(graph, find_path(graph, start), segments)


def _distances(graph: Multigraph, nodes: Sequence[int]) -> list[int]:
    """Return for each of the nodes how many edges the shortest path from an initial node has."""
    leaving: dict[int, list[int]] = {}
    for edge in graph.edges:
        leaving.setdefault(edge.source, []).append(edge.target)
    distance = dict.fromkeys(graph.initial, 0)
    agenda = list(graph.initial)
    for node in agenda:
        for target in leaving.get(node, ()):
            if target not in distance:
                distance[target] = distance[node] + 1
                agenda.append(target)
    return [distance[node] for node in nodes]


def join_walks(cycle: Cycle) -> list[Segment]:
    """Return the walks as segments of one closed walk; every walk touches an earlier one."""
    component = cycle.component
    sources = component.sources.tolist()
    waiting = list(cycle.walks)
    first, times = waiting.pop(0)
    joined: list[Segment] = [(list(first), times)]
    while waiting:
        for index, (walk, count) in enumerate(waiting):
            if (spot := _meeting(joined, walk, sources)) is not None:
                segment, offset, turn = spot
                old, repeat = joined[segment]
                inserted = (walk[turn:] + walk[:turn], count)
                pieces = [(old, repeat - 1)] if repeat > 1 else []
                pieces += [(old[:offset], 1)] if offset else []
                pieces += [inserted, (old[offset:], 1)]
                joined[segment : segment + 1] = pieces
                waiting.pop(index)
                break
        else:
            raise AssertionError("every walk touches an earlier one")
    return [([component.edges[edge] for edge in walk], repeat) for walk, repeat in joined]


def _meeting(joined: Sequence[Segment], walk: Sequence[int], sources: Sequence[int]) -> tuple[int, int, int] | None:
    position = {sources[edge]: turn for turn, edge in reversed(list(enumerate(walk)))}
    for segment, (old, _) in enumerate(joined):
        for offset, edge in enumerate(old):
            if sources[edge] in position:
                return segment, offset, position[sources[edge]]
    return None


def find_path(graph: Multigraph, goal: int, allowed: Iterable[int] | None = None) -> list[int]:
    """Return the edges of a shortest path from an initial node to the goal, which is known to be reachable."""
    leaving: dict[int, list[int]] = {}
    for edge in range(len(graph.edges)) if allowed is None else allowed:
        leaving.setdefault(graph.edges[edge].source, []).append(edge)
    entered: dict[int, int] = dict.fromkeys(graph.initial, -1)
    agenda = list(graph.initial)
    for node in agenda:
        if node == goal:
            break
        for edge in leaving.get(node, ()):
            target = graph.edges[edge].target
            if target not in entered:
                entered[target] = edge
                agenda.append(target)
    path = []
    while (edge := entered[goal]) >= 0:
        path.append(edge)
        goal = graph.edges[edge].source
    return path[::-1]


def write_lasso(graph: Multigraph, prefix: Sequence[int], segments: Sequence[Segment]) -> Json:
    """Return the certificate of prefix and cycle, with amounts for intervals and the least initial valuation."""
    pumped = _pumped(graph, segments)
    amounts = {
        edge: [_amount(graph, graph.edges[edge], index, pumped) for index in range(len(graph.fmp.variables))]
        for edge in {*prefix, *(edge for walk, _ in segments for edge in walk)}
    }
    start = _least_start(graph, prefix, segments, amounts)
    return {
        "kind": "lasso",
        "initial_valuation": {name: portable(value) for name, value in start.items()},
        "prefix": [_step(graph, edge, amounts[edge]) for edge in prefix],
        "cycle": [
            {"edges": [_step(graph, edge, amounts[edge]) for edge in walk], "repeat": portable(repeat)}
            for walk, repeat in segments
        ],
    }


def _pumped(graph: Multigraph, segments: Sequence[Segment]) -> list[int]:
    """Return for every variable how much each endless effect must move it away from its bound."""
    pumped = []
    for index, variable in enumerate(graph.fmp.variables):
        net, endless = 0, 0
        sign = 1 if variable.lower is not None else -1
        for walk, repeat in segments:
            for edge in walk:
                effect = graph.edges[edge].effects[index]
                best = effect.high if sign > 0 else effect.low
                endless += repeat if best is None else 0
                net += repeat * (best or 0)
        pumped.append(max(0, -(-(-sign * net) // endless)) if endless else 0)
    return pumped


def _amount(graph: Multigraph, edge: Primitive, index: int, pumped: Sequence[int]) -> int:
    """Return the amount that serves the lasso best: what the tracked values say, else away from the bound."""
    variable, effect = graph.fmp.variables[index], edge.effects[index]
    if effect.low is not None and effect.low == effect.high:
        return effect.low
    if variable.name in graph.tracked:
        place = list(graph.tracked).index(variable.name)
        before, after = (graph.nodes[node].classes[place] for node in (edge.source, edge.target))
        if None not in (*before, *after) and before[0] == before[1] and after[0] == after[1]:
            return (after[0] or 0) - (before[0] or 0)
    if variable.lower is not None and variable.upper is None:
        return effect.high if effect.high is not None else max(pumped[index], effect.low or 0, 0)
    if variable.upper is not None and variable.lower is None:
        return effect.low if effect.low is not None else -max(pumped[index], -(effect.high or 0), 0)
    return _nearest_to_zero(effect)


def _nearest_to_zero(effect: Effect) -> int:
    if effect.low is not None and effect.low > 0:
        return effect.low
    return effect.high if effect.high is not None and effect.high < 0 else 0


def _least_start(
    graph: Multigraph, prefix: Sequence[int], segments: Sequence[Segment], amounts: dict[int, list[int]]
) -> Valuation:
    """Return for every variable the least start that keeps bounds and guards, else the greatest, else 0."""
    count = len(graph.fmp.variables)
    least: list[int | None] = [None] * count
    most: list[int | None] = [None] * count
    moved = [0] * count

    def demand(index: int, interval: Interval, offset: int) -> None:
        low, high = interval
        if low is not None:
            known = least[index]
            least[index] = low - offset if known is None else max(known, low - offset)
        if high is not None:
            limit = most[index]
            most[index] = high - offset if limit is None else min(limit, high - offset)

    bounds = [(variable.lower, variable.upper) for variable in graph.fmp.variables]
    for index in range(count):
        demand(index, bounds[index], 0)
    for walk, repeat in ((list(prefix), 1), *segments):
        total = [sum(amounts[edge][index] for edge in walk) for index in range(count)]
        for number in sorted({0, repeat - 1}):
            here = [moved[index] + number * total[index] for index in range(count)]
            for edge in walk:
                for index in range(count):
                    demand(index, graph.edges[edge].before[index], here[index])
                    here[index] += amounts[edge][index]
                    demand(index, bounds[index], here[index])
        moved = [moved[index] + repeat * total[index] for index in range(count)]
    return {
        variable.name: next((value for value in (least[index], most[index]) if value is not None), 0)
        for index, variable in enumerate(graph.fmp.variables)
    }


def _step(graph: Multigraph, number: int, amounts: Sequence[int]) -> Any:
    primitive = graph.edges[number]
    chosen = {variable.name: amount for variable, amount in zip(graph.fmp.variables, amounts, strict=True)}
    return name_step(graph.fmp, graph.fmp.edges[primitive.edge], primitive.choice, chosen)


def name_step(fmp: FiniteMemoryPolicy, edge: Edge, choice: int, amounts: Mapping[str, int]) -> Any:
    """Return the step as certificates name it: the edge's id alone where that says everything."""
    effects = {name: fmp.effect(edge.choices[choice], name) for name in edge.choices[choice].effects}
    if len(edge.choices) == 1 and all(effect.is_fixed for effect in effects.values()):
        return edge.id
    return {"edge": edge.id, "choice": choice, "effects": {name: portable(amounts.get(name, 0)) for name in effects}}
