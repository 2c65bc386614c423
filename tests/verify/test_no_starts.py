"""A task without a start state is refused by everybody alike: about nothing, everything holds."""

from __future__ import annotations

import json

import pytest

from polvet.cli.app import run
from polvet.errors import InputError
from polvet.kernel.starts import Starts, drawable_starts
from polvet.model.task import TaskOptions
from polvet.sources import load_task
from polvet.verify.methods import METHODS

MODEL = """mdp
module m
  x : [0..9];
  z : [0..9];
  bad : bool;
  [go] x<9 -> (x'=x+1);
  [stay] true -> true;
endmodule
init true endinit
"""
REAL = """{"jani-version": 1, "name": "m", "type": "mdp", "actions": [{"name": "go"}],
"variables": [{"name": "x", "type": {"kind": "bounded", "base": "real", "lower-bound": 0, "upper-bound": 9}, "initial-value": 0}],
"automata": [{"name": "a", "locations": [{"name": "l"}], "initial-locations": ["l"], "edges": [
  {"location": "l", "action": "go", "destinations": [{"location": "l"}]}]}],
"system": {"elements": [{"automaton": "a"}]}}"""
EMPTY = (
    "x > 5 && x < 3",
    "x == 0 && z > 5 && z < 3",  # only values that matter to nobody
    "x + z == 40",
    "false",
)


@pytest.fixture
def files(tmp_path):
    model, policy = tmp_path / "walk.prism", tmp_path / "policy.json"
    model.write_text(MODEL, encoding="utf-8")
    policy.write_text(
        json.dumps({"format": "table/1", "inputs": ["x"], "outputs": ["go", "stay"], "rows": [], "default": "stay"}),
        encoding="utf-8",
    )
    return str(model), str(policy)


def refused(capsys, *arguments):
    code = run([*arguments, "--fail", "bad"])
    said = capsys.readouterr().err
    return code == 30 and "no state satisfies the start condition" in said


@pytest.mark.parametrize("start", EMPTY)
@pytest.mark.parametrize("method", METHODS.words)
def test_every_method_refuses_it(files, capsys, method, start):
    assert refused(capsys, "verify", *files, "--method", method, "--start", start)


@pytest.mark.parametrize("command", ["decide", "evaluate", "simulate", "faults", "gate", "compare", "fuzz", "debug"])
def test_every_command_refuses_it(files, capsys, tmp_path, command):
    model, policy = files
    policies = {"decide": [], "compare": [policy, policy]}.get(command, [policy])
    more = ["-o", str(tmp_path / "out")] if command == "debug" else []
    assert refused(capsys, command, model, *policies, *more, "--start", EMPTY[0])


@pytest.mark.parametrize(
    "words", [("--bound", "0.1"), ("--bound", "0.1", "--per-state"), ("--relative", "0.9")], ids=" ".join
)
def test_no_shield_is_made_for_it(files, capsys, words):
    assert refused(capsys, "permit", files[0], "--start", EMPTY[0], *words)


def test_the_condition_is_named(files):
    with pytest.raises(InputError, match="x > 5 && x < 3"):
        Starts.of(load_task(files[0], TaskOptions(start=EMPTY[0])))


def test_real_values_between_crossed_bounds_are_none(tmp_path):
    file = tmp_path / "real.jani"
    file.write_text(REAL, encoding="utf-8")
    assert Starts.of(load_task(file, TaskOptions(start="x > 3 && x < 5"))).count is None
    task = load_task(file, TaskOptions(start="x > 5 && x < 3"))
    for starts in (Starts.of, drawable_starts):
        with pytest.raises(InputError, match="no state satisfies"):
            starts(task)
