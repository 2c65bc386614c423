"""Policy predicate abstraction in all its configurations, beside abstract transitions enumerated state by state."""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

from polvet.budget import Budget
from polvet.domains import generate
from polvet.model.semantics import Semantics
from polvet.policy.binding import fit
from polvet.policy.compiled import compile_policy
from polvet.symbolic.cells import Box, Cell
from polvet.symbolic.conserved import conserved_rows
from polvet.symbolic.linear import NotLinear
from polvet.symbolic.operators import SILENT, linear_task, state_of
from polvet.verify.abstraction import Expansion, Options, PaperTests, options_of
from polvet.verify.box_tester import BoxTester
from polvet.verify.methods import BOXES, PAPER_CONFIGURATIONS, TEST_CONFIGURATIONS
from polvet.verify.predicates import Predicate, abstraction_of
from polvet.verify.questions import MarabouTester, Patience, confirmed
from tests.verify.oracle import _choices, random_policy
from tests.verify.small_tasks import random_task

MARABOU = importlib.util.find_spec("maraboupy") is not None
SEEDS = (0, 2, 4)
EXACT = (BOXES, "Base", "Mar+Z3", "Mar+Z3(Mar)", *TEST_CONFIGURATIONS)


@dataclass(frozen=True)
class Case:
    """A small random task with a network, some predicates, and the reachable fragment by enumeration."""

    bound: object
    linear: object
    predicates: list
    facts: tuple
    starts: frozenset
    reached: frozenset
    unsafe: frozenset
    edges: frozenset


def case_of(seed, folder):
    """Return the case, None where an assignment may leave its bounds or the model is not linear."""
    task, fitted, _ = random_task(seed, folder, ("network",))
    try:
        linear = linear_task(task)
    except NotLinear:
        return None
    rng, bounds = np.random.default_rng(seed), linear.system.bounds
    every = [
        Predicate(((place, 1),), value)
        for place, (low, high) in enumerate(zip(bounds.lower, bounds.upper, strict=True))
        for value in range(low, high)
    ]
    every.append(Predicate(((0, 1), (1, 1)), int(bounds.upper[0])))
    chosen = [every[k] for k in sorted(rng.choice(len(every), min(4, len(every)), replace=False))]
    facts = conserved_rows(linear)
    conserved = {row.terms for row in facts if not row.marks}
    chosen = [predicate for predicate in chosen if predicate.terms not in conserved]
    return Case(compile_policy(fitted), linear, chosen, facts, *enumerated(fitted, linear, chosen, facts))


def enumerated(fitted, linear, predicates, facts):
    """Return abstract starts, what is reached, what of it holds a failing state, and the transitions: (from, label, to)."""
    network = fitted.task.network
    semantics = Semantics(network)
    fails, goals, starts = (semantics.compile(one) for one in (fitted.task.fail, fitted.task.goal, fitted.task.start))
    number = {name: k for k, name in enumerate(network.labels)}
    begin, bad, steps = set(), set(), defaultdict(set)
    bounds = linear.system.bounds
    for point in product(*(range(low, high + 1) for low, high in zip(bounds.lower, bounds.upper, strict=True))):
        if not all(row.holds(point) for row in facts):
            continue
        state, here = state_of(network, point), abstraction_of(predicates, point)
        if starts(state):
            begin.add(here)
        if fails(state):
            bad.add(here)
        if fails(state) or goals(state):
            continue
        moves = semantics.moves(state)
        taken, _ = _choices(fitted, state, moves, True)
        for move in moves:
            if move.label is None or move.label in taken:
                label = SILENT if move.label is None else number[move.label]
                steps[here] |= {
                    (label, abstraction_of(predicates, [int(value) for value in outcome.state]))
                    for outcome in move.outcomes
                }
    reached, pending = set(begin), list(begin)
    while pending:
        for _, after in steps[pending.pop()] if pending else ():
            if after not in reached:
                reached.add(after)
                pending.append(after)
    edges = {(here, label, after) for here in reached for label, after in steps[here]}
    return frozenset(begin), frozenset(reached), frozenset(bad & reached), frozenset(edges)


def built(case, configuration):
    """Return the reachable fragment as a configuration builds it, and how much it asked."""
    patience, options = Patience(Budget(seconds=120)), options_of(configuration)
    paper = None if options.configuration == BOXES else PaperTests(case.bound, case.linear, options, patience)
    try:
        tester = paper or BoxTester(case.bound, case.linear, patience)
        space = Expansion(case.linear, case.predicates, tester, options, case.facts).build()
    finally:
        if paper is not None:
            paper.close()
    edges = frozenset((edge.source, edge.transition.label, edge.target) for edge in space.edges)
    shape = frozenset(space.starts), frozenset(space.reached), frozenset(space.unsafe), edges
    return shape, None if paper is None else dict(paper.questions)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    made = [case_of(seed, tmp_path_factory.mktemp("case")) for seed in SEEDS]
    kept = [case for case in made if case is not None]
    assert len(kept) >= 3
    assert any(case.unsafe for case in kept)
    assert any(len(case.reached) > 4 for case in kept)
    return kept


@pytest.mark.parametrize("configuration", EXACT)
def test_exact_configurations_reach_exactly_what_enumeration_reaches(cases, configuration):
    if configuration not in (BOXES, "Base") and not MARABOU:
        pytest.skip("Marabou is not installed")
    for case in cases:
        shape, _ = built(case, configuration)
        assert shape == (case.starts, case.reached, case.unsafe, case.edges)


@pytest.mark.skipif(not MARABOU, reason="Marabou is not installed")
def test_the_relaxation_reaches_at_least_that(cases):
    for case in cases:
        (starts, reached, unsafe, edges), _ = built(case, "Mar")
        assert starts == case.starts
        assert reached >= case.reached
        assert unsafe >= case.unsafe
        assert edges >= case.edges


@pytest.mark.skipif(not MARABOU, reason="Marabou is not installed")
def test_no_relaxation_denies_a_choice_that_is_made_where_all_inputs_have_one_value():
    task = generate("transport", locations=3, packages=2).task()
    linear, labels = linear_task(task), list(task.network.labels)
    seen = [variable.name for variable in task.network.variables if variable.name != "last_capacity_diff"]
    bounds, made = linear.system.bounds, 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        fitted = fit(task, random_policy("network", rng, seen, labels, hidden=8))
        bound = compile_policy(fitted)
        marabou = MarabouTester(bound, linear.system, Patience(Budget(seconds=120)))
        try:
            for _ in range(20):
                *loads, on_truck = rng.multinomial(2, [0.25] * 4).tolist()
                point = (*loads, int(rng.integers(0, 3)), on_truck)
                box = Box((*point, bounds.lower[-1]), (*point, bounds.upper[-1]))
                for label in range(len(labels)):
                    chosen = [s for last in range(-2, 3) if (s := confirmed(bound, Cell(box), label, (*point, last)))]
                    made += bool(chosen)
                    assert marabou.relaxed(Cell(box), label).satisfiable or not chosen
        finally:
            marabou.close()
    assert made > 20


@pytest.mark.skipif(not MARABOU, reason="Marabou is not installed")
def test_relaxed_tests_ask_nothing_exactly_and_spare_exact_questions(cases):
    for case in cases:
        asked = {name: built(case, name)[1] for name in TEST_CONFIGURATIONS}
        plain = asked["No-Sel-No-App"]
        for name in ("No-Sel-Rel-App", "Rel-Sel-No-App", "Rel-Sel-Rel-App"):
            assert asked[name]["exact"] <= plain["exact"]
        assert asked["Ex-Sel-Ex-App"]["exact"] >= asked["Rel-Sel-Rel-App"]["exact"]


def test_a_name_of_the_appendix_means_branch_and_bound_with_its_tests():
    assert options_of("Rel-Sel-No-App") == Options("BnB(Mar)", "relaxed", "off")
    assert {options_of(name).configuration for name in TEST_CONFIGURATIONS} == {"BnB(Mar)"}
    assert len({options_of(name) for name in TEST_CONFIGURATIONS}) == len(TEST_CONFIGURATIONS)
    assert [options_of(name).configuration for name in PAPER_CONFIGURATIONS] == list(PAPER_CONFIGURATIONS)
