"""The MILP route: what it proposes is checked, and on small models nothing safe is larger."""

import random
from fractions import Fraction

import numpy as np

from polvet.budget import Budget
from polvet.shield.milp import permit_by_milp
from polvet.shield.world import reached_options
from tests.shield import oracle


def test_it_allows_as_many_reached_options_as_any_safe_set() -> None:
    rng = random.Random(2)
    compared = 0
    for _ in range(25):
        world, choices, fail = oracle.random_world(rng, states=4)
        bound = Fraction(2 * rng.randint(1, 9) + 1, 40)
        most = -1
        for number in range(2**world.options):
            mask = np.array([number >> k & 1 for k in range(world.options)], dtype=bool)
            sets = oracle.sets_of(world, mask)
            inside = oracle.reached(choices, sets)
            if all(sets[s] or not choices[s] for s in inside) and oracle.worst(choices, sets, fail) <= bound:
                most = max(most, int(reached_options(world, mask).sum()))
        answer = permit_by_milp(world, bound, budget=Budget(10))
        if answer.permitted is None:
            continue  # a bare "infeasible" proves nothing; nothing is asserted about it
        compared += 1
        assert oracle.worst(choices, oracle.sets_of(world, answer.permitted), fail) <= bound
        assert answer.count <= most <= answer.bound + 1e-6
    assert compared > 10
