"""`polvet info`, `explore` and `check`: the contract of exit codes and JSON keys, and what wrong input looks like."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polvet.cli.app import run

COUNTER = """{
  "jani-version": 1, "name": "counter", "type": "mdp", "actions": [{"name": "up"}, {"name": "reset"}],
  "constants": [{"name": "N", "type": "int"}, {"name": "p", "type": "real", "value": 0.25}],
  "variables": [
    {"name": "x", "type": {"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": "N"}, "initial-value": 0},
    {"name": "cost", "type": "real", "transient": true, "initial-value": 0}
  ],
  "properties": [
    {"name": "top", "expression": {"op": "filter", "fun": "max", "states": {"op": "initial"}, "values":
      {"op": "Pmax", "exp": {"op": "F", "exp": {"op": "=", "left": "x", "right": "N"}}}}},
    {"name": "least", "expression": {"op": "filter", "fun": "max", "states": {"op": "initial"}, "values":
      {"op": "Emin", "exp": "cost", "accumulate": ["steps"], "reach": {"op": "=", "left": "x", "right": "N"}}}},
    {"name": "sure", "expression": {"op": "filter", "fun": "min", "states": {"op": "initial"}, "values":
      {"op": "≥", "left": {"op": "Pmin", "exp": {"op": "F", "exp": {"op": "=", "left": "x", "right": "N"}}}, "right": 1}}}
  ],
  "automata": [{"name": "A", "locations": [{"name": "l"}], "initial-locations": ["l"], "edges": [
    {"location": "l", "action": "up", "guard": {"exp": {"op": "<", "left": "x", "right": "N"}}, "destinations": [
      {"location": "l", "probability": {"exp": "p"}, "assignments": [
        {"ref": "x", "value": {"op": "+", "left": "x", "right": 1}}, {"ref": "cost", "value": 2}]},
      {"location": "l", "probability": {"exp": {"op": "-", "left": 1, "right": "p"}}, "assignments": [{"ref": "cost", "value": 1}]}]},
    {"location": "l", "action": "reset", "guard": {"exp": {"op": ">", "left": "x", "right": 0}}, "destinations": [
      {"location": "l", "assignments": [{"ref": "x", "value": 0}]}]}
  ]}],
  "system": {"elements": [{"automaton": "A"}]}
}"""


@pytest.fixture
def counter(tmp_path: Path) -> str:
    file = tmp_path / "counter.jani"
    file.write_text(COUNTER)
    return str(file)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict]:
    code = run([*arguments, "--json"])
    out = capsys.readouterr().out
    return code, json.loads(out)


def test_explore_counts_states_and_speaks_the_contract(counter, capsys):
    code, document = answer(capsys, "explore", counter, "--constants", "N=5")
    assert code == 0
    figures = document["figures"]
    assert (figures["states"], figures["choices"], figures["transitions"], figures["deadlocks"]) == (6, 10, 15, 0)
    assert {"verdict", "reason", "seconds", "seed", "certificate", "figures"} <= set(document)


def test_check_gives_bounds_around_the_exact_value(counter, capsys):
    code, document = answer(capsys, "check", counter, "--constants", "N=3", "--property", "least")
    # each step up costs 3 failures at 1 and one success at 2 on average: 5 per level
    assert code == 0
    assert document["figures"]["lower"] <= 15 <= document["figures"]["upper"]
    assert document["figures"]["upper"] - document["figures"]["lower"] <= 15e-6
    code, document = answer(capsys, "check", counter, "--constants", "N=3,p=1/7", "--property", "least", "--exact")
    assert document["figures"]["exact"] == str(3 * (6 + 2))


def test_check_writes_the_scheduler_that_attains_the_value(counter, tmp_path, capsys):
    file = tmp_path / "scheduler.json"
    assert run(["check", counter, "--constants", "N=3", "--property", "least", "--scheduler", str(file)]) == 0
    states = json.loads(file.read_text())["states"]
    assert [(one["state"]["x"], one["label"]) for one in states] == [(0, "up"), (1, "up"), (2, "up")]


def test_check_answers_yes_or_no(counter, capsys):
    code, document = answer(capsys, "check", counter, "--constants", "N=3", "--property", "sure")
    assert (code, document["figures"]["value"]) == (10, False)
    code, document = answer(capsys, "check", counter, "--constants", "N=3", "--property", "top")
    assert (code, document["figures"]["value"]) == (0, 1.0)


def test_check_reads_properties_in_prism_notation(counter, capsys):
    code, document = answer(capsys, "check", counter, "--constants", "N=3", "--property", "Pmin=? [F x=1]")
    assert (code, document["figures"]["value"]) == (0, 1.0)


def test_info_names_what_is_there(counter, capsys):
    code, document = answer(capsys, "info", counter, "--constants", "N=3")
    assert code == 0
    assert document["figures"]["labels"] == ["up", "reset"]
    assert document["figures"]["open_constants"] == ["N"]
    assert run(["info", counter]) == 0
    assert "to be given: N" in capsys.readouterr().out


def test_a_limit_is_unknown_with_partial_figures(counter, capsys):
    code, document = answer(capsys, "explore", counter, "--constants", "N=1000000", "--max-states", "1000")
    assert (code, document["verdict"]) == (20, "unknown")
    assert "1000 states" in document["reason"]
    assert document["figures"]["states"] > 1000
    code, document = answer(
        capsys, "check", counter, "--constants", "N=10000000", "--property", "top", "--time-limit", "0"
    )
    assert code == 20
    assert "time limit" in document["reason"]


UNBOUNDED = COUNTER.replace(
    '{"kind": "bounded", "base": "int", "lower-bound": 0, "upper-bound": "N"}', '"int"'
).replace('{"op": "<", "left": "x", "right": "N"}', "true")


def test_an_unbounded_state_space_ends_at_a_limit(tmp_path, capsys):
    file = tmp_path / "unbounded.jani"
    file.write_text(UNBOUNDED)
    code, document = answer(capsys, "explore", str(file), "--constants", "N=1", "--memory-limit", "5")
    assert (code, document["verdict"]) == (20, "unknown")
    assert "memory limit" in document["reason"]


WRONG: dict[str, tuple[list[str], str]] = {
    "a missing file": (["explore", "nowhere.jani"], "nowhere.jani: no such file"),
    "a folder": (["explore", "{folder}"], "is a folder"),
    "an unknown command": (["explor", "x"], "explor"),
    "an unknown option": (["explore", "{model}", "--fast"], "--fast"),
    "a missing argument": (["explore"], "TASK"),
    "an open constant": (["explore", "{model}"], "constant 'N' has no value. Give it with --constants N=VALUE"),
    "an unknown constant": (["explore", "{model}", "--constants", "M=2"], "no constant 'M'"),
    "a constant of the wrong type": (["explore", "{model}", "--constants", "N=0.5"], "not of type int"),
    "a constant that is no number": (["explore", "{model}", "--constants", "N=many"], "is no number"),
    "a constant without a value": (["explore", "{model}", "--constants", "N"], "NAME=VALUE"),
    "a constant given twice": (["explore", "{model}", "--constants", "N=1,N=2"], "given twice"),
    "empty bounds": (["explore", "{model}", "--constants", "N=-1"], "variables[0].type: the bounds [0, -1] are empty"),
    "huge numbers": (["explore", "{model}", "--constants", "N=99999999999999999999"], "64 bits"),
    "an unknown property": (["check", "{model}", "--constants", "N=2", "--property", "tpo"], "Did you mean 'top'?"),
    "a property with a hole": (["check", "{model}", "--constants", "N=2", "--property", "Pmax=? [F ]"], "--property"),
    "an unknown variable": (
        ["explore", "{model}", "--constants", "N=2", "--start", "y > 1"],
        "no variable or constant 'y'",
    ),
    "a start that is a number": (["explore", "{model}", "--constants", "N=2", "--start", "x + 1"], "not a bool"),
    "a broken expression": (["explore", "{model}", "--constants", "N=2", "--start", "x >"], "--start"),
    "a negative time limit": (["explore", "{model}", "--time-limit", "-1"], "time-limit"),
    "an odd way with bounds": (
        ["explore", "{model}", "--constants", "N=2", "--out-of-bounds", "clamp"],
        "error or disable",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_exits_30_with_one_line_that_helps(counter, tmp_path, capsys, name):
    arguments, message = WRONG[name]
    filled = [part.format(model=counter, folder=tmp_path) if "{" in part else part for part in arguments]
    assert run(filled) == 30
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.startswith("polvet: ")
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err


BROKEN_WHILE_RUNNING = {
    "a value out of bounds": (
        '"right": 1}}, {"ref": "cost"',
        '"right": 2}}, {"ref": "cost"',
        "'x' is assigned 2, outside [0, 1]",
    ),
    "probabilities off 1": (
        '{"op": "-", "left": 1, "right": "p"}',
        '{"op": "*", "left": "x", "right": "p"}',
        "are not a distribution",
    ),
    "a division by zero": ('"value": 2}', '"value": {"op": "/", "left": 1, "right": "x"}}', "division of 1.0 by zero"),
}


@pytest.mark.parametrize("name", BROKEN_WHILE_RUNNING)
def test_a_model_that_breaks_a_rule_names_edge_state_and_value(tmp_path, capsys, name):
    old, new, message = BROKEN_WHILE_RUNNING[name]
    assert old in COUNTER
    file = tmp_path / "broken.jani"
    file.write_text(COUNTER.replace(old, new))
    assert run(["check", str(file), "--constants", "N=1", "--property", "least"]) == 30
    err = capsys.readouterr().err
    assert message in err
    assert "broken.jani: automata[0].edges[0]" in err
    assert "x=0" in err


def test_out_of_bounds_operators_can_be_turned_off(tmp_path, capsys):
    file = tmp_path / "broken.jani"
    file.write_text(COUNTER.replace('"right": 1}}, {"ref": "cost"', '"right": 2}}, {"ref": "cost"'))
    code, document = answer(capsys, "explore", str(file), "--constants", "N=1", "--out-of-bounds", "disable")
    assert (code, document["figures"]["states"], document["figures"]["deadlocks"]) == (0, 1, 1)


def test_no_output_file_is_left_behind_by_a_failure(counter, tmp_path, capsys):
    before = set(tmp_path.iterdir())
    assert run(["explore", counter, "-o", str(tmp_path / "states.jsonl")]) == 30
    assert set(tmp_path.iterdir()) == before
    assert run(["explore", counter, "--constants", "N=2", "-o", str(tmp_path / "states.jsonl")]) == 0
    lines = (tmp_path / "states.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"x": 0}, {"x": 1}, {"x": 2}]


def test_the_installed_command_prints_one_json_document_and_nothing_else(counter):
    done = subprocess.run(
        [sys.executable, "-m", "polvet", "explore", counter, "--constants", "N=4", "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert json.loads(done.stdout)["figures"]["states"] == 5
    assert done.stderr == ""


@pytest.mark.slow
def test_ctrl_c_ends_a_long_command_at_once_with_a_message(tmp_path):
    file = tmp_path / "unbounded.jani"
    file.write_text(UNBOUNDED)
    with subprocess.Popen(
        [sys.executable, "-m", "polvet", "explore", str(file), "--constants", "N=1", "--memory-limit", "20000"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:  # fmt: skip
        statm = Path(f"/proc/{process.pid}/statm")
        for _ in range(600):  # until the kernel is at work: it fills memory
            time.sleep(0.1)
            if int(statm.read_text().split()[1]) * 4096 > 300 * 2**20:
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 20
    assert out == ""
    assert err == "polvet: interrupted; what was written before is kept.\n"


def test_a_task_file_brings_model_constants_and_conditions(counter, tmp_path, capsys):
    task = tmp_path / "task.toml"
    task.write_text('model = "counter.jani"\nstart = "x == 2"\nfail = "x == 0"\n[constants]\nN = 3\n')
    code, document = answer(capsys, "explore", str(task))
    assert (code, document["figures"]["initial"]) == (0, 1)
    task.write_text('model = "counter.jani"\nstrat = "x == 2"\n[constants]\nN = 3\n')
    assert run(["explore", str(task)]) == 30
    assert "Did you mean 'start'?" in capsys.readouterr().err
