"""What the checker says of tables and rule lists over boxes holds in every state of the box, and is not too little."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from polvet.check.listed_bounds import RuleBounds, TableBounds
from polvet.errors import Where
from polvet.policy.rules import rules_from_json
from polvet.policy.tables import Table
from tests.verify.listed import random_rules, random_table

TOPS = (4, 3, 5)
LABELS = ("a", "b", "c")
NAMES = ("x", "y", "z")


def random_boxes(rng, count):
    low = np.stack([rng.integers(0, top + 1, count) for top in TOPS], axis=1)
    high = np.stack([rng.integers(0, top + 1, count) for top in TOPS], axis=1)
    return np.minimum(low, high).astype(float), np.maximum(low, high).astype(float)


def wins_everywhere(policy, output, rival, low, high):
    """Whether the rival is chosen wherever it and the output alone may be."""
    points = np.array(
        list(product(*(range(int(a), int(b) + 1) for a, b in zip(low, high, strict=True)))), dtype=np.float32
    )
    mask = np.zeros((len(points), len(LABELS)), dtype=np.bool_)
    mask[:, [output, rival]] = True
    return bool((policy.choose(points[:, [NAMES.index(name) for name in policy.inputs]], mask) == rival).all())


@pytest.mark.parametrize("kind", ["table", "rules"])
def test_a_rival_that_is_said_to_win_wins_in_every_state_of_the_box(kind):
    rng = np.random.default_rng(3)
    said = true = 0
    for _ in range(40):
        policy = random_table(rng, NAMES, TOPS, LABELS) if kind == "table" else random_rules(rng, NAMES, TOPS, LABELS)
        places = [NAMES.index(name) for name in policy.inputs]
        bounds = TableBounds(policy, places) if kind == "table" else RuleBounds(policy, places)
        low, high = random_boxes(rng, 20)
        for output, rival in ((0, 1), (1, 0), (2, 1), (0, 2)):
            found = bounds.losers(output, [rival], low, high, ())[0][:, 0]
            truth = [wins_everywhere(policy, output, rival, a, b) for a, b in zip(low, high, strict=True)]
            assert not (found & ~np.array(truth)).any()
            said, true = said + int(found.sum()), true + sum(truth)
    assert said == true if kind == "table" else said > 0.8 * true > 0


def test_nothing_is_said_where_a_state_may_have_no_row_or_rule():
    box = np.zeros((1, 1)), np.full((1, 1), 3.0)
    rows = {(float(x),): (0.0, 1.0) for x in range(3)}
    assert not TableBounds(Table(("x",), ("a", "b"), rows), [0]).losers(0, [1], *box, ())[0].any()
    assert TableBounds(Table(("x",), ("a", "b"), {**rows, (3.0,): (0.0, 1.0)}), [0]).losers(0, [1], *box, ())[0].all()
    rules = rules_from_json({"rules": [{"when": "x < 3", "action": "b"}]}, Where("rules"), outputs=["a", "b"])
    assert not RuleBounds(rules, [0]).losers(0, [1], *box, ())[0].any()
    assert RuleBounds(rules, [0]).losers(0, [1], box[0], box[1] - 1, ())[0].all()


def test_nothing_is_said_where_float32_rounds_a_value():
    """2^24 + 1 is read as 2^24, so the row of 2^24 is its row, too."""
    table = Table(("x",), ("a", "b"), {(float(2**24),): (1.0, 0.0)}, default=1)
    at = np.full((1, 1), float(2**24 + 1))
    assert table.choose(at.astype(np.float32))[0] == 0
    assert not TableBounds(table, [0]).losers(0, [1], at, at, ())[0].any()
    rules = rules_from_json(
        {"rules": [{"when": f"x <= {2**24}", "action": "a"}, {"when": "true", "action": "b"}]}, Where("r")
    )
    assert rules.choose(at.astype(np.float32))[0] == 0
    assert not RuleBounds(rules, [0]).losers(0, [1], at, at, ())[0].any()
