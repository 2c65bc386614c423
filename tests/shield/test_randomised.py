"""Randomised permissive schedulers against brute force over the larger MDP, and the checker of their files."""

import copy
import json
import random
from fractions import Fraction
from pathlib import Path

import pytest

import polvet
from polvet.check.checker import Accepted, Rejected, Subjects, check_file
from polvet.domains import generate
from polvet.errors import InputError, Where
from polvet.shield import Impossible, build_world
from polvet.shield.file import read_shield, to_mixed_document
from polvet.shield.randomised import Randomised, permit_randomised
from polvet.sources import load_task
from tests.shield import oracle


def _widened(world, choices, shield, more=None):
    """The choices with a row per distribution, and the sets that are open with those of `shield` (and `more`)."""
    starts = world.option_start.tolist()
    wider, sets = [list(mine) for mine in choices], oracle.sets_of(world, shield.permitted)
    for state, mine in shield.mixed.items():
        for one in [*mine, *(more or {}).get(state, ())]:
            row: dict[int, Fraction] = {}
            assert sum(one.values()) == 1
            assert min(one.values()) > 0
            for option, weight in one.items():
                for target, chance in choices[state][option - starts[state]]:
                    row[target] = row.get(target, Fraction(0)) + weight * chance
            wider[state].append(sorted(row.items()))
            if one in mine:
                sets[state].append(len(wider[state]) - 1)
    return wider, sets


def test_300_schedulers_with_chosen_distributions_are_as_safe_as_brute_force_says():
    mixed = many = used = tries_all = 0
    for seed in range(300):
        rng = random.Random(seed)
        world, choices, fail = oracle.random_world(rng, states=4)
        bound, most = Fraction(rng.randint(1, 19), 20), rng.randint(1, 3)
        shield = permit_randomised(world, bound, most, attempts=1)
        if isinstance(shield, Impossible):
            assert oracle.least(choices, fail) > bound, seed
            continue
        wider, sets = _widened(world, choices, shield)
        assert oracle.worst(wider, sets, fail) == shield.values[0] <= bound, seed
        assert oracle.reached(wider, sets) == shield.values.keys(), seed
        for state, mine in shield.mixed.items():
            assert len(mine) <= most
            tried = {o for one in mine for o in one} | {o for o in range(world.options) if shield.permitted[o]}
            tries_all += {*range(*world.option_start[state : state + 2].tolist())} <= tried
            mixed += len(mine)
            many += sum(len(one) > 2 for one in mine)
        if shield.mixed:
            used += bound - shield.values[0] <= bound / 100
    assert mixed > 30
    assert many > 2  # distributions over more than two actions
    assert tries_all > 25  # all actions of the state may be tried
    assert used > 20  # and what the bound leaves is used up


def test_300_schedulers_with_given_distributions_allow_them_until_none_can_be_added():
    allowed = refused = 0
    for seed in range(300):
        rng = random.Random(seed)
        world, choices, fail = oracle.random_world(rng, states=4)
        bound = Fraction(rng.randint(1, 19), 20)
        starts = world.option_start.tolist()
        given = {}
        for state in range(len(choices)):
            options = range(starts[state], starts[state + 1])
            given[state] = []
            for _ in range(rng.randint(0, 2) if len(options) > 1 else 0):
                some = rng.sample(options, rng.randint(2, len(options)))
                shares = [rng.randint(1, 5) for _ in some]
                one = {o: Fraction(share, sum(shares)) for o, share in zip(some, shares, strict=True)}
                given[state] += [one] if one not in given[state] else []
        shield = permit_randomised(world, bound, given.__getitem__, attempts=1)
        if isinstance(shield, Impossible):
            assert oracle.least(choices, fail) > bound, seed
            continue
        every = Randomised(shield.permitted, given, shield.values, True, shield.pure)
        wider, _ = _widened(world, choices, every)
        sets = oracle.sets_of(world, shield.permitted)
        for state, mine in shield.mixed.items():
            sets[state] += [len(choices[state]) + given[state].index(one) for one in mine]
            allowed += len(mine)
        refused += sum(len(mine) for state, mine in given.items() if state in shield.values)
        assert oracle.worst(wider, sets, fail) == shield.values[0] <= bound, seed
        assert oracle.addable(wider, sets, fail, bound) is None, seed
    assert allowed > 60
    assert refused - allowed > 10


@pytest.mark.parametrize("exact", [True, False])
def test_the_file_is_certified_and_heavier_weights_are_not(tmp_path: Path, exact: bool) -> None:
    _, task_file = generate("janitor", width=3, height=3).write(tmp_path / "janitor.jani")
    task, bound = load_task(task_file), Fraction(1, 20)
    world = build_world(task, exact=exact)
    shield = permit_randomised(world, bound, 2, attempts=2)
    assert isinstance(shield, Randomised)
    assert shield.count > 0
    assert shield.exact is exact
    document = to_mixed_document(task, world, shield, bound)
    (tmp_path / "mixed.json").write_text(json.dumps(document))
    accepted = check_file(tmp_path / "mixed.json", Subjects(task_file))
    assert isinstance(accepted, Accepted), accepted
    assert f"{shield.count} mixtures" in accepted.claim
    table = read_shield(document, Where("shield"))
    assert sum(len(one) for one in table.mixed.values()) == shield.count
    places = [k for k, row in enumerate(document["states"]) if "mixed" in row and Fraction(row["value"]) > 0]
    changes = [
        (k, one)
        for k in places[:8]
        for one in ({"right": "1/2"}, {"right": "1/2", "nowhere": "1/2"}, {"right": "-1", "up": "2"})
    ]
    if exact:  # a heavier weight changes a value; of upper bounds one alone may still keep what is claimed
        changes += [(k, None) for k in places[:8]]
    for k, change in changes:
        copied = copy.deepcopy(document)
        copied["states"][k]["mixed"][0] = change or _heavier(copied["states"][k]["mixed"][0])
        (tmp_path / "changed.json").write_text(json.dumps(copied))
        assert isinstance(check_file(tmp_path / "changed.json", Subjects(task_file)), Rejected), (k, change)
    copied = copy.deepcopy(document)
    for k in places:
        copied["states"][k]["mixed"] = [_heavier(one) for one in copied["states"][k]["mixed"]]
    (tmp_path / "changed.json").write_text(json.dumps(copied))
    assert isinstance(check_file(tmp_path / "changed.json", Subjects(task_file)), Rejected)


def _heavier(weights: dict[str, str]) -> dict[str, str]:
    """Nine tenths of the first option's weight go to the last one."""
    (base, light), *_, (other, heavy) = weights.items()
    moved = Fraction(light) * Fraction(9, 10)
    return {**weights, base: str(Fraction(light) - moved), other: str(Fraction(heavy) + moved)}


def test_distributions_are_given_by_label_and_wrong_ones_are_refused(tmp_path: Path) -> None:
    _, task_file = generate("janitor", width=3, height=3).write(tmp_path / "janitor.jani")
    task = polvet.load(task_file)
    given = [
        {"right": "1/2", "up": "1/2"}, {"weights": {"right": 0.25, "up": 0.25, "wait": 0.5}, "where": "x = 0 & y < 2"},
    ]  # fmt: skip
    shield = task.permit("0.05", distributions=given)
    assert shield.checked
    assert shield.figures["mixtures"] > 0
    assert all(key[0] == 0 for key, mine in shield.table.mixed.items() for one in mine if len(one) == 3)
    (tmp_path / "given.json").write_text(json.dumps(given))
    again = task.permit("0.05", distributions=tmp_path / "given.json")
    assert again.table.mixed == shield.table.mixed
    for wrong in (
        [{"right": "1/2"}],
        [{"rihgt": 1}],
        [{"right": "x"}],
        [],
        [3],
        [{"weights": {"up": 1}, "if": "x"}],
        -1,
    ):
        with pytest.raises(InputError):
            task.permit("0.05", distributions=wrong)
