from __future__ import annotations

import json

import pytest

from polvet.check.lasso import check_replay, iter_states
from polvet.check.lex_rank import check_ranking
from polvet.policy.finite_memory import Builder, Choice, Effect, load_fmp, normalise
from polvet.termination.decide import terminates
from polvet.termination.progress_sieve import progress_sieve
from polvet.termination.verdicts import Nonterminating, Terminating
from polvet.verdict import Verdict
from tests.termination.plans import BENCHMARKS, iter_plans, random_plan, sustains_by_walks, sustains_by_z3

PUBLISHED = sorted(path for path in (BENCHMARKS / "fmp-sieve").glob("*.txt") if path.name != "notes.txt")


def check(fmp, result):
    certificate = json.loads(json.dumps(result.certificate))
    problem = (check_ranking if isinstance(result, Terminating) else check_replay)(fmp, certificate)
    assert problem is None, problem


@pytest.mark.skipif(not PUBLISHED, reason="the published edge lists are not here")
@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_published_plans_are_decided_as_the_independent_linear_programs_say(path):
    entries = json.loads((BENCHMARKS / "reference.json").read_text())
    [entry] = [entry for entry in entries if entry["file"] == f"fmp-sieve/{path.name}"]
    fmp = load_fmp(path)
    result = terminates(fmp)
    assert (result.verdict is Verdict.TERMINATING) == entry["recheck"]["structurally_terminating_as_VASS"]
    check(fmp, result)


def test_small_random_plans_agree_with_z3_and_with_walk_search():
    verdicts = {Verdict.TERMINATING: 0, Verdict.NONTERMINATING: 0}
    for fmp in iter_plans(1, 150, states=(1, 4), variables=(1, 3)):
        result = terminates(fmp)
        verdicts[result.verdict] += 1
        check(fmp, result)
        assert sustains_by_z3(fmp) == (result.verdict is Verdict.NONTERMINATING)
        if sustains_by_walks(fmp, 5):
            assert result.verdict is Verdict.NONTERMINATING
    assert min(verdicts.values()) > 25


def test_random_plans_with_all_sorts_of_bounds_agree_with_z3():
    for fmp in iter_plans(2, 80, states=(1, 4), variables=(1, 3), bounds=True):
        result = terminates(fmp)
        check(fmp, result)
        assert sustains_by_z3(fmp) == (result.verdict is Verdict.NONTERMINATING)


def test_larger_random_plans_always_get_a_verdict_that_checks():
    for fmp in iter_plans(3, 200):
        result = terminates(fmp)
        assert result.verdict is not Verdict.UNKNOWN
        check(fmp, result)


def test_two_loops_that_need_unequal_weights_are_proved_terminating():
    fmp = Builder("q").edge("q", "q", x=-2, y=1).edge("q", "q", x=1, y=-1).build()
    result = terminates(fmp)
    assert isinstance(result, Terminating)
    assert result.certificate is not None
    check(fmp, result)


def test_circulations_that_are_not_connected_do_not_count():
    # x+1 y-1 and x-1 y+1 cancel, but between the two loops z is paid.
    fmp = (
        Builder("a").edge("a", "a", x=1, y=-1).edge("b", "b", x=-1, y=1)
        .edge("a", "b", z=-1).edge("b", "a", z=0).build()
    )  # fmt: skip
    result = terminates(fmp)
    assert isinstance(result, Terminating)
    check(fmp, result)


def test_a_lasso_replays_step_by_step_within_the_bounds():
    fmp = Builder("a").edge("a", "b", x=-3, y=5).edge("b", "a", x=4, y=-5).variable("y", 2).build()
    result = terminates(fmp)
    assert isinstance(result, Nonterminating)
    states = list(iter_states(fmp, result.certificate))
    assert states[0][0] == states[-1][0] == "a"
    assert all(values["x"] >= 0 and values["y"] >= 2 for _, values in states)


def test_counts_beyond_machine_integers_are_exact():
    big = 10**30
    fmp = Builder("q").edge("q", "q", x=-big, y=1).edge("q", "q", x=big + 1, y=-1).build()
    result = terminates(fmp)
    assert isinstance(result, Nonterminating)
    check(fmp, result)
    fmp = Builder("q").edge("q", "q", x=-big, y=1).edge("q", "q", x=big - 1, y=-1).build()
    result = terminates(fmp)
    assert isinstance(result, Terminating)
    check(fmp, result)


def test_only_what_the_initial_state_reaches_counts():
    looping = Builder("a").edge("a", "b", x=-1).edge("c", "c").build()
    assert terminates(looping).verdict is Verdict.TERMINATING


def test_upper_bounds_are_mirrored():
    for effect, verdict in ((1, Verdict.TERMINATING), (-1, Verdict.NONTERMINATING)):
        fmp = Builder("q").variable("x", None, 7).edge("q", "q", x=effect).build()
        result = terminates(fmp)
        assert result.verdict is verdict
        check(fmp, result)


def test_a_variable_without_bounds_forbids_nothing():
    fmp = Builder("q").variable("x", None, None).edge("q", "q", x=-1).build()
    result = terminates(fmp)
    assert result.verdict is Verdict.NONTERMINATING
    check(fmp, result)


def test_of_an_interval_the_best_end_counts():
    for effect, verdict in ((Effect(-5, 1), Verdict.NONTERMINATING), (Effect(-5, -1), Verdict.TERMINATING)):
        fmp = Builder("q").edge("q", "q", x=effect, y=0).build()
        result = terminates(fmp)
        assert result.verdict is verdict
        check(fmp, result)


def test_an_endless_increase_pays_for_everything_in_its_component():
    fmp = (
        Builder("a", semantics="mixed").edge("a", "a", x=-1000, y=1).edge("a", "b", y=-1)
        .edge("b", "a", x=Effect(1, None)).build()
    )  # fmt: skip
    result = terminates(fmp)
    assert isinstance(result, Nonterminating)
    check(fmp, result)


def test_under_qualitative_semantics_the_complete_test_equals_progress_sieve():
    proved = 0
    for fmp in iter_plans(4, 150, states=(2, 6), bounds=True):
        qualitative = type(fmp)(fmp.variables, fmp.control_states, fmp.initial, fmp.edges, "qualitative")
        result = terminates(qualitative)
        check(qualitative, result)
        sieved = progress_sieve(normalise(qualitative)).proves_termination
        assert sieved == (result.verdict is Verdict.TERMINATING)
        proved += sieved
    assert 20 < proved < 130


def test_with_endless_increases_and_fixed_decreases_it_also_equals_progress_sieve():
    proved = 0
    for fmp in iter_plans(6, 100, states=(2, 6)):
        edges = []
        for edge in fmp.edges:
            effects = {
                name: Effect(1, None) if (effect.low or 0) > 0 else effect
                for name, effect in edge.choices[0].effects.items()
            }
            edges.append(type(edge)(edge.id, edge.source, edge.target, (Choice(effects),)))
        mixed = type(fmp)(fmp.variables, fmp.control_states, fmp.initial, tuple(edges), "mixed")
        result = terminates(mixed)
        check(mixed, result)
        sieved = progress_sieve(normalise(mixed)).proves_termination
        assert sieved == (result.verdict is Verdict.TERMINATING)
        proved += sieved
    assert 10 < proved < 95


def test_every_choice_of_an_edge_is_considered():
    builder = Builder("q").edge_with_choices(
        "q", "q", Choice({"x": Effect.exactly(-1)}), Choice({"x": Effect.exactly(1)})
    )
    result = terminates(builder.build())
    assert isinstance(result, Nonterminating)
    assert result.certificate["cycle"][0]["edges"][0]["choice"] == 1


def test_a_plan_with_a_thousand_states_in_one_component_gets_a_certificate():
    import random

    fmp = random_plan(random.Random(9), states=(1000, 1000), variables=(6, 6), highest=1)
    check(fmp, terminates(fmp))
