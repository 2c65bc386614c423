"""Where a branch is possible: conditions over integers and outward bounds, against the exact interpreter."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from polvet.check.chances import may_be_positive
from polvet.model.evaluate import compile_expression
from polvet.model.expressions import Binary, Conditional, Expression, IntLiteral, Name, RealLiteral, Unary
from polvet.model.infix import dump_expression, parse_expression
from polvet.model.network import Kind
from polvet.model.possible import possible

KINDS = {"n": Kind.INT, "k": Kind.INT, "b": Kind.BOOL, "x": Kind.REAL}
PLACES = {name: place for place, name in enumerate(KINDS)}
STEPS = [Fraction(1, 10**k) for k in (1, 2, 3, 7, 17)] + [Fraction(1, 3), Fraction(3, 10), Fraction(9, 10)]


def random_share(rng: random.Random, depth: int, names: tuple[str, ...]) -> Expression:
    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.5:
            return Name(rng.choice(names))
        return RealLiteral(rng.choice(STEPS)) if rng.random() < 0.6 else IntLiteral(rng.randint(-3, 3))
    one, other = random_share(rng, depth - 1, names), random_share(rng, depth - 1, names)
    match rng.randrange(9):
        case 0:
            sign = rng.choice(["<", "≤", ">", "≥", "=", "≠"])
            test: Expression = Binary(sign, random_share(rng, 1, names), random_share(rng, 1, names))
            if rng.random() < 0.5:
                test = Binary(rng.choice(["∧", "∨", "⇒"]), Unary("¬", test), Name("b"))
            return Conditional(test, one, other)
        case 1:
            return Unary("abs", one)
        case 2:
            return Binary("/", one, rng.choice([IntLiteral(7), RealLiteral(Fraction(-3, 10))]))
        case 3:
            return Binary("-", Binary("+", one, other), one)
        case _:
            return Binary(rng.choice(["+", "-", "*", "min", "max"]), one, other)


def test_conditions_over_integers_hold_exactly_where_the_probability_is_above_0() -> None:
    rng = random.Random(5)
    read = 0
    for _ in range(3000):
        share = random_share(rng, rng.randint(1, 4), ("n", "k"))
        condition = possible(share, KINDS)
        if condition is None:
            continue
        read += 1
        # The condition is evaluated with doubles where it has any: it must be right all the same.
        holds, exactly = compile_expression(condition, PLACES), compile_expression(share, PLACES, exact=True)
        for n in range(-2, 5):
            for state in ((n, rng.randint(-4, 9), False, 0.0), (n, rng.randint(-4, 9), True, 0.0)):
                assert bool(holds(state)) == (exactly(state) > 0), (dump_expression(share), dump_expression(condition))
    assert read > 1500


@pytest.mark.parametrize(
    ("share", "condition"),
    [
        ("1 - (1 - 0.001 * n)", "n > 0"), ("0.1 * n - 0.3", "n > 3"), ("(n + 0.25) - n", "true"), ("1 - (1 - 0.1 * x)", "x > 0"),
        ("x - 0.5", None), ("x * x", None), ("n / k", None), ("floor(x)", None), ("n / 10 + 0.0000000000000000001", None),
    ],
)  # fmt: skip
def test_conditions_over_integers(share: str, condition: str | None) -> None:
    found = possible(parse_expression(share), KINDS)
    assert (None if found is None else dump_expression(found)) == condition


def test_no_box_is_left_out_in_which_the_probability_is_above_0() -> None:
    rng = random.Random(6)
    left_out = 0
    for _ in range(2000):
        share = random_share(rng, rng.randint(1, 4), ("n", "x"))
        exactly = compile_expression(share, PLACES, exact=True)
        low, high = rng.uniform(-2, 2), rng.choice([0.0, 1e-17, 0.5])
        ends = {"n": (1, 3), "x": (low, low + high), "k": (0, 0), "b": (0, 1)}
        boxes = {name: (np.array([float(a)]), np.array([float(b)])) for name, (a, b) in ends.items()}
        if may_be_positive(share, boxes)[0]:
            continue
        left_out += 1
        for n in (1, 2, 3):
            for x in (low, low + high, min(max(low, rng.uniform(low, low + high)), low + high)):
                for b in (False, True):
                    assert exactly((n, 0, b, x)) <= 0, dump_expression(share)
    assert left_out > 200
