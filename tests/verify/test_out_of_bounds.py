"""Tasks in which operators that would leave the bounds are disabled: every method answers for that task, or says unknown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings

from polvet.budget import Budget
from polvet.cli.app import run
from polvet.errors import InputError
from polvet.model.network import OutOfBounds
from polvet.model.restrict import restrict
from polvet.model.semantics import Semantics
from polvet.model.task import TaskOptions
from polvet.policy.binding import fit
from polvet.policy.compiled import compile_policy
from polvet.policy.tables import Table
from polvet.safety.projections import iter_lost
from polvet.safety.restrictions import iter_won
from polvet.sources import load_task
from polvet.verdict import Verdict
from polvet.verify.ic3 import IC3
from polvet.verify.induction import INDUCTION
from polvet.verify.methods import METHODS
from polvet.verify.portfolio import verify
from polvet.verify.projection import PROJECTION
from polvet.verify.verdicts import Unknown
from tests.policy.worlds import worlds
from tests.verify.oracle import TooMany, truth

MODEL = """mdp
module m
  x : [0..3] init 0;
  y : [0..3] init 0;
  bad : bool init false;
  [up] !bad -> (x'=x+1);
  [down] !bad -> (bad'=true);
endmodule
"""


@pytest.fixture
def task(tmp_path):
    file = tmp_path / "edge.prism"
    file.write_text(MODEL, encoding="utf-8")
    return load_task(file, TaskOptions(fail="bad", out_of_bounds=OutOfBounds.DISABLE))


def always(task, label):
    """A policy that prefers the label and takes the other one where that is not applicable."""
    return fit(task, Table(("x",), ("up", "down"), {}, ("up", "down").index(label)))


def test_the_interpreter_asks_the_network(task):
    assert Semantics(task.network).applicable((3, 0, False)) == ("down",)
    with pytest.raises(InputError, match="outside"):
        Semantics(replace(task.network, out_of_bounds=OutOfBounds.ERROR)).moves((3, 0, False))


@pytest.mark.parametrize("method", METHODS.words)
def test_no_method_answers_for_the_other_task(task, method):
    found = verify(compile_policy(always(task, "up")), method=method)
    assert found.verdict is not Verdict.SAFE
    if method in ("auto", "explicit"):
        assert found.verdict is Verdict.UNSAFE


@pytest.mark.parametrize("method", [PROJECTION, INDUCTION, IC3], ids=lambda method: method.name)
def test_methods_that_forget_values_refuse_such_a_task_themselves(task, method):
    found = method(compile_policy(always(task, "up")))
    assert isinstance(found, Unknown)
    assert "disabled" in found.reason


def test_smaller_games_and_tasks_tell_nothing(task):
    assert list(iter_lost(task)) == []
    assert list(iter_won(task)) == []
    with pytest.raises(InputError, match="bounds decide"):
        restrict(task, {"x", "bad"})


@given(worlds())
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_tasks_get_the_interpreters_verdict(world):
    assume(world is not None)
    network = replace(world.fitted.task.network, out_of_bounds=OutOfBounds.DISABLE)
    fitted = replace(world.fitted, task=replace(world.fitted.task, network=network))
    try:
        expected = truth(fitted, world.starts).verdict
    except (InputError, TooMany):
        assume(False)
    for method in METHODS.words:
        found = verify(compile_policy(fitted), method=method, budget=Budget(seconds=5.0))
        assert found.verdict is Verdict.UNKNOWN or found.verdict.value == expected, method


STAGED = [
    {"ref": "x", "value": {"op": "+", "left": "x", "right": 1}, "index": 0},
    {"ref": "y", "value": {"op": "+", "left": "y", "right": "x"}, "index": 1},
]
FRACTION = {"op": "/", "left": 1, "right": {"op": "+", "left": 1, "right": "x"}}


@pytest.mark.parametrize("kind", ["staged", "fraction"])
def test_a_method_whose_proof_the_checker_cannot_read_says_so_and_explicit_search_answers(tmp_path, capsys, kind):
    """Assignments that follow one another, or probabilities that are fractions of variables, with operators disabled."""
    destinations = [{"location": "l", "assignments": STAGED if kind == "staged" else STAGED[:1]}]
    if kind == "fraction":
        rest = {"op": "-", "left": 1, "right": FRACTION}
        destinations = [{**destinations[0], "probability": {"exp": part}} for part in (FRACTION, rest)]
    numbers = {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": 4}
    edge = {"location": "l", "action": "a", "destinations": destinations}
    automaton = {"name": "m", "locations": [{"name": "l"}], "initial-locations": ["l"], "edges": [edge]}
    document = {
        "jani-version": 1,
        "name": "m",
        "type": "mdp",
        "variables": [{"name": name, "type": numbers, "initial-value": 0} for name in "xy"],
        "actions": [{"name": "a"}],
        "automata": [automaton],
        "system": {"elements": [{"automaton": "m"}]},
    }
    (tmp_path / "m.jani").write_text(json.dumps(document))
    rules = {"format": "rules/1", "rules": [{"when": "true", "action": "a"}]}
    (tmp_path / "p.json").write_text(json.dumps(rules))
    # By hand: y is x's sum, so that x=3 (y would be 6) is never reached; without y nothing stops before x=4.
    words = [str(tmp_path / "m.jani"), str(tmp_path / "p.json"), "--fail", "x=3", "--out-of-bounds", "disable"]
    assert run(["verify", *words, "--method", "abstraction"]) == 20
    assert "operators that leave the bounds are disabled, and" in capsys.readouterr().out
    assert run(["verify", *words]) == (0 if kind == "staged" else 10)
