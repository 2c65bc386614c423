"""Drawings of many states in little space: the lines of their SVG texts are kept once and referred to by number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polvet.domains.catalogue import find_origin
from polvet.domains.draw import draw
from polvet.domains.racetrack import shipped_maps
from polvet.errors import InputError

MAX_CELLS = 3_000
MAX_LINES = 40_000


class Pictures:
    """The drawings of a page; `add` returns a drawing as ranges of lines, or None where the world is not a built-in one."""

    def __init__(self, metadata: Mapping[str, str]) -> None:
        self.origin = find_origin(metadata)
        if self.origin is not None and not _is_small(*self.origin):
            self.origin = None
        self.lines: list[str] = []
        self._known: dict[str, int] = {}

    def add(self, state: Mapping[str, Any]) -> list[int] | None:
        """Return the drawing of the state as [first, count, first, count, ...]."""
        if self.origin is None or len(self.lines) > MAX_LINES:
            return None
        name, parameters = self.origin
        try:
            drawn = draw(name, state, **parameters)
        except (KeyError, TypeError, ValueError, IndexError, OverflowError, InputError):
            self.origin = None  # the metadata says it is a world that its variables do not fit
            return None
        ranges: list[int] = []
        for line in drawn.splitlines():
            if line not in self._known:
                self._known[line] = len(self.lines)
                self.lines.append(line)
            number = self._known[line]
            if ranges and ranges[-2] + ranges[-1] == number:
                ranges[-1] += 1
            else:
                ranges += [number, 1]
        return ranges


def _is_small(name: str, parameters: Mapping[str, Any]) -> bool:
    """Return whether a picture has few parts; maps from files, which may be gone or others', are not drawn."""
    if name == "racetrack" and parameters["map"] not in shipped_maps():
        return False
    sizes = [
        value for key, value in parameters.items() if isinstance(value, int) and key in ("width", "height", "length")
    ]
    cells = 1
    for size in sizes:
        cells *= size
    others = [parameters.get(key, 0) for key in ("n", "p", "locations", "jigs", "d")]
    return cells <= MAX_CELLS and max(others) <= 200
