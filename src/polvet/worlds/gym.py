"""Gymnasium environments as models: by the table they carry, or by visiting all their states.

The table is `env.unwrapped.P` (FrozenLake, CliffWalking, Taxi and the like); visiting is worlds/enumerate.py. A table says nothing of
wrappers around its environment: random runs are compared with it, and wrappers that change what steps do are refused.
What the environment masks is not applicable; what it shows in each state is kept, so that agents can be asked there.
`P[state][action]` lists `(probability, next state, reward, terminated)`. What fails and what reaches the goal is, in this order,
what the caller says (a condition over the model's variables, or a predicate of a step), what is known of the environment
(`KNOWN`), what its map says (`desc`: entering H fails, G reaches the goal), or what its rewards say: a step that ends the
episode with the greatest reward of all steps reaches the goal, one that ends it otherwise fails.
Needs the extra `train` or the package gymnasium.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from operator import index
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, MissingExtra, Where
from polvet.model.tables import STATE, Outcome, TransitionTable
from polvet.model.world import MASKED, OBSERVATION, World, WorldFile, WorldFormat
from polvet.worlds.clonable import Restore, Snapshot, answer_of, count_actions
from polvet.worlds.enumerate import (
    EPISODES,
    STEPS,
    ask_judge,
    enumerate_env,
    find_difference,
    table_of,
    whole_features,
)
from polvet.worlds.observed import MADE_WITH, SEEDS, made_with
from polvet.worlds.seen import NEUTRAL, Seen, steps_of, without_watchers, wrappers_of
from polvet.worlds.table import OBSERVED, ROLES, build_table, exact_distribution, exact_reward

PREFIX = "gym:"
PACKAGES = {"MiniGrid": "minigrid"}
"""Environments whose package registers them only when it is imported."""
MOST_PAIRS, TRIES = 5_000, 50
"""Steps of a table that are tried, evenly chosen among more, and how often where their outcomes are random."""
OTHER_TABLE = "Pass env.unwrapped, or make an environment whose P is what its steps do."
ROW = "Write {state: {action: [(probability, next state, reward, terminated), ...]}}."
Judge = Callable[[Mapping[str, int], float, bool, Mapping[str, Any]], bool]
"""A predicate of one step: (the next state by names, its reward, whether the episode ends, further information)."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an environment beside its table: names of actions, and which rewards fail."""

    labels: tuple[str, ...]
    fail_reward: float | None = None
    why: str = ""


KNOWN: Mapping[str, Known] = {
    "FrozenLake": Known(("left", "down", "right", "up")),
    "CliffWalking": Known(("up", "right", "down", "left"), -100.0, "falling off the cliff fails"),
    "CliffWalkingSlippery": Known(("up", "right", "down", "left"), -100.0, "falling off the cliff fails"),
    "Taxi": Known(
        ("south", "north", "east", "west", "pickup", "dropoff"), -10.0, "an illegal pickup or drop-off fails"
    ),
}
"""By the name of the environment without its version."""


@dataclass(frozen=True, slots=True)
class GymWorld:
    """An environment's table, with what was assumed about it; `judged` says who decides what fails and what reaches the goal."""

    table: TransitionTable
    judged: Mapping[str, str]
    inputs: tuple[str, ...] = OBSERVED
    shown: Mapping[int, Any] = field(default_factory=dict)  # what an agent observes, by state, as far as it was seen
    masks: bool = False  # whether the environment's masks say what is applicable
    max_steps: int | None = None


@dataclass(frozen=True, slots=True)
class Visiting:
    """How an environment is visited: how it is put back, where it starts, what chance is compared with, what its masks mean."""

    snapshot: Snapshot | None = None
    restore: Restore | None = None
    seeds: Sequence[int] | None = None
    cuts: Sequence[Any] = ()
    masks: bool | None = None  # whether masked actions are not applicable; None: `worlds/seen.py` says
    budget: Budget = UNLIMITED


def task_of_world(world: GymWorld, env: Any, seeds: Sequence[int] | None = None) -> World:
    """Return the world as a model; the metadata says who judged its events `fail` and `goal`, what is shown, and where it comes from."""
    builder = build_table(world.table)
    for name, text in ((MADE_WITH, made_with(env)), (SEEDS, " ".join(map(str, seeds or ())))):
        if text:
            builder.note(name, text)
    builder.note("description", "; ".join(f"{role}: {why}" for role, why in world.judged.items()))
    builder.note(OBSERVATION, ", ".join(_observed(world)))
    if world.masks:
        sources = len({source for source, _ in world.table.rows})
        builder.note(MASKED, str(sources * len(world.table.labels) - len(world.table.rows)))
    events = world.table.events
    conditions = {role: event if event in events else "false" for role, event in ROLES.items()}
    return World(builder.build(), conditions, world.inputs, max_steps=world.max_steps, shown=world.shown)


def _observed(world: GymWorld) -> list[str]:
    """Return the variables that an agent observes, one for each number it is shown; none where it is shown anything else."""
    table, states = world.table, list(world.shown)
    try:
        rows = np.array([np.asarray(world.shown[one], dtype=np.float32).reshape(-1) for one in states])
    except (TypeError, ValueError):
        return []
    if rows.ndim != 2:
        return []
    columns = {STATE: states, **{name: [values[one] for one in states] for name, values in table.features.items()}}
    names: list[str] = []
    for place, seen in enumerate(rows.T):
        first = [*world.inputs[place : place + 1], *columns]  # the input of that place, where several are the same
        equal = (name for name in first if np.array_equal(np.array(columns[name], dtype=np.float32), seen))
        names.append(next(equal, ""))
    return names if all(names) else []


def read_address(address: str) -> tuple[str, dict[str, Any]]:
    """Return the id and the arguments of `gym:ID?key=value&key=value`; numbers and truth values are read as such.

    `seeds=0,1`, `cuts=0.3,0.7` and `masks=false` are arguments of the visit (`Visiting`), not of the environment.

    >>> read_address("gym:FrozenLake-v1?map_name=8x8&is_slippery=false")
    ('FrozenLake-v1', {'map_name': '8x8', 'is_slippery': False})
    """
    name, _, query = address.removeprefix(PREFIX).partition("?")
    where = Where(address)
    if not name:
        raise InputError("no environment is named.", where, "Write gym:FrozenLake-v1, or gym:ID?key=value.")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise InputError(f"'{query}' is not of the form key=value&key=value.", where, "Correct it.") from None
    return name, {key: _value(text) for key, text in pairs}


def make_env(name: str, arguments: Mapping[str, Any]) -> Any:
    """Return the environment of that id; whatever Gymnasium says against it becomes an InputError."""
    if find_spec("gymnasium") is None:
        raise MissingExtra("gymnasium", "train")
    gymnasium: Any = import_module("gymnasium")
    package = PACKAGES.get(name.partition("-")[0])
    if package is not None:
        if find_spec(package) is None:
            raise InputError(f"this needs the package '{package}'.", Where(PREFIX + name), f"pip install {package}")
        import_module(package)
    module, colon, _ = name.partition(":")
    if colon:
        _let_find(module)
    try:
        return gymnasium.make(name, **arguments)
    except Exception as error:  # gymnasium's own errors, and whatever the environment's constructor raises
        hint = "Give an id that `gymnasium.envs.registry` lists, and arguments that its constructor takes."
        if isinstance(error, ModuleNotFoundError) and colon:
            hint = f"Run it in the folder of {module}.py, or install the package."
        raise InputError(f"Gymnasium cannot make it: {str(error).rstrip('. ')}.", Where(PREFIX + name), hint) from None


def _let_find(module: str) -> None:
    """Let a module of the working folder be imported that registers environments: `gym:envs:Farm-v0` of envs.py."""
    top, here = module.partition(".")[0], str(Path.cwd())
    if here not in sys.path and (Path(f"{top}.py").is_file() or Path(top).is_dir()):
        sys.path.append(here)


def read_env(
    env: Any,
    *,
    fail: Judge | None = None,
    goal: Judge | None = None,
    labels: Sequence[str] | None = None,
    state: Callable[[Any], Any] | None = None,
    visiting: Visiting | None = None,
) -> GymWorld:
    """Return the environment's table; `labels` name its actions, `state` says what a state's number means.

    Without a table, its states are visited; `state` then tells states apart: a function of the environment.
    """
    inner = env.unwrapped
    name = getattr(getattr(env, "spec", None), "id", None) or type(inner).__name__
    where = Where(PREFIX + name)
    visiting = visiting or Visiting()
    seen, max_steps = Seen(env, where, visiting.masks), steps_of(env)
    given = getattr(inner, "P", None)
    if not isinstance(given, Mapping) or not given or not all(isinstance(rows, Mapping) for rows in given.values()):
        visited = _visited(env, where, name, fail, goal, labels, state, visiting, seen)
        return replace(visited, shown=seen.shown, masks=seen.masked, max_steps=max_steps)
    _check_table(given, where.at("P"))
    known = KNOWN.get(name.partition("-")[0].rpartition("/")[2])
    states = len(given)
    actions = max(count_actions(env, where), *(int(action) + 1 for rows in given.values() for action in rows))
    names = _names(known.labels if labels is None and known is not None else labels, actions, where)
    features = _features(inner, states, state, where)
    judged, events = _judges(inner, given, known, fail, goal, features, where)
    rows = {
        (int(source), int(action)): _outcomes(outcomes, events, where.at("P").at(source).at(action))
        for source, row in given.items()
        for action, outcomes in row.items()
    }
    starts = _starts(inner, states, where)
    if known is not None and not seen.masked and visiting.masks is None:
        seen.wanted = False  # its table says what every action does, and how it is judged
    _TriedTable(env, given, seen)
    rows = {place: outcomes for place, outcomes in rows.items() if seen.is_open(*place)}
    table = TransitionTable(name, states, names, rows, starts, features)
    return GymWorld(table, judged, OBSERVED, seen.shown, seen.masked, max_steps)


def _check_table(given: Mapping[Any, Mapping[Any, Any]], where: Where) -> None:
    """Refuse what is no table of transitions, at the row that is none."""
    if set(given) != set(range(len(given))):
        raise InputError("its states are not numbered 0, 1, 2, ...", where, "Number them without gaps.")
    if not any(given.values()):
        raise InputError("no state has an action.", where, ROW)
    for source, row in given.items():
        for action, outcomes in row.items():
            place = where.at(source).at(action)
            if not _is_number_below(action, None):
                raise InputError(f"the action {action!r} is no number from 0.", place, ROW)
            if not isinstance(outcomes, Sequence) or isinstance(outcomes, str) or not outcomes:
                raise InputError("is no list of outcomes.", place, ROW)
            for number, one in enumerate(outcomes):
                if not isinstance(one, tuple | list) or len(one) != 4:
                    raise InputError("is not four things.", place.at(number), ROW)
                if not _is_number_below(one[1], len(given)):
                    what = f"the next state {one[1]!r} is none of 0 to {len(given) - 1}."
                    raise InputError(what, place.at(number), ROW)
                exact_reward(one[2], place.at(number))


class _TriedTable:
    """An environment with a table, tried for what it shows and leaves open in the table's states.

    Where its number of the state can be set (`s`, as in Gymnasium's own), every step is made; under wrappers, and where it cannot, there
    are random runs. Those that take steps that the table does not have are refused.
    """

    def __init__(self, env: Any, given: Mapping[Any, Mapping[Any, Any]], seen: Seen) -> None:
        self.given, self.seen, self.where = given, seen, seen.where
        for kind in wrappers_of(env):
            if {"ActionWrapper", "RewardWrapper"} & {one.__name__ for one in kind.__mro__}:
                raise InputError(f"its wrapper {kind.__name__} changes what its table P says.", self.where, OTHER_TABLE)
        self.wrappers = ", ".join(kind.__name__ for kind in wrappers_of(env) if kind.__name__ not in NEUTRAL)
        self.env = without_watchers(env)
        with suppress(Exception):  # what cannot be copied is tried itself
            self.env = copy.deepcopy(self.env)
        visited = self._visit()
        if self.wrappers or not visited:
            self._walk()
        if seen.masked and not visited:
            what = "nothing tells what it masks in each state of its table."
            raise InputError(what, self.where, "Keep the number of the state in env.unwrapped.s, or give masks=False.")

    def _visit(self) -> bool:
        """Make every step, from the state set to its number, until all that may follow was seen; return whether that could be done."""
        inner, most = self.env.unwrapped, self.seen.actions
        pairs = [(index(state), index(one)) for state, row in self.given.items() for one in row if one < most]
        try:
            for seed in range(EPISODES):
                observation, info = self.env.reset(seed=seed)
                self.seen.note(index(inner.s), self.env, observation, info)
            for state, action in pairs[:: 1 if self.seen.masked else 1 + len(pairs) // MOST_PAIRS]:
                following = {int(one[1]) for one in self.given[state][action] if one[0] > 0 and not one[3]}
                for _ in range(TRIES):
                    inner.s = state
                    observation, reward, ended, _, info = self.env.step(action)
                    if not self._has(state, action, (index(inner.s), float(reward), bool(ended))):
                        raise ValueError
                    if not ended:
                        self.seen.note(index(inner.s), self.env, observation, info)
                    if following <= self.seen.open.keys():
                        break
                if self.seen.masked and not following <= self.seen.open.keys():
                    raise ValueError
        except InputError:
            raise
        except Exception:  # it has no such number, or more to it than that, or only a table and no steps
            self.seen.forget()
            return False
        return True

    def _walk(self) -> None:
        """Refuse an environment of which random runs take steps that the table does not have."""
        rng, env = np.random.default_rng(0), self.env
        for episode in range(EPISODES):
            try:
                observation, info = env.reset(seed=episode)
            except Exception:
                if self.wrappers:
                    raise
                return  # what only has a table shows nothing
            actions: list[int] = []
            for _ in range(STEPS):
                at = getattr(env.unwrapped, "s", observation)
                if not _is_number_below(at, len(self.given)):
                    if not self.wrappers:
                        return
                    what = f"nothing tells in which state of its table it is under its wrappers ({self.wrappers})."
                    hint = "Keep the number of the state in env.unwrapped.s, or pass env.unwrapped."
                    raise InputError(what, self.where, hint)
                self.seen.note(index(at), env, observation, info)
                options = [one for one in sorted(self.given[index(at)]) if self.seen.is_open(index(at), index(one))]
                if not options:
                    break
                actions.append(int(rng.choice(options)))
                observation, reward, ended, cut, info = env.step(actions[-1])
                step = index(getattr(env.unwrapped, "s", observation)), float(reward), bool(ended)
                if not self._has(index(at), actions[-1], step):
                    what = (
                        f"its wrappers ({self.wrappers or 'none'}) do what its table P does not say: after reset(seed={episode}) "
                        f"and the actions {actions} it is in state {step[0]} with the reward {step[1]:g}."
                    )
                    raise InputError(what, self.where, OTHER_TABLE)
                if ended or cut:
                    break

    def _has(self, state: int, action: int, step: tuple[int, float, bool]) -> bool:
        rows = self.given[state][action]
        return any(one[0] > 0 and (int(one[1]), float(one[2]), bool(one[3])) == step for one in rows)


def _is_number_below(given: Any, bound: int | None) -> bool:
    try:
        number = index(given)
    except TypeError:
        return False
    return number >= 0 and (bound is None or number < bound)


def _visited(
    env: Any,
    where: Where,
    name: str,
    fail: Judge | None,
    goal: Judge | None,
    labels: Sequence[str] | None,
    state: Callable[[Any], Any] | None,
    how: Visiting,
    seen: Seen,
) -> GymWorld:
    """Return the world of an environment without a table."""
    visited = enumerate_env(
        env,
        where,
        state=state,
        snapshot=how.snapshot,
        restore=how.restore,
        seeds=how.seeds,
        cuts=how.cuts,
        seen=seen,
        budget=how.budget,
    )
    if (difference := find_difference(visited, env, seeds=how.seeds)) is not None:
        raise InputError(
            f"the enumerated model differs from the environment: {difference}.",
            where,
            "Draw chance from self.np_random only, and give a `state` function that tells apart what matters.",
        )
    count = int(env.action_space.n)
    members = getattr(env.unwrapped, "actions", None)
    if labels is None and isinstance(members, type) and issubclass(members, Enum) and len(members) == count:
        labels = [one.name for one in members]
    names = _names(labels, count, where)
    rewards = "" if visited.rewarded else "; rewards depend on more than the state and are left out"
    assumed = "ending with a reward above 0, or the greatest, reaches the goal; ending otherwise fails" + rewards
    judged = {role: assumed if one is None else "the given predicate" for role, one in (("fail", fail), ("goal", goal))}
    told_apart = len(set(zip(*visited.features.values(), strict=True))) == len(visited.keys)
    inputs = tuple(visited.features) if visited.features and told_apart else OBSERVED
    return GymWorld(table_of(visited, name, names, fail, goal), judged, inputs)


def _names(labels: Sequence[str] | None, count: int, where: Where) -> tuple[str, ...]:
    """Return the names of so many actions: the labels, or `a0`, `a1`, ... where there are none."""
    if labels is not None and (isinstance(labels, str) or not all(isinstance(one, str) for one in labels)):
        raise InputError(f"{labels!r} are no labels.", where, "Give a list of texts: ['left', 'right'].")
    names = () if labels is None else tuple(labels)
    if names and len(names) != count:
        raise InputError(f"there are {count} actions and {len(names)} labels.", where, "Name every action once.")
    return names or tuple(f"a{action}" for action in range(count))


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _features(
    inner: Any, states: int, given: Callable[[int], Mapping[str, int]] | None, where: Where
) -> dict[str, tuple[int, ...]]:
    """Return what the number of a state means: by the caller, by the environment's map, or by its `decode`."""
    if given is not None:
        hint = "It is given the number of a state; return {name: integer}."
        answers = [answer_of("state", where, hint, given, one) for one in range(states)]
        if not all(isinstance(one, Mapping) for one in answers):
            raise InputError("`state` names no features.", where, hint)
        decoded = [whole_features(one, where) for one in answers]
    elif (shape := _shape(inner)) is not None and shape[0] * shape[1] == states:
        decoded = [dict(zip(("row", "column"), divmod(one, shape[1]), strict=True)) for one in range(states)]
    elif callable(getattr(inner, "decode", None)):
        rows = [tuple(int(part) for part in inner.decode(one)) for one in range(states)]
        names: tuple[str, ...] = ("row", "column", "passenger", "destination")
        if len(rows[0]) != len(names):
            names = tuple(f"part{k}" for k in range(len(rows[0])))
        decoded = [dict(zip(names, row, strict=True)) for row in rows]
    else:
        return {}
    if any(set(one) != set(decoded[0]) for one in decoded):
        raise InputError("`state` names other features in other states.", where, "Return the same names for all.")
    return {name: tuple(int(one[name]) for one in decoded) for name in decoded[0]}


def _shape(inner: Any) -> tuple[int, int] | None:
    desc = getattr(inner, "desc", None)
    shape = getattr(desc if desc is not None else inner, "shape", None)
    return (int(shape[0]), int(shape[1])) if shape is not None and len(shape) == 2 else None


def _judges(
    inner: Any,
    given: Any,
    known: Known | None,
    fail: Judge | None,
    goal: Judge | None,
    features: Mapping[str, Any],
    where: Where,
) -> tuple[dict[str, str], Callable[[int, float, bool], str | None]]:
    """Return who judges, in words, and the function that tells a step's event."""
    letters = _letters(inner)
    best = max(float(one[2]) for row in given.values() for outcomes in row.values() for one in outcomes)

    def named(state: int) -> dict[str, int]:
        return {"s": state, **{name: values[state] for name, values in features.items()}}

    def fails(state: int, reward: float, ended: bool) -> bool:
        if fail is not None:
            return ask_judge("fail", where, fail, named(state), reward, ended, {})
        if known is not None and known.fail_reward is not None:
            return reward == known.fail_reward
        if letters is not None:
            return letters[state] == "H"
        return ended and not reaches(state, reward, ended)

    def reaches(state: int, reward: float, ended: bool) -> bool:
        if goal is not None:
            return ask_judge("goal", where, goal, named(state), reward, ended, {})
        if letters is not None:
            return letters[state] == "G"
        return ended and reward == best

    def event(state: int, reward: float, ended: bool) -> str | None:
        if fails(state, reward, ended):
            return "failed"
        if reaches(state, reward, ended):
            return "reached"
        return "ended" if ended else None

    by_map, by_reward = "the map's letters", "the rewards of steps that end the episode"
    assumed = by_map if letters is not None else by_reward
    why = known.why if known is not None and known.why else assumed
    return {
        "fail": "the given predicate" if fail is not None else why,
        "goal": "the given predicate" if goal is not None else assumed,
    }, event


def _letters(inner: Any) -> list[str] | None:
    """Return the letter of each state on a map with holes and goals; None where there is no such map."""
    desc = getattr(inner, "desc", None)
    if desc is None or getattr(desc, "ndim", 0) != 2:
        return None
    letters = [one.decode() if isinstance(one, bytes) else str(one) for one in desc.flatten().tolist()]
    return letters if set(letters) <= set("SFHG") else None


def _outcomes(
    given: Sequence[Any], event: Callable[[int, float, bool], str | None], where: Where
) -> tuple[Outcome, ...]:
    try:
        chances = exact_distribution([float(one[0]) for one in given], where)
    except (OverflowError, TypeError, ValueError):
        shown = ", ".join(repr(one[0]) for one in given)
        raise InputError(f"the probabilities {shown} are no numbers.", where, ROW) from None
    merged: dict[tuple[int, Fraction, str | None], Fraction] = {}
    for chance, (_, state, reward, ended) in zip(chances, given, strict=True):
        if chance > 0:
            key = (int(state), exact_reward(reward, where), event(int(state), float(reward), bool(ended)))
            merged[key] = merged.get(key, Fraction(0)) + chance
    return tuple(Outcome(chance, state, reward, happened) for (state, reward, happened), chance in merged.items())


def _starts(inner: Any, states: int, where: Where) -> tuple[int, ...]:
    given = getattr(inner, "initial_state_distrib", None)
    if given is None or len(given) != states:
        raise InputError(
            "the environment does not say where it starts (initial_state_distrib).",
            where,
            f"Set it to the probability of each of the {states} states, e.g. [1, 0, ...] where it starts in 0.",
        )
    return tuple(int(state) for state, chance in enumerate(given) if chance > 0)


def _read(file: WorldFile) -> World:
    name, arguments = read_address(file.address)
    seeds, cuts = (_listed(arguments.pop(key, "")) for key in ("seeds", "cuts"))
    visiting = Visiting(seeds=seeds or None, cuts=cuts, masks=arguments.pop("masks", None))
    env = make_env(name, arguments)
    return task_of_world(read_env(env, visiting=visiting), env, seeds)


def _listed(given: Any) -> list[Any]:
    return [_value(one) if "/" not in one else one for one in str(given).split(",") if one]


GYM = WorldFormat(
    "gym", "a Gymnasium environment (gym:ID?key=value)", "the address `gym:ID?key=value`", _read, is_address=True
)
