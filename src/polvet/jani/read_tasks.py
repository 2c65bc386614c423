"""Read PlaJA's additions to JANI: `PA` properties, objectives, state conditions, lists of states, file references.

A reference `{"file": "start.jani"}` stands for the document in that file. It is relative to the folder of the file it
stands in and stays inside it, whatever links and dots it contains; the file it names is no reference again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from polvet.errors import InputError, Where
from polvet.jani.documents import (
    Fault,
    Json,
    kind_of,
    know_keys,
    load_document,
    mapping,
    objects,
    optional_text,
    placed,
    sequence,
    shown,
    text,
)
from polvet.jani.read_expressions import operand, read_expression, read_expressions, read_optional
from polvet.jani.read_properties import accumulated, read_property_expression
from polvet.model.expressions import Element, Name
from polvet.model.properties import (
    AutomatonLocation,
    Objective,
    PolicyTask,
    Predicates,
    Property,
    PropertyExpression,
    StateCondition,
    StateSet,
    StatesValues,
    StateValues,
)

TASK_OPERATORS = ("PA", "objective", "state-condition", "states-values")
Part = TypeVar("Part")


@dataclass(slots=True)
class References:
    """The folder that references may reach (None: none are allowed), and the documents read from it so far."""

    folder: Path | None = None
    read: dict[Path, Json] = field(default_factory=dict)

    def follow(self, document: dict[str, Json]) -> tuple[Json, Where]:
        """Return the document that a reference names, and its place."""
        name = text(document, "file", "the name of a file")
        if self.folder is None:
            raise Fault(document, "file", "references to files are not followed here.", "Load the model from a file.")
        try:
            folder = self.folder.resolve()
            file = (folder / name).resolve()
        except (OSError, RuntimeError, ValueError):
            raise Fault(document, "file", f"{shown(name)} is no path.", "Name a file beside this one.") from None
        # SOUND: both paths are resolved, so neither '..' nor a symbolic link leads out of the folder unseen.
        if not file.is_relative_to(folder):
            raise Fault(
                document,
                "file",
                f"{shown(name)} lies outside the folder of this file.",
                "References stay inside that folder: copy the file there.",
            )
        if file not in self.read:
            try:
                self.read[file] = load_document(file)
            except InputError as error:
                if isinstance(error.where, Where) and not file.is_file():
                    raise Fault(document, "file", f"{shown(name)}: {error.what}", error.hint) from None
                raise
        return self.read[file], Where(str(self.folder / name))


def read_properties(items: list[Json], where: Where, references: References) -> tuple[Property, ...]:
    """Return the properties of a list."""
    return tuple(
        _read_property(mapping(item, items, position, "a property"), where.at(position), references)
        for position, item in enumerate(items)
    )


def _read_property(document: dict[str, Json], where: Where, references: References) -> Property:
    know_keys(document, frozenset(("name", "expression")), "a property")
    name = text(document, "name", "the name of the property")
    comment = document.get("comment")
    expression = read_task_expression(operand(document, "expression"), references)
    return Property(name, expression, comment if isinstance(comment, str) else None, where)


def read_task_expression(document: Json, references: References) -> PropertyExpression:
    """Return the property expression of a JSON value: one of PlaJA's, or one of JANI's."""
    operator = document.get("op") if isinstance(document, dict) else None
    match operator:
        case "PA":
            return _read_task(document, references)
        case "objective":
            return read_objective(document, references)
        case "state-condition" | "states-values":
            return read_states(document, references)
        case _:
            return read_property_expression(document)


def read_lone(document: Json, references: References) -> PropertyExpression:
    """Return what a file holds that is no model and no list of properties: one expression, or a list of predicates."""
    if isinstance(document, list):
        return Predicates(read_expressions(document))
    if isinstance(document, dict) and isinstance(document.get("op"), str):
        return read_task_expression(document, references)
    raise Fault(
        document,
        None,
        "is neither a list of properties nor a condition nor an objective.",
        'Write {"properties": [...]}, or an object with "op".',
    )


def _read_task(document: dict[str, Json], references: References) -> PolicyTask:
    known = ("op", "start", "reach", "objective", "predicates", "file", "terminal")
    know_keys(document, frozenset(known), "a property 'PA'")
    if "terminal" in document:
        raise Fault(document, "terminal", "terminal states of 'PA' are not supported.", "Use the objective's goal.")

    def part(key: str, what: str, read: Callable[[dict[str, Json], References], Part]) -> Part | None:
        value = document.get(key)
        if value is None:
            return None
        inner = mapping(value, document, key, what)
        if "file" in inner and "op" not in inner:
            target, where = references.follow(inner)
            with placed(target, where):
                return read(mapping(target, target, None, what), references)
        return read(inner, references)

    objective = part("objective", "an objective", read_objective)
    predicates: Predicates | None = None
    listed = document.get("predicates")
    if isinstance(listed, dict):
        target, where = references.follow(listed)
        with placed(target, where):
            if not isinstance(target, list):
                raise Fault(target, None, f"is {kind_of(target)}; predicates are a list.", "Write [ ... ] there.")
            predicates = Predicates(read_expressions(target))
    elif listed is not None:
        predicates = Predicates(read_expressions(sequence(document, "predicates")))
    policy_file = optional_text(document, "file", "the name of the policy's file")
    start, reach = (part(key, "a set of states", read_states) for key in ("start", "reach"))
    return PolicyTask(start, reach, objective, predicates, policy_file)


def read_objective(document: dict[str, Json], references: References) -> Objective:
    """Return the objective of an object."""
    if document.get("op") != "objective":
        raise Fault(
            document, "op" if "op" in document else None, "an objective is expected.", 'Write "op": "objective".'
        )
    known = ("op", "goal", "goal-potential", "goal-reward", "step-reward", "accumulate")
    know_keys(document, frozenset(known), "an objective")
    goal = document.get("goal")
    return Objective(
        None if goal is None else read_states(mapping(goal, document, "goal", "a set of states"), references),
        read_optional(document, "goal-potential"),
        read_optional(document, "goal-reward"),
        read_optional(document, "step-reward"),
        accumulated(document),
    )


def read_states(document: dict[str, Json], references: References) -> StateSet:
    """Return the set of states of an object; a bare expression is a condition."""
    match document.get("op"):
        case "state-condition":
            know_keys(document, frozenset(("op", "exp", "locations")), "a state condition")
            return StateCondition(read_optional(document, "exp"), _locations(document))
        case "states-values":
            know_keys(document, frozenset(("op", "values")), "a list of states")
            return StatesValues(tuple(map(_state_values, objects(document, "values", "a state", required=True))))
        case _:
            return StateCondition(read_expression(document))


def _state_values(document: dict[str, Json]) -> StateValues:
    know_keys(document, frozenset(("variables", "locations")), "a state")
    values = []
    for pair in objects(document, "variables", "a variable with its value"):
        know_keys(pair, frozenset(("var", "value")), "a value")
        target = read_expression(operand(pair, "var"))
        if not isinstance(target, Name | Element):
            raise Fault(pair, "var", "is no variable.", "Write the name of a variable or an element of an array.")
        values.append((target, read_expression(operand(pair, "value"))))
    return StateValues(tuple(values), _locations(document))


def _locations(document: dict[str, Json]) -> tuple[AutomatonLocation, ...]:
    return tuple(map(_location, objects(document, "locations", "a location of an automaton")))


def _location(document: dict[str, Json]) -> AutomatonLocation:
    know_keys(document, frozenset(("automaton", "index", "location")), "a location")
    index = document.get("index")
    if index is not None and (not isinstance(index, int) or isinstance(index, bool) or index < 0):
        raise Fault(document, "index", "is not the number of an instance.", "Count the system's elements from 0.")
    return AutomatonLocation(
        text(document, "automaton", "the name of an automaton"),
        text(document, "location", "the name of a location"),
        index,
    )
