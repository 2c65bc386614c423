"""Loading what a user names: a task (`task.toml`), or a world of any format with conditions.

What is read first are a task's parts, still as texts, with the digest of the files they come from; the task is made of them. A condition
is an infix expression (for a PDDL problem also PDDL), or `property:NAME`, which takes a set of states out of a property:
what a Pmin/Pmax property reaches, and of a PlaJA `PA` property its start, its goal or what it must not reach, as fits.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from polvet.errors import InputError, Where, did_you_mean
from polvet.files import Json, named_function, python_files, read_bytes, read_text, refuse_unknown_keys, sha256
from polvet.model.arithmetic import Value
from polvet.model.automata import Model
from polvet.model.expressions import FALSE, Binary, Expression, Name, conjunction, disjunction, is_expression
from polvet.model.infix import quoted
from polvet.model.instantiate import instantiate
from polvet.model.network import Network, OutOfBounds
from polvet.model.properties import (
    AutomatonLocation,
    Comparison,
    Filter,
    Globally,
    Objective,
    PathQuantifier,
    PolicyTask,
    Probability,
    Property,
    PropertyExpression,
    StateCondition,
    StatesValues,
    Until,
)
from polvet.model.task import MODES, ROLES, Avoid, PolicyReading, Source, Task, TaskOptions, condition, resolved
from polvet.model.world import AS_WRITTEN, Reader, Reading, World
from polvet.numbers import exact
from polvet.worlds.formats import domain_of, is_address, load_model, read_world

FILES = ("model", "domain")
TASK_KEYS = (*FILES, "sha256", "constants", "bounds", "actions", *ROLES, "max_steps", "policy")
BARE = re.compile(r"[A-Za-z0-9_-]+")
"""A key that needs no quotes in TOML."""
POLICY_KEYS = ("mode", "inputs", "outputs", "output")


@dataclass(frozen=True, slots=True)
class TaskParts:
    """What a task is made of, still as texts: all that another process needs, besides the model's file(s)."""

    model: Path
    constants: Mapping[str, Value]
    conditions: Mapping[str, tuple[str, Where]]  # by role: the text and where it stands
    reading: PolicyReading
    options: TaskOptions  # already part of the fields above, except for `out_of_bounds` and `avoid`
    source: Source
    domain: Path | None = None  # exactly where the model is a PDDL problem
    problem: Reading = AS_WRITTEN  # how such a problem is read
    max_steps: int | None = None


def load_network(
    path: str | Path,
    constants: Mapping[str, Value] | None = None,
    out_of_bounds: OutOfBounds = OutOfBounds.ERROR,
    domain: Path | None = None,
) -> Network:
    """Return the runnable network of the model in the file."""
    return replace(instantiate(load_model(path, domain), constants), out_of_bounds=out_of_bounds)


def load_task(path: str | Path, options: TaskOptions | None = None) -> Task:
    """Return the task in a `.toml` file, or made of a model file and the options."""
    return make_task(read_parts(path, options))


def _model_name(document: Mapping[str, Any], where: Where) -> str:
    """Return how the task names its model's file."""
    name = _text(document, "model", where)
    if is_address(name):
        hint = f"Write it as files first: polvet.load({name!r}).save('task.toml') in Python."
        raise InputError(
            "is an address, which stands in the place of a task's file, not in one.", where.at("model"), hint
        )
    return name


def read_parts(path: str | Path, options: TaskOptions | None = None) -> TaskParts:
    """Return what the task in a `.toml` file, or a model file with the options, is made of."""
    options = options or TaskOptions()
    data, domain = _model_text(path) if is_address(path) else read_bytes(path), options.domain
    digest, problem, max_steps = hashlib.sha256(data), AS_WRITTEN, None
    if is_address(path):
        world, place = read_world(path), Where(str(path))
        model_path, constants = Path(path), {}
        texts = {role: (text, place.at(role)) for role, text in world.conditions.items()}
        reading, max_steps = PolicyReading(inputs=world.inputs), world.max_steps
    elif str(path).endswith(".toml"):
        document = _read_toml(path)
        where = Where(str(path))
        model_path = Path(path).parent / _model_name(document, where)
        digest.update(_as_saved(document, "model", model_path, where))
        if "domain" in document and domain is None:
            domain = Path(path).parent / _text(document, "domain", where)
            _as_saved(document, "domain", domain, where)
        constants = {
            name: _number(value, where.at("constants").at(name))
            for name, value in _table(document, "constants", where).items()
        }
        texts = {role: (_text(document, role, where), where.at(role)) for role in ROLES if role in document}
        reading = _reading(_table(document, "policy", where), where.at("policy"), Path(path).parent)
        problem, max_steps = _problem(document, where), document.get("max_steps")
        if max_steps is not None and (type(max_steps) is not int or max_steps < 1):
            raise InputError(
                f"'{max_steps}' is not a number of steps.", where.at("max_steps"), "Write max_steps = 100."
            )
    else:
        model_path, constants, texts, reading = Path(path), {}, {}, PolicyReading()
    for role in ROLES:
        given = getattr(options, role)
        if given is not None:
            texts[role] = given, Where(f"--{role}")
    if options.mode is not None:
        reading = replace(reading, mode=options.mode)
    domain = domain_of(model_path, domain)
    if domain is not None:
        digest.update(read_bytes(domain))
    elif problem != AS_WRITTEN:
        what = "'bounds' and 'actions' say how a PDDL problem is read, and the model is none."
        raise InputError(what, Where(str(path)), "Leave them out.")
    for file in reading.functions.values():
        for one in python_files(file):
            digest.update(sha256(one).encode())
    source = Source(Path(path), digest.hexdigest())
    constants |= options.constants
    return TaskParts(model_path, constants, texts, reading, options, source, domain, problem, max_steps)


def _as_saved(document: Mapping[str, Any], role: str, file: Path, where: Where) -> bytes:
    """Return the bytes of a file that the task names, or raise an InputError where they are not those that were saved with it."""
    data, saved = read_bytes(file), _table(document, "sha256", where)
    refuse_unknown_keys(saved, FILES, where.at("sha256"))
    if saved.get(role, one := hashlib.sha256(data).hexdigest()) != one:
        what = f"'{file.name}' is not the file that was saved with this task."
        hint = "Restore it or save the task again; if the change is intended, remove the line 'sha256 = ...'."
        raise InputError(what, where.at("sha256").at(role), hint)
    return data


def own_name(name: str, data: bytes, folder: Path | None = None) -> str:
    """Return the name with the digest of the data; the plain name where nothing else is called so in the folder.

    >>> own_name("gym/Lake v1.table", b"")
    'gym-Lake-v1-e3b0c44298fc.table'
    """
    if folder is not None and (not (folder / name).exists() or read_bytes(folder / name) == data):
        return name
    stem, dot, suffix = name.rpartition(".")
    stem = re.sub(r"[^\w.-]+", "-", stem)
    return f"{stem}-{hashlib.sha256(data).hexdigest()[:12]}{dot}{suffix}"


def dump_task(
    files: Mapping[str, tuple[str, bytes]],
    texts: Mapping[str, str],
    reading: PolicyReading | None = None,
    constants: Mapping[str, Any] | None = None,
    bounds: Mapping[str, tuple[int, int]] | None = None,
    max_steps: int | None = None,
) -> str:
    """Return the text of a task.toml; `files` are the model, and a domain, with their names and contents, whose digests it holds."""

    def shown(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    lines = [f"{role} = {shown(name)}" for role, (name, _) in files.items()]
    digests = [f"{role} = {shown(hashlib.sha256(data).hexdigest())}" for role, (_, data) in files.items()]
    lines.append(f"sha256 = {{ {', '.join(digests)} }}")
    lines += [f"{role} = {shown(text)}" for role, text in texts.items()]
    lines += [] if max_steps is None else [f"max_steps = {max_steps}"]
    reading = reading or PolicyReading()
    numbers = {name: value if isinstance(value, int) else str(value) for name, value in (constants or {}).items()}
    policy = {"mode": None if reading.mode == "filtered" else reading.mode, "inputs": reading.inputs}
    policy |= {"outputs": reading.outputs, "output": reading.output}
    for table, entries in (("constants", numbers), ("policy", policy), ("bounds", bounds or {})):
        given = {key: value for key, value in entries.items() if value is not None}
        lines += [f"[{table}]"] * bool(given)
        lines += [f"{key if BARE.fullmatch(key) else shown(key)} = {shown(one)}" for key, one in given.items()]
    return "\n".join(lines) + "\n"


def make_task(parts: TaskParts) -> Task:
    """Return the task made of these parts."""
    world, network = _instantiated(_Subject(parts))
    network = replace(network, out_of_bounds=parts.options.out_of_bounds)
    place = Where(str(parts.model))
    texts = {role: (text, place.at(role)) for role, text in world.conditions.items()} | dict(parts.conditions)
    conditions = {} if texts else _from_only_task(network)
    for role, (text, where) in texts.items():
        conditions[role] = _condition(network, text, role, where, world.condition)
    reading = replace(parts.reading, inputs=parts.reading.inputs or world.inputs)
    reading = _with_expressions(reading, network, world.number, Where(str(parts.source.file)))
    return Task(
        network,
        conditions.get("fail", FALSE),
        conditions.get("goal", FALSE),
        conditions.get("start"),
        reading,
        parts.options.avoid,
        parts.options,
        parts.source,
        parts.max_steps,
    )


class _Subject:
    """The model of a task's parts under their constants: equal to another where the same files, of the same digest, say the same."""

    def __init__(self, parts: TaskParts) -> None:
        self.parts = parts
        constants = sorted((name, type(value).__name__, str(value)) for name, value in parts.constants.items())
        bounds = sorted(parts.problem.bounds.items())
        # SOUND: a world reads the files of the digest and nothing else (`WorldFormat`).
        self.key = parts.source.sha256, parts.model, parts.domain, str(constants), str(bounds), parts.problem.schemas

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Subject) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@lru_cache(maxsize=1)
def _instantiated(subject: _Subject) -> tuple[World, Network]:
    """Return the world and its network; a command reads its model once, though each of its checks asks for the task."""
    parts = subject.parts
    world = read_world(parts.model, parts.domain, parts.problem)
    return world, instantiate(world.model, parts.constants)


def _with_expressions(reading: PolicyReading, network: Network, parse: Reader, where: Where) -> PolicyReading:
    """Return the reading with those inputs read that are expressions; a plain name is left to whoever fits a policy."""
    known = network.scope.names
    computed = [text for text in reading.inputs or () if text not in known and text not in reading.functions]
    expressions = {}
    for text in computed:
        parsed = parse(text, where.at("policy").at("inputs"))
        if parsed != Name(text):
            expressions[text] = resolved(network, parsed, where.at("policy").at("inputs"))[0]
    return replace(reading, expressions=expressions)


def _problem(document: Mapping[str, Any], where: Where) -> Reading:
    """Return how the task reads its PDDL problem: `[bounds] fuel = [0, 9]`, `actions = "schemas"`."""
    bounds: dict[str, tuple[int, int]] = {}
    for name, given in _table(document, "bounds", where).items():
        whole = isinstance(given, list) and len(given) == 2 and all(type(end) is int for end in given)
        if not whole or given[0] > given[1]:
            what = f"'{name}' has no least and greatest value."
            raise InputError(what, where.at("bounds").at(name), f"Write {name} = [0, 100].")
        bounds[name.lower()] = given[0], given[1]
    chosen = document.get("actions", "ground")
    if chosen not in ("ground", "schemas"):
        raise InputError(f"'{chosen}' is unknown.", where.at("actions"), 'Write actions = "ground" or "schemas".')
    return Reading(bounds, chosen == "schemas")


def parse_constants(text: str) -> dict[str, Value]:
    """Return the values in `N=4,K=0.5,flag=true`; decimals and fractions are read exactly.

    >>> parse_constants("N=4,p=0.1")
    {'N': 4, 'p': Fraction(1, 10)}
    """
    values: dict[str, Value] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, sign, value = part.partition("=")
        if not sign:
            raise InputError(f"'{part}' is not of the form NAME=VALUE.", Where("--constants"), "Write N=4,K=2.")
        if name.strip() in values:
            raise InputError(f"'{name.strip()}' is given twice.", Where("--constants"), "Give it once.")
        values[name.strip()] = _number(value.strip(), Where("--constants"))
    return values


def options_from_json(given: Any, where: Where) -> TaskOptions:
    """Return the options that `TaskOptions.to_json` wrote."""
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise InputError("'options' is not an object of texts.", where, "Leave it as polvet wrote it.")
    known = ("constants", *ROLES, "out_of_bounds", "mode")
    for name in given:
        if name not in known:
            raise InputError(f"the option '{name}' is unknown.", where, f"Known are {', '.join(known)}.")
    words = dict(given)
    constants = parse_constants(words.pop("constants", ""))
    out_of_bounds = parse_out_of_bounds(words.pop("out_of_bounds", OutOfBounds.ERROR.value), where.at("out_of_bounds"))
    parse_mode(words.get("mode"), where.at("mode"))
    return TaskOptions(constants, out_of_bounds=out_of_bounds, **words)


def parse_out_of_bounds(word: str, where: Where) -> OutOfBounds:
    """Return what the word says of assignments out of bounds."""
    try:
        return OutOfBounds(word)
    except ValueError:
        raise InputError(f"'{word}' is unknown.", where, "Use error or disable.") from None


def parse_avoid(text: str, where: Where) -> Avoid:
    """Return what counts as unsafe besides `fail`.

    >>> parse_avoid("stuck, deadlock", Where("--avoid"))
    Avoid(stuck=True, deadlock=True, loop=False, delay=False)
    """
    wanted = {part.strip() for part in text.split(",") if part.strip()}
    if unknown := wanted - {one.name for one in fields(Avoid)}:
        hint = "Use stuck, deadlock, loop, delay, or several with commas."
        raise InputError(f"'{min(unknown)}' is unknown.", where, hint)
    return Avoid("stuck" in wanted, "deadlock" in wanted, bool(wanted & {"loop", "delay"}), "delay" in wanted)


def parse_mode(word: str | None, where: Where) -> str | None:
    """Return the mode of that name; None stands for the task's own."""
    if word is not None and word not in MODES:
        raise InputError(f"'{word}' is unknown.", where, "Use filtered or raw.")
    return word


def find_property(model: Model, name: str, where: Where) -> Property:
    """Return the model's property of that name."""
    one = model.property_named(name)
    if one is None:
        known = [one.name for one in model.properties]
        hint = did_you_mean(name, known) or f"The model has: {', '.join(known) or 'none'}."
        raise InputError(f"no property '{name}'.", where, hint)
    return one


def _model_text(address: str | Path) -> bytes:
    """Return what is digested of a world that is no file: its model as it would be saved."""
    from polvet.worlds.table_file import dump_world

    return dump_world(load_model(address))[1].encode()


def _read_toml(path: str | Path) -> Json:
    try:
        document = tomllib.loads(read_text(path, max_bytes=1 << 20))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not TOML: {error}.", Where(str(path)), "Correct the file there.") from None
    refuse_unknown_keys(document, TASK_KEYS, Where(str(path)))
    return document


def _text(document: Mapping[str, Any], key: str, where: Where) -> str:
    value = document.get(key)
    if not isinstance(value, str):
        raise InputError(f"'{key}' is {'missing' if value is None else 'not a text'}.", where, f'Write {key} = "...".')
    return value


def _table(document: Mapping[str, Any], key: str, where: Where) -> Mapping[str, Any]:
    value = document.get(key, {})
    if not isinstance(value, dict):
        raise InputError(f"'{key}' is not a table.", where, f"Write [{key}] and its entries below.")
    return value


def _reading(table: Mapping[str, Any], where: Where, folder: Path) -> PolicyReading:
    refuse_unknown_keys(table, POLICY_KEYS, where)
    mode = table.get("mode", "filtered")
    if mode not in MODES:
        raise InputError(f"mode '{mode}' is unknown.", where.at("mode"), "Use filtered or raw.")
    lists: dict[str, tuple[str, ...] | None] = {}
    for key in ("inputs", "outputs"):
        names = table.get(key)
        if names is not None and (not isinstance(names, list) or not all(isinstance(name, str) for name in names)):
            raise InputError(f"'{key}' is not a list of names.", where.at(key), f'Write {key} = ["x", "y"].')
        lists[key] = None if names is None else tuple(names)
    output = table.get("output")
    if output is not None and not isinstance(output, str):
        raise InputError("'output' is not a name.", where.at("output"), 'Write output = "logits".')
    # SOUND: a task file may name functions; only with `allow_code` are they ever run (policy/functions.py).
    functions = {text: folder / named[0] for text in lists["inputs"] or () if (named := named_function(text))}
    return PolicyReading(mode, lists["inputs"], lists["outputs"], output, functions=functions)


def _number(value: Any, where: Where) -> Value:
    """Return the value of a constant: a truth value or an exact number, also as a text."""
    if isinstance(value, bool):
        return value
    text = str(value)
    if text in ("true", "false"):
        return text == "true"
    number = exact(text)
    if number is None:
        what = f"'{text[:40]}' is no number (or too large a one) and not true or false."
        raise InputError(what, where, "Write 4, 0.25, 1/3 or true.")
    return number


def _condition(network: Network, text: str, role: str, where: Where, parse: Reader) -> Expression:
    """Return the condition for the role: as the text says it, or what the property it names is about."""
    name = text.strip().removeprefix("property:")
    if name == text.strip():
        return condition(network, parse(text, where), where)
    named = find_property(network.model, name, where)
    expression = _states_of(network, named.expression, role)
    if expression is None:
        raise InputError(f"property '{name}' names no states for {role}.", where, "Use a reachability or PA property.")
    return condition(network, expression, named.where)


def _from_only_task(network: Network) -> dict[str, Expression]:
    """The conditions of the model's PlaJA property, where it has exactly one and nothing else was given."""
    tasks = [one for one in network.model.properties if isinstance(one.expression, PolicyTask)]
    if len(tasks) != 1:
        return {}
    parts = {role: _states_of(network, tasks[0].expression, role) for role in ROLES}
    return {role: condition(network, part, tasks[0].where) for role, part in parts.items() if part is not None}


def _states_of(network: Network, expression: PropertyExpression, role: str) -> Expression | None:
    match expression:
        case Filter(_, values, _):
            return _states_of(network, values, role)
        case Comparison(_, left, _):
            return _states_of(network, left, role)
        case Probability(_, Until(_, right)) | PathQuantifier(_, Until(_, right)):
            return _plain(right)
        case Probability(_, Globally(operand)) | PathQuantifier(_, Globally(operand)):
            plain = _plain(operand)
            return None if plain is None else Binary("=", plain, FALSE)
        case PolicyTask(start, reach, objective):
            chosen = {"start": start, "fail": reach, "goal": objective.goal if objective else None}[role]
            return None if chosen is None else _states_of(network, chosen, role)
        case Objective(goal):
            return None if goal is None else _states_of(network, goal, role)
        case StateCondition(inner, locations):
            return conjunction(*([] if inner is None else [inner]), *map(_location_test, locations))
        case StatesValues(states):
            return disjunction(
                *(
                    conjunction(
                        *(Binary("=", target, value) for target, value in state.values),
                        *map(_location_test, state.locations),
                    )
                    for state in states
                )
            )
        case _:
            return _plain(expression)


def _plain(formula: PropertyExpression) -> Expression | None:
    return formula if is_expression(formula) else None


def _location_test(place: AutomatonLocation) -> Expression:
    return Binary("=", Name(f"{place.automaton}.location"), Name(quoted(place.location)))
