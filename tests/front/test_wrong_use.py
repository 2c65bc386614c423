"""Wrong use of every verb gets one message that says where, what and what to do; never an error from inside."""

from __future__ import annotations

import json
import shutil

import pytest

import polvet
from polvet.domains.shipped import shipped_files
from polvet.front.writing import domains
from tests.front.test_contract import PLAN
from tests.front.test_front import walk

pytest.importorskip("gymnasium")
FILES = {
    "bad.py": "def choose(state): return 'up'\ndef boom(state): raise KeyError('x')\nvalue = 3\n",
    "syntax.py": "def choose(:\n",
    "sk.txt": "nonsense here",
    "dom.pddl": "(define (domain d) (:predicates (p)) (:action a :precondition (p) :effect (not (p))))",
    "pr.pddl": "(define (problem x) (:domain d) (:init (p)) (:goal (not (p))))",
    "plan.json": json.dumps(PLAN),
}
WRONG = {
    "generalizes no problem": lambda t, p: polvet.generalizes("sk.txt"),
    "generalizes missing": lambda t, p: polvet.generalizes("none.txt", "pr.pddl", domain="dom.pddl"),
    "generalizes nonsense": lambda t, p: polvet.generalizes("sk.txt", "pr.pddl", domain="dom.pddl"),
    "generalizes number": lambda t, p: polvet.generalizes(3, "pr.pddl"),
    "generalizes object problem": lambda t, p: polvet.generalizes("sk.txt", t, domain="dom.pddl"),
    "region+method": lambda t, p: p.verify("explicit", region=True),
    "region+risk": lambda t, p: p.verify(region=True, max_risk=0.1),
    "max_risk word": lambda t, p: p.verify(max_risk="high"),
    "max_risk 2": lambda t, p: p.verify(max_risk=2),
    "max_risk neg": lambda t, p: p.verify(max_risk=-0.1),
    "max_risk nan": lambda t, p: p.verify(max_risk=float("nan")),
    "max_risk list": lambda t, p: p.verify(max_risk=[1]),
    "max_risk True": lambda t, p: p.verify(max_risk=True),
    "permit none": lambda t, p: t.permit(),
    "permit both": lambda t, p: t.permit(0.1, relative=0.9),
    "permit per_state relative": lambda t, p: t.permit(relative=0.9, per_state=True),
    "permit per_state attempts": lambda t, p: t.permit(0.1, per_state=True, attempts=3),
    "permit relative 2": lambda t, p: t.permit(relative=2),
    "permit relative word": lambda t, p: t.permit(relative="best"),
    "vec_env 0": lambda t, p: t.vec_env(0),
    "vec_env -1": lambda t, p: t.vec_env(-1),
    "vec_env text": lambda t, p: t.vec_env("four"),
    "vec_env opt": lambda t, p: t.vec_env(2, maxsteps=3),
    "vec_env shield": lambda t, p: t.vec_env(2, shield=3),
    "env opt": lambda t, p: t.env(maxsteps=3),
    "env cost": lambda t, p: t.env(cost="fuel"),
    "matrix 3": lambda t, p: polvet.from_matrix(3),
    "matrix ragged": lambda t, p: polvet.from_matrix([[[1, 0], [0]]]),
    "matrix prob": lambda t, p: polvet.from_matrix([[[0.5, 0.6], [0, 1]]]),
    "matrix labels": lambda t, p: polvet.from_matrix([[[1.0]]], labels=["a", "b"]),
    "matrix fail 3": lambda t, p: polvet.from_matrix([[[1.0]]], fail=3),
    "matrix fail out": lambda t, p: polvet.from_matrix([[[1.0]]], fail=[7]),
    "matrix fail words": lambda t, p: polvet.from_matrix([[[1.0]]], fail=["a"]),
    "matrix start": lambda t, p: polvet.from_matrix([[[1.0]]], start=[5]),
    "matrix start int": lambda t, p: polvet.from_matrix([[[1.0]]], start=0),
    "matrix start text": lambda t, p: polvet.from_matrix([[[1.0]]], start="a"),
    "matrix features len": lambda t, p: polvet.from_matrix([[[1.0]]], features={"f": [1, 2]}),
    "matrix features": lambda t, p: polvet.from_matrix([[[1.0]]], features=[1]),
    "matrix nan": lambda t, p: polvet.from_matrix([[[float("nan")]]]),
    "faults kind": lambda t, p: p.faults(kind="gaol"),
    "faults goal_chance": lambda t, p: p.faults(kind="goal", goal_chance="often"),
    "faults goal chance w/o kind": lambda t, p: p.faults(goal_chance=0.5),
    "faults goal no goal": lambda t, p: (
        polvet.load(walk(), fail="x==0").policy({x: "left" for x in range(1, 9)}).faults(kind="goal")
    ),
    "faults delta": lambda t, p: p.faults(max_risk="0.1", delta="x"),
    "faults delta alone": lambda t, p: p.faults(delta="0.1"),
    "faults goal+risk": lambda t, p: p.faults(kind="goal", max_risk="0.1"),
    "faults runs": lambda t, p: p.faults(runs=3),
    "py label": lambda t, p: t.policy("bad.py:choose").verify(),
    "py boom": lambda t, p: t.policy("bad.py:boom").verify(),
    "py missing fn": lambda t, p: t.policy("bad.py:chose"),
    "py not fn": lambda t, p: t.policy("bad.py:value"),
    "py syntax": lambda t, p: t.policy("syntax.py:choose"),
    "py none": lambda t, p: t.policy("none.py:choose"),
    "pddl no domain": lambda t, p: polvet.load("pr.pddl"),
    "pddl domain for jani": lambda t, p: polvet.load(walk(), domain="dom.pddl"),
    "pddl fail": lambda t, p: polvet.load("pr.pddl", domain="dom.pddl", fail="(q)"),
    "pddl missing dom": lambda t, p: polvet.load("pr.pddl", domain="none.pddl"),
    "pddl dom as problem": lambda t, p: polvet.load("dom.pddl", domain="pr.pddl"),
    "decide region state": lambda t, p: t.decide({"x": 3}, region=True),
    "decide bound word": lambda t, p: t.decide({"x": 3}, bound="high"),
    "decide frame": lambda t, p: t.decide([{"x": 3}, {"y": 3}]),
    "decide strings": lambda t, p: t.decide({"x": "three"}),
    "decide None var": lambda t, p: t.decide({"x": None}),
    "decide nested": lambda t, p: t.decide([[1, 2], [3, 4]]),
    "act two": lambda t, p: p.act([{"x": 3}, {"x": 4}]),
    "act none": lambda t, p: p.act(None),
    "sim runs text": lambda t, p: p.simulate("ten"),
    "sim runs 0": lambda t, p: p.simulate(0),
    "sim runs -1": lambda t, p: p.simulate(-1),
    "sim state": lambda t, p: p.simulate(3, state={"y": 1}),
    "eval starts": lambda t, p: p.evaluate("all"),
    "eval starts -5": lambda t, p: p.evaluate(-5),
    "eval runs text": lambda t, p: p.evaluate(10, "many"),
    "seed text": lambda t, p: p.evaluate(10, seed="x"),
    "workers float": lambda t, p: p.evaluate(10, workers=1.5),
    "progress 3": lambda t, p: p.evaluate(10, progress=3),
    "learn none": lambda t, p: t.learn(),
    "learn cost": lambda t, p: t.learn(0.5, "fuel"),
    "learn shield": lambda t, p: t.learn(cost="x", shield="none.json"),
    "train kind": lambda t, p: t.train("forest"),
    "gate text": lambda t, p: polvet.gate(t, p, max_faults="none"),
    "gate risk": lambda t, p: polvet.gate(t, p, max_risk="hi"),
    "gate task": lambda t, p: polvet.gate(None, p),
    "terminates num": lambda t, p: polvet.terminates(3),
    "terminates goal": lambda t, p: polvet.terminates("plan.json", goal="y == 0"),
    "certify none": lambda t, p: polvet.certify(None),
    "certify policy obj": lambda t, p: polvet.certify(p.verify(), t, 3),
    "info num": lambda t, p: polvet.info(3),
    "check syntax": lambda t, p: t.check("Pmax=? [F"),
    "repair method": lambda t, p: p.repair(p.faults(), method="magic"),
    "debug folder file": lambda t, p: p.debug("plan.json"),
    "debug folder 3": lambda t, p: p.debug(3),
    "wrap": lambda t, p: polvet.load("janitor.toml").permit(0.1).wrap(3),
    "wrap unknown": lambda t, p: (
        polvet.load("janitor.toml").permit(0.1).wrap(polvet.load("janitor.toml").env(), unknown="maybe")
    ),
    "shield.allowed": lambda t, p: polvet.load("janitor.toml").permit(0.1).allowed({"x": 99}),
    "faults explain": lambda t, p: p.faults().explain(99),
    "from_gym id": lambda t, p: polvet.from_gym("NoSuch-v1"),
    "from_gym labels": lambda t, p: polvet.from_gym("FrozenLake-v1", labels=("a",)),
    "gym address": lambda t, p: polvet.load("gym:"),
    "gym address2": lambda t, p: polvet.load("gym:FrozenLake-v1?map_name"),
    "fail int": lambda t, p: polvet.load(walk(), fail=3),
    "start list": lambda t, p: polvet.load(walk(), start=[1]),
    "mode 3": lambda t, p: polvet.load(walk(), mode=3),
    "out_of_bounds None": lambda t, p: polvet.load(walk(), out_of_bounds=None),
    "method None": lambda t, p: p.verify(None),
    "method 3": lambda t, p: p.verify(3),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("wrong")
    (place / "shipped").mkdir()
    for file in shipped_files():
        shutil.copy(file, place / "shipped")
    for name, text in FILES.items():
        (place / name).write_text(text, encoding="utf-8")
    domains("janitor", width=3, height=3, output=place / "janitor.jani")
    return place


@pytest.mark.parametrize("use", WRONG)
def test_wrong_use_says_what_to_do(use, folder, monkeypatch):
    monkeypatch.chdir(folder)
    task = polvet.load(walk(), fail="x == 0", goal="x == 9")
    policy = task.policy({x: "left" for x in range(1, 9)})
    with pytest.raises(polvet.InputError) as error:
        WRONG[use](task, policy)
    assert error.value.hint, "it says what to do"
