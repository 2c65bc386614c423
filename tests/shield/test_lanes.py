"""Environments that run in the kernel, against the slow interpreter. Needs the extra `train`."""

import numpy as np
import pytest

import polvet
from polvet.domains import generate
from polvet.errors import InputError
from polvet.model.semantics import Semantics
from polvet.shield.lanes import DEADLOCK, FAIL, GOAL, LIMIT, RUNNING, STUCK, Lanes

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("stable_baselines3")


def silent_world():
    """A walk in which the wind (a silent operator) may blow anywhere, with a place from which only the wind leads on."""
    m = polvet.ModelBuilder("windy")
    x = m.int("x", 0, 9, initial=4)
    tired = m.transient("tired")
    m.edge("left", guard=(x > 0) & (x < 7), to=[(0.75, {x: x - 1, tired: 2}), (0.25, {})])
    m.edge("right", guard=x < 7, to={x: x + 1, tired: 1})
    m.edge(None, guard=(x > 2) & (x < 9), to={x: x + 1})
    return m.task(fail=x == 0)


def lake():
    return polvet.load("gym:FrozenLake-v1?map_name=8x8").model_task


WORLDS = {
    "windy": silent_world,
    "lake": lake,
    "janitor": lambda: generate("janitor", width=3, height=3).task(),
    "one-way-line": lambda: generate("one-way-line").task(),
}


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("sensible", [True, False])
def test_a_hundred_thousand_steps_are_steps_of_the_interpreter_and_masks_are_what_is_applicable(name, sensible):
    """25,000 steps per world, of applicable labels (`sensible`) or of any: 100,000 with masks, 100,000 without."""
    task = WORLDS[name]()
    lanes, rng = Lanes(task, 50, max_steps=40), np.random.default_rng(7)
    semantics = Semantics(task.network)
    is_fail, is_goal = semantics.compile(task.fail), semantics.compile(task.goal)
    labels, known = task.network.labels, {}

    def follows(state):
        if state not in known:
            moves = semantics.moves(state)
            named = {move.label for move in moves} - {None}
            after = {
                label: {
                    one.state for move in moves if move.label in (None, label) for one in move.outcomes
                } if label in named or (moves and not named) else None
                for label in labels
            }  # fmt: skip
            mask = [label in named for label in labels]
            known[state] = after, mask if any(mask) else [True] * len(labels), bool(moves)
        return known[state]

    shown = lanes.restart([3 * k for k in range(50)])
    states, over, ends = lanes.states(), [False] * 50, set()
    for _ in range(500):
        for state, mask in zip(states, shown.masks.tolist(), strict=True):
            assert is_fail(state) or is_goal(state) or mask == follows(state)[1]
        actions = [
            rng.choice(np.flatnonzero(row)) if sensible else rng.integers(len(labels)) for row in shown.masks
        ]  # fmt: skip
        before, shown = states, lanes.step(actions)
        states = lanes.states()
        for lane, (old, new) in enumerate(zip(before, states, strict=True)):
            end = int(shown.end[lane])
            ends.add(end)
            assert np.array_equal(shown.rows[lane], np.array(_read(task, new), dtype=np.float32))
            if over[lane]:
                over[lane] = False
                assert end == RUNNING
                continue
            following, _, moving = follows(old)
            allowed = following[labels[actions[lane]]]
            over[lane] = end != RUNNING
            if not moving or allowed is None:
                assert (new, end) == (old, STUCK if moving else DEADLOCK)
                continue
            assert new in allowed
            wanted = FAIL if is_fail(new) else GOAL if is_goal(new) else None
            assert end == wanted if wanted is not None else end in (RUNNING, LIMIT)
    assert RUNNING in ends
    assert len(ends) > 1


def _read(task, state):
    names = [variable.name for variable in task.network.variables]
    return [float(state[names.index(name)]) for name in (task.reading.inputs or names)]


def test_outcomes_come_as_often_as_the_model_says():
    task = silent_world()
    lanes = Lanes(task, 40_000)
    lanes.restart(list(range(40_000)))
    lanes.step(np.zeros(40_000))  # left at 4: with 1/2 the wind blows, else 3 with 3/4
    counts = {x: sum(state[0] == x for state in lanes.states()) / 40_000 for x in (3, 4, 5)}
    assert counts == {x: pytest.approx(p, abs=0.01) for x, p in ((3, 3 / 8), (4, 1 / 8), (5, 1 / 2))}


def test_a_lane_is_the_one_environment_with_its_seed_whatever_the_others_do():
    task = polvet.load("gym:FrozenLake-v1")
    rng, many, env = np.random.default_rng(1), task.vec_env(8), task.env()
    plan = rng.integers(0, 4, (300, 8))
    rows, _ = many.reset(seed=20)
    row, _ = env.reset(seed=25)
    assert np.array_equal(rows[5], row)
    over = False
    for actions in plan:
        rows, rewards, ended, cut, infos = many.step(actions)
        if over:
            row, _ = env.reset()
            reward, over = 0.0, False
        else:
            row, reward, one, two, info = env.step(actions[5])
            over = one or two
            assert (one, two) == (ended[5], cut[5])
            assert (info["fail"], info["goal"]) == (infos["fail"][5], infos["goal"][5])
        assert np.array_equal(rows[5], row)
        assert rewards[5] == reward
    again, _ = many.reset(seed=20)
    for actions in plan:
        again, *_ = many.step(actions)
    assert np.array_equal(again, rows), "the same seeds and actions give the same episodes"


def test_costs_are_what_the_step_assigned():
    lanes = Lanes(silent_world(), 200, cost="tired")
    lanes.restart(list(range(200)))
    before = [state[0] for state in lanes.states()]
    step = lanes.step(np.ones(200))  # right costs 1, the wind nothing: both lead to 5
    assert before == [4] * 200
    assert set(step.cost.tolist()) == {0.0, 1.0}
    env = polvet.load("gym:CliffWalking-v1").vec_env(4, cost="reward")
    env.reset(seed=0)
    _, rewards, _, _, infos = env.step([0, 0, 0, 0])
    assert infos["cost"].tolist() == [-1.0] * 4
    assert rewards.tolist() == [1.0] * 4


def test_the_vector_keeps_gymnasiums_conventions():
    env = polvet.load("gym:FrozenLake-v1?is_slippery=false").vec_env(3)
    assert isinstance(env, gymnasium.vector.VectorEnv)
    assert env.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.NEXT_STEP
    rows, infos = env.reset(seed=[1, 2, 3])
    assert env.observation_space.contains(rows)
    assert infos["action_mask"].shape == (3, 4)
    down, right = 1, 2
    env.step([down] * 3)
    rows, rewards, ended, cut, infos = env.step([right] * 3)
    assert ended.all()
    assert infos["fail"].all()
    assert not cut.any()
    assert rewards.tolist() == [-1.0] * 3
    assert rows[:, 0].tolist() == [5.0] * 3, "the last state is shown"
    rows, rewards, ended, _, infos = env.step([right] * 3)
    assert (rows[:, 0].tolist(), rewards.tolist(), ended.any()) == ([0.0] * 3, [0.0] * 3, False)


def test_the_vector_keeps_the_conventions_of_stable_baselines():
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecEnv

    env = polvet.load("gym:FrozenLake-v1?is_slippery=false").vec_env(3, sb3=True, max_steps=4)
    assert isinstance(env, VecEnv)
    env.seed(5)
    env.reset()
    env.step(np.array([1, 1, 0]))
    rows, _, done, infos = env.step(np.array([2, 1, 0]))
    assert done.tolist() == [True, False, False]
    assert infos[0]["fail"]
    assert infos[0]["terminal_observation"].tolist() == [5.0]
    assert rows[:, 0].tolist() == [0.0, 8.0, 0.0], "the next episode begins at once"
    env.step(np.array([0, 0, 0]))
    _, _, done, infos = env.step(np.array([0, 0, 0]))
    assert done.tolist() == [False, True, True]
    assert infos[2]["TimeLimit.truncated"]
    assert infos[0] == {"fail": False, "goal": False}
    infos[0]["mine"] = infos[1]["mine"] = 1
    infos[0]["fail"] = True
    _, _, _, infos = env.step(np.array([0, 0, 0]))
    assert not any("mine" in info or info["fail"] for info in infos), (
        "what somebody writes into an info stays in that step"
    )
    assert np.array(env.env_method("action_masks")).shape == (3, 4)
    PPO("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, seed=0).learn(48)


def test_what_cannot_be_done_is_said():
    task = polvet.load("gym:FrozenLake-v1")
    env = task.vec_env(2)
    with pytest.raises(InputError, match="not reset"):
        env.step([0, 0])
    env.reset(seed=0)
    for actions in ([0], [0, 4], [-1, 0]):
        with pytest.raises(InputError, match="for 2 lanes"):
            env.step(actions)
    with pytest.raises(InputError, match="no transient variable 'rewards'"):
        task.env(cost="rewards")
    with pytest.raises(InputError, match="Give a whole number from 1 on"):
        task.vec_env(0)
    m = polvet.ModelBuilder("breaks")
    x = m.int("x", 0, 3, initial=0)
    m.edge("up", to={x: x + 1})
    broken = polvet.load(m).vec_env(2)
    broken.reset(seed=0)
    for _ in range(2):
        broken.step([0, 0])
    with pytest.raises(InputError, match="x"):
        broken.step([0, 0])  # the state it leads to has no legal successor
