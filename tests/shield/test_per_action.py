"""Shields by a rule on each action's risk: equal to brute force over all schedulers, and accepted by the checker."""

from __future__ import annotations

import itertools
import json
import random
from fractions import Fraction

import numpy as np
import pytest

import polvet
from polvet.errors import InputError
from polvet.mdp.sparse import SparseMdp
from polvet.shield import game
from polvet.shield.game import NONE
from polvet.shield.per_action import Rule, permit_by_rule
from polvet.shield.world import World, build_world
from polvet.sources import TaskOptions, load_task
from tests.attack.action_risk import THRESHOLDS, least_risks, least_within, meant, risks_of
from tests.attack.permissive import small_task
from tests.mdp.brute import chain_reach
from tests.shield.oracle import random_world


def _least(choices, fail):
    """The least risk from every state, over all deterministic memoryless schedulers."""
    best = [Fraction(1)] * len(choices)
    for scheduler in itertools.product(*(range(max(1, len(mine))) for mine in choices)):
        rows = [mine[c] if mine else [] for mine, c in zip(choices, scheduler, strict=True)]
        best = [min(a, b) for a, b in zip(best, chain_reach(rows, [True] * len(rows), fail), strict=True)]
    return best


def _rule(rng):
    return rng.choice(["per-state", "relative"]), rng.choice(THRESHOLDS[:-1])


@pytest.mark.parametrize("kind", ["per-state", "relative"])
def test_500_worlds_are_as_brute_force_says(kind):
    forbidden = above = 0
    for seed in range(500):
        rng = random.Random(seed)
        world, choices, fail = random_world(rng, states=5)
        threshold = rng.choice(THRESHOLDS[:-1])
        found = permit_by_rule(world, Rule(kind, threshold))
        least = _least(choices, fail)
        assert found.least == least, seed
        starts = world.option_start.tolist()
        for s, mine in enumerate(choices):
            risks = {c: sum(p * least[t] for t, p in row) for c, row in enumerate(mine)}
            assert found.risks[starts[s] : starts[s + 1]] == list(risks.values()), seed
            allowed = meant(kind, threshold, risks, least[s])
            assert [c for c in risks if found.result.permitted[starts[s] + c]] == allowed, seed
            forbidden += len(risks) - len(allowed)
            above += bool(risks) and kind == "per-state" and least[s] > threshold
    assert forbidden > 150
    assert above > 50 or kind == "relative"


def test_500_models_with_silent_operators_and_shared_labels_are_as_brute_force_says(tmp_path):
    models = forbidden = 0
    for seed in range(600):
        rng = random.Random(seed)
        if (made := small_task(rng, tmp_path)) is None:
            continue
        small, file, _ = made
        kind, threshold = _rule(rng)
        asked = {"bound": threshold, "per_state": True} if kind == "per-state" else {"relative": threshold}
        shield = polvet.load(file).permit(**asked)
        assert shield.checked, (seed, shield)
        least = least_risks(small)
        risks = risks_of(small, least)
        for (key,), allowed in shield.table.actions.items():
            s = key - small.base
            assert shield.action_risks({"s": key}) == risks[s], seed
            assert list(allowed) == meant(kind, threshold, risks[s], least[s]), seed
            forbidden += len(risks[s]) - len(allowed)
        models += 1
    assert models >= 500
    assert forbidden > 40


def _within(choices, fail, state, steps):
    """The least risk of failing within so many steps, played out move by move."""
    if fail[state] or not steps or not choices[state]:
        return Fraction(int(fail[state]))
    return min(sum(p * _within(choices, fail, t, steps - 1) for t, p in row) for row in choices[state])


def test_500_worlds_within_a_horizon_are_as_playing_out_every_move_says():
    forbidden = nearer = 0
    for seed in range(500):
        rng = random.Random(seed)
        world, choices, fail = random_world(rng, states=5)
        kind, threshold = _rule(rng)
        steps = rng.randint(1, 3)
        found = permit_by_rule(world, Rule(kind, threshold, steps))
        starts = world.option_start.tolist()
        for s, mine in enumerate(choices):
            risks = {c: sum(p * _within(choices, fail, t, steps - 1) for t, p in row) for c, row in enumerate(mine)}
            best = min(risks.values(), default=Fraction(int(fail[s])))
            assert found.least[s] == best, seed
            assert found.risks[starts[s] : starts[s + 1]] == list(risks.values()), seed
            allowed = meant(kind, threshold, risks, best)
            assert [c for c in risks if found.result.permitted[starts[s] + c]] == allowed, seed
            forbidden += len(risks) - len(allowed)
        nearer += found.least != game.find_least_risks(world)
    assert forbidden > 300
    assert nearer > 100


def _greatest_risk(choices, fail, start, left, prices, *, forgets=False):
    """The greatest risk of a chooser that pays for each choice: swept over states and what is left, from below."""
    number, todo = {(start, left): 0}, [(start, left)]
    moves = []
    while todo:
        state, rest = todo.pop()
        for c, row in enumerate(choices[state]):
            if prices[state][c] <= rest:
                after = [((t, rest if forgets else rest - prices[state][c]), float(p)) for t, p in row]
                for target, _ in after:
                    if target not in number:
                        number[target] = len(number)
                        todo.append(target)
                moves.append((number[state, rest], after))
    value = np.array([float(fail[state]) for state, _ in number])
    for _ in range(120):
        for place, after in moves:
            value[place] = max(value[place], sum(p * value[number[target]] for target, p in after))
    return value[0]


def test_500_worlds_with_a_budget_keep_it_whatever_is_chosen():
    spent = broken = models = 0
    for seed in range(1_200):
        rng = random.Random(seed)
        world, choices, fail = random_world(rng, states=4)
        least = _least(choices, fail)
        if least[0] == 1 or fail[0] or not choices[0]:
            continue
        total = least[0] + (1 - least[0]) * Fraction(rng.randint(0, 4), 5)
        found = permit_by_rule(world, Rule("budget", total))
        assert found.least == least, seed
        starts = world.option_start.tolist()
        prices = [
            {c: sum(p * least[t] for t, p in row) - least[s] for c, row in enumerate(mine)}
            for s, mine in enumerate(choices)
        ]
        for s, mine in enumerate(prices):
            assert [found.risks[starts[s] + c] - found.least[s] for c in mine] == list(mine.values()), seed
            assert [c for c in mine if found.result.permitted[starts[s] + c]] == [c for c in mine if mine[c] == 0], seed
        left = total - least[0]
        worst = _greatest_risk(choices, fail, 0, left, prices)
        assert worst <= total + Fraction(1, 10**9), seed
        spent += worst > least[0] + Fraction(1, 10**6)
        broken += _greatest_risk(choices, fail, 0, left, prices, forgets=True) > total + Fraction(1, 10**6)
        models += 1
        if models == 500:
            break
    assert models == 500
    assert spent > 100
    assert broken > 20  # where the prices are not taken off, the bound does not hold


def test_models_with_silent_operators_are_certified_within_a_horizon_and_with_a_budget(tmp_path):
    models = 0
    for seed in range(120):
        rng = random.Random(seed)
        if (made := small_task(rng, tmp_path)) is None:
            continue
        small, file, _ = made
        steps, task = rng.randint(1, 3), polvet.load(file)
        shield = task.permit("1/3", per_state=True, horizon=steps)
        assert shield.checked, (seed, shield)
        risks, least = risks_of(small, least_within(small, steps - 1)), least_within(small, steps)
        for (key,), allowed in shield.table.actions.items():
            s = key - small.base
            assert shield.action_risks({"s": key}) == risks[s], seed
            assert list(allowed) == meant("per-state", Fraction(1, 3), risks[s], least[s]), seed
        ever = least_risks(small)
        worst = max(ever[s] for s in small.starts)
        if worst < 1:
            assert task.permit(budget=(1 + worst) / 2).checked, seed
        if worst > 0:
            nothing = task.permit(budget=worst / 2)
            assert nothing.verdict.value == "impossible", seed
            assert nothing.figures["minimum_exact"] == str(worst), seed
        models += 1
    assert models > 80


def test_a_budget_is_spent_along_a_run_and_a_new_run_has_a_new_one(tmp_path):
    pytest.importorskip("gymnasium")
    (tmp_path / "walk.prism").write_text(
        "mdp\nmodule walk\n  x : [0..9] init 1;\n  [bold] x>0 & x<9 -> 0.1:(x'=0) + 0.9:(x'=x+1);\n"
        "  [calm] x>0 & x<9 -> (x'=x+1);\nendmodule\n"
    )
    task = polvet.load(tmp_path / "walk.prism", fail="x=0", goal="x=9")
    shield = task.permit(budget="0.25", output=tmp_path / "shield.json")
    assert polvet.certify(tmp_path / "shield.json", task).accepted
    env = shield.wrap(task.env())
    bold = task.labels.index("bold")
    for episode in range(20):
        env.reset(seed=episode)
        taken, over = [], False
        while not over:
            open_ = env.action_masks()[bold]
            assert open_ == (len(taken) < 2 or not all(taken[:2])), taken
            _, _, terminated, truncated, info = env.step(bold)
            taken.append(info["taken"] == bold)
            over = terminated or truncated
        assert sum(taken) <= 2  # at a tenth each, a quarter pays for two
    run = shield.budget()
    assert (run.begin({"x": 1}), run.take({"x": 1}, "bold")) == (Fraction(1, 4), Fraction(3, 20))
    with pytest.raises(InputError, match="vector"):
        task.vec_env(2, shield=shield).reset()


def test_policy_iteration_ends_with_the_least_risks_wherever_it_begins(tmp_path, monkeypatch):
    held = []
    hold = game._better_by_holding
    monkeypatch.setattr(game, "_better_by_holding", lambda *given: held.append(hold(*given)) or held[-1])
    for seed in range(200):
        rng = random.Random(seed)
        if (made := small_task(rng, tmp_path)) is None:
            continue
        small, file, _ = made
        world = build_world(load_task(file, TaskOptions()), exact=True)
        starts = world.option_start.tolist()
        begun = [rng.randrange(a, b) if b > a else NONE for a, b in itertools.pairwise(starts)]
        monkeypatch.setattr(game, "play", lambda *_, begun=begun: (None, np.array(begun, dtype=np.uint32)))
        least = least_risks(small)
        assert game.find_least_risks(world) == [least[s - small.base] for (s,) in world.states], seed
    assert sum(map(bool, held)) >= 3


def test_where_the_environment_may_wait_for_ever_holding_it_is_better():
    tenth = Fraction(1, 10)
    rows = [[[(1, Fraction(1))], [(0, Fraction(1))], [(1, tenth), (2, 1 - tenth)]], [], []]
    fail, goal = np.array([False, True, False]), np.array([False, False, True])
    world = World.of(SparseMdp.build(rows), fail=fail, goal=goal, labels=np.array([0, 1, 1], dtype=np.int32))
    assert game._better_by_a_step(world, [Fraction(1), Fraction(1), Fraction(0)]) == {}
    assert game._better_by_holding(world, [Fraction(1), Fraction(1), Fraction(0)]) == {0: 1}
    assert game.find_least_risks(world)[0] == tenth


def test_nobody_chooses_in_a_markov_chain_with_labels(tmp_path):
    chain = "dtmc\nmodule one\n  x : [0..2] init 0;\n  [go] x=0 -> 0.3:(x'=1) + 0.7:(x'=2);\nendmodule\n"
    (tmp_path / "one.prism").write_text(chain)
    task = polvet.load(tmp_path / "one.prism", fail="x=1")
    for shield in (task.permit(0.5), task.permit(0.5, exact=False), task.permit(0.5, per_state=True)):
        assert shield.checked, shield
        assert shield.allowed({"x": 0}) == (None,)


def test_a_forbidden_action_is_replaced_by_the_least_risky_one(tmp_path):
    model = """mdp
module walk
  x : [0..3] init 1;
  [bold] x=1 -> 0.3:(x'=0) + 0.7:(x'=3);
  [calm] x=1 -> 0.1:(x'=0) + 0.9:(x'=3);
  [wild] x=1 -> 0.6:(x'=0) + 0.4:(x'=3);
endmodule
"""
    (tmp_path / "walk.prism").write_text(model)
    shield = polvet.load(tmp_path / "walk.prism", fail="x=0", goal="x=3").permit("0.4", per_state=True)
    assert shield.allowed({"x": 1}) == ("bold", "calm")
    assert shield.table.replace({"x": 1}, "wild") == "calm"
    assert shield.action_risks({"x": 1}) == {"bold": Fraction(3, 10), "calm": Fraction(1, 10), "wild": Fraction(3, 5)}
    assert (shield.bound, shield.risk({"x": 1})) == (Fraction(3, 10), Fraction(3, 10))
    saved = json.loads(shield.save(tmp_path / "shield.json").read_text())
    assert (saved["kind"], saved["rule"]) == ("action-risk", {"per-state": "2/5"})


@pytest.mark.parametrize(
    "asked",
    [
        {}, {"bound": 0.1, "relative": 0.9}, {"relative": 0.9, "per_state": True}, {"relative": 2},
        {"bound": 0.1, "per_state": True, "attempts": 3}, {"bound": 0.1, "per_state": True, "exact": False},
        {"relative": 0.5, "distributions": 2}, {"bound": 0.1, "horizon": 3}, {"budget": 0.1, "horizon": 3}, {"budget": 2},
        {"budget": 0.1, "bound": 0.1}, {"budget": 0.1, "per_state": True}, {"relative": 0.5, "horizon": 0},
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(asked, tmp_path):
    (tmp_path / "one.prism").write_text("mdp\nmodule one\n  x : [0..1] init 0;\n  [a] x=0 -> (x'=1);\nendmodule\n")
    with pytest.raises(InputError):
        polvet.load(tmp_path / "one.prism", fail="x=1").permit(**asked)
