"""Write properties as JANI documents, PlaJA's additions included."""

from __future__ import annotations

from typing import cast

from polvet.errors import Where
from polvet.jani.documents import Json, parse_document
from polvet.jani.write_expressions import write_expression
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
    comment = {} if one.comment is None else {"comment": one.comment}
    return {"name": one.name, **comment, "expression": write_property_expression(one.expression)}


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
    document = {
        **_quantity("E", expected.optimum),
        "exp": write_expression(expected.reward),
        **_accumulate(expected.accumulate),
    }
    if expected.until is not None:
        document["reach"] = write_property_expression(expected.until)
    if expected.step_instant is not None:
        document["step-instant"] = write_expression(expected.step_instant)
    if expected.time_instant is not None:
        document["time-instant"] = write_expression(expected.time_instant)
    if expected.reward_instants:
        document["reward-instants"] = [
            {
                "exp": write_expression(bound.reward),
                **_accumulate(bound.accumulate),
                **({} if bound.bounds.upper is None else {"instant": write_expression(bound.bounds.upper)}),
            }
            for bound in expected.reward_instants
        ]
    return document


def _accumulate(words: tuple[str, ...]) -> dict[str, Json]:
    return {"accumulate": list(words)} if words else {}


def _bounds(path: Until | Globally) -> dict[str, Json]:
    document: dict[str, Json] = {}
    if path.steps is not None:
        document["step-bounds"] = _interval(path.steps)
    if path.time is not None:
        document["time-bounds"] = _interval(path.time)
    if path.rewards:
        document["reward-bounds"] = [_reward_bound(bound) for bound in path.rewards]
    return document


def _interval(interval: Interval) -> Json:
    document: dict[str, Json] = {}
    if interval.lower is not None:
        document["lower"] = write_expression(interval.lower)
    if interval.lower_exclusive:
        document["lower-exclusive"] = True
    if interval.upper is not None:
        document["upper"] = write_expression(interval.upper)
    if interval.upper_exclusive:
        document["upper-exclusive"] = True
    return document


def _reward_bound(bound: RewardBound) -> Json:
    return {
        "exp": write_expression(bound.reward),
        **_accumulate(bound.accumulate),
        "bounds": _interval(bound.bounds),
    }


def _write_task(expression: StateCondition | StatesValues | Objective | Predicates | PolicyTask) -> Json:
    match expression:
        case StateCondition(condition, locations):
            document: dict[str, Json] = {"op": "state-condition"}
            if condition is not None:
                document["exp"] = write_expression(condition)
            return document | _locations(locations)
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
            document = {"op": "PA"}
            document |= {key: _write_task(part) for key, part in parts.items() if part is not None}
            return document if expression.policy_file is None else document | {"file": expression.policy_file}


def _write_objective(objective: Objective) -> Json:
    document: dict[str, Json] = {"op": "objective"}
    if objective.goal is not None:
        document["goal"] = _write_task(objective.goal)
    rewards = {
        "goal-potential": objective.goal_potential,
        "goal-reward": objective.goal_reward,
        "step-reward": objective.step_reward,
    }
    document |= {key: write_expression(reward) for key, reward in rewards.items() if reward is not None}
    return document | _accumulate(objective.accumulate)


def _locations(locations: tuple[AutomatonLocation, ...]) -> dict[str, Json]:
    if not locations:
        return {}
    return {
        "locations": [
            {
                "automaton": one.automaton,
                **({} if one.index is None else {"index": one.index}),
                "location": one.location,
            }
            for one in locations
        ]
    }
