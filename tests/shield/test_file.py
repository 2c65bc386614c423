"""Shield files: what they allow, how they are read, and the checker that believes nothing."""

import copy
import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from polvet.check.checker import Accepted, Rejected, Subjects, check_file
from polvet.domains import generate
from polvet.errors import InputError
from polvet.shield import Permitted, Shield, build_world, load_shield, make_shield, permit
from polvet.sources import load_task


@pytest.fixture(scope="module")
def janitor(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Shield]:
    folder = tmp_path_factory.mktemp("janitor")
    _, task_file = generate("janitor", width=3, height=3).write(folder / "janitor.jani")
    task = load_task(task_file)
    world = build_world(task)
    result = permit(world, Fraction(1, 10), attempts=5)
    assert isinstance(result, Permitted)
    shield = make_shield(task, world, result, Fraction(1, 10))
    shield.save(folder / "shield.json")
    return task_file, folder / "shield.json", shield


def test_a_saved_shield_reads_back_the_same(janitor: tuple[Path, Path, Shield]) -> None:
    _, file, shield = janitor
    again = load_shield(file)
    assert again.actions == shield.actions
    assert again.values == shield.values
    assert again.bound == Fraction(1, 10)


def test_masks_and_replacements_follow_the_allowed_actions(janitor: tuple[Path, Path, Shield]) -> None:
    _, _, shield = janitor
    labels = ("right", "up", "wait")
    for key, allowed in shield.actions.items():
        state = dict(zip(shield.variables, key, strict=True))
        assert shield.mask(state, labels) == [label in allowed for label in labels]
        for label in labels:
            taken = shield.replace(state, label)
            assert not allowed or taken in allowed
            assert label not in allowed or taken == label


def test_a_state_outside_the_shield_is_an_error_that_names_it(janitor: tuple[Path, Path, Shield]) -> None:
    with pytest.raises(InputError, match="does not know the state"):
        janitor[2].allowed({"x": 99, "y": 0, "jx": 0, "jy": 0})


def test_the_checker_accepts_what_permit_made(janitor: tuple[Path, Path, Shield]) -> None:
    task_file, file, _ = janitor
    assert isinstance(check_file(file, Subjects(task_file)), Accepted)


def corruptions(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found = []

    def variant(name: str) -> dict[str, Any]:
        copied = copy.deepcopy(document)
        found.append((name, copied))
        return copied

    variant("smaller bound")["bound"] = "1/1000000"
    rows = document["states"]
    risky = next(k for k, row in enumerate(rows) if row["allowed"] and Fraction(row["value"]) > 0)
    variant("smaller value")["states"][risky]["value"] = "0"
    calm = next(k for k, row in enumerate(rows) if row["allowed"])
    one = variant("larger value")["states"][calm]
    one["value"] = str(min(Fraction(1), Fraction(one["value"]) + Fraction(1, 1000)))
    del variant("missing state")["states"][-1]
    variant("nothing allowed")["states"][calm]["allowed"] = []
    variant("unknown label")["states"][calm]["allowed"] = ["jump"]
    variant("other model")["task_sha256"] = "0" * 64
    variant("double state")["states"].append(rows[0])
    failed = next(k for k, row in enumerate(rows) if row["value"] == "1" and not row["allowed"])
    variant("fail state at no risk")["states"][failed]["value"] = "0"
    variant("a number as value")["states"][calm]["value"] = 0.5
    return found


def test_the_checker_rejects_every_corruption(janitor: tuple[Path, Path, Shield], tmp_path: Path) -> None:
    task_file, file, _ = janitor
    for name, document in corruptions(json.loads(file.read_text())):
        broken = tmp_path / "broken.json"
        broken.write_text(json.dumps(document))
        assert isinstance(check_file(broken, Subjects(task_file)), Rejected), name


@pytest.mark.slow
def test_allowing_one_more_action_is_rejected(janitor: tuple[Path, Path, Shield], tmp_path: Path) -> None:
    """The result is locally maximal, so no added action keeps the values, whatever the model says about reachability."""
    task_file, file, _ = janitor
    document = json.loads(file.read_text())
    rng = random.Random(0)
    for k in rng.sample(range(len(document["states"])), 20):
        row = document["states"][k]
        for label in ("right", "up", "wait"):
            if label in row["allowed"] or not row["allowed"]:
                continue
            copied = copy.deepcopy(document)
            copied["states"][k]["allowed"].append(label)
            (tmp_path / "wider.json").write_text(json.dumps(copied))
            result = check_file(tmp_path / "wider.json", Subjects(task_file))
            assert isinstance(result, Rejected)


def test_bounds_instead_of_fractions_are_checked_exactly_too(tmp_path: Path) -> None:
    _, task_file = generate("janitor", width=3, height=3).write(tmp_path / "janitor.jani")
    task = load_task(task_file)
    world = build_world(task, exact=False)
    result = permit(world, Fraction(1, 10), attempts=3)
    assert isinstance(result, Permitted)
    assert not result.exact
    assert result.lower <= result.upper <= 0.1
    make_shield(task, world, result, Fraction(1, 10)).save(tmp_path / "shield.json")
    accepted = check_file(tmp_path / "shield.json", Subjects(task_file))
    assert isinstance(accepted, Accepted)
    assert "at most" in accepted.claim


@pytest.mark.parametrize("text", ['{"format": "shield/2"}', '{"format": "shield/1", "states": []}', "[]"])
def test_what_is_no_shield_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError):
        load_shield(tmp_path / "x.json")
