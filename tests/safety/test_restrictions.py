"""What a restricted game has won is safe in the model: by the slow attractor, on random models and every pattern."""

from __future__ import annotations

import numpy as np
import pytest

from polvet.domains import generate
from polvet.domains.instance import Instance
from polvet.kernel.starts import Starts
from polvet.model.build import ModelBuilder
from polvet.safety.decide import Decider
from polvet.safety.foresight import sharpen
from polvet.safety.projections import count_of
from polvet.safety.restrictions import iter_won, solve_restricted
from tests.debug.oracle import cases
from tests.safety.networks import all_states, unsafe_states
from tests.safety.test_projections import forgetful


@pytest.mark.slow
def test_what_is_won_when_a_variable_is_forgotten_is_safe_with_each_of_its_values():
    won_somewhere = 0
    for seed in range(300):
        task = forgetful(seed)
        places = {variable.name: k for k, variable in enumerate(task.network.variables)}
        found = solve_restricted(task, [places["x"]])
        states = all_states(task)
        won = [state for state in states if found.verdicts[int(state[places["x"]])]]
        if won:
            assert unsafe_states(task, states).isdisjoint(won)
        won_somewhere += len(won)
    assert won_somewhere > 500


def test_where_nothing_is_forgotten_the_restricted_game_is_the_model():
    safe = 0
    for case in cases(80)[:40]:
        variables = case.task.network.variables
        found = solve_restricted(case.task, range(len(variables)))
        for state in all_states(case.task):
            index = 0
            for variable, value in zip(variables, state, strict=True):
                index = index * count_of(variable) + int(value)
            assert bool(found.verdicts[index]) == (state not in case.unsafe)
            safe += state not in case.unsafe
    assert safe > 100


@pytest.mark.parametrize(
    ("name", "options"),
    [("one-way-line", {"icy": True, "park": True}), ("two-way-line", {}), ("two-way-line", {"icy": True})],
)
def test_deciders_that_know_the_won_states_give_the_same_verdicts(name, options):
    task = generate(name, n=3, p=5, **options).task()
    plain, sharp = Decider(task), Decider(task)
    assert sharpen(sharp) > 0
    assert max(told.share for told in iter_won(task)) > 0.1
    words = plain.compiled.explore(plain.compiled.pack_starts(Starts.of(task))).states()
    known = plain.known_packed(words)
    assert (known == sharp.known_packed(words)).all()
    assert len(np.unique(known)) == 2
    for state in plain.compiled.unpack(words[:: max(1, len(words) // 50)]):
        assert plain.judge_actions(state) == sharp.judge_actions(state)


def test_a_kept_variable_that_may_leave_its_bounds_is_not_won():
    m = ModelBuilder("steps")
    x, y = m.int("x", 0, 9, initial=0), m.int("y", 0, 3, initial=0)
    m.edge("up", guard=(y == 0), to={x: x + 2})
    task = Instance.of(m, start=(x == 0), fail=(x == 3), goal=(x == 100)).task()
    assert not solve_restricted(task, [0]).verdicts.any()  # whoever climbs leaves the bounds, and y might say climb
    whole = solve_restricted(task, [0, 1]).verdicts.reshape(10, 4)
    assert (whole[:, 0] == 0).all()
    assert (whole[:, 1:] == np.where(np.arange(10) == 3, 0, 2)[:, None]).all()  # nobody moves there


def test_probabilities_that_cannot_be_told_and_computed_targets_count_as_the_worst():
    m = ModelBuilder("worst")
    x, y = m.int("x", 0, 4, initial=0), m.int("y", 0, 4, initial=1)
    m.edge("stay", to={})
    m.edge("jump", to={x: y})
    task = Instance.of(m, start=(x == 0), fail=(x == 4), goal=(x == 100)).task()
    told = solve_restricted(task, [0])
    assert [int(verdict) for verdict in told.verdicts] == [2, 2, 2, 2, 0]
    jump_only = ModelBuilder("jump")
    x, y = jump_only.int("x", 0, 4, initial=0), jump_only.int("y", 0, 4, initial=1)
    jump_only.edge("jump", to={x: y})
    task = Instance.of(jump_only, start=(x == 0), fail=(x == 4), goal=(x == 100)).task()
    assert not solve_restricted(task, [0]).verdicts.any()


def test_a_failure_that_reads_no_variable_plays_no_game():
    m = ModelBuilder("endless")
    x = m.int("x", 0, 3, initial=0)
    m.edge("on", guard=x < 3, to={"x": x + 1})
    task = m.task(fail=False)
    assert list(iter_won(task)) == []
    assert sharpen(Decider(task)) == 0
