"""Conditions with holes, disabled operators, regions proved beside an unsafe run, and one replay for all engines."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from polvet.cli.app import run
from polvet.errors import Where
from polvet.model.infix import dump_expression, parse_expression
from polvet.model.network import OutOfBounds
from polvet.model.task import condition
from polvet.policy.binding import fit, load_fitted
from polvet.policy.compiled import compile_policy
from polvet.policy.networks import network_of
from polvet.policy.runs import End, Inspection, Judgement, Run
from polvet.policy.save import save_policy
from polvet.sources import TaskOptions, load_task
from polvet.verify.abstraction import ABSTRACTION, abstraction
from polvet.verify.portfolio import verify
from polvet.verify.replay import replay
from polvet.verify.unrolling import UNROLLING
from polvet.verify.verdicts import Safe, Unknown, Unsafe

MODEL = """mdp
module m
  x : [0..9] init 5;
  y : [0..9] init 0;
  [on] x < 9 -> (x'=x+1);
  [up] y < 9 & x > 4 -> (y'=y+1);
endmodule
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "m.prism").write_text(MODEL)
    save_policy(network_of([(np.zeros((2, 2)), np.array([1.0, 0.0]))], ["x", "y"], ["on", "up"]), tmp_path / "p.nnet")
    return tmp_path


def bound_of(files, **options):
    task = load_task(files / "m.prism", TaskOptions(**options))
    return compile_policy(load_fitted(task, files / "p.nnet"))


@pytest.mark.parametrize("goal", ["x != 5", "x != 5 && y != 7", "!(x == 5 && y <= 3)", "x <= 4 || x >= 6"], ids=str)
def test_conditions_with_holes_end_runs_in_the_abstraction(files, goal):
    """Runs start at x = 5 and end one step on; the states beyond, where y may be 1, are never entered."""
    bound = bound_of(files, start="x == 5 && y == 0", fail="x == 7", goal=goal)
    found = ABSTRACTION(bound)
    assert isinstance(found, Safe), getattr(found, "reason", found)


def test_conditions_with_holes_are_never_wrong(files):
    """Against exhaustive search, with random conditions of this kind."""
    rng = random.Random(3)
    decided = 0
    for _ in range(30):
        a, b, c, d = (rng.randrange(10) for _ in range(4))
        bound = bound_of(
            files, start=f"x <= {a} && y == {b}", fail=f"x != {c} && x >= {d}", goal=f"x == {c + 1} || y != {b}"
        )
        found = ABSTRACTION(bound)
        starts = bound.compiled.pack([s for s in _states() if s[0] <= a and s[1] == b])
        truth = Judgement.UNSAFE in Inspection(bound).judge(starts)
        if not isinstance(found, Unknown):
            decided += 1
            assert isinstance(found, Unsafe) == truth
    assert decided > 10


def _states():
    return [(x, y) for x in range(10) for y in range(10)]


def test_bounded_search_says_that_operators_are_disabled(tmp_path):
    """At 8 one outcome leaves the bounds: the whole operator is disabled, and its other outcome does not reach 9."""
    (tmp_path / "m.prism").write_text(
        "mdp\nmodule m\n  x : [0..9] init 8;\n  [on] x < 9 -> 0.5:(x'=x+2) + 0.5:(x'=x+1);\nendmodule\n"
    )
    task = load_task(tmp_path / "m.prism", TaskOptions(fail="x == 9", out_of_bounds=OutOfBounds.DISABLE))
    policy = network_of([(np.zeros((1, 1)), np.zeros(1))], ["x"], ["on"])
    bound = compile_policy(fit(task, policy))
    found = UNROLLING(bound)
    assert isinstance(found, Unknown)
    assert found.reason == "unrolling does not apply: operators that leave the bounds are disabled"
    assert isinstance(verify(bound, method="explicit"), Safe)


def test_regions_proved_safe_are_told_beside_an_unsafe_run(files, capsys):
    """From x >= 6 nothing leads down again, so that these starts are safe although x = 3 is not."""
    bound = bound_of(files, start="x == 3 || x >= 6", fail="x == 5")
    network = bound.task.network
    given = ["x <= 2", "x <= 3", "x <= 4", "x <= 5", "y <= 0"]
    found = abstraction([condition(network, parse_expression(text), Where("test")) for text in given])(bound)
    assert isinstance(found, Unsafe)
    assert found.proved_starts
    semantics = bound.compiled.semantics
    starts = semantics.compile(condition(network, parse_expression("x == 3 || x >= 6"), Where("test")))
    safe = [state for state in _states() if starts(state) and state[0] >= 6]
    told = set()
    for region in found.proved_starts:
        holds = semantics.compile(condition(network, region, Where("test")))
        told |= {state for state in _states() if starts(state) and holds(state)}
    assert told
    assert told <= set(safe)
    (files / "predicates.txt").write_text("\n".join(given))
    command = [
        "verify",
        str(files / "m.prism"),
        str(files / "p.nnet"),
        "--start",
        "x == 3 || x >= 6",
        "--fail",
        "x == 5",
        "--predicates",
        str(files / "predicates.txt"),
    ]
    assert run([*command, "--json"]) == 10
    answer = json.loads(capsys.readouterr().out)
    assert answer["proved_starts"] == [dump_expression(region) for region in found.proved_starts]
    assert run(command) == 10
    assert "start regions" in capsys.readouterr().out


def test_a_run_that_goes_on_after_its_end_does_not_replay(files):
    bound = bound_of(files, start="x == 5", fail="x == 7", goal="x == 6")
    wrong = Run(((5, 0), (6, 0), (7, 0)), ("on", "on"), End.FAIL)
    with pytest.raises(RuntimeError, match="runs end in"):
        replay(bound, wrong)
    replay(bound_of(files, start="x == 5", fail="x == 7"), wrong)
    for states, actions, words in (
        (((4, 0), (5, 0)), ("on",), "no start state"),
        (((5, 0), (5, 1)), ("up",), "chooses 'on', not 'up'"),
        (((5, 0), (7, 0)), ("on",), "does not lead"),
        (((5, 0), (6, 0)), ("on",), "not in fail"),
    ):
        with pytest.raises(RuntimeError, match=words):
            replay(bound_of(files, start="x == 5", fail="x == 7"), Run(states, actions, End.FAIL))


def test_a_second_state_is_refused_rather_than_forgotten(files, capsys):
    command = ["--state", "x=1,y=0", "--state", "x=2,y=0"]
    assert run(["decide", str(files / "m.prism"), "--fail", "x == 9", *command]) == 30
    assert "'x=1,y=0' and 'x=2,y=0': one state is asked for" in capsys.readouterr().err
    assert run(["simulate", str(files / "m.prism"), str(files / "p.nnet"), *command]) == 30
    assert run(["decide", str(files / "m.prism"), "--fail", "x == 9 && y == 9", *command[:2]]) in (0, 10)
    capsys.readouterr()


def test_methods_agree_and_certificates_hold_where_the_goal_has_holes(files):
    bound = bound_of(files, start="x == 5 && y == 0", fail="x == 7", goal="x != 5")
    for method in ("abstraction", "explicit", "ic3"):
        assert isinstance(verify(bound, method=method), Safe), method
    command = ["verify", str(files / "m.prism"), str(files / "p.nnet"), "--method", "abstraction"]
    command += ["--start", "x == 5 && y == 0", "--fail", "x == 7", "--goal", "x != 5", "-o", str(files / "c.json")]
    assert run(command) == 0
    given = ["--task", str(files / "m.prism"), "--policy", str(files / "p.nnet"), "--allow-options"]
    assert run(["certify", str(files / "c.json"), *given]) == 0
