"""`verify --avoid loop`: equal to the policy's chain by brute force on random worlds; certificates accepted, mutated ones rejected."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from polvet.check import bulk
from polvet.check.checker import Accepted, Rejected, Subjects, check
from polvet.cli.app import run
from polvet.errors import Where
from polvet.model.task import Avoid
from polvet.policy.binding import load_fitted
from polvet.policy.compiled import compile_policy
from polvet.verdict import Verdict
from polvet.verify.certificates import certificate_of
from polvet.verify.portfolio import verify
from tests.attack.risk_bound import ruled_world

WORLDS = 60
WISHES = (
    Avoid(loop=True),
    Avoid(stuck=True, deadlock=True, loop=True),
    Avoid(loop=True, delay=True),
    Avoid(stuck=True, deadlock=True, loop=True, delay=True),
)


def worlds(folder, count=WORLDS, seed=0):
    """Yield small random worlds with a goal, and what the policy's runs do in them, in states."""
    found = 0
    while found < count:
        world = ruled_world(random.Random(seed), folder)
        seed += 1
        if world is None or world.small.goal is None:
            continue
        found += 1
        after = [[{target for target, chance in row.items() if chance} for row in mine] for mine in world.choices]
        yield world, after


def is_sure(world, after, avoid):
    """Whether runs end with probability 1, never in fail or in what is avoided: from all they reach they can end well.

    An environment that need not be fair keeps to one of its operators wherever it likes: each must lead nearer.
    """
    small, reached = world.small, world.reached()
    ends = {small.goal}
    for state, mine in enumerate(after):
        if not mine and state not in (small.goal, small.fail):
            stuck = any(one.label is not None for one in small.operators[state])
            if not (avoid.stuck if stuck else avoid.deadlock):
                ends.add(state)
    near = set(ends)
    every = all if avoid.delay else any
    while more := {s for s, mine in enumerate(after) if s not in near and mine and every(one & near for one in mine)}:
        near |= more
    bad = {state for state in reached if not after[state] and state not in ends}
    return not bad and set(reached) <= near


@pytest.mark.parametrize("few", [bulk.FEW, 0])
def test_the_verdict_is_that_of_the_chain_and_its_certificate_is_accepted(few, tmp_path, monkeypatch):
    monkeypatch.setattr(bulk, "FEW", few)  # 0: all states are checked in bulk
    seen, mutants, told = set(), 0, {False: 0, True: 0}
    for world, after in worlds(tmp_path):
        fitted = load_fitted(world.task, world.subjects.policy)
        for avoid in WISHES:
            bound = compile_policy(replace(fitted, task=replace(fitted.task, avoid=avoid)))
            found = verify(bound)
            assert (found.verdict is Verdict.SAFE) == is_sure(world, after, avoid)
            assert found.verdict is not Verdict.UNKNOWN
            certificate = json.loads(json.dumps(certificate_of(bound, found)))
            subjects = Subjects(world.subjects.task, world.subjects.policy, replace(world.task.options, avoid=avoid))
            assert isinstance(check(certificate, subjects, Where("certificate")), Accepted)
            seen.add((certificate["kind"], avoid.delay))
            told[avoid.delay] += found.verdict is Verdict.SAFE
            for mutant in mutated(certificate):
                assert isinstance(check(mutant, subjects, Where("certificate")), Rejected), mutant
                mutants += 1
    assert {(kind, delay) for kind in ("sure-end", "livelock", "run") for delay in (False, True)} <= seen
    assert mutants > 100
    assert told[True] < told[False]  # some ends count on a fair environment


def mutated(given):
    """Certificates with one thing wrong."""
    if given["kind"] not in ("sure-end", "livelock"):
        return
    yield {**given, "policy_sha256": "0" * 64}
    yield {**given, "task_sha256": "0" * 64}
    yield {**given, "count": given["count"] + 1}
    if given["kind"] == "sure-end":
        yield {**given, "avoids": []}
        if "delay" in given["avoids"]:
            yield {**given, "avoids": [name for name in given["avoids"] if name != "delay"]}
        for k, distance in enumerate(given["distances"]):
            wrong = 0 if distance else 1  # distance 0 is exactly where runs end
            yield {**given, "distances": [*given["distances"][:k], wrong, *given["distances"][k + 1 :]]}
        yield {**given, "distances": given["distances"][:-1]}
    else:
        yield {**given, "end": "fail"}
        if "environment" not in given:
            yield {**given, "set": given["set"], "count": 0}
        yield {**given, "kept": ["s"]}
        yield {**given, "actions": [*given["actions"], "zzz"], "states": [*given["states"], given["states"][0]]}


@pytest.mark.parametrize(("action", "code", "kind"), [("go", 0, "sure-end"), ("back", 10, "livelock")])
def test_the_command_line_says_and_certifies_it(action, code, kind, tmp_path, capsys):
    (tmp_path / "w.prism").write_text(
        "mdp\nmodule w\n x:[0..3] init 0;\n [go] x<3 -> 0.5:(x'=x+1)+0.5:true;\n [back] x=2 -> (x'=1);\nendmodule\n"
    )
    (tmp_path / "w.toml").write_text('model = "w.prism"\nfail = "false"\ngoal = "x = 3"\n')
    rules = [{"when": "x = 2", "action": action}, {"when": "true", "action": "go"}]
    (tmp_path / "p.json").write_text(json.dumps({"format": "rules/1", "rules": rules}))
    given, made = [str(tmp_path / "w.toml"), str(tmp_path / "p.json")], tmp_path / "made.json"
    assert run(["verify", *given, "--avoid", "stuck,deadlock,loop", "-o", str(made), "--json"]) == code
    answer = json.loads(capsys.readouterr().out)
    assert answer["checked"] is True
    assert json.loads(made.read_text())["kind"] == kind
    certify = ["certify", str(made), "--task", given[0], "--policy", given[1]]
    assert run([*certify, "--avoid", "stuck,deadlock,loop"]) == 0
    assert run(["verify", *given]) == 0  # it never fails
    assert run(["verify", *given, "--avoid", "loop", "--method", "ic3"]) == 30
    assert run(["decide", given[0], "--avoid", "loop"]) == 30


WAITS = """mdp
module w
  x : [0..2] init 0;
  [go] x=0 -> (x'=1);
  [go] x=0 -> true;
  [go] x=1 -> (x'=2);
endmodule
"""


def test_what_a_fair_environment_is_needed_for_is_said_and_does_not_hold_without(tmp_path, capsys):
    (tmp_path / "w.prism").write_text(WAITS)
    (tmp_path / "p.json").write_text(json.dumps({"format": "rules/1", "rules": [{"when": "true", "action": "go"}]}))
    model, policy, made = (str(tmp_path / name) for name in ("w.prism", "p.json", "made.json"))
    assert run(["check", model, "--policy", policy, "--property", "Pmin=? [ F x=2 ]", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["figures"]["value"] == 0
    fair = "if the environment is fair: what is possible again and again comes in the end"
    for avoid, code, environment, says in (("loop", 0, "fair", fair), ("delay", 10, "adversarial", "whatever")):
        given = [policy, "--goal", "x=2", "--avoid", f"stuck,deadlock,{avoid}"]
        assert run(["verify", model, *given, "-o", made]) == code
        assert says in capsys.readouterr().out
        assert run(["verify", model, *given, "--json"]) == code
        assert json.loads(capsys.readouterr().out)["figures"]["environment"] == environment
        assert run(["certify", made, "--task", model, "--policy", *given, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["about"]["environment"] == environment
        assert (fair in answer["claim"]) == (environment == "fair")
    assert run(["certify", made, "--task", model, "--policy", policy, "--goal", "x=2", "--avoid", "loop"]) == 10
    assert run(["decide", model, "--goal", "x=2", "--goal-reaching", "-o", made]) == 0
    assert fair in capsys.readouterr().out
    assert run(["certify", made, "--task", model, "--goal", "x=2"]) == 0
    assert fair in capsys.readouterr().out
    assert run(["faults", model, policy, "--kind", "goal", "--goal", "x=2"]) == 0
    assert fair in capsys.readouterr().out
