"""A time limit ends a command wherever it is: reading, drawing starts, searching, proving, checking.

What is measured is the CPU time of the command's own process, with three times the room that is promised: a busy machine
makes a command wait, not compute.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polvet.cli.app import run
from polvet.cli.limits import Net, limit_sentence
from polvet.domains.shipped import find_shipped
from polvet.errors import LimitReached

LINE = find_shipped("line-faulty")
WIDE = """mdp
module m
  x : [0..1000000000000];
  z : [0..1000000000000];
  bad : bool;
  [go] x < z -> (x'=x+1);
  [stop] true -> true;
endmodule
init x < z & !bad endinit
"""
GOING = {"format": "rules/1", "rules": [{"when": "true", "action": "go"}]}


def cpu_seconds(folder: Path, *arguments: str) -> tuple[int, float, str]:
    """Return how the command ended, how long its process computed, and what it said."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "polvet", *arguments], cwd=folder, capture_output=True, text=True, env=environment,
        timeout=300,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.returncode, spent, done.stdout + done.stderr


def must_stop(folder: Path, limit: float, *arguments: str) -> str:
    """Return what the command said when its limit came."""
    code, spent, text = cpu_seconds(folder, *arguments, "--time-limit", f"{limit:g}")
    assert code == 20, text
    assert f"time limit of {limit:g} s" in text, text
    assert spent < 3 * (1.1 * limit + 2), f"{spent:.1f} s of CPU time: {text}"
    return text


def plan(ends: list[tuple[int, int]], variables: int, rng: random.Random, *, guarded: bool) -> dict[str, object]:
    """Return a plan in which every edge lowers one counter and raises the next."""
    made: list[dict[str, object]] = []
    for number, (source, target) in enumerate(ends):
        down = rng.randrange(variables)
        up = (down + 1) % variables
        effects = {f"x{down}": -rng.randrange(1, 4), f"x{up}": rng.randrange(1, 4)}
        made.append({"id": number, "from": f"q{source}", "to": f"q{target}", "choices": [{"effects": effects}]})
        if guarded:
            room, stock = rng.randrange(10, 25), rng.randrange(1, 5)
            made[-1]["guard_dnf"] = [[[f"x{up}", "<=", room], [f"x{down}", ">=", stock]]]
    names = sorted({f"q{end}" for pair in ends for end in pair})
    variables_ = [{"name": f"x{k}", "lower": 0} for k in range(variables)]
    return {"format": "fmp/1", "variables": variables_, "control_states": names, "initial": ["q0"], "edges": made}


def ring(size: int, more: int, rng: random.Random) -> list[tuple[int, int]]:
    """Return the edges of a ring with chords."""
    chords = [(rng.randrange(size), rng.randrange(size)) for _ in range(more)]
    return [*((k, (k + 1) % size) for k in range(size)), *chords]


@pytest.mark.slow
def test_gensieve_ends_in_time(tmp_path):
    rng = random.Random(0)
    (tmp_path / "plan.json").write_text(json.dumps(plan(ring(1500, 4500, rng), 6, rng, guarded=False)))
    must_stop(tmp_path, 2, "terminates", "plan.json", "--method", "gensieve")


@pytest.mark.slow
def test_a_sketch_is_read_in_time(tmp_path):
    rng, flags, numbers = random.Random(2), [f"b{k}" for k in range(14)], [f"n{k}" for k in range(14)]
    rules = []
    for _ in range(30):
        needs = [rng.choice([flag, f"!{flag}"]) for flag in rng.sample(flags, 3)]
        lower = rng.choice(numbers)
        does = [rng.choice([flag, f"!{flag}"]) for flag in rng.sample(flags, 3)]
        does += [f"{other}-up" for other in rng.sample([one for one in numbers if one != lower], 2)]
        rules.append(f"{', '.join([*needs, f'{lower} > 0'])} -> {', '.join([*does, f'{lower}-down'])}")
    features = f"boolean {' '.join(flags)}\nnumeric {' '.join(numbers)}\n"
    (tmp_path / "rules.txt").write_text(features + "\n".join(rules) + "\n")
    must_stop(tmp_path, 1.5, "terminates", "rules.txt")


def test_start_states_are_counted_in_time(tmp_path):
    (tmp_path / "wide.prism").write_text(WIDE)
    (tmp_path / "go.json").write_text(json.dumps(GOING))
    must_stop(tmp_path, 1.5, "verify", "wide.prism", "go.json", "--fail", "bad", "--method", "explicit")


def test_start_states_are_drawn_in_time(tmp_path):
    text = must_stop(tmp_path, 1.5, "evaluate", str(LINE.task), str(LINE.policy), "--start", "true",
                     "--starts", "1000000000000")  # fmt: skip
    assert "--time-limit" in text


def test_lessons_of_a_teacher_end_in_time(tmp_path):
    must_stop(tmp_path, 1.5, "train", str(LINE.task), "--kind", "trees", "--teacher", "random", "--runs", "1000000000",
              "-o", "policy.json")  # fmt: skip
    assert not (tmp_path / "policy.json").exists()


@pytest.mark.slow
def test_a_network_learns_no_longer_than_it_may(tmp_path):
    pytest.importorskip("torch")
    must_stop(tmp_path, 4, "train", str(LINE.task), "--kind", "mlp", "--steps", "1000000000", "-o", "policy.onnx")


def test_start_states_are_counted_in_time_from_python(tmp_path):
    import polvet

    (tmp_path / "wide.prism").write_text(WIDE)
    (tmp_path / "go.json").write_text(json.dumps(GOING))
    (tmp_path / "faults.json").write_text('{"format": "faults/1", "faults": []}')
    task = polvet.load(tmp_path / "wide.prism", fail="bad")
    policy = task.policy(tmp_path / "go.json")
    for ask in (
        lambda: task.decide(time_limit=0.3),
        lambda: polvet.load(tmp_path / "wide.prism", start="x < z").explore(time_limit=0.3),
        lambda: policy.simulate(runs=5, time_limit=0.3),
    ):
        with pytest.raises(LimitReached, match=r"time limit of 0\.3 s"):
            ask()
    better = policy.repair(tmp_path / "faults.json", time_limit=0.3)
    assert "time limit of 0.3 s" in str(better.repaired.not_kept)


def test_a_repair_says_that_time_was_over_before_runs_were_kept(tmp_path, capsys):
    (tmp_path / "wide.prism").write_text(WIDE)
    (tmp_path / "go.json").write_text(json.dumps(GOING))
    (tmp_path / "faults.json").write_text('{"format": "faults/1", "faults": []}')
    files = [str(tmp_path / name) for name in ("wide.prism", "go.json")]
    assert (
        run(["repair", *files, "--fail", "bad", "--faults", str(tmp_path / "faults.json"), "--time-limit", "0.3"]) == 0
    )
    shown = capsys.readouterr()
    assert "no runs are kept: " in shown.err
    assert "time limit of 0.3 s" in shown.err
    assert shown.out.startswith("repaired")


@pytest.mark.slow
def test_permit_ends_in_time_with_what_it_has(tmp_path):
    made = tmp_path / "field.jani"
    assert run(["domains", "comexp", "width=9", "height=9", "-o", str(made)]) == 0
    code, spent, text = cpu_seconds(
        tmp_path, "permit", "field.toml", "--bound", "0.3", "--time-limit", "4", "--attempts", "100000"
    )
    assert code in (0, 20), text
    assert spent < 3 * (1.1 * 4 + 2), text


@pytest.mark.slow
def test_guarded_plans_have_a_limit_of_their_own_and_say_what_was_tried(tmp_path, monkeypatch):
    from polvet.errors import Where
    from polvet.policy.finite_memory.fmp_json import parse_fmp
    from polvet.termination.decide import terminates
    from polvet.termination.verdicts import Unknown

    monkeypatch.setattr("polvet.termination.guards.MOST_SECONDS", 0.5)
    for seed in range(60):  # most are decided sooner, some give up for other reasons
        rng = random.Random(seed)
        found = terminates(parse_fmp(plan(ring(6, 6, rng), 3, rng, guarded=True), Where("plan")))
        if isinstance(found, Unknown) and found.limit == "time":
            break
    assert isinstance(found, Unknown)
    assert found.limit == "time"
    assert "time limit of 0.5 s reached" in found.reason
    assert found.figures["tried"][:2] == ["without guards", "a ranking bounded by guards"]


def test_certify_stops_without_a_verdict(tmp_path):
    assert run(["verify", str(find_shipped("blocks").task), str(find_shipped("blocks").policy), "--method", "explicit",
                "-o", str(tmp_path / "safe.json")]) == 0  # fmt: skip
    code, _, text = cpu_seconds(
        tmp_path, "certify", "safe.json", "--task", str(find_shipped("blocks").task), "--policy",
        str(find_shipped("blocks").policy), "--time-limit", "0", "--json",
    )  # fmt: skip
    assert code == 20, text
    answer = json.loads(text)
    assert answer["verdict"] == "unknown"
    assert answer["reason"] == "time limit of 0 s reached (raise it with --time-limit)"


def test_memory_limits_reach_the_checker(tmp_path):
    assert run(["verify", str(find_shipped("blocks").task), str(find_shipped("blocks").policy), "--method", "explicit",
                "-o", str(tmp_path / "safe.json")]) == 0  # fmt: skip
    code, _, text = cpu_seconds(
        tmp_path, "certify", "safe.json", "--task", str(find_shipped("blocks").task), "--policy",
        str(find_shipped("blocks").policy), "--memory-limit", "1",
    )  # fmt: skip
    assert code == 20, text
    assert "memory limit of 1 MB reached (raise it with --memory-limit)" in text


def test_the_net_catches_what_forgets_its_budget(monkeypatch, capsys):
    monkeypatch.setattr("polvet.cli.limits.GRACE", 0.05)

    def forgetful(*_, **__):
        while True:
            pass

    monkeypatch.setattr("polvet.check.never.make_task", forgetful)
    assert run(["explore", str(LINE.task), "--time-limit", "0.1"]) == 20
    assert "time limit of 0.1 s reached (raise it with --time-limit)" in capsys.readouterr().err


def test_an_answer_is_said_to_its_end(monkeypatch, capsys):
    from polvet.cli.limits import net
    from polvet.cli.options import Plainly
    from polvet.front.results import Safe

    monkeypatch.setattr("polvet.cli.limits.GRACE", 0.05)
    net.begin()
    net.span(0.01)
    monkeypatch.setattr("polvet.cli.answer.say", lambda line: time.sleep(0.3))
    try:
        assert Plainly().say(Safe(), ["slowly"]) == 0
    finally:
        net.fold()


def test_the_net_is_taken_away(capsys):
    import signal

    before = signal.getsignal(signal.SIGALRM)
    assert run(["explore", str(LINE.task), "--time-limit", "60"]) == 0
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_net_waits_while_something_must_not_be_cut(monkeypatch):
    from polvet.interrupts import noting

    net = Net()
    net.seconds = 1.0
    with noting() as interrupts, interrupts.held():
        net._catch(0, None)
    assert not net.caught
    with pytest.raises(LimitReached, match="time limit of 1 s reached"):
        net._catch(0, None)


def test_a_limit_that_nobody_can_raise_names_no_option():
    assert limit_sentence(LimitReached("more than 7 boxes")) == "more than 7 boxes"
    assert limit_sentence(LimitReached("limit of 7 states reached", "states")).endswith("(raise it with --max-states)")
