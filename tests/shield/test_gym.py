"""Environments made of tasks, and shields around them. Needs the extra `train`."""

import random
import warnings
from fractions import Fraction

import numpy as np
import pytest

from polvet.domains import generate
from polvet.errors import InputError
from polvet.model.semantics import Semantics
from polvet.shield import Permitted, build_world, make_shield, permit

gymnasium = pytest.importorskip("gymnasium")
from examples.shielded_ppo import ice  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402

from polvet.shield.gym import model_env  # noqa: E402
from polvet.shield.wrapper import ShieldedEnv  # noqa: E402


def shield_of(task, bound=Fraction(0)):  # type: ignore[no-untyped-def]
    world = build_world(task)
    result = permit(world, bound)
    assert isinstance(result, Permitted)
    return make_shield(task, world, result, bound)


@pytest.mark.parametrize("name", ["janitor", "folline", "comexp"])
def test_every_task_is_an_environment_that_gymnasium_accepts(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice about normalised observations
        check_env(model_env(generate(name).task()), skip_render_check=True)


def test_rewards_are_minus_the_cost_and_the_bonus_at_the_end() -> None:
    env = model_env(generate("janitor", width=3, height=3).task(), cost="fuel", goal_reward=7.0, fail_reward=-3.0)
    env.reset(seed=1)
    interpreter = Semantics(env.task.network)
    for _ in range(50):
        before, action = env.state, int(np.flatnonzero(env.action_masks())[0])
        _, reward, ended, _, info = env.step(action)
        burnt = {
            float(outcome.scratch[0])
            for move in interpreter.moves(before)
            if move.label in (None, env.labels[action])
            for outcome in move.outcomes
            if outcome.state == env.state
        }
        assert -(reward - 7.0 * info["goal"] + 3.0 * info["fail"]) in burnt
        if ended:
            break
    assert ended


def test_under_a_shield_random_actions_never_fail_and_without_it_they_do() -> None:
    rng = random.Random(0)
    task = ice().model_task
    shielded, free = ShieldedEnv(model_env(task), shield_of(task)), model_env(task)
    failures = {}
    for name, env in (("shielded", shielded), ("free", free)):
        count = 0
        for episode in range(200):
            env.reset(seed=episode)
            for _ in range(200):
                _, _, ended, _, info = env.step(rng.randrange(2))
                count += info["fail"]
                if ended:
                    break
        failures[name] = count
    assert failures["shielded"] == 0
    assert failures["free"] > 50
    assert shielded.replaced > 0


def test_a_mask_allows_exactly_what_the_shield_allows() -> None:
    task = ice().model_task
    shield = shield_of(task)
    env = ShieldedEnv(model_env(task), shield)
    env.reset(seed=0)
    for _ in range(100):
        allowed = shield.allowed(env.unwrapped.named_state())
        mask = env.action_masks()
        assert {env.labels[k] for k in np.flatnonzero(mask)} == set(allowed)
        _, _, ended, _, _ = env.step(int(np.flatnonzero(mask)[-1]))
        if ended:
            break


def test_the_users_own_environment_needs_a_way_to_the_models_state() -> None:
    class Own(gymnasium.Env):  # type: ignore[misc, type-arg]
        observation_space = gymnasium.spaces.Discrete(20)
        action_space = gymnasium.spaces.Discrete(2)
        place = 0

        def reset(self, *, seed=None, options=None):  # type: ignore[no-untyped-def]
            super().reset(seed=seed)
            self.place = 0
            return 0, {}

        def step(self, action):  # type: ignore[no-untyped-def]
            self.taken = action
            self.place += 1
            return self.place, 0.0, self.place == 12, False, {}

    task = ice().model_task
    with pytest.raises(InputError, match="state_of"):
        ShieldedEnv(Own(), shield_of(task))
    own = Own()
    env = ShieldedEnv(
        own, shield_of(task), labels=("slow", "fast"), state_of=lambda place: {"x": int(place), "hole": False}
    )
    env.reset()
    for place in range(12):
        env.step(1)  # always fast
        assert own.taken == (0 if place % 3 == 2 else 1)


@pytest.mark.slow
def test_maskable_ppo_trains_under_a_shield_without_a_single_failure() -> None:
    pytest.importorskip("sb3_contrib")
    import torch
    from examples.shielded_ppo import train

    torch.set_num_threads(1)
    task = ice().model_task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert train(ShieldedEnv(model_env(task, max_steps=200), shield_of(task)), 1500, 0) == 0
        assert train(model_env(task, max_steps=200), 1500, 0) > 0
