"""Gymnasium environments without a table: every reachable state is visited, every action tried, every draw of chance gone through.

Key        two visits are the same state where `state(env)` says the same; where the caller gives none it is the grid, the
           agent and what it carries for MiniGrid, else the observation. Where all its numbers are whole they are the state's
           features: `o0`, `o1`, ... of an array, `pos0`, `pos1`, `has` of a dictionary
Chance     `np_random` is replaced (worlds/chance.py), so outcomes have exact probabilities; other chance is not seen
Putting back  worlds/clonable.py
Checked    each step is made twice, and a state that is reached again by another way is tried again: what then differs is chance
           that was not declared, or a key that leaves something out; and random runs of the environment are compared with the
           table. Rewards that differ by the way there are left out of the model. Cut episodes (`truncated`) go on
Limits     SOUND as far as the key tells states apart: the checks look for differences, they do not prove that there are none
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isnan
from typing import Any

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, LimitReached, Where
from polvet.model.tables import RESERVED, Outcome, TransitionTable
from polvet.worlds.chance import Enumerating, NotEnumerable, iter_scripts, read_cuts
from polvet.worlds.clonable import Clonable, Restore, Snapshot, answer_of
from polvet.worlds.table import exact_reward

MOST_STATES = 100_000
EPISODES, STEPS = 20, 200
"""Random runs that are compared with the table, and their length."""
STATISTICAL = "Without a model, polvet.fuzz.environments.fuzz_environment tests a policy in it."
NEUTRAL = (
    "HumanRendering", "Monitor", "OrderEnforcing", "PassiveEnvChecker", "RecordEpisodeStatistics", "RecordVideo",
    "RenderCollection", "TimeLimit",
)  # fmt: skip
"""Wrappers that only watch, or cut episodes: enumeration goes around them."""
COUNTING = ("TimeAwareObservation",)
"""Wrappers that put the number of steps into what is observed: since episodes are not cut, no state would ever come again."""
MOST_FEATURES = 64
StateOf = Callable[[Any], Any]
Key = Callable[[Any, Any], tuple[Hashable, Mapping[str, int]]]
"""From an environment and its observation to what tells the state from others, and to its features."""
Judge = Callable[[Mapping[str, int], float, bool, Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class StepResult:
    """One outcome of a step as the environment showed it."""

    probability: Fraction
    state: int
    reward: float
    ended: bool
    info: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Enumerated:
    """All reachable states of an environment, by numbers, and what leads where."""

    keys: tuple[Hashable, ...]
    features: Mapping[str, tuple[int, ...]]
    starts: tuple[int, ...]
    rows: Mapping[tuple[int, int], tuple[StepResult, ...]]
    rewarded: bool  # whether rewards are functions of states and actions
    state_of: Key
    where: Where


def enumerate_env(
    env: Any,
    where: Where,
    *,
    state: StateOf | None = None,
    snapshot: Snapshot | None = None,
    restore: Restore | None = None,
    seeds: Sequence[int] | None = None,
    cuts: Sequence[Any] = (),
    budget: Budget = UNLIMITED,
) -> Enumerated:
    """Return all states that the environment can reach from its resets (with `seeds`: from these resets only)."""
    for kind in wrappers_of(env):
        if kind.__name__ in COUNTING and state is None:
            what = f"its wrapper {kind.__name__} counts the steps in what is observed, so that no state comes again."
            raise InputError(what, where, "Leave the wrapper out, or give a `state` function without the time.")
    whole = env
    while type(env).__name__ in NEUTRAL:
        env = env.env
    chance = getattr(whole.unwrapped, "np_random", None)
    try:
        return _Enumeration(Clonable(env, snapshot, restore), where, state, read_cuts(cuts), budget).run(seeds)
    finally:
        whole.unwrapped.np_random = chance  # where steps are made in the user's own object, its chance is its own again


def wrappers_of(env: Any) -> Iterator[type]:
    """Yield the classes of the environment's wrappers, from outside."""
    while env is not env.unwrapped:
        yield type(env)
        env = env.env


class _Enumeration:
    def __init__(
        self, world: Clonable, where: Where, state: StateOf | None, cuts: tuple[Fraction, ...], budget: Budget
    ) -> None:
        self.world, self.where, self.cuts, self.budget = world, where, cuts, budget
        self.is_named = state is not None
        self.state_of: Key = lambda one, observation: _key(one, observation, state, where)
        self.numbers: dict[Hashable, int] = {}
        self.decoded: list[Mapping[str, int]] = []
        self.paths: dict[int, tuple[int, int] | None] = {}  # how a state was first reached: from where, by which action
        self.rows: dict[tuple[int, int], tuple[StepResult, ...]] = {}
        self.pending: list[tuple[int, Any]] = []  # states to be tried, with their snapshots
        self.again: set[int] = set()  # states that were tried a second time
        self.rewarded = True

    def run(self, seeds: Sequence[int] | None) -> Enumerated:
        starts = self._starts(seeds)
        done = 0
        while done < len(self.pending):
            number, saved = self.pending[done]
            self.pending[done] = number, None  # snapshots are large
            done += 1
            self._try(number, saved)
        names: Collection[str] = self.decoded[0].keys()
        if any(one.keys() != names for one in self.decoded):
            if self.is_named:
                what = "`state` names other features in other states."
                raise InputError(what, self.where, "Return the same names for all.")
            names = ()  # observations of some states hold other numbers than integers, or more of them
        features = {name: tuple(one[name] for one in self.decoded) for name in names}
        return Enumerated(tuple(self.numbers), features, starts, self.rows, self.rewarded, self.state_of, self.where)

    def _starts(self, seeds: Sequence[int] | None) -> tuple[int, ...]:
        starts: dict[int, None] = {}
        if seeds is not None:
            for seed in seeds:
                if not isinstance(seed, int | np.integer):
                    raise InputError(f"{seed!r} in `seeds` is no integer.", self.where, "Give seeds=[0, 1, 2].")
                observation = self._reset(seed=int(seed))
                starts[self._number(observation, None)] = None
            return tuple(starts)
        self._reset(seed=0)
        saved = self.world.save()
        try:
            for chance in iter_scripts(self.cuts):
                self.world.put_back(saved)
                self.world.env.unwrapped.np_random = chance
                observation = self._reset()
                starts[self._number(observation, None)] = None
        except NotEnumerable as why:
            raise InputError(
                f"the start states cannot be enumerated: {why}.",
                self.where,
                f"Give the seeds of some resets as `seeds`. {STATISTICAL}",
            ) from None
        return tuple(starts)

    def _reset(self, **given: int) -> Any:
        """Begin an episode and return what it shows."""
        try:
            shown = self.world.env.reset(**given)
        except NotEnumerable:
            raise
        except Exception as error:
            what = f"reset({', '.join(f'{name}={value}' for name, value in given.items())}) raises {type(error).__name__}: {error}."
            raise InputError(what, self.where, "Correct the environment.") from error
        if not isinstance(shown, tuple) or len(shown) != 2:
            raise InputError("reset does not return two things.", self.where, "Follow Gymnasium's interface.")
        return shown[0]

    def _number(self, observation: Any, path: tuple[int, int] | None) -> int:
        """Return the number of the state that the environment is in and goes on from: it is to be tried, at most twice."""
        number = self._known(observation)
        if number not in self.paths:
            self.paths[number] = path
            self.pending.append((number, self.world.save()))
        elif number not in self.again and path is not None and self.paths[number] != path:
            self.again.add(number)
            self.pending.append((number, self.world.save()))
        return number

    def _known(self, observation: Any) -> int:
        """Return the number of the state that the environment is in."""
        key, decoded = self.state_of(self.world.env, observation)
        number = self.numbers.setdefault(key, len(self.numbers))
        if number == len(self.decoded):
            self.decoded.append(decoded)
            self._check_size()
        return number

    def _check_size(self) -> None:
        most = MOST_STATES if self.budget.states is None else self.budget.states
        if len(self.numbers) > most:
            raise LimitReached(
                f"the environment has more than {most:,} states: raise `max_states`, or give a coarser `state` if it counts "
                "something that does not matter",
                "states",
            )
        self.budget.check()
        if self.budget.on_progress is not None and len(self.numbers) % 256 == 0:
            self.budget.on_progress(len(self.rows), len(self.numbers))

    def _try(self, number: int, saved: Any) -> None:
        """Make every step from the state, twice; where it was tried before, both must agree."""
        for action in range(self.world.actions):
            outcomes = self._outcomes(number, action, saved)
            known = self.rows.setdefault((number, action), outcomes)
            once_more = self._outcomes(number, action, saved) if known is outcomes else None
            if once_more is not None and _shape(once_more) != _shape(outcomes):
                raise InputError(
                    f"the same step (action {action}) turns out differently when it is made again, {self._way(number)}.",
                    self.where,
                    f"Draw chance from self.np_random only. {STATISTICAL}",
                )
            if _shape(outcomes) != _shape(known):
                raise InputError(
                    f"action {action} does other things in the same state when the state is reached another way, "
                    f"{self._way(number)}.",
                    self.where,
                    "Give a `state` function that tells apart what matters.",
                )
            rewards = {tuple(one.reward for one in row) for row in (outcomes, known, once_more) if row is not None}
            self.rewarded = self.rewarded and len(rewards) == 1

    def _outcomes(self, number: int, action: int, saved: Any) -> tuple[StepResult, ...]:
        try:
            return tuple(self._outcome(number, action, saved, chance) for chance in iter_scripts(self.cuts))
        except NotEnumerable as why:
            raise InputError(
                f"the outcomes of action {action} cannot be enumerated: {why}, {self._way(number)}.",
                self.where,
                STATISTICAL,
            ) from None

    def _outcome(self, number: int, action: int, saved: Any, chance: Enumerating) -> StepResult:
        self.budget.check()
        self.world.put_back(saved)
        self.world.env.unwrapped.np_random = chance
        try:
            shown = self.world.env.step(action)
        except NotEnumerable:
            raise
        except Exception as error:
            raise InputError(
                f"step({action}) raises {type(error).__name__}: {error}, {self._way(number)}.",
                self.where,
                "Correct the environment.",
            ) from error
        if not isinstance(shown, tuple) or len(shown) != 5:
            raise InputError("step does not return five things.", self.where, "Follow Gymnasium's interface.")
        observation, reward, ended, _, info = shown
        exact_reward(reward, self.where)
        if not isinstance(ended, bool | int | np.bool_):
            what = (
                f"the third thing that step({action}) returns, whether the episode ends, is no truth value: {ended!r}."
            )
            raise InputError(what, self.where, "Follow Gymnasium's interface.")
        following = self._known(observation) if ended else self._number(observation, (number, action))
        return StepResult(chance.probability, following, float(reward), bool(ended), info)

    def _way(self, number: int) -> str:
        actions: list[int] = []
        at: int | None = number
        while at is not None and (path := self.paths[at]) is not None:
            at = path[0]
            actions.append(path[1])
        return f"after the actions {actions[::-1]}" if actions else "in a start state"


def ask_judge(role: str, where: Where, judge: Judge, *step: Any) -> bool:
    """Return what the user's predicate says of a step: the next state by names, its reward, whether it ends, further information."""
    return bool(answer_of(role, where, "Write it as a function of (state, reward, terminated, info).", judge, *step))


def table_of(
    world: Enumerated, name: str, labels: Sequence[str], fail: Judge | None, goal: Judge | None
) -> TransitionTable:
    """Return the table: where nobody says it, ending with a reward above 0 (or the greatest) is the goal, ending otherwise fails."""
    ends = [one.reward for row in world.rows.values() for one in row if one.ended]
    best = max(ends, default=0.0)

    def event(one: StepResult) -> str | None:
        named = {"s": one.state, **{name: values[one.state] for name, values in world.features.items()}}
        reaches = one.ended and (one.reward > 0 or one.reward == best)
        if goal is not None:
            reaches = ask_judge("goal", world.where, goal, named, one.reward, one.ended, one.info)
        fails = one.ended and not reaches
        if fail is not None:
            fails = ask_judge("fail", world.where, fail, named, one.reward, one.ended, one.info)
        return "failed" if fails else "reached" if reaches else "ended" if one.ended else None

    rows: dict[tuple[int, int], tuple[Outcome, ...]] = {}
    for place, results in world.rows.items():
        merged: dict[tuple[int, Fraction, str | None], Fraction] = {}
        for one in results:
            reward = exact_reward(one.reward, world.where) if world.rewarded else Fraction(0)
            key = one.state, reward, event(one)
            merged[key] = merged.get(key, Fraction(0)) + one.probability
        rows[place] = tuple(Outcome(chance, *key) for key, chance in merged.items())
    return TransitionTable(name, len(world.keys), tuple(labels), rows, world.starts, world.features)


def find_difference(world: Enumerated, env: Any, *, seeds: Sequence[int] | None = None) -> str | None:
    """Return the first thing that random runs of the environment do and the table does not, in words; None: no difference.

    They begin with these seeds again and again; absent, with as many as there are runs.
    """
    rng = np.random.default_rng(0)
    numbers = {key: number for number, key in enumerate(world.keys)}
    actions = 1 + max((action for _, action in world.rows), default=0)
    for episode in range(EPISODES):
        seed = int(seeds[episode % len(seeds)]) if seeds else episode
        observation, _ = env.reset(seed=seed)
        number = numbers.get(world.state_of(env, observation)[0])
        if number is None or number not in world.starts:
            return f"reset(seed={seed}) leads to a state that is no start state of the model"
        path: list[int] = []
        for _ in range(STEPS):
            action = int(rng.integers(actions))
            observation, _, ended, cut, _ = env.step(action)
            path.append(action)
            following = numbers.get(world.state_of(env, observation)[0])
            if not any((one.state, one.ended) == (following, ended) for one in world.rows[number, action]):
                return f"after reset(seed={seed}) and the actions {path}, the environment is where the model is not"
            if ended or cut:
                break
            assert following is not None
            number = following
    return None


def _shape(row: Sequence[StepResult]) -> list[tuple[Fraction, int, bool]]:
    return [(one.probability, one.state, one.ended) for one in row]


def _key(env: Any, observation: Any, state: StateOf | None, where: Where) -> tuple[Hashable, Mapping[str, int]]:
    """Return what tells the state from others, and its features."""
    inner = env.unwrapped
    if state is not None:
        given = answer_of("state", where, "It is given the environment: see env.unwrapped.", state, env)
        if isinstance(given, Mapping):
            features = whole_features(given, where)
            return tuple(features.items()), features
        return _frozen(given, where), {}
    if all(hasattr(inner, name) for name in ("agent_pos", "agent_dir", "grid", "carrying")):
        x, y, direction = (int(one) for one in (*inner.agent_pos, inner.agent_dir))
        held = None if inner.carrying is None else inner.carrying.encode()
        features = {"x": x, "y": y, "direction": direction, "carries": int(held is not None)}
        return (x, y, direction, held, inner.grid.encode().tobytes()), features
    try:
        parts = {name: whole_number(value) for name, value in named_parts(observation, "")}
    except ValueError:
        parts = {}
    return _frozen(observation, where), parts if len(parts) <= MOST_FEATURES else {}


def whole_number(value: Any) -> int:
    """Return the integer that the value is, also where it is 3.0 or True; raise a ValueError where it is none."""
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    raise ValueError(f"{value!r} is no integer")


def whole_features(given: Mapping[Any, Any], where: Where) -> dict[str, int]:
    """Return the features that a user's `state` names; refuse one that is no integer, and a name that is taken."""
    features: dict[str, int] = {}
    for name, value in given.items():
        if str(name) in RESERVED:
            what = f"`state` names a feature '{name}', as a variable of every such world is called."
            raise InputError(what, where, "Call it otherwise.")
        try:
            features[str(name)] = whole_number(value)
        except ValueError:
            raise InputError(
                f"`state` gives a feature that is no integer: {name} is {value!r}.", where, "Give integers."
            ) from None
    return features


def named_parts(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the numbers in an observation with their names."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            inner = f"{name}_{key}" if name else str(key)
            yield from named_parts(value[key], f"{inner}_" if inner in RESERVED else inner)
    elif isinstance(value, list | tuple):
        before = name or "o"
        for k, one in enumerate(value):
            yield from named_parts(one, f"{before}_{k}" if before[-1:].isdigit() else f"{before}{k}")
    else:
        yield name or "observation", value


def _frozen(value: Any, where: Where) -> Hashable:
    """Return the value as something that can be compared and looked up."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return tuple((str(name), _frozen(value[name], where)) for name in sorted(value, key=str))
    if isinstance(value, list | tuple):
        return tuple(_frozen(one, where) for one in value)
    hashing: Any = type(value).__hash__
    if isinstance(value, float) and isnan(value):
        raise InputError("the state holds a NaN, which equals nothing.", where, "Give a `state` function without it.")
    if value is not None and (hashing is None or hashing is object.__hash__):
        raise InputError(
            f"the state cannot be compared: a {type(value).__name__} in it is equal to itself only, or to nothing.",
            where,
            "Give a `state` function that returns numbers, texts or tuples of them.",
        )
    hashable: Hashable = value
    return hashable
