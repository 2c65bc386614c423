"""Shields as decision trees: they say what the table says, in files that are checked when read."""

import json
import random
from fractions import Fraction
from pathlib import Path

import pytest

from polvet.domains import generate
from polvet.errors import InputError
from polvet.shield import Permitted, Shield, build_world, make_shield, permit
from polvet.shield.tree import grow_tree, load_tree


def test_a_tree_says_what_the_table_says_before_and_after_writing(tmp_path: Path) -> None:
    task = generate("folline", length=12, width=5).task()
    world = build_world(task)
    result = permit(world, Fraction(1, 50), attempts=2)
    assert isinstance(result, Permitted)
    shield = make_shield(task, world, result, Fraction(1, 50))
    tree = grow_tree(shield)
    tree.save(tmp_path / "tree.json")
    again = load_tree(tmp_path / "tree.json")
    asked = 0
    for key, allowed in shield.actions.items():
        state = dict(zip(shield.variables, key, strict=True))
        if allowed:
            asked += 1
            assert tree.allowed(state) == again.allowed(state) == allowed
    assert asked > tree.leaves > 1
    assert json.loads((tmp_path / "tree.json").read_text())["bound"] == "1/50"


def test_random_tables_of_booleans_and_numbers_are_met_exactly() -> None:
    rng = random.Random(1)
    for _ in range(60):
        keys = {(rng.randint(-3, 3), rng.random() < 0.5, rng.randint(0, 2)) for _ in range(30)}
        actions = {key: tuple(a for a in "abc" if rng.random() < 0.6) for key in keys}
        shield = Shield(("x", "on", "y"), actions, {key: Fraction(0) for key in keys})
        tree = grow_tree(shield)
        for key, allowed in actions.items():
            if allowed:
                assert tree.allowed(dict(zip(shield.variables, key, strict=True))) == allowed
        assert len(tree.lines()) >= tree.leaves >= 1
        assert tree.depth < len(tree.nodes)


@pytest.mark.parametrize(
    "nodes", [[], [{}], [{"variable": "x", "at_most": 1, "low": 0, "high": 1}, {"allowed": []}], [3]]
)
def test_a_malformed_tree_is_wrong_input(nodes: list[object], tmp_path: Path) -> None:
    (tmp_path / "tree.json").write_text(json.dumps({"format": "shield-tree/1", "nodes": nodes}))
    with pytest.raises(InputError):
        load_tree(tmp_path / "tree.json")
