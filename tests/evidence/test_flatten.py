"""What a flat text says of a state is what the kernel and the interpreter of models say, for random tasks of every front end."""

from __future__ import annotations

import random

import pytest

import polvet
from polvet.errors import InputError
from polvet.evidence.flatten import flatten
from tests.evidence.families import FAMILIES, STRATEGIES, drawn
from tests.evidence.law import check_law


def check_family(name: str, number: int) -> int:
    """Assert the law on the cases that a family draws from the number; return on how many states."""
    chance = random.Random(f"{name} {number}")
    return sum(check_law(task, chance=chance, fitted=fitted) for task, fitted in FAMILIES[name](chance))


def check_unless_refused(task) -> int:
    """Assert the law; a text may refuse a task only for assignments that meet where leaving bounds disables."""
    try:
        flatten(task)
    except InputError as error:
        if "which happens first" not in str(error):
            raise
        return 0
    return check_law(task, chance=random.Random(0))


@pytest.mark.parametrize("name", FAMILIES)
def test_random_worlds_and_policies_are_written_as_they_are(name):
    assert sum(check_family(name, number) for number in range(25)) > 50


@pytest.mark.parametrize("name", STRATEGIES)
def test_random_models_are_written_as_they_are(name):
    states = []
    drawn(name, 1, 120, lambda task: states.append(check_unless_refused(task)))
    assert sum(states) > 50


@pytest.mark.parametrize("world", ["FrozenLake-v1", "CliffWalking-v1"])
def test_environments_are_written_as_they_are(world):
    pytest.importorskip("gymnasium")
    assert check_law(polvet.load(f"gym:{world}").model_task, chance=random.Random(0)) > 10
