"""Policies that are found surely end in the goal; where none is found, brute force finds none either."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

import pytest

import polvet
from polvet.cli.app import run
from polvet.errors import Where
from polvet.policy.finite_memory.qnp import build_from_qnp, dead_ends, parse_qnp
from polvet.termination.arena import build_arena
from polvet.termination.decide import is_terminating
from polvet.termination.incremental import endless, endless_through, smallest_core
from polvet.termination.plan_rules import policy_document
from polvet.termination.synthesis import synthesize
from tests.termination.problems import every_policy, random_problem

SHARED = Path(__file__).resolve().parents[3] / "shared" / "benchmarks" / "qnp2fond"
PROBLEMS = sorted(SHARED.rglob("*.qnp"))


def _policies(seed):
    return prod(len(some) or 1 for some in build_arena(parse_qnp(random_problem(seed), Where("p"))).choices)


SMALL = [seed for seed in range(400) if _policies(seed) <= 300][:60]


@pytest.mark.parametrize("seed", SMALL)
def test_a_policy_is_found_iff_brute_force_finds_one(seed):
    problem = parse_qnp(random_problem(seed), Where("p"))
    arena = build_arena(problem)
    found = synthesize(arena)

    def ends(chosen):  # the complete test on the finite-memory policy judges, not the sieve that the search uses
        document = policy_document(problem, arena, chosen, 1)
        return is_terminating(build_from_qnp(problem, json.dumps(document), Where("policy")))

    assert (found.chosen is not None) == any(ends(chosen) for chosen in every_policy(arena))
    if found.chosen is not None:
        document = json.dumps(policy_document(problem, arena, found.chosen, 1))
        plan = build_from_qnp(problem, document, Where("policy"))
        assert is_terminating(plan)
        assert dead_ends(problem, plan) == []


def test_both_answers_occur():
    answers = {synthesize(build_arena(parse_qnp(random_problem(s), Where("p")))).chosen is None for s in SMALL}
    assert answers == {True, False}


@pytest.mark.parametrize("seed", range(40))
def test_the_incremental_test_says_what_the_whole_one_says_and_cores_are_smallest(seed):
    import random

    arena = build_arena(parse_qnp(random_problem(seed), Where("p")))
    draw = random.Random(seed)
    chosen: dict[int, int] = {}
    for node in draw.sample(range(len(arena.nodes)), len(arena.nodes)):
        if not arena.choices[node]:
            continue
        chosen[node] = draw.choice(arena.choices[node])
        left = endless_through(arena, chosen, node)
        assert bool(left) == bool(endless(arena, list(chosen.values())))
        if left:
            core = smallest_core(arena, left)
            assert endless(arena, core)
            assert all(not endless(arena, core - {choice}) for choice in core)
            del chosen[node]


@pytest.mark.skipif(not PROBLEMS, reason="the published problems are not here")
@pytest.mark.parametrize("path", PROBLEMS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_published_problems_are_solved_and_certified(path, tmp_path, capsys):
    plan, certificate = tmp_path / "plan.json", tmp_path / "certificate.json"
    assert run(["synthesize", str(path), "-o", str(plan), "--certificate", str(certificate)]) == 0
    assert run(["certify", str(certificate), "--task", str(path), "--policy", str(plan)]) == 0
    assert run(["terminates", str(path), "--policy", str(plan), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["solves"] is True


TRAP = """trap
3 n 1 m 1 p 0
3 n 1 m 1 p 0
1 n 0
3
fall
1 n 1
2 n 0 m 1
swap
2 n 1 m 1
2 m 0 n 1
set
1 p 0
1 p 1
"""


def test_a_partial_plan_is_followed_where_it_is_open(tmp_path, capsys):
    problem, part = tmp_path / "trap.qnp", tmp_path / "part.txt"
    problem.write_text(TRAP)
    found = polvet.synthesize(problem)
    assert [rule["action"] for rule in found.policy["rules"]] == ["fall"]
    part.write_text("!p -> set\n")
    assert {rule["action"] for rule in polvet.synthesize(problem, policy=part).policy["rules"]} == {"fall", "set"}
    part.write_text("m > 0 -> swap\n")
    assert polvet.synthesize(problem, policy=part).verdict is polvet.Verdict.IMPOSSIBLE
    assert run(["synthesize", str(problem), "--policy", str(part)]) == 10
    assert "no policy without memory" in capsys.readouterr().out
    part.write_text("m > 0 -> jump\n")
    assert run(["synthesize", str(problem), "--policy", str(part)]) == 30


def test_policies_with_memory_are_written_read_and_proved(tmp_path):
    problem = parse_qnp(TRAP, Where("p"))
    arena = build_arena(problem, memory=2)
    found = synthesize(arena)
    assert found.chosen is not None
    document = policy_document(problem, arena, found.chosen, 2)
    assert {rule["memory"] for rule in document["rules"]} <= {"m0", "m1"}
    plan = build_from_qnp(problem, json.dumps(document), Where("policy"))
    assert is_terminating(plan)
    assert dead_ends(problem, plan) == []


def test_a_start_in_the_goal_needs_nothing(tmp_path):
    problem = tmp_path / "there.qnp"
    problem.write_text(TRAP.replace("1 n 0\n3", "1 n 1\n3"))
    found = polvet.synthesize(problem)
    assert found.verdict is polvet.Verdict.SOLVED
    assert found.checked


def test_a_time_limit_ends_the_search(tmp_path):
    problem = tmp_path / "p.qnp"
    problem.write_text(random_problem(22, numbers=4, booleans=2))
    found = polvet.synthesize(problem, time_limit=0.2)
    assert found.verdict is polvet.Verdict.UNKNOWN
    assert "time limit" in found.reason
