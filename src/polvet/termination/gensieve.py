"""GenSieve: net changes over cycle paths and through paths of quotient graphs, along a directed elimination forest.

Source   Srivastava, "Hierarchical Decompositions and Termination Analysis for Generalized Planning", Algorithm 2.
         `gensieve` is the while loop, `_tree_paths` collects Pi(G, v) over a tree: `_cycle_paths` are Pi_c in the
         quotient graph, `_through_paths` are Pi_io; `Path.change` are net changes, from which IV, ZV and DV follow
Differs  as the text and not the print says: ZV counts only paths that touch the variable (Theorem 2's premise); the
         graph and its quotients are multigraphs; pDV collects sets as elements; the test for the empty set comes
         before edges are removed; lines 9 to 12 stand after the loop. Components are handled one by one.
         An effect counts with its best end; a variable that some edge of a component can raise without limit counts
         as increased. Variables bounded above only are mirrored, all others need a lower bound
Cost     exponential: all simple paths. `most_steps` limits the edges that forests and paths look at
Limits   sound, not complete; the answer depends on the forest
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from polvet.budget import UNLIMITED, Budget
from polvet.errors import LimitReached
from polvet.policy.finite_memory import Multigraph
from polvet.termination.decide import judge, size_of
from polvet.termination.elimination import Chooser, Tree, elimination_forest, lowest_remaining_height, random_vertex
from polvet.termination.forest_file import check_forest, choosers
from polvet.termination.method import Method, Request
from polvet.termination.trace import trace_lines, trace_rounds
from polvet.termination.verdicts import TerminationResult
from polvet.termination.walks import best_change, rows_of

Net = tuple[int, ...]
LOOK_EVERY = 512
"""Steps between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The while loop's body on one component: its tree, whether it proves termination, else which edges it removes."""

    tree: Tree
    proved: bool
    removed: tuple[int, ...]
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GenSieveTrace:
    """What GenSieve did; `proves_termination` is its answer "terminating", otherwise "unknown"."""

    rounds: tuple[tuple[Turn, ...], ...]  # per round the turns of all components that were left
    proves_termination: bool
    steps: int


class _Paths:
    """Enumerates paths of a multigraph under a limit on steps, within a budget."""

    def __init__(self, graph: Multigraph, most_steps: int | None, budget: Budget) -> None:
        self.graph, self._most_steps, self._budget, self.steps = graph, most_steps, budget, 0
        self.ends = [(edge.source, edge.target) for edge in graph.edges]
        # One row per variable: a variable bounded on both sides is followed at its lower bound.
        chosen: dict[int, int] = {}
        rows = rows_of(graph)
        for index, row in enumerate(rows):
            chosen.setdefault(row.variable, index)
        self.rows = [rows[index] for index in chosen.values()]
        self.names = [graph.fmp.variables[row.variable].name for row in self.rows]
        self.changes = [[best_change(edge, row) for row in self.rows] for edge in graph.edges]

    def spend(self, amount: int = 1) -> None:
        """Count steps, and stop when there are too many of them or the budget is used up."""
        self.steps += amount
        if self._most_steps is not None and self.steps > self._most_steps:
            raise LimitReached(f"GenSieve's budget of {self._most_steps} steps is used up", "steps")
        if amount > 1 or self.steps % LOOK_EVERY == 0:
            self._budget.check()

    def net(self, path: Sequence[int]) -> tuple[Net, frozenset[int]]:
        """Return the net change of every row, and the rows that some edge of the path touches."""
        total = [0] * len(self.rows)
        touched = set()
        for edge in path:
            for row, change in enumerate(self.changes[edge]):
                if change != 0:
                    touched.add(row)
                    total[row] += change or 0
        return tuple(total), frozenset(touched)

    def simple(
        self, start: int, goals: frozenset[int], leaving: dict[int, list[tuple[int, int]]], *, closed: bool
    ) -> Iterator[list[int]]:
        """Yield the paths from start to a goal that repeat no vertex; `closed` ones end where they started.

        `leaving` maps a vertex to (edge, next vertex). Paths that are not closed may be empty if start is a goal.
        """
        if not closed and start in goals:
            yield []
        path: list[int] = []
        visited = {start}
        stack = [iter(leaving.get(start, ()))]
        trail = [start]
        while stack:
            for edge, target in stack[-1]:
                self.spend()
                if closed and target == start:
                    yield [*path, edge]
                elif target not in visited:
                    path.append(edge)
                    visited.add(target)
                    trail.append(target)
                    if not closed and target in goals:
                        yield list(path)
                    stack.append(iter(leaving.get(target, ())))
                    break
            else:
                stack.pop()
                visited.discard(trail.pop())
                if path:
                    path.pop()


def gensieve(
    graph: Multigraph,
    choose: Chooser,
    *,
    given: Sequence[Chooser] = (),
    most_steps: int | None = 1_000_000,
    budget: Budget = UNLIMITED,
) -> GenSieveTrace:
    """Return GenSieve's rounds with one forest, chosen anew after every removal, first as is given; guards are dropped."""
    paths = _Paths(graph, most_steps, budget)
    rounds: list[tuple[Turn, ...]] = []
    edges = list(range(len(graph.edges)))
    while forest := elimination_forest(
        edges, paths.ends, given[len(rounds)] if len(rounds) < len(given) else choose, paths.spend
    ):
        turns = tuple(_turn(paths, tree) for tree in forest)
        rounds.append(turns)
        gone = {edge for turn in turns for edge in turn.removed}
        edges = [edge for turn in turns if turn.removed for edge in turn.tree.edges if edge not in gone]
    proved = all(turn.proved or turn.removed for turns in rounds for turn in turns)
    return GenSieveTrace(tuple(rounds), proved, paths.steps)


def _turn(paths: _Paths, tree: Tree) -> Turn:
    """Return one turn of the loop on one component."""
    increased: set[int] = set()
    unchanged: set[int] = set()
    endless = {row for edge in tree.edges for row, change in enumerate(paths.changes[edge]) if change is None}
    increased |= endless
    decreased: list[set[int]] = []
    for path in _tree_paths(paths, tree, tree):
        net, touched = paths.net(path)
        increased |= {row for row, change in enumerate(net) if change > 0}
        unchanged |= {row for row in touched if net[row] == 0}
        decreased.append({row for row, change in enumerate(net) if change < 0})
    lowered = [rows - increased for rows in decreased]
    if all(lowered):
        return Turn(tree, True, (), ())
    # SOUND: a variable with a path of net change 0 that touches it may be lowered for ever (Theorem 2's premise).
    usable = set().union(*lowered) - unchanged
    removed = tuple(edge for edge in tree.edges if any((paths.changes[edge][row] or 0) < 0 for row in usable))
    return Turn(tree, False, removed, tuple(paths.names[row] for row in sorted(usable)))


def _tree_paths(paths: _Paths, tree: Tree, whole: Tree) -> Iterator[list[int]]:
    """Yield Pi(G, v) of the node and of all its descendants."""
    agenda = [tree]
    while agenda:
        node = agenda.pop()
        yield from _cycle_paths(paths, node)
        if node is not whole:
            yield from _through_paths(paths, node, whole)
        agenda.extend(node.children)


def _cycle_paths(paths: _Paths, node: Tree) -> Iterator[list[int]]:
    """Yield Pi_c(G, v): the cycles through v in the quotient of G by the children of the node."""
    home = {vertex: -1 - index for index, child in enumerate(node.children) for vertex in child.vertices}
    inner = {edge for child in node.children for edge in child.edges}
    leaving: dict[int, list[tuple[int, int]]] = {}
    for edge in node.edges:
        if edge not in inner:
            source, target = paths.ends[edge]
            leaving.setdefault(home.get(source, source), []).append((edge, home.get(target, target)))
    yield from paths.simple(node.point, frozenset([node.point]), leaving, closed=True)


def _through_paths(paths: _Paths, node: Tree, whole: Tree) -> Iterator[list[int]]:
    """Yield Pi_io: the simple paths in G from where edges of the whole component enter G to where they leave it."""
    members = set(node.vertices)
    own = set(node.edges)
    leaving: dict[int, list[tuple[int, int]]] = {}
    for edge in node.edges:
        leaving.setdefault(paths.ends[edge][0], []).append((edge, paths.ends[edge][1]))
    entries, exits = set(), set()
    for edge in whole.edges:
        source, target = paths.ends[edge]
        if edge not in own:
            if target in members:
                entries.add(target)
            if source in members:
                exits.add(source)
    for entry in sorted(entries):
        for path in paths.simple(entry, frozenset(exits), leaving, closed=False):
            if path:
                yield path


def _terminates(graph: Multigraph, request: Request) -> TerminationResult:
    """Return the verdict of several forests: the lowest first, then random ones."""
    rng, budget = random.Random(request.seed), request.budget
    last: GenSieveTrace | None = None
    given = [] if request.forest is None else choosers(request.forest, graph)
    for attempt in range(1 if given else max(1, request.forests)):
        budget.check()
        choose = partial(lowest_remaining_height, budget=budget) if attempt == 0 else random_vertex(rng)
        last = gensieve(graph, choose, given=given, most_steps=request.most_steps, budget=budget)
        if last.proves_termination:
            break
    assert last is not None
    if request.forest is not None:
        check_forest(request.forest, graph, [[turn.tree for turn in turns] for turns in last.rounds])
    figures = {**size_of(graph), "forests": attempt + 1, "rounds": len(last.rounds), "steps": last.steps}
    figures["trace"] = trace_lines(graph, last)
    figures["trace_rounds"] = trace_rounds(graph, last)
    return judge(graph, last.proves_termination, "gensieve", figures, budget)


GENSIEVE = Method(
    "gensieve",
    "net changes over cycle and through paths along elimination forests (`--forests`, `--budget`)",
    "no",
    _terminates,
)
