"""The normal form: a multigraph of primitive edges, each with one choice and one guard conjunction, and the way back.

A `Primitive` is one choice of one edge under one conjunction of its guard. Without *tracking* the nodes are the
control states. With tracking, a node also holds a class of values for each tracked variable: `below` a window, one
exact value inside it, or `above` it; every step of the policy is a step of the multigraph (a simulation), so a proof
of termination on the multigraph is one for the policy. Where the window spans both bounds, it is also exact.

# SOUND: both the engines and the checkers of evidence read policies through this file; it is part of what is trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.policy.finite_memory.fmp import NO_EFFECT, Atom, Choice, Effect, FiniteMemoryPolicy, Variable

Interval = tuple[int | None, int | None]
"""All integers between two ends, both included; None means unbounded on that side."""
Window = tuple[int, int]
"""The first and the last value of a variable that are tracked exactly."""
MOST_EDGES = 20
"""For each node that is allowed, on the average."""
Box = tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """A control state, with one interval per tracked variable."""

    state: str
    classes: tuple[Interval, ...] = ()


@dataclass(frozen=True, slots=True)
class Primitive:
    """One way of taking an edge: `edge`, `choice` and `conjunction` are indices that lead back to the policy."""

    source: int
    target: int
    edge: int
    choice: int
    conjunction: int
    effects: tuple[Effect, ...]  # one per variable of the policy
    before: Box  # an interval for every variable that holds whenever the step is taken


@dataclass(frozen=True, slots=True)
class Multigraph:
    """A policy in normal form; `names` are the nodes' names, in the order of the nodes."""

    fmp: FiniteMemoryPolicy
    tracked: Mapping[str, Window]
    nodes: tuple[Node, ...]
    names: tuple[str, ...]
    initial: tuple[int, ...]
    edges: tuple[Primitive, ...]


def normalise(
    fmp: FiniteMemoryPolicy,
    tracked: Mapping[str, Window] | None = None,
    *,
    max_nodes: int = 200_000,
    budget: Budget = UNLIMITED,
) -> Multigraph:
    """Return the policy as a multigraph of primitive edges, restricted to what its initial control states reach.

    Linear without tracking; with tracking at most the number of control states times the product of the windows.
    """
    tracked = dict(tracked or {})
    order = {variable.name: index for index, variable in enumerate(fmp.variables)}
    followed = [(order[name], fmp.variables[order[name]], window) for name, window in tracked.items()]
    if any(_width(variable, window) > max_nodes for _, variable, window in followed):
        raise LimitReached(f"tracking values needs more than {max_nodes} nodes")
    leaving: dict[str, list[int]] = {}
    for index, edge in enumerate(fmp.edges):
        leaving.setdefault(edge.source, []).append(index)
    effects_of: list[list[tuple[Effect, ...]]] = []
    for edge in fmp.edges:
        budget.check()
        effects_of.append([_effects(fmp, choice, order) for choice in edge.choices])
    bounds: Box = tuple((variable.lower, variable.upper) for variable in fmp.variables)
    number: dict[Node, int] = {}
    for state in fmp.initial:
        for classes in product(*(classes_within((v.lower, v.upper), v, window) for _, v, window in followed)):
            budget.check()
            number.setdefault(Node(state, classes), len(number))
            if len(number) > max_nodes:
                raise LimitReached(f"tracking values needs more than {max_nodes} nodes")
    initial = tuple(number.values())
    agenda = list(number)
    edges: list[Primitive] = []
    for node in agenda:  # the agenda grows while it is read
        budget.check()
        box = bounds
        if followed:
            known = dict(zip((index for index, _, _ in followed), node.classes, strict=True))
            box = tuple(known.get(index, interval) for index, interval in enumerate(bounds))
        for index in leaving.get(node.state, ()):
            edge = fmp.edges[index]
            for conjunction, atoms in enumerate(edge.guard):
                before = narrowed(box, atoms, order) if atoms else box
                if before is None:
                    continue
                for choice, effects in enumerate(effects_of[index]):
                    after = [classes_within(shifted(before[i], effects[i]), v, window) for i, v, window in followed]
                    for classes in product(*after):
                        target = Node(edge.target, classes)
                        if target not in number:
                            if len(number) >= max_nodes:
                                raise LimitReached(f"tracking values needs more than {max_nodes} nodes")
                            number[target] = len(number)
                            agenda.append(target)
                        if len(edges) >= MOST_EDGES * max_nodes:
                            raise LimitReached(f"tracking values needs more than {MOST_EDGES * max_nodes} edges")
                        edges.append(
                            Primitive(number[node], number[target], index, choice, conjunction, effects, before)
                        )
    nodes = tuple(number)
    names = tuple(node_name(node, tuple(tracked)) for node in nodes)
    return Multigraph(fmp, tracked, nodes, names, initial, tuple(edges))


def _effects(fmp: FiniteMemoryPolicy, choice: Choice, order: Mapping[str, int]) -> tuple[Effect, ...]:
    """Return what the choice does to each variable; those that it does not name keep their value."""
    effects = [NO_EFFECT] * len(order)
    for name in choice.effects:
        effects[order[name]] = clipped(fmp.effect(choice, name), fmp.variables[order[name]])
    return tuple(effects)


def _width(variable: Variable, window: Window) -> int:
    """How many values of the window the variable can have: tested before they are listed."""
    first = window[0] if variable.lower is None else max(window[0], variable.lower)
    last = window[1] if variable.upper is None else min(window[1], variable.upper)
    return last - first + 1


def node_name(node: Node, tracked: Iterable[str]) -> str:
    """Return the node's name: its control state, and in braces what is known of the tracked variables.

    >>> node_name(Node("q0", ((2, 2), (4, None))), ("x", "y"))
    'q0{x=2,y>=4}'
    """
    if not node.classes:
        return node.state
    parts = []
    for name, (low, high) in zip(tracked, node.classes, strict=True):
        if low is not None and low == high:
            parts.append(f"{name}={low}")
        elif low is not None and high is not None:
            parts.append(f"{name}={low}..{high}")
        else:
            parts.append(f"{name}>={low}" if high is None else f"{name}<={high}")
    return f"{node.state}{{{','.join(parts)}}}"


def clipped(effect: Effect, variable: Variable) -> Effect:
    """Return the effect without amounts that no value within both bounds could bear."""
    if variable.lower is None or variable.upper is None:
        return effect
    span = variable.upper - variable.lower
    low = -span if effect.low is None else max(effect.low, -span)
    high = span if effect.high is None else min(effect.high, span)
    return Effect(low, high) if low <= high else effect


def narrowed(box: Box, atoms: Iterable[Atom], order: Mapping[str, int]) -> Box | None:
    """Return the box cut by the atoms, or None if no point of it satisfies them all.

    An interval cannot say `x != 3` in its middle; such an atom only cuts at the ends, which is an over-approximation.
    """
    cut = list(box)
    for atom in sorted(atoms, key=lambda atom: atom.operator == "!="):  # the others first: they make the ends
        index = order[atom.variable]
        low, high = cut[index]
        if atom.operator == "!=":
            low = low + 1 if low is not None and low == atom.value else low
            high = high - 1 if high is not None and high == atom.value else high
        else:
            other_low, other_high = atom.interval()
            low = other_low if low is None else low if other_low is None else max(low, other_low)
            high = other_high if high is None else high if other_high is None else min(high, other_high)
        if low is not None and high is not None and low > high:
            return None
        cut[index] = low, high
    return tuple(cut)


def shifted(interval: Interval, effect: Effect) -> Interval:
    """Return the interval of all sums of a value and an amount of the effect."""
    low, high = interval
    return (
        None if low is None or effect.low is None else low + effect.low,
        None if high is None or effect.high is None else high + effect.high,
    )


def classes_within(interval: Interval, variable: Variable, window: Window) -> list[Interval]:
    """Return the classes of the window that meet the interval and the variable's bounds.

    >>> classes_within((1, None), Variable("x"), (0, 2))
    [(1, 1), (2, 2), (3, None)]
    """
    first, last = window
    low, high = interval
    low = variable.lower if low is None else low if variable.lower is None else max(low, variable.lower)
    high = variable.upper if high is None else high if variable.upper is None else min(high, variable.upper)
    if low is not None and high is not None and low > high:
        return []
    classes: list[Interval] = []
    if (low is None or low < first) and (variable.lower is None or variable.lower < first):
        classes.append((variable.lower, first - 1))
    start = first if low is None else max(low, first)
    stop = last if high is None else min(high, last)
    classes.extend((value, value) for value in range(start, stop + 1))
    if (high is None or high > last) and (variable.upper is None or variable.upper > last):
        classes.append((last + 1, variable.upper))
    return classes
