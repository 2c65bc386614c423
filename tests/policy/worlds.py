"""Random small tasks with random small policies, and the slow way to say what such a policy does."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from polvet.errors import InputError
from polvet.model.expressions import FALSE
from polvet.model.instantiate import instantiate
from polvet.model.semantics import Semantics, State
from polvet.model.task import PolicyReading, Task
from polvet.policy.binding import Fitted, fit
from polvet.policy.networks import network_of
from polvet.policy.rounding import possible_choices
from tests.strategies import booleans, models

MOST_STATES = 80


def random_network(rng, inputs, outputs, exact):
    """Weights that are small integers make exact ties likely; others make near ties unlikely."""
    sizes = [len(inputs), rng.integers(1, 6), len(outputs)]
    layers = []
    for width, neurons in pairwise(sizes):
        if exact:
            layers.append((rng.integers(-2, 3, (neurons, width)), rng.integers(-2, 3, neurons)))
        else:
            layers.append((rng.normal(size=(neurons, width)), rng.normal(size=neurons)))
    return network_of(layers, inputs, outputs)


@dataclass(frozen=True, slots=True)
class World:
    """A fitted policy and the states it may reach, all of them; `broken`: the model breaks a rule on the way."""

    fitted: Fitted
    semantics: Semantics
    starts: tuple[State, ...]


@st.composite
def worlds(draw: st.DrawFn) -> World | None:
    """A random task with a random network, or None where the model makes no sense, has no labels or is too large."""
    model = draw(models())
    fail, goal = draw(booleans(2)), draw(booleans(2) | st.just(FALSE))
    seed, exact, mode = draw(st.integers(0, 2**20)), draw(st.booleans()), draw(st.sampled_from(["filtered", "raw"]))
    try:
        network = instantiate(model)
        task = Task(network, network.resolve(fail), network.resolve(goal), None, PolicyReading(mode))
    except InputError:
        return None
    if not network.labels:
        return None
    rng = np.random.default_rng(seed)
    names = [variable.name for variable in network.variables]
    inputs = [name for name in names if rng.integers(3)] or names[:1]
    outputs = [label for label in network.labels if rng.integers(5)] or list(network.labels)
    rng.shuffle(inputs)
    rng.shuffle(outputs)
    fitted = fit(task, random_network(rng, inputs, outputs, exact))
    semantics = Semantics(network)
    starts = tuple(semantics.initial_states())
    try:
        if len(reached(World(fitted, semantics, starts))) > MOST_STATES:
            return None
    except InputError:
        return None
    return World(fitted, semantics, starts)


def ended(world: World, state: State) -> str | None:
    """How a run ends in the state, before the policy is asked."""
    if world.semantics.compile(world.fitted.task.fail)(state):
        return "fail"
    return "goal" if world.semantics.compile(world.fitted.task.goal)(state) else None


def all_choices(world: World, state: State) -> list[str | None]:
    """Labels that some evaluation order of the network takes; None stands for being stuck or for the pseudo-action."""
    fitted = world.fitted
    applicable = world.semantics.applicable(state)
    if not applicable:
        return [None]
    mask = np.array([[label in applicable for label in fitted.policy.outputs]])
    possible = possible_choices(fitted.policy, fitted.row(state), mask if fitted.filtered else None)[0]
    labels = [label for label, may, can in zip(fitted.policy.outputs, possible, mask[0], strict=True) if may and can]
    return labels or [None]


def successors(world: World, state: State, *, any_order: bool) -> set[State]:
    """Every state that may follow under the policy."""
    if ended(world, state):
        return set()
    moves = world.semantics.moves(state)
    if not any_order:
        return {o.state for move in world.fitted.followed(state, moves) for o in move.outcomes}
    if not world.semantics.applicable(state):
        return {o.state for move in moves for o in move.outcomes}
    labels = [label for label in all_choices(world, state) if label is not None]
    if not labels:
        return set()
    return {o.state for move in moves if move.label is None or move.label in labels for o in move.outcomes}


def reached(world: World, *, any_order: bool = True, starts=None) -> list[State]:
    """All states under the policy, breadth first; at most a few more than MOST_STATES."""
    found = dict.fromkeys(world.starts if starts is None else starts)
    for state in (order := list(found)):
        if len(order) > MOST_STATES:
            break
        for successor in sorted(successors(world, state, any_order=any_order)):
            if successor not in found:
                found[successor] = None
                order.append(successor)
    return order


def fail_probability(world: World, start: State, steps: int) -> Fraction:
    """Probability that a simulated run reaches fail within so many steps, by stepping the whole distribution."""
    mass, failed = {start: Fraction(1)}, Fraction(0)
    for step in range(steps + 1):
        following: dict[State, Fraction] = {}
        for state, weight in mass.items():
            end = ended(world, state)
            if end == "fail":
                failed += weight
            if end or step == steps:
                continue
            moves = world.fitted.followed(state, world.semantics.moves(state))
            for move in moves:
                for outcome in move.outcomes:
                    share = weight * outcome.probability / len(moves)
                    following[outcome.state] = following.get(outcome.state, Fraction(0)) + share
        mass = following
    return failed
