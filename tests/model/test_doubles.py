"""Guards and assignments compute reals in doubles, constants as variables; probabilities, bounds and rewards are exact."""

from __future__ import annotations

import math
import random
import re
from fractions import Fraction

import pytest

import polvet
from polvet.kernel.compiled import Compiled
from polvet.model.automata import VariableDeclaration
from polvet.model.semantics import Semantics
from polvet.model.types import REAL
from tests.model.test_semantics import automaton, edge, network, number, put

WORDS = {"min": min, "max": max, "floor": math.floor, "ceil": math.ceil}
DECIMALS = ("0.1", "0.2", "0.3", "0.7", "1.1", "3.0", "10.0", "0.30000000000000004")


def number_of(rng, depth):
    """The text of a number that reads N."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(["N", "N", *DECIMALS, "2"])
    one, other = number_of(rng, depth - 1), number_of(rng, depth - 1)
    if rng.random() < 0.3:
        return f"{rng.choice(['min', 'max'])}({one}, {other})"
    return f"({one} {rng.choice('+-**/')} {other})"


def _decimal(text, value):
    """The exact value of the text as a decimal, if it is one."""
    try:
        exact = eval(_in_fractions(text), {**WORDS, "N": Fraction(value), "F": Fraction})
    except ZeroDivisionError:
        return None
    digits = f"{float(exact):.12f}"
    return digits if Fraction(digits) == exact else None


def conditions(seeds):
    """Random comparisons that read N, with a value of it and what Python's numbers say."""
    for seed in seeds:
        rng = random.Random(seed)
        value = rng.randint(0, 9)
        left, right = number_of(rng, 2), number_of(rng, rng.randint(0, 2))
        if rng.random() < 0.8 and (exact := _decimal(left, value)) is not None:
            right = exact  # where exact numbers are equal, doubles may differ
        if rng.random() < 0.2:
            left = f"{rng.choice(['floor', 'ceil'])}(10 * {left})"
        try:
            numbers = [eval(side, {**WORDS, "N": value}) for side in (left, right)]
        except ZeroDivisionError:
            continue
        sign = rng.choice(["<=", "<", ">=", ">"])
        yield f"{left} {sign} {right}", value, eval(f"a {sign} b", {"a": numbers[0], "b": numbers[1]})


def test_a_guard_means_the_same_whether_it_reads_a_variable_a_constant_or_a_number(tmp_path):
    compared = exactly_different = 0
    for text, value, true in conditions(range(150)):
        for name, declared in (("x", ""), ("c", f"const int c = {value};"), (str(value), "")):
            guard = text.replace("N", name)
            (tmp_path / "m.prism").write_text(
                f"mdp\n{declared}\nmodule m\n  x : [0..9] init {value};\n  y : [0..1] init 0;\n"
                f"  [a] y=0 & {guard} -> (y'=1);\nendmodule\n"
            )
            task = polvet.load(tmp_path / "m.prism")
            for exact in (False, True):
                assert task.check("Pmax=? [ F y=1 ]", exact=exact).exact == int(true), (guard, value)
            assert task.check(f"Pmax=? [ F ({guard}) ]", exact=True).exact == int(true)
            compared += 1
        exactly_different += true is not eval(_in_fractions(text), {**WORDS, "N": Fraction(value), "F": Fraction})
    assert compared > 400
    assert exactly_different > 5


def _in_fractions(text):
    return re.sub(r"[0-9][0-9.]*", lambda one: f"F('{one[0]}')", text)


def test_an_assignment_gives_a_real_what_doubles_give(tmp_path):
    compared = 0
    for seed in range(300):
        rng = random.Random(seed)
        value, text = rng.randint(0, 9), number_of(rng, 3)
        try:
            true = float(eval(text, {**WORDS, "N": value}))
        except ZeroDivisionError:
            continue
        for name in ("x", str(value)):
            made = edge("a", put("r", text.replace("N", name)))
            net = network(
                automaton("A", made),
                variables=[number("x", value), VariableDeclaration("r", REAL, put("x", "0").value)],
            )
            (move,) = Semantics(net).moves((value, 0.0))
            assert move.outcomes[0].state == (value, true)
            compiled = Compiled(net)
            ((_, _, ((_, words, _),)),) = compiled.machine.moves(compiled.pack([(value, 0.0)])[0])
            assert compiled.unpack(_row(words)) == [(value, true)]
            compared += 1
    assert compared > 400


def _row(words):
    import numpy as np

    return np.array([words], dtype=np.uint64)


@pytest.mark.parametrize("name", ["x", "c", "3"])
def test_probabilities_bounds_and_rewards_are_exact_and_their_conditions_are_as_everywhere(name, tmp_path):
    (tmp_path / "m.prism").write_text(f"""mdp
const int c = 3;
const double d = 0.1*3;
module m
  x : [0..3] init 3;
  y : [0..2] init 0;
  [a] y=0 -> 0.1*{name}:(y'=1) + 1-0.1*{name}:(y'=2);
endmodule
rewards "plain" y=0 : 0.1*{name}; endrewards
rewards "tested" y=0 & 0.1*{name}<=0.3 : 1; endrewards
""")
    task = polvet.load(tmp_path / "m.prism")
    for exact in (False, True):
        assert task.check("Pmax=? [ F y=1 ]", exact=exact).exact == Fraction(3, 10)
        assert task.check("Pmax>=d [ F y=1 ]", exact=exact).value is True
        assert task.check("Pmax>=0.1*c [ F y=1 ]", exact=exact).value is True
        assert task.check('R{"plain"}max=? [ C<=5 ]', exact=exact).exact == Fraction(3, 10)
        assert task.check('R{"tested"}max=? [ C<=5 ]', exact=exact).exact == 0
