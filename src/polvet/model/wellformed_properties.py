"""Whether properties say something about their model: names are known and types fit.

A property may name a variable of an automaton: by its own name where that is unique, or as `automaton.variable`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from polvet.errors import InputError, Where, did_you_mean
from polvet.model.automata import Model
from polvet.model.expressions import Element, Expression, Name
from polvet.model.properties import (
    AutomatonLocation,
    Comparison,
    ExpectedReward,
    Filter,
    Globally,
    Interval,
    Next,
    Objective,
    OtherExpression,
    PathQuantifier,
    PolicyTask,
    Predicates,
    Probability,
    Property,
    PropertyExpression,
    RewardBound,
    StateCondition,
    StatePredicate,
    StatesValues,
    SteadyState,
    Until,
)
from polvet.model.typecheck import Names, accepts, at, plain, type_of, types_of
from polvet.model.types import BOOL, INT, REAL, Type


def check_properties(properties: Iterable[Property], model: Model) -> None:
    """Raise an InputError for the first thing in the properties that does not fit the model."""
    known = property_names(model)
    for one in properties:
        _check(one.expression, known, model, at(one.where, "expression"))


def property_names(model: Model) -> Names:
    """Return what names mean in a property: the model's, and the variables of its automata."""
    shared = types_of(model)
    count = Counter(variable.name for automaton in model.automata for variable in automaton.variables)
    local: dict[str, Type] = {}
    for automaton in model.automata:
        for variable in automaton.variables:
            kind = plain(variable.type)
            local[f"{automaton.name}.{variable.name}"] = kind
            if count[variable.name] == 1:
                local[variable.name] = kind
    return Names({**local, **shared.types}, shared.functions)


def _check(expression: PropertyExpression, known: Names, model: Model, where: Where) -> Type | None:
    """Return the type of the expression's values, None where it has none; raise if something does not fit."""
    match expression:
        case StatePredicate() | PathQuantifier():
            if isinstance(expression, PathQuantifier):
                _check(expression.path, known, model, at(where, "exp"))
            return BOOL
        case OtherExpression():
            return None
        case Comparison():
            return _check_comparison(expression, known, model, where)
        case Probability(_, path):
            _check(path, known, model, at(where, "exp"))
            return REAL
        case Until(left, right):
            _check_formula(left, known, model, at(where, "left"))
            _check_formula(right, known, model, at(where, "right"))
            _check_bounds(expression, known, where)
        case Globally(operand):
            _check_formula(operand, known, model, at(where, "exp"))
            _check_bounds(expression, known, where)
        case Next(operand):
            _check_formula(operand, known, model, at(where, "exp"))
        case ExpectedReward():
            _check_expected(expression, known, model, where)
            return REAL
        case SteadyState(_, reward):
            _check(reward, known, model, at(where, "exp"))
            return REAL
        case Filter(_, values, states):
            _check(values, known, model, at(where, "values"))
            _check_formula(states, known, model, at(where, "states"))
        case StateCondition() | StatesValues() | Objective() | Predicates() | PolicyTask():
            _check_task(expression, known, model, where)
        case _:
            return type_of(expression, known, where)
    return None


def _check_comparison(expression: Comparison, known: Names, model: Model, where: Where) -> Type | None:
    if expression.right is None:
        left = _check(expression.left, known, model, at(where, "exp"))
        return BOOL if expression.operator == "¬" else left
    sides = (
        _check(expression.left, known, model, at(where, "left")),
        _check(expression.right, known, model, at(where, "right")),
    )
    logical = expression.operator in ("∧", "∨", "⇒")
    numbers = expression.operator not in ("∧", "∨", "⇒", "=", "≠")
    for key, side in zip(("left", "right"), sides, strict=True):
        if side is not None and ((logical and side != BOOL) or (numbers and side not in (INT, REAL))):
            what = f"'{expression.operator}' does not take a value of type {side}."
            raise InputError(what, at(where, key), "Check the operator and its operands.")
    return BOOL if logical or expression.operator in ("=", "≠", "<", "≤", ">", "≥") else REAL


def _check_formula(formula: PropertyExpression, known: Names, model: Model, where: Where) -> None:
    actual = _check(formula, known, model, where)
    if actual is not None and actual != BOOL:
        raise InputError(f"a condition is expected, not a value of type {actual}.", where, "Compare it with something.")


def _check_number(expression: Expression | None, known: Names, where: Where) -> None:
    if expression is None:
        return
    actual = type_of(expression, known, where)
    # A bool is a reward of 0 or 1 in some files.
    if actual not in (INT, REAL, BOOL):
        raise InputError(f"a number is expected, not a value of type {actual}.", where, "Use one of its elements.")


def _check_interval(interval: Interval | None, known: Names, where: Where) -> None:
    if interval is not None:
        _check_number(interval.lower, known, at(where, "lower"))
        _check_number(interval.upper, known, at(where, "upper"))


def _check_bounds(path: Until | Globally, known: Names, where: Where) -> None:
    _check_interval(path.steps, known, at(where, "step-bounds"))
    _check_interval(path.time, known, at(where, "time-bounds"))
    _check_reward_bounds(path.rewards, known, at(where, "reward-bounds"))


def _check_reward_bounds(bounds: Iterable[RewardBound], known: Names, where: Where) -> None:
    for position, bound in enumerate(bounds):
        _check_number(bound.reward, known, at(where, position, "exp"))
        _check_interval(bound.bounds, known, at(where, position, "bounds"))


def _check_expected(expected: ExpectedReward, known: Names, model: Model, where: Where) -> None:
    _check_number(expected.reward, known, at(where, "exp"))
    if expected.until is not None:
        _check_formula(expected.until, known, model, at(where, "reach"))
    _check_number(expected.step_instant, known, at(where, "step-instant"))
    _check_number(expected.time_instant, known, at(where, "time-instant"))
    _check_reward_bounds(expected.reward_instants, known, at(where, "reward-instants"))


def _check_task(
    expression: StateCondition | StatesValues | Objective | Predicates | PolicyTask,
    known: Names,
    model: Model,
    where: Where,
) -> None:
    match expression:
        case StateCondition(condition, locations):
            if condition is not None:
                _check_formula(condition, known, model, at(where, "exp"))
            _check_locations(locations, model, at(where, "locations"))
        case StatesValues(states):
            for number, state in enumerate(states):
                place = at(where, "values", number)
                for position, (target, value) in enumerate(state.values):
                    _check_value(target, value, known, at(place, "variables", position))
                _check_locations(state.locations, model, at(place, "locations"))
        case Objective(goal):
            if goal is not None:
                _check_task(goal, known, model, at(where, "goal"))
            _check_number(expression.goal_potential, known, at(where, "goal-potential"))
            _check_number(expression.goal_reward, known, at(where, "goal-reward"))
            _check_number(expression.step_reward, known, at(where, "step-reward"))
        case Predicates(predicates):
            for position, predicate in enumerate(predicates):
                _check_formula(predicate, known, model, at(where, position))
        case PolicyTask(start, reach, objective, predicates_or_none):
            parts = {"start": start, "reach": reach, "objective": objective, "predicates": predicates_or_none}
            for key, part in parts.items():
                if part is not None:
                    _check_task(part, known, model, at(where, key))


def _check_value(target: Name | Element, value: Expression, known: Names, where: Where) -> None:
    expected, actual = type_of(target, known, at(where, "var")), type_of(value, known, at(where, "value"))
    if not accepts(expected, actual):
        what = f"a variable of type {expected} cannot take a value of type {actual}."
        raise InputError(what, at(where, "value"), "Write a value of that type.")


def _check_locations(locations: Iterable[AutomatonLocation], model: Model, where: Where) -> None:
    automata = {automaton.name: automaton for automaton in model.automata}
    for position, one in enumerate(locations):
        place = at(where, position)
        if one.automaton not in automata:
            hint = did_you_mean(one.automaton, automata) or "Name one of the model's automata."
            raise InputError(f"no automaton '{one.automaton[:60]}'.", at(place, "automaton"), hint)
        known = [location.name for location in automata[one.automaton].locations]
        if one.location not in known:
            hint = did_you_mean(one.location, known) or "Name one of the automaton's locations."
            raise InputError(f"no location '{one.location[:60]}'.", at(place, "location"), hint)
        instances = model.system.instances
        if one.index is not None and (one.index >= len(instances) or instances[one.index].automaton != one.automaton):
            what = f"element {one.index} of the system is not the automaton '{one.automaton}'."
            raise InputError(what, at(place, "index"), "Count the elements from 0, or leave 'index' out.")
