"""Executions from some starts, where they can stop, and relations between counters: against trying every execution out."""

from __future__ import annotations

import json
import random

import pytest

import polvet
from polvet.check.checker import Accepted, Subjects, check
from polvet.cli.app import run
from polvet.errors import InputError, LimitReached, Where
from polvet.policy.finite_memory import Builder, dump_fmp, parse_fmp
from polvet.policy.finite_memory.goal import parse_goal
from polvet.policy.finite_memory.starts import started
from polvet.termination.decide import terminates
from polvet.termination.halting import halting_set
from polvet.termination.relations import find_relations
from polvet.termination.verdicts import Unknown
from polvet.verdict import Verdict
from tests.attack.plans import random_plan
from tests.attack.starts import is_endless, random_starts, reached


def plans(count):
    """Random plans of counters with two bounds that can be read, with a source of chance."""
    for seed in range(count):
        rng = random.Random(seed)
        plan = random_plan(rng)
        try:
            yield rng, plan, parse_fmp(plan.document, Where("plan"))
        except InputError:
            continue


def begun(fmp, plan, starts):
    """The plan from the starts, or None where no execution begins there, which is refused."""
    if reached(plan, starts):
        return started(fmp, parse_goal(starts.text, fmp))
    with pytest.raises(InputError, match="no execution begins there"):
        started(fmp, parse_goal(starts.text, fmp))
    return None


def test_verdicts_from_some_starts_agree_with_trying_every_execution_out():
    decided = 0
    for rng, plan, fmp in plans(60):
        starts = random_starts(rng, plan)
        if (from_there := begun(fmp, plan, starts)) is None:
            continue
        result = terminates(from_there)
        if not isinstance(result, Unknown):
            decided += 1
            assert (result.verdict is Verdict.NONTERMINATING) == is_endless(reached(plan, starts)), plan.document
            claim = {**result.certificate, "start": starts.text, "fmp": plan.document}
            assert isinstance(check(claim, Subjects(), Where("claim")), Accepted)
    assert decided >= 50


def test_relations_hold_wherever_an_execution_comes():
    seen = 0
    for rng, plan, fmp in plans(400):
        if len(plan.names) < 2:
            continue
        starts = random_starts(rng, plan)
        if (from_there := begun(fmp, plan, starts)) is None:
            continue
        relations = find_relations(from_there)
        for state, values in reached(plan, starts):
            for relation in relations.get(state, ()):
                seen += 1
                assert sum(a * values[k] for k, a in relation.form) <= relation.bound, (
                    plan.document,
                    starts,
                    state,
                    values,
                )
    assert seen > 1000


def test_every_stop_is_in_the_halting_set():
    seen = 0
    for _, plan, fmp in plans(60):
        cases = halting_set(fmp)
        region = parse_goal(" || ".join(cases), fmp) if cases else None
        for state, values in plan.stops:
            seen += 1
            assert region is not None
            assert region.holds(state, dict(zip(plan.names, values, strict=True)))
    assert seen > 100


def carry():
    """Return x carried to y one by one."""
    return Builder("q").edge("q", "q", x=-1, y=1).build()


def paired():
    """Return x and y raised and lowered together; q2 would spin where x is left and y is not, which never happens."""
    spin = Builder("q0").edge("q0", "q1", guard="x == 0 && y == 0").edge("q1", "q1", x=1, y=1, z=-1).edge("q1", "q2")
    return spin.edge("q2", "q2", x=-1, y=-1).edge("q2", "q2", guard="x >= 1 && y <= 0").build()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, fmp in (("carry.json", carry()), ("paired.json", paired())):
        (tmp_path / name).write_text(json.dumps(dump_fmp(fmp)))
    (tmp_path / "sketch.txt").write_text("boolean H\nnumeric n\nn > 0, !H -> H\nH -> !H, n-down\n")
    return tmp_path


def test_a_goal_from_a_start_needs_the_sum_of_two_counters(folder, capsys):
    options = ["--start", "x == 5 && y == 0", "--goal", "x == 0 && y == 5"]
    assert run(["terminates", "carry.json", *options, "--halting", "-o", "c.json"]) == 0
    assert "    state == q && x == 0 && y == 5\n" in capsys.readouterr().out
    claim = json.loads((folder / "c.json").read_text())
    assert polvet.certify("c.json", "carry.json").accepted
    for relations in ({}, {"q": [[{"x": 1, "y": 1}, 4]]}):
        (folder / "c.json").write_text(json.dumps({**claim, "relations": relations}))
        assert not polvet.certify("c.json", "carry.json").accepted
    (folder / "c.json").write_text(json.dumps({**claim, "start": "x <= 5 && y == 0"}))
    assert not polvet.certify("c.json", "carry.json").accepted
    assert run(["terminates", "carry.json", "--start", "x == 6 && y == 0", "--goal", "x == 0 && y == 5"]) == 10


def test_a_plan_that_ends_because_two_counters_stay_equal(folder):
    result = polvet.terminates("paired.json", output="c.json")
    assert result.word == "terminating"
    assert result.certificate["relations"]["q2"] == [[{"x": 1, "y": -1}, 0], [{"x": -1, "y": 1}, 0]]
    assert polvet.certify("c.json", "paired.json").accepted


@pytest.mark.parametrize(
    ("goal", "start", "word"),
    [
        ("n = 0", "n > 0, !H", "goal-reaching"), ("n = 0, !H", "n > 0", "goal-reaching"), ("n = 0, !H", None, "goal-missed"),
        ("n = 0, H", "n > 0, !H", "goal-missed"), ("state == !H,n=0 || state == !H,n>0 && n == 0", "!H", "goal-reaching"),
    ],
)  # fmt: skip
def test_goals_and_starts_of_a_sketch_are_conditions_on_its_features(folder, goal, start, word):
    result = polvet.terminates("sketch.txt", goal=goal, start=start, output="c.json")
    assert result.word == word
    assert polvet.certify("c.json", "sketch.txt").accepted


def test_starts_of_other_input_are_refused(folder, capsys):
    assert run(["terminates", "carry.json", "--start", "state == nowhere"]) == 30
    (folder / "p.qnp").write_text("count\n1 n 1\n1 n 1\n1 n 0\n1\nfall\n1 n 1\n1 n 0\n")
    (folder / "p.txt").write_text("n > 0 -> fall\n")
    assert run(["terminates", "p.qnp", "--policy", "p.txt", "--start", "n == 1"]) == 30
    assert "--start is for finite-memory policies" in capsys.readouterr().err


def test_a_control_state_that_is_called_as_the_one_before_starts_is_listed_where_it_stops():
    fmp = Builder("(start)").edge("(start)", "q", guard="x >= 1").build()
    assert halting_set(fmp) == ["state == (start) && x == 0", "state == q && x >= 1"]
    begun = started(fmp, parse_goal("x >= 0", fmp))
    assert halting_set(begun, before=begun.initial[0]) == ["state == (start) && x == 0", "state == q && x >= 1"]


def test_a_limit_in_the_halting_set_leaves_the_verdict(folder, monkeypatch, capsys):
    def limited(*_, **__):
        raise LimitReached("time limit of 3 s reached")

    monkeypatch.setattr("polvet.termination.halting.halting_set", limited)
    assert run(["terminates", "carry.json", "--halting"]) == 0
    assert "  where executions can stop: not found, time limit of 3 s reached\n" in capsys.readouterr().out
