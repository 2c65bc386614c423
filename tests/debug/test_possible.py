"""The best %Goal of any safe policy, and the chance of a policy's runs: compared with brute force and exact fractions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from polvet.budget import Budget
from polvet.debug.goal_chance import goal_chances
from polvet.debug.possible import SafeWorld, find_safe_world
from polvet.model.build import ModelBuilder
from polvet.model.expressions import FALSE
from polvet.model.semantics import State
from polvet.policy.binding import fit
from polvet.policy.callables import CallablePolicy
from polvet.policy.compiled import compile_policy
from polvet.policy.runs import simulate
from polvet.records.fault_files import Fault
from polvet.safety.decide import Decider
from tests.debug.oracle import Case, cases

MOST_POLICIES = 300
Row = dict[State, Fraction]


def goal_of(case: Case):
    """Whether a run ends in the goal; fail comes first."""
    fail, goal = case.semantics.compile(case.task.fail), case.semantics.compile(case.task.goal)
    return lambda state: bool(goal(state)) and not fail(state)


def mixed(moves) -> Row:
    """One operator is drawn uniformly, then one of its outcomes."""
    row: Row = {}
    for move in moves:
        for outcome in move.outcomes:
            row[outcome.state] = row.get(outcome.state, Fraction(0)) + Fraction(outcome.probability) / len(moves)
    return row


def safe_rows(case: Case, state: State) -> list[Row]:
    """What each safe label makes of the state, by the definition."""
    if case.ended(state):
        return []
    moves = case.semantics.moves(state)
    labels = sorted({move.label for move in moves if move.label is not None}) or ([None] if moves else [])
    rows = [mixed([move for move in moves if move.label in (label, None)]) for label in labels]
    return [row for row in rows if not set(row) & case.unsafe]


def chances(rows: dict[State, Row], is_goal) -> dict[State, Fraction]:
    """The probability of the goal in a chain, by Gaussian elimination over the states from which it is reachable."""
    value = {state: Fraction(int(is_goal(state))) for state in rows}
    useful = {state for state in rows if is_goal(state)}
    while grown := {s for s, row in rows.items() if s not in useful and useful & set(row)}:
        useful |= grown
    order = [state for state in rows if state in useful and not is_goal(state)]
    gains = [sum((p for t, p in rows[s].items() if is_goal(t)), Fraction(0)) for s in order]
    return value | solved(rows, order, gains)


def lengths(rows: dict[State, Row], is_goal) -> dict[State, Fraction]:
    """The expected number of steps to the goal from the states that reach it surely."""
    sure = [state for state, chance in chances(rows, is_goal).items() if chance == 1 and not is_goal(state)]
    return solved(rows, sure, [Fraction(1)] * len(sure))


def solved(rows: dict[State, Row], order: list[State], gains: list[Fraction]) -> dict[State, Fraction]:
    """The solution of value = gain + row * value over the states, by Gaussian elimination."""
    matrix = [
        [Fraction(int(s == t)) - rows[s].get(t, Fraction(0)) for t in order] + [gain]
        for s, gain in zip(order, gains, strict=True)
    ]
    for k in range(len(order)):
        pivot = next(i for i in range(k, len(order)) if matrix[i][k])
        matrix[k], matrix[pivot] = matrix[pivot], matrix[k]
        matrix[k] = [x / matrix[k][k] for x in matrix[k]]
        for i in range(len(order)):
            if i != k and matrix[i][k]:
                factor = matrix[i][k]
                matrix[i] = [x - factor * y for x, y in zip(matrix[i], matrix[k], strict=True)]
    return {state: matrix[k][-1] for k, state in enumerate(order)}


def safe_part(case: Case) -> dict[State, list[Row]]:
    """Every state that safe policies meet from the safe starts, with its safe rows."""
    found: dict[State, list[Row]] = {}
    pending = [state for state in case.starts if state not in case.unsafe]
    while pending:
        state = pending.pop()
        if state not in found:
            found[state] = safe_rows(case, state)
            pending += [after for row in found[state] for after in row]
    return found


def best_by_trying(case: Case) -> dict[State, Fraction] | None:
    """The best of all safe policies from each state, one after the other; None where they are too many."""
    part = safe_part(case)
    if prod(max(1, len(rows)) for rows in part.values()) > MOST_POLICIES:
        return None
    best = dict.fromkeys(part, Fraction(0))
    for choice in product(*(rows or [{}] for rows in part.values())):
        for state, value in chances(dict(zip(part, choice, strict=True)), goal_of(case)).items():
            best[state] = max(best[state], value)
    return best


def with_goal(count: int) -> list[Case]:
    return [case for case in cases(count) if case.task.goal != FALSE and case.starts]


def test_the_best_possible_is_that_of_the_best_safe_policy_found_by_trying_all():
    between = tried = unsafe = 0
    for case in with_goal(200):
        decider = Decider(case.task)
        starts = sorted(case.starts)
        world = find_safe_world(decider, decider.compiled.pack(starts))
        assert isinstance(world, SafeWorld)
        found = world.best()
        if case.starts & case.unsafe:
            assert found == "from some start states no policy is safe"
            unsafe += 1
            starts = [state for state in starts if state not in case.unsafe]
            if not starts:
                continue
            world = find_safe_world(decider, decider.compiled.pack(starts))
            assert isinstance(world, SafeWorld)
            found = world.best()
        assert not isinstance(found, str)
        expected = best_by_trying(case)
        if expected is None:
            continue
        tried += 1
        for state, low, high in zip(starts, found.lowers, found.uppers, strict=True):
            assert low <= expected[state] <= high
            assert high - low < 1e-6
            between += 0 < expected[state] < 1
    assert tried > 20
    assert between > 8
    assert unsafe > 3


def soonest_by_trying(case: Case) -> dict[State, Fraction] | None:
    """The fewest expected steps from each state of all safe policies that reach the goal surely; None where they are too many."""
    part = safe_part(case)
    if prod(max(1, len(rows)) for rows in part.values()) > MOST_POLICIES:
        return None
    fewest: dict[State, Fraction] = {}
    for choice in product(*(rows or [{}] for rows in part.values())):
        for state, steps in lengths(dict(zip(part, choice, strict=True)), goal_of(case)).items():
            fewest[state] = min(fewest.get(state, steps), steps)
    return fewest | {state: Fraction(0) for state in part if goal_of(case)(state)}


def test_the_fewest_steps_are_those_of_the_quickest_safe_policy_found_by_trying_all():
    none = known = fractional = 0
    for case in with_goal(300):
        starts = sorted(case.starts - case.unsafe)
        expected = soonest_by_trying(case) if starts else None
        if expected is None:
            continue
        decider = Decider(case.task)
        world = find_safe_world(decider, decider.compiled.pack(starts))
        assert isinstance(world, SafeWorld)
        found = world.soonest()
        if not set(starts) <= set(expected):
            assert found is None
            none += 1
            continue
        assert found is not None
        for state, low, high in zip(starts, found.lowers, found.uppers, strict=True):
            assert low <= expected[state] <= high
            assert high - low <= 1e-5 * high
            known += expected[state] > 0
            fractional += expected[state].denominator > 1
    assert none > 5
    assert known > 8
    assert fractional > 1


def test_the_chance_of_a_policys_runs_is_that_of_its_chain():
    between = 0
    for case in with_goal(60):
        bound, starts = compile_policy(case.fitted), sorted(case.starts)
        found = goal_chances(bound, bound.compiled.pack(starts), max_steps=6)
        assert found is not None
        is_goal = goal_of(case)
        rows = {
            state: {} if case.ended(state) else mixed(case.fitted.followed(state, case.semantics.moves(state)))
            for state in case.reached()
        }
        value = {state: Fraction(int(is_goal(state))) for state in rows}
        for _ in range(6):
            value = {
                s: value[s] if is_goal(s) else sum((p * value[t] for t, p in row.items()), Fraction(0))
                for s, row in rows.items()
            }
        for state, low, high in zip(starts, found.lowers, found.uppers, strict=True):
            assert low <= value[state] <= high
            assert high - low < 1e-12
            between += 0 < value[state] < 1
    assert between > 20


def test_simulated_runs_count_the_same_steps():
    for case in with_goal(20):
        bound, starts = compile_policy(case.fitted), sorted(case.starts)
        packed = bound.compiled.pack(starts)
        found = goal_chances(bound, packed, max_steps=3)
        batch = simulate(bound, packed, runs_per_start=4000, max_steps=3, seed=1)
        shares = (batch.ends.reshape(len(starts), 4000) == 1).mean(axis=1)
        assert found is not None
        assert np.abs(shares - found.lowers).max() < 0.05


def test_the_plan_names_the_safe_action_that_leads_on_although_faults_follow():
    """At 0 and 1 `run` is fatal; `wait` stands still for ever; `climb` gets to the goal by way of 1."""
    m = ModelBuilder("cliff")
    x = m.int("x", 0, 9, initial=0)
    for label, source, target in (
        ("run", 0, 9), ("wait", 0, 0), ("climb", 0, 1), ("run", 1, 9), ("wait", 1, 1), ("climb", 1, 2)
    ):  # fmt: skip
        m.edge(label, guard=x == source, to={"x": target})
    task = m.task(fail=x == 9, goal=x == 2)
    bound = compile_policy(fit(task, CallablePolicy(("x",), ("run", "wait", "climb"), lambda state: "run")))
    decider = Decider(task)
    world = find_safe_world(decider, decider.compiled.initial())
    assert isinstance(world, SafeWorld)
    (found,) = world.plan(bound, [Fault((0,), "run", ("wait", "climb"), ((9,),))])
    assert found.safe_actions == ("climb",)
    outside = Fault((7,), "run", ("wait", "climb"), ((9,),))
    assert world.plan(bound, [outside]) == [outside]


def test_following_the_plan_is_the_best_that_changing_unsafe_choices_can_do():
    improved = shorter = 0
    for case in with_goal(200):
        starts = sorted(case.starts - case.unsafe)
        part = safe_part(case)
        faulty = case.faults(frozenset(part))
        if not starts or not faulty:
            continue
        decider = Decider(case.task)
        world = find_safe_world(decider, decider.compiled.pack(starts))
        assert isinstance(world, SafeWorld)
        planned = world.plan(compile_policy(case.fitted), list(faulty.values()))
        moves = {state: case.semantics.moves(state) for state in part}

        def row(state, label, moves=moves):
            return mixed([move for move in moves[state] if move.label in (label, None)])

        def course(targets, case=case, part=part, moves=moves, row=row):
            rows = {}
            for state in part:
                if case.ended(state) or not moves[state]:
                    rows[state] = {}
                elif state in targets:
                    rows[state] = row(state, targets[state])
                else:
                    rows[state] = mixed(case.fitted.followed(state, moves[state]))
            return chances(rows, goal_of(case)), lengths(rows, goal_of(case))

        if prod(len(fault.safe_actions) for fault in faulty.values()) > MOST_POLICIES:
            continue
        best, least = dict.fromkeys(part, Fraction(0)), dict.fromkeys(part, Fraction(10**9))
        for choice in product(*(fault.safe_actions for fault in faulty.values())):
            chance, length = course(dict(zip(faulty, choice, strict=True)))
            best = {state: max(best[state], chance[state]) for state in part}
            least = {state: min(least[state], length.get(state, least[state])) for state in part}
        chance, length = course({fault.state: fault.safe_actions[0] for fault in planned})
        for state in starts:
            assert float(chance[state]) == pytest.approx(float(best[state]), abs=1e-6)
            improved += chance[state] > 0
            if state in length:
                assert float(length[state]) == pytest.approx(float(least[state]), abs=1e-4)
                shorter += 1
    assert improved > 5
    assert shorter > 3


def test_a_world_beyond_the_limit_is_not_told():
    case = with_goal(10)[0]
    decider = Decider(case.task)
    found = find_safe_world(decider, decider.compiled.pack(sorted(case.starts)), budget=Budget(states=2))
    assert isinstance(found, str)
    assert "too large" in found
    bound = compile_policy(replace(case.fitted))
    packed = bound.compiled.pack(sorted(case.starts))
    assert goal_chances(bound, packed, max_steps=5, budget=Budget(states=1)) is None
