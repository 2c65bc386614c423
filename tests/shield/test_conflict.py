"""Conflicts against brute force over all schedulers: they explain the bound, and nothing of them can be dropped."""

from __future__ import annotations

import itertools
import json
import random
from fractions import Fraction

import numpy as np

import polvet
from polvet.check.checker import Accepted, Rejected, Subjects, check, check_file
from polvet.cli.app import run
from polvet.errors import Where
from polvet.mdp import SparseMdp
from polvet.shield import Impossible, permit
from polvet.shield.conflict import find_conflict, find_conflict_of_option
from polvet.shield.world import World
from tests.attack.action_risk import least_risks
from tests.attack.permissive import small_task
from tests.mdp.brute import chain_reach
from tests.shield import oracle


def _least_within(choices, fail, kept, taken=None):
    """The least risk of the first state, over all schedulers (that take what is taken), if runs ended outside the kept states."""
    taken = taken or {}
    open_ = [[taken[s]] if s in taken else range(len(mine)) for s, mine in enumerate(choices)]
    best = Fraction(1)
    for picked in itertools.product(*(mine or [-1] for mine in open_)):
        rows = [choices[s][c] if c >= 0 and s in kept else [] for s, c in enumerate(picked)]
        best = min(best, chain_reach(rows, [True] * len(rows), fail)[0])
    return best


def test_500_impossible_bounds_are_explained_by_states_of_which_none_can_be_dropped():
    impossible = fewer = 0
    for seed in range(3_000):
        rng = random.Random(seed)
        world, choices, fail = oracle.random_world(rng, states=6)
        least = oracle.least(choices, fail)
        if not least:
            continue
        bound = least * Fraction(rng.randint(1, 19), 20)
        assert isinstance(permit(world, bound, attempts=1), Impossible), seed
        conflict = find_conflict(world, bound)
        kept = set(conflict.states)
        assert conflict.start == 0
        assert conflict.irreducible
        if not fail[0]:
            assert conflict.risk == _least_within(choices, fail, kept) > bound, seed
            assert all(_least_within(choices, fail, kept - {state}) <= bound for state in kept), seed
            useful = oracle.reached(choices, [list(range(len(mine))) for mine in choices])
            fewer += len(kept) < sum(bool(choices[s]) for s in useful)
        impossible += 1
        if impossible == 500:
            break
    assert impossible == 500
    assert fewer > 100


def test_what_is_not_permitted_is_explained_by_choices_of_which_none_can_be_dropped():
    explained = beside = 0
    for seed in range(120):
        rng = random.Random(seed)
        world, choices, fail = oracle.random_world(rng, states=5)
        bound = Fraction(rng.randint(1, 15), 20)
        shield = permit(world, bound, attempts=1)
        if isinstance(shield, Impossible):
            continue
        starts, owners = world.option_start.tolist(), world.owners().tolist()
        for option in range(world.options):
            if owners[option] not in shield.sub.states or shield.permitted[option]:
                continue
            conflict = find_conflict_of_option(world, shield.permitted, option, bound)
            taken = {state: one - starts[state] for state, one in conflict.taken.items()}
            everywhere = set(range(len(choices)))
            assert conflict.irreducible
            assert _least_within(choices, fail, everywhere, taken) > bound, (seed, option)
            for state in taken:
                fewer = {s: c for s, c in taken.items() if s != state}
                assert _least_within(choices, fail, everywhere, fewer) <= bound, (seed, option)
            kept = set(conflict.states)
            assert conflict.risk == _least_within(choices, fail, kept, taken) > bound
            assert all(_least_within(choices, fail, kept - {state}, taken) <= bound for state in kept)
            explained += 1
            beside += len(taken) > 1
    assert explained > 40
    assert beside > 5


def test_lemma_1_any_half_of_the_sure_moves_is_a_conflict():
    """The MDP of the lemma: from each of n states, a step on surely (b) or half the time (a); half of the b are too many."""
    n, half = 6, Fraction(1, 2)
    rows = [[[(k + 1, half), (n + 1, half)], [(k + 1, Fraction(1))]] for k in range(n)]
    world = World.of(SparseMdp.build([*rows, [], []]), fail=np.array([s == n for s in range(n + 2)]))
    permitted = np.array([o % 2 == 0 or o < n - 2 for o in range(2 * n)])  # all a, and half of the b but one
    conflict = find_conflict_of_option(world, permitted, 2 * n - 1, half ** (n // 2 + 1))
    assert sorted(conflict.taken.values()) == [1, 3, 11]
    assert conflict.risk == half ** (n // 2)
    permitted[n - 1] = False
    assert find_conflict_of_option(world, permitted & (np.arange(2 * n) != 3), 1, half ** (n // 2)) is None


def test_models_with_silent_operators_are_explained_and_certified(tmp_path):
    models = 0
    for seed in range(400):
        rng = random.Random(seed)
        if (made := small_task(rng, tmp_path)) is None:
            continue
        small, file, _ = made
        least = max(least_risks(small)[s] for s in small.starts)
        if not least:
            continue
        result = polvet.load(file).permit(least * Fraction(rng.choice([1, 9]), 10))
        assert result.verdict is polvet.Verdict.IMPOSSIBLE
        assert result.checked, (seed, result.not_checked)
        assert next(iter(result.conflict.values())) > result.source[1]
        models += 1
        if models == 60:
            break
    assert models == 60


COIN = """
mdp
module coin
  s : [0..4] init 0;
  [toss] s=0 -> 0.3 : (s'=1) + 0.7 : (s'=2);
  [wait] s=0 -> 0.2 : (s'=1) + 0.8 : (s'=3);
  [go] s=1 -> 0.5 : (s'=4) + 0.5 : (s'=2);
  [go] s=3 -> 0.01 : (s'=4) + 0.99 : (s'=2);
endmodule
"""


def test_the_command_explains_and_what_it_writes_is_certified_and_not_otherwise(tmp_path, capsys):
    (tmp_path / "coin.prism").write_text(COIN)
    file = tmp_path / "c.json"
    words = ["permit", str(tmp_path / "coin.prism"), "--fail", "s=4", "--bound", "0.05", "--conflict", str(file)]
    assert run(words) == 10
    answer = capsys.readouterr().out
    assert "conflict  2 states explain it: in them alone failing is 0.1 likely" in answer
    assert "s=0  0.1" in answer
    assert run([*words, "--json"]) == 10
    document = json.loads(capsys.readouterr().out)
    assert document["checked"]
    assert document["figures"]["conflict"] == {"states": 2, "value": 0.1, "irreducible": True}
    subjects = Subjects(tmp_path / "coin.prism", options=None)
    assert isinstance(check_file(file, subjects), Accepted)
    certificate = json.loads(file.read_text())
    greater = [{**row, "value": "1"} for row in certificate["states"]]
    alone = certificate["states"][:1]
    for change in ({"bound": "1/10"}, {"start": {"s": 1}}, {"states": alone}, {"states": greater}):
        assert isinstance(check({**certificate, **change}, subjects, Where("changed")), Rejected), change
