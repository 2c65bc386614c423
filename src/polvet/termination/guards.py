"""Policies whose guards are not upward closed: undecidable in general, so proofs and lassos are tried in turn.

  1. drop the guards: if the policy ends without them, it ends (done by the complete test before this file is asked);
  2. `find_guarded_ranking` on the plain multigraph: guards bound variables that have no bounds of their own;
     then with relations between two variables that always hold (`relations`): steps that contradict them are left out;
  3. with *tracked* variables: values inside a window that covers every constant of their guards are kept exactly in
     the control state, so guards are decided there. First a cycle among the tracked nodes that never has to guess
     when a variable re-enters its window, or a cycle for which Z3 finds amounts; replayed;
  4. then `find_guarded_ranking` on the tracked multigraph;
  5. `find_bounded_lasso`: all configurations in small boxes; then small concrete runs that leave them, and come back to
     a configuration, or to a larger one; replayed with guards;
  6. recurrent sets, for executions that never repeat.
Every answer is checked before it is given. Otherwise the verdict is unknown, with the list of what was tried.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.check.lasso import check_replay
from polvet.errors import LimitReached
from polvet.files import Json
from polvet.policy.finite_memory import FiniteMemoryPolicy, Multigraph, Valuation, Variable, Window, normalise, portable
from polvet.policy.finite_memory.relations import Interval
from polvet.termination.bounded_search import find_bounded_lasso
from polvet.termination.complete import Cycle, Ranking, find_ranking
from polvet.termination.guarded_ranking import find_guarded_ranking
from polvet.termination.lasso import Segment, find_path, join_walks, name_step, write_lasso
from polvet.termination.realise import MAX_STEPS, realise_walk
from polvet.termination.recurrent import find_recurrent_set
from polvet.termination.relations import find_relations, written
from polvet.termination.walks import Row, rows_of

MAX_NODES = 20_000
MAX_SPAN = 2_000
"""The widest window that is tracked exactly."""
CONCRETE_STARTS, CONCRETE_LENGTH, MOST_REPLAYS = 60, 80, 400
"""How many small concrete runs are looked at, how long each is, and how many lassos on them are replayed."""
MOST_SECONDS = 60.0
"""How long the methods try where no limit is given."""


def windows_of(fmp: FiniteMemoryPolicy) -> dict[str, Window]:
    """Return a window for every variable with guards, and for those with two bounds: all constants, all values."""
    constants: dict[str, list[int]] = {}
    for edge in fmp.edges:
        for atoms in edge.guard:
            for atom in atoms:
                constants.setdefault(atom.variable, []).append(atom.value)
    windows: dict[str, Window] = {}
    for variable in fmp.variables:
        window = _window(variable, constants.get(variable.name, []))
        if window is not None and window[1] - window[0] <= MAX_SPAN:
            windows[variable.name] = window
    return windows


def _window(variable: Variable, constants: Sequence[int]) -> Window | None:
    if variable.lower is not None and variable.upper is not None:
        return variable.lower, variable.upper
    if not constants:
        return None
    first, last = min(constants), max(constants)
    if variable.lower is not None:
        first, last = variable.lower, max(last, variable.lower)
    if variable.upper is not None:
        first, last = min(first, variable.upper), variable.upper
    return first, last


def prove_with_guards(
    fmp: FiniteMemoryPolicy, *, budget: Budget = UNLIMITED, seed: int = 0
) -> tuple[Json | None, list[str], LimitReached | None]:
    """Return a certificate, what was tried, and the limit that ended it; no certificate means unknown.

    Nothing bounds the time that these methods may take on a small policy: without a limit they get `MOST_SECONDS`.
    """
    tried = ["without guards"]
    within = budget if budget.seconds is not None else budget.at_most(MOST_SECONDS)
    try:
        return _try_in_turn(fmp, within, seed, tried), tried, None
    except LimitReached as limit:
        return None, tried, limit


def _try_in_turn(fmp: FiniteMemoryPolicy, budget: Budget, seed: int, tried: list[str]) -> Json | None:
    """Return a certificate, if a method finds one; `tried` grows with every method that is tried."""
    plain = find_guarded_ranking(normalise(fmp, budget=budget), budget=budget)
    tried.append("a ranking bounded by guards")
    if isinstance(plain, Ranking):
        return {"kind": "lex-rank", "components": plain.components}
    relations = find_relations(fmp, budget)
    if relations:
        tried.append("relations between two variables")
        related = find_guarded_ranking(normalise(fmp, relations=relations, budget=budget), budget=budget)
        if isinstance(related, Ranking):
            return {"kind": "lex-rank", "relations": written(fmp, relations), "components": related.components}
    for windows in _shrinking(windows_of(fmp)):
        names = ", ".join(f"{name} in {first}..{last}" for name, (first, last) in windows.items())
        try:
            graph = normalise(fmp, windows, max_nodes=MAX_NODES, budget=budget)
        except LimitReached as limit:
            if limit.kind is not None:
                raise
            tried.append(f"tracking {names}: more than {MAX_NODES} nodes")
            continue
        tried.append(f"tracking {names}")
        lasso = _find_tracked_lasso(graph, budget) or _find_realised_lasso(graph, budget)
        if lasso is not None:
            return lasso
        for held in ({}, relations) if relations else ({},):
            narrower = normalise(fmp, windows, relations=held, max_nodes=MAX_NODES, budget=budget) if held else graph
            ranking = find_guarded_ranking(narrower, budget=budget)
            if isinstance(ranking, Ranking):
                tracked = {name: [portable(first), portable(last)] for name, (first, last) in windows.items()}
                certificate = {"kind": "lex-rank", "tracked": tracked, "components": ranking.components}
                return {**certificate, "relations": written(fmp, held)} if held else certificate
        break
    tried.append("all configurations in small boxes")
    if (lasso := find_bounded_lasso(fmp, budget)) is not None:
        return lasso
    tried.append("small concrete runs")
    lasso = find_concrete_lasso(fmp, rng=random.Random(seed), budget=budget)
    if lasso is not None:
        return lasso
    tried.append("recurrent sets")
    return find_recurrent_set(fmp, budget=budget)


def _shrinking(windows: dict[str, Window]) -> list[dict[str, Window]]:
    """Return the windows, then without the widest, and so on."""
    order = sorted(windows, key=lambda name: windows[name][1] - windows[name][0])
    return [{name: windows[name] for name in order[:count]} for count in range(len(order), 0, -1)]


def _find_tracked_lasso(graph: Multigraph, budget: Budget) -> Json | None:
    """Return a lasso along tracked nodes that no variable leaves its outer class on."""
    firm = [index for index, edge in enumerate(graph.edges) if not _re_enters(graph, edge.source, edge.target)]
    names = [variable.name for variable in graph.fmp.variables]

    def rows_for(nodes: Sequence[int]) -> list[Row]:
        rows = set(rows_of(graph))
        for name, (low, high) in zip(graph.tracked, graph.nodes[nodes[0]].classes, strict=True):
            if low is None or high is None:
                rows.add(Row(names.index(name), 1 if high is None else -1))
        return sorted(rows, key=lambda row: (row.variable, row.sign))

    outcome = find_ranking(graph, edges=firm, rows_for=rows_for, budget=budget)
    if not isinstance(outcome, Cycle):
        return None
    segments = join_walks(outcome)
    start = graph.edges[segments[0][0][0]].source
    for allowed in (firm, None):
        try:
            prefix = find_path(graph, start, allowed)
        except KeyError:  # not reachable along firm edges
            continue
        for lasso in (write_lasso(graph, prefix, segments), _realised(graph, prefix, segments, budget)):
            if lasso is not None and check_replay(graph.fmp, lasso) is None:
                return lasso
    return None


def _find_realised_lasso(graph: Multigraph, budget: Budget) -> Json | None:
    """Return a lasso along a cycle that sustains without guards, with amounts that also meet the guards."""
    outcome = find_ranking(graph, budget=budget)
    if not isinstance(outcome, Cycle):
        return None
    segments = join_walks(outcome)
    lasso = _realised(graph, find_path(graph, graph.edges[segments[0][0][0]].source), segments, budget)
    return lasso if lasso is not None and check_replay(graph.fmp, lasso) is None else None


def _realised(graph: Multigraph, prefix: Sequence[int], segments: Sequence[Segment], budget: Budget) -> Json | None:
    if sum(len(walk) * repeat for walk, repeat in segments) > MAX_STEPS:
        return None
    return realise_walk(graph, prefix, [edge for walk, repeat in segments for edge in walk * repeat], budget)


def _re_enters(graph: Multigraph, source: int, target: int) -> bool:
    def outer(interval: Interval) -> bool:
        return interval[0] is None or interval[1] is None or interval[0] < interval[1]

    pairs = zip(graph.nodes[source].classes, graph.nodes[target].classes, strict=True)
    return any(outer(before) and before != after for before, after in pairs)


def find_concrete_lasso(
    fmp: FiniteMemoryPolicy,
    *,
    rng: random.Random,
    budget: Budget = UNLIMITED,
) -> Json | None:
    """Return a lasso met by following the policy from small valuations, if one of them replays for ever."""
    replays = MOST_REPLAYS
    for state, start in _small_starts(fmp, rng, CONCRETE_STARTS):
        budget.check()
        here, values = state, dict(start)
        trail: list[tuple[str, Valuation]] = [(here, dict(values))]
        steps: list[Any] = []
        for _ in range(CONCRETE_LENGTH):
            options = _options(fmp, here, values)
            if not options:
                break
            step, here, values = rng.choice(options)
            steps.append(step)
            for index in range(len(trail) - 1, -1, -1):
                if replays > 0 and trail[index][0] == here and _is_no_less(fmp, trail[index][1], values):
                    lasso = {
                        "kind": "lasso",
                        "initial_valuation": {name: portable(value) for name, value in start.items()},
                        "prefix": steps[:index],
                        "cycle": [{"edges": steps[index:], "repeat": 1}],
                    }
                    replays -= 1
                    if check_replay(fmp, lasso) is None:
                        return lasso
            trail.append((here, dict(values)))
    return None


def _small_starts(fmp: FiniteMemoryPolicy, rng: random.Random, count: int) -> list[tuple[str, Valuation]]:
    def small(variable: Variable) -> list[int]:
        origin = variable.lower if variable.lower is not None else variable.upper
        low, high = (origin or 0) - 3, (origin or 0) + 3
        return [value for value in range(low, high + 1) if variable.admits(value)]

    choices = [small(variable) for variable in fmp.variables]
    names = [variable.name for variable in fmp.variables]
    total = 1
    for values in choices:
        total *= len(values)
    if total <= count:
        points = [dict(zip(names, point, strict=True)) for point in product(*choices)]
    else:
        points = [{name: rng.choice(values) for name, values in zip(names, choices, strict=True)} for _ in range(count)]
    return [(state, point) for point in points for state in fmp.initial]


def _options(fmp: FiniteMemoryPolicy, here: str, values: Valuation) -> list[tuple[Any, str, Valuation]]:
    """Return the steps that are possible, with the ends of intervals as amounts."""
    outcome = []
    for edge in fmp.edges:
        if edge.source != here or not edge.is_open(values):
            continue
        for number, choice in enumerate(edge.choices):
            per_variable = []
            for variable in fmp.variables:
                effect = fmp.effect(choice, variable.name)
                low = effect.low if effect.low is not None else (effect.high if effect.high is not None else 0) - 2
                high = effect.high if effect.high is not None else max(low, 0) + 2
                amounts = sorted({low, high, *([0] if effect.allows(0) else [])})
                per_variable.append([d for d in amounts if variable.admits(values[variable.name] + d)])
            for amounts_chosen in product(*per_variable):
                chosen = dict(zip((v.name for v in fmp.variables), amounts_chosen, strict=True))
                after = {name: value + chosen[name] for name, value in values.items()}
                outcome.append((name_step(fmp, edge, number, chosen), edge.target, after))
    return outcome


def _is_no_less(fmp: FiniteMemoryPolicy, before: Valuation, after: Valuation) -> bool:
    return all(
        (variable.lower is None or after[variable.name] >= before[variable.name])
        and (variable.upper is None or after[variable.name] <= before[variable.name])
        for variable in fmp.variables
    )
