"""The format `fmp/1`: a finite-memory policy as a JSON document, read with the place of every mistake, and written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, Where
from polvet.files import Json, refuse_unknown_keys
from polvet.policy.finite_memory.fmp import (
    ALWAYS,
    OPERATORS,
    SEMANTICS,
    Atom,
    Choice,
    Edge,
    EdgeId,
    Effect,
    FiniteMemoryPolicy,
    Guard,
    Variable,
    check_fmp,
    placed,
)

FORMAT = "fmp/1"
KEYS = ("format", "name", "comment", "semantics", "variables", "control_states", "initial", "edges")
VARIABLE_KEYS = ("name", "comment", "lower", "upper")
EDGE_KEYS = ("id", "comment", "from", "to", "guard_dnf", "choices")
CHOICE_KEYS = ("action", "comment", "effects")
EFFECT_KEYS = ("lo", "hi")
EXACT = 2**53
"""Integers above this are written as strings, because many JSON readers would round them."""
_LONG = re.compile(r"-?\d{16,400}")


def parse_fmp(document: Any, where: Where, budget: Budget = UNLIMITED) -> FiniteMemoryPolicy:
    """Return the policy in an `fmp/1` document, or raise an InputError with the JSON path."""
    return placed(partial(_parse, document, budget=budget), where)


def _parse(document: Any, where: Where, budget: Budget) -> FiniteMemoryPolicy:
    top = _object(document, where)
    refuse_unknown_keys(top, KEYS, where)
    if top.get("format") != FORMAT:
        what = f"the format is {top.get('format')!r}, not '{FORMAT}'."
        raise InputError(what, where.at("format"), f"Write '{FORMAT}'.")
    semantics = top.get("semantics", "deterministic")
    if semantics not in SEMANTICS:
        hint = f"Choose one of: {', '.join(SEMANTICS)}."
        raise InputError(f"no semantics {semantics!r}.", where.at("semantics"), hint)
    variables = tuple(
        _variable(item, where.at("variables").at(index))
        for index, item in enumerate(_array(_needed(top, "variables", where), where.at("variables")))
    )
    states = tuple(
        _name(item, where.at("control_states").at(index))
        for index, item in enumerate(_array(_needed(top, "control_states", where), where.at("control_states")))
    )
    first = _needed(top, "initial", where)
    initial = tuple(_name(item, where.at("initial")) for item in (first if isinstance(first, list) else [first]))
    edges = []
    for index, item in enumerate(_array(_needed(top, "edges", where), where.at("edges"))):
        budget.check()  # plans of a hundred thousand edges take seconds
        edges.append(_edge(item, index, where.at("edges").at(index)))
    name = _name(top.get("name", Path(where.file).name), where.at("name"))
    return check_fmp(FiniteMemoryPolicy(variables, states, initial, tuple(edges), semantics, name), where)


def _variable(item: Any, where: Where) -> Variable:
    entry = _object(item, where)
    refuse_unknown_keys(entry, VARIABLE_KEYS, where)
    lower = entry.get("lower", 0)
    upper = entry.get("upper")
    return Variable(
        _name(_needed(entry, "name", where), where.at("name")),
        None if lower is None else parse_integer(lower, where.at("lower"), "a bound"),
        None if upper is None else parse_integer(upper, where.at("upper"), "a bound"),
    )


def _edge(item: Any, index: int, where: Where) -> Edge:
    entry = _object(item, where)
    refuse_unknown_keys(entry, EDGE_KEYS, where)
    identity: EdgeId = entry.get("id", index)
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        raise InputError("an id is an integer or a name.", where.at("id"), "Give each edge its own.")
    guard = _guard(entry["guard_dnf"], where.at("guard_dnf")) if "guard_dnf" in entry else ALWAYS
    choices = tuple(
        _choice(choice, where.at("choices").at(number))
        for number, choice in enumerate(_array(entry.get("choices", [{}]), where.at("choices")))
    )
    source = _name(_needed(entry, "from", where), where.at("from"))
    return Edge(identity, source, _name(_needed(entry, "to", where), where.at("to")), choices, guard)


def _guard(item: Any, where: Where) -> Guard:
    hint = "Leave 'guard_dnf' out for an edge that is always open, or remove the edge."
    rows = _array(item, where)
    if not rows:
        raise InputError("the guard is empty: it is never true.", where, hint)
    guard = []
    for row, conjunction in enumerate(rows):
        atoms = tuple(
            _atom(atom, where.at(row).at(column)) for column, atom in enumerate(_array(conjunction, where.at(row)))
        )
        if not atoms:
            raise InputError("the guard has an empty conjunction.", where.at(row), hint)
        guard.append(atoms)
    return tuple(guard)


def _atom(item: Any, where: Where) -> Atom:
    if not isinstance(item, list) or len(item) != 3:
        raise InputError("a guard's atom is a list of variable, operator and integer.", where, 'Write ["x", ">=", 1].')
    name, operator, value = item
    operator = "==" if operator == "=" else operator
    if operator not in OPERATORS:
        raise InputError(f"no operator {operator!r}.", where.at(1), f"Choose one of: {' '.join(OPERATORS)}.")
    return Atom(_name(name, where.at(0)), operator, parse_integer(value, where.at(2), "the constant of a guard"))


def _choice(item: Any, where: Where) -> Choice:
    entry = _object(item, where)
    refuse_unknown_keys(entry, CHOICE_KEYS, where)
    action = entry.get("action")
    spot = where.at("effects")
    effects = {name: _effect(value, spot.at(name)) for name, value in _object(entry.get("effects", {}), spot).items()}
    return Choice(effects, None if action is None else _name(action, where.at("action")))


def _effect(item: Any, where: Where) -> Effect:
    if not isinstance(item, dict):
        return Effect.exactly(parse_integer(item, where, "an effect"))
    refuse_unknown_keys(item, EFFECT_KEYS, where)
    low, high = (_needed(item, key, where) for key in ("lo", "hi"))
    ends = (
        None if low is None else parse_integer(low, where.at("lo"), "an end of an interval"),
        None if high is None else parse_integer(high, where.at("hi"), "an end of an interval"),
    )
    return Effect(*ends, measured=ends[0] == ends[1] and ends[0] not in (None, 0))


def parse_integer(item: Any, where: Where, what: str) -> int:
    """Return the integer; integers above 2^53 may stand as strings."""
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    if isinstance(item, str) and _LONG.fullmatch(item):
        return int(item)
    raise InputError(f"{what} is an integer, not {item!r}.", where, "Write a whole number, or scale the variable.")


def _object(item: Any, where: Where) -> Json:
    if not isinstance(item, dict):
        raise InputError(f"an object is needed here, not {_kind(item)}.", where, "Write { ... }.")
    return item


def _array(item: Any, where: Where) -> list[Any]:
    if not isinstance(item, list):
        raise InputError(f"a list is needed here, not {_kind(item)}.", where, "Write [ ... ].")
    return item


def _name(item: Any, where: Where) -> str:
    if not isinstance(item, str) or not item:
        raise InputError(f"a name is needed here, not {_kind(item)}.", where, "Write a string that is not empty.")
    return item


def _kind(item: Any) -> str:
    if item == "":
        return "an empty string"
    return "an object" if isinstance(item, dict) else "a list" if isinstance(item, list) else repr(item)


def _needed(entry: Mapping[str, Any], key: str, where: Where) -> Any:
    if key not in entry:
        raise InputError(f"the key '{key}' is missing.", where, f"Add '{key}'.")
    return entry[key]


def dump_fmp(fmp: FiniteMemoryPolicy) -> Json:
    """Return the `fmp/1` document of the policy; `parse_fmp` of it gives the policy back."""
    return {
        "format": FORMAT,
        "name": fmp.name,
        "semantics": fmp.semantics,
        "variables": [
            {"name": variable.name, "lower": portable(variable.lower), "upper": portable(variable.upper)}
            for variable in fmp.variables
        ],
        "control_states": list(fmp.control_states),
        "initial": fmp.initial[0] if len(fmp.initial) == 1 else list(fmp.initial),
        "edges": [_dump_edge(edge) for edge in fmp.edges],
    }


def _dump_edge(edge: Edge) -> Json:
    entry: Json = {"id": edge.id, "from": edge.source, "to": edge.target}
    if edge.guard != ALWAYS:
        entry["guard_dnf"] = [[[a.variable, a.operator, portable(a.value)] for a in atoms] for atoms in edge.guard]
    entry["choices"] = [
        ({"action": choice.action} if choice.action is not None else {})
        | {"effects": {name: _dump_effect(effect) for name, effect in choice.effects.items()}}
        for choice in edge.choices
    ]
    return entry


def _dump_effect(effect: Effect) -> Any:
    fixed = effect.is_fixed and not effect.measured
    return portable(effect.low) if fixed else {"lo": portable(effect.low), "hi": portable(effect.high)}


def portable(value: int | None) -> int | str | None:
    """Return the integer as JSON readers everywhere keep it: as a string above 2^53."""
    return str(value) if value is not None and abs(value) > EXACT else value
