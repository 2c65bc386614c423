"""Environments without a model: the fault that is there is suspected, and nothing is ever called proved."""

from __future__ import annotations

import numpy as np
import pytest

from polvet.errors import InputError
from polvet.fuzz.environments import LEVEL, Trials, fuzz_environment
from polvet.worlds.clonable import Clonable

gymnasium = pytest.importorskip("gymnasium")


class Ledge(gymnasium.Env):
    """Places 0 .. 9; right of 6 a slope carries one over the edge, whatever one does. Action 0 stays, 1 goes right."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(0, 9, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(0, 4))
        return self._seen(), {}

    def step(self, action):
        if self.place > 6 or (action == 1 and self.np_random.random() < 0.9):
            self.place += 1
        return self._seen(), 0.0, self.place >= 9, False, {}

    def _seen(self):
        return np.array([self.place], dtype=np.float32)


class Stated(Ledge):
    """The same, with its own way to put it back."""

    def get_state(self):
        return self.place

    def set_state(self, state):
        self.place = state

    def __deepcopy__(self, memo):
        raise TypeError("not to be copied")


class Remade(Ledge, gymnasium.utils.EzPickle):
    """As LunarLander is: a copy is made anew from its arguments, and what was made at reset is missing in it."""

    def __init__(self):
        gymnasium.utils.EzPickle.__init__(self)
        self.body = None

    def reset(self, *, seed=None, options=None):
        self.body = object()
        return super().reset(seed=seed)

    def step(self, action):
        assert self.body is not None, "You forgot to call reset()"
        return super().step(action)


def over_the_edge(observation, info):
    return bool(observation[0] >= 9)


@pytest.mark.parametrize("world", [Ledge, Stated])
def test_the_step_onto_the_slope_is_suspected_and_no_other(world):
    report = fuzz_environment(world(), lambda seen: 1, over_the_edge, Trials(episodes=4, horizon=12, seed=1))
    assert report.level == LEVEL
    assert len(report.runs) == 4
    assert report.unsafe.mean == 1.0
    assert {int(one.observation[0]) for one in report.suspicions} == {6}
    assert {(one.action, one.better, one.level) for one in report.suspicions} == {(1, 0, "statistical")}
    assert {one.run for one in report.suspicions} == set(range(4))


def test_a_careful_policy_has_no_unsafe_run():
    report = fuzz_environment(Ledge(), lambda seen: int(seen[0] < 6), over_the_edge, Trials(episodes=20, max_steps=40))
    assert report.runs == ()
    assert report.suspicions == ()
    assert report.unsafe.interval[0] == 0.0


def test_user_functions_put_an_environment_back():
    env = Stated()
    world = Clonable(env, lambda one: one.place, lambda one, state: setattr(one, "place", state))
    env.reset(seed=0)
    saved = world.save()
    env.step(1), env.step(1)
    world.load(saved, 3)
    assert env.place == saved


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: gymnasium.wrappers.OrderEnforcing(env)])
def test_what_would_begin_anew_when_it_is_copied_is_refused_and_put_back_by_functions(wrap):
    trials = Trials(episodes=4, horizon=12, seed=1)
    with pytest.raises(InputError, match="snapshot"):
        fuzz_environment(wrap(Remade()), lambda seen: 1, over_the_edge, trials)

    def restore(env, place):
        env.unwrapped.place = place

    by_hand = fuzz_environment(
        wrap(Remade()),
        lambda seen: 1,
        over_the_edge,
        trials,
        snapshot=lambda env: env.unwrapped.place,
        restore=restore,
    )
    assert {int(one.observation[0]) for one in by_hand.suspicions} == {6}


def test_what_cannot_be_copied_is_refused_with_a_hint():
    class Stubborn(Ledge):
        def __deepcopy__(self, memo):
            raise TypeError("no")

    with pytest.raises(InputError, match="snapshot"):
        fuzz_environment(Stubborn(), lambda seen: 1, over_the_edge, Trials(episodes=1))
    with pytest.raises(InputError, match="both"):
        Clonable(Ledge(), lambda one: one.place)


@pytest.mark.parametrize(
    ("policy", "fail", "trials", "says"),
    [
        (lambda seen: 1, lambda seen, reward, ended, info: False, Trials(), r"fail: `fail` raises TypeError.*\(observation, info\)"),
        (lambda seen: seen.nothing, lambda seen, info: False, Trials(), "policy: `policy` raises AttributeError"),
        (lambda seen: 2, lambda seen, info: False, Trials(), "the policy's action 2 is no number from 0 to 1"),
        (lambda seen: 0.5, lambda seen, info: False, Trials(), "the policy's action 0.5 is no number"),
        (lambda seen: np.array([1, 1]), lambda seen, info: False, Trials(), "is no number from 0 to 1"),
        (lambda seen: 1, lambda seen, info: False, 20, r"20 is no record of trials. Give Trials\(episodes=100\)"),
    ],
)  # fmt: skip
def test_what_is_given_wrong_is_told_in_one_line(policy, fail, trials, says):
    with pytest.raises(InputError, match=says):
        fuzz_environment(Ledge(), policy, fail, trials)


def test_learners_give_actions_as_arrays_of_one():
    few = Trials(episodes=3, max_steps=20, tries=2, horizon=5)
    kinds = (int, np.int64, np.array, lambda number: np.array([number]))
    steps = [fuzz_environment(Ledge(), lambda seen, kind=kind: kind(1), over_the_edge, few).steps for kind in kinds]
    assert len(set(steps)) == 1


def test_cart_pole_falls_under_a_stubborn_policy():
    env = gymnasium.make("CartPole-v1").unwrapped
    report = fuzz_environment(
        env,
        lambda seen: 0,
        lambda seen, info: bool(abs(seen[2]) > 0.2095),
        Trials(episodes=2, tries=6, horizon=8, most_runs=1),
    )
    assert len(report.runs) == 2
