"""A shrunk run is a run of the same policy into `fail`, not longer, and a shortest one where the search was complete."""

from __future__ import annotations

from itertools import pairwise

from polvet.domains.shipped import find_shipped
from polvet.fuzz.search import Search, find_unsafe_runs
from polvet.fuzz.shrink import cut_loops, find_shortest, shrink
from polvet.kernel.starts import Starts
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.runs import End
from polvet.sources import load_task
from tests.debug.oracle import cases


def is_run(case, run):
    assert run.states[0] in case.starts
    assert case.semantics.compile(case.task.fail)(run.states[-1])
    for (before, after), action in zip(pairwise(run.states), run.actions, strict=True):
        moves = case.fitted.followed(before, case.semantics.moves(before))
        assert not case.ended(before)
        assert any(move.label == action and any(o.state == after for o in move.outcomes) for move in moves)
    return run.end is End.FAIL


def shortest(case, start):
    """Length of a shortest unsafe run, by breadth-first search with the interpreter."""
    fails = case.semantics.compile(case.task.fail)
    layer, seen, length = {start}, {start}, 0
    while layer:
        if any(fails(state) for state in layer):
            return length
        layer = {after for state in layer for after in case.outcomes(state)} - seen
        seen |= layer
        length += 1
    return None


def test_shrunk_runs_are_runs_and_no_longer():
    shrunk = 0
    for case in cases(80)[:20]:
        bound = compile_policy(case.fitted)
        for run in find_unsafe_runs(bound, sorted(case.starts), Search(first_only=False, max_steps=60)).runs[:3]:
            for small in (cut_loops(run), shrink(bound, run)):
                assert is_run(case, small)
                assert len(small.actions) <= len(run.actions)
                assert len(set(small.states)) == len(small.states)
            shrunk += len(shrink(bound, run).actions) < len(run.actions)
            found = find_shortest(bound, run.states[0], len(run.actions))
            assert found is not None
            assert len(found.actions) == shortest(case, run.states[0])
    assert shrunk > 2


def test_starts_become_simpler():
    shipped = find_shipped("line-faulty")
    bound = compile_policy(load_fitted(load_task(shipped.task), shipped.policy))
    starts = list(Starts.of(bound.task).states())
    runs = [run for run in find_unsafe_runs(bound, starts).runs if run.states[0][-1] > 0][:5]
    assert runs
    # The canonical start has 0 in the last variable, aux_vel.
    assert sum(shrink(bound, run).states[0][-1] for run in runs) < sum(run.states[0][-1] for run in runs)
