"""Sets of packed states number them in the order of their arrival, whatever their width, and take little memory."""

from __future__ import annotations

import numpy as np
import pytest

from polvet._core import StateSet
from polvet.kernel.compiled import Compiled
from polvet.model.instantiate import instantiate
from polvet.prism import load_prism


def states_of(words: int, count: int, values: int, seed: int) -> np.ndarray:
    """Return random states: each word one of so many, the upper bits in use."""
    rng = np.random.default_rng(seed)
    pool = rng.integers(0, 2**64, size=values, dtype=np.uint64)
    return pool[rng.integers(0, values, size=(count, words))]


@pytest.mark.parametrize("words", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("values", [3, 40, 10**6])
def test_states_have_the_numbers_of_their_arrival(words, values):
    states = states_of(words, 30_000, values, seed=words)
    oracle: dict[bytes, int] = {}
    expected = [oracle.setdefault(row.tobytes(), len(oracle)) for row in states]
    store = StateSet(words)
    half = len(states) // 2
    numbers = np.concatenate([store.insert(states[:half]), store.insert(states[half:])])
    assert numbers.tolist() == expected
    assert len(store) == len(oracle)
    assert b"".join(row.tobytes() for row in store.states(0, len(store))) == b"".join(oracle)
    begin, end = len(store) // 3, len(store) // 2
    assert np.array_equal(store.states(begin, end), store.states(0, len(store))[begin:end])


COUNTERS = """mdp
module counters
{variables}
{commands}
endmodule
"""


def counters(bits: int, steps: tuple[int, ...]) -> Compiled:
    """Return counters of so many bits, each of which counts so many steps."""
    variables = [f"  x{k} : [0..{2**bits - 1}] init 0;" for k in range(len(steps))]
    commands = [f"  [up{k}] x{k} < {most} -> (x{k}'=x{k}+1);" for k, most in enumerate(steps)]
    text = COUNTERS.format(variables="\n".join(variables), commands="\n".join(commands))
    return Compiled(instantiate(load_prism(text), {}))


FOUR, EIGHT = (13,) * 4, (6, 6, 6, 6, 1, 1, 1, 1)


@pytest.mark.parametrize(
    ("bits", "steps", "words", "most"), [(4, FOUR, 1, 19), (30, FOUR, 2, 29), (60, FOUR, 4, 21), (60, EIGHT, 8, 22)]
)
def test_wide_states_take_little_more_than_narrow_ones(bits, steps, words, most):
    compiled = counters(bits, steps)
    space = compiled.explore()
    assert (len(space), compiled.program.words) == (14**4, words)
    assert space.bytes / len(space) < most
    assert np.array_equal(space.states(), compiled.explore(threads=3).states())
    assert all(space.find(state) == number for number, state in list(enumerate(space.states()))[::997])
