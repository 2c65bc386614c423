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
from polvet.jani.write_expressions import without_absent, write_expression, write_optional, write_type, write_wrapped
from polvet.jani.write_properties import write_property
from polvet.model.automata import (
    Assignment,
    Automaton,
    Composition,
    Constant,
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
    return without_absent(
        {
            "jani-version": model.version,
            "name": model.name,
            "type": model.type.value,
            "metadata": dict(model.metadata) or None,
            "features": list(declared_features(model)) or None,
            "actions": [{"name": action} for action in model.actions] or None,
            "constants": [_write_constant(constant) for constant in model.constants] or None,
            **_declarations(model),
            "restrict-initial": write_wrapped(model.restrict_initial),
            "properties": [write_property(one) for one in model.properties],
            "automata": [_write_automaton(automaton) for automaton in model.automata],
            "system": _write_composition(model.system),
        }
    )


def _write_constant(constant: Constant) -> Json:
    value = write_optional(constant.value)
    return without_absent({"name": constant.name, "type": write_type(constant.type), "value": value})


def _declarations(owner: Model | Automaton) -> dict[str, Json]:
    return {
        "variables": [_write_variable(variable) for variable in owner.variables] or None,
        "functions": [_write_function(function) for function in owner.functions] or None,
    }


def _write_variable(variable: VariableDeclaration) -> Json:
    return without_absent(
        {
            "name": variable.name,
            "type": write_type(variable.type),
            "transient": variable.transient or None,
            "initial-value": write_optional(variable.initial),
        }
    )


def _write_function(function: Function) -> Json:
    return {
        "name": function.name,
        "type": write_type(function.type),
        "parameters": [{"name": name, "type": write_type(kind)} for name, kind in function.parameters],
        "body": write_expression(function.body),
    }


def _write_automaton(automaton: Automaton) -> Json:
    return without_absent(
        {
            "name": automaton.name,
            **_declarations(automaton),
            "restrict-initial": write_wrapped(automaton.restrict_initial),
            "locations": [_write_location(location) for location in automaton.locations],
            "initial-locations": list(automaton.initial_locations),
            "edges": [_write_edge(edge) for edge in automaton.edges],
        }
    )


def _write_location(location: Location) -> Json:
    values = _write_assignments(location.transient_values)
    progress = write_wrapped(location.time_progress)
    return without_absent({"name": location.name, "time-progress": progress, "transient-values": values})


def _write_edge(edge: Edge) -> Json:
    return without_absent(
        {
            "location": edge.location,
            "action": edge.action,
            "rate": write_wrapped(edge.rate),
            "guard": write_wrapped(edge.guard),
            "assignments": _write_assignments(edge.assignments),
            "destinations": [_write_destination(destination) for destination in edge.destinations],
        }
    )


def _write_destination(destination: Destination) -> Json:
    probability = write_wrapped(destination.probability)
    assignments = _write_assignments(destination.assignments)
    return without_absent({"location": destination.location, "probability": probability, "assignments": assignments})


def _write_assignments(assignments: Iterable[Assignment]) -> Json:
    """Return the list of the assignments; None where there are none."""
    return [
        without_absent(
            {"ref": write_expression(one.target), "value": write_expression(one.value), "index": one.index or None}
        )
        for one in assignments
    ] or None


def _write_composition(composition: Composition) -> Json:
    elements = [
        without_absent({"automaton": instance.automaton, "input-enable": list(instance.input_enable) or None})
        for instance in composition.instances
    ]
    if composition.synchronisations is None:
        return {"elements": elements}
    synchronisations = [
        without_absent({"synchronise": list(one.actions), "result": one.result}) for one in composition.synchronisations
    ]
    return {"elements": elements, "syncs": synchronisations}
