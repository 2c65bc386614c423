"""PDDL problems as tasks: files, conditions in both notations, digests, the command line, other machines, JANI."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import polvet
from polvet.check.checker import Rejected, Subjects, check_file
from polvet.cli.app import run
from polvet.errors import InputError, Where
from polvet.jani.read import load_model as load_jani
from polvet.jani.write import dump_model
from polvet.kernel.compiled import Compiled
from polvet.model.expressions import FALSE, TRUE
from polvet.model.instantiate import instantiate
from polvet.model.semantics import Semantics
from polvet.model.task import TaskOptions
from polvet.pddl import read_pddl
from polvet.records.state_files import parse_state
from polvet.sources import load_task
from polvet.workers.parcel import open_parcel, pack
from polvet.worlds.formats import load_model
from tests.pddl.conftest import FOND, needs_benchmarks

EXAMPLE = Path(__file__).parents[2] / "examples" / "fond"
PROBLEM, DOMAIN, TASK = EXAMPLE / "problem.pddl", EXAMPLE / "domain.pddl", EXAMPLE / "courier.toml"


def test_a_problem_brings_its_goal_and_another_takes_its_place():
    own = load_task(PROBLEM)
    assert own.goal == load_task(PROBLEM, TaskOptions(goal="(lies letter harbour)")).goal
    assert load_task(PROBLEM, TaskOptions(fail="calm")).goal == own.goal
    assert load_task(PROBLEM, TaskOptions(goal="calm")).goal != own.goal
    assert load_task(TASK).goal == own.goal
    assert own.fail == FALSE


@pytest.mark.parametrize(
    ("pddl", "infix"),
    [
        ("(at mill)", "at(mill)"),
        ("(AT Mill)", "'at(mill)'"),
        ("(chain)", "chain"),
        ("(and (at mill) (not (chain)))", "at(mill) && !chain"),
        ("(or (at mill) (calm))", "(at(mill) || calm)"),
        ("(road mill inn)", "road(mill,inn)"),
        ("(road inn mill)", "road(inn,mill)"),
        ("(and)", "road(mill,inn) || calm || !calm"),
        ("(not (exists (?v - village) (spare ?v)))", "!spare(inn)"),
        ("(imply (calm) (at inn))", "calm => at(inn)"),
        ("(= mill inn)", "false"),
    ],
)
def test_conditions_in_pddl_and_infix_hold_in_the_same_states(pddl, infix):
    tasks = [load_task(PROBLEM, TaskOptions(fail=text)) for text in (pddl, infix)]
    semantics = Compiled(tasks[0].network).semantics
    one, other = (semantics.compile(task.fail) for task in tasks)
    compiled = Compiled(tasks[0].network)
    space = compiled.explore()
    states = compiled.unpack(space.states(0, len(space)))
    assert len(states) == 94
    assert [bool(one(state)) for state in states] == [bool(other(state)) for state in states]


def test_atoms_that_never_change_are_what_they_are():
    assert load_task(PROBLEM, TaskOptions(fail="road(mill,inn)")).fail == TRUE
    assert load_task(PROBLEM, TaskOptions(fail="(spare harbour)")).fail == FALSE


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("(at mil)", "--fail:1:5: no object 'mil'. Did you mean 'mill'?"),
        ("(and (att mill))", "--fail:1:7: no predicate 'att'. Did you mean 'at'?"),
        ("(and (at mill)", "is never closed"),
        ("(exists (?v - vilage) (at ?v))", "--fail:1:15: no type 'vilage'. Did you mean 'village'?"),
        ("at(mil)", "no object 'mil'"),
        ("att(mill)", "no predicate 'att'"),
        ("att", "no atom 'att'. Did you mean 'at'?"),
        ("at(mill) > 3", "--fail"),
    ],
)
def test_wrong_conditions_are_refused(text, what):
    with pytest.raises(InputError) as caught:
        load_task(PROBLEM, TaskOptions(fail=text))
    assert what in str(caught.value)


@needs_benchmarks
def test_info_tells_conditions_by_atoms_that_can_be_given_back_and_counts_many_labels(capsys):
    problem = FOND / "zenotravel" / "p01.pddl"
    goal = "'at-person(p0,c3)' && 'at-person(p1,c4)'"
    assert run(["info", str(problem)]) == 0
    shown = capsys.readouterr().out
    assert f"goal        {goal}" in shown
    assert "(740 in all; --json lists them)" in shown
    assert max(map(len, shown.splitlines())) < 1000
    own, given = load_task(problem), load_task(problem, TaskOptions(goal=goal))
    assert own.goal == given.goal


def test_the_digest_covers_the_domain(tmp_path):
    problem, domain = tmp_path / "problem.pddl", tmp_path / "domain.pddl"
    problem.write_text(PROBLEM.read_text())
    domain.write_text(DOMAIN.read_text())
    before = load_task(problem).sha256
    assert before == load_task(PROBLEM).sha256 == load_task(problem, TaskOptions(domain=DOMAIN)).sha256
    domain.write_text(DOMAIN.read_text() + "; more\n")
    assert load_task(problem).sha256 != before


def test_a_domain_belongs_to_a_problem(tmp_path):
    (tmp_path / "walk.prism").write_text("mdp module m x : [0..1]; [a] x=0 -> (x'=1); endmodule")
    with pytest.raises(InputError, match="a domain is given, but the model is no PDDL problem"):
        load_task(tmp_path / "walk.prism", TaskOptions(domain=DOMAIN))
    with pytest.raises(InputError, match="this is a domain, not a problem"):
        load_task(DOMAIN)
    with pytest.raises(InputError, match="this is a problem, not a domain"):
        load_task(PROBLEM, TaskOptions(domain=PROBLEM))


def test_the_command_line_decides_dead_ends_and_its_evidence_checks(tmp_path, capsys):
    problem = tmp_path / "one.pddl"
    problem.write_text(PROBLEM.read_text().replace("(ferry mill harbour)", "").replace("(road mill inn)", ""))
    given = [str(problem), "--domain", str(DOMAIN)]
    assert run(["explore", *given]) == 0
    # The chain may break on the pass, where no action but to wait, load and unload is left: no dead end, but no goal.
    assert run(["decide", *given, "--avoid", "deadlock", "--certificates", str(tmp_path)]) == 0
    assert run(["certify", str(tmp_path / "safe.json"), "--task", *given, "--avoid", "deadlock"]) == 0
    assert run(["decide", *given, "--goal-reaching", "-o", str(tmp_path / "lost.json")]) == 10
    assert run(["certify", str(tmp_path / "lost.json"), "--task", *given]) == 0
    assert run(["decide", str(PROBLEM), "--goal-reaching", "--certificates", str(tmp_path)]) == 0
    assert run(["certify", str(tmp_path / "strong-cyclic.json"), "--task", str(PROBLEM)]) == 0
    assert run(["info", *given, "--json"]) == 0
    assert run(["decide", *given, "--goal-reaching", "--avoid", "deadlock"]) == 30
    assert run(["decide", *given, "--avoid", "stuck"]) == 30
    capsys.readouterr()


COIN = """(define (domain coin) (:predicates (p) (q) (g)) (:action toss :precondition (p) :effect (and (not (p)) (oneof (q) (g))))
  (:action idle :precondition (p) :effect (and)))"""
TOSS = "(define (problem toss) (:domain coin) (:init (p)) (:goal (g)))"


def test_deadlocks_count_as_unsafe_only_where_that_is_asked_for(tmp_path, capsys):
    (tmp_path / "domain.pddl").write_text(COIN.replace("(:action idle :precondition (p) :effect (and))", ""))
    problem = tmp_path / "toss.pddl"
    problem.write_text(TOSS)
    assert run(["decide", str(problem)]) == 0
    assert run(["decide", str(problem), "--avoid", "deadlock", "--certificates", str(tmp_path)]) == 10
    unsafe = tmp_path / "unsafe.json"
    assert run(["certify", str(unsafe), "--task", str(problem), "--avoid", "deadlock"]) == 0
    assert run(["certify", str(unsafe), "--task", str(problem), "--allow-options"]) == 0
    assert run(["certify", str(unsafe), "--task", str(problem)]) == 10
    without = {key: value for key, value in json.loads(unsafe.read_text()).items() if key != "avoids"}
    unsafe.write_text(json.dumps(without))
    assert isinstance(check_file(unsafe, Subjects(problem)), Rejected)
    (tmp_path / "domain.pddl").write_text(COIN)
    assert run(["decide", str(problem), "--certificates", str(tmp_path)]) == 0
    assert run(["certify", str(tmp_path / "safe.json"), "--task", str(problem)]) == 0
    assert run(["certify", str(tmp_path / "safe.json"), "--task", str(problem), "--avoid", "deadlock"]) == 10
    capsys.readouterr()


COMMANDS = {
    "info": "info PROBLEM",
    "explore": "explore PROBLEM",
    "check": "check PROBLEM --property Pmax=?[F(chain)]",
    "decide": "decide PROBLEM",
    "evaluate": "evaluate PROBLEM rules.json --runs 5",
    "simulate": "simulate PROBLEM rules.json --runs 5",
    "fuzz": "fuzz PROBLEM rules.json --fail carried(letter)&&!carried(letter) -o runs.jsonl",
    "faults": "faults PROBLEM rules.json -o faults.json",
    "compare": "compare PROBLEM rules.json rules.json",
    "gate": "gate PROBLEM rules.json",
    "verify": "verify PROBLEM rules.json --avoid deadlock",
    "permit": "permit PROBLEM --fail !chain --bound 0.9",
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_commands_take_a_domain_by_name(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.pddl").write_text(PROBLEM.read_text())
    (tmp_path / "other.pddl").write_text(DOMAIN.read_text())
    rules = [{"when": f"'{guard}'", "action": action} for guard, action in (
        ("lies(letter,mill)", "load(letter,mill)"), ("at(harbour)", "unload(letter,harbour)"), ("calm", "sail(mill,harbour)"),
    )]  # fmt: skip
    rules.append({"when": "true", "action": "wait"})
    (tmp_path / "rules.json").write_text(json.dumps({"format": "rules/1", "rules": rules}))
    words = command.replace("PROBLEM", "one.pddl").split()
    assert run(words) == 30
    assert "no domain is given" in capsys.readouterr().err
    assert run([*words, "--domain", "other.pddl"]) == 0, capsys.readouterr()


def test_a_state_is_given_by_variables_or_by_the_atoms_that_are_true():
    task = load_task(PROBLEM)
    (start,) = Semantics(task.network).initial_states()
    where = Where("--state")
    assert parse_state(task, Semantics(task.network).show(start), where) == start
    assert parse_state(task, "(at mill) (Chain)\n(lies letter mill)(spare inn)", where) == start
    with pytest.raises(InputError, match=r"'at\(mil\)' is no atom that changes. Did you mean 'at\(mill\)'"):
        parse_state(task, "(at mil)", where)
    with pytest.raises(InputError, match="of the form NAME=VALUE"):
        parse_state(task, "(at mill", where)


def test_a_resumed_batch_remembers_what_is_avoided(tmp_path, capsys):
    (tmp_path / "domain.pddl").write_text(COIN)
    problem, file = tmp_path / "toss.pddl", tmp_path / "decisions.jsonl"
    problem.write_text(TOSS)
    assert run(["decide", str(problem), "-o", str(file)]) == 0
    assert run(["decide", str(problem), "-o", str(file)]) == 0
    assert run(["decide", str(problem), "--avoid", "deadlock", "-o", str(file)]) == 30
    capsys.readouterr()


def test_another_machine_reads_the_same_world(tmp_path):
    (tmp_path / "other.pddl").write_text(DOMAIN.read_text())
    task = load_task(PROBLEM, TaskOptions(domain=tmp_path / "other.pddl", fail="(not (chain))"))
    opened = open_parcel(pack(task))
    assert opened.task.network == task.network
    assert (opened.task.fail, opened.task.goal) == (task.fail, task.goal)


def test_the_model_survives_as_jani(tmp_path):
    world = read_pddl(PROBLEM)
    (tmp_path / "courier.jani").write_text(dump_model(world.model))
    again = Compiled(instantiate(load_jani(tmp_path / "courier.jani"))).explore()
    assert (len(again), again.choices, again.deadlocks) == (94, 188, 0)


@pytest.mark.parametrize("given", [None, "fail", "domain"])
def test_a_saved_task_takes_its_domain_with_it(given, tmp_path):
    elsewhere = tmp_path / "other" / "problem.pddl"  # called like the problem
    elsewhere.parent.mkdir()
    elsewhere.write_text(DOMAIN.read_text())
    options = {None: {}, "fail": {"fail": "(not (chain))"}, "domain": {"domain": elsewhere}}[given]
    for what in (PROBLEM, TASK):
        task = polvet.load(what, **options)
        saved = polvet.load(task.save(tmp_path / "saved" / "task.toml"))
        assert saved.labels == task.labels
        assert (saved.model_task.fail, saved.model_task.goal) == (task.model_task.fail, task.model_task.goal)


def test_python_loads_problems_and_certifies_what_it_decided():
    task = polvet.load(PROBLEM, domain=DOMAIN, avoid="deadlock")
    true = ("at(mill)", "chain", "lies(letter,mill)", "spare(inn)")
    start = {name: False for name in task.variables if not name.endswith(("*)", ")"))} | dict.fromkeys(true, True)
    result = task.decide(start)
    assert result.verdict.value == "safe"
    assert polvet.certify(result, task).accepted
    assert load_model(PROBLEM).actions == task.labels


def test_the_model_does_not_depend_on_how_python_orders_sets():
    code = """import sys
from polvet.jani.write import dump_model
from polvet.pddl import read_pddl
print(dump_model(read_pddl(sys.argv[1]).model))
"""
    made = {
        subprocess.run(
            [sys.executable, "-c", code, str(PROBLEM)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(made) == 1
