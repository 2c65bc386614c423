"""Safety up to a bound agrees with brute force over all memoryless policies and environments, in exact arithmetic."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from pathlib import Path

import pytest

from polvet.load import load_task
from polvet.model.semantics import Semantics, State
from polvet.model.task import Task, TaskOptions
from polvet.safety import Decider, Verdict
from polvet.safety.bound import decide_within
from tests.safety.networks import random_task

DIE = """
mdp
module m
  s : [0..4] init 0;
  [careful] s=0 -> 1/10:(s'=1) + 9/10:(s'=2);
  [bold]    s=0 -> 1/3:(s'=1) + 2/3:(s'=3);
  [again]   s=2 -> 1/2:(s'=0) + 1/2:(s'=3);
  []        s=3 -> 1/20:(s'=1) + 19/20:(s'=4);
endmodule
"""


def test_the_bound_is_met_exactly_and_not_by_a_hair_less(tmp_path: Path) -> None:
    path = tmp_path / "die.prism"
    path.write_text(DIE, encoding="utf-8")
    task = load_task(path, TaskOptions(fail="s == 1", goal="s == 4"))
    # careful for ever: p = 1/10 + 9/10 (p/2 + 1/40), hence p = (1/10 + 9/400) / (1 - 9/20)
    value = (Fraction(1, 10) + Fraction(9, 400)) / (1 - Fraction(9, 20))
    bold = Fraction(1, 3) + Fraction(2, 3) * Fraction(1, 20)
    assert value < bold
    assert decide_within(task, (0,), value).verdict is Verdict.SAFE
    assert decide_within(task, (0,), value - Fraction(1, 10**15)).verdict is Verdict.UNSAFE
    assert decide_within(task, (3,), Fraction(1, 20)).verdict is Verdict.SAFE
    assert decide_within(task, (3,), Fraction(49, 1000)).verdict is Verdict.UNSAFE


def least_failure(task: Task, start: State) -> Fraction:
    """Return min over policies of max over environments, by trying all of both on the reachable states (few)."""
    semantics = Semantics(task.network)
    fail, goal = semantics.compile(task.fail), semantics.compile(task.goal)
    states, games = [start], {}
    for state in states:
        moves = [] if fail(state) or goal(state) else semantics.moves(state)
        silent = [move for move in moves if move.label is None]
        labels = dict.fromkeys(move.label for move in moves if move.label is not None)
        games[state] = [[m for m in moves if m.label == label] + silent for label in labels] or (
            [silent] if silent else []
        )
        states += {o.state for move in moves for o in move.outcomes} - set(states)
    choices = [range(max(1, len(games[s]))) for s in states]
    best = Fraction(1)
    for policy in itertools.product(*choices):
        menus = [games[s][k] if games[s] else [] for s, k in zip(states, policy, strict=True)]
        worst = Fraction(0)
        for answer in itertools.product(*(range(max(1, len(menu))) for menu in menus)):
            chain = [menu[k].outcomes if menu else () for menu, k in zip(menus, answer, strict=True)]
            worst = max(worst, _reach(states, chain, [bool(fail(s)) for s in states]))
        best = min(best, worst)
    return best


def _reach(states: list[State], chain: list, fail: list[bool]) -> Fraction:  # type: ignore[type-arg]
    """Return the exact probability of reaching fail from the first state, by elimination."""
    place = {s: k for k, s in enumerate(states)}
    can = {k for k, f in enumerate(fail) if f}
    while more := {k for k, row in enumerate(chain) if k not in can and any(place[o.state] in can for o in row)}:
        can |= more
    rows = {}
    for k in can:
        if not fail[k]:
            row = {k: Fraction(1)}
            constant = Fraction(0)
            for o in chain[k]:
                t = place[o.state]
                if fail[t]:
                    constant += o.probability
                elif t in can:
                    row[t] = row.get(t, Fraction(0)) - o.probability
            rows[k] = (row, constant)
    if fail[0]:
        return Fraction(1)
    if 0 not in can:
        return Fraction(0)
    for pivot in [k for k in rows if k != 0]:
        row, constant = rows.pop(pivot)
        scale = row.pop(pivot)
        for other, (target, value) in rows.items():
            if pivot in target:
                factor = target.pop(pivot) / scale
                for t, x in row.items():
                    target[t] = target.get(t, Fraction(0)) - factor * x
                rows[other] = (target, value - factor * constant)
    row, constant = rows[0]
    return constant / row[0]


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_brute_force_on_small_games(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    done = 0
    while done < 12:
        task, _ = random_task(rng, tmp_path)
        semantics = Semantics(task.network)
        start = next(iter(semantics.initial_states()))
        reached = {start}
        pending = [start]
        sizes = 1
        while pending and sizes < 3_000 and len(reached) < 9:
            state = pending.pop()
            moves = semantics.moves(state)
            sizes *= max(1, len(moves))
            for move in moves:
                for outcome in move.outcomes:
                    if outcome.state not in reached:
                        reached.add(outcome.state)
                        pending.append(outcome.state)
        if pending or sizes > 3_000:
            continue
        done += 1
        value = least_failure(task, start)
        tiny = Fraction(1, 10**12)
        assert decide_within(task, start, value).verdict is Verdict.SAFE
        if value > tiny:
            assert decide_within(task, start, value - tiny).verdict is Verdict.UNSAFE
        unsafe = Decider(task).decide([start])[0].verdict is Verdict.UNSAFE
        assert unsafe == (decide_within(task, start, Fraction(0)).verdict is Verdict.UNSAFE)
