"""Costs that no model knows: learned in environments, with bounds that hold, against a linear program that knows them."""

from __future__ import annotations

import random

import numpy as np
import pytest

import polvet
from polvet.errors import InputError
from polvet.mdp import SparseMdp
from polvet.shield.costs import Contradiction, CostBook

gymnasium = pytest.importorskip("gymnasium")
linprog = pytest.importorskip("scipy.optimize").linprog

WALK = """mdp
module walk
  x : [0..4] init 1;
  [bold] x>0 & x<4 -> 0.6:(x'=x+1) + 0.2:(x'=x) + 0.2:(x'=x-1);
  [calm] x>0 & x<4 -> 0.3:(x'=x+1) + 0.65:(x'=x) + 0.05:(x'=x-1);
  [back] x=0 -> (x'=1);
endmodule
"""
PRICES = {"bold": 2.0, "calm": 5.0, "back": 30.0}


@pytest.fixture
def walk(tmp_path):
    (tmp_path / "walk.prism").write_text(WALK)
    return polvet.load(tmp_path / "walk.prism", fail="x=0", goal="x=4")


def price(visit):
    """A price of the state and the action, and a little more where the walk went on."""
    return PRICES[visit.action] + visit.state["x"] + (visit.successor["x"] > visit.state["x"])


def mean(state, action):
    return PRICES[action] + state + {"bold": 0.6, "calm": 0.3}[action]


def best_price(bound, *, to_goal=False):
    """The least expected price of the walk by a linear program over states and whether the run has failed."""
    outcomes = {"bold": ((1, 0.6), (0, 0.2), (-1, 0.2)), "calm": ((1, 0.3), (0, 0.65), (-1, 0.05))}
    pairs = [(x, failed, a) for x in (1, 2, 3) for failed in (0, 1) for a in outcomes] + [(0, 1, "back")]
    places = [(x, failed) for x in (1, 2, 3) for failed in (0, 1)] + [(0, 1)]
    flow, falls, costs = np.zeros((len(places), len(pairs))), np.zeros((1, len(pairs))), []
    for k, (x, failed, a) in enumerate(pairs):
        flow[places.index((x, failed)), k] += 1
        costs.append(PRICES["back"] + 1 if a == "back" else mean(x, a))
        for step, p in outcomes.get(a, ((1, 1.0),)):
            target = x + step, int(failed or x + step == 0)
            falls[0, k] += p * (not failed and target[1])
            if target in places and (to_goal or not target[1]):
                flow[places.index(target), k] -= p
    begin = [float(one == (1, 0)) for one in places]
    answer = linprog(costs, A_ub=falls, b_ub=[bound], A_eq=flow, b_eq=begin, method="highs")
    assert answer.status == 0
    return answer.fun


@pytest.mark.parametrize("bound", ["0.2", "0.3", "1"])
def test_bounds_close_in_on_the_optimum_that_a_linear_program_finds(walk, bound):
    found = walk.learn(bound, price, cost_lower=1, cost_upper=40, episodes=200)
    best = best_price(float(bound))
    history = found.figures["history"]
    assert all(one["lower"] <= best * (1 + 1e-6) and best <= one["upper"] * (1 + 1e-6) for one in history)
    assert found.verdict.value == "optimal", found.source.reason
    assert found.upper == pytest.approx(best, rel=1e-5)


def test_runs_that_go_on_after_failing_cost_what_it_takes_to_the_goal(walk):
    found = walk.learn("0.3", price, cost_lower=1, cost_upper=40, episodes=300, to_goal=True)
    best = best_price(0.3, to_goal=True)
    assert best > best_price(0.3) + 5
    assert found.lower <= best * (1 + 1e-6)
    assert found.upper == pytest.approx(best, rel=1e-4)


def test_the_models_own_costs_to_the_goal_are_learned_too(tmp_path):
    rewards = 'rewards "fuel"\n  [bold] true : 2 + x;\n  [calm] true : 5 + x;\n  [back] true : 31;\nendrewards\n'
    (tmp_path / "walk.prism").write_text(WALK + rewards)
    task = polvet.load(tmp_path / "walk.prism", fail="x=0", goal="x=4")
    ends, on = (task.learn("0.3", "fuel", episodes=500, to_goal=further) for further in (False, True))
    assert ends.verdict.value == on.verdict.value == "optimal"
    assert on.upper > ends.upper + 5


def test_where_failing_is_the_end_runs_cannot_go_on_to_the_goal(tmp_path):
    (tmp_path / "walk.prism").write_text(WALK.replace("  [back] x=0 -> (x'=1);\n", ""))
    task = polvet.load(tmp_path / "walk.prism", fail="x=0", goal="x=4")
    with pytest.raises(InputError, match="costs infinitely much"):
        task.learn("0.3", price, cost_upper=40, episodes=20, to_goal=True)


def test_bounds_per_state_and_action_hold_what_is_true_and_q_values_come_near_it(walk):
    found = walk.learn("1", price, cost_lower=lambda state, label: 1 + state["x"], cost_upper=40, episodes=800)
    for x in (1, 2, 3):
        for label, (low, high) in found.cost_bounds({"x": x}).items():
            assert low <= mean(x, label) * (1 + 1e-9)
            assert mean(x, label) <= high * (1 + 1e-9)
    (label,) = found.scheduler({"x": 3})
    values = found.q_values({"x": 1})
    assert min(values.values()) == pytest.approx(found.upper, rel=0.2)
    assert found.q_values({"x": 3})[label] == min(found.q_values({"x": 3}).values())


def test_random_costs_are_learned_with_the_confidence_that_is_stated(walk):
    rng = random.Random(5)
    noisy = lambda visit: price(visit) + rng.choice([-1.0, 1.0])  # noqa: E731
    with pytest.raises(InputError, match="Give a confidence"):
        walk.learn("0.3", noisy, cost_upper=40, episodes=50)
    asked = {"cost_upper": 40, "confidence": 0.99, "iterations": 2}
    few, many = (walk.learn("0.3", noisy, episodes=count, **asked) for count in (20, 400))
    best = best_price(0.3)
    for found in (few, many):
        assert all(one["lower"] <= best <= one["upper"] for one in found.figures["history"])
        assert found.figures["confidence"] == 0.99
    assert many.upper - many.lower < 0.6 * (few.upper - few.lower)


def test_hundreds_of_books_of_random_costs_are_wrong_no_oftener_than_stated():
    rng = np.random.default_rng(0)
    mdp = SparseMdp.build([[[(1, 1.0)], [(1, 1.0)]], []])
    wrong = 0
    for _ in range(300):
        book = CostBook(mdp, np.zeros(2), np.ones(2), 0.8)
        missed = False
        for draw in rng.random((25, 2)) < (0.1, 0.7):
            for choice in (0, 1):
                book.note(choice, 1, float(draw[choice]))
            low, high = book.bounds()
            missed |= bool((low > (0.1, 0.7)).any() or (high < (0.1, 0.7)).any())
        wrong += missed
    assert wrong <= 60


def test_a_cost_that_was_not_promised_or_changed_is_a_contradiction():
    mdp = SparseMdp.build([[[(0, 0.5), (1, 0.5)]], []])
    book = CostBook(mdp, np.ones(1), np.full(1, 3.0))
    with pytest.raises(Contradiction, match="outside"):
        book.note(0, 1, 4.0)
    book.note(0, 1, 2.0)
    book.note(0, 0, 3.0)
    with pytest.raises(Contradiction, match="was 2"):
        book.note(0, 1, 3.0)
    assert [float(side[0]) for side in book.bounds()] == pytest.approx([2.5, 2.5])


def test_any_learner_explores_through_the_shielded_environment(walk):
    taken = []

    def learner(env):
        chance = np.random.default_rng(len(taken))
        for _ in range(80):
            env.reset(seed=int(chance.integers(2**31)))
            over = False
            while not over:
                mask = env.action_masks()
                action = int(chance.integers(len(mask)))  # whether it is allowed or not
                _, _, terminated, truncated, info = env.step(action)
                taken.append((mask.sum(), info["replaced"], mask[action]))
                assert mask[info["taken"]]
                assert info["cost"] > 0
                over = terminated or truncated

    found = walk.learn("0.2", price, cost_upper=40, learner=learner, iterations=2, episodes=20)
    assert found.upper < 100
    assert any(replaced for _, replaced, _ in taken)
    assert all(replaced != allowed for _, replaced, allowed in taken)


class Cold(gymnasium.Wrapper):
    """A lake where a step costs what the cell does: minus its reward."""

    def step(self, action):
        shown, _, terminated, truncated, info = self.env.step(action)
        return shown, -1.0 - shown % 3, terminated, truncated, info


def test_rewards_of_a_gymnasium_environment_are_costs():
    task = polvet.from_gym(gymnasium.make("FrozenLake-v1", is_slippery=True))
    found = task.learn("0.9", env=Cold(gymnasium.make("FrozenLake-v1")), cost_upper=3, episodes=150, gap=0.05)
    table = gymnasium.make("FrozenLake-v1").unwrapped
    desc, inner = table.desc.ravel(), [s for s in table.P if table.desc.ravel()[s] in (b"S", b"F")]
    pairs = [(s, a) for s in inner for a in range(4)]
    flow, falls, costs = np.zeros((len(inner), len(pairs))), np.zeros((1, len(pairs))), np.zeros(len(pairs))
    for k, (s, a) in enumerate(pairs):
        flow[inner.index(s), k] += 1
        for chance, target, _, _ in table.P[s][a]:
            costs[k] += chance * (1 + target % 3)
            falls[0, k] += chance * (desc[target] == b"H")
            if target in inner:
                flow[inner.index(target), k] -= chance
    begin = [float(s == 0) for s in inner]
    best = linprog(costs, A_ub=falls, b_ub=[0.9], A_eq=flow, b_eq=begin, method="highs").fun
    assert found.lower <= best * (1 + 1e-6)
    assert best <= found.upper * (1 + 1e-6)
    assert found.upper - found.lower <= 0.06 * best


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"cost": price}, "nothing is promised"),
        ({"cost": price, "cost_upper": 3}, "outside"),
        ({"cost": price, "cost_upper": 40, "confidence": 2}, "is no probability"),
        ({"cost": price, "cost_lower": 50, "cost_upper": 40}, "lower <= upper"),
        ({"cost": price, "cost_upper": 40, "labels": ["bold", "calm"]}, "labels for"),
        ({"cost": price, "cost_upper": 40, "state_of": lambda shown: {"y": 1}}, "no variable 'y'"),
        ({"cost": price, "cost_upper": 40, "state_of": lambda shown: {"x": 3}}, "no start state"),
        ({"cost": "fuel", "confidence": 0.9}, "for an environment"),
        ({"cost": "fuel", "env": "FrozenLake-v1", "cost_upper": 3}, "does not show it"),
    ],
)
def test_what_cannot_be_learned_is_said(walk, given, says):
    with pytest.raises(InputError, match=says):
        walk.learn("0.3", episodes=20, **given)


def test_an_environment_that_is_not_the_model_is_noticed(walk):
    with pytest.raises(InputError, match="check_abstraction"):
        walk.learn("0.3", price, env=Leaping(walk.env()), cost_upper=40, episodes=50)


class Leaping(gymnasium.Wrapper):
    """The walk, shown one to the right."""

    def named_state(self):
        return self.env.unwrapped.named_state()

    def __init__(self, env):
        super().__init__(env)
        inner = env.unwrapped
        there = inner.named_state
        inner.named_state = lambda: {"x": there()["x"] + 1}


COLD = """import gymnasium

class Cold(gymnasium.Wrapper):
    def step(self, action):
        shown, _, terminated, truncated, info = self.env.step(action)
        return shown, -1.0 - shown % 3, terminated, truncated, info

gymnasium.register(id="Cold-v0", entry_point=lambda: Cold(gymnasium.make("FrozenLake-v1")))
"""


def test_the_command_learns_in_an_environment_by_its_name(tmp_path, monkeypatch, capsys):
    from polvet.cli.app import run

    (tmp_path / "cold_lake.py").write_text(COLD)
    monkeypatch.syspath_prepend(tmp_path)
    asked = [
        "--env",
        "cold_lake:Cold-v0",
        "--bound",
        "0.9",
        "--cost-upper",
        "3",
        "--iterations",
        "1",
        "--episodes",
        "20",
    ]
    assert run(["learn", "gym:FrozenLake-v1", *asked, "--picture", str(tmp_path / "bounds.svg")]) in (0, 20)
    assert "iteration" in (tmp_path / "bounds.svg").read_text()
    assert "upper" in capsys.readouterr().out
