"""`polvet generalizes`: words, exit codes and evidence, for right policies, wrong ones, and input that is refused."""

from __future__ import annotations

import json

import pytest

import polvet
from polvet.cli.app import run
from tests.general.worlds import WORLDS

NOISY = """(define (domain noisy) (:requirements :non-deterministic) (:predicates (closed ?b) (jammed))
 (:action open :parameters (?b) :precondition (closed ?b) :effect (oneof (not (closed ?b)) (and (not (closed ?b)) (jammed)))))"""
BRACKETS = """(:extended_sketch (:memory_states m0) (:initial_memory_state m0) (:registers r0)
 (:booleans) (:numericals (n "n_count(c_primitive(clear,0))")) (:concepts (C "c_primitive(clear,0)"))
 ({kind} (:conditions (:memory m0) (:c_n_gt n)) (:effects (:memory m0) {effect})))"""


@pytest.fixture
def blocks(tmp_path, monkeypatch):
    """A folder with the domain, six problems, the right policy, and the wrong ones by the kind of their failure."""
    world = WORLDS["blocks"]
    (tmp_path / "domain.pddl").write_text(world.domain)
    (tmp_path / "policy.txt").write_text(world.policy)
    for old, new, kind in world.mistakes.values():
        (tmp_path / f"{kind}.txt").write_text(world.policy.replace(old, new))
    for seed in range(6):
        (tmp_path / f"p{seed}.pddl").write_text(world.instance(seed))
    monkeypatch.chdir(tmp_path)
    return [f"p{seed}.pddl" for seed in range(6)]


def asked(capsys, *words):
    code = run(["generalizes", *words, "--json"])
    shown = capsys.readouterr()
    return code, json.loads(shown.out) if shown.out else shown.err


def test_a_right_policy_holds_and_its_ranking_is_accepted(blocks, capsys):
    code, said = asked(capsys, "policy.txt", *blocks, "--domain", "domain.pddl", "-o", "ranking.json")
    assert (code, said["verdict"], said["checked"]) == (0, "holds", True)
    assert [one["problem"] for one in said["problems"]] == blocks
    assert said["figures"]["longest_run"] == max(one["longest_run"] for one in said["problems"]) > 1
    assert run(["certify", "ranking.json", "--task", "policy.txt"]) == 0
    assert run(["certify", "ranking.json", "--task", "cycle.txt"]) == 10


@pytest.mark.parametrize("kind", ["stuck", "claim", "cycle"])
def test_a_wrong_policy_is_refuted_by_a_run(kind, blocks, capsys):
    code, said = asked(capsys, f"{kind}.txt", *blocks)
    found = said["counterexample"]
    assert (code, said["verdict"], found["failure"], said["checked"]) == (10, "refuted", kind, True)
    assert said["reason"].startswith(found["problem"])
    assert len(found["states"]) == len(found["actions"]) + 1 == len(found["valuations"])
    assert all(atom.startswith("(") for state in found["states"] for atom in state)
    if kind == "cycle":
        assert found["states"][found["back_to"]] == found["states"][-1]
    assert run(["generalizes", f"{kind}.txt", *blocks]) == 10
    shown = capsys.readouterr().out
    assert " ".join(found["states"][-1]) in shown
    assert all(action in shown for action in found["actions"])


def test_a_false_claim_of_one_outcome_is_shown_by_that_outcome(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "domain.pddl").write_text(NOISY)
    (tmp_path / "p.pddl").write_text(
        "(define (problem p) (:domain noisy) (:objects a) (:init (closed a)) (:goal (not (closed a))))"
    )
    (tmp_path / "policy.txt").write_text(
        'boolean J "b_nullary(jammed)"\nnumeric n "n_count(c_primitive(closed,0))"\nn > 0 -> n-down : open\n'
    )
    code, said = asked(capsys, "policy.txt", "p.pddl")
    assert code == 10
    assert said["counterexample"]["states"][-1] == ["(jammed)"]
    assert "J: unchanged; it goes from 0 to 1" in said["reason"]


def test_rules_that_are_not_proved_to_end_leave_it_unknown(blocks, capsys):
    """Where n is 0 the last rule does nothing, for ever; no problem is there outside its goal."""
    with open("policy.txt", "a") as file:
        file.write("n = 0 -> E?\n")
    code, said = asked(capsys, "policy.txt", *blocks)
    assert (code, said["verdict"]) == (20, "unknown")
    assert "every run reaches the goal, but the rules are not proved to end" in said["reason"]


def test_limits_leave_it_unknown(blocks, capsys):
    code, said = asked(capsys, "policy.txt", *blocks, "--max-states", "2")
    assert (code, said["verdict"]) == (20, "unknown")
    assert "--max-states" in said["reason"]


def test_features_may_stand_in_a_python_file(blocks, tmp_path, capsys):
    (tmp_path / "bare.txt").write_text("boolean E\nnumeric n\nE, n > 0 -> !E, n-down\n!E, n > 0 -> E\n")
    (tmp_path / "f.py").write_text(
        "def E(state):\n    return ('handempty',) in state.atoms\n\n\n"
        "def n(state):\n    (target,) = [atom[1] for atom in state.goal]\n"
        "    above = {atom[2]: atom[1] for atom in state.atoms if atom[0] == 'on'}\n"
        "    count = 0\n    while target in above:\n        target, count = above[target], count + 1\n    return count\n"
    )
    code, said = asked(capsys, "bare.txt", *blocks, "--features", "f.py")
    assert (code, said["verdict"]) == (0, "holds")
    assert "the answers they gave" in said["not_checked"]
    assert said["problems"] == asked(capsys, "policy.txt", *blocks)[1]["problems"]
    (tmp_path / "f.py").write_text("def n(state):\n    return 1 // 0\n")
    code, said = asked(capsys, "policy.txt", *blocks, "--features", "f.py")
    assert code == 30
    assert "'n' raises ZeroDivisionError" in said
    (tmp_path / "f.py").write_text("def m(state):\n    return 1\n")
    assert "Define one of: E, n" in asked(capsys, "policy.txt", *blocks, "--features", "f.py")[1]
    assert "has no meaning" in asked(capsys, "bare.txt", *blocks)[1]
    with pytest.raises(polvet.InputError, match="no feature 'm'"):
        polvet.generalizes("policy.txt", *blocks, features={"m": len})


@pytest.mark.parametrize(
    ("kind", "effect", "told"),
    [
        (":load_rule", "(:load (r0 C))", "'load'"),
        (":call_rule", "(:call (clear r0))", "'call'"),
        (":search_rule", "(:e_n_dec n)", "'search'"),
        (":action_rule", "(:action pick-up r0)", "'action with objects'"),
    ],
)
def test_rules_that_are_no_step_of_the_world_are_refused(kind, effect, told, blocks, tmp_path, capsys):
    (tmp_path / "extended.txt").write_text(BRACKETS.format(kind=kind, effect=effect))
    code, said = asked(capsys, "extended.txt", *blocks)
    assert code == 30
    assert f"of the kind {told}, which is not followed" in said


def test_wrong_input_is_told(blocks, capsys):
    assert asked(capsys, "domain.pddl", *blocks)[0] == 30
    assert "is no sketch" in asked(capsys, "domain.pddl", *blocks)[1]
    assert "no such file" in asked(capsys, "policy.txt", "nowhere.pddl")[1]
    assert asked(capsys, "policy.txt")[0] == 30
    with pytest.raises(polvet.InputError, match="there are no problems"):
        polvet.generalizes("policy.txt")
