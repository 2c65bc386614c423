"""Shields in a training run: labels, unknown states, many environments, learners with and without masks, abstractions."""

import warnings
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import polvet
from polvet.domains import generate
from polvet.errors import InputError
from polvet.shield import Permitted, Shield, build_world, make_shield, permit

gymnasium = pytest.importorskip("gymnasium")
from examples.shielded_ppo import ice  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402

from polvet.shield.gym import model_env  # noqa: E402
from polvet.shield.vector import VectorEnv  # noqa: E402
from polvet.shield.wrapper import ShieldedEnv  # noqa: E402


def shield_of(task, bound=Fraction(0)):
    world = build_world(task)
    result = permit(world, bound)
    assert isinstance(result, Permitted)
    return make_shield(task, world, result, bound)


@pytest.fixture(scope="module")
def lake():
    return polvet.from_gym("FrozenLake-v1", map_name="4x4", is_slippery=True)


LETTERS = "SFFFFHFHFFFHHFFG"


def place_of(observation):
    """The model's state of FrozenLake 4x4, as a user would write it down."""
    s = int(observation)
    return {"s": s, "row": s // 4, "column": s % 4, "failed": LETTERS[s] == "H", "reached": LETTERS[s] == "G"}


def row_of(observations):
    return np.array([list(place_of(one).values()) for one in observations])


def own_lake(**options):
    return gymnasium.make("FrozenLake-v1", map_name="4x4", is_slippery=True, **options)


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        (("LEFT", "DOWN", "RIGHT", "UP"), "no label 'LEFT'"),
        (("left", "down", "right"), "3 labels for 4 actions"),
        (("left", "down", "right", "left"), "twice"),
        ("ldru", "no list of labels"),
    ],
)
def test_labels_are_looked_at_before_the_first_step(lake, labels, why):
    shield = shield_of(lake.model_task, Fraction(9, 10))
    with pytest.raises(InputError, match=why):
        ShieldedEnv(own_lake(), shield, state_of=place_of, labels=labels)


def test_a_state_that_leaves_no_action_open_is_refused_and_never_a_mask_of_everything():
    shield = Shield(("x",), {(0,): ("go",), (1,): ("stay",)}, {(0,): Fraction(0), (1,): Fraction(0)})

    class Two(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(1)

    with pytest.raises(InputError, match="no action is open in x=1"):
        ShieldedEnv(Two(), shield, state_of=lambda x: {"x": x}, labels=("go",))


def test_masks_before_the_first_reset_say_what_to_do(lake):
    env = lake.permit(bound=Fraction(9, 10)).wrap(own_lake(), state_of=place_of, labels=lake.labels)
    for ask in (env.action_masks, lambda: env.step(0)):
        with pytest.raises(InputError, match=r"was not reset.*Call reset\(\) first"):
            ask()


@pytest.mark.parametrize("action", [-1, 4, np.int64(-4), np.array(99)])
def test_a_number_that_is_no_actions_is_refused_and_never_counted_from_the_end(lake, action):
    sb3 = pytest.importorskip("stable_baselines3.common.vec_env")
    shield = lake.permit("0.3")
    env = shield.wrap(own_lake(), state_of=place_of, labels=lake.labels)
    env.reset(seed=0)
    with pytest.raises(InputError, match="there is no action"):
        env.step(action)
    many = shield.wrap(sb3.DummyVecEnv([own_lake] * 2), state_of=row_of, labels=lake.labels)
    many.reset()
    with pytest.raises(InputError, match="Give 0 to 3"):
        many.step(np.array([0, int(action)]))
    assert env.step(0)[4]["taken"] in range(4)


def test_gymnasium_accepts_shielded_environments(lake):
    shield = lake.permit(bound=Fraction(9, 10))
    own = shield.wrap(own_lake(), state_of=place_of, labels=lake.labels)
    task = generate("janitor", width=3, height=3).task()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice about wrappers and normalised observations
        check_env(own, skip_render_check=True)
        check_env(ShieldedEnv(model_env(task), shield_of(task, Fraction(1, 10))), skip_render_check=True)


class Line(gymnasium.Env):
    """Places 0 to 9, of which the shield knows 0 to 3; action 1 goes on, action 0 stays."""

    observation_space, action_space = gymnasium.spaces.Discrete(10), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.done = 0, []
        return 0, {}

    def step(self, action):
        self.done.append(int(action))
        self.place += int(action)
        return self.place, 1.0, self.place == 9, False, {}


def line(unknown):
    actions = {(0,): ("stay", "go"), (1,): ("go",), (2,): ("stay", "go"), (3,): ("go",)}
    shield = Shield(("x",), actions, {key: Fraction(0) for key in actions})
    return ShieldedEnv(Line(), shield, state_of=lambda x: {"x": x}, labels=("stay", "go"), unknown=unknown)


def test_an_unknown_state_is_an_error_by_default():
    env = line("error")
    env.reset()
    for _ in range(3):
        env.step(1)
    with pytest.raises(InputError, match=r"does not know the state x=4.*unknown='forbid'"):
        env.step(1)
    assert env.report().unknown == 1


def test_an_unknown_state_that_is_forbidden_ends_the_episode_before_anything_is_done():
    env = line("forbid")
    for episode in range(1, 4):
        env.reset()
        *_, truncated, info = [env.step(1) for _ in range(4)][-1]
        assert truncated
        assert info["unknown"]
        assert not env.action_masks().any()
        assert env.step(1)[1:] == (0.0, False, True, {"taken": None, "replaced": False, "unknown": True})
        assert len(env.unwrapped.done) == 4
        assert env.report().unknown == episode
    assert env.report().examples == ({"x": 4},)


def test_in_an_unknown_state_the_nearest_one_rules_and_every_visit_is_counted():
    env = line("nearest")
    env.reset()
    steps = [env.step(0) for _ in range(2)]  # x=0 twice
    assert [info["replaced"] for *_, info in steps] == [False, False]
    while not (result := env.step(1))[2]:
        assert env.action_masks().any()
    assert result[0] == 9
    assert env.report().unknown == 5  # 4 to 8, like 3
    assert env.report().unknown_states == 5
    env.reset()
    for _ in range(4):
        env.step(1)
    assert env.action_masks().tolist() == [False, True]
    assert env.step(0)[4] == {"taken": 1, "replaced": True, "unknown": True}


def test_an_unknown_word_for_unknown_states_names_those_there_are():
    with pytest.raises(InputError, match=r"'near' is unknown.*error.*forbid.*nearest"):
        line("near")


@pytest.mark.parametrize("name", ["janitor", "comexp", "ice"])
def test_masks_of_a_thousand_environments_are_those_of_the_shield_state_by_state(name):
    task = ice().model_task if name == "ice" else generate(name).task()
    shield = shield_of(task, Fraction(1, 10))
    env, rng = VectorEnv(task, 1024, shield=shield, max_steps=30), np.random.default_rng(0)
    env.reset(seed=3)
    names, seen = [variable.name for variable in task.network.variables], Counter()
    for _ in range(40):
        masks = env.action_masks()
        for state, mask in zip(env.lanes.states(), masks.tolist(), strict=True):
            allowed = shield.allowed(dict(zip(names, state, strict=True)))
            if allowed and allowed != (None,):
                assert mask == [label in allowed for label in task.network.labels]
                seen[state] += 1
        env.step(rng.integers(len(env.labels), size=1024))
    assert len(seen) > 20 or name == "ice"
    assert env.lanes.guard.report().replaced > 0


def test_random_actions_in_a_thousand_shielded_lanes_never_fail():
    task, rng = ice().model_task, np.random.default_rng(1)
    failures = {}
    for shield in (None, shield_of(task)):
        env = VectorEnv(task, 1024, shield=shield, max_steps=50)
        env.reset(seed=0)
        failures[shield] = sum(int(env.step(rng.integers(2, size=1024))[4]["fail"].sum()) for _ in range(60))
    assert failures.pop(None) > 1000
    assert set(failures.values()) == {0}


def test_lanes_refuse_the_shield_of_another_model():
    other = shield_of(ice(9).model_task)
    with pytest.raises(InputError, match="another model"):
        VectorEnv(ice().model_task, 4, shield=other)


def test_a_vector_of_the_users_own_environments_is_masked_and_replaced_like_each_of_them(lake):
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.vec_env import DummyVecEnv

    shield = lake.permit(bound=Fraction(4, 5))
    env = shield.wrap(DummyVecEnv([own_lake] * 8), state_of=row_of, labels=lake.labels)
    observations, rng = env.reset(), np.random.default_rng(0)
    for _ in range(200):
        masks = np.array(env.env_method("action_masks"))
        for one, mask in zip(observations, masks.tolist(), strict=True):
            assert mask == shield.mask(place_of(one), lake.labels)
        before, wanted = observations, rng.integers(4, size=8)
        observations, _, _, _ = env.step(wanted)
        taken = env.venv.actions
        for one, asked, done in zip(before, wanted, taken, strict=True):
            allowed = shield.allowed(place_of(one))
            assert lake.labels[done] in allowed
            assert done == asked or lake.labels[asked] not in allowed
    assert env.report().replaced > 100


def test_forbidden_states_of_a_vector_begin_a_new_episode_there():
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.vec_env import DummyVecEnv

    actions = {(0,): ("stay", "go"), (1,): ("go",)}
    shield = polvet.Shield(table=Shield(("x",), actions, {key: Fraction(0) for key in actions}))
    env = shield.wrap(
        DummyVecEnv([Line] * 3), state_of=lambda x: np.reshape(x, (-1, 1)), labels=("stay", "go"), unknown="forbid"
    )
    env.reset()
    env.step(np.array([1, 1, 0]))
    observations, _, dones, infos = env.step(np.array([1, 0, 0]))  # the second is replaced: at 1 only `go` is open
    assert observations.tolist() == [0, 0, 0]
    assert dones.tolist() == [True, True, False]
    assert infos[0]["terminal_observation"] == 2
    assert infos[0]["TimeLimit.truncated"]
    assert env.report().unknown == 2


@pytest.mark.slow
def test_maskable_ppo_and_a_learner_without_masks_train_in_shielded_vectors_without_a_failure():
    sb3 = pytest.importorskip("sb3_contrib")
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback

    task = ice()
    shield = task.permit(bound=0)

    class Count(BaseCallback):
        failures = 0

        def _on_step(self):
            self.failures += sum(bool(info.get("fail")) for info in self.locals["infos"])
            return True

    for learner in (sb3.MaskablePPO, PPO):
        env, count = task.vec_env(16, sb3=True, shield=shield, max_steps=60), Count()
        learner("MlpPolicy", env, n_steps=32, batch_size=64, seed=0, device="cpu").learn(1500, callback=count)
        assert count.failures == 0
        assert env.lanes.guard.report().steps >= 1500


def test_a_right_abstraction_agrees_and_wrong_ones_are_found_out(lake):
    right = lake.check_abstraction(own_lake(), state_of=place_of, labels=lake.labels, runs=300)
    assert right.agrees
    assert right.steps > 1000
    transposed = lambda s: place_of(4 * (int(s) % 4) + int(s) // 4)  # noqa: E731
    wrong = {
        "state": {"state_of": transposed, "labels": lake.labels},
        "labels": {"state_of": place_of, "labels": ("up", "down", "right", "left")},
        "variable": {"state_of": lambda s: {"column": int(s) % 4}, "labels": lake.labels},
        "start": {"state_of": lambda s: place_of(min(15, int(s) + 1)), "labels": lake.labels},
    }
    for name, given in wrong.items():
        found = lake.check_abstraction(own_lake(), runs=300, **given)
        assert found.mismatch is not None, name


def test_frequencies_that_are_not_the_models_are_doubtful(lake):
    class Drift(gymnasium.Wrapper):
        """The lake, but every other slip to the left is undone: each step is possible, their frequencies are not the model's."""

        def step(self, action):
            env = self.env.unwrapped
            state, last = env.s, env.lastaction
            result = self.env.step(action)
            if env.np_random.random() < 0.5 and env.s == state:
                env.s, env.lastaction = state, last
                result = self.env.step(action)
            return result

    found = lake.check_abstraction(Drift(own_lake()), state_of=place_of, labels=lake.labels, runs=2000)
    assert found.mismatch is None
    assert found.doubts
    assert "visits" in str(found.doubts[0])
