"""Elimination forests that a user gives: taken as they are, or refused with the place and the components they should have."""

from __future__ import annotations

import json

import pytest

from polvet.cli.app import run

PLAN = """a b {"label": "x-1"}
b a
b c {"label": "y-1"}
c b
"""


@pytest.fixture
def asked(tmp_path, capsys):
    (tmp_path / "plan.txt").write_text(PLAN)

    def ask(rounds, *more):
        (tmp_path / "forest.json").write_text(json.dumps({"format": "forest/1", "rounds": rounds}))
        code = run(["terminates", str(tmp_path / "plan.txt"), "--forest", str(tmp_path / "forest.json"), *more])
        return code, capsys.readouterr()

    return ask


@pytest.mark.parametrize(
    ("rounds", "line"),
    [
        ([["b"]], "round 1: <a b c; b>\n"),
        ([[{"point": "a", "children": ["c"]}]], "round 1: <a b c; a> [<b c; c>]\n"),
        ([[{"point": "c", "children": [{"point": "b", "children": []}]}]], "round 1: <a b c; c> [<a b; b>]\n"),
    ],
)
def test_a_given_forest_is_taken(asked, rounds, line):
    code, shown = asked(rounds)
    assert code == 0
    assert line in shown.out


@pytest.mark.parametrize(
    ("rounds", "message"),
    [
        ([["a"]], "rounds[0]: names no elimination point of the component b c"),
        (
            [["b", "c"]],
            "rounds[0]: the trees are not one for each component that is left. The components here are: a b c.",
        ),
        ([[{"point": "a", "children": ["b", "c"]}]], "rounds[0][0].children: the trees are not one for each component"),
        ([["d"]], "no control state 'd'"),
        ([["b"], ["b"]], "2 rounds are given, but nothing is left after 1"),
        ([[{"children": []}]], "a tree has a 'point'"),
        ("b", "a list of trees is needed here"),
    ],
)
def test_what_is_no_forest_of_the_plan_is_refused(asked, rounds, message):
    code, shown = asked(rounds)
    assert code == 30
    assert message in shown.err


def test_other_methods_take_no_forest(asked):
    code, shown = asked([["b"]], "--method", "sieve")
    assert code == 30
    assert "the method sieve takes no forest" in shown.err
