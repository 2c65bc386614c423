"""A task: a network with its start, fail and goal conditions, and how a policy is read. Runs end at goal and fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any

from polvet.errors import InputError, Where, suggest
from polvet.files import Json
from polvet.model.arithmetic import Value
from polvet.model.expressions import FALSE, Expression
from polvet.model.infix import dump_expression
from polvet.model.kinds import kind_of
from polvet.model.network import Kind, Network, OutOfBounds, Variable
from polvet.model.semantics import State, show_value
from polvet.model.tables import TableMoves
from polvet.numbers import exact

MODES = ("filtered", "raw")
ROLES = ("start", "fail", "goal")


@dataclass(frozen=True, slots=True)
class PolicyReading:
    """How a policy's inputs and outputs are named in the task; None: the policy file's own, else the model's order."""

    mode: str = "filtered"
    inputs: tuple[str, ...] | None = None
    outputs: tuple[str, ...] | None = None
    output: str | None = None  # the value that holds the scores, where a file has several
    expressions: Mapping[str, Expression] = field(default_factory=dict)  # inputs that are computed, by their text
    functions: Mapping[str, Path] = field(default_factory=dict)  # inputs `file.py:function`, with where the file is


@dataclass(frozen=True, slots=True)
class Avoid:
    """What counts as unsafe besides `fail`: runs of a raw policy that get stuck, deadlocks outside the goal, runs that cannot end."""

    stuck: bool = False
    deadlock: bool = False
    loop: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Return what is avoided, as users and certificates name it."""
        return tuple(one.name for one in fields(self) if getattr(self, one.name))


NOTHING_ELSE = Avoid()


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What is added to, or put in the place of, what a task's source says."""

    constants: Mapping[str, Value] = field(default_factory=dict)
    start: str | None = None
    fail: str | None = None
    goal: str | None = None
    out_of_bounds: OutOfBounds = OutOfBounds.ERROR
    mode: str | None = None  # how a policy's choice is read
    avoid: Avoid = NOTHING_ELSE
    domain: Path | None = None  # the domain of a PDDL problem; None: the source says where it is

    def to_json(self) -> dict[str, str]:
        """Return the options as certificates hold them; empty where the source says everything.

        What else is avoided is part of a certificate's own claim; a domain is a file that it speaks about.
        """
        document: dict[str, str] = {}
        if self.constants:
            document["constants"] = ",".join(
                f"{name}={str(value).lower() if isinstance(value, bool) else value}"
                for name, value in self.constants.items()
            )
        document |= {role: text for role in ROLES if (text := getattr(self, role)) is not None}
        if self.out_of_bounds is not OutOfBounds.ERROR:
            document["out_of_bounds"] = self.out_of_bounds.value
        if self.mode is not None:
            document["mode"] = self.mode
        return document

    def arguments(self) -> list[str]:
        """Return the words that give these options on the command line."""
        words = [word for name, text in self.to_json().items() for word in (f"--{name.replace('_', '-')}", text)]
        return [*words, *(() if self.domain is None else ("--domain", str(self.domain)))]


NO_OPTIONS = TaskOptions()
"""The task's own conditions."""


@dataclass(frozen=True, slots=True)
class Source:
    """The file a task was read from: a model, or a task.toml that names one; the SHA-256 is over both."""

    file: Path
    sha256: str


@dataclass(frozen=True, slots=True)
class Task:
    """What shall be avoided and reached, from where. All conditions are over the network's scalars.

    A task knows its whole meaning: the network what an assignment out of bounds does, the reading how a policy chooses.
    Options and source say how it was come by; they are what a certificate repeats.
    """

    network: Network
    fail: Expression = FALSE
    goal: Expression = FALSE
    start: Expression | None = None  # None: the model's initial states
    reading: PolicyReading = PolicyReading()
    avoid: Avoid = NOTHING_ELSE
    options: TaskOptions = NO_OPTIONS  # already part of the fields above
    source: Source | None = None  # None: made in memory

    @property
    def sha256(self) -> str | None:
        """Return the digest of the file(s) it was read from."""
        return None if self.source is None else self.source.sha256

    def claim(self) -> Json:
        """Return what whoever speaks about this task speaks about, as data: the file's digest, and the meaning in full."""
        constants = self.network.constants.items()
        return {
            "task_sha256": self.sha256,
            "constants": {name: value if isinstance(value, int) else str(value) for name, value in constants},
            "start": None if self.start is None else dump_expression(self.start),
            "fail": dump_expression(self.fail),
            "goal": dump_expression(self.goal),
            "out_of_bounds": self.network.out_of_bounds.value,
            "mode": self.reading.mode,
            "avoid": list(self.avoid.names),
        }


def resolved(network: Network, expression: Expression, where: Where) -> tuple[Expression, Kind]:
    """Return the expression over the network's scalars, and whether it is a truth value, an integer or a real."""
    scalar = network.resolve(expression, where)
    try:
        return scalar, kind_of(scalar, {variable.name: variable.kind for variable in network.variables})
    except InputError as error:
        raise InputError(error.what, where, error.hint) from None


def condition(network: Network, expression: Expression, where: Where) -> Expression:
    """Return the condition over the network's scalars; anything but a truth value is an InputError."""
    scalar, kind = resolved(network, expression, where)
    if kind is not Kind.BOOL:
        raise InputError(f"the condition is a {kind.value}, not a bool.", where, "Compare it with something.")
    return scalar


def state_from_names(network: Network, values: Mapping[str, Any], where: Where) -> State:
    """Return the state given by a value for each variable's name.

    Locations are given by name; one that is left out is the automaton's only initial one. A variable whose values have names may be
    given by these as truth values: those that are left out are false. In a table the number of the state says its features, and
    features that tell all states apart say the number.
    """
    known = {variable.name for variable in network.variables}
    for name in values:
        if name not in known and name not in network.scope.locations and name not in network.scope.names:
            raise InputError(f"no variable '{name}'.", where, suggest(name, known))
    if isinstance(network.edges, TableMoves):
        values = network.edges.table.completed(values)
    missing = []
    state: list[Value] = []
    for variable in network.variables:
        if variable.name in values:
            state.append(parse_value(variable, values[variable.name], where))
        elif variable.is_location and variable.initial is not None:
            state.append(variable.initial)
        elif variable.values is not None and any(name in values for name in variable.values):
            state.append(_named_value(variable, values, where))
        else:
            missing.append(variable.name)
    if missing:
        shown = ", ".join(missing[:5]) + (" ..." if len(missing) > 5 else "")
        raise InputError(f"the state gives no value for {shown}.", where, "Give every variable a value.")
    return tuple(state)


def _named_value(variable: Variable, values: Mapping[str, Any], where: Where) -> Value:
    """Return the value whose name is true among the given ones; 0 where none is and 0 has no name."""
    truth = Variable("", Kind.BOOL)
    assert variable.values is not None
    true = [
        k
        for k, name in enumerate(variable.values)
        if name in values and parse_value(replace(truth, name=name), values[name], where)
    ]
    if len(true) > 1:
        both = f"'{variable.values[true[0]]}' and '{variable.values[true[1]]}'"
        raise InputError(f"{both} are never true together.", where, "Give one of them.")
    if not true and variable.values[0] in values:
        raise InputError(f"none of {', '.join(variable.values[:5])} is true.", where, "One of them always is.")
    return true[0] if true else 0


def show_names(state: Mapping[str, Any]) -> str:
    """Return a state given by names as people write it."""
    return ",".join(f"{name}={value}" for name, value in state.items())


def state_to_names(network: Network, state: State) -> Json:
    """Return the state as `{"x": 3, "crashed": false}`, locations by name."""
    return {
        variable.name: show_value(variable, value) if variable.is_location else value
        for variable, value in zip(network.variables, state, strict=True)
    }


def parse_value(variable: Variable, given: Any, where: Where) -> Value:
    """Return the value as the variable holds it, from a JSON value or a piece of text; bounds are checked."""
    value = _read(variable, given)
    if value is None:
        named = variable.locations or variable.values
        wanted = " or ".join(named[:12]) if named else f"a {variable.kind.value}"
        raise InputError(f"'{str(given)[:40]}' is no value of '{variable.name}'.", where, f"Give {wanted}.")
    low = variable.lower is not None and value < variable.lower
    if low or (variable.upper is not None and value > variable.upper):
        raise InputError(
            f"'{variable.name}' = {given} is outside [{variable.lower}, {variable.upper}].",
            where,
            "Give a value within the bounds.",
        )
    return value


def _read(variable: Variable, given: Any) -> Value | None:
    text = str(given).strip()
    if variable.values is not None and text in variable.values:
        return variable.values.index(text)
    if variable.locations is not None:
        name = text.strip('"')
        if name in variable.locations:
            return variable.locations.index(name)
        return int(given) if isinstance(given, int) and not isinstance(given, bool) else None
    if variable.kind is Kind.BOOL:
        return {"true": True, "false": False, "1": True, "0": False}.get(text.lower())
    if isinstance(given, bool):
        return None
    if isinstance(given, float):
        if variable.kind is Kind.REAL:
            return given if isfinite(given) else None
        return int(given) if given.is_integer() else None
    number = exact(text)
    if number is None or variable.kind is Kind.REAL:
        return None if number is None else float(number)
    return int(number) if number.denominator == 1 else None
