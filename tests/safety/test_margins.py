"""Margins equal what the decider says of every tightened `fail`; labels that keep a margin are told by trying all of them."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from polvet.budget import Budget
from polvet.domains import generate
from polvet.errors import LimitReached
from polvet.kernel.compiled import Words
from polvet.kernel.starts import Starts
from polvet.model.build import ModelBuilder
from polvet.model.expressions import FALSE, Binary, IntLiteral, Name, disjunction
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.safety.counters import NotCounted, find_counter
from polvet.safety.decide import SAFE, Decider
from polvet.safety.margins import UNKNOWN, UNSAFE_MARGIN, Margins

PLACES, ROOM = 6, 4


def counted_task(seed: int, *, falls: bool) -> Task:
    """Return a random walk over two variables on which some steps are counted, with loops that cost nothing and silent moves."""
    rng = random.Random(seed)
    m = ModelBuilder(f"counted_{seed}")
    x, y = m.int("x", 0, PLACES - 1, initial=0), m.int("y", 0, 1, initial=0)
    spent = m.int("spent", 0, ROOM + 3, initial=ROOM + 3 if falls else 0)
    for _ in range(rng.randint(6, 14)):
        outcomes = []
        count = rng.randint(1, 2)
        for _ in range(count):
            effect = {x: rng.randrange(PLACES)} if rng.random() < 0.7 else {y: 1 - y}
            growth = rng.choice([0, 0, 1, 1, 2])
            if growth:
                effect[spent] = spent - growth if falls else spent + growth
            outcomes.append((Fraction(1, count), effect))
        open_ = spent > 3 if falls else spent < ROOM
        guard = (
            (x == rng.randrange(PLACES)) & (y == rng.randrange(2)) if rng.random() < 0.5 else x == rng.randrange(PLACES)
        )
        label = None if rng.random() < 0.15 else rng.choice("abc")
        m.edge(label, guard=guard & open_, to=outcomes)
    m.labels("a", "b", "c")
    fail = spent <= 3 if falls else spent >= ROOM
    if rng.random() < 0.5:
        fail = fail | (x == PLACES - 1)
    goal = (x == PLACES - 2) & (spent > 3 if falls else spent < ROOM)
    return m.task(fail=fail, goal=goal if rng.random() < 0.7 else FALSE)


def all_states(task: Task) -> list[State]:
    """Return every state, reachable or not."""
    ranges = [range(int(one.lower or 0), int(one.upper or 0) + 1) for one in task.network.variables]
    return list(product(*ranges))


def tightened(task: Task, by: int) -> Task:
    """Return the task whose counter fails that much earlier."""
    counter = find_counter(task).counter
    variable = task.network.variables[counter.variable]
    assert variable.lower is not None
    assert variable.upper is not None
    if counter.falls:
        bound = Binary("≤", Name(variable.name), IntLiteral(int(variable.upper) - counter.ceiling + by))
    else:
        bound = Binary("≥", Name(variable.name), IntLiteral(int(variable.lower) + counter.ceiling - by))
    return replace(task, fail=disjunction(task.fail, bound))


def exact_margins(task: Task, states: Words) -> np.ndarray:
    """Return by how much the bound can be tightened with each state still safe; -1 where it is not safe as it is."""
    margin = np.full(len(states), UNSAFE_MARGIN)
    for by in range(find_counter(task).counter.ceiling):
        margin[Decider(tightened(task, by)).known_packed(states) == SAFE] = by
    return margin


def exact_best(task: Task, decider: Decider, state: Words, margin: int) -> set[int]:
    """Return the labels all of whose outcomes are safe under a bound tightened by the margin."""
    judged = decider.judge_actions_packed(state.reshape(1, -1))[0]
    assert judged is not None
    return {task.network.labels.index(label) for label, safe in judged if safe and label is not None}


@pytest.mark.parametrize("falls", [False, True])
def test_margins_of_random_tasks_are_those_of_every_tightened_decider(falls):
    margins_met: set[int] = set()
    for seed in range(40):
        task = counted_task(seed, falls=falls)
        margins = Margins(task, toward_goal=False)
        assert margins.counter.falls is falls
        states = margins.compiled.pack(all_states(task))
        exact = exact_margins(task, states)
        judged = margins.judge(states)
        assert judged.margin.tolist() == exact.tolist()
        assert margins.margins(states).tolist() == exact.tolist()
        deciders = {by: Decider(tightened(task, by)) for by in set(exact.tolist()) if by >= 0}
        for k in range(0, len(states), 5):
            if exact[k] >= 0:
                best = exact_best(task, deciders[int(exact[k])], states[k], int(exact[k]))
                assert set(np.flatnonzero(judged.best[k]).tolist()) == best
        margins_met |= set(exact.tolist())
    assert margins_met == set(range(-1, ROOM))


def test_with_journeys_a_margin_is_never_more_than_there_is_and_its_labels_keep_it():
    for seed in range(30):
        task = counted_task(seed, falls=False)
        margins = Margins(task)
        states = margins.compiled.pack(all_states(task))
        exact, judged = exact_margins(task, states), margins.judge(states)
        assert (judged.margin <= exact).all()
        for by in {by for by in judged.margin.tolist() if by >= 0}:
            decider = Decider(tightened(task, by))
            for k in np.flatnonzero(judged.margin == by)[::7]:
                assert set(np.flatnonzero(judged.best[k]).tolist()) <= exact_best(task, decider, states[k], by)


@pytest.mark.parametrize("jigs", [3, 4])
def test_journeys_change_no_margin_of_beluga(jigs):
    task = generate("beluga", jigs=jigs).task()
    margins, plain = Margins(task), Margins(task, toward_goal=False)
    assert len(margins.journeys) == jigs
    states = plain.compiled.explore(plain.compiled.pack_starts(Starts.of(task)), stop_at=[0, 1]).states()
    exact = exact_margins(task, states)
    for one in (margins, plain):
        assert one.judge(states).margin.tolist() == exact.tolist()
    assert (margins.judge(states).best == plain.judge(states).best).all()
    assert len(set(exact.tolist())) == jigs - 1


@pytest.mark.parametrize(
    ("fail", "reset", "why"),
    [
        ("x >= 3", None, "depends on 'x'"),
        ("x + spent >= 5", None, "no bound on a single variable"),
        ("spent >= 4", "0", "does not only raise 'spent'"),
        ("spent >= 4 || spent == 2", None, "another part of fail depends on 'spent'"),
    ],
)
def test_what_is_no_counter_is_refused_by_name(fail, reset, why):
    m = ModelBuilder("walk")
    x, spent = m.int("x", 0, 4, initial=0), m.int("spent", 0, 9, initial=0)
    m.edge("go", guard=x < 4, to={"x": x + 1, "spent": spent + 1 if reset is None else reset})
    m.edge("back", guard=x > 0, to={"x": x - 1})
    with pytest.raises(NotCounted, match=why):
        find_counter(m.task(fail=fail))


def test_a_guard_that_reads_the_counter_is_refused_by_name():
    m = ModelBuilder("walk")
    x, spent = m.int("x", 0, 4, initial=0), m.int("spent", 0, 9, initial=0)
    m.edge("go", guard=spent < 2, to={"x": 1, "spent": spent + 1})
    with pytest.raises(NotCounted, match="whether 'go' is enabled depends on 'spent'"):
        find_counter(m.task(fail="spent >= 4", goal=x == 3))


def test_a_limit_leaves_margins_unknown_and_is_named():
    task = generate("beluga", jigs=6).task()
    margins = Margins(task)
    starts = margins.compiled.pack(Starts.of(task).sample(20, random.Random(0)))
    found = margins.margins(starts, budget=Budget(states=300))
    assert (found == UNKNOWN).any()
    assert isinstance(margins.stopped, LimitReached)
    assert (margins.margins(starts) == 2).all()
    assert margins.stopped is None
