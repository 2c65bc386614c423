"""Agents in worlds of environments: what polvet reads is what they choose on what they are shown, or the first difference is told."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import polvet
from polvet.errors import InputError

gymnasium = pytest.importorskip("gymnasium")
sb3 = pytest.importorskip("stable_baselines3")
torch = pytest.importorskip("torch")
from gymnasium import spaces, wrappers  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

torch.set_num_threads(1)
SIZE = 5
NAMES = ("east", "south", "west", "north")
STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))


class Field(gymnasium.Env):
    """A square that is not symmetric: what an agent does with x and y the wrong way round ends otherwise."""

    scale: float = 1.0

    def __init__(self):
        self.observation_space = spaces.Box(0, SIZE, (2,), np.float32)
        self.action_space = spaces.Discrete(4)
        self.at, self.steps = [0, 0], 0

    def shown(self):
        return np.array(self.at, dtype=np.float32) * np.float32(self.scale)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = [0, 0], 0
        return self.shown(), {}

    def step(self, action):
        self.at = [min(SIZE - 1, max(0, one + move)) for one, move in zip(self.at, STEPS[action], strict=True)]
        self.steps += 1
        pit, home = self.at in ([3, 0], [3, 1], [1, 3]), self.at == [4, 4]
        return self.shown(), float(home) - pit, pit or home, False, {}


class Scaled(Field):
    scale = 0.1


class Timed(Field):
    """It also shows whether the number of steps is even."""

    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Box(0, SIZE, (3,), np.float32)

    def shown(self):
        return np.array([*self.at, self.steps % 2], dtype=np.float32)


def agent(env, seed, algorithm=sb3.PPO, **options):
    """An agent with weights at random."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = algorithm("MlpPolicy", env, seed=seed, device="cpu", **options)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter.mul_(4.0)
    return model


def falls(env, predict):
    """Whether the agent's own episode ends in a pit; an episode that comes back to a place never ends."""
    observation, _ = env.reset(seed=0)
    seen = set()
    while tuple(env.unwrapped.at) not in seen:
        seen.add(tuple(env.unwrapped.at))
        observation, reward, ends, _, _ = env.step(int(predict(observation)))
        if ends:
            return reward < 0
    return False


def world(env, **given):
    return polvet.from_gym(env, labels=NAMES, **given)


def place(*order):
    return lambda env: {name: env.unwrapped.at["xy".index(name)] for name in order}


def told(model, mask=None):
    return lambda observation: model.predict(observation, deterministic=True)[0]


def test_agents_end_as_they_do_in_their_environment_and_state_names_what_is_shown_in_its_order(tmp_path):
    env = Field()
    verdicts = set()
    for seed in range(12):
        model = agent(env, seed)
        model.save(tmp_path / "agent.zip")
        dies = falls(env, told(model))
        verdicts.add(dies)
        for task in (world(env), world(env, state=place("x", "y"))):
            for what in (model, tmp_path / "agent.zip"):
                assert task.policy(what).verify().verdict.value == ("unsafe" if dies else "safe")
        turned = world(env, state=place("y", "x"))
        saved = polvet.load(turned.save(tmp_path / "turned.toml"))
        for task in (turned, saved, turned.with_mode("raw")):
            with pytest.raises(
                InputError, match=r"which is x, y; the task reads y, x. Let `state` name x, y in that order"
            ):
                task.policy(tmp_path / "agent.zip")
        with pytest.raises(InputError, match="which is x, y; the task reads y, x"):
            turned.policy(model)
    assert verdicts == {True, False}


def test_inputs_in_the_order_of_what_is_shown_may_be_written_into_the_task(tmp_path):
    env, model = Field(), None
    file = world(env, state=place("y", "x")).save(tmp_path / "field.toml")
    file.write_text(file.read_text().replace('["y", "x"]', '["x", "y"]'))
    for seed in range(6):
        model = agent(env, seed)
        model.save(tmp_path / "agent.zip")
        verdict = polvet.load(file).policy(tmp_path / "agent.zip").verify().verdict.value
        assert verdict == ("unsafe" if falls(env, told(model)) else "safe")


def test_what_is_scaled_is_no_variable_of_the_world_until_the_task_says_how_it_is_computed(tmp_path):
    env = Scaled()
    task = world(env, state=place("x", "y"))
    file = task.save(tmp_path / "field.toml")
    file.write_text(file.read_text().replace('["x", "y"]', '["x / 10", "y / 10"]'))
    for seed in range(4):
        model = agent(env, seed)
        model.save(tmp_path / "agent.zip")
        for what in (model, tmp_path / "agent.zip"):
            with pytest.raises(InputError, match="which is no variables of the world; the task reads x, y"):
                task.policy(what)
        verdict = polvet.load(file).policy(tmp_path / "agent.zip").verify().verdict.value
        assert verdict == ("unsafe" if falls(env, told(model)) else "safe")


def test_an_agent_of_a_scaled_environment_is_refused_in_the_other_one_with_the_first_difference():
    """The archives cannot tell; here the object's own choices do. Rows of [0.4, 0.1] are not rows of [4, 1]."""

    class Tenth(gymnasium.ObservationWrapper):
        def observation(self, observation):
            return observation * np.float32(0.1)

    class Learned:
        """The agent as it runs: behind a wrapper that the world does not have."""

        def __init__(self, model):
            self.__dict__["model"] = model

        def __getattr__(self, name):
            return getattr(self.model, name)

        def predict(self, observation, **given):
            return self.model.predict(np.asarray(observation) * np.float32(0.1), **given)

    Learned.__module__ = sb3.PPO.__module__
    env, refused = Field(), 0
    for seed in range(6):
        model = agent(env, seed)
        rows = np.array([[x, y] for x in range(SIZE) for y in range(SIZE)], dtype=np.float32)
        differ = [tuple(row) for row in rows if told(model)(row) != told(Learned(model))(row)]
        task = world(env)
        reachable = {(state["o0"], state["o1"]) for state in shown_states(task)}
        differ = [row for row in differ if row in reachable]
        if not differ:
            assert task.policy(Learned(model))
            continue
        refused += 1
        with pytest.raises(InputError) as error:
            task.policy(Learned(model))
        x, y = next(row for row in differ if f"o0={row[0]:g},o1={row[1]:g}," in str(error.value))
        row = np.array([x, y], dtype=np.float32)
        assert f"the agent chooses '{NAMES[int(told(Learned(model))(row))]}'" in str(error.value)
        assert f"polvet reads '{NAMES[int(told(model)(row))]}'" in str(error.value)
        with pytest.raises(InputError, match="no variables of the world"):
            world(Tenth(env), state=place("x", "y")).policy(model)
    assert refused > 3


def shown_states(task):
    table = task.model_task.network.edges.table
    return [{name: values[one] for name, values in table.features.items()} for one in task.shown]


def test_an_agent_that_sees_more_than_the_state_says_is_refused(tmp_path):
    env = Timed()
    model = agent(env, 0)
    model.save(tmp_path / "agent.zip")
    for what in (model, tmp_path / "agent.zip"):
        with pytest.raises(InputError, match="no variables of the world; the task reads x, y"):
            world(env, state=lambda env: {"x": env.unwrapped.at[0], "y": env.unwrapped.at[1], "z": 0}).policy(what)
    assert world(env).policy(model)


@pytest.mark.parametrize("kind", ["PPO", "DQN"])
def test_an_agent_of_a_smaller_map_is_refused_as_the_library_does(kind, tmp_path):
    small, large = gymnasium.make("FrozenLake-v1"), gymnasium.make("FrozenLake-v1", map_name="8x8")
    options = {"buffer_size": 10} if kind == "DQN" else {}
    model = agent(small, 0, getattr(sb3, kind), **options)
    model.save(tmp_path / "agent.zip")
    with pytest.raises(RuntimeError, match="Class values"):
        model.predict(np.array([63]), deterministic=True)
    for task in (polvet.from_gym(large), polvet.load("gym:FrozenLake-v1?map_name=8x8")):
        for what in (model, tmp_path / "agent.zip"):
            with pytest.raises(
                InputError, match="observes 16 values of 's', from 0 on; the world has those from 0 to 63"
            ):
                task.policy(what)
    assert polvet.from_gym(small).policy(model)


def test_normalised_agents_are_compared_as_they_are_run():
    env = Field()
    wrapped = VecNormalize(DummyVecEnv([Field]))
    wrapped.reset()
    for _ in range(60):
        wrapped.step(np.array([wrapped.action_space.sample()]))
    wrapped.training = False
    for seed in range(4):
        model = agent(wrapped, seed)
        own = lambda seen, model=model: model.predict(wrapped.normalize_obs(seen), deterministic=True)[0]  # noqa: E731
        assert world(env).policy(model).verify().verdict.value == ("unsafe" if falls(env, own) else "safe")


@pytest.mark.parametrize("watching", [wrappers.RecordEpisodeStatistics, wrappers.FlattenObservation])
def test_a_table_knows_what_its_wrappers_show(watching):
    env = watching(gymnasium.make("FrozenLake-v1"))
    task, model = polvet.from_gym(env), agent(env, 1)
    env.reset(seed=0)
    for state, seen in task.shown.items():
        assert np.array_equal(seen, state if watching is wrappers.RecordEpisodeStatistics else np.eye(16)[state])
    assert len(task.shown) == 11  # all but the holes and the goal
    if watching is wrappers.FlattenObservation:
        with pytest.raises(InputError, match="16"):
            task.policy(model)
    else:
        assert task.policy(model)


def test_what_a_table_shows_is_followed_where_numbers_are_shown_otherwise():
    """A wrapper that turns the map's numbers round: an agent's choice in a state is the one for the number that it is shown."""

    class Turned(gymnasium.ObservationWrapper):
        def observation(self, observation):
            return 15 - observation

    env = Turned(gymnasium.make("FrozenLake-v1", is_slippery=False))
    model = agent(env, 3)
    with pytest.raises(
        InputError, match="an agent reads what the environment shows, which is no variables of the world"
    ):
        polvet.from_gym(env).policy(model)
    task = polvet.from_gym(env, state=lambda number: {"turned": 15 - number})
    with pytest.raises(InputError, match="which is turned; the task reads s"):
        task.policy(model)


class Ring(gymnasium.Env):
    """Its table is all that it keeps by numbers: where it is has another name than `s`."""

    def __init__(self, honest=True):
        self.observation_space, self.action_space = spaces.Discrete(5), spaces.Discrete(2)
        self.initial_state_distrib = (1.0, 0, 0, 0, 0)
        self.P = {s: {a: [(1.0, (s + (1, 2)[a]) % 5, 0.0, (s + a) % 5 == 3)] for a in range(2)} for s in range(5)}
        self.place, self.honest = 0, honest

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return 0, {}

    def step(self, action):
        _, self.place, reward, ends = self.P[self.place][int(action)][0]
        return self.place if self.honest else 0, reward, ends, False, {}


def test_a_table_of_which_nothing_can_be_set_is_run_and_one_that_steps_do_not_follow_is_refused():
    task = polvet.from_gym(Ring(), goal="false", fail="s == 4")
    for seed in range(4):
        env, model, places = Ring(), agent(Ring(), seed), []
        observation, ends = env.reset()[0], False
        while not ends and observation not in places and observation != 4:
            places.append(observation)
            observation, _, ends, _, _ = env.step(model.predict(np.array(observation), deterministic=True)[0])
        verdict = task.policy(model).verify().verdict.value
        assert verdict == ("unsafe" if observation == 4 else "safe")
    with pytest.raises(InputError, match="what its table P does not say"):
        polvet.from_gym(Ring(honest=False))
