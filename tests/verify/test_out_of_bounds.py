"""Tasks in which operators that would leave the bounds are disabled: every method answers for that task, or says unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings

from polvet.budget import Budget
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
