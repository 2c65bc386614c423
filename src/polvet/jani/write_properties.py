"""Write properties as JANI documents, PlaJA's additions included."""

from __future__ import annotations

from typing import cast

from polvet.errors import Where
from polvet.jani.documents import Json, parse_document
from polvet.jani.write_expressions import without_absent, write_expression, write_optional
from polvet.model.expressions import TRUE, Expression
from polvet.model.properties import (
    AutomatonLocation,
    Comparison,
    ExpectedReward,
    Filter,
    Globally,
    Interval,
    Next,
    Objective,
    Optimum,
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


def write_property(one: Property) -> Json:
    """Return the document of a property."""
    expression = write_property_expression(one.expression)
    return without_absent({"name": one.name, "comment": one.comment, "expression": expression})


def write_property_expression(expression: PropertyExpression) -> Json:
    """Return the document of a property expression.

    >>> write_property_expression(Probability(Optimum.MAX, Until(TRUE, StatePredicate("deadlock"))))
    {'op': 'Pmax', 'exp': {'op': 'F', 'exp': {'op': 'deadlock'}}}
    """
    write = write_property_expression
    match expression:
        case StatePredicate(name):
            return {"op": name}
        case Comparison(operator, left, None):
            return {"op": operator, "exp": write(left)}
        case Comparison(operator, left, right) if right is not None:
            return {"op": operator, "left": write(left), "right": write(right)}
        case Probability(optimum, path):
            return {**_quantity("P", optimum), "exp": write(path)}
        case PathQuantifier(quantifier, path):
            return {"op": quantifier, "exp": write(path)}
        case Until(left, right, _, _, _, kind):
            operands = {"op": "F", "exp": write(right)}
            if left != TRUE or kind != "U":
                operands = {"op": kind, "left": write(left), "right": write(right)}
            return {**operands, **_bounds(expression)}
        case Globally(operand):
            return {"op": "G", "exp": write(operand), **_bounds(expression)}
        case Next(operand):
            return {"op": "X", "exp": write(operand)}
        case ExpectedReward():
            return _write_expected(expression)
        case SteadyState(optimum, reward, accumulate):
            return {**_quantity("S", optimum), "exp": write(reward), **_accumulate(accumulate)}
        case Filter(function, values, states):
            return {"op": "filter", "fun": function, "values": write(values), "states": write(states)}
        case OtherExpression(_, text):
            return parse_document(text, Where("property"))
        case StateCondition() | StatesValues() | Objective() | Predicates() | PolicyTask():
            return _write_task(expression)
        case _:
            return write_expression(cast(Expression, expression))


def _quantity(letter: str, optimum: Optimum) -> dict[str, Json]:
    # JANI has no quantity without an optimum; where there is nothing to choose, either is right.
    if optimum is Optimum.ONLY:
        return {"op": f"{letter}max", "x-optimum": "only"}
    return {"op": f"{letter}{optimum.value}"}


def _write_expected(expected: ExpectedReward) -> Json:
    instants = [
        without_absent(
            {
                "exp": write_expression(bound.reward),
                **_accumulate(bound.accumulate),
                "instant": write_optional(bound.bounds.upper),
            }
        )
        for bound in expected.reward_instants
    ]
    return without_absent(
        {
            **_quantity("E", expected.optimum),
            "exp": write_expression(expected.reward),
            **_accumulate(expected.accumulate),
            "reach": None if expected.until is None else write_property_expression(expected.until),
            "step-instant": write_optional(expected.step_instant),
            "time-instant": write_optional(expected.time_instant),
            "reward-instants": instants or None,
        }
    )


def _accumulate(words: tuple[str, ...]) -> dict[str, Json]:
    return {"accumulate": list(words)} if words else {}


def _bounds(path: Until | Globally) -> dict[str, Json]:
    return without_absent(
        {
            "step-bounds": None if path.steps is None else _interval(path.steps),
            "time-bounds": None if path.time is None else _interval(path.time),
            "reward-bounds": [_reward_bound(bound) for bound in path.rewards] or None,
        }
    )


def _interval(interval: Interval) -> Json:
    return without_absent(
        {
            "lower": write_optional(interval.lower),
            "lower-exclusive": interval.lower_exclusive or None,
            "upper": write_optional(interval.upper),
            "upper-exclusive": interval.upper_exclusive or None,
        }
    )


def _reward_bound(bound: RewardBound) -> Json:
    return {"exp": write_expression(bound.reward), **_accumulate(bound.accumulate), "bounds": _interval(bound.bounds)}


def _write_task(expression: StateCondition | StatesValues | Objective | Predicates | PolicyTask) -> Json:
    match expression:
        case StateCondition(condition, locations):
            return without_absent({"op": "state-condition", "exp": write_optional(condition)}) | _locations(locations)
        case StatesValues(states):
            values = [
                {
                    "variables": [
                        {"var": write_expression(target), "value": write_expression(value)}
                        for target, value in state.values
                    ],
                    **_locations(state.locations),
                }
                for state in states
            ]
            return {"op": "states-values", "values": values}
        case Objective():
            return _write_objective(expression)
        case Predicates(predicates):
            return [write_expression(predicate) for predicate in predicates]
        case PolicyTask():
            parts = {
                "start": expression.start,
                "reach": expression.reach,
                "objective": expression.objective,
                "predicates": expression.predicates,
            }
            written = {key: _write_task(part) for key, part in parts.items() if part is not None}
            return without_absent({"op": "PA", **written, "file": expression.policy_file})


def _write_objective(objective: Objective) -> Json:
    return without_absent(
        {
            "op": "objective",
            "goal": None if objective.goal is None else _write_task(objective.goal),
            "goal-potential": write_optional(objective.goal_potential),
            "goal-reward": write_optional(objective.goal_reward),
            "step-reward": write_optional(objective.step_reward),
        }
    ) | _accumulate(objective.accumulate)


def _locations(locations: tuple[AutomatonLocation, ...]) -> dict[str, Json]:
    if not locations:
        return {}
    return {
        "locations": [
            without_absent({"automaton": one.automaton, "index": one.index, "location": one.location})
            for one in locations
        ]
    }
