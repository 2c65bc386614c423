"""A shield stays in its world: around any other one it is refused. The oracle is what really happens there, in Gymnasium's own episodes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import polvet
from polvet.domains import generate
from polvet.errors import InputError
from polvet.shield import load_shield
from tests.worlds.test_observations import Farm

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import wrappers  # noqa: E402

from polvet.shield.wrapper import ShieldedEnv  # noqa: E402

warnings.filterwarnings("ignore", category=UserWarning, module="gymnasium")
OTHER_MAP = ["SFHF", "FFFF", "HFFH", "FFHG"]
REFUSED = "the environment is not the world that the shield is for"


def lake(**options):
    return gymnasium.make("FrozenLake-v1", **{"map_name": "4x4", "is_slippery": False, **options})


def cliff(**options):
    return gymnasium.make("CliffWalking-v1", **options)


def place_of(observation):
    """The state as a user would tell it."""
    return {"s": int(observation)}


@pytest.fixture(scope="module")
def dry():
    return polvet.from_gym(lake())


@pytest.fixture(scope="module")
def shield(dry):
    return dry.permit(0)


def unshielded_falls(env, shield, labels, fell, episodes=200):
    """How many episodes fall where the allowed actions are taken without asking whose world it is: stuck where it does not know."""
    rng, falls = np.random.default_rng(0), 0
    for seed in range(episodes):
        state, _ = env.reset(seed=seed)
        for _ in range(100):
            try:
                allowed = shield.allowed({"s": int(state)})
            except InputError:
                break
            state, reward, ended, _, _ = env.step(labels.index(rng.choice(allowed)))
            if ended or fell(env, state, reward):
                falls += fell(env, state, reward)
                break
    return falls


def in_a_hole(env, state, reward):
    return env.unwrapped.desc.flatten()[state] == b"H"


def off_the_cliff(env, state, reward):
    return reward == -100


LAKES = {
    "slippery": lambda: lake(is_slippery=True),
    "another map": lambda: lake(desc=OTHER_MAP),
}


@pytest.mark.parametrize("name", LAKES)
@pytest.mark.parametrize("given", [{}, {"state_of": place_of, "labels": ("left", "down", "right", "up")}])
def test_a_shield_is_refused_around_another_lake_where_its_actions_fall(dry, shield, name, given):
    other = LAKES[name]
    assert unshielded_falls(other(), shield, dry.labels, in_a_hole) > 20
    assert unshielded_falls(lake(), shield, dry.labels, in_a_hole) == 0
    with pytest.raises(InputError, match=rf"{REFUSED}: '(left|down|right|up)' .*s=\d+.*in the model"):
        shield.wrap(other(), **given)
    env = shield.wrap(lake(), **given)
    rng = np.random.default_rng(1)
    for seed in range(200):
        state, _ = env.reset(seed=seed)
        ended = cut = False
        while not (ended or cut):
            state, _, ended, cut, _ = env.step(int(rng.integers(4)))
        assert not in_a_hole(env, state, 0)
    assert "its table of 16 states" in env.report().compared
    assert "its table of 16 states" in str(env.report())


def test_a_shield_of_the_cliff_is_refused_where_the_wind_blows():
    task = polvet.from_gym(cliff())
    shield = task.permit(0)
    assert unshielded_falls(cliff(is_slippery=True), shield, task.labels, off_the_cliff) > 20
    assert unshielded_falls(cliff(), shield, task.labels, off_the_cliff) == 0
    with pytest.raises(InputError, match=REFUSED):
        shield.wrap(cliff(is_slippery=True))
    assert "48 states" in shield.wrap(cliff()).report().compared
    assert task.check_abstraction(cliff(), runs=5).agrees
    blown = task.check_abstraction(cliff(is_slippery=True))
    assert "to s=0 with probability 2/3, in the model with 1" in str(blown.mismatch)


def test_what_makes_no_other_world_is_no_reason_to_refuse(shield):
    spelled = [row.decode() for row in map(b"".join, lake().unwrapped.desc)]
    for env in (
        lake(render_mode="ansi"),
        gymnasium.make("FrozenLake-v1", desc=spelled, is_slippery=False),
        wrappers.TransformReward(lake(), lambda reward: 2 * reward),
        wrappers.RecordEpisodeStatistics(lake()),
        lake(max_episode_steps=7),
    ):
        assert shield.wrap(env).report().steps == 0


def test_chances_alone_make_another_world():
    """Every step is possible in both lakes; the bound that holds in one does not in the other."""
    task = polvet.from_gym(lake(is_slippery=True))
    shield = task.permit("0.5")
    rough = lake(is_slippery=True)
    for rows in rough.unwrapped.P.values():
        for action, row in rows.items():
            rows[action] = [(0.5 - 0.25 * (k != 1), *one[1:]) for k, one in enumerate(row)] if len(row) == 3 else row
    with pytest.raises(InputError, match=r"with probability 3/4, in the model with 2/3"):
        shield.wrap(rough)
    assert shield.wrap(lake(is_slippery=True))


def test_without_a_name_or_a_table_steps_tell():
    task = polvet.from_gym(Farm(), fail=lambda state, reward, ended, info: info["fox"])
    shield = task.permit(0)
    with pytest.raises(InputError, match=r"no state of the model has egg=\d, pos0=\d, pos1=\d"):
        shield.wrap(Farm(size=5))

    class Lame(gymnasium.Wrapper):
        def step(self, action):
            return self.env.step(4 if action == 0 and self.env.unwrapped.at[0] == 1 else action)

    with pytest.raises(
        InputError, match=rf"{REFUSED}: 'a0' leads from .*pos0=1.* to .*pos0=1.*, in the model to .*pos0=2"
    ):
        shield.wrap(Lame(Farm()))
    env = shield.wrap(Farm())
    assert "steps from its resets" in env.report().compared
    assert env.report().compared.endswith("not how likely outcomes are")
    assert env.report().steps == 0

    class Turned(gymnasium.ActionWrapper):
        def action(self, action):
            return (action + 1) % 4

    lake_shield = polvet.from_gym(lake()).permit(0)
    with pytest.raises(InputError, match=REFUSED):
        lake_shield.wrap(Turned(lake()))


class Corridor(gymnasium.Env):
    """Ten places; the seed of the reset says where it begins, and a trap opens late."""

    def __init__(self, trap=10**9):
        self.observation_space, self.action_space = gymnasium.spaces.Discrete(10), gymnasium.spaces.Discrete(2)
        self.trap, self.steps = trap, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 1 + (seed or 0) % 5
        return self.place, {}

    def step(self, action):
        self.steps += 1
        self.place = max(0, min(9, self.place + (1 if action else -1)))
        if self.steps > self.trap:
            self.place = 0
        return self.place, float(self.place == 9), self.place in (0, 9), False, {}


def test_a_world_made_of_some_resets_is_tried_from_these_only(tmp_path):
    task = polvet.from_gym(Corridor(), seeds=[3, 4])
    env = task.permit(0).wrap(Corridor())
    assert int(env.report().compared.split(" steps")[0].replace(",", "")) > 200
    reloaded = polvet.load(task.save(tmp_path / "corridor.toml"))
    assert reloaded.permit(0).wrap(Corridor()).report().compared == env.report().compared


def test_what_shows_later_is_refused_when_it_shows():
    shield = polvet.from_gym(Corridor(), seeds=range(5)).permit(0)
    env = shield.wrap(Corridor(trap=5_000))

    def run():
        for seed in range(10_000):
            env.reset(seed=seed)
            env.step(seed % 2)
            env.step(seed % 2)

    with pytest.raises(InputError, match=rf"{REFUSED}: 'a[01]' leads from .*s=\d.* to .*s=\d"):
        run()


@pytest.mark.parametrize("unknown", ["forbid", "nearest"])
def test_a_state_that_is_not_listed_stays_what_the_user_said(unknown):
    stay, go = np.eye(10), np.roll(np.eye(10), 1, axis=1)
    shield = polvet.from_matrix({"stay": stay, "go": go}, fail=[4]).permit(0)

    class Leap(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Discrete(10), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.place = 0
            return 0, {}

        def step(self, action):
            self.place += (3 if self.place == 2 else 1) * int(action)
            return self.place, 0.0, False, False, {}

    given = {"state_of": place_of, "labels": ("stay", "go")}
    with pytest.raises(InputError, match=rf"{REFUSED}: 'go' leads from s=2 to s=5, in the model to s=3"):
        shield.wrap(Leap(), **given)
    env = shield.wrap(Leap(), unknown=unknown, **given)
    env.reset(seed=0)
    for _ in range(3):
        *_, cut, info = env.step(1)
    assert info["unknown"]
    assert cut == (unknown == "forbid")


def test_a_vector_of_another_world_is_refused_at_once_or_at_its_first_step_that_tells(dry, shield):
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")

    def rows(observations):
        return np.array(
            [list(dry.model_task.network.edges.table.completed({"s": int(s)}).values()) for s in observations]
        )

    class Hidden(vec_env.VecEnv):
        """Environments that only answer, as those in other processes do."""

        def __init__(self, inner):
            super().__init__(inner.num_envs, inner.observation_space, inner.action_space)
            self._to = inner

        def reset(self):
            return self._to.reset()

        def step_async(self, actions):
            self._to.step_async(actions)

        def step_wait(self):
            return self._to.step_wait()

        def close(self):
            self._to.close()

        def get_attr(self, name, indices=None):
            return [None] * self.num_envs

        def set_attr(self, name, value, indices=None):
            raise NotImplementedError

        def env_method(self, name, *args, indices=None, **kwargs):
            return self._to.env_method(name, *args, indices=indices, **kwargs)

        def env_is_wrapped(self, wrapper_class, indices=None):
            return [False] * self.num_envs

    def turn(env):
        rng = np.random.default_rng(0)
        for _ in range(400):
            env.step(rng.integers(4, size=4))

    for name in LAKES:
        with pytest.raises(InputError, match=REFUSED):
            shield.wrap(vec_env.DummyVecEnv([lake, LAKES[name]]), state_of=rows, labels=dry.labels)
        behind = vec_env.VecCheckNan(vec_env.DummyVecEnv([LAKES[name]] * 4))
        with pytest.raises(InputError, match=REFUSED):
            shield.wrap(behind, state_of=rows, labels=dry.labels)
        hidden = Hidden(behind)
        env = shield.wrap(hidden, state_of=rows, labels=dry.labels)
        assert env.report().compared == "each step as it is made; not how likely outcomes are"
        env.reset()
        with pytest.raises(InputError, match=REFUSED):
            turn(env)
    env = shield.wrap(vec_env.DummyVecEnv([lake] * 4), state_of=rows, labels=dry.labels)
    env.reset()
    turn(env)
    assert "its table of 16 states" in env.report().compared


def test_the_environment_of_another_task_is_refused(tmp_path):
    for name, width in (("a", 3), ("b", 4)):
        generate("janitor", width=width, height=3).write(tmp_path / f"{name}.jani")
    one, two = (polvet.load(tmp_path / f"{name}.toml") for name in "ab")
    shield = one.permit("0.1")
    with pytest.raises(InputError, match="another model"):
        shield.wrap(two.env())
    with pytest.raises(InputError, match="another model"):
        two.vec_env(2, shield=shield)
    assert "its own task" in shield.wrap(one.env()).report().compared
    m = polvet.ModelBuilder("coin")
    x, p = m.int("x", 0, 2, initial=0), m.constant("p", type="real")
    m.edge("go", guard=x == 0, to=[(p, {x: 1}), (1 - p, {x: 2})])
    m.edge("stay", guard=x == 0, to={x: 0})
    low, high = (polvet.load(m, fail="x == 1", goal="x == 2", constants={"p": chance}) for chance in ("0.1", "0.9"))
    shield = low.permit("0.1")
    assert "go" in shield.allowed({"x": 0})
    with pytest.raises(InputError, match="another model"):
        shield.wrap(high.env())
    with pytest.raises(InputError, match="another model"):
        high.learn(cost=lambda visit: 1.0, cost_upper=2, shield=shield, iterations=1)


@pytest.mark.parametrize("name", LAKES)
def test_nothing_is_learned_in_another_world(dry, name):
    class Counted(gymnasium.Wrapper):
        steps = 0

        def step(self, action):
            type(self).steps += 1
            return self.env.step(action)

    with pytest.raises(InputError, match="the environment is not the task's world"):
        dry.learn(0, env=Counted(LAKES[name]()), cost=lambda visit: 1.0, cost_upper=1, iterations=1, episodes=5)
    assert Counted.steps == 0
    learned = dry.learn(0, env=Counted(lake()), cost=lambda visit: 1.0, cost_upper=1, iterations=1, episodes=5)
    assert learned.lower == pytest.approx(6)  # steps around the holes
    assert Counted.steps > 0


def test_a_shield_from_a_file_knows_what_its_world_was_made_of(dry, shield, tmp_path):
    table = load_shield(shield.save(tmp_path / "shield.json"))
    whole = dry.model_task.network.edges.table
    given = {"state_of": lambda seen: whole.completed(place_of(seen)), "labels": dry.labels}
    with pytest.raises(
        InputError, match=r'it is FrozenLake-v1 .*"is_slippery": true.*the model was made of .*"is_slippery": false'
    ):
        ShieldedEnv(lake(is_slippery=True), table, **given)
    env = ShieldedEnv(lake(), table, **given)
    assert "nothing" in env.report().compared
    saved = polvet.load(dry.save(tmp_path / "dry.toml"))
    with pytest.raises(InputError, match=REFUSED):
        saved.permit(0).wrap(lake(is_slippery=True))
    code = polvet.certify(tmp_path / "shield.json", task=tmp_path / "dry.toml")
    assert code.verdict.value == "accepted"


def test_what_a_log_never_showed_counts_as_failing_and_not_as_another_world():
    log = [(0, 0, 1), (0, 1, 0)] * 50 + [(1, 0, 2), (1, 1, 0)] * 50
    task = polvet.from_transitions(log, labels=("go", "stay"), outcomes=2, states=4, fail=[3], goal=[2])
    shield = task.permit("0.99")

    class Rare(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Discrete(4), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.place = 0
            return 0, {}

        def step(self, action):
            slips = self.np_random.random() < 0.1
            self.place = 3 if slips else self.place + 1 if action == 0 else 0
            return self.place, 0.0, self.place > 1, False, {}

    env = shield.wrap(Rare(), state_of=place_of, labels=("go", "stay"))
    assert "steps from its resets" in env.report().compared
