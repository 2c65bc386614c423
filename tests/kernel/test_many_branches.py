"""Operators of several automata multiply: they are counted before they are made, and limits are looked at while they are made."""

from __future__ import annotations

import random
from math import prod

import numpy as np
import pytest

from polvet import _core
from polvet.budget import Budget
from polvet.errors import LimitReached
from polvet.kernel import lower
from polvet.kernel.compiled import Compiled
from polvet.kernel.starts import Starts
from polvet.model import semantics
from polvet.model.build import ModelBuilder
from polvet.policy.binding import fit
from polvet.policy.callables import CallablePolicy
from polvet.policy.compiled import compile_policy
from polvet.policy.runs import simulate
from polvet.verify.portfolio import verify


def choosers(sizes, values: int = 2):
    """Automata that step together: number k picks one of sizes[k] edges, each of one or several branches."""
    m = ModelBuilder("together")
    for k, branches in enumerate(sizes):
        one = m.automaton(f"m{k}")
        x = one.int("x", 0, values - 1, initial=0)
        for edge, count in enumerate(branches):
            outcomes = [(f"1/{count}", {x: (edge + n) % values}) for n in range(count)]
            one.edge("a", to=outcomes if count > 1 else {x: edge % values})
    m.synchronise("a", **{f"m{k}": "a" for k in range(len(sizes))})
    return m.network()


def branches_in(sizes) -> int:
    return prod(map(sum, sizes))


def test_more_operators_than_memory_holds_are_refused_before_one_is_made():
    network = choosers([[1] * 4] * 14, values=4)  # 4 ** 14 operators in every state
    with pytest.raises(LimitReached, match=r"268,435,456 operators of label 'a' are enabled in .*m0\.x=0"):
        Compiled(network).explore(budget=Budget(20, 500))
    with pytest.raises(LimitReached, match="268,435,456 operators"):
        semantics.Semantics(network).moves((0,) * 14)


@pytest.mark.parametrize("seed", range(40))
def test_kernel_and_interpreter_refuse_where_the_product_says(seed, monkeypatch):
    rng = random.Random(seed)
    most = rng.choice([8, 12, 30, 64])
    monkeypatch.setattr(lower, "MOST_BRANCHES", most)
    monkeypatch.setattr(semantics, "MOST_BRANCHES", most)
    sizes = [[rng.randint(1, 3) for _ in range(rng.randint(1, 4))] for _ in range(rng.randint(2, 3))]
    network = choosers(sizes)
    fits = branches_in(sizes) <= most
    compiled, state = Compiled(network), (0,) * len(sizes)
    if fits:
        moves = semantics.Semantics(network).moves(state)
        assert sum(len(move.outcomes) for move in moves) == branches_in(sizes)
        assert compiled.explore(budget=Budget()).status == _core.Status.DONE
    else:
        with pytest.raises(LimitReached, match=f"limit of {most} branches"):
            semantics.Semantics(network).moves(state)
        with pytest.raises(LimitReached, match=f"limit of {most} branches"):
            compiled.explore(budget=Budget())


@pytest.mark.threads
def test_states_with_many_operators_are_numbered_alike_by_any_number_of_threads():
    compiled = Compiled(choosers([[1] * 4] * 6 + [[1] * 8]))  # 2^15 branches in each of 2^7 states
    one, other = (compiled.explore(parents=True, threads=threads) for threads in (1, 2))
    assert (len(one), one.transitions) == (2**7, 2**22)
    assert (other.transitions, other.moves, other.expanded) == (one.transitions, one.moves, one.expanded)
    np.testing.assert_array_equal(one.states(), other.states())
    np.testing.assert_array_equal(one.parent, other.parent)


@pytest.mark.parametrize("threads", [1, 2])
def test_time_is_looked_at_however_few_states_have_the_operators(threads):
    compiled = Compiled(choosers([[1] * 4] * 9, values=4))  # 262,144 branches in each of as many states
    space = compiled.explore(budget=Budget(0.3), threads=threads)
    assert space.status == _core.Status.TIME
    assert space.expanded < 2_000  # as many as were expanded between two looks, when only states were counted


def slow_walk(length: int):
    """A chain of states, and a function as its policy that counts how often it is asked and takes its time."""
    m = ModelBuilder("walk")
    x = m.int("x", 0, length, initial=0)
    y = m.int("y", 0, 1_000, initial=0)
    m.edge("go", guard=x < length, to=[(f"1/{1_000}", {x: x + 1, y: n}) for n in range(1_000)])
    task = m.task(start=(x >= 0) & (x < 2_000) & (y < 2), fail=x > length)
    asked = []

    def function(state):
        asked.append(state)
        _wait()
        return "go"

    return compile_policy(fit(task, CallablePolicy(("x", "y"), ("go",), function))), asked


def starts_of(bound):
    return bound.compiled.pack_starts(Starts.of(bound.task), limit=2_000)


def _wait() -> None:
    sum(range(100_000))  # a millisecond or two; never so little that thousands of calls fit into the limit


@pytest.mark.parametrize(
    "work",
    [
        lambda bound, budget: bound.compiled.explore(stop_at=[0, 1], policy=bound.core, budget=budget),
        lambda bound, budget: simulate(bound, starts_of(bound), max_steps=10_000, budget=budget),
        lambda bound, budget: verify(bound, method="explicit", budget=budget),
    ],
    ids=["explore", "simulate", "verify"],
)
def test_the_time_limit_is_kept_while_a_function_decides(work):
    bound, asked = slow_walk(5_000)
    work(bound, Budget(0.2))
    assert len(asked) < 1_000  # none at all where the limit comes first
