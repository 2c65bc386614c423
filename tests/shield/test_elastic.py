"""Options that an elastic linear program proposes: what it says of them, and that the enlargement makes safe sets of it."""

import itertools
import random
from fractions import Fraction

import numpy as np

from polvet.mdp import Reach, solve
from polvet.shield import permit
from polvet.shield.elastic import ElasticProgram
from polvet.shield.least_risk import find_goal_seeds, find_least_risk
from polvet.shield.permissive import Permitted, is_safe
from polvet.shield.world import induce_permitted
from tests.shield import oracle


def binding_worlds(count: int):
    """Random worlds with a bound that everything together breaks and the least risky scheduler keeps."""
    for seed in itertools.count():
        rng = random.Random(seed)
        world, choices, fail = oracle.random_world(rng, states=6)
        least, most = oracle.least(choices, fail), oracle.worst(choices, [list(range(len(c))) for c in choices], fail)
        if least < most:
            yield rng, world, choices, fail, least + (most - least) * Fraction(rng.randint(1, 9), 10)
            count -= 1
        if not count:
            return


def kept_of(world):
    option = find_least_risk(world).option
    kept = np.zeros(world.options, dtype=bool)
    kept[option[~world.ended]] = True
    return kept


def test_what_is_proposed_keeps_the_bound_and_what_must_stay():
    missing = 0
    for _, world, _, _, bound in binding_worlds(100):
        kept = kept_of(world)
        program = ElasticProgram(world, float(bound), kept)
        for _ in range(3):
            found = program.propose()
            assert found.permitted[kept].all()
            # Above the bound by the solver's tolerance at most: what is permitted meets the program's values.
            sub = induce_permitted(world, found.permitted)
            assert solve(sub.mdp, Reach(goal=sub.fail)).lower <= float(bound) + 1e-6
            assert (found.order[found.permitted] <= 1e-6).all()
            assert (found.order[~found.permitted] > 0).all()
            missing += int((~found.permitted).sum())
    assert missing > 100


def test_an_exchange_holds_options_that_were_forbidden():
    exchanged = 0
    for rng, world, _, _, bound in binding_worlds(250):
        kept = kept_of(world)
        program = ElasticProgram(world, float(bound), kept)
        best = program.propose().permitted
        everywhere = np.ones(world.options, dtype=bool)
        found = program.exchange(best, everywhere, np.random.default_rng(rng.randrange(99)))
        if found is None:  # some forbidden ones can never be allowed beside what is kept
            assert not is_safe(world, kept | ~best, bound)
            continue
        assert (found.permitted & ~best).any()
        assert found.permitted[kept].all()
        exchanged += 1
    assert exchanged > 20


def test_with_proposals_sets_are_as_large_as_the_largest_in_most_small_worlds():
    largest = count = 0
    for rng, world, choices, fail, bound in binding_worlds(40):
        result = permit(world, bound, rng=rng)
        assert isinstance(result, Permitted)
        best = 0
        for number in range(2**world.options):
            mask = np.array([number >> k & 1 for k in range(world.options)], dtype=bool)
            sets = oracle.sets_of(world, mask)
            if all(sets[s] or not choices[s] for s in oracle.reached(choices, sets)):
                size = sum(len(sets[s]) for s in oracle.reached(choices, sets))
                if size > best and oracle.worst(choices, sets, fail) <= bound:
                    best = size
        assert result.count <= best
        largest += result.count == best
        count += 1
    assert largest >= 0.9 * count


def test_proposals_find_more_where_single_additions_end_early():
    """ComExp 6,6,6: a cut of a few dozen actions keeps the bound; adding one by one spends it near the start."""
    from benchmarks.shields import world_of

    world, bound = world_of(3)
    assert find_goal_seeds(world, bound)
    one, many = (permit(world, bound, attempts=attempts) for attempts in (1, 6))
    assert isinstance(one, Permitted)
    assert isinstance(many, Permitted)
    assert many.maximal
    assert many.count > 1.2 * one.count
