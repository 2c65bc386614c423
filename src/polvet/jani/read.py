"""Read JANI files: whole models, and files that hold properties alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast

from polvet.errors import Where, did_you_mean
from polvet.jani.documents import (
    Fault,
    Json,
    below,
    kind_of,
    know_keys,
    load_document,
    mapping,
    objects,
    optional_text,
    placed,
    required,
    sequence,
    shown,
    text,
    truth,
    warn,
)
from polvet.jani.features import (
    FEATURES,
    MODEL_TYPES,
    PROPERTY_FEATURES,
    UNSUPPORTED_FEATURES,
    UNSUPPORTED_MODEL_TYPES,
    declared_features,
)
from polvet.jani.read_expressions import operand, read_expression, read_optional, read_type, read_wrapped
from polvet.jani.read_tasks import References, read_lone, read_properties
from polvet.jani.text import json_text
from polvet.model.automata import (
    Assignment,
    Automaton,
    Composition,
    Constant,
    Destination,
    Edge,
    Function,
    Instance,
    Location,
    Model,
    ModelType,
    Synchronisation,
    VariableDeclaration,
)
from polvet.model.expressions import Element, Expression, Name
from polvet.model.properties import Property
from polvet.model.wellformed import check_model

Part = TypeVar("Part")

_MODEL_KEYS = frozenset((
    "jani-version", "name", "metadata", "type", "features", "actions", "constants", "variables", "functions",
    "restrict-initial", "properties", "automata", "system", "datatypes",
))  # fmt: skip


def load_model(path: str | Path, *, check: bool = True) -> Model:
    """Return the model in the file; it is well-formed (if checked), or an InputError says where it is not."""
    return parse_model(load_document(path), Where(str(path)), folder=Path(path).parent, check=check)


def parse_model(document: Json, where: Where, *, folder: Path | None = None, check: bool = True) -> Model:
    """Return the model of a JSON document, as `load_model`; references to files are followed inside `folder` alone.

    Real numbers in the document are Fractions, as `load_document` makes them.
    """
    with placed(document, where):
        model = _read_model(mapping(document, document, None, "a model"), where, References(folder))
    if check:
        check_model(model)
    return replace(model, features=declared_features(model))


def load_properties(path: str | Path) -> tuple[Property, ...]:
    """Return the properties in the file: of a model, of a list, or one lone condition named after the file."""
    document, where = load_document(path), Where(str(path))
    references = References(Path(path).parent)
    with placed(document, where):
        if isinstance(document, dict) and "properties" in document:
            return read_properties(sequence(document, "properties"), where.at("properties"), references)
        return (Property(Path(path).stem, read_lone(document, references), where=where),)


def _read_model(document: dict[str, Json], where: Where, references: References) -> Model:
    know_keys(document, _MODEL_KEYS, "a model")
    if "automata" not in document:
        hint = "Is this a file of properties? Read it beside its model." if "properties" in document else None
        raise Fault(document, None, "is not a model: the key 'automata' is missing.", hint or "Check the file.")
    version = document.get("jani-version", 1)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise Fault(document, "jani-version", "is not a version of JANI.", "Write 1.")
    model_type = _model_type(document)
    features = _features(document)
    if document.get("datatypes"):
        raise Fault(document, "datatypes", "user-defined data types are not supported.", "Use variables or arrays.")
    automata = objects(document, "automata", "an automaton")
    if not automata:
        raise Fault(document, "automata", "a model needs at least one automaton.", "Add one.")
    return Model(
        text(document, "name", "the name of the model"),
        model_type,
        tuple(_automaton(item, below(where, "automata", i)) for i, item in enumerate(automata)),
        _composition(
            mapping(
                required(document, "system", "the composition of the automata"), document, "system", "a composition"
            ),
            where.at("system"),
        ),
        _actions(document),
        _parts(document, "constants", "a constant", where, _constant),
        _parts(document, "variables", "a variable", where, _variable),
        _parts(document, "functions", "a function", where, _function),
        read_wrapped(document, "restrict-initial"),
        read_properties(sequence(document, "properties"), where.at("properties"), references),
        features,
        _metadata(document),
        version,
        where,
    )


def _model_type(document: dict[str, Json]) -> ModelType:
    name = text(document, "type", "the type of the model")
    if name in MODEL_TYPES:
        return ModelType(name)
    if name in UNSUPPORTED_MODEL_TYPES:
        raise Fault(
            document,
            "type",
            f"{UNSUPPORTED_MODEL_TYPES[name]} are not supported.",
            "Only discrete time is run: lts, dtmc and mdp.",
        )
    raise Fault(
        document,
        "type",
        f"no model type {shown(name)}.",
        did_you_mean(name, (*MODEL_TYPES, *UNSUPPORTED_MODEL_TYPES)) or "Use lts, dtmc or mdp.",
    )


def _features(document: dict[str, Json]) -> tuple[str, ...]:
    names = sequence(document, "features")
    features: dict[str, None] = {}
    for position in range(len(names)):
        name = text(names, position, "a feature")
        if name in UNSUPPORTED_FEATURES:
            raise Fault(
                names,
                position,
                f"the feature '{name}' is not supported: {UNSUPPORTED_FEATURES[name]}.",
                "Rewrite the model without it.",
            )
        if name not in FEATURES and name not in PROPERTY_FEATURES:
            warn(f"the feature {shown(name)} is not known and is ignored.")
        features[name] = None
    return tuple(features)


def _metadata(document: dict[str, Json]) -> tuple[tuple[str, str], ...]:
    entries = document.get("metadata")
    if entries is None:
        return ()
    entries = mapping(entries, document, "metadata", "metadata")
    return tuple((key, value if isinstance(value, str) else json_text(value)) for key, value in entries.items())


def _actions(document: dict[str, Json]) -> tuple[str, ...]:
    actions = []
    for item in objects(document, "actions", "an action"):
        know_keys(item, frozenset(("name",)), "an action")
        actions.append(text(item, "name", "the name of the action"))
    return tuple(actions)


def _constant(document: dict[str, Json], where: Where) -> Constant:
    know_keys(document, frozenset(("name", "type", "value")), "a constant")
    name = text(document, "name", "the name of the constant")
    return Constant(name, read_type(document, "type"), read_optional(document, "value"), where)


def _variable(document: dict[str, Json], where: Where) -> VariableDeclaration:
    know_keys(document, frozenset(("name", "type", "initial-value", "transient")), "a variable")
    name, transient = text(document, "name", "the name of the variable"), truth(document, "transient")
    initial = read_optional(document, "initial-value")
    return VariableDeclaration(name, read_type(document, "type"), initial, transient, where)


def _function(document: dict[str, Json], where: Where) -> Function:
    know_keys(document, frozenset(("name", "type", "parameters", "body")), "a function")
    parameters = []
    for parameter in objects(document, "parameters", "a parameter"):
        know_keys(parameter, frozenset(("name", "type")), "a parameter")
        parameters.append((text(parameter, "name", "the name of the parameter"), read_type(parameter, "type")))
    name, body = text(document, "name", "the name of the function"), read_expression(operand(document, "body"))
    return Function(name, read_type(document, "type"), tuple(parameters), body, where)


def _automaton(document: dict[str, Json], where: Where) -> Automaton:
    known = ("name", "variables", "functions", "restrict-initial", "locations", "initial-locations", "edges")
    know_keys(document, frozenset(known), "an automaton")
    names = sequence(document, "initial-locations", required=True)
    return Automaton(
        text(document, "name", "the name of the automaton"),
        _parts(document, "locations", "a location", where, _location),
        tuple(text(names, position, "the name of a location") for position in range(len(names))),
        _parts(document, "edges", "an edge", where, _edge),
        _parts(document, "variables", "a variable", where, _variable),
        _parts(document, "functions", "a function", where, _function),
        read_wrapped(document, "restrict-initial"),
        where,
    )


def _location(document: dict[str, Json], where: Where) -> Location:
    know_keys(document, frozenset(("name", "time-progress", "transient-values", "initial-location")), "a location")
    if document.get("time-progress") is not None:
        raise Fault(
            document,
            "time-progress",
            "time progress conditions (clocks) are not supported.",
            "Only discrete time is run.",
        )
    values = _assignments(document, "transient-values", where)
    return Location(text(document, "name", "the name of the location"), values, None, where)


def _edge(document: dict[str, Json], where: Where) -> Edge:
    known = ("location", "action", "guard", "rate", "destinations", "assignments", "priority")
    know_keys(document, frozenset(known), "an edge")
    for key, name in (("rate", "exponential rates"), ("priority", "priorities of edges")):
        if document.get(key) is not None:
            raise Fault(document, key, f"{name} are not supported.", "Only discrete time is run: lts, dtmc and mdp.")
    destinations = _parts(document, "destinations", "a destination", where, _destination)
    return Edge(
        text(document, "location", "the name of the edge's location"),
        optional_text(document, "action", "the name of an action"),
        read_wrapped(document, "guard"),
        destinations,
        _assignments(document, "assignments", where),
        None,
        where,
    )


def _destination(document: dict[str, Json], where: Where) -> Destination:
    know_keys(document, frozenset(("location", "probability", "assignments")), "a destination")
    return Destination(
        text(document, "location", "the name of the destination's location"),
        read_wrapped(document, "probability"),
        _assignments(document, "assignments", where),
        where,
    )


_ASSIGNMENT_KEYS = frozenset(("ref", "value", "index"))


def _assignments(document: dict[str, Json], key: str, where: Where) -> tuple[Assignment, ...]:
    if not (items := sequence(document, key)):
        return ()
    assignments, place = [], where.at(key)
    for position, item in enumerate(items):
        entry = mapping(item, items, position, "an assignment")
        know_keys(entry, _ASSIGNMENT_KEYS, "an assignment")
        index = entry.get("index", 0)
        if type(index) is not int:
            raise Fault(entry, "index", f"is {kind_of(index)}; an index is an integer.", "Write 0, 1, ...")
        target = _target(entry)
        assignments.append(Assignment(target, read_expression(operand(entry, "value")), index, below(place, position)))
    return tuple(assignments)


def _target(document: dict[str, Json]) -> Name | Element:
    target: Expression = read_expression(operand(document, "ref"))
    root = target
    while isinstance(root, Element):
        root = root.array
    if not isinstance(root, Name):
        raise Fault(document, "ref", "is no variable.", "Assign to a variable or to an element of an array.")
    return cast("Name | Element", target)


def _composition(document: dict[str, Json], where: Where) -> Composition:
    know_keys(document, frozenset(("elements", "syncs")), "a composition")
    instances = []
    for item in objects(document, "elements", "an element of the composition"):
        know_keys(item, frozenset(("automaton", "input-enable")), "an element of the composition")
        enabled = sequence(item, "input-enable")
        actions = tuple(text(enabled, position, "the name of an action") for position in range(len(enabled)))
        instances.append(Instance(text(item, "automaton", "the name of an automaton"), actions))
    if document.get("syncs") is None:
        return Composition(tuple(instances), None, where)
    synchronisations = _parts(document, "syncs", "a synchronisation", where, _synchronisation)
    return Composition(tuple(instances), synchronisations, where)


def _synchronisation(document: dict[str, Json], where: Where) -> Synchronisation:
    know_keys(document, frozenset(("synchronise", "result")), "a synchronisation")
    vector = sequence(document, "synchronise", required=True)
    actions = tuple(
        None if action is None else text(vector, position, "the name of an action")
        for position, action in enumerate(vector)
    )
    return Synchronisation(actions, optional_text(document, "result", "the name of an action"), where)


def _parts(
    document: dict[str, Json], key: str, what: str, where: Where, read: Callable[[dict[str, Json], Where], Part]
) -> tuple[Part, ...]:
    """Return what is read of each object in the list at a key."""
    return tuple([read(item, below(where, key, i)) for i, item in enumerate(objects(document, key, what))])
