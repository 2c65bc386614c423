"""Start conditions with disjunctions and counted equalities: what is read out of them, and claims about them, against every state."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest

from polvet.budget import UNLIMITED
from polvet.check import invariant_states
from polvet.check.arena import Arena
from polvet.check.box_view import affine
from polvet.check.checker import Accepted
from polvet.check.invariant import check_claim
from polvet.check.invariant_claim import read_question
from polvet.check.invariant_conditions import exclusions, hulls
from polvet.check.invariant_rows import FAR
from polvet.check.packing import pack, unpack
from polvet.model.expressions import conjuncts
from polvet.model.infix import parse_expression
from polvet.policy.binding import fit
from polvet.policy.networks import network_of
from polvet.sources import load_task
from polvet.verify.split_tree import with_tree

MODEL = """mdp
module field
  x : [0..4] init 0;
  y : [0..4] init 0;
  z : [0..4] init 0;
  [stay] true -> true;
endmodule
"""
SPACE = list(product(range(5), repeat=3))


def random_condition(rng):
    """A conjunction of disjunctions of comparisons, and of sums that count equalities."""
    parts = []
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.4:
            value = rng.integers(0, 5)
            counted = " + ".join(f"({name} == {value} ? {rng.integers(1, 3)} : 0)" for name in "xyz")
            parts.append(f"({counted} {rng.choice(['==', '<=', '>='])} {rng.integers(0, 3)})")
            continue
        name = str(rng.choice(list("xyz")))
        options = [f"{_left(rng, name)} {rng.choice(['==', '<=', '>='])} {rng.integers(0, 5)}" for _ in range(3)]
        if rng.random() < 0.3:
            options[0] = f"({options[0]} && {_left(rng, name)} >= {rng.integers(0, 3)})"
        parts.append(f"({' || '.join(options)})")
    return " && ".join(parts)


def _left(rng, name):
    return name if rng.random() < 0.8 else f"{name} + {rng.choice(list('xyz'))}"


def random_rows(rng):
    """One or two rows with marks; some of them bound what never is beyond them."""
    rows = []
    for _ in range(int(rng.integers(1, 3))):
        marks = [["xyz"[k], int(rng.integers(0, 5)), int(rng.integers(-1, 3))] for k in range(3)]
        low = int(rng.integers(-3, 3))
        rows.append({"terms": {"x": int(rng.integers(-1, 2))}, "marks": marks, "lower": low, "upper": low + 5})
    return rows


def value_of_row(row, state):
    named = dict(zip("xyz", state, strict=True))
    return sum(c * named[name] for name, c in row["terms"].items()) + sum(
        c * (named[name] == value) for name, value, c in row["marks"]
    )


@pytest.fixture
def posed(tmp_path, monkeypatch):
    """Return the arena, the policy that stays and the claim of a start condition and rows, shown over boxes."""
    monkeypatch.setattr(invariant_states, "MOST_POINTS", 0)
    (tmp_path / "field.prism").write_text(MODEL)

    def pose(start, rows):
        (tmp_path / "field.toml").write_text(f'model = "field.prism"\nfail = "false"\nstart = "{start}"\n')
        task = load_task(tmp_path / "field.toml")
        fitted = fit(task, network_of([(np.zeros((1, 3)), np.zeros(1))], list("xyz"), ["stay"]))
        return Arena.of(task), fitted, {"kind": "invariant", "rows": rows, "blocked": []}

    return pose


@pytest.mark.parametrize("seed", range(120))
def test_claims_are_accepted_exactly_where_every_start_state_satisfies_them(seed, posed):
    rng = np.random.default_rng(seed)
    start, rows = random_condition(rng), random_rows(rng)
    arena, fitted, claim = posed(start, rows)
    begins = arena.semantics.compile(arena.task.start)
    true = all(row["lower"] <= value_of_row(row, s) <= row["upper"] for s in SPACE if begins(s) for row in rows)
    whole = json.loads(json.dumps(with_tree(claim, fitted, UNLIMITED)))
    assert isinstance(check_claim(arena, fitted, whole, "it"), Accepted) == true
    nodes = np.frombuffer(unpack(whole["tree"]["packed"], 16 * whole["tree"]["nodes"], "it"), dtype="<i8").reshape(
        2, -1
    )
    for _ in range(0 if true else 30):  # no tree shows what is false
        altered = nodes[:, rng.permutation(nodes.shape[1])[: int(rng.integers(0, nodes.shape[1] + 1))]].copy()
        if altered.size:
            altered[:, int(rng.integers(altered.shape[1]))] = rng.integers(-6, 3), rng.integers(-1, 5)
        tree = {**whole["tree"], "nodes": altered.shape[1], "packed": pack(np.ascontiguousarray(altered).tobytes())}
        assert not isinstance(check_claim(arena, fitted, {**whole, "tree": tree}, "it"), Accepted)


@pytest.mark.parametrize("seed", range(120))
def test_rows_read_out_of_disjunctions_hold_wherever_these_do(seed, posed):
    rng = np.random.default_rng(1000 + seed)
    arena, fitted, claim = posed(random_condition(rng), random_rows(rng))
    question = read_question(arena, fitted, claim)
    points = np.array(SPACE)
    marked = question.claim.marked(points)
    for part in conjuncts(arena.task.start):
        is_true = arena.semantics.compile(part)
        for row in hulls(question, [part]):
            values = (marked @ row.coefficients)[[is_true(s) for s in SPACE]]
            assert ((row.lower <= values) & (values <= row.upper)).all()
    low = rng.integers(0, 4, size=3)
    high = np.minimum(4, low + rng.integers(0, 3, size=3))
    inside = ((points >= low) & (points <= high)).all(axis=1)
    for row in exclusions(question, low, high):
        assert (marked[inside] @ row.coefficients == 1).all()


def test_a_disjunction_over_one_variable_bounds_it(posed):
    arena, fitted, claim = posed("(x == 1 || x >= 3) && (y <= 1 || z == 2)", [])
    question = read_question(arena, fitted, claim)
    first, second = conjuncts(arena.task.start)
    (row,) = hulls(question, [first])
    assert (row.coefficients.tolist(), row.lower, row.upper) == ([1, 0, 0], 1, FAR)
    assert hulls(question, [second]) == []


def test_all_marked_values_of_a_variable_exclude_one_another(posed):
    counted = " + ".join(f"(x == {value} ? 1 : 0)" for value in range(4))
    arena, fitted, claim = posed(f"({counted}) <= 1", [])
    question = read_question(arena, fitted, claim)
    assert question.claim.marks == tuple((0, value) for value in range(4))
    assert exclusions(question, np.array([0, 0, 0]), np.array([4, 4, 4])) == []  # x = 4 has no mark
    (row,) = exclusions(question, np.array([1, 0, 0]), np.array([3, 4, 4]))
    assert (row.coefficients.tolist(), row.lower, row.upper) == ([0, 0, 0, 0, 1, 1, 1], 1, 1)


@pytest.mark.parametrize("seed", range(100))
def test_affine_sums_have_the_values_of_the_interpreter(seed, posed):
    rng = np.random.default_rng(seed)
    arena, _, _ = posed("true", [])
    text = random_sum(rng, 4)
    expression = parse_expression(text)
    place = {"x": 0, "y": 1, "z": 2}
    found = affine(expression, place)
    assert (found is None) == ("x * y" in text)
    if found is None:
        return
    value = arena.semantics.compile(expression)
    terms, constant = found
    for state in SPACE[::7]:
        parts = (c * (state[key] if isinstance(key, int) else state[key[0]] == key[1]) for key, c in terms.items())
        assert value(state) == constant + sum(parts)


def random_sum(rng, depth):
    """Sums, differences and multiples of variables and counted equalities, now and then with a product of variables."""
    if depth == 0 or rng.random() < 0.2:
        name = rng.choice(list("xyz"))
        leaves = [name, str(rng.integers(0, 9)), f"({name} == {rng.integers(0, 5)} ? {rng.integers(0, 4)} : 2)"]
        leaves += ["(x * y)"] if rng.random() < 0.1 else []
        return str(rng.choice(leaves))
    one, other = random_sum(rng, depth - 1), random_sum(rng, depth - 1)
    sign = str(rng.choice(["+", "-", "*"]))
    if sign != "*":
        return f"({one} {sign} {other})"
    factor = str(rng.integers(0, 5))
    return f"({factor} * {one})" if rng.random() < 0.5 else f"({one} * (2 - {factor}))"
