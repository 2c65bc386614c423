"""A task: a network with its start, fail and goal conditions, and how a policy is read. Runs end at goal and fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any

from polvet.errors import InputError, Where, suggest
from polvet.files import Json
from polvet.model.arithmetic import Value
from polvet.model.expressions import FALSE, Expression
from polvet.model.kinds import kind_of
from polvet.model.network import Kind, Network, Variable
from polvet.model.options import NO_OPTIONS as NO_OPTIONS
from polvet.model.options import NOTHING_ELSE as NOTHING_ELSE
from polvet.model.options import ROLES as ROLES
from polvet.model.options import Avoid as Avoid
from polvet.model.options import TaskOptions as TaskOptions
from polvet.model.semantics import State, show_value
from polvet.model.tables import TableMoves
from polvet.numbers import exact

MODES = ("filtered", "raw")


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
    max_steps: int | None = (
        None  # the world ends episodes there; only shares of runs heed it, no verdict about safety does
    )

    @property
    def sha256(self) -> str | None:
        """Return the digest of the file(s) it was read from."""
        return None if self.source is None else self.source.sha256


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
