"""A task from whatever holds a world: a file, an environment, a model in memory; and back to a file."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polvet.errors import InputError, Where
from polvet.files import Json
from polvet.front.task import Task
from polvet.front.workplace import new_folder
from polvet.model.automata import Model
from polvet.model.build import ModelBuilder
from polvet.model.task import NO_OPTIONS, ROLES, TaskOptions
from polvet.model.task import Task as ModelTask

if TYPE_CHECKING:
    from polvet.model.tables import TransitionTable

TaskLike = Task | str | os.PathLike[str] | Model | ModelBuilder


def load(
    what: TaskLike,
    *,
    fail: str | None = None,
    goal: str | None = None,
    start: str | None = None,
    constants: Mapping[str, Any] | None = None,
    avoid: str | None = None,
    out_of_bounds: str = "error",
    mode: str | None = None,
    domain: str | os.PathLike[str] | None = None,
    allow_code: bool = False,
) -> Task:
    """Return the task in a file, in an environment's table (`gym:FrozenLake-v1`), or in a model in memory.

    `fail`, `goal` and `start` are conditions over the model's variables, in the place of what the file says; `avoid` names what
    is unsafe besides `fail` ('stuck', 'deadlock' or both); `out_of_bounds` is 'error' or 'disable'; `domain` is the file of a PDDL
    problem's domain (absent: `domain.pddl` beside it). `allow_code` lets Python functions run that the file names as inputs of policies.

    >>> load("gym:FrozenLake-v1?map_name=4x4").labels
    ('left', 'down', 'right', 'up')
    """
    from polvet.check.never import load_aloud
    from polvet.sources import parse_avoid, parse_mode, parse_out_of_bounds
    from polvet.worlds.formats import is_address, look_again, read_world

    options = TaskOptions(
        _constants(constants or {}),
        start,
        fail,
        goal,
        parse_out_of_bounds(out_of_bounds, Where("out_of_bounds")),
        parse_mode(mode, Where("mode")),
        parse_avoid(avoid or "", Where("avoid")),
        None if domain is None else Path(domain),
        allow_code,
    )
    if isinstance(what, Task):
        return _reloaded(what, options)
    if isinstance(what, Model | ModelBuilder):
        return Task(_from_model(what.build() if isinstance(what, ModelBuilder) else what, options))
    if not isinstance(what, str | os.PathLike):
        raise InputError(f"a {type(what).__name__} is no world.", Where("load"), _worlds())
    look_again()
    path = Path(what)
    return Task(load_aloud(path, options), read_world(path).shown if is_address(path) else {})


def from_gym(
    env: Any,
    *,
    fail: str | Callable[..., bool] | None = None,
    goal: str | Callable[..., bool] | None = None,
    labels: tuple[str, ...] | None = None,
    state: Callable[[Any], Any] | None = None,
    snapshot: Callable[[Any], Any] | None = None,
    restore: Callable[[Any, Any], None] | None = None,
    seeds: Sequence[int] | None = None,
    cuts: Sequence[Any] = (),
    masks: bool | None = None,
    max_states: int = 100_000,
    time_limit: float | None = None,
    progress: bool | Callable[[int, int], Any] = False,
    **make: Any,
) -> Task:
    """Return the task of a Gymnasium environment (or its id): by its table (`env.unwrapped.P`), or by visiting all its states.

    `fail` and `goal` are conditions over the model's variables, or predicates `(state, reward, terminated, info)` of a step; absent,
    they come from the map's letters and the rewards. `labels` name the actions, `state` says what a state's number means.
    Without a table, `state(env)` tells states apart (absent: by the observation), `snapshot` and `restore` put the environment back
    (absent: its own ways, or copies), `seeds` are the resets to start from (absent: all), and `cuts` what `np_random.random()` is
    compared with. `masks` says whether masked actions are not applicable (absent: they are not where there is `action_masks()`).
    See docs/python.md.
    """
    from polvet.front.limits import budget_of
    from polvet.worlds.gym import Visiting, make_env, read_address, read_env, task_of_world

    for role, given in (("fail", fail), ("goal", goal)):
        if not (given is None or isinstance(given, str) or callable(given)):
            what = f"{given!r} is neither a condition nor a function."
            raise InputError(what, Where(role), "Write 'row == 3', or a function of (state, reward, terminated, info).")
    if isinstance(env, type):
        raise InputError(f"{env.__name__} is a class.", Where("env"), f"Give an environment of it: {env.__name__}().")
    if isinstance(env, str):
        name, arguments = read_address(env)
        environment = make_env(name, {**arguments, **make})
    else:
        environment = env
    if not hasattr(environment, "unwrapped"):
        raise InputError(
            f"a {type(env).__name__} is no environment.", Where("env"), "Give an id or gymnasium.make(...)."
        )
    world = read_env(
        environment,
        fail=fail if callable(fail) else None,
        goal=goal if callable(goal) else None,
        labels=labels,
        state=state,
        visiting=Visiting(snapshot, restore, seeds, cuts, masks, budget_of(time_limit, None, max_states, progress)),
    )
    document = task_of_world(world, environment, seeds)
    conditions = dict(document.conditions)
    conditions |= {role: text for role, text in (("fail", fail), ("goal", goal)) if isinstance(text, str)}
    written = _written(document.model, conditions, document.inputs, TaskOptions(), document.max_steps)
    return Task(written, document.shown)


def from_matrix(
    matrices: Any,
    *,
    labels: Sequence[str] | None = None,
    features: Mapping[str, Sequence[int]] | None = None,
    start: Sequence[int] | None = None,
    fail: str | Sequence[int] | None = None,
    goal: str | Sequence[int] | None = None,
) -> Task:
    """Return the task of a transition matrix per action (numpy, scipy's sparse ones, a dictionary by label), or of stormpy's model.

    `features` give each state's value of further variables (stormpy: its state labels, 0 or 1); `start`, `fail` and `goal` are
    numbers of states (`start` absent: 0, or stormpy's own), `fail` and `goal` also conditions over `s` and the features.

    >>> chain = from_matrix({"go": [[0.5, 0.5], [0, 1]]}, fail=[1])
    >>> chain.decide({"s": 0}).verdict.value
    'unsafe'
    """
    table = _table(matrices, labels, features, start)
    return _of_table(table, _conditions(fail, goal, table.states))


def model_from_matrix(
    matrices: Any,
    *,
    labels: Sequence[str] | None = None,
    features: Mapping[str, Sequence[int]] | None = None,
    start: Sequence[int] | None = None,
) -> Model:
    """Return the model of a transition matrix per action, for `polvet.load`; what is given is as for `from_matrix`.

    >>> import polvet
    >>> model = polvet.Model.from_matrix({"go": [[0.5, 0.5], [0, 1]]})
    >>> polvet.load(model, fail="s == 1").explore().states
    2
    """
    from polvet.worlds.table import build_table

    return build_table(_table(matrices, labels, features, start)).build()


def _table(
    matrices: Any,
    labels: Sequence[str] | None,
    features: Mapping[str, Sequence[int]] | None,
    start: Sequence[int] | None,
) -> TransitionTable:
    from polvet.worlds.matrix import is_storm_model, table_of_matrices, table_of_storm

    if features is not None and not isinstance(features, Mapping):
        raise InputError(f"{features!r} names no features.", Where("features"), "Give a dictionary: {'far': [0, 1]}.")
    if start is not None:
        start = _numbers(start, "start")
    if not is_storm_model(matrices) and not isinstance(matrices, Mapping | Sequence) and not hasattr(matrices, "shape"):
        what = f"a {type(matrices).__name__} is no matrix per action."
        raise InputError(
            what, Where("matrix"), "Give an array actions x states x states, a list or a dictionary of matrices."
        )
    if is_storm_model(matrices):
        if labels is not None or features is not None or start is not None:
            what = "a model of stormpy brings its own labels, features and start."
            raise InputError(what, Where("matrix"), "Leave them out.")
        return table_of_storm(matrices)
    return table_of_matrices(matrices, labels, start, features or {})


def _among(states: Any, role: str, size: int) -> str:
    """Return the condition that the state is one of these numbers."""
    numbers = _numbers(states, role)
    if any(not 0 <= one < size for one in numbers):
        raise InputError(f"{max(numbers)} is no state.", Where(role), f"Name states from 0 to {size - 1}.")
    return " || ".join(f"s == {one}" for one in numbers) or "false"


def _numbers(states: Any, role: str) -> list[int]:
    try:
        return [operator.index(number) for number in states]
    except TypeError:
        hint = "Give a list of numbers of states" + ("." if role == "start" else ", or a condition such as 's == 3'.")
        raise InputError(f"{states!r} names no states.", Where(role), hint) from None


Model.from_matrix = staticmethod(model_from_matrix)


def from_intervals(
    rows: Mapping[tuple[int, str], Mapping[int, Any]],
    *,
    start: Sequence[int] | None = None,
    fail: str | Sequence[int] | None = None,
    goal: str | Sequence[int] | None = None,
) -> Task:
    """Return the task of a world whose probabilities lie within intervals: `rows[state, label][next state]` is (low, high).

    What is shown of the task holds for all probabilities within them, also where they change: shields are robust. `start`, `fail` and
    `goal` are numbers of states, `fail` and `goal` also conditions over `s`.

    >>> task = from_intervals({(0, "go"): {1: (0.1, 0.2), 2: (0.8, 0.9)}}, fail=[1], goal=[2])
    >>> str(task.permit(0.5).risk({"s": 0}))
    '1/5'
    """
    from polvet.worlds.intervals import read_intervals, table_of_intervals

    return _of_table(table_of_intervals(read_intervals(rows, start)), _conditions(fail, goal))


def from_transitions(
    log: Iterable[tuple[int, int, int]],
    *,
    labels: Sequence[str],
    outcomes: int | Callable[[int, int], int],
    confidence: float = 0.95,
    states: int | None = None,
    start: Sequence[int] | None = None,
    fail: Sequence[int] = (),
    goal: Sequence[int] = (),
) -> Task:
    """Return the task of a world that is known from logged transitions (state, number of the action, next state) alone.

    With at least the `confidence`, its intervals hold the true probabilities, if, as is promised, no action of a state has more than so
    many different `outcomes` (a number, or a function of a state and an action's number). Outcomes never seen, and states where nothing
    was tried, count as failing; what was not tried in a state is not applicable there. Runs end in the `fail` and `goal` states.
    """
    from polvet.worlds.intervals import count_transitions, table_of_intervals

    counted = count_transitions(
        log, labels, outcomes=outcomes, confidence=confidence, ends=[*fail, *goal], states=states, starts=start
    )
    table = table_of_intervals(counted)
    conditions = _conditions(fail, goal)
    if "failed" in table.events:
        conditions["fail"] = f"failed || {conditions['fail']}"
    return _of_table(table, conditions)


def _of_table(table: TransitionTable, conditions: Mapping[str, str]) -> Task:
    from polvet.worlds.table import OBSERVED, build_table

    return Task(_written(build_table(table).build(), conditions, OBSERVED, TaskOptions()))


def _conditions(
    fail: str | Sequence[int] | None, goal: str | Sequence[int] | None, states: int = 2**31
) -> dict[str, str]:
    """Return the conditions of states given by their numbers; one that no row mentions is never reached."""
    return {
        role: one if isinstance(one, str) else _among(one, role, states)
        for role, one in (("fail", fail), ("goal", goal))
        if one is not None
    }


def save_task(task: ModelTask, path: Path) -> Path:
    """Write the task to the `.toml` file, its model and a PDDL domain beside it, each under a name that no other file has there.

    It is byte for byte what was read, where nothing was put in its place and the model's name is free.
    """
    from polvet.files import read_bytes, write_whole
    from polvet.sources import dump_task, own_name, read_parts
    from polvet.worlds.formats import is_address
    from polvet.worlds.table_file import dump_world

    if path.suffix != ".toml":
        raise InputError(f"'{path}' is not the name of a .toml file.", Where(str(path)), "End it in .toml.")
    if task.source is None:
        raise InputError("the task was not made by polvet.load.", Where(str(path)), "Make it with polvet.load.")
    parts, source, folder = read_parts(task.source.file, task.options), task.source.file, path.parent
    files: dict[str, tuple[str, bytes]] = {}
    if is_address(parts.model):
        files["model"] = model_file(*dump_world(task.network.model), task.network.model.name)
    else:
        data = read_bytes(parts.model)
        files["model"] = own_name(parts.model.name, data, folder), data
    as_read = source.suffix == ".toml" and not task.options.to_json() and parts.domain is None
    if as_read and parts.model == source.with_name(files["model"][0]):
        text = read_bytes(source)
    else:
        if parts.domain is not None:
            data = read_bytes(parts.domain)
            taken = files["model"][0] == parts.domain.name
            files["domain"] = own_name(parts.domain.name, data, None if taken else folder), data
        texts = {role: one for role, (one, _) in parts.conditions.items()}
        if parts.problem.schemas:
            texts = {"actions": "schemas", **texts}
        text = dump_task(files, texts, parts.reading, parts.constants, parts.problem.bounds, parts.max_steps).encode()
    for name, data in (*files.values(), (path.name, text)):
        write_whole(folder / name, data)
    return path


def model_file(suffix: str, text: str, name: str) -> tuple[str, bytes]:
    """Return the name of its own and the content of the file that a model in memory is written to."""
    from polvet.sources import own_name

    data = text.encode()
    return own_name(f"{name[:60]}{suffix}", data), data


def _reloaded(task: Task, options: TaskOptions) -> Task:
    """Return the task with further options in the place of its own; without any it is the same."""
    from polvet.check.never import load_aloud

    if options == NO_OPTIONS and not options.allow_code:
        return task
    source = task.model_task.source
    if source is None:
        raise InputError("the task was not made by polvet.load.", Where("load"), _worlds())
    before = task.model_task.options
    changed = {
        one.name: value
        for one in fields(TaskOptions)
        if (value := getattr(options, one.name)) != getattr(NO_OPTIONS, one.name)
    }
    if options.constants:
        changed["constants"] = {**before.constants, **options.constants}
    return Task(load_aloud(source.file, replace(before, **changed)), task.shown)


def _from_model(model: Model, options: TaskOptions) -> ModelTask:
    conditions = {role: text for role in ROLES if (text := getattr(options, role)) is not None}
    rest = replace(options, start=None, fail=None, goal=None)
    return _written(model, conditions, None, rest)


def _written(
    model: Model,
    conditions: Mapping[str, str],
    inputs: tuple[str, ...] | None,
    options: TaskOptions,
    max_steps: int | None = None,
) -> ModelTask:
    """Return the task that the model and its conditions are, once written to files: what is judged is what would be saved."""
    from polvet.check.never import load_aloud
    from polvet.model.task import PolicyReading
    from polvet.sources import dump_task
    from polvet.worlds.table_file import dump_world

    folder = new_folder()
    file = model_file(*dump_world(model), model.name)
    (folder / file[0]).write_bytes(file[1])
    task = folder / "task.toml"
    text = dump_task({"model": file}, conditions, PolicyReading(inputs=inputs), max_steps=max_steps)
    task.write_text(text, encoding="utf-8")
    try:
        return load_aloud(task, options)
    except InputError as error:
        if isinstance(error.where, Where) and error.where.file == str(task) and error.where.path:
            raise InputError(
                error.what, ".".join(map(str, error.where.path)), error.hint
            ) from None  # nobody knows that file
        raise


def _worlds() -> str:
    """Return what may be loaded, as errors say it."""
    from polvet.choices import listed
    from polvet.worlds.formats import FORMATS

    return f"Give a task.toml, {listed([*(one.help for one in FORMATS.values()), 'a Model', 'a ModelBuilder'])}."


def _constants(values: Mapping[str, Any]) -> Json:
    from polvet.sources import parse_constants

    if not isinstance(values, Mapping):
        raise InputError(f"{values!r} names no constants.", Where("constants"), "Give a dictionary: {'N': 4}.")
    return {
        name: value if isinstance(value, bool | int) else parse_constants(f"{name}={value}")[name]
        for name, value in values.items()
    }
