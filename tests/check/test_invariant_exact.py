"""False invariants that float64, or steps that are errors of the model, would let through: the checker says no, on every way."""

from __future__ import annotations

import contextlib
import json
from fractions import Fraction
from math import gcd

import numpy as np
import pytest

from polvet.budget import Budget
from polvet.check import invariant_states
from polvet.check.checker import Accepted, Rejected, Subjects, check
from polvet.check.invariant_rows import FAR, Row, contract, is_contradiction, merged, row_between
from polvet.errors import ModelError, Where
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.networks import network_of
from polvet.policy.onnx_save import save_onnx
from polvet.sources import TaskOptions, load_task
from polvet.verify import split_tree
from polvet.verify.portfolio import verify
from polvet.verify.verdicts import Safe, Unknown

BIG = {"x": (0, 2_000_000, 1984769), "u": (0, 2_000_000, 1984769), "w": (0, 2_000_000, 1984769), "y": (0, 7, 3)}
PINNED = [{"terms": {name: 1}, "lower": 1984769, "upper": 1984769} for name in "xuw"]


def op(operator, left, right):
    return {"op": operator, "left": left, "right": right}


def subjects_of(folder, ints, edges, arrays=()):
    """Write a model of edges (label, guard, [(target, value, index)]) and a network that always prefers the first label."""
    labels = sorted({label for label, _, _ in edges})
    bounded = [
        {
            "name": name, "initial-value": start,
            "type": {"kind": "bounded", "base": "int", "lower-bound": low, "upper-bound": high},
        }
        for name, (low, high, start) in ints.items()
    ]  # fmt: skip
    cell = {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": 1}
    listed = [
        {"name": name, "type": {"kind": "array", "base": cell}, "initial-value": {"op": "av", "elements": [0] * size}}
        for name, size in arrays
    ]
    places = [
        {
            "location": "l", "action": label, "guard": {"exp": guard},
            "destinations": [
                {"location": "l", "assignments": [{"ref": r, "value": v, "index": i} for r, v, i in updates]}
            ],
        }
        for label, guard, updates in edges
    ]  # fmt: skip
    model = {
        "jani-version": 1, "name": "m", "type": "mdp", "features": ["arrays"], "actions": [{"name": x} for x in labels],
        "variables": [*bounded, {"name": "bad", "type": "bool", "initial-value": False}, *listed],
        "automata": [{"name": "A", "locations": [{"name": "l"}], "initial-locations": ["l"], "edges": places}],
        "system": {"elements": [{"automaton": "A"}], "syncs": [{"synchronise": [x], "result": x} for x in labels]},
    }  # fmt: skip
    (folder / "m.jani").write_text(json.dumps(model), encoding="utf-8")
    (folder / "m.toml").write_text('model = "m.jani"\nfail = "bad"\n', encoding="utf-8")
    names = list(ints)
    layer = np.zeros((len(labels), len(names))), np.arange(len(labels), 0, -1.0)
    save_onnx(network_of([layer], names, labels), folder / "policy.onnx")
    return Subjects(folder / "m.toml", folder / "policy.onnx")


def judged(subjects, rows, blocked=()):
    fitted = load_fitted(load_task(subjects.task, TaskOptions()), subjects.policy)
    base = {"task_sha256": fitted.task.sha256, "policy_sha256": fitted.sha256}
    claim = {"kind": "invariant", **base, "rows": rows, "blocked": list(blocked)}
    return check(split_tree.completed(claim, subjects), subjects, Where("certificate"))


@pytest.fixture(params=["states", "many", "boxes"])
def way(request, monkeypatch):
    if request.param == "many":
        monkeypatch.setattr(invariant_states, "FEW_POINTS", 0)
    if request.param == "boxes":
        monkeypatch.setattr(invariant_states, "MOST_POINTS", 0)
        monkeypatch.setattr(split_tree, "SMALL", 1)
    return request.param


def huge_sum(first=456591574713, second=106620316190, third=563211890903):
    whole = op("+", op("*", first, "x"), op("*", second, "u"))
    return op("-", op("+", whole, "y"), op("*", third, "w"))


HUGE = {
    # The sums pass 2^59: a double's last bit is worth 128 there, and y in 0..7 is lost.
    "an equality": [("a", op("=", huge_sum(), 3), [("bad", True, 0)])],
    "two bounds": [("a", op("∧", op("≤", huge_sum(), 3), op("≥", huge_sum(), 3)), [("bad", True, 0)])],
    "a strict bound": [("a", op(">", huge_sum(), 2), [("bad", True, 0)])],
    "beyond int64": [("a", op("=", huge_sum(2**70, 2**69, 2**70 + 2**69), 3), [("bad", True, 0)])],
    "an update": [("a", True, [("bad", op("=", huge_sum(), 3), 0)])],
    "an update of a row": [("a", True, [("x", op("+", "x", op("-", huge_sum(), 2)), 0)])],
}


@pytest.mark.parametrize("name", HUGE)
def test_sums_that_doubles_do_not_hold_are_added_up_exactly(name, way, tmp_path):
    assert isinstance(judged(subjects_of(tmp_path, BIG, HUGE[name]), PINNED), Rejected)


def test_true_invariants_over_such_sums_are_accepted(way, tmp_path):
    edges = [("a", op("=", huge_sum(), 8), [("bad", True, 0)])]  # y is at most 7
    assert isinstance(judged(subjects_of(tmp_path, BIG, edges), PINNED), Accepted)


def test_real_coefficients_mean_what_the_interpreter_computes(way, tmp_path):
    # In doubles 2^53 + 1.0 is 2^53, so the guard holds for y = 1, though no exact sum does.
    ints = {"x": (2**39, 2**39, 2**39), "y": (0, 1, 1)}
    sum_in_doubles = op("+", op("*", 16384.0, "x"), "y")
    edges = [("a", op("=", op("-", sum_in_doubles, "y"), 2**53 - 1), [("bad", True, 0)])]
    subjects = subjects_of(tmp_path, ints, edges)
    fitted = load_fitted(load_task(subjects.task, TaskOptions()), subjects.policy)
    found = verify(compile_policy(fitted), method="explicit")
    assert isinstance(judged(subjects, []), Accepted) == isinstance(found, Safe)


def fractions_of(rows, box):
    """All points of the box that satisfy the rows, in Python's integers."""
    from itertools import product

    return [
        point
        for point in product(*(range(int(a), int(b) + 1) for a, b in zip(*box, strict=True)))
        if all(r.lower <= sum(int(c) * x for c, x in zip(r.coefficients, point, strict=True)) <= r.upper for r in rows)
    ]


def slowly_merged(rows, fixed, values):
    """What `merged` returns, row by row in Python's integers."""
    sides = {}
    for row in rows:
        whole = [0 if gone else int(c) for c, gone in zip(row.coefficients, fixed, strict=True)]
        share = sum(int(c) * x for c, gone, x in zip(row.coefficients, fixed, values, strict=True) if gone)
        low, high = (end if abs(end) == FAR else end - share for end in (row.lower, row.upper))
        divisor = gcd(*whole)
        if divisor == 0:
            if low > 0 or high < 0:
                return None
            continue
        if next(c for c in whole if c) < 0:
            whole, low, high = [-c for c in whole], -high, -low
        key = tuple(c // divisor for c in whole)
        low, high = (low if low == -FAR else -(-low // divisor)), (high if high == FAR else high // divisor)
        before = sides.get(key, (-FAR, FAR))
        sides[key] = max(low, before[0]), min(high, before[1])
        if sides[key][0] > sides[key][1]:
            return None
    return [Row(np.array(key, dtype=np.int64), low, high) for key, (low, high) in sides.items()]


def _sides(rows):
    return rows and [(row.coefficients.tolist(), row.lower, row.upper) for row in rows]


@pytest.mark.parametrize("seed", range(200))
def test_merged_rows_are_those_of_python_integers(seed):
    """Few coefficients, so that rows are parallel, opposite, empty and contradictory."""
    rng = np.random.default_rng(seed)
    width = int(rng.integers(0, 4))
    values = rng.integers(-3, 4, size=width)
    fixed = rng.random(width) < 0.4
    rows = []
    for _ in range(int(rng.integers(0, 5))):
        ends = sorted(rng.integers(-8, 9, size=2).tolist())
        low, high = (FAR * side if rng.random() < 0.3 else end for side, end in zip((-1, 1), ends, strict=True))
        rows.append(Row(rng.integers(-2, 3, size=width) * int(rng.integers(1, 4)), low, high))
    assert _sides(merged(rows, fixed, values)) == _sides(slowly_merged(rows, fixed.tolist(), values.tolist()))


@pytest.mark.parametrize("seed", range(200))
def test_rows_never_take_a_state_that_satisfies_them(seed):
    rng = np.random.default_rng(seed)
    low = rng.integers(-(2**39), 2**39, size=3)
    high = low + rng.integers(0, 4, size=3)
    sizes = [int(max(abs(a), abs(b))) for a, b in zip(low, high, strict=True)]
    rows = []
    for _ in range(3):
        columns = {k: int(rng.integers(-(2**18), 2**18)) for k in range(3)}
        point = rng.integers(low, high + 1)
        value = sum(c * int(point[k]) for k, c in columns.items()) + int(rng.integers(-1, 2))
        ends = [(value, value), (value, None), (None, value)][int(rng.integers(3))]
        row = row_between(columns, *ends, sizes)
        assert row is not None
        rows.append(row)
    true = fractions_of(rows, (low, high))
    left_low, left_high, _ = contract(low[None, :], high[None, :], rows)
    kept = [p for p in true if len(left_low) and (left_low[0] <= p).all() and (p <= left_high[0]).all()]
    assert kept == true
    fixed = low == high
    together = merged(rows, fixed, low)
    assert _sides(together) == _sides(slowly_merged(rows, fixed.tolist(), low.tolist()))
    if together is None:
        assert not true
        return
    assert fractions_of(together, (low, high)) == true
    for _ in range(20):
        sums = [
            (int(k), int(rng.integers(1, 4)) * int(rng.choice([-1, 1]))) for k in rng.permutation(len(together))[:3]
        ]
        if is_contradiction(together, low, high, sums):
            assert not true


def test_rows_too_large_for_int64_are_not_made():
    assert row_between({0: 2**40}, 0, None, [2**40]) is None
    row = row_between({0: 2**20, 1: 2**90}, None, 5, [2**40, 0])
    assert row is not None
    assert (row.lower, row.upper, row.coefficients.tolist()) == (-FAR, 5, [2**20, 0])
    assert isinstance(row, Row)
    assert Fraction(FAR) > 2**61


SMALL = {"x": (0, 9, 3), "y": (0, 9, 0)}
TURN = ("y", op("-", 9, "y"), 0)


def element(index):
    return {"op": "aa", "exp": "cells", "index": index}


# What no condition reads is left out of the model before it is verified, with its errors: this reads all elements.
READ = op("≤", op("+", op("+", element(0), element(1)), op("+", element(2), element(3))), 4)

ERRORS = {
    "made good by a later assignment": [("a", True, [("x", 50, 0), ("x", 1, 1)])],
    "made good where x is 3": [("a", True, [("x", op("+", "x", 7), 0), ("x", op("-", "x", 7), 1)])],
    "an element twice at once": [("a", READ, [(element("y"), 1, 0), (element(op("-", 0, "y")), 1, 0)])],
    "an index out of range": [("a", READ, [(element(op("-", "x", 4)), 1, 0)])],
    "an index out of range in a value": [("a", True, [("y", element(op("+", "x", 1)), 0)])],
    "an operator that is not chosen": [("a", True, [TURN]), ("b", True, [("x", 50, 0)])],
    "a guard without a value": [("a", True, [TURN]), ("b", op("=", op("%", 5, op("-", "x", 3)), 1), [TURN])],
    "a guard that a later part excludes": [
        ("a", True, [TURN]),
        ("b", op("∧", op("∨", op("=", element(op("+", "x", 1)), 1), "bad"), op("≥", "x", 4)), [TURN]),
    ],
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_the_interpreter_calls_an_error_is_no_invariant(name, way, tmp_path):
    subjects = subjects_of(tmp_path, SMALL, ERRORS[name], arrays=[("cells", 4)])
    bad = {"terms": {"bad": 1}, "lower": 0, "upper": 0}
    assert isinstance(judged(subjects, [bad]), Rejected)
    assert isinstance(judged(subjects, [bad, {"terms": {"x": 1}, "lower": 0, "upper": 4}]), Rejected)


@pytest.mark.parametrize("method", ["induction", "ic3", "abstraction", "projection"])
@pytest.mark.parametrize("name", ERRORS)
def test_no_engine_calls_safe_what_explicit_search_calls_an_error(name, method, tmp_path):
    subjects = subjects_of(tmp_path, SMALL, ERRORS[name], arrays=[("cells", 4)])
    bound = compile_policy(load_fitted(load_task(subjects.task, TaskOptions()), subjects.policy))
    with pytest.raises(ModelError):
        verify(bound, method="explicit")
    with contextlib.suppress(ModelError):
        assert isinstance(verify(bound, method=method, budget=Budget(20.0)), Unknown)


@pytest.mark.parametrize(
    "name", ["made good where x is 3", "an operator that is not chosen", "a guard without a value"]
)
def test_where_no_such_state_is_in_the_invariant_it_is_accepted(name, way, tmp_path):
    guarded = {
        "made good where x is 3": [("a", op("≤", "x", 2), [("x", op("+", "x", 7), 0), ("x", op("-", "x", 7), 1)])],
        "an operator that is not chosen": [("a", True, [TURN]), ("b", op("≥", "x", 4), [("x", op("+", "x", 6), 0)])],
        "a guard without a value": [("a", True, [TURN]), ("b", op("=", op("%", 5, op("-", "x", 4)), 1), [TURN])],
    }[name]
    subjects = subjects_of(tmp_path, SMALL, guarded, arrays=[("cells", 4)])
    assert isinstance(judged(subjects, [{"terms": {"x": 1}, "lower": 3, "upper": 3}]), Accepted)
