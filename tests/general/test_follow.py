"""General policies on instances: right ones reach the goal on all of them, planted mistakes are found and shown."""

from __future__ import annotations

import pytest

from polvet.errors import InputError, Where
from polvet.features.instances import read_instance
from polvet.general.follow import follow
from polvet.pddl.parse import parse_domain
from polvet.policy.finite_memory.sketch import expand, read_sketch
from polvet.policy.finite_memory.valuations import meanings_of
from polvet.termination.decide import terminates
from polvet.termination.verdicts import Terminating
from tests.general.worlds import WORLDS

INSTANCES = range(20)


def followed(world, policy, seed, **given):
    sketch = read_sketch(policy, Where("policy.txt"))
    instance = read_instance(
        world.instance(seed), Where(f"p{seed}.pddl"), parse_domain(world.domain, Where("domain.pddl"))
    )
    return follow(sketch, meanings_of(sketch, given.pop("functions", {})), instance, **given)


@pytest.mark.parametrize("name", WORLDS)
def test_a_right_policy_reaches_the_goal_on_twenty_instances_and_is_proved_to_end(name):
    world = WORLDS[name]
    assert isinstance(terminates(expand(read_sketch(world.policy, Where("s")))), Terminating)
    for seed in INSTANCES:
        found = followed(world, world.policy, seed)
        assert found.failure is None
        for place, following in found.steps.items():
            assert following or found.instance.is_goal(place[1])
            assert all(found.ranks[one] < found.ranks[place] for one in following)


@pytest.mark.parametrize(("name", "mistake"), [(name, mistake) for name in WORLDS for mistake in WORLDS[name].mistakes])
def test_a_planted_mistake_is_found_and_its_run_can_be_executed(name, mistake):
    world = WORLDS[name]
    old, new, kind = world.mistakes[mistake]
    assert old in world.policy
    found = next(
        one for seed in INSTANCES if (one := followed(world, world.policy.replace(old, new), seed)).failure is not None
    )
    failure, instance = found.failure, found.instance
    assert failure.kind == kind
    assert failure.places[0][1] == instance.initial
    for (_, before), action, (_, after) in zip(failure.places, failure.actions, failure.places[1:], strict=False):
        assert after in dict(instance.moves(before))[action]
        assert not instance.is_goal(before)
    if kind == "cycle":
        assert failure.places[failure.back_to] == failure.places[-1]
    if kind == "stuck":
        assert not instance.is_goal(failure.places[-1][1])


def test_features_may_be_python_functions():
    policy = "boolean E\nnumeric n\nE, n > 0 -> !E, n-down\n!E, n > 0 -> E"

    def n(state):
        (target,) = [atom[1] for atom in state.goal]
        below = {atom[2]: atom[1] for atom in state.atoms if atom[0] == "on"}
        count = 0
        while target in below:
            target, count = below[target], count + 1
        return count

    functions = {"E": lambda state: ("handempty",) in state.atoms, "n": n}
    world = WORLDS["blocks"]
    for seed in INSTANCES:
        expected = followed(world, world.policy, seed)
        assert followed(world, policy, seed, functions=functions).ranks == expected.ranks
    with pytest.raises(InputError, match="answers -1"):
        followed(world, policy, 3, functions={**functions, "n": lambda state: -1})
    with pytest.raises(InputError, match="has no meaning"):
        followed(world, policy, 3)
