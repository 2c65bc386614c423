"""`polvet decide` and `polvet certify`: the contract with scripts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from polvet.cli.app import run
from polvet.safety.algorithms import ALGORITHMS

WALK = """
mdp
module m
  x : [0..9] init 4;
  wind : bool init false;
  [up]   x<9 -> 0.5:(x'=x+1) + 0.5:(wind'=true);
  [down] x>0 -> (x'=x-1);
  [stay] x<=2 -> true;
  []     wind & x<9 -> (x'=x+1) & (wind'=false);
endmodule
"""
SEARCHES = tuple(algorithm.name for algorithm in ALGORITHMS.values() if algorithm.search)


@pytest.fixture
def walk(tmp_path: Path) -> Path:
    path = tmp_path / "walk.prism"
    path.write_text(WALK, encoding="utf-8")
    return path


def ask(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    """Return the exit code and the one JSON document on stdout."""
    code = run([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("algorithm", SEARCHES)
def test_one_state_is_decided_with_evidence(
    algorithm: str, walk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for state, code, kind in (("x=4,wind=false", 0, "safe-policy"), ("x=8,wind=true", 10, "unsafe-rank")):
        file = tmp_path / "certificate.json"
        found, answer = ask(
            capsys, "decide", walk, "--fail", "x == 9", "--state", state, "--algorithm", algorithm, "-o", file
        )
        assert found == code
        assert answer["verdict"] == {0: "safe", 10: "unsafe"}[code]
        (row,) = answer["figures"]["states"]
        assert row["safe"] is (code == 0)
        assert row["expanded"] > 0
        assert answer["certificate"] == str(file)
        assert json.loads(file.read_text())["kind"] == kind
        accepted, checked = ask(capsys, "certify", file, "--task", walk, "--fail", "x == 9")
        assert (accepted, checked["verdict"]) == (0, "accepted")


def test_a_small_certificate_is_in_the_answer(walk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, answer = ask(capsys, "decide", walk, "--fail", "x == 9", "--state", "x=8,wind=true")
    assert answer["certificate"]["kind"] == "unsafe-rank"


def test_all_starts_are_the_default_and_certificates_cover_them(
    walk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = ask(capsys, "decide", walk, "--fail", "x == 9", "--start", "true", "--certificates", tmp_path / "c")
    assert code == 10
    figures = answer["figures"]
    assert (figures["safe"], figures["unsafe"], len(figures["states"])) == (17, 3, 20)
    for path in answer["certificate"].values():
        assert ask(capsys, "certify", path, "--task", walk, "--fail", "x == 9", "--start", "true")[0] == 0
    assert run(["decide", str(walk), "--fail", "x == 9"]) == 0
    assert "1 safe" in capsys.readouterr().out


def test_text_says_how_many_states_are_what(walk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["decide", str(walk), "--fail", "x == 9", "--start", "true"]) == 10
    shown = capsys.readouterr().out
    assert shown.startswith("unsafe\n")
    assert "17 safe, 3 unsafe" in shown


def test_states_come_from_files_of_states_and_of_runs(
    walk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "states.jsonl"
    runs = {"states": [{"x": 7, "wind": True}, {"x": 8, "wind": True}], "actions": ["up"], "end": "limit"}
    file.write_text('{"x": 1, "wind": false}\n' + json.dumps(runs) + '\n{"state": {"x": 9, "wind": true}}\n')
    _, answer = ask(capsys, "decide", walk, "--fail", "x == 9", "--states", file)
    assert [row["safe"] for row in answer["figures"]["states"]] == [True, True, False, False]


def test_a_limit_is_named_and_gives_exit_code_20(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "endless.prism"
    path.write_text("mdp\nmodule m\n n : int init 0;\n [up] true -> (n'=n+1);\nendmodule\n", encoding="utf-8")
    for option, value, word in (("--max-states", 1000, "1000 states"), ("--time-limit", 0.2, "time limit")):
        code, answer = ask(capsys, "decide", path, "--fail", "n < 0", option, value)
        assert (code, answer["verdict"]) == (20, "unknown")
        assert word in answer["reason"]
        assert answer["figures"]["states"][0]["safe"] is None


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--state", "x=99,wind=false"], "outside"),
        (["--state", "x=4"], "no value for wind"),
        (["--state", "x=4,y=2,wind=true"], "no variable 'y'"),
        (["--state", "nonsense"], "NAME=VALUE"),
        (["--state", "x=4,wind=false", "--all-starts"], "several"),
        (["--algorithm", "magic"], "magic"),
        (["--order", "policy"], "--policy"),
        (["--radius", "3"], "--algorithm tarjan"),
        (["--workers", "many"], "--workers"),
        (["--states", "missing.jsonl"], "no such file"),
        (["--bound", "2"], "probability"),
        (["--fail", "x +"], "--fail"),
    ],
)
def test_wrong_input_exits_30_and_says_what_to_do(
    arguments: list[str], word: str, walk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fail = [] if "--fail" in arguments else ["--fail", "x == 9"]
    assert run(["decide", str(walk), *fail, *arguments]) == 30
    assert word in capsys.readouterr().err


def test_the_radius_makes_a_verdict_unknown_not_safe(walk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = ask(
        capsys, "decide", walk, "--fail", "x == 9", "--state", "x=4,wind=false", "--algorithm", "tarjan", "--radius", 1
    )
    assert code == 20
    assert "radius" in answer["reason"]


def test_a_bound_on_the_failure_probability(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "coin.prism"
    path.write_text(
        "mdp\nmodule m\n s : [0..2] init 0;\n [a] s=0 -> 0.1:(s'=1) + 0.9:(s'=2);\n [b] s=0 -> 0.3:(s'=1)+0.7:(s'=2);\n"
        "endmodule\n",
        encoding="utf-8",
    )
    for bound, code in (("0.1", 0), ("1/10", 0), ("0.0999999999999999", 10), ("0", 10), ("1", 0)):
        assert ask(capsys, "decide", path, "--fail", "s == 1", "--state", "s=0", "--bound", bound)[0] == code


def test_a_batch_goes_on_where_it_was_stopped(walk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "decisions.jsonl"
    question = ["decide", walk, "--fail", "x == 9", "--start", "true", "-o", out]
    _, first = ask(capsys, *question)
    lines = out.read_text().splitlines()
    assert len(lines) == 21
    # Killed after ten states, in the middle of a line.
    out.write_text("\n".join(lines[:11]) + "\n" + lines[11][:17])
    _, second = ask(capsys, *question)
    assert second["figures"]["resumed"] == 10
    assert [row["safe"] for row in second["figures"]["states"]] == [row["safe"] for row in first["figures"]["states"]]
    assert len(out.read_text().splitlines()) == 21
    assert run(["decide", str(walk), "--fail", "x == 8", "-o", str(out)]) == 30
    assert "same question" in capsys.readouterr().err


GRID = """
mdp
module m
  x : [0..399] init 0;
  y : [0..399] init 0;
  [right] x<399 -> 0.5:(x'=x+1) + 0.5:(y'=min(399,y+1));
  [up]    y<399 -> (y'=y+1);
  [home]  true -> (x'=0) & (y'=0);
endmodule
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_a_killed_batch_of_a_hundred_thousand_states_loses_at_most_a_portion(tmp_path: Path) -> None:
    model, states, out = tmp_path / "grid.prism", tmp_path / "states.jsonl", tmp_path / "out.jsonl"
    model.write_text(GRID, encoding="utf-8")
    with states.open("w") as stream:
        for k in range(100_000):
            stream.write(json.dumps({"x": k % 400, "y": (k // 400) % 400}) + "\n")
    command = [sys.executable, "-m", "polvet.cli.app", "decide", str(model), "--fail", "x == 399 & y < 399".replace("&", "&&"),
               "--states", str(states), "-o", str(out), "--memory-limit", "400", "--json"]  # fmt: skip
    command[1:3] = ["-c", "from polvet.cli import main; main()"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not out.exists() or out.stat().st_size < 200_000):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    written = out.read_text().count("\n") - 1
    assert 0 < written < 100_000
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    assert done.returncode == 10, done.stderr
    assert answer["figures"]["resumed"] >= written - 1
    assert len(answer["figures"]["states"]) == 100_000
    # x = 399 fails unless y = 399; from everywhere else one can go home for ever.
    for row in answer["figures"]["states"]:
        assert row["safe"] is not (row["state"]["x"] == 399 and row["state"]["y"] < 399)


def write_table(path: Path, action: str) -> Path:
    """Write the policy that always chooses one label."""
    rows = {
        "format": "table/1",
        "inputs": ["x", "wind"],
        "outputs": ["up", "down", "stay"],
        "rows": [],
        "default": action,
    }
    path.write_text(json.dumps(rows))
    return path


def test_a_policy_orders_the_actions(walk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = ["decide", walk, "--fail", "x == 9", "--state", "x=2,wind=false"]
    stays = write_table(tmp_path / "stay.json", "stay")
    _, ordered = ask(capsys, *question, "--order", "policy", "--policy", stays)
    _, plain = ask(capsys, *question)
    assert ordered["verdict"] == plain["verdict"] == "safe"
    assert ordered["figures"]["expanded"] == 1 < plain["figures"]["expanded"]  # staying is safe at once


def test_a_run_of_a_policy_is_certified(walk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from polvet.files import sha256
    from polvet.model.task import TaskOptions
    from polvet.sources import load_task

    policy = write_table(tmp_path / "up.json", "up")
    states = [{"x": x, "wind": False} for x in range(4, 10)]
    run_ = {
        "kind": "run", "task_sha256": load_task(walk, TaskOptions(fail="x == 9")).sha256, "options": {"fail": "x == 9"},
        "policy_sha256": sha256(policy), "states": states, "actions": ["up"] * 5, "end": "fail",
    }  # fmt: skip
    file = tmp_path / "run.json"
    file.write_text(json.dumps(run_))
    assert ask(capsys, "certify", file, "--task", walk, "--policy", policy, "--fail", "x == 9")[0] == 0
    assert run(["certify", str(file), "--task", str(walk), "--fail", "x == 9"]) == 30
    other = write_table(tmp_path / "down.json", "down")
    assert ask(capsys, "certify", file, "--task", walk, "--policy", other, "--fail", "x == 9")[0] == 10
    file.write_text(json.dumps(run_ | {"policy_sha256": sha256(other)}))
    code, answer = ask(capsys, "certify", file, "--task", walk, "--policy", other, "--fail", "x == 9")
    assert code == 10
    assert "chooses 'down'" in answer["reason"]


@pytest.mark.parametrize("more", [["--bound", "0.1"], ["--algorithm", "propagate-bdd"]])
def test_what_runs_on_one_machine_says_so(walk: Path, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["decide", str(walk), "--fail", "x == 9", "--workers", "ray:auto", *more]) == 30
    assert "run on one machine" in capsys.readouterr().err


def test_without_a_limit_most_of_the_machine_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    import polvet
    from polvet import budget
    from polvet.domains import generate
    from polvet.system import resident_bytes

    _, file = generate("one-way-line", n=30, p=30).write(tmp_path / "line.jani")
    line = {f"location_load_{k}": 1 for k in range(29)} | {"location_load_29": 0}
    start = {**line, "truck_0": 0, "truck_load_0": 1, "truck_vel_0": 0, "aux_vel": 1}
    doomed = {**start, "truck_0": 29, "truck_vel_0": 3}
    small = tmp_path / "states.jsonl"
    small.write_text("".join(json.dumps(state) + "\n" for state in (start, doomed)), encoding="utf-8")
    most = resident_bytes() + (40 << 20)
    monkeypatch.setattr(budget, "physical_bytes", lambda: int(most / budget.PART_OF_MACHINE))
    assert run(["decide", str(file), "--states", str(small), "--workers", "1"]) == 10
    said = capsys.readouterr().out
    assert "(memory limit of " in said
    assert "1 unsafe, 1 unknown" in said
    found = polvet.load(file).decide([start, doomed], workers=1)
    assert found.safe == (None, False)
    assert found.limit == "memory"
    assert run(["decide", str(file), "--states", str(small), "--workers", "1", "--json"]) == 10
    assert "memory limit of " in json.loads(capsys.readouterr().out)["reason"]
