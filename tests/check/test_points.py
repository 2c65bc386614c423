"""Parts of expressions over listed states have the values that the slow interpreter computes, or are said to be unknown."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from polvet.check.points import UNKNOWN, Points
from polvet.model.build import ModelBuilder
from polvet.model.expressions import (
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    Unary,
)
from polvet.model.instantiate import instantiate
from polvet.model.semantics import Semantics

NUMBERS, TRUTHS = ("x", "y", "z"), ("p", "q")


def number(rng: random.Random, depth: int) -> Expression:
    if depth == 0:
        return rng.choice([Name(rng.choice(NUMBERS)), IntLiteral(rng.randint(-5, 5)), RealLiteral(Fraction(2))])
    match rng.randrange(6):
        case 0:
            return Unary("abs", number(rng, depth - 1))
        case 1:
            return Binary("%", Binary("+", Name("x"), Name("y")), IntLiteral(rng.randint(1, 4)))
        case 2:
            return Conditional(truth(rng, depth - 1), number(rng, depth - 1), number(rng, depth - 1))
        case _:
            operator = rng.choice(["+", "-", "*", "min", "max"])
            return Binary(operator, number(rng, depth - 1), number(rng, depth - 1))


def truth(rng: random.Random, depth: int) -> Expression:
    if depth == 0:
        return rng.choice([Name(rng.choice(TRUTHS)), BoolLiteral(rng.random() < 0.5)])
    match rng.randrange(5):
        case 0:
            return Unary("¬", truth(rng, depth - 1))
        case 1:
            return Conditional(truth(rng, depth - 1), truth(rng, depth - 1), truth(rng, depth - 1))
        case 2:
            return Binary(rng.choice(["∧", "∨", "⇒", "=", "≠"]), truth(rng, depth - 1), truth(rng, depth - 1))
        case _:
            operator = rng.choice(["=", "≠", "<", "≤", ">", "≥"])
            return Binary(operator, number(rng, depth - 1), number(rng, depth - 1))


def semantics() -> Semantics:
    model = ModelBuilder("values")
    for name in NUMBERS:
        number = model.int(name, -8, 9)
    for name in TRUTHS:
        model.bool(name)
    model.edge("go", to={number: 0})
    return Semantics(instantiate(model.build(), {}))


@pytest.mark.parametrize("seed", range(40))
def test_values_are_those_of_the_interpreter(seed: int) -> None:
    rng, told = random.Random(seed), semantics()
    names = [variable.name for variable in told.network.variables]
    states: list[tuple[Any, ...]] = [
        tuple(rng.random() < 0.5 if name in TRUTHS else rng.randint(-8, 9) for name in names) for _ in range(60)
    ]
    columns = {name: np.array([state[k] for state in states]) for k, name in enumerate(names)}
    points = Points({name: (int(column.min()), int(column.max())) for name, column in columns.items()})
    asked = [make(rng, depth) for make in (number, truth) for depth in (0, 1, 2, 3, 4)]
    parts = [points.number(expression) for expression in asked]
    block = points.block(columns)
    assert parts == [points.number(expression) for expression in asked]
    for expression, part in zip(asked, parts, strict=True):
        assert part != UNKNOWN
        expected, evaluate = [], told.compile(expression)
        for state in states:
            expected.append(evaluate(state))
        assert np.broadcast_to(block.value(part), len(states)).tolist() == expected
        low, high = points.ranges[part]
        assert all(low <= value <= high for value in expected)


def test_what_may_not_be_exact_is_unknown() -> None:
    points = Points({"x": (0, 2**30), "y": (0, 3)})
    square = Binary("*", Name("x"), Name("x"))
    assert points.number(square) == UNKNOWN  # 2^60
    assert points.number(Binary("≤", square, IntLiteral(1))) == UNKNOWN
    assert points.number(Binary("%", square, IntLiteral(2))) == UNKNOWN  # its part is not exact
    assert points.number(Binary("*", Name("x"), Name("y"))) != UNKNOWN
    assert points.number(Name("w")) == UNKNOWN
    assert points.number(Binary("<", Name("y"), RealLiteral(Fraction(1, 2)))) == UNKNOWN
    assert points.number(Binary("/", Name("y"), IntLiteral(2))) == UNKNOWN
    assert points.number(Binary("%", Name("y"), Name("y"))) == UNKNOWN


def test_truth_values_are_not_taken_for_the_numbers_that_equal_them() -> None:
    points = Points({"x": (0, 3)})
    assert points.number(BoolLiteral(True)) != points.number(IntLiteral(1))
    both = points.number(Binary("+", IntLiteral(1), IntLiteral(1)))
    assert points.block({"x": np.arange(4)}).value(both) == 2
