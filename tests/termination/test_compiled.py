"""The compiled searches and the proposals of floating point, against slow twins and exact arithmetic."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from polvet import _core
from polvet.policy.finite_memory import Builder, normalise
from polvet.termination import balance
from polvet.termination.complete import Cycle, find_ranking
from polvet.termination.components import strong_components
from polvet.termination.decide import terminates
from polvet.termination.linear_system import solve_exactly
from polvet.termination.potentials import find_potential
from tests.termination.plans import iter_plans, sustains_by_z3
from tests.termination.test_complete import check


def graphs(seed, count):
    rng = random.Random(seed)
    for _ in range(count):
        size = rng.randint(1, 9)
        edges = [(rng.randrange(size), rng.randrange(size)) for _ in range(rng.randint(0, 20))]
        yield rng, size, edges, *(np.array([e[k] for e in edges], dtype=np.int64) for k in (0, 1))


def test_compiled_components_are_those_of_the_slow_twin_with_successors_first():
    for _, size, edges, sources, targets in graphs(1, 300):
        owner = _core.strong_components(size, sources, targets).tolist()
        found = {frozenset(v for v in range(size) if owner[v] == k) for k in range(max(owner, default=-1) + 1)}
        assert found == {frozenset(part) for part in strong_components(range(size), edges)}
        assert all(owner[s] >= owner[t] for s, t in edges if min(owner[s], owner[t]) >= 0)


@pytest.mark.parametrize("kind", ["whole", "real"])
def test_the_compiled_search_finds_potentials_where_the_slow_twin_does_and_true_cycles_elsewhere(kind):
    met = set()
    for rng, size, edges, sources, targets in graphs(2, 500):
        weights = [rng.randint(-6, 3) for _ in edges]
        search = _core.LongestWalks(size, sources, targets)
        if kind == "whole":
            given, start = np.array(weights, dtype=np.int64), np.array([rng.randint(-3, 3) for _ in range(size)])
            found = search.search_whole(given, 1, start)
            while found is None:  # one sweep at a time: the search goes on where it stopped
                found = search.search_whole(given, 1, None)
        else:
            found = search.search_real(np.array(weights, dtype=np.float64), 1e-9, 1000, np.zeros(size))
        potential, _ = find_potential(size, [s for s, _ in edges], [t for _, t in edges], weights)
        met.add(potential is None)
        assert isinstance(found, np.ndarray) == (potential is not None)
        if potential is not None:
            assert all(found[t] >= found[s] + w for (s, t), w in zip(edges, weights, strict=True))
            continue
        seen: set[int] = set()
        for cycle in found:
            assert sum(weights[e] for e in cycle) > 0
            assert all(edges[a][1] == edges[b][0] for a, b in zip(cycle, np.roll(cycle, -1), strict=True))
            assert seen.isdisjoint(edges[e][0] for e in cycle)
            seen |= {edges[e][0] for e in cycle}
    assert met == {True, False}


def test_a_compiled_tree_enters_every_reachable_node_by_a_shortest_path():
    for _, size, edges, sources, targets in graphs(3, 200):
        order, entered = _core.breadth_first(size, sources, targets)
        depth, layer = {0: 0}, [0]
        while layer:
            layer = list(dict.fromkeys(t for s, t in edges if s in layer and t not in depth))
            depth |= dict.fromkeys(layer, max(depth.values()) + 1)
        assert set(order.tolist()) == set(depth)
        for node in order.tolist()[1:]:
            source, target = edges[entered[node]]
            assert target == node
            assert depth[source] + 1 == depth[node]


def test_edges_outside_the_graph_are_refused():
    for sources, targets in (([0], [5]), ([-1], [0]), ([0, 0], [0])):
        ends = (np.array(sources, dtype=np.int64), np.array(targets, dtype=np.int64))
        for call in (_core.strong_components, _core.breadth_first, _core.LongestWalks):
            with pytest.raises(ValueError, match=r"graph|length"):
                call(2, *ends)


def test_exact_systems_are_solved_by_what_they_return():
    rng, singular = random.Random(4), 0
    for _ in range(200):
        size = rng.randint(1, 6)
        matrix = [[rng.randint(-2, 2) * rng.choice([1, 10**20]) for _ in range(size)] for _ in range(size)]
        right = [rng.randint(-9, 9) for _ in range(size)]
        found = solve_exactly(matrix, right)
        singular += found is None
        if found is not None:
            for row, value in zip(matrix, right, strict=True):
                assert sum((a * x for a, x in zip(row, found, strict=True)), Fraction(0)) == value
    assert 0 < singular < 150


def test_with_proposals_everywhere_verdicts_are_those_of_z3_and_evidence_checks(monkeypatch):
    monkeypatch.setattr(balance, "WORTH", 0)
    ends = 0
    for fmp in iter_plans(11, 80, states=(2, 5), variables=(1, 3)):
        result = terminates(fmp)
        check(fmp, result)
        cyclic = sustains_by_z3(fmp)
        assert (result.verdict.value == "nonterminating") == cyclic
        ends += not cyclic
    assert 10 < ends < 75


def test_with_and_without_proposals_the_verdict_is_the_same(monkeypatch):
    rng, kinds = random.Random(12), set()
    for number in range(6):
        fmp = tight_plan(rng, 60, 10, 0.9 if number % 2 else 0.3)
        answers = []
        for worth in (0, 10**12):
            monkeypatch.setattr(balance, "WORTH", worth)
            answers.append(isinstance(find_ranking(normalise(fmp)), Cycle))
            check(fmp, terminates(fmp))
        assert answers[0] == answers[1]
        kinds.add(answers[0])
    assert kinds == {True, False}


def tight_plan(rng, size, count, level):
    """Return a plan with a hidden ranking that the share `level` of its edges keeps exactly, the others lower."""
    weights = [1, *(rng.randint(1, 9) for _ in range(count - 1))]
    potential = [rng.randint(0, 5) for _ in range(size)]
    order = rng.sample(range(size), size)
    pairs = [(order[k - 1], order[k]) for k in range(size)] + [
        (rng.randrange(size), rng.randrange(size)) for _ in range(2 * size)
    ]
    builder = Builder("q0")
    for index in range(count):
        builder.variable(f"x{index}")
    for source, target in pairs:
        effects = {index: rng.randint(-3, 3) for index in rng.sample(range(1, count), 3)}
        slack = 0 if rng.random() < level else rng.randint(1, 3)
        effects[0] = -sum(weights[k] * d for k, d in effects.items()) - potential[target] + potential[source] - slack
        builder.edge(f"q{source}", f"q{target}", {f"x{k}": d for k, d in effects.items() if d})
    return builder.build()
