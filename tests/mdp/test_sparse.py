"""Wrong arrays are refused at the place where they are wrong."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from polvet.errors import InputError
from polvet.mdp import SparseMdp, induce

GOOD = SparseMdp.build(
    [[[(0, Fraction(1, 3)), (1, Fraction(2, 3))], [(1, Fraction(1))]], []], rewards={"r": [1, Fraction(1, 10)]}
)


def test_a_good_model_is_valid() -> None:
    GOOD.validate()
    assert (GOOD.states, GOOD.choices, GOOD.branches, GOOD.is_deterministic, GOOD.is_exact) == (2, 2, 3, False, True)
    assert GOOD.exact_probabilities() == [Fraction(1, 3), Fraction(2, 3), Fraction(1)]
    assert GOOD.exact_reward("r") == (Fraction(1), Fraction(1, 10))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"target": np.array([0, 1, 2], dtype=np.uint32)}, "branch 2 goes to state 2"),
        ({"probability": np.array([1 / 3, 1 / 3, 1.0])}, "choice 0 sum to"),
        ({"probability": np.array([0.0, 1.0, 1.0])}, "branch 0 has probability 0.0"),
        ({"probability": np.array([np.nan, 1.0, 1.0])}, "branch 0 has probability nan"),
        ({"probability": np.array([1 / 3, 2 / 3])}, "do not fit together"),
        ({"choice_start": np.array([0, 3, 2], dtype=np.uint64)}, "choice_start falls"),
        ({"choice_start": np.array([0, 2, 9], dtype=np.uint64)}, "must begin at 0"),
        ({"choice_start": np.zeros(0, dtype=np.uint64)}, "at least the entry 0"),
        ({"branch_start": np.array([0, 0, 3], dtype=np.uint64)}, "choice 0 has no branch"),
        ({"initial": np.array([2], dtype=np.uint32)}, "out of range"),
        ({"initial": np.zeros(0, dtype=np.uint32)}, "missing"),
        ({"rewards": {"r": np.array([1.0])}}, "reward 'r' has 1 entries"),
        ({"rewards": {"r": np.array([1.0, np.inf])}}, "choice 1 is not a finite"),
        ({"exact_rewards": {"r": [Fraction(1)]}}, "exact reward 'r' has 1"),
        ({"probability_index": np.array([0, 1], dtype=np.uint32)}, "probability_index has 2"),
        ({"probability_index": np.array([0, 1, 7], dtype=np.uint32)}, "past the end"),
        ({"probability_index": np.array([1, 0, 2], dtype=np.uint32)}, "nearest to its fraction"),
    ],
)
def test_each_fault_is_named_with_its_place(change: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        replace(GOOD, **change).validate()


@pytest.mark.parametrize("scheduler", [[2, 0], [0, 0], [0]])
def test_a_scheduler_that_does_not_fit_is_refused(scheduler: list[int]) -> None:
    with pytest.raises(InputError, match="does not fit"):
        induce(GOOD, np.array(scheduler, dtype=np.uint32))
