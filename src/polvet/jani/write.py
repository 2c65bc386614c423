"""Write models as JANI text: reading it again gives the same model.

Differs  comments are not kept, except a property's; `let` without variables and references to files are resolved
Limits   a number that is no finite decimal is written as a division and read again as one: an equal value, not an equal
         expression; so is what JANI cannot say at all, which is refused
"""

from __future__ import annotations

from collections.abc import Iterable

from polvet.jani.documents import Json
from polvet.jani.features import declared_features
from polvet.jani.text import json_lines
from polvet.jani.write_expressions import write_expression, write_type, write_wrapped
from polvet.jani.write_properties import write_property
from polvet.model.automata import (
    Assignment,
    Automaton,
    Composition,
    Destination,
    Edge,
    Function,
    Location,
    Model,
    VariableDeclaration,
)
from polvet.model.properties import Property


def dump_model(model: Model) -> str:
    """Return the model as JANI text, laid out for reading; it declares the features it uses."""
    return json_lines(write_model(model))


def dump_properties(properties: Iterable[Property]) -> str:
    """Return the properties as the text of a file that holds nothing else."""
    return json_lines({"properties": [write_property(one) for one in properties]})


def write_model(model: Model) -> Json:
    """Return the JSON document of a model; its real numbers are Fractions."""
    document: dict[str, Json] = {"jani-version": model.version, "name": model.name, "type": model.type.value}
    if model.metadata:
        document["metadata"] = dict(model.metadata)
    if features := declared_features(model):
        document["features"] = list(features)
    if model.actions:
        document["actions"] = [{"name": action} for action in model.actions]
    if model.constants:
        document["constants"] = [
            {
                "name": constant.name,
                "type": write_type(constant.type),
                **({} if constant.value is None else {"value": write_expression(constant.value)}),
            }
            for constant in model.constants
        ]
    document |= _declarations(model.variables, model.functions)
    if model.restrict_initial is not None:
        document["restrict-initial"] = write_wrapped(model.restrict_initial)
    document["properties"] = [write_property(one) for one in model.properties]
    document["automata"] = [_write_automaton(automaton) for automaton in model.automata]
    document["system"] = _write_composition(model.system)
    return document


def _declarations(variables: Iterable[VariableDeclaration], functions: Iterable[Function]) -> dict[str, Json]:
    document = {}
    if variables:
        document["variables"] = [_write_variable(variable) for variable in variables]
    if functions:
        document["functions"] = [
            {
                "name": function.name,
                "type": write_type(function.type),
                "parameters": [{"name": name, "type": write_type(kind)} for name, kind in function.parameters],
                "body": write_expression(function.body),
            }
            for function in functions
        ]
    return document


def _write_variable(variable: VariableDeclaration) -> Json:
    document: dict[str, Json] = {"name": variable.name, "type": write_type(variable.type)}
    if variable.transient:
        document["transient"] = True
    if variable.initial is not None:
        document["initial-value"] = write_expression(variable.initial)
    return document


def _write_automaton(automaton: Automaton) -> Json:
    document: dict[str, Json] = {"name": automaton.name, **_declarations(automaton.variables, automaton.functions)}
    if automaton.restrict_initial is not None:
        document["restrict-initial"] = write_wrapped(automaton.restrict_initial)
    document["locations"] = [_write_location(location) for location in automaton.locations]
    document["initial-locations"] = list(automaton.initial_locations)
    document["edges"] = [_write_edge(edge) for edge in automaton.edges]
    return document


def _write_location(location: Location) -> Json:
    document: dict[str, Json] = {"name": location.name}
    if location.time_progress is not None:
        document["time-progress"] = write_wrapped(location.time_progress)
    if location.transient_values:
        document["transient-values"] = _write_assignments(location.transient_values)
    return document


def _write_edge(edge: Edge) -> Json:
    document: dict[str, Json] = {"location": edge.location}
    if edge.action is not None:
        document["action"] = edge.action
    if edge.rate is not None:
        document["rate"] = write_wrapped(edge.rate)
    if edge.guard is not None:
        document["guard"] = write_wrapped(edge.guard)
    if edge.assignments:
        document["assignments"] = _write_assignments(edge.assignments)
    document["destinations"] = [_write_destination(destination) for destination in edge.destinations]
    return document


def _write_destination(destination: Destination) -> Json:
    document: dict[str, Json] = {"location": destination.location}
    if destination.probability is not None:
        document["probability"] = write_wrapped(destination.probability)
    if destination.assignments:
        document["assignments"] = _write_assignments(destination.assignments)
    return document


def _write_assignments(assignments: Iterable[Assignment]) -> Json:
    return [
        {
            "ref": write_expression(assignment.target),
            "value": write_expression(assignment.value),
            **({} if assignment.index == 0 else {"index": assignment.index}),
        }
        for assignment in assignments
    ]


def _write_composition(composition: Composition) -> Json:
    document: dict[str, Json] = {
        "elements": [
            {
                "automaton": instance.automaton,
                **({"input-enable": list(instance.input_enable)} if instance.input_enable else {}),
            }
            for instance in composition.instances
        ]
    }
    if composition.synchronisations is not None:
        document["syncs"] = [
            {
                "synchronise": list(synchronisation.actions),
                **({} if synchronisation.result is None else {"result": synchronisation.result}),
            }
            for synchronisation in composition.synchronisations
        ]
    return document
