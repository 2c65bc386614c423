"""Whether a model says something: names are known and unique, types fit, nothing depends on itself.

`check_model` raises an InputError for the first thing that is wrong, with its place and what to do. What depends on the
values of open constants (bounds, lengths of arrays, probabilities) is checked where they are known, in
`model.instantiate`, and what depends on the state is checked while the model runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from polvet.errors import InputError, Where, did_you_mean
from polvet.model.automata import (
    Assignment,
    Automaton,
    Destination,
    Edge,
    Function,
    Model,
    VariableDeclaration,
)
from polvet.model.dependencies import calls, circle, find_cycle, varying_functions
from polvet.model.expressions import (
    ArrayBuild,
    ArrayLiteral,
    Element,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    names,
)
from polvet.model.table_edges import TableEdges
from polvet.model.typecheck import Names, accepts, at, constants_of, plain, signature, type_of, types_of
from polvet.model.types import BOOL, INT, REAL, ArrayType, BoolType, Type
from polvet.model.wellformed_properties import check_properties

TOLERANCE = Fraction(1, 10**6)
"""How far literal probabilities may sum off 1: published files round 1/15 to six digits."""


def check_model(model: Model) -> None:
    """Raise an InputError for the first thing in the model that is wrong."""
    _check_unique(model)
    _check_dependencies(model)
    constant_names = constants_of(model)
    varying = varying_functions(model.functions, {variable.name for variable in model.variables})
    for constant in model.constants:
        _check_type(constant.type, constant_names, varying, at(constant.where, "type"))
        if constant.value is not None:
            place = at(constant.where, "value")
            _check_constant(constant.value, constant_names, varying, place)
            _check_initial(constant.type, constant.value, constant_names, place, f"constant '{constant.name}'")
    _check_variables(model.variables, constant_names, varying)
    model_names = types_of(model)
    for function in model.functions:
        _check_function(function, model_names, constant_names, varying)
    if model.restrict_initial is not None:
        _check_bool(model.restrict_initial, model_names, at(model.where, "restrict-initial", "exp"))
    actions = frozenset(model.actions)
    variables = {variable.name: variable for variable in model.variables}
    shared = _Shared(actions, constant_names, model_names, variables, model.functions, varying)
    for automaton in model.automata:
        _check_automaton(automaton, shared)
    _check_composition(model, actions)
    check_properties(model.properties, model)


# -- names


def _check_unique(model: Model) -> None:
    declared: dict[str, str] = {}
    for constant in model.constants:
        _declare(declared, constant.name, "constant", constant.where)
    for variable in model.variables:
        _declare(declared, variable.name, "variable", variable.where)
    functions: dict[str, str] = {}
    for function in model.functions:
        _declare(functions, function.name, "function", function.where)
    automata: dict[str, str] = {}
    for automaton in model.automata:
        _declare(automata, automaton.name, "automaton", automaton.where)
        own, own_functions, locations = dict[str, str](), dict[str, str](), dict[str, str]()
        for variable in automaton.variables:
            _declare(own, variable.name, "variable", variable.where, declared)
        for function in automaton.functions:
            _declare(own_functions, function.name, "function", function.where, functions)
        for location in automaton.locations:
            _declare(locations, location.name, "location", location.where)
    actions: dict[str, str] = {}
    for position, action in enumerate(model.actions):
        _declare(actions, action, "action", at(model.where, "actions", position))
    properties: dict[str, str] = {}
    for one in model.properties:
        _declare(properties, one.name, "property", one.where)


def _declare(
    declared: dict[str, str], name: str, kind: str, where: Where, outer: Mapping[str, str] | None = None
) -> None:
    if other := declared.get(name) or (outer or {}).get(name):
        what = f"the name '{name}' of this {kind} is taken by another {other}."
        raise InputError(what, at(where, "name"), "Rename one of them.")
    declared[name] = kind


def _unknown(what: str, name: str, known: Iterable[str], where: Where) -> InputError:
    hint = did_you_mean(name, known) or f"Declare the {what}, or check its spelling."
    return InputError(f"no {what} '{name[:60]}'.", where, hint)


# -- dependencies


def _check_dependencies(model: Model) -> None:
    constants = {constant.name: constant for constant in model.constants}

    def used_by_constant(name: str) -> Iterable[str]:
        parts = [constants[name].value, *_bounds(constants[name].type)]
        return [used for part in parts if part is not None for used in sorted(names(part)) if used in constants]

    if cycle := find_cycle(constants, used_by_constant):
        raise InputError(
            f"constants depend on each other: {circle(cycle)}.",
            at(constants[cycle[0]].where, "value"),
            "Give one of them a value of its own.",
        )
    groups: list[tuple[tuple[Function, ...], tuple[Function, ...]]] = [((), model.functions)]
    groups += [(model.functions, automaton.functions) for automaton in model.automata if automaton.functions]
    for outer, functions in groups:
        known = {function.name: function for function in (*outer, *functions)}
        called = {name: [one for one in calls(known[name].body) if one in known] for name in known}
        if cycle := find_cycle({function.name: function for function in functions}, called.__getitem__):
            raise InputError(
                f"functions call each other in a circle: {circle(cycle)}.",
                at(known[cycle[0]].where, "body"),
                "JANI's functions do not recurse: write the steps out.",
            )


# -- types and values


def _bounds(kind: Type) -> tuple[Expression | None, Expression | None]:
    while isinstance(kind, ArrayType):
        kind = kind.base
    return (None, None) if isinstance(kind, BoolType) else (kind.lower, kind.upper)


def _check_type(kind: Type, constants: Names, varying: frozenset[str], where: Where) -> None:
    base = kind
    while isinstance(base, ArrayType):
        base, where = base.base, at(where, "base")
    if isinstance(base, BoolType) or (base.lower is None and base.upper is None):
        return
    for key, bound in (("lower-bound", base.lower), ("upper-bound", base.upper)):
        if bound is not None:
            place = at(where, key)
            _check_constant(bound, constants, varying, place)
            actual = type_of(bound, constants, place)
            if not accepts(plain(base), actual) and not _may_be_whole(bound, plain(base), actual):
                raise InputError(f"the bound of {plain(base)} is {actual}.", place, "Use floor or ceil.")
    lower, upper = literal_value(base.lower), literal_value(base.upper)
    if lower is not None and upper is not None and lower > upper:
        raise InputError(f"the bounds {lower} to {upper} leave no value.", where, "Exchange the bounds.")


def literal_value(expression: Expression | None) -> Fraction | None:
    """Return the value of a literal number; None for every other expression."""
    return Fraction(expression.value) if isinstance(expression, IntLiteral | RealLiteral) else None


def _check_constant(expression: Expression, constants: Names, varying: frozenset[str], where: Where) -> None:
    """Raise if the expression needs a state to have a value."""
    for name in calls(expression):
        if name in varying:
            raise InputError(f"the function '{name}' reads variables.", where, "Use constants alone here.")
    type_of(expression, constants, where)


def _is_cut_off(target: Type, value: Expression, known: Names, where: Where) -> bool:
    """Whether a computed real is assigned to an integer: against JANI's rules, but published models do; it is truncated."""
    if isinstance(value, RealLiteral) or plain(target) != INT:
        return False
    return type_of(value, known, where) == REAL


def _check_assignable(target: Type, value: Expression, known: Names, where: Where, what: str) -> None:
    actual, expected = type_of(value, known, where), plain(target)
    if not accepts(expected, actual):
        hint = "Convert it by floor or ceil." if expected == INT and actual == REAL else "Check both types."
        raise InputError(f"the {what} of type {expected} cannot take a value of type {actual}.", where, hint)


def _check_initial(kind: Type, value: Expression, constants: Names, where: Where, what: str) -> None:
    if not _may_be_whole(value, plain(kind), type_of(value, constants, where)):
        _check_assignable(kind, value, constants, where, what)
    _check_literal_bounds(kind, value, where, what)


def _may_be_whole(value: Expression, expected: Type, actual: Type) -> bool:
    """Return whether a constant expression of real type, such as `N / 2`, may still be an integer.

    Its exact value is known, and checked, when the constants are.
    """
    if expected != INT or actual != REAL:
        return False
    number = literal_value(value)
    return number is None or number.denominator == 1


def _check_literal_bounds(kind: Type, value: Expression, where: Where, what: str) -> None:
    if isinstance(kind, ArrayType):
        parts = value.elements if isinstance(value, ArrayLiteral) else ()
        for part in (*parts, *((value.element,) if isinstance(value, ArrayBuild) else ())):
            _check_literal_bounds(kind.base, part, where, what)
        return
    number, bounds = literal_value(value), [literal_value(bound) for bound in _bounds(kind)]
    if number is None:
        return
    if (bounds[0] is not None and number < bounds[0]) or (bounds[1] is not None and number > bounds[1]):
        low, high = ("..." if bound is None else str(bound) for bound in bounds)
        raise InputError(f"the value {number} of the {what} is not between {low} and {high}.", where, "Change either.")


def _check_bool(expression: Expression, known: Names, where: Where) -> None:
    actual = type_of(expression, known, where)
    if actual != BOOL:
        raise InputError(f"a condition is expected, not a value of type {actual}.", where, "Compare it with something.")


def _check_variables(variables: Iterable[VariableDeclaration], constants: Names, varying: frozenset[str]) -> None:
    for variable in variables:
        what = f"variable '{variable.name}'"
        _check_type(variable.type, constants, varying, at(variable.where, "type"))
        if variable.initial is not None:
            place = at(variable.where, "initial-value")
            _check_constant(variable.initial, constants, varying, place)
            _check_initial(variable.type, variable.initial, constants, place, what)
        elif variable.transient:
            hint = "Add 'initial-value': it has that value between assignments."
            raise InputError(f"the transient {what} has no initial value.", variable.where, hint)


def _check_function(function: Function, known: Names, constants: Names, varying: frozenset[str]) -> None:
    parameters: dict[str, str] = {}
    for position, (name, kind) in enumerate(function.parameters):
        place = at(function.where, "parameters", position)
        _declare(parameters, name, "parameter", place)
        _check_type(kind, constants, varying, at(place, "type"))
    _check_type(function.type, constants, varying, at(function.where, "type"))
    inner = known.extended({name: plain(kind) for name, kind in function.parameters})
    _check_assignable(function.type, function.body, inner, at(function.where, "body"), f"function '{function.name}'")


# -- automata


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all automata see."""

    actions: frozenset[str]
    constants: Names
    names: Names
    variables: Mapping[str, VariableDeclaration]
    functions: tuple[Function, ...]
    varying: frozenset[str]


def _check_automaton(automaton: Automaton, shared: _Shared) -> None:
    constants, known, variables, varying = shared.constants, shared.names, shared.variables, shared.varying
    if automaton.variables:
        variables = {**variables, **{variable.name: variable for variable in automaton.variables}}
        known = known.extended({variable.name: plain(variable.type) for variable in automaton.variables})
    if automaton.functions:
        own = {function.name: signature(function) for function in automaton.functions}
        constants, known = constants.extended({}, own), known.extended({}, own)
        varying = varying_functions((*shared.functions, *automaton.functions), variables.keys())
    _check_variables(automaton.variables, constants, varying)
    for function in automaton.functions:
        _check_function(function, known, constants, varying)
    if automaton.restrict_initial is not None:
        _check_bool(automaton.restrict_initial, known, at(automaton.where, "restrict-initial", "exp"))
    locations = frozenset(location.name for location in automaton.locations)
    for location in automaton.locations:
        place = at(location.where, "transient-values")
        _check_assignments(location.transient_values, variables, known, place)
        for position, assignment in enumerate(location.transient_values):
            if not variables[name := _root(assignment.target)].transient:
                what = f"the variable '{name}' is not transient and has no value in a location."
                raise InputError(what, at(place, position, "ref"), "Declare it transient, or assign it on edges.")
    if not automaton.initial_locations:
        place = at(automaton.where, "initial-locations")
        raise InputError(f"the automaton '{automaton.name}' starts nowhere.", place, "Name a location.")
    for position, name in enumerate(automaton.initial_locations):
        if name not in locations:
            raise _unknown("location", name, locations, at(automaton.where, "initial-locations", position))
    if isinstance(automaton.edges, TableEdges):
        return  # checked when it was made; its edges write constants, and read its own variables
    for edge in automaton.edges:
        _check_edge(edge, locations, shared.actions, variables, known)


def _check_edge(
    edge: Edge,
    locations: frozenset[str],
    actions: frozenset[str],
    variables: Mapping[str, VariableDeclaration],
    known: Names,
) -> None:
    if edge.location not in locations:
        raise _unknown("location", edge.location, locations, at(edge.where, "location"))
    if edge.action is not None and edge.action not in actions:
        raise _unknown("action", edge.action, actions, at(edge.where, "action"))
    if edge.guard is not None:
        _check_bool(edge.guard, known, at(edge.where, "guard", "exp"))
    if not edge.destinations:
        raise InputError("an edge leads nowhere.", at(edge.where, "destinations"), "Add a destination.")
    _check_assignments(edge.assignments, variables, known, at(edge.where, "assignments"))
    for destination in edge.destinations:
        if destination.location not in locations:
            raise _unknown("location", destination.location, locations, at(destination.where, "location"))
        if destination.assignments:
            _check_assignments(destination.assignments, variables, known, at(destination.where, "assignments"))
    _check_probabilities(edge, known)


def _check_probabilities(edge: Edge, known: Names) -> None:
    if len(edge.destinations) == 1 and edge.destinations[0].probability is None:
        return
    total: Fraction | None = Fraction(0)
    for destination in edge.destinations:
        value = _literal_probability(destination, known)
        total = None if total is None or value is None else total + value
    if total is not None and abs(total - 1) > TOLERANCE:
        raise InputError(
            f"the probabilities of an edge sum to {float(total):.12g}.", at(edge.where, "destinations"), "Make it 1."
        )


def _literal_probability(destination: Destination, known: Names) -> Fraction | None:
    if destination.probability is None:
        return Fraction(1)
    place = at(destination.where, "probability", "exp")
    actual = type_of(destination.probability, known, place)
    if not accepts(REAL, actual):
        raise InputError(f"a probability is {actual}, not a number.", place, "Write a number from 0 to 1.")
    value = literal_value(destination.probability)
    if value is not None and not 0 <= value <= 1:
        raise InputError(f"a probability is {value}.", place, "Write a number from 0 to 1.")
    return value


def _check_assignments(
    assignments: tuple[Assignment, ...], variables: Mapping[str, VariableDeclaration], known: Names, where: Where
) -> None:
    whole: set[tuple[int, str]] = set()
    in_part: set[tuple[int, str]] = set()
    elements: set[tuple[int, Expression]] = set()
    for position, assignment in enumerate(assignments):
        target, name = assignment.target, _root(assignment.target)
        place = at(where, position)
        if name not in variables:
            if name in known.types:
                raise InputError(f"'{name}' is a constant and keeps its value.", at(place, "ref"), "Use a variable.")
            raise _unknown("variable", name, variables, at(place, "ref"))
        if isinstance(target, Element):
            expected = type_of(target, known, at(place, "ref"))
            double = (assignment.index, target) in elements
            elements.add((assignment.index, target))
            in_part.add((assignment.index, name))
        else:
            expected = variables[name].type
            double = (assignment.index, name) in in_part
        double = double or (assignment.index, name) in whole
        if isinstance(target, Name):
            whole.add((assignment.index, name))
        if double:
            what = f"'{name}' is assigned twice at index {assignment.index}."
            raise InputError(what, at(place, "ref"), "Give one of them another 'index', or remove it.")
        if not _is_cut_off(expected, assignment.value, known, at(place, "value")):
            _check_assignable(expected, assignment.value, known, at(place, "value"), f"variable '{name}'")


def _root(target: Expression) -> str:
    while isinstance(target, Element):
        target = target.array
    return target.name if isinstance(target, Name) else ""


# -- composition


def _check_composition(model: Model, actions: frozenset[str]) -> None:
    place = model.system.where
    automata = {automaton.name for automaton in model.automata}
    if not model.system.instances:
        raise InputError("nothing takes part in the system.", at(place, "elements"), "Name at least one automaton.")
    for position, instance in enumerate(model.system.instances):
        if instance.automaton not in automata:
            raise _unknown("automaton", instance.automaton, automata, at(place, "elements", position, "automaton"))
        for number, action in enumerate(instance.input_enable):
            if action not in actions:
                raise _unknown("action", action, actions, at(place, "elements", position, "input-enable", number))
    count = len(model.system.instances)
    for synchronisation in model.system.synchronisations or ():
        where = at(synchronisation.where, "synchronise")
        if len(synchronisation.actions) != count:
            what = f"the vector has {len(synchronisation.actions)} entries for {count} elements of the system."
            raise InputError(what, where, "Write one action or null per element.")
        for position, name in enumerate(synchronisation.actions):
            if name is not None and name not in actions:
                raise _unknown("action", name, actions, at(where, position))
        if not any(name is not None for name in synchronisation.actions):
            raise InputError("nobody takes part in the synchronisation.", where, "Name an action, or remove it.")
        if synchronisation.result is not None and synchronisation.result not in actions:
            raise _unknown("action", synchronisation.result, actions, at(synchronisation.where, "result"))
