"""The command line stands on the front door: every command has a Python call whose `.to_dict()` is the document of `--json`."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import polvet
from polvet.cli.app import COMMANDS, run
from polvet.domains.shipped import shipped_files
from polvet.front.writing import domains, write_flat, write_report

TIMES = re.compile(r"seconds|peak_bytes|steps_per_cpu_second")
"""What differs from call to call: clocks, and what the process holds."""
PLAN = {
    "format": "fmp/1", "semantics": "deterministic", "variables": [{"name": "x"}], "control_states": ["q"], "initial": "q",
    "edges": [{"id": 0, "from": "q", "to": "q", "choices": [{"effects": {"x": -1}}]}],
}  # fmt: skip
DOMAIN = """(define (domain boxes) (:predicates (closed ?b))
 (:action open :parameters (?b) :precondition (closed ?b) :effect (not (closed ?b)))
 (:action close :parameters (?b) :precondition (not (closed ?b)) :effect (closed ?b)))"""
BOXES = "(define (problem two) (:domain boxes) (:objects a b) (:init (closed a) (closed b)) (:goal (not (closed a))))"
SKETCH = 'numeric n "n_count(c_primitive(closed,0))"\nn > 0 -> '
QNP = "count\n1 n 1\n1 n 1\n1 n 0\n1\nfall\n1 n 1\n1 n 0\n"
MODEL = "mdp\nmodule m\n x : [0..3] init 0;\n [a] x<3 -> 0.5:(x'=x+1) + 0.5:true;\n [b] x<2 -> (x'=x+2);\nendmodule\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The shipped tasks and policies, a small PRISM model, a plan, faults, a repaired policy, a certificate and a campaign."""
    place = tmp_path_factory.mktemp("commands")
    for file in shipped_files():
        shutil.copy(file, place)
    (place / "predicates.txt").write_text("truck_0 <= 3  # half way\n", encoding="utf-8")
    (place / "plan.json").write_text(json.dumps(PLAN), encoding="utf-8")
    (place / "model.pm").write_text(MODEL, encoding="utf-8")
    (place / "domain.pddl").write_text(DOMAIN, encoding="utf-8")
    (place / "boxes.pddl").write_text(BOXES, encoding="utf-8")
    (place / "opens.txt").write_text(f"{SKETCH}n-down", encoding="utf-8")
    (place / "turns.txt").write_text(f"{SKETCH}n?", encoding="utf-8")
    (place / "problem.qnp").write_text(QNP, encoding="utf-8")
    (place / "vain.qnp").write_text(QNP.replace("fall\n1 n 1\n1 n 0", "rise\n1 n 1\n1 n 1"), encoding="utf-8")
    domains("janitor", width=3, height=3, output=place / "janitor.jani")
    faulty = polvet.load(place / "one-way-line-8-5.toml").policy(place / "one-way-line-8-5-faulty.json")
    faults = faulty.faults()
    faults.save(place / "faults.json")
    faulty.repair(faults, output=place / "better.json")
    faulty.verify().save(place / "certificate.json")
    return place


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def line():
    return polvet.load("one-way-line-8-5.toml")


def faulty():
    return line().policy("one-way-line-8-5-faulty.json")


def janitor():
    return polvet.load("janitor.toml")


def model():
    return polvet.load("model.pm", fail="x==3", goal="x==2")


FILES = "one-way-line-8-5.toml one-way-line-8-5-faulty.json"
CASES = {
    "info": ("one-way-line-8-5.jani", lambda: polvet.info("one-way-line-8-5.jani")),
    "explore": ("one-way-line-8-5.toml", lambda: line().explore()),
    "explore with a policy": (
        f"{FILES.replace(' ', ' --policy ')}", lambda: line().explore(faulty()),
    ),
    "check": ("model.pm --property Pmax=?[F(x=3)] --exact", lambda: polvet.load("model.pm").check("Pmax=?[F(x=3)]", exact=True)),
    "decide": ("one-way-line-8-5.toml --workers 1", lambda: line().decide(workers=1)),
    "decide one state": ("model.pm --fail x==3 --goal x==2 --state x=1", lambda: model().decide({"x": 1})),
    "decide goal reaching": (
        "model.pm --fail x==3 --goal x==2 --goal-reaching", lambda: model().decide(goal_reaching=True),
    ),
    "decide within a bound": ("model.pm --fail x==3 --goal x==2 --bound 1/2", lambda: model().decide(bound="1/2")),
    "train": (
        "one-way-line-8-5.toml --kind trees --runs 20 --rounds 2 -o trained.json",
        lambda: line().train("trees", runs=20, rounds=2, output="trained.json"),
    ),
    "simulate": (f"{FILES} --runs 50 --seed 3", lambda: faulty().simulate(50, seed=3)),
    "evaluate": (f"{FILES} --starts 50", lambda: faulty().evaluate(50)),
    "fuzz": (f"{FILES} --runs 1000", lambda: faulty().fuzz(1000)),
    "faults": (FILES, lambda: faulty().faults()),
    "faults for the goal": (f"{FILES} --kind goal", lambda: faulty().faults(kind="goal")),
    "faults by risk": (f"{FILES} --max-risk 0.1 --delta 0.01", lambda: faulty().faults(max_risk="0.1", delta="0.01")),
    "verify without loops": (f"{FILES} --avoid loop", lambda: faulty().verify(avoid="loop")),
    "repair": (f"{FILES} --faults faults.json", lambda: faulty().repair("faults.json").repaired),
    "repair avoiding": (
        f"{FILES} --faults faults.json --repair-mode avoid --keep-runs 50",
        lambda: faulty().repair(faulty().faults(), repair_mode="avoid", keep_runs=50).repaired,
    ),
    "fence": (f"{FILES} -o fenced.json", lambda: faulty().fence(output="fenced.json")),
    "compare": (f"{FILES} better.json", lambda: faulty().compare("better.json")),
    "verify": (FILES, lambda: faulty().verify()),
    "verify over predicates": (
        f"{FILES} --predicates predicates.txt",
        lambda: faulty().verify(predicates=["truck_0 <= 3"]),
    ),
    "verify up to a length": (f"{FILES} --max-steps 2", lambda: faulty().verify("bmc", max_steps=2)),
    "verify region": (f"{FILES} --region", lambda: faulty().verify(region=True)),
    "verify raw": (
        f"{FILES} --mode raw --avoid stuck",
        lambda: polvet.load(line(), mode="raw", avoid="stuck").policy("one-way-line-8-5-faulty.json").verify(),
    ),
    "debug": (f"{FILES} -o by-command --starts 50", lambda: faulty().debug("by-python", starts=50)),
    "gate": (f"{FILES} --max-faults 0 --min-goal 10", lambda: polvet.gate(line(), faulty(), max_faults=0, min_goal=10)),
    "report": (
        "certificate.json -o report.html --task one-way-line-8-5.toml",
        lambda: write_report("certificate.json", "report.html", task=Path("one-way-line-8-5.toml")),
    ),
    "permit": ("janitor.toml --bound 0.1", lambda: janitor().permit("0.1")),
    "permit per state": (
        "janitor.toml --bound 0.1 --per-state", lambda: janitor().permit("0.1", per_state=True),
    ),
    "permit relative": ("janitor.toml --relative 9/10", lambda: janitor().permit(relative="9/10")),
    "permit within a horizon": (
        "janitor.toml --bound 0.1 --per-state --horizon 3", lambda: janitor().permit("0.1", per_state=True, horizon=3),
    ),
    "permit a budget": ("janitor.toml --budget 0.2", lambda: janitor().permit(budget="0.2")),
    "permit too little": ("janitor.toml --bound 0", lambda: janitor().permit(0)),
    "learn": (
        "janitor.toml --cost fuel --bound 0.2 --iterations 2 --episodes 50",
        lambda: janitor().learn("0.2", "fuel", iterations=2, episodes=50),
    ),
    "terminates": ("plan.json --why --bound", lambda: polvet.terminates("plan.json", why=True, bound=True)),
    "terminates in the goal": ("plan.json --goal x==0", lambda: polvet.terminates("plan.json", goal="x==0")),
    "synthesize": (
        "problem.qnp -o solved.json --certificate solves.json",
        lambda: polvet.synthesize("problem.qnp", output="solved.json", certificate="solves.json"),
    ),
    "synthesize in vain": ("vain.qnp", lambda: polvet.synthesize("vain.qnp")),
    "generalizes": (
        "opens.txt boxes.pddl --domain domain.pddl", lambda: polvet.generalizes("opens.txt", "boxes.pddl", domain="domain.pddl"),
    ),
    "generalizes not": ("turns.txt boxes.pddl boxes.pddl", lambda: polvet.generalizes("turns.txt", "boxes.pddl", "boxes.pddl")),
    "flatten": (FILES, lambda: write_flat(polvet.load(line()), line().policy("one-way-line-8-5-faulty.json"))),
    "flatten to a file": ("janitor.toml -o janitor.flat", lambda: write_flat(janitor(), output="janitor.flat")),
    "certify": (
        "certificate.json --task one-way-line-8-5.toml --policy one-way-line-8-5-faulty.json",
        lambda: polvet.certify("certificate.json", "one-way-line-8-5.toml", "one-way-line-8-5-faulty.json"),
    ),
    "certify another policy": (
        "certificate.json --task one-way-line-8-5.toml --policy better.json",
        lambda: polvet.certify("certificate.json", line(), line().policy("better.json")),
    ),
    "domains": ("", domains),
    "domains explained": ("janitor", lambda: domains("janitor")),
    "domains written": ("janitor width=3 -o j.jani", lambda: domains("janitor", width="3", output="j.jani")),
}  # fmt: skip
WITHOUT_PYTHON: dict[str, str] = {}
"""Commands that make no sense in Python, with the reason; there are none: completion and help belong to the shell, not to COMMANDS."""
FILES_OF_COMMANDS = {"fence": "policy"}
"""Keys that name the file a command always writes, where Python keeps the policy itself."""


def compared(document, **paths):
    """The document without times, with paths that were chosen differently made the same."""
    if isinstance(document, dict):
        return {key: compared(value, **paths) for key, value in document.items() if not TIMES.search(key)}
    if isinstance(document, list | tuple):
        return [compared(value, **paths) for value in document]
    if isinstance(document, str):
        return document.replace("by-command", "by-python")
    return document


def test_every_command_has_a_call():
    told = {name.split()[0] for name in CASES}
    assert told | set(WITHOUT_PYTHON) == set(COMMANDS)
    assert not told & set(WITHOUT_PYTHON)


@pytest.mark.parametrize("name", CASES)
def test_a_call_gives_the_document_of_the_command(name, here, capsys):
    words, call = CASES[name]
    command = name.split()[0]
    code = run([command, *words.split(), "--json"])
    shown = capsys.readouterr()
    assert code in (0, 10, 20), shown.err
    said = json.loads(shown.out)
    found = json.loads(json.dumps(call().to_dict(), default=str))
    if command in FILES_OF_COMMANDS:
        said.pop(FILES_OF_COMMANDS[command])
        found.pop(FILES_OF_COMMANDS[command])
    assert compared(found) == compared(said)
    assert list(found) == list(said), "the keys stand in the same order"
