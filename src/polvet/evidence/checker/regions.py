"""A part of the start states, as boxes: what a claim may be narrowed to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .text import Unreadable
from .world import State, World


def among(world: World, region: Any) -> Iterator[State]:
    """Return the start states in one of the boxes of {"in": boxes}, or those outside fail and of all boxes of {"out": boxes}."""
    ((side, items),) = region.items()
    boxes = [[(world.names.index(name), low, high) for name, (low, high) in item.items()] for item in items]
    if side not in ("in", "out") or any(
        type(end) not in (int, float) for box in boxes for _, *ends in box for end in ends
    ):
        raise Unreadable('\'region\' is not {"in": boxes} or {"out": boxes} with numbers as their ends')

    def is_in(state: State) -> bool:
        boxed = any(all(low <= state[place] <= high for place, low, high in box) for box in boxes)
        return boxed if side == "in" else not (boxed or world.is_fail(state))

    return filter(is_in, world.starts())
