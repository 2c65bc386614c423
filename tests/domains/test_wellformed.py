"""Every generated world runs, ends up where it says, and survives being written."""

import random
from dataclasses import replace

import pytest

from polvet.domains import generate
from polvet.errors import Where
from polvet.jani import parse_model
from polvet.jani.features import declared_features
from polvet.jani.write import write_model
from polvet.kernel.starts import Starts
from polvet.model.semantics import Semantics
from polvet.sources import load_task
from tests.domains.worlds import CONTROL, SMALL, explored, named, small_task

GOALLESS = ("layers", "flappy-bird")
FAILLESS = ("layers",)


@pytest.mark.parametrize("case", SMALL, ids=named)
def test_everything_reachable_is_explored_without_breaking_a_rule(case) -> None:  # type: ignore[no-untyped-def]
    task = small_task(case)
    _, space = explored(task)  # an assignment out of bounds would raise
    fails, goals = space.mask(0), space.mask(1)
    assert bool(fails.any()) == (case[0] not in FAILLESS)
    assert bool(goals.any()) == (case[0] not in GOALLESS)
    assert not (fails & goals).any()


@pytest.mark.parametrize("case", SMALL, ids=named)
def test_start_states_are_neither_failed_nor_finished(case) -> None:  # type: ignore[no-untyped-def]
    task = small_task(case)
    semantics = Semantics(task.network)
    failed, finished = semantics.compile(task.fail), semantics.compile(task.goal)
    starts = list(Starts.of(task).states())
    assert starts
    assert not any(failed(state) or finished(state) for state in starts)


@pytest.mark.parametrize("case", [*SMALL, *((name, {}) for name in CONTROL)], ids=named)
def test_a_written_world_is_the_same_world(case, tmp_path) -> None:  # type: ignore[no-untyped-def]
    instance = generate(case[0], **case[1])
    model = instance.model
    assert parse_model(write_model(model), Where("again")) == replace(model, features=declared_features(model))
    _, toml = instance.write(tmp_path / "world.jani")
    read, meant = load_task(toml), instance.task()
    assert (read.fail, read.goal, read.start) == (meant.fail, meant.goal, meant.start)
    assert read.network.variables == meant.network.variables
    assert Starts.of(read).count == Starts.of(meant).count


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTROL)
@pytest.mark.parametrize("tau", ["0.01", "0.1", "0.3", "1"])
def test_control_problems_never_leave_their_bounds(name: str, tau: str) -> None:
    task = generate(name, tau=tau).task()
    semantics = Semantics(task.network)
    starts = Starts.of(task)
    assert starts.method == "rejection"
    rng = random.Random(5)
    for start in starts.sample(30, rng):
        state, favourite = start, rng.choice(task.network.labels)
        for _ in range(400):
            moves = semantics.moves(state)  # an assignment out of bounds would raise
            if not moves:
                break
            liked = [move for move in moves if move.label == favourite]
            state = rng.choice(liked if liked and rng.random() < 0.9 else moves).outcomes[0].state


@pytest.mark.slow
def test_survivors_of_a_control_problem_reach_the_goal() -> None:
    task = generate("follow-car").task()
    semantics = Semantics(task.network)
    goal, fail = semantics.compile(task.goal), semantics.compile(task.fail)
    for start in Starts.of(task).sample(5, random.Random(1)):
        state, steps = start, 0
        while not goal(state):
            assert not fail(state)
            fast = state[task.network.index_of("velocity")] > 28
            label = "brake" if fast else "keep"
            state = next(move for move in semantics.moves(state) if move.label == label).outcomes[0].state
            steps += 1
        assert steps == 1000
