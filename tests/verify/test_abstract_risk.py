"""Abstractions never promise less risk than there is; they tell it exactly where the variables that decide are kept."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from polvet.budget import UNLIMITED, Budget
from polvet.cli.app import run
from polvet.domains import generate
from polvet.model.build import ModelBuilder
from polvet.model.task import PolicyReading
from polvet.policy.binding import fit
from polvet.policy.compiled import compile_policy
from polvet.policy.networks import network_of
from polvet.policy.save import save_policy
from polvet.policy.trees import MISSING_NAN, TreeEnsemble, make_tree
from polvet.verify import abstract_risk
from polvet.verify.abstract_risk import TooCoarse, _Abstraction, find_abstract_risk, iter_levels
from polvet.verify.engine import Engine
from polvet.verify.probability import find_risk
from tests.verify.cases import CASES, fitted_case
from tests.verify.test_engine import random_network, random_trees

TIGHT = 1e-5


def upper_over(engine, places):
    return _Abstraction(engine, places, UNLIMITED, 20_000).solve().upper


def random_walk(seed):
    """A random model of three variables with random branches, and a random network or tree ensemble."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    m = ModelBuilder("walk")
    variables = [m.int(name, 0, 3, initial=rng.randint(0, 3)) for name in "xyz"]
    m.labels("a", "b", "c")

    def moved(variable):
        return rng.choice([variable, rng.randint(0, 3), 3 - variable, rng.choice(variables)])

    for label in ("a", "b", "c", "a", None):
        one, other = rng.sample(variables, 2)
        guard = (one < rng.randint(1, 4)) if rng.randint(0, 1) else (one + other > rng.randint(0, 4))
        weights = [rng.randint(1, 4) for _ in range(rng.randint(1, 3))]
        to = [
            (Fraction(weight, sum(weights)), {variable: moved(variable) for variable in rng.sample(variables, 2)})
            for weight in weights
        ]
        if label is not None or rng.random() < 0.2:
            m.edge(label, guard=guard, to=to)
    fail = rng.choice([variables[0] == 3, (variables[0] == 3) & (variables[1] > 1), variables[0] + variables[2] > 5])
    goal = rng.choice([variables[1] == 0, variables[2] == rng.randint(0, 3)])
    task = replace(m.task(fail=fail, goal=goal), reading=PolicyReading(rng.choice(["filtered", "raw"])))
    make = random_trees if rng.randint(0, 1) else random_network
    return fit(task, make(numbers, list("xyz"), list(task.network.labels), bool(rng.randint(0, 1))))


@pytest.mark.parametrize("segments", [1, 3, 64])
def test_no_partition_of_a_random_walk_promises_too_little(segments, monkeypatch):
    monkeypatch.setattr(abstract_risk, "MOST_VALUES", segments)
    between = gained = exact = 0
    for seed in range(100):
        fitted = random_walk(seed)
        engine = Engine(fitted, seed=seed)
        risk = find_risk(compile_policy(fitted))
        uppers = [upper_over(engine, places) for size in range(4) for places in combinations(range(3), size)]
        assert min(uppers) >= risk.lower, seed
        between += 0.01 < risk.upper < 0.99
        gained += any(upper < 1 for upper in uppers[:-1])
        exact += uppers[-1] <= risk.upper + TIGHT
        if segments == 64 and risk.near_ties == 0:
            assert uppers[-1] <= risk.upper + TIGHT, seed
    assert between > 8
    assert gained > 10
    assert exact > 20


@pytest.mark.parametrize("kind", ["network", "trees"])
@pytest.mark.parametrize("mode", ["filtered", "raw"])
@pytest.mark.slow
def test_domains_risk_no_more_than_the_bound_and_all_variables_tell_it_exactly(kind, mode):
    told = 0
    for case in CASES:
        if case[0] in ("racetrack", "beluga"):  # read slowly
            continue
        fitted = fitted_case(case, kind, mode, 0)[0]
        risk = find_risk(compile_policy(fitted))
        engine = Engine(fitted)
        network = fitted.task.network
        for level in iter_levels(fitted.task):
            try:
                upper = upper_over(engine, [k for k, v in enumerate(network.variables) if v.name in level])
            except TooCoarse:
                continue
            assert upper >= risk.lower, (case, sorted(level))
            if len(level) == len(network.variables) and risk.near_ties == 0:
                assert upper <= risk.upper + TIGHT, case
                told += 1
    assert told > 5


def driver(task, seed):
    """Trees that see the truck alone, not what it carries nor what is left."""
    rng = np.random.default_rng(seed)
    names, labels = tuple(variable.name for variable in task.network.variables), task.network.labels
    seen = [k for k, name in enumerate(names) if name in ("truck_0", "truck_vel_0", "parked_0")]

    def tree(output):
        feature, threshold = np.full(7, -1), np.zeros(7)
        feature[:3], threshold[:3] = rng.choice(seen, 3), rng.integers(0, 4, 3) + 0.5
        left, right = np.array([1, 3, 5, -1, -1, -1, -1]), np.array([2, 4, 6, -1, -1, -1, -1])
        return make_tree(output, feature, threshold, left, right, rng.normal(0, 1, (7, 1)), None, MISSING_NAN)

    trees = tuple(tree(output) for output in range(len(labels)) for _ in range(3))
    return TreeEnsemble(names, labels, trees, (0.0,) * len(labels), "<", "float32", 0.0)


@pytest.mark.parametrize(("seed", "truth"), [(9, 0.1), (19, 0.19), (22, 0.19)])
def test_the_truck_alone_tells_the_risk_of_an_icy_line(seed, truth):
    task = generate("one-way-line", n=3, p=4, icy=True, park=True).task()
    bound = compile_policy(fit(task, driver(task, seed)))
    exact = find_risk(bound)
    assert exact.method == "explicit"
    assert exact.upper == pytest.approx(truth)
    found = find_risk(bound, budget=Budget(states=50, seconds=30.0))
    assert found.method == "abstraction"
    assert found.limit is not None
    assert set(found.variables) == {"truck_0", "truck_vel_0", "parked_0", "aux_vel"}
    assert exact.lower <= found.upper <= exact.upper + TIGHT
    assert found.states < exact.states


def test_the_command_says_how_the_probability_was_bounded(tmp_path, capsys):
    generate("one-way-line", n=3, p=4, icy=True, park=True).write(tmp_path / "line.jani")
    task = generate("one-way-line", n=3, p=4, icy=True, park=True).task()
    save_policy(driver(task, 19), tmp_path / "policy.json")
    command = ["verify", str(tmp_path / "line.toml"), str(tmp_path / "policy.json"), "--probability", "--workers", "2"]
    run([*command, "--max-states", "50", "--time-limit", "30"])
    shown = capsys.readouterr().out
    assert "of failing, at worst: 0 to 0.19" in shown
    assert "by an abstraction with" in shown
    assert "limit of 50 states" in shown
    run(command)
    assert "of failing, at worst: 0.19" in capsys.readouterr().out


def wanderer(probability):
    m = ModelBuilder("walk")
    x = m.int("x", 0, 9, initial=5)
    m.labels("go")
    m.edge("go", guard=x < 9, to=[(probability(x), {x: x + 1}), (1 - probability(x), {x: 0})])
    return compile_policy(fit(m.task(fail=x == 9), network_of([([[0.0]], [0.0])], ["x"], ["go"])))


def test_probabilities_that_depend_on_the_state_are_refused():
    found = find_abstract_risk(wanderer(lambda x: x / 10))
    assert found.upper == 1
    assert "depends on the state" in found.limit


def test_limits_are_told():
    bound = compile_policy(fitted_case(CASES[-1], "network", "filtered", 0)[0])
    assert "abstract st" in find_abstract_risk(bound, most_states=2).limit
    assert find_abstract_risk(bound, budget=Budget(0)).upper == 1
    risk = find_risk(bound, budget=Budget(states=3, seconds=1e-3))
    assert (risk.lower, risk.upper, risk.method) == (0.0, 1.0, "explicit")
    assert "abstraction: " in risk.limit


def test_a_step_out_of_bounds_is_no_safe_step():
    m = ModelBuilder("leaves")
    x = m.int("x", 0, 3, initial=0)
    y = m.int("y", 0, 3, initial=0)
    m.labels("go")
    m.edge("go", guard=y < 3, to={x: x + 1, y: y + 1})
    task = m.task(fail=x == 9)
    bound = compile_policy(fit(task, network_of([([[0.0]], [0.0])], ["x"], ["go"])))
    with pytest.raises(TooCoarse):
        upper_over(Engine(bound.fitted), [0])
    assert find_abstract_risk(bound).upper == 0  # both together stay within
