from __future__ import annotations

import random

import z3

from polvet.termination.components import strong_components
from polvet.termination.cutting_plane import CuttingPlane
from polvet.termination.potentials import find_potential, find_potential_at_once


def test_both_ways_of_finding_potentials_agree_and_their_answers_check():
    rng = random.Random(1)
    answers = set()
    for _ in range(500):
        size, count = rng.randint(1, 8), rng.randint(1, 20)
        sources = [rng.randrange(size) for _ in range(count)]
        targets = [rng.randrange(size) for _ in range(count)]
        scale = rng.choice([1, 10**25])
        weights = [rng.randint(-5, 1) * scale for _ in range(count)]
        for find in (find_potential, find_potential_at_once):
            potential, cycles = find(size, sources, targets, weights)
            answers.add((find, potential is None))
            if potential is not None:
                assert all(
                    w + potential[t] - potential[s] <= 0 for s, t, w in zip(sources, targets, weights, strict=True)
                )
            else:
                assert cycles
            for cycle in cycles:
                assert sum(weights[edge] for edge in cycle) > 0
                assert all(targets[a] == sources[b] for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True))
    assert len(answers) == 4


def test_the_cutting_plane_finds_the_optimum_that_z3_finds_and_a_dual_that_proves_it():
    rng = random.Random(2)
    zeros = 0
    for _ in range(120):
        size = rng.randint(1, 5)
        objective = [rng.randint(-5, 5) for _ in range(size)]
        program, cuts = CuttingPlane(objective), []
        for _ in range(rng.randint(1, 8)):
            cuts.append([rng.randint(-4, 4) for _ in range(size)])
            program.add(cuts[-1])
            if rng.random() < 0.7:
                program.reoptimise()
        program.reoptimise()
        oracle = z3.Optimize()
        x = z3.Reals(" ".join(f"x{index}" for index in range(size)))
        oracle.add([z3.And(v >= 0, v <= 1) for v in x])
        oracle.add([z3.Sum([c * v for c, v in zip(cut, x, strict=True)]) <= 0 for cut in cuts])
        best = oracle.maximize(z3.Sum([c * v for c, v in zip(objective, x, strict=True)]))
        assert oracle.check() == z3.sat
        assert str(oracle.upper(best)) == str(program.value())
        if program.value() == 0:
            zeros += 1
            dual = program.multipliers()
            assert all(value > 0 for value in dual.values())
            for column in range(size):
                assert sum(value * cuts[cut][column] for cut, value in dual.items()) >= objective[column]
    assert zeros > 10


def test_strong_components_are_those_of_mutual_reachability():
    rng = random.Random(3)
    for _ in range(200):
        size = rng.randint(1, 7)
        edges = [(rng.randrange(size), rng.randrange(size)) for _ in range(rng.randint(0, 12))]
        reach = {(a, b) for a, b in edges}
        for middle in range(size):
            reach |= {(a, d) for a, b in reach for c, d in reach if b == c == middle}
        expected = {frozenset(b for b in range(size) if (a, b) in reach and (b, a) in reach) for a in range(size)}
        assert {frozenset(found) for found in strong_components(range(size), edges)} == expected - {frozenset()}
