"""Published state counts and values, found again."""

from __future__ import annotations

import sys

import pytest
from benchmarks.references import MOST_EXACT, agrees, count_states, instances, values

QUICK_STATES, QUICK_VALUES = 100_000, 20_000
sys.set_int_max_str_digits(0)


def sized(entries, quick):
    return [
        pytest.param(one, id=str(one), marks=[pytest.mark.slow] if (one.states or 0) > quick else []) for one in entries
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reference", sized(instances(), QUICK_STATES))
def test_exploration_finds_the_published_number_of_states(reference):
    assert count_states(reference) == reference.states


@pytest.mark.parametrize("reference", sized(values(), QUICK_VALUES))
def test_the_published_value_is_inside_the_bounds(reference):
    good, shown = agrees(reference)
    assert good, f"{reference.value} is not inside {shown}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "reference", [one for one in values() if (one.states or 0) <= MOST_EXACT and "bounded" not in one.kind], ids=str
)
def test_exact_mode_finds_the_published_fraction(reference):
    good, shown = agrees(reference, exact=True)
    assert good, f"{reference.value} is not {shown}"
