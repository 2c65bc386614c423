"""Randomised permissive schedulers against brute force over the larger MDP, and the checker of their files."""

import copy
import json
import random
from fractions import Fraction
from pathlib import Path

import pytest

from polvet.check.checker import Accepted, Rejected, Subjects, check_file
from polvet.domains import generate
from polvet.errors import InputError, Where
from polvet.shield import Impossible, build_world
from polvet.shield.file import read_shield, to_mixed_document
from polvet.shield.mixtures import Mixed, permit_mixtures
from polvet.sources import load_task
from tests.shield import oracle


def test_mixtures_are_safe_and_stand_beside_what_is_allowed_without_them() -> None:
    rng = random.Random(6)
    mixed = 0
    for _ in range(120):
        world, choices, fail = oracle.random_world(rng, states=4)
        bound = Fraction(rng.randint(1, 19), 20)
        found = permit_mixtures(world, bound, distributions=2, grain=4, attempts=1)
        if isinstance(found, Impossible):
            assert oracle.least(choices, fail) > bound
            continue
        starts = world.option_start.tolist()
        wider, sets = [list(state) for state in choices], oracle.sets_of(world, found.pure.permitted)
        owners = world.owners().tolist()
        for place, state in enumerate(found.result.sub.states.tolist()):
            assert len(found.distributions(place)) <= 2
            for mix in found.distributions(place):
                row: dict[int, Fraction] = {}
                assert sum(mix.values()) == 1
                for o, weight in mix.items():
                    assert owners[o] == state
                    for t, p in choices[state][o - starts[state]]:
                        row[t] = row.get(t, Fraction(0)) + weight * p
                wider[state].append(sorted(row.items()))
                sets[state].append(len(wider[state]) - 1)
                mixed += 1
        for o in found.result.sub.options.tolist():  # states that only mixtures reach take options of their own
            if len(found.option[o]) == 1:
                (original,) = found.option[o]
                s, c = owners[original], original - starts[owners[original]]
                sets[s] = sorted({*sets[s], c})
        assert oracle.worst(wider, sets, fail) == found.result.risk <= bound
    assert mixed > 5


@pytest.mark.slow
def test_the_file_is_certified_and_heavier_weights_are_not(tmp_path: Path) -> None:
    _, task_file = generate("janitor", width=3, height=3).write(tmp_path / "janitor.jani")
    task, bound = load_task(task_file), Fraction(1, 10)
    world = build_world(task)
    found = permit_mixtures(world, bound, attempts=2)
    assert isinstance(found, Mixed)
    assert found.count > 0
    document = to_mixed_document(task, world, found, bound)
    (tmp_path / "mixed.json").write_text(json.dumps(document))
    accepted = check_file(tmp_path / "mixed.json", Subjects(task_file))
    assert isinstance(accepted, Accepted), accepted
    assert f"{found.count} mixtures" in accepted.claim
    shield = read_shield(document, Where("shield"))
    assert sum(len(one) for one in shield.mixed.values()) == found.count
    places = [k for k, row in enumerate(document["states"]) if "mixed" in row]
    for k in places[:8]:
        for change in ({"right": "1/2"}, {"right": "1/2", "nowhere": "1/2"}, {"right": "-1", "up": "2"}, "heavier"):
            copied = copy.deepcopy(document)
            first = copied["states"][k]["mixed"][0]
            if change == "heavier":
                (_, light), (other, heavy) = first.items()
                first[next(iter(first))] = str(Fraction(light) - Fraction(1, 20))
                first[other] = str(Fraction(heavy) + Fraction(1, 20))
            else:
                copied["states"][k]["mixed"][0] = change
            (tmp_path / "changed.json").write_text(json.dumps(copied))
            assert isinstance(check_file(tmp_path / "changed.json", Subjects(task_file)), Rejected)


def test_mixtures_need_exact_probabilities(tmp_path: Path) -> None:
    world = build_world(generate("janitor", width=3, height=3).task(), exact=False)
    with pytest.raises(InputError, match="exact"):
        permit_mixtures(world, Fraction(1, 10))
