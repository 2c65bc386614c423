"""Read JANI's properties: quantities over paths, filters over states; other operators are kept as they are written.

What stands inside a path formula must be understood; what stands at the top or beside a comparison may be unknown
(`OtherExpression`) because a property that cannot be evaluated does not spoil the model it stands in.
"""

from __future__ import annotations

from typing import cast

from polvet.jani.documents import (
    Fault,
    Json,
    kind_of,
    know_keys,
    mapping,
    objects,
    required,
    sequence,
    shown,
    text,
    truth,
    warn,
)
from polvet.jani.read_expressions import (
    BINARY,
    OPERATORS,
    UNARY,
    operand,
    read_expression,
    read_leaf,
    read_optional,
    unknown_operator,
)
from polvet.jani.text import json_text
from polvet.model import expressions
from polvet.model.expressions import TRUE, Binary, Unary
from polvet.model.properties import (
    Comparison,
    ExpectedReward,
    Filter,
    Globally,
    Interval,
    Next,
    Optimum,
    OtherExpression,
    PathFormula,
    PathQuantifier,
    Probability,
    PropertyExpression,
    RewardBound,
    StateFormula,
    StatePredicate,
    SteadyState,
    Until,
)

STATE_PREDICATES = ("initial", "deadlock", "timelock")
ACCUMULATE = ("steps", "time", "exit")
FILTER_FUNCTIONS = ("min", "max", "sum", "avg", "count", "∀", "∃", "argmin", "argmax", "values")
PATH_OPERATORS = ("U", "W", "R", "F", "G", "X")
QUANTITIES = ("Pmin", "Pmax", "Emin", "Emax", "Smin", "Smax", "∀", "∃")
PROPERTY_OPERATORS = ("filter", *QUANTITIES, *PATH_OPERATORS, *STATE_PREDICATES)
_EXPRESSIONS = expressions.Expression.__args__


def read_property_expression(document: Json, *, inside_path: bool = False) -> PropertyExpression:
    """Return the property expression of a JSON value that is not null.

    >>> read_property_expression({"op": "Pmax", "exp": {"op": "F", "exp": "crashed"}}).optimum
    <Optimum.MAX: 'max'>
    """
    operator = document.get("op") if type(document) is dict else None
    if type(operator) is not str:
        return read_expression(document) if type(document) is dict else read_leaf(document)
    if operator in BINARY and "exp" not in document:
        left = read_property_expression(operand(document, "left"), inside_path=inside_path)
        right = read_property_expression(operand(document, "right"), inside_path=inside_path)
        if isinstance(left, _EXPRESSIONS) and isinstance(right, _EXPRESSIONS):
            return Binary(operator, left, right)
        return Comparison(operator, left, right)
    if operator in UNARY:
        inner = read_property_expression(operand(document, "exp"), inside_path=inside_path)
        return Unary(operator, inner) if isinstance(inner, _EXPRESSIONS) else Comparison(operator, inner)
    if operator in STATE_PREDICATES:
        know_keys(document, frozenset(("op",)), f"'{operator}'")
        return StatePredicate(operator)
    if operator in ("Pmin", "Pmax", "∀", "∃"):
        know_keys(document, frozenset(("op", "exp")), f"'{operator}'")
        path = _read_path(document)
        return Probability(_optimum(document), path) if operator[0] == "P" else PathQuantifier(operator, path)
    if operator in OPERATORS:  # also the unary minus
        return read_expression(document)
    if inside_path:
        raise unknown_operator(document, operator, (*OPERATORS, *STATE_PREDICATES, "Pmin", "Pmax", "∀", "∃"))
    return _read_outer(document, operator)


def _read_outer(document: dict[str, Json], operator: str) -> PropertyExpression:
    match operator:
        case "filter":
            return _read_filter(document)
        case "Emin" | "Emax":
            return _read_expected(document)
        case "Smin" | "Smax":
            know_keys(document, frozenset(("op", "exp", "accumulate")), f"'{operator}'")
            return SteadyState(_optimum(document), _state_formula(document, "exp"), accumulated(document))
        case _ if operator in PATH_OPERATORS:
            return _read_path_formula(document, operator)
        case _:
            warn(f"the property operator {shown(operator)} is not JANI's; the property is kept unread.")
            return OtherExpression(operator, json_text(document))


def _read_filter(document: dict[str, Json]) -> Filter:
    know_keys(document, frozenset(("op", "fun", "values", "states")), "a filter")
    function = text(document, "fun", "the function of the filter")
    if function not in FILTER_FUNCTIONS:
        raise Fault(document, "fun", f"no filter {shown(function)}.", f"Use one of {' '.join(FILTER_FUNCTIONS)}")
    values = read_property_expression(operand(document, "values"))
    return Filter(function, values, _state_formula(document, "states"))


def _read_expected(document: dict[str, Json]) -> ExpectedReward:
    keys = ("op", "exp", "accumulate", "reach", "step-instant", "time-instant", "reward-instants")
    know_keys(document, frozenset(keys), "an expected reward")
    return ExpectedReward(
        _optimum(document),
        read_expression(operand(document, "exp")),
        accumulated(document),
        None if document.get("reach") is None else _state_formula(document, "reach"),
        read_optional(document, "step-instant"),
        read_optional(document, "time-instant"),
        tuple(_reward_bound(item, "instant") for item in objects(document, "reward-instants", "a reward bound")),
    )


def _read_path(document: dict[str, Json]) -> PathFormula:
    inner = mapping(operand(document, "exp"), document, "exp", "a path formula")
    operator = inner.get("op")
    if operator not in PATH_OPERATORS:
        raise Fault(
            inner, "op", "a path formula is expected here.", 'Write {"op": "F", "exp": ...} or another of U W R G.'
        )
    return _read_path_formula(inner, operator)


def _read_path_formula(document: dict[str, Json], operator: str) -> PathFormula:
    bounds = ("step-bounds", "time-bounds", "reward-bounds")
    binary = operator in ("U", "W", "R")
    know_keys(document, frozenset(("op", *(("left", "right") if binary else ("exp",)), *bounds)), f"'{operator}'")
    steps, time = _interval(document, "step-bounds"), _interval(document, "time-bounds")
    rewards = tuple(_reward_bound(item, "bounds") for item in objects(document, "reward-bounds", "a reward bound"))
    if binary:
        left, right = _state_formula(document, "left"), _state_formula(document, "right")
        return Until(left, right, steps, time, rewards, operator)
    inner = _state_formula(document, "exp")
    if operator == "F":
        return Until(TRUE, inner, steps, time, rewards)
    if operator == "G":
        return Globally(inner, steps, time, rewards)
    if steps or time or rewards:
        raise Fault(document, None, "the operator 'X' takes no bounds.", "Remove them.")
    return Next(inner)


def _state_formula(document: dict[str, Json], key: str) -> StateFormula:
    inner = operand(document, key)
    formula = read_property_expression(inner, inside_path=True)
    return cast(StateFormula, formula)


def _interval(document: dict[str, Json], key: str) -> Interval | None:
    inner = document.get(key)
    if inner is None:
        return None
    return _read_interval(mapping(inner, document, key, "an interval"))


def _read_interval(document: dict[str, Json]) -> Interval:
    know_keys(document, frozenset(("lower", "upper", "lower-exclusive", "upper-exclusive")), "an interval")
    lower, upper = read_optional(document, "lower"), read_optional(document, "upper")
    if lower is None and upper is None:
        raise Fault(document, None, "an interval has neither 'lower' nor 'upper'.", "Add one, or remove the bounds.")
    return Interval(lower, upper, truth(document, "lower-exclusive"), truth(document, "upper-exclusive"))


def _reward_bound(document: dict[str, Json], key: str) -> RewardBound:
    know_keys(document, frozenset(("exp", "accumulate", key)), "a reward bound")
    reward = read_expression(operand(document, "exp"))
    if key == "instant":
        bounds = Interval(upper=read_expression(operand(document, "instant")))
    else:
        bounds = _read_interval(mapping(required(document, key, "an interval"), document, key, "an interval"))
    return RewardBound(reward, accumulated(document), bounds)


def accumulated(document: dict[str, Json]) -> tuple[str, ...]:
    """Return over what a reward is accumulated."""
    words = sequence(document, "accumulate")
    for position, word in enumerate(words):
        if word not in ACCUMULATE:
            what = shown(word) if isinstance(word, str) else kind_of(word)
            raise Fault(words, position, f"rewards are not accumulated over {what}.", "Use steps, time or exit.")
    return tuple(words)


def _optimum(document: dict[str, Json]) -> Optimum:
    if document.get("x-optimum") == "only":
        return Optimum.ONLY
    return Optimum.MIN if document["op"].endswith("min") else Optimum.MAX
