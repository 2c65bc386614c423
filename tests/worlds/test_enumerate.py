"""Environments without a table: the model has exactly the states and probabilities of an enumeration made by hand."""

from __future__ import annotations

import random
import warnings
from collections import deque
from fractions import Fraction

import numpy as np
import pytest

import polvet
from polvet.errors import InputError, LimitReached, Where
from polvet.worlds.chance import Enumerating, iter_scripts
from polvet.worlds.enumerate import enumerate_env, find_difference

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces  # noqa: E402

warnings.filterwarnings("ignore", category=UserWarning, module="gymnasium")


class Stairs(gymnasium.Env):
    """Six stairs: a step up may slip by one or two, a jump goes anywhere in reach; below the first stair one falls."""

    def __init__(self):
        self.observation_space, self.action_space = spaces.Discrete(8), spaces.Discrete(2)
        self.at = 2

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = int(self.np_random.integers(2, 4))
        return self.at, {}

    def step(self, action):
        if action == 0:
            self.at += int(self.np_random.choice([1, -1, -2], p=[0.7, 0.2, 0.1]))
        else:
            self.at = self.at + 1 if self.np_random.random() < 0.25 else int(self.np_random.integers(1, 6))
        self.at = max(0, min(self.at, 6))
        return self.at, float(self.at == 6), self.at in (0, 6), False, {}


def by_hand(at, action):
    """The outcomes of a step on the stairs, with their probabilities."""
    found = {}
    if action == 0:
        ways = [(Fraction(7, 10), at + 1), (Fraction(1, 5), at - 1), (Fraction(1, 10), at - 2)]
    else:
        ways = [(Fraction(1, 4), at + 1)] + [(Fraction(3, 20), one) for one in range(1, 6)]
    for chance, to in ways:
        to = max(0, min(to, 6))
        found[to] = found.get(to, 0) + chance
    return found


def test_scripts_go_through_all_draws_with_their_probabilities():
    seen = {}
    for chance in iter_scripts(()):
        drawn = (chance.integers(3), chance.choice(["a", "b", "c"], p=[0.5, 0, 0.5]))
        seen[drawn] = chance.probability
    assert seen == {(k, letter): Fraction(1, 6) for k in range(3) for letter in "ac"}
    values = [(chance.random(), chance.probability) for chance in iter_scripts((Fraction(1, 4),))]
    assert values == [(0.125, Fraction(1, 4)), (0.625, Fraction(3, 4))]
    assert Enumerating((), ()).integers(2, 4) == 2


def test_the_model_of_an_own_environment_is_the_one_worked_out_by_hand():
    task = polvet.from_gym(Stairs(), cuts=[0.25])
    assert task.explore().states == 7
    semantics = polvet.model.semantics.Semantics(task.model_task.network)
    place, fall = task.variables.index("observation"), task.variables.index("failed")
    starts = list(semantics.initial_states())
    assert sorted(state[place] for state in starts) == [2, 3]
    todo, seen = starts, set()
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        moves = semantics.moves(state)
        assert bool(moves) == (state[place] not in (0, 6))
        for action, move in enumerate(moves):
            found = {one.state[place]: one.probability for one in move.outcomes}
            assert found == by_hand(state[place], action)
            assert all(one.state[fall] == (one.state[place] == 0) for one in move.outcomes)
            todo += [one.state for one in move.outcomes]
    assert len(seen) == 7


def test_a_lake_whose_table_is_hidden_has_the_value_of_the_table():
    class Hidden(gymnasium.Wrapper):
        """The lake, with its table out of sight; its chance is `random() < cumulative probabilities`."""

        @property
        def unwrapped(self):
            return self

        @property
        def np_random(self):
            return self.env.unwrapped.np_random

        @np_random.setter
        def np_random(self, value):
            self.env.unwrapped.np_random = value

    lake = Hidden(gymnasium.make("FrozenLake-v1").unwrapped)
    task = polvet.from_gym(lake, cuts=["1/3", "2/3"])
    assert task.check("Pmax=? [F goal]", exact=True).exact == Fraction(14, 17)


def minigrid(name):
    pytest.importorskip("minigrid")
    return f"gym:{name}"


def walk(starts, blocked, deadly, goal):
    """All (place, direction) reachable by turning and going forward; ends are entered and not left."""
    steps = [(1, 0), (0, 1), (-1, 0), (0, -1)]
    todo, seen, ends = deque(starts), set(starts), set()
    while todo:
        x, y, d = todo.popleft()
        for turn in (-1, 1):
            after = (x, y, (d + turn) % 4)
            if after not in seen:
                seen.add(after)
                todo.append(after)
        to = (x + steps[d][0], y + steps[d][1])
        if to in blocked:
            continue
        if to in deadly or to == goal:
            ends.add((*to, d))
        elif (*to, d) not in seen:
            seen.add((*to, d))
            todo.append((*to, d))
    return seen, ends


def border(width, height):
    return {(x, y) for x in range(width) for y in range(height) if x in (0, width - 1) or y in (0, height - 1)}


def test_minigrid_empty_room_has_the_states_of_a_walk_by_hand():
    task = polvet.load(minigrid("MiniGrid-Empty-5x5-v0"))
    seen, ends = walk([(1, 1, 0)], border(5, 5), set(), (3, 3))
    assert task.explore().states == len(seen) + len(ends)
    assert task.check("Pmax=? [F goal]").value == 1
    assert task.decide().figures["safe"] == 1


def test_minigrid_lava_gap_has_the_states_of_a_walk_by_hand_and_fails_in_lava():
    task = polvet.load(minigrid("MiniGrid-LavaGapS5-v0"))
    total, deaths = 0, 0
    for gap in (1, 2, 3):  # the gap in the column of lava is drawn at each reset
        lava = {(2, y) for y in (1, 2, 3) if y != gap}
        seen, ends = walk([(1, 1, 0)], border(5, 5), lava, (3, 3))
        total += len(seen) + len(ends)
        deaths += sum((x, y) in lava for x, y, _ in ends)
    found = task.explore()
    assert (found.states, found.figures["initial"]) == (total, 3)
    states = polvet.kernel.compiled.Compiled(task.model_task.network)
    space = states.explore()
    named = [dict(zip(task.variables, one, strict=True)) for one in states.unpack(space.states(0, len(space)))]
    assert sum(one["failed"] for one in named) == deaths
    forward = task.policy(lambda state: "forward").verify()
    assert forward.verdict is polvet.Verdict.UNSAFE


def test_an_enumerated_world_is_certified_without_its_environment(tmp_path):
    task = polvet.from_gym(Stairs(), cuts=[0.25], fail=lambda state, reward, ended, info: False)
    saved = polvet.load(task.save(tmp_path / "stairs.toml"))
    result = saved.policy({one: "a1" for one in range(7)}).verify()
    assert result.verdict is polvet.Verdict.SAFE
    assert polvet.certify(result, saved, saved.policy({one: "a1" for one in range(7)})).accepted


class Odd(Stairs):
    """Stairs without chance of their own, to be spoilt."""

    def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        self.at, self.hidden = 2, 0
        return self.at, {}

    def step(self, action):
        self.at = min(6, self.at + 1)
        return self.at, 0.0, self.at == 6, False, {}


class Undeclared(Odd):
    def step(self, action):
        self.at = random.randrange(1, 6)
        return self.at, 0.0, False, False, {}


class Unhashable(Odd):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"what": object()}, {}


class Unbounded(Odd):
    def step(self, action):
        self.at += 1
        return self.at, 0.0, False, False, {}


class Raising(Odd):
    def step(self, action):
        if self.at == 4:
            raise ZeroDivisionError("the stair is broken")
        return super().step(action)


class Forgetful(Odd):
    """What the second action does depends on something that is not observed."""

    def step(self, action):
        self.hidden = (self.hidden + 1) % 3
        self.at = 1 + self.at % 2 if action == 0 or self.hidden else 5
        return self.at, 0.0, self.at == 5, False, {}


class Continuous(Odd):
    def step(self, action):
        self.at = int(self.np_random.normal())
        return self.at, 0.0, False, False, {}


class Steered(Odd):
    def __init__(self):
        super().__init__()
        self.action_space = spaces.Box(-1, 1)


def acting(space):
    """An environment with that space of actions."""
    return lambda: type("Acting", (Odd,), {"__init__": lambda self: None, "action_space": space})()


class Undecided(Odd):
    def step(self, action):
        return self.at, 0.0, np.array([True, False]), False, {}


class Numberless(Odd):
    def step(self, action):
        return np.array([np.nan]), 0.0, False, False, {}


class Unrewarded(Odd):
    def step(self, action):
        return self.at, float("nan"), False, False, {}


class Unready(Odd):
    def reset(self, *, seed=None, options=None):
        raise RuntimeError("no stairs today")


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (acting(spaces.Discrete(2, start=1)), r"numbered from 1: Discrete\(2, start=1\).*TransformAction"),
        (acting(spaces.MultiDiscrete([2, 2])), r"not discrete, but MultiDiscrete"),
        (acting(spaces.MultiBinary(3)), r"not discrete, but MultiBinary"),
        (Undecided, r"whether the episode ends, is no truth value"),
        (Numberless, r"holds a NaN"),
        (Unrewarded, r"the reward nan is no finite number"),
        (Unready, r"reset\(seed=0\) raises RuntimeError: no stairs today"),
        (Undeclared, r"turns out differently when it is made again.*np_random only"),
        (Unhashable, r"cannot be compared: a object.*`state` function"),
        (Raising, r"step\(0\) raises ZeroDivisionError: the stair is broken, after the actions \[0, 0\]"),
        (Forgetful, r"does other things in the same state when the state is reached another way"),
        (Continuous, r"cannot be enumerated: it asks chance for 'normal'.*fuzz_environment"),
        (Stairs, r"cannot be enumerated: it draws real numbers.*cuts"),
        (Steered, r"actions are not discrete"),
    ],
)
def test_an_unusual_environment_is_refused_with_what_is_wrong(kind, says):
    with pytest.raises(InputError, match=says):
        polvet.from_gym(kind())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"state": lambda env: env.unwrapped.nothing}, "`state` raises AttributeError"),
        ({"snapshot": lambda env: env.nothing, "restore": lambda env, at: None}, "`snapshot` raises AttributeError"),
        ({"snapshot": lambda env: 1, "restore": lambda env, at: env.nothing}, "`restore` raises AttributeError"),
        ({"fail": lambda state: True}, "`fail` raises TypeError"),
        ({"seeds": ["x"]}, "'x' in `seeds` is no integer"),
    ],
)
def test_what_a_users_function_raises_is_said(given, says):
    with pytest.raises(InputError, match=says):
        polvet.from_gym(Odd(), **given)


def test_an_unbounded_environment_ends_at_the_limit():
    with pytest.raises(LimitReached, match=r"more than 50 states.*max_states"):
        polvet.from_gym(Unbounded(), max_states=50)
    with pytest.raises(LimitReached, match="time limit"):
        polvet.from_gym(Unbounded(), time_limit=0.05)


def test_a_model_that_is_not_the_environments_is_found_by_random_runs():
    found = enumerate_env(Stairs(), Where("stairs"), cuts=[0.25])
    assert find_difference(found, Stairs()) is None

    class Steeper(Stairs):
        def step(self, action):
            shown = super().step(action)
            if self.at == 3 and action == 1:
                self.at = 0
                return 0, 0.0, True, False, {}
            return shown

    says = find_difference(found, Steeper())
    assert says is not None
    assert "the environment is where the model is not" in says


def test_own_ways_of_putting_back_are_used():
    class Stubborn(Stairs):
        def __deepcopy__(self, memo):
            raise TypeError("not to be copied")

    with pytest.raises(InputError, match="cannot be copied"):
        polvet.from_gym(Stubborn(), cuts=[0.25])
    task = polvet.from_gym(
        Stubborn(), cuts=[0.25], snapshot=lambda env: env.at, restore=lambda env, at: setattr(env, "at", at)
    )
    assert task.explore().states == 7


def test_seeds_name_the_resets_and_a_state_function_names_the_features():
    task = polvet.from_gym(Stairs(), cuts=[0.25], seeds=[0], state=lambda env: {"stair": env.unwrapped.at})
    env = Stairs()
    at, _ = env.reset(seed=0)
    (start,) = polvet.model.semantics.Semantics(task.model_task.network).initial_states()
    assert dict(zip(task.variables, start, strict=True))["stair"] == at
    assert np.array_equal(task.env().reset(seed=1)[0], [at])
