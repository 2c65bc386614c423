"""Action masks say what is applicable: the model is that of a walk by hand, and masked agents end as in their own environment."""

from __future__ import annotations

import copy
import random
import warnings

import numpy as np
import pytest

import polvet
from polvet.errors import InputError
from polvet.model.semantics import Semantics

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces  # noqa: E402

warnings.filterwarnings("ignore", category=UserWarning, module="gymnasium")
SIZE = 4
NAMES = ("east", "south", "west", "north")
STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))


class Rooms(gymnasium.Env):
    """A square with pits and closed doors; what is behind a door is told by the mask alone: who goes there all the same falls."""

    asked = True  # by `action_masks()`, else only told in infos

    def __init__(self, seed):
        chance = random.Random(seed)
        cells = [(x, y) for x in range(SIZE) for y in range(SIZE)][1:-1]
        self.pits = set(chance.sample(cells, 3))
        self.doors = {(x, y, a) for x in range(SIZE) for y in range(SIZE) for a in range(4) if chance.random() < 0.4}
        self.observation_space = spaces.Box(0, SIZE - 1, (2,), np.float32)
        self.action_space = spaces.Discrete(4)
        self.at = (0, 0)

    def mask(self):
        here = [(*self.at, action) not in self.doors for action in range(4)]
        return np.array(here if any(here) else [True] * 4)

    def shown(self):
        return np.array(self.at, dtype=np.float32), {} if self.asked else {"action_mask": self.mask().astype(np.int8)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = (0, 0)
        return self.shown()

    def step(self, action):
        closed = not self.mask()[action]
        x, y = (a + b for a, b in zip(self.at, STEPS[action], strict=True))
        self.at = (min(SIZE - 1, max(0, x)), min(SIZE - 1, max(0, y)))
        ends = closed or self.at in self.pits or self.at == (SIZE - 1, SIZE - 1)
        fails = closed or self.at in self.pits
        observation, info = self.shown()
        return observation, -1.0 if fails else float(ends), ends, False, info


class Asked(Rooms):
    def action_masks(self):
        return self.mask()


class Told(Rooms):
    asked = False


class Forgetful(Asked):
    """What is open depends on how often something was done, which is not shown."""

    moves = 0

    def reset(self, **given):
        self.moves = 0
        return super().reset(**given)

    def step(self, action):
        self.moves += 1
        return super().step(action)

    def mask(self):
        return np.array([True, self.moves % 2 == 0, True, True])


class Shut(Asked):
    def mask(self):
        return np.zeros(4, dtype=bool)


def world(env, **given):
    """The task of the environment; what fails is said, as endings that succeed may be out of reach."""
    fail, goal = (lambda *step: step[2] and step[1] < 0), (lambda *step: step[2] and step[1] > 0)
    return polvet.from_gym(env, labels=NAMES, fail=fail, goal=goal, **given)


def states_by_hand(env, masked):
    """The cells that open actions lead to, with what each open action does there: the next cell, and whether that fails."""
    found, pending = {}, [(0, 0)]
    for cell in pending:
        if cell in found:
            continue
        found[cell] = {}
        for action in range(4):
            one = copy.deepcopy(env)
            one.at = cell
            if masked and not one.mask()[action]:
                continue
            _, reward, ends, _, _ = one.step(action)
            found[cell][action] = one.at, reward < 0
            pending += [] if ends else [one.at]
    return found


def states_of(task):
    """The same in the slow interpreter."""
    semantics = Semantics(task.model_task.network)
    named = lambda state: dict(zip(task.variables, state, strict=True))  # noqa: E731
    found, pending = {}, list(semantics.initial_states())
    for state in pending:
        here = named(state)
        cell = here["o0"], here["o1"]
        if cell in found or here.get("failed") or here.get("reached"):
            continue
        found[cell] = {}
        for move in semantics.moves(state):
            (after,) = [named(one.state) for one in move.outcomes]
            found[cell][task.labels.index(move.label)] = (after["o0"], after["o1"]), bool(after.get("failed"))
            pending += [one.state for one in move.outcomes]
    return found


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("kind", "given"), [(Asked, {}), (Told, {"masks": True}), (Told, {"masks": False})])
def test_what_is_masked_is_not_applicable_and_all_else_is_as_by_hand(seed, kind, given):
    env = kind(seed)
    task = world(env, **given)
    by_hand = states_by_hand(env, given.get("masks") is not False)
    if len(task.labels) < 4:  # a door that is closed everywhere is no label of the model's
        names = [NAMES.index(label) for label in task.labels]
        by_hand = {cell: {names.index(a): to for a, to in moves.items()} for cell, moves in by_hand.items()}
    assert states_of(task) == by_hand


def test_a_mask_in_an_info_alone_is_refused_with_what_to_say():
    with pytest.raises(InputError, match=r"an info masks the action \d.* Give masks=True .*, or masks=False"):
        world(Told(1))


@pytest.mark.parametrize(
    ("kind", "says"),
    [(Forgetful, "its masks differ when the same state is reached another way: in a start state"),
     (Shut, "leaves none of the 4 actions open. Leave one open in every state, or give masks=False")],
)  # fmt: skip
def test_masks_that_say_nothing_of_the_state_are_refused(kind, says):
    with pytest.raises(InputError, match=says):
        world(kind(1))


class Careful(gymnasium.Wrapper):
    """A lake whose mask closes what may lead into a hole, where something else is left."""

    def action_masks(self):
        inner = self.unwrapped
        rows = inner.P[inner.s]
        good = np.array([all(inner.desc.flat[one[1]] != b"H" for one in rows[a]) for a in range(4)])
        return good if good.any() else np.ones(4, dtype=bool)


@pytest.mark.parametrize("slippery", [False, True])
def test_the_masks_of_a_table_are_those_of_its_states(slippery):
    env = Careful(gymnasium.make("FrozenLake-v1", is_slippery=slippery))
    task, plain = polvet.from_gym(env), polvet.from_gym(env, masks=False)
    env.reset(seed=0)
    semantics = Semantics(task.model_task.network)
    pending, seen = list(semantics.initial_states()), set()
    for state in pending:
        if state not in seen and not any(state[3:]):
            seen.add(state)
            env.unwrapped.s = state[0]
            assert set(semantics.applicable(state)) == {task.labels[a] for a in np.flatnonzero(env.action_masks())}
            pending += [one.state for move in semantics.moves(state) for one in move.outcomes]
    assert len(seen) > 5
    worst = [one.check("Pmax=? [F fail]", exact=True).exact for one in (task, plain)]
    assert worst[1] == 1
    assert slippery or worst[0] == 0


def test_the_mask_that_taxi_tells_changes_its_table_only_where_that_is_wanted():
    plain, masked = polvet.from_gym("Taxi-v4"), polvet.from_gym("Taxi-v4", masks=True)
    assert plain.digest == polvet.from_gym("Taxi-v4", masks=False).digest != masked.digest
    assert plain.check("Pmax=? [F fail]").value == 1
    assert "failed" not in masked.variables  # an illegal pickup is masked


MANY = 14


def masked_agents():
    """Agents with weights at random, each in a masked environment of its own, and the world of that environment."""
    contrib, torch = pytest.importorskip("sb3_contrib"), pytest.importorskip("torch")
    for seed in range(MANY):
        env = Asked(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = contrib.MaskablePPO("MlpPolicy", env, seed=seed, device="cpu", n_steps=8, batch_size=8)
        with torch.no_grad():
            for parameter in model.policy.parameters():
                parameter.mul_(5.0)
        yield env, model


def episode(env, model):
    """The actions of the agent's own episode, and whether it falls; an episode that comes back has no end."""
    observation, _ = env.reset(seed=0)
    actions, seen = [], set()
    while env.at not in seen:
        seen.add(env.at)
        action = int(model.predict(observation, deterministic=True, action_masks=env.action_masks())[0])
        actions.append(action)
        observation, reward, ends, _, _ = env.step(action)
        if ends:
            return actions, reward < 0
    return actions, False


@pytest.mark.parametrize("as_file", [False, True])
def test_masked_agents_end_as_they_do_in_their_own_environment(as_file, tmp_path):
    dead = 0
    for number, (env, model) in enumerate(masked_agents()):
        actions, dies = episode(env, model)
        task = world(env)
        if as_file:
            model.save(tmp_path / f"{number}.zip")
        policy = task.policy(tmp_path / f"{number}.zip" if as_file else model)
        result = policy.verify()
        assert (result.verdict.value == "unsafe") == dies, number
        if dies:
            dead += 1
            assert [NAMES.index(one) for one in result.run.actions] == actions
    assert 3 < dead < MANY - 3


def test_an_agent_that_heeds_no_mask_is_refused_in_a_masked_world_and_judged_without(tmp_path):
    sb3 = pytest.importorskip("stable_baselines3")
    env = Asked(2)
    model = sb3.PPO("MlpPolicy", env, seed=1, device="cpu", n_steps=8, batch_size=8)
    model.save(tmp_path / "agent.zip")
    for what in (model, tmp_path / "agent.zip"):
        for mode in (None, "raw"):
            with pytest.raises(InputError, match=r"masks actions, and this agent takes the best of all. .*masks=False"):
                world(env).policy(what, mode=mode)
    observation, _ = env.reset(seed=0)
    seen = set()
    dies = False
    while env.at not in seen:
        seen.add(env.at)
        observation, reward, ends, _, _ = env.step(int(model.predict(observation, deterministic=True)[0]))
        if ends:
            dies = reward < 0
            break
    verdict = world(env, masks=False).policy(model).verify().verdict.value
    assert verdict == ("unsafe" if dies else "safe")


def test_the_agent_of_a_masked_environment_is_refused_in_the_world_of_the_bare_one():
    env, model = next(masked_agents())
    bare = Rooms(0)
    with pytest.raises(
        InputError, match="the agent's environment masks actions, and the one that the world was made of"
    ):
        world(bare).policy(model)
    assert world(env).policy(model)


@pytest.mark.parametrize("seed", range(3))
def test_the_masks_of_a_wrapper_are_those_of_the_environment(seed):
    masker = pytest.importorskip("sb3_contrib.common.wrappers").ActionMasker
    wrapped = masker(Told(seed), lambda env: env.unwrapped.mask())
    assert states_of(world(wrapped)) == states_of(world(Asked(seed)))
