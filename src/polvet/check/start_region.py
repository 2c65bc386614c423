"""A part of the start states, as boxes: what the claim of a `safe-region` certificate is narrowed to.

The certificate says `region`: {"in": [{"x": [0, 3]}, ...]}, the start states in one of the boxes, or {"out": [...]}, the start
states outside `fail` that are in none. A box lists only the variables it restricts; truth values are 0 and 1, locations their number.
SOUND: numbers are compared as they stand, integers with integers and doubles with doubles or integers, so that nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet.model.evaluate import Evaluator
from polvet.model.network import Kind, Variable
from polvet.model.semantics import State
from polvet.records.state_json import Malformed

Ends = tuple[int | float, int | float]
BLOCK = 4096
DOUBLES = 2**53


@dataclass(frozen=True, slots=True, eq=False)
class StartRegion:
    """Boxes by places of variables; `inside`: what is in one of them, otherwise what is in none and does not fail."""

    boxes: tuple[Mapping[int, Ends], ...]
    inside: bool
    is_fail: Evaluator

    def holds(self, state: State) -> bool:
        """Return whether a start state is in the region."""
        boxed = any(all(low <= state[place] <= high for place, (low, high) in box.items()) for box in self.boxes)
        return boxed if self.inside else not (boxed or self.is_fail(state))

    def among(self, states: Iterable[State]) -> Iterator[State]:
        """Yield those of the states that are in the region."""
        pending = iter(states)
        while block := list(islice(pending, BLOCK)):
            boxed = self._boxed(block)
            for state, one in zip(block, boxed.tolist(), strict=True):
                if one if self.inside else not (one or self.is_fail(state)):
                    yield state

    def _boxed(self, states: Sequence[State]) -> npt.NDArray[np.bool_]:
        ends: dict[int, list[int | float]] = {}
        for box in self.boxes:
            for place, pair in box.items():
                ends.setdefault(place, []).extend(pair)
        columns = {place: _column([state[place] for state in states], mine) for place, mine in ends.items()}
        boxed = np.zeros(len(states), dtype=np.bool_)
        for box in self.boxes:
            inside = np.ones(len(states), dtype=np.bool_)
            for place, (low, high) in box.items():
                inside &= (columns[place] >= low) & (columns[place] <= high)
            boxed |= inside
        return boxed

    def covers(self, lower: Sequence[int], upper: Sequence[int]) -> bool:
        """Return whether no start state of the region can be between these bounds, because one box holds all that is there."""
        return not self.inside and any(
            all(low <= lower[place] and upper[place] <= high for place, (low, high) in box.items())
            for box in self.boxes
        )


def _column(values: Sequence[Any], ends: Sequence[int | float]) -> npt.NDArray[Any]:
    """Return the values so that comparing them with the ends of boxes is exact: objects where doubles might not be."""
    exact = all(isinstance(value, float) or abs(value) <= DOUBLES for value in (*values, *ends))
    return np.array(values, dtype=np.float64) if exact else np.array(values, dtype=object)


def read_region(item: Any, variables: Sequence[Variable], is_fail: Evaluator) -> StartRegion:
    """Return the region that a certificate names, or raise Malformed."""
    if not isinstance(item, dict) or len(item) != 1 or not item.keys() <= {"in", "out"}:
        raise Malformed('\'region\' is neither {"in": boxes} nor {"out": boxes}')
    ((side, boxes),) = item.items()
    if not isinstance(boxes, list):
        raise Malformed("the boxes of 'region' are no list")
    places = {variable.name: place for place, variable in enumerate(variables)}
    return StartRegion(tuple(_box(box, places, variables) for box in boxes), side == "in", is_fail)


def _box(item: Any, places: Mapping[str, int], variables: Sequence[Variable]) -> dict[int, Ends]:
    if not isinstance(item, dict):
        raise Malformed("'region' has a box that is no object")
    box: dict[int, Ends] = {}
    for name, pair in item.items():
        if name not in places:
            raise Malformed(f"'region' names '{name}', which is no variable that the claim keeps")
        real = variables[places[name]].kind is Kind.REAL
        if not isinstance(pair, list) or len(pair) != 2 or not all(_is_end(end, real) for end in pair):
            raise Malformed(f"'region' gives '{name}' no pair of bounds")
        if pair[0] > pair[1]:
            raise Malformed(f"'region' gives '{name}' a lower bound above the upper one")
        box[places[name]] = pair[0], pair[1]
    return box


def _is_end(value: Any, real: bool) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, float):
        return real and isfinite(value)
    return isinstance(value, int) and (abs(value) <= DOUBLES if real else True)
