"""Does a sketch end? Decided over the patterns of few features, more of them only where a cycle cannot be told off without.

All features but the kept ones are counters (see `polvet.policy.finite_memory.projection`). A ranking of the projection is
one of the sketch. Otherwise the complete test gives a closed walk of rules. Features change independently of each other,
so whether the sketch itself can follow the walk is asked of each feature on its own: its patterns are two, and a round of
the walk is a relation between them. If some feature cannot follow, it is kept from now on; if all can, their patterns
make control states, and the walk between them is a lasso.

Cost     exponential in the number of *kept* features only; at most one test per feature
"""

from __future__ import annotations

from collections.abc import Sequence

from polvet.budget import UNLIMITED, Budget
from polvet.check.lasso import check_replay
from polvet.errors import LimitReached
from polvet.files import Figures
from polvet.policy.finite_memory import FiniteMemoryPolicy, Multigraph, dump_fmp, normalise
from polvet.policy.finite_memory.features import Pattern, Rule, state_name
from polvet.policy.finite_memory.projection import Place, fits, part_between, project, single_rules
from polvet.policy.finite_memory.sketch import Sketch
from polvet.termination.complete import Cycle, find_ranking
from polvet.termination.decide import checked_terminating, size_of
from polvet.termination.lasso import find_path, join_walks
from polvet.termination.realise import realise_walk
from polvet.termination.verdicts import Nonterminating, TerminationResult, Unknown

METHOD = "projection"
LONGEST = 2_000
"""Of a closed walk, in rules; one that is longer only tells that more features must be kept."""
Relation = frozenset[tuple[bool, bool]]


def sketch_terminates(
    sketch: Sketch, budget: Budget = UNLIMITED
) -> tuple[TerminationResult, FiniteMemoryPolicy | None]:
    """Return whether every execution of the sketch's rules ends, and the policy that the certificate speaks of."""
    names, rules = sketch.features.names, single_rules(sketch)
    kept: list[str] = []
    figures: Figures = {"features": len(names), "rules": len(sketch.rules), "kept_features": 0}
    try:
        while True:
            figures["kept_features"] = len(kept)
            plan, origins = project(sketch, kept, budget)
            graph = normalise(plan, budget=budget)
            outcome = find_ranking(graph, budget=budget)
            if not isinstance(outcome, Cycle):
                ordered = [name for name in names if name in kept]
                ranking = {"kind": "lex-rank", "features": ordered, "components": outcome.components}
                return checked_terminating(graph, ranking, METHOD, {**figures, **size_of(graph)}, budget), plan
            prefix, cycle = _walk(graph, outcome, origins)
            unable = _unable(sketch, rules, [*prefix], [*cycle], kept)
            if unable is None:
                return _lasso(sketch, [rules[i] for i in prefix], [rules[i] for i in cycle], figures, budget)
            kept.append(unable)
    except LimitReached as limit:
        kind = "; to be kept were " + ", ".join(kept) if kept else ""
        return Unknown(f"{limit}{kind}", METHOD, figures, limit=limit.kind), None


def _walk(graph: Multigraph, outcome: Cycle, origins: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the rules on the way to the closed walk and around it; the walk is cut where it is too long."""
    segments = join_walks(outcome)
    cycle: list[int] = []
    for walk, repeat in segments:
        cycle += (walk * min(repeat, LONGEST))[: LONGEST + 1 - len(cycle)]
    way = find_path(graph, graph.edges[segments[0][0][0]].source)
    return [origins[graph.edges[e].edge] for e in way], [origins[graph.edges[e].edge] for e in cycle]


def _unable(sketch: Sketch, rules: list[Rule], prefix: list[int], cycle: list[int], kept: list[str]) -> str | None:
    """Return a feature that cannot follow the rules for ever, the one that most conditions speak of; None if all can."""
    candidates = []
    for index, name in enumerate(sketch.features.names):
        if name in kept:
            continue
        way, around = ([_relation(rules[rule], index) for rule in some] for some in (prefix, cycle))
        if len(cycle) > LONGEST or _patterns(way, around) is None:
            candidates.append((sum(index in rule.conditions[0] for rule in rules), -index, name))
    return max(candidates)[2] if candidates else None


def _relation(rule: Rule, index: int) -> Relation:
    """Return which patterns of the feature the rule allows before and after it."""
    return frozenset(
        (before, after)
        for before in (False, True)
        for after in (False, True)
        if rule.conditions[0].get(index, before) == before
        and rule.after.get(index, after) == after
        and fits(rule.changes.get(index), before, after)
    )


def _patterns(prefix: Sequence[Relation], cycle: Sequence[Relation]) -> tuple[bool, ...] | None:
    """Return patterns along the prefix and two rounds of the cycle that can be repeated, or None if there are none."""
    for here in (False, True):
        for rounds in (1, 2):  # a relation on two patterns that has a cycle has one of at most two rounds
            way, around = _path(prefix, None, here), _path([*cycle] * rounds, here, here)
            if way is not None and around is not None:
                return (*way, *(around[1:] * (2 // rounds)))
    return None


def _path(relations: Sequence[Relation], start: bool | None, end: bool) -> list[bool] | None:
    """Return patterns, one more than there are relations, that follow each other from the start, or any, to the end."""
    layers: list[dict[bool, bool]] = []
    able = {False, True} if start is None else {start}
    for relation in relations:
        layers.append({after: before for before, after in sorted(relation) if before in able})
        able = set(layers[-1])
    if end not in able:
        return None
    path = [end]
    for layer in reversed(layers):
        path.append(layer[path[-1]])
    return path[::-1]


def _lasso(
    sketch: Sketch, prefix: list[Rule], cycle: list[Rule], figures: Figures, budget: Budget
) -> tuple[TerminationResult, FiniteMemoryPolicy | None]:
    """Return the verdict with the lasso along the rules; the patterns of the features exist, Z3 proposes amounts."""
    names = sketch.features.names
    ways = [
        _patterns([_relation(rule, i) for rule in prefix], [_relation(rule, i) for rule in cycle])
        for i in range(len(names))
    ]
    if any(way is None for way in ways):
        raise AssertionError("a closed walk through kept features cannot be followed")
    walk = [*prefix, *cycle, *cycle]
    patterns: list[Pattern] = (
        [tuple(bool(x) for x in step) for step in zip(*(way or () for way in ways), strict=True)]
        if names
        else [()] * (len(walk) + 1)
    )
    places: list[Place] = [(sketch.memory[0], patterns[0])]
    for rule, pattern in zip(walk, patterns[1:], strict=True):
        places.append((rule.following or places[-1][0], pattern))
    half = len(prefix) + len(cycle)
    if places[half] == places[len(prefix)]:
        walk, places = walk[:half], places[: half + 1]
    plan = part_between(sketch, places)
    graph = normalise(plan, budget=budget)
    steps = _steps(sketch, graph, walk, places)
    outcome = realise_walk(graph, steps[: len(prefix)], steps[len(prefix) :], budget)
    figures = {**figures, **size_of(graph)}
    if outcome is None or (problem := check_replay(plan, outcome)) is not None:
        why = "no amounts were found in time" if outcome is None else f"its amounts do not replay: {problem}"
        return Unknown(
            f"the rules can be followed around a cycle of {len(cycle)} steps, but {why}", METHOD, figures
        ), plan
    listed = [[memory, "".join("01"[value] for value in pattern)] for memory, pattern in dict.fromkeys(places)]
    return Nonterminating({**outcome, "between": listed, "fmp": dump_fmp(plan)}, METHOD, figures), plan


def _steps(sketch: Sketch, graph: Multigraph, walk: Sequence[Rule], places: Sequence[Place]) -> list[int]:
    """Return the walk as primitive edges of the graph, looked up by their ends and their rule."""
    number = {name: index for index, name in enumerate(graph.names)}
    known = {
        (one.source, one.target, graph.fmp.edges[one.edge].choices[0].action): index
        for index, one in enumerate(graph.edges)
    }
    ends = [number[state_name(sketch.features, *place)] for place in places]
    return [known[source, target, rule.label] for source, target, rule in zip(ends, ends[1:], walk, strict=False)]
