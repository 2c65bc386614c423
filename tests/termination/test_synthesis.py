"""Policies that are found surely end in the goal; where none is found, brute force finds none either."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import reduce
from math import prod
from operator import or_
from pathlib import Path

import pytest
from benchmarks.qnp_to_fond import fond_domain, fond_problem

import polvet
from polvet.cli.app import run
from polvet.errors import Where
from polvet.policy.finite_memory.qnp import build_from_qnp, dead_ends, parse_qnp, starts_of
from polvet.termination.arena import build_arena
from polvet.termination.arena_sieve import endless
from polvet.termination.decide import is_terminating
from polvet.termination.plan_rules import policy_document
from polvet.termination.rabin_game import winning_choices
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
        document = policy_document(problem, arena, chosen)
        return is_terminating(build_from_qnp(problem, json.dumps(document), Where("policy")))

    assert (found.chosen is not None) == any(ends(chosen) for chosen in every_policy(arena))
    if found.chosen is not None:
        document = json.dumps(policy_document(problem, arena, found.chosen))
        plan = build_from_qnp(problem, document, Where("policy"))
        assert is_terminating(plan)
        assert dead_ends(problem, plan) == []


def test_both_answers_occur():
    answers = {synthesize(build_arena(parse_qnp(random_problem(s), Where("p")))).chosen is None for s in SMALL}
    assert answers == {True, False}


@pytest.mark.parametrize("seed", SMALL[:30])
def test_nodes_are_won_iff_some_policy_from_there_ends(seed):
    arena = build_arena(parse_qnp(random_problem(seed), Where("p")))
    winning = winning_choices(arena)
    for node in range(len(arena.nodes)):
        if node not in arena.goals and arena.choices[node]:
            some = any(not endless(arena, list(one.values())) for one in every_policy(replace(arena, starts=(node,))))
            assert (node in winning) == some


@pytest.mark.parametrize("seed", range(12))
def test_sieve_takes_no_choice_that_can_be_followed_for_ever(seed):
    """All simple closed ways are tried: one whose numbers are raised where they are lowered runs for ever."""
    arena = build_arena(parse_qnp(random_problem(seed, 2, 1), Where("p")))
    draw = random.Random(seed)
    for _ in range(20):
        chosen = {node: draw.choice(some) for node, some in enumerate(arena.choices) if some}
        left = endless(arena, list(chosen.values()))
        for way in closed_ways(arena, chosen):
            raised = reduce(or_, (arena.options[chosen[node]].raises for node in way))
            lowered = reduce(or_, (arena.options[chosen[node]].lowers for node in way))
            assert lowered & ~raised or left.issuperset(chosen[node] for node in way)


def closed_ways(arena, chosen):
    """Yield the simple cycles of the choices, as nodes."""
    for start in chosen:
        agenda = [[start]]
        while agenda:
            way = agenda.pop()
            for one in dict.fromkeys(arena.options[chosen[way[-1]]].outcomes):
                if one == start:
                    yield way
                elif one in chosen and one > start and one not in way:
                    agenda.append([*way, one])


def test_where_nothing_can_be_done_the_translation_to_fond_has_no_solution(tmp_path):
    """Another way to the same answer: without memory there is none, and none with the stack and the counters of the translation."""
    seen = 0
    for seed in range(30):
        problem = parse_qnp(random_problem(seed, 2, 1), Where("p"))
        found = synthesize(build_arena(problem)).chosen is not None
        (tmp_path / "domain.pddl").write_text(fond_domain(problem, 2))
        words = set()
        for start in starts_of(problem):
            (tmp_path / "problem.pddl").write_text(fond_problem(problem, start))
            task = polvet.load(tmp_path / "problem.pddl", domain=tmp_path / "domain.pddl")
            words.add(task.decide(goal_reaching=True).word)
        assert found or words != {"strong-cyclic"}
        seen += not found
    assert seen > 3


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
    assert "no policy surely ends in the goal, with memory or without" in capsys.readouterr().out
    part.write_text("m > 0 -> jump\n")
    assert run(["synthesize", str(problem), "--policy", str(part)]) == 30


def test_a_start_in_the_goal_needs_nothing(tmp_path):
    problem = tmp_path / "there.qnp"
    problem.write_text(TRAP.replace("1 n 0\n3", "1 n 1\n3"))
    found = polvet.synthesize(problem)
    assert found.verdict is polvet.Verdict.SOLVED
    assert found.checked


def test_a_time_limit_ends_the_search(tmp_path):
    problem = tmp_path / "p.qnp"
    problem.write_text(random_problem(0, numbers=16, booleans=1))
    found = polvet.synthesize(problem, time_limit=0.2)
    assert found.verdict is polvet.Verdict.UNKNOWN
    assert "time limit" in found.reason
