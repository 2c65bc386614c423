"""Environments of one's own, with arrays, dictionaries and wrappers: their models are those of a walk by hand, their features are named."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest

import polvet
from polvet.cli.app import run
from polvet.errors import InputError
from polvet.model.semantics import Semantics
from polvet.worlds.enumerate import whole_number

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces, wrappers  # noqa: E402

warnings.filterwarnings("ignore", category=UserWarning, module="gymnasium")


class Tanks(gymnasium.Env):
    """Two tanks of three litres, shown as an array: each step fills one, or none, and with a third one of them leaks."""

    kind: type = np.int64

    def __init__(self):
        self.observation_space = spaces.Box(0, 4, shape=(2,), dtype=self.kind)
        self.action_space = spaces.Discrete(3)
        self.level = [1, 1]

    def shown(self):
        return np.array(self.level, dtype=self.kind)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level = [1, 1]
        return self.shown(), {}

    def step(self, action):
        filled = [level + (action == k) for k, level in enumerate(self.level)]
        if self.np_random.random() < 1 / 3:
            filled[int(self.np_random.integers(2))] -= 1
        spilt, self.level = max(filled) > 3, [max(0, min(3, level)) for level in filled]
        done = self.level == [3, 3]
        return self.shown(), -5.0 if spilt else float(done), spilt or done, False, {}


class Floats(Tanks):
    kind = np.float32


def tanks_by_hand(level, action):
    """The outcomes of a step with their probabilities: the levels, and how the episode ends."""
    found = {}
    for chance, leak in ((Fraction(2, 3), None), (Fraction(1, 6), 0), (Fraction(1, 6), 1)):
        filled = [one + (action == k) - (leak == k) for k, one in enumerate(level)]
        after = tuple(max(0, min(3, one)) for one in filled)
        end = "failed" if max(filled) > 3 else "reached" if after == (3, 3) else None
        found[after, end] = found.get((after, end), 0) + chance
    return found


class Farm(gymnasium.Env):
    """A dictionary is shown; the fox ends the walk, and so does the far corner once the egg is in the basket."""

    def __init__(self, size=4):
        self.size, self.at, self.egg = size, [0, 0], False
        cell = spaces.MultiDiscrete([size, size])
        self.observation_space = spaces.Dict({"pos": cell, "egg": spaces.Discrete(2), "reward": spaces.Discrete(1)})
        self.action_space = spaces.Discrete(5)

    def shown(self):
        return {"pos": np.array(self.at), "egg": int(self.egg), "reward": 0}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.egg = [0, 0], False
        return self.shown(), {}

    def step(self, action):
        x, y = [(1, 0), (-1, 0), (0, 1), (0, -1), (0, 0)][action]
        far = self.size - 1
        self.at = [min(far, max(0, self.at[0] + x)), min(far, max(0, self.at[1] + y))]
        self.egg = self.egg or (action == 4 and self.at == [far, 0])
        caught, home = self.at == [2, 2], self.at == [far, far] and self.egg
        return self.shown(), -9.0 if caught else float(home), caught or home, False, {"fox": caught}


def states_of(task):
    """Every reachable state of the task, named, with its moves."""
    semantics = Semantics(task.model_task.network)
    pending, found = list(semantics.initial_states()), {}
    for state in pending:
        if state not in found:
            moves = [
                (move.label, [(one.probability, one.state) for one in move.outcomes]) for move in semantics.moves(state)
            ]
            found[state] = moves
            pending += [after for _, row in moves for _, after in row]
    named = {state: dict(zip(task.variables, state, strict=False)) for state in found}
    return {state: (named[state], found[state], named) for state in found}


@pytest.mark.parametrize("kind", [Tanks, Floats])
def test_an_array_of_whole_numbers_names_its_features_and_means_what_it_does_by_hand(kind):
    task = polvet.from_gym(kind(), cuts=["1/3"])
    assert task.variables[:3] == ("s", "o0", "o1")
    seen = set()
    for state, moves, named in states_of(task).values():
        level = (state["o0"], state["o1"])
        seen.add((level, state["failed"], state["reached"]))
        for label, row in moves:
            found = {}
            for chance, after in row:
                one = named[after]
                end = "failed" if one["failed"] else "reached" if one["reached"] else None
                key = (one["o0"], one["o1"]), end
                found[key] = found.get(key, 0) + Fraction(chance)
            assert found == tanks_by_hand(level, int(label.removeprefix("a")))
    by_hand, pending = set(), [((1, 1), None)]
    while pending:
        level, end = pending.pop()
        if (level, end) not in by_hand:
            by_hand.add((level, end))
            pending += [one for action in range(3) for one in tanks_by_hand(level, action)] if end is None else []
    assert seen == {(level, end == "failed", end == "reached") for level, end in by_hand}


def farm_by_hand():
    """The states of the walk: (x, y, egg), and whether it has ended."""
    found, pending = set(), [(0, 0, 0)]
    while pending:
        x, y, egg = here = pending.pop()
        if here in found:
            continue
        found.add(here)
        if (x, y) == (2, 2) or here == (3, 3, 1):
            continue
        for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            pending.append((min(3, max(0, x + dx)), min(3, max(0, y + dy)), egg))
        pending.append((x, y, int(egg or (x, y) == (3, 0))))
    return found


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda: Farm(),
        lambda: wrappers.TimeLimit(Farm(), 5),
        lambda: wrappers.TransformReward(wrappers.TimeLimit(Farm(), 7), lambda reward: reward / 2),
        lambda: wrappers.RecordEpisodeStatistics(Farm()),
        lambda: wrappers.TimeLimit(wrappers.PassiveEnvChecker(wrappers.OrderEnforcing(Farm())), 30),
    ],
)
def test_a_dictionary_names_its_features_under_any_wrapper(wrapped):
    task = polvet.from_gym(wrapped(), fail="pos0 == 2 && pos1 == 2")
    assert task.variables == ("s", "egg", "pos0", "pos1", "reward_", "failed", "reached")
    states = [named for named, _, _ in states_of(task).values()]
    assert {(one["pos0"], one["pos1"], one["egg"]) for one in states} == farm_by_hand()
    assert task.decide(goal_reaching=True).figures["won"] == 1
    assert task.policy(lambda state: "a0").verify().verdict is polvet.Verdict.SAFE
    assert task.policy(lambda state: "a0" if state["pos0"] < 2 else "a2").verify().verdict is polvet.Verdict.UNSAFE


def test_an_action_wrapper_is_part_of_an_environment_that_is_visited():
    turned = wrappers.TransformAction(Farm(), lambda action: (action + 2) % 4, spaces.Discrete(4))
    task = polvet.from_gym(turned)
    (start,) = [state for state in states_of(task).values() if state[0]["s"] == 0]
    after = {label: start[2][row[0][1]] for label, row in start[1]}
    assert [(after[f"a{k}"]["pos0"], after[f"a{k}"]["pos1"]) for k in range(4)] == [(0, 1), (0, 0), (1, 0), (0, 0)]


@pytest.mark.parametrize(
    ("wrapped", "says"),
    [
        (lambda lake: wrappers.TransformReward(lake, lambda reward: reward * 5), "its wrapper TransformReward changes"),
        (lambda lake: wrappers.TransformAction(lake, lambda action: 3 - action, None), "its wrapper TransformAction"),
        (lambda lake: Hasty(lake), r"its wrappers \(Hasty\) do what its table P does not say: after reset\(seed=0\)"),
    ],
)
def test_wrappers_that_change_what_a_table_says_are_refused(wrapped, says):
    with pytest.raises(InputError, match=rf"gym:FrozenLake-v1: {says}"):
        polvet.from_gym(wrapped(gymnasium.make("FrozenLake-v1", is_slippery=False)))


class Hasty(gymnasium.Wrapper):
    """Makes each step twice."""

    def step(self, action):
        first = self.env.step(action)
        return first if first[2] else self.env.step(action)


class Watching(gymnasium.Wrapper):
    """Changes nothing."""


@pytest.mark.parametrize("watching", [wrappers.RecordEpisodeStatistics, wrappers.FlattenObservation, Watching])
def test_wrappers_that_only_watch_leave_the_table_as_it_is(watching):
    plain, wrapped = (
        polvet.from_gym(one) for one in (gymnasium.make("FrozenLake-v1"), watching(gymnasium.make("FrozenLake-v1")))
    )
    assert (wrapped.digest == plain.digest) == (
        watching is not wrappers.FlattenObservation
    )  # which shows something else
    assert wrapped.model_task.network.edges == plain.model_task.network.edges
    assert wrapped.check("Pmax=? [F goal]", exact=True).exact == plain.check("Pmax=? [F goal]", exact=True).exact


@pytest.mark.parametrize(
    ("env", "given", "says"),
    [
        (lambda: wrappers.TimeAwareObservation(wrappers.TimeLimit(Farm(), 5)), {}, "TimeAwareObservation counts the steps"),
        (lambda: Farm, {}, r"Farm is a class. Give an environment of it: Farm\(\)"),
        (Farm, {"fail": 3}, "fail: 3 is neither a condition nor a function"),
        (Farm, {"goal": "pos9 == 3"}, "^goal: no variable or constant 'pos9'"),
        (Farm, {"labels": "abcde"}, "'abcde' are no labels"),
        (Farm, {"labels": [1, 2, 3, 4, 5]}, "are no labels"),
        (Farm, {"state": lambda env: {"x": env.unwrapped.at[0] / 2}}, "a feature that is no integer: x is 0.5"),
        (Farm, {"state": lambda env: {"s": 1}}, "names a feature 's'"),
        (Farm, {"seeds": [0], "state": lambda env: {"x": env.unwrapped.at[0] // 2}}, "differs from the environment|another way"),
        (lambda: "FrozenLake-v1", {"state": lambda s: {"half": s / 2}}, "a feature that is no integer: half is 0.5"),
        (lambda: "FrozenLake-v1", {"state": lambda s: {"reward": s}}, "names a feature 'reward'"),
        (lambda: "Pendulum-v1", {}, "gym:Pendulum-v1: the environment's actions are not discrete"),
        (lambda: "no_such_module_here:X-v0", {}, "Run it in the folder of no_such_module_here.py"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_model_is_refused_in_one_line(env, given, says):
    with pytest.raises(InputError, match=says):
        polvet.from_gym(env(), **given)


def test_a_coarse_state_is_found_out_also_where_resets_are_named():
    """Cells of a car's place and speed: from them it does not follow where it goes, but the first steps stay in one cell."""

    def cell(env):
        place, speed = env.unwrapped.state
        return {"place": int(place * 20), "speed": int(speed * 200)}

    with pytest.raises(InputError, match=r"differs from the environment: after reset\(seed=0\)"):
        polvet.from_gym("MountainCar-v0", seeds=[0], state=cell)


@pytest.mark.parametrize("cuts", [["1/3"], []])
def test_the_users_environment_keeps_its_chance(cuts):
    class Kept(Tanks):
        """Can be put back, so that steps are made in the object itself."""

        def get_state(self):
            return list(self.level)

        def set_state(self, level):
            self.level = list(level)

    env = Kept()
    env.reset(seed=4)
    before = env.np_random
    try:
        polvet.from_gym(env, cuts=cuts)
    except InputError:
        assert not cuts
    assert isinstance(env.np_random, type(before))
    assert env.np_random.normal() ** 2 >= 0


def random_episodes(env, count):
    """Return the rewards that end random episodes, and how many actions were replaced."""
    rng, last, replaced = np.random.default_rng(0), [], 0
    for episode in range(count):
        env.reset(seed=episode)
        for _ in range(400):
            _, reward, ended, cut, info = env.step(int(rng.integers(env.action_space.n)))
            replaced += info.get("replaced", False)
            if ended or cut:
                break
        last.append(reward)
    return last, replaced


def test_a_shield_knows_the_environment_that_its_world_was_made_of():
    farm = polvet.from_gym(Farm(), fail=lambda state, reward, ended, info: info["fox"])
    shield = farm.permit(0)
    assert -9.0 in random_episodes(Farm(), 60)[0]
    rewards, replaced = random_episodes(shield.wrap(Farm()), 60)
    assert -9.0 not in rewards
    assert replaced > 0
    assert shield.allowed({"pos0": 1, "pos1": 2, "egg": 0, "reward_": 0}) == ("a1", "a2", "a3", "a4")
    cliff = polvet.from_gym("CliffWalking-v1").permit(0)
    whole = {"s": 36, "row": 3, "column": 0, "failed": False, "reached": False}
    assert cliff.allowed({"s": 36}) == cliff.allowed(whole) == cliff.allowed({"row": 3, "column": 0})
    assert "right" not in cliff.allowed({"s": 36})
    for given in ({}, {"state_of": lambda seen: {"s": seen}, "labels": ("up", "right", "down", "left")}):
        env = cliff.wrap(gymnasium.make("CliffWalking-v1"), **given)
        _, info = env.reset(seed=0)
        observation, reward, _, _, info = env.step(1)
        assert info["replaced"]
        assert reward == -1.0
        assert observation != 37


def test_a_shield_does_not_guess_about_other_environments():
    shield = polvet.from_gym(Farm(), fail=lambda state, reward, ended, info: info["fox"]).permit(0)
    with pytest.raises(InputError, match="Give state_of"):
        shield.wrap(gymnasium.make("CliffWalking-v1"))
    hidden = wrappers.TransformObservation(Farm(), lambda seen: seen["pos"], None)
    with pytest.raises(InputError, match=r"an observation does not tell the state: it shows o0, o1\. Give state_of"):
        shield.wrap(hidden).reset(seed=0)
    with pytest.raises(InputError, match="no value for s"):
        shield.allowed({"pos0": 1})
    with pytest.raises(InputError, match="Give state_of"):
        polvet.from_gym(Farm()).check_abstraction(gymnasium.make("CliffWalking-v1"))
    assert polvet.from_gym(Farm()).check_abstraction(Farm()).agrees


def test_features_that_tell_states_apart_name_a_state():
    farm = polvet.from_gym(Farm())
    here = {"pos0": 0, "pos1": 0, "egg": 0, "reward_": 0}
    assert farm.decide(here).verdict is polvet.Verdict.SAFE
    assert farm.policy(lambda state: "a0").act(here) == "a0"
    with pytest.raises(InputError, match="no value for s"):
        farm.decide({"pos0": 0, "pos1": 0})
    with pytest.raises(InputError, match=r"'pos0' = 9 is outside \[0, 3\]"):
        farm.decide({**here, "pos0": 9})
    with pytest.raises(InputError, match=r"'1\.5' is no value of 'pos0'"):
        farm.decide({**here, "pos0": 1.5})
    blind = polvet.from_gym("FrozenLake-v1", state=lambda number: {"row": number // 4})
    with pytest.raises(InputError, match="no value for s"):
        blind.decide({"row": 2})


def test_numbers_are_whole_or_refused():
    for value in (3, True, 3.0, np.int8(3), np.float32(3), np.array(3), np.bool_(True)):
        assert whole_number(value) == int(value)
    for value in (0.5, np.float64("nan"), "3", None, np.array([3]), float("inf")):
        with pytest.raises(ValueError, match="is no integer"):
            whole_number(value)


def test_the_command_line_takes_environments_of_the_working_folder(tmp_path, monkeypatch, capsys):
    (tmp_path / "ponds_of_mine.py").write_text(
        "import gymnasium\nfrom tests.worlds.test_observations import Tanks\n"
        "gymnasium.register('Ponds-v0', entry_point=Tanks)\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    try:
        assert run(["explore", "gym:ponds_of_mine:Ponds-v0?cuts=1/3&seeds=0"]) == 0
        assert f"states       {len(states_of(polvet.from_gym(Tanks(), cuts=['1/3'])))} " in capsys.readouterr().out
        assert run(["decide", "gym:Ponds-v0?cuts=1/3", "--state", "o0=3,o1=1"]) == 0
        assert "s=" in capsys.readouterr().out
        assert run(["explore", "gym:ponds_of_mine:Ponds-v0?cuts=x"]) == 30
        assert "['x'] are not numbers between 0 and 1" in capsys.readouterr().err
        assert run(["explore", "gym:Ponds-v0?cuts=0.3&seeds=a"]) == 30
        assert "'a' in `seeds` is no integer" in capsys.readouterr().err
    finally:
        gymnasium.registry.pop("Ponds-v0", None)
