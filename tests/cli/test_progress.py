"""Long commands show how far they have got on a terminal, write it to `--log-json`, and are quiet everywhere else."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from polvet.cli.app import COMMANDS, run
from polvet.cli.progress import Meter
from polvet.domains.shipped import find_shipped
from tests.general.worlds import WORLDS

LINE = find_shipped("line-faulty")
PLAN = {
    "format": "fmp/1", "semantics": "deterministic", "variables": [{"name": "x"}], "control_states": ["q"], "initial": "q",
    "edges": [{"id": 0, "from": "q", "to": "q", "choices": [{"effects": {"x": -1}}]}],
}  # fmt: skip
JANITOR = ("janitor", "width=4", "height=4")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A place with the files that commands need."""
    found = tmp_path_factory.mktemp("long")
    (found / "plan.json").write_text(json.dumps(PLAN))
    blocks = WORLDS["blocks"]
    for name, text in (
        ("domain.pddl", blocks.domain),
        ("blocks.pddl", blocks.instance(3)),
        ("sketch.txt", blocks.policy),
        ("problem.qnp", "count\n1 n 1\n1 n 1\n1 n 0\n1\nfall\n1 n 1\n1 n 0\n"),
    ):
        (found / name).write_text(text)
    (found / "model.pm").write_text(
        "mdp\nmodule m\n x : [0..3] init 0;\n [a] x<3 -> 0.5:(x'=x+1) + 0.5:true;\nendmodule\n"
    )
    run(["domains", *JANITOR, "-o", str(found / "janitor.jani")])
    run(["faults", str(LINE.task), str(LINE.policy), "-o", str(found / "faults.json")])
    return found


LINE_BOTH = [str(LINE.task), str(LINE.policy)]
LONG = {
    "explore": (["{line}"], 0, "exploring"),
    "check": (["model.pm", "--property", "Pmax=? [F x=3]"], 0, "building"),
    "decide": (["{line}", "--all-starts"], 0, "deciding"),
    "train": (["{line}", "--kind", "trees", "--runs", "50", "--rounds", "2", "-o", "trained.json"], 0, "training"),
    "simulate": (["{line}", "{policy}", "--runs", "100"], None, "simulating"),
    "evaluate": (["{line}", "{policy}", "--starts", "50"], 10, "evaluating"),
    "fuzz": (["{line}", "{policy}", "--runs", "2000"], 10, "fuzzing"),
    "faults": (["{line}", "{policy}"], 10, "analysing"),
    "repair": (["{line}", "{policy}", "--faults", "faults.json", "-o", "repaired.json"], 0, "repairing"),
    "fence": (["{line}", "{policy}", "-o", "fenced.json"], 20, "looking for exits"),
    "compare": (["{line}", "{policy}", "{policy}"], None, "comparing"),
    "verify": (["{line}", "{policy}"], 10, "verifying"),
    "debug": (["{line}", "{policy}", "--starts", "50", "--iterations", "1", "-o", "{fresh}"], None, "debugging"),
    "permit": (["janitor.toml", "--bound", "0.1"], 0, "adding actions"),
    "learn": (["janitor.toml", "--cost", "{cost}", "--bound", "0.2", "--iterations", "2", "--episodes", "50"], None, "learning"),
    "terminates": (["plan.json"], 0, "looking for a proof"),
    "synthesize": (["problem.qnp"], 0, "looking for a policy"),
    "generalizes": (["sketch.txt", "blocks.pddl", "--domain", "domain.pddl"], 0, "following the rules"),
}  # fmt: skip
SHORT = {"info", "flatten", "certify", "domains", "report", "gate"}


def command_of(name, fresh):
    values = {"line": str(LINE.task), "policy": str(LINE.policy), "fresh": fresh, "cost": "fuel"}
    return [name, *(part.format(**values) for part in LONG[name][0])]


def on_a_terminal(command, folder):
    """Run with a pseudo terminal as stderr; return the exit code and what stood there."""
    ours, theirs = pty.openpty()
    shown = bytearray()

    def read():
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:
                return
            if not part:
                return
            shown.extend(part)

    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=theirs, env=environment) as process:
        os.close(theirs)
        reader = threading.Thread(target=read)
        reader.start()
        out, _ = process.communicate(timeout=120)
        reader.join(timeout=10)
    os.close(ours)
    return process.returncode, out.decode(), shown.decode(errors="replace")


def test_every_command_is_either_long_or_short():
    assert set(LONG) | SHORT == set(COMMANDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_a_long_command_shows_progress_and_logs_it(name, folder):
    log = folder / f"{name}.log"
    command = [sys.executable, "-m", "polvet", *command_of(name, f"{name}-seen"), "--json", "--log-json", str(log)]
    code, out, shown = on_a_terminal(command, folder)
    wanted, what = LONG[name][1:]
    assert code in ((0, 10, 20) if wanted is None else (wanted,)), shown
    assert json.loads(out)["verdict"]
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert records[0]["event"] == "begin"
    assert records[-1]["event"] == "end"
    for record in records:
        assert record["command"] == name
        assert record["seconds"] >= 0
        assert record["memory_mb"] > 0
        assert isinstance(record["counts"], dict)
    assert what in {record["what"] for record in records}
    assert records[0]["what"] in shown


@pytest.mark.parametrize("name", [name for name in LONG if name not in ("train", "debug", "learn", "repair")])
def test_without_a_terminal_stderr_stays_quiet(name, folder, capfd, monkeypatch):
    monkeypatch.chdir(folder)
    code = run(command_of(name, f"{name}-quiet"))
    assert code in (0, 10, 20)
    assert capfd.readouterr().err == ""


def test_a_log_that_cannot_be_written_is_an_input_error(capsys):
    assert run(["explore", str(LINE.task), "--log-json", "/proc/none/log"]) == 30
    assert "Choose another path for --log-json" in capsys.readouterr().err


def test_the_time_left_is_told_where_the_total_is_known():
    meter = Meter("decide", "deciding", "states", known_total=True)
    meter.begun -= 10
    meter(250, 1000)
    assert meter.seconds_left == pytest.approx(30, rel=0.1)
    assert "250 of 1,000 states" in meter.line()
    assert "left" in meter.line()
    open_ended = Meter("explore", "exploring", "states", known_total=False)
    open_ended(250, 1000)
    assert open_ended.seconds_left is None
    assert "left" not in open_ended.line()
    meter.tell("proving", lower=0.125)
    assert meter.record("progress")["counts"] == {"lower": 0.125}


@pytest.mark.slow
def test_names_with_markup_are_shown_as_they_are(folder, tmp_path):
    name = Path(tmp_path) / "[bold]x.jani"
    name.write_text((folder / "janitor.jani").read_text())
    code, _, shown = on_a_terminal([sys.executable, "-m", "polvet", "explore", str(name)], folder)
    assert code == 0, shown
