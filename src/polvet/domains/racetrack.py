"""Racetrack: a car with inertia on a map, which it crosses without hitting a wall.

Source  "policy predicate abstraction", after Barto, Bradtke and Singh 1995; labels and variables as the authors'
        network for the map barto-small has them (car0_x, car0_y, car0_dx, car0_dy; accel0_-1_-1 to
        accel0_1_1, x first).
"""

from __future__ import annotations

from fractions import Fraction
from importlib import resources
from pathlib import Path

from polvet.domains.instance import Instance
from polvet.errors import InputError, Where, did_you_mean
from polvet.files import read_text
from polvet.model.build import ModelBuilder
from polvet.model.terms import Term, every, function, greatest, least, some, when
from polvet.worlds.table import stretches

WALL, FREE, START, GOAL = "x.sg"
MAX_CELLS = 250_000


def shipped_maps() -> list[str]:
    """Return the names of the maps that come with polvet."""
    folder = resources.files("polvet.domains") / "maps"
    return sorted(one.name.removesuffix(".txt") for one in folder.iterdir() if one.name.endswith(".txt"))


def load_map(name: str) -> list[str]:
    """Return the rows of a shipped map, or of an ASCII map in a file: x wall, . free, s start, g goal.

    A first line such as `dim: 12 35` is skipped, short rows are filled up with walls; the first row is y = 0.
    """
    where = Where(name)
    if name in shipped_maps():
        text = (resources.files("polvet.domains") / "maps" / f"{name}.txt").read_text(encoding="utf-8")
    elif Path(name).suffix or "/" in name:
        text = read_text(name, max_bytes=2 * MAX_CELLS)
    else:
        hint = did_you_mean(name, shipped_maps()) or f"There are {', '.join(shipped_maps())}; or give a file."
        raise InputError(f"no map '{name}'.", Where("domains racetrack"), hint)
    lines = [line.rstrip() for line in text.splitlines()]
    rows = [line for line in lines if line and not line.startswith("dim")]
    width = max((len(row) for row in rows), default=0)
    if not rows or width * len(rows) > MAX_CELLS:
        raise InputError(f"the map has {width} x {len(rows)} places.", where, f"Use 1 to {MAX_CELLS} places.")
    for y, row in enumerate(rows):
        for x, sign in enumerate(row):
            if sign not in (WALL, FREE, START, GOAL):
                place = Where(name, line=lines.index(row) + 1, column=x + 1)
                raise InputError(f"'{sign}' (row {y}) is no place of a map.", place, "Use x, ., s and g.")
    rows = [row.ljust(width, WALL) for row in rows]
    for sign, what in ((START, "start"), (GOAL, "goal")):
        if not any(sign in row for row in rows):
            raise InputError(f"the map has no {what}.", where, f"Mark some places with {sign}.")
    return rows


def racetrack(*, map: str = "corner", speed: int = 3, slip: Fraction = Fraction(0), anywhere: bool = False) -> Instance:
    """Return the race over a map: reach a goal place without ending a move in a wall or off the map.

    Each move changes both components of the speed by -1, 0 or 1 (within the greatest speed), then drives that far. With
    probability `slip` the road is slippery and the speed stays. As in the paper only the end of a move counts, not what
    lies between. A crashed car stays where it was, and neither it nor a car at the goal drives on.
    Start: standing on a start place; with `anywhere` any free place at any speed (the paper draws 1000 such states).

    Differs the paper's map is not shipped; `map` takes its file, or any other. The greatest speed is decided here: the
            authors' models bound it by the size of the map.
    """
    rows = load_map(map)
    width, height = len(rows[0]), len(rows)
    m = ModelBuilder(f"racetrack_{Path(map).stem}")
    m.note("description", "Drive a car with inertia over a map without hitting a wall.")
    first = next((x, y) for y, row in enumerate(rows) for x, sign in enumerate(row) if sign == START)
    x, y = m.int("car0_x", 0, width - 1, initial=first[0]), m.int("car0_y", 0, height - 1, initial=first[1])
    dx, dy = m.int("car0_dx", -speed, speed, initial=0), m.int("car0_dy", -speed, speed, initial=0)
    crashed, finished = m.bool("car0_crashed", initial=False), m.bool("car0_finished", initial=False)
    m.function("is_free", {"i": "int", "j": "int"}, _places(rows, FREE + START + GOAL, "i", "j"), "bool")
    m.function("is_goal", {"i": "int", "j": "int"}, _places(rows, GOAL, "i", "j"), "bool")

    def driven(new_dx: Term, new_dy: Term) -> dict[Term, Term]:
        to = x + new_dx, y + new_dy
        free = function("is_free", *to)
        return {
            dx: new_dx,
            dy: new_dy,
            x: when(free, to[0], x),
            y: when(free, to[1], y),
            crashed: ~free,
            finished: function("is_goal", *to),
        }

    for ax in (-1, 0, 1):
        for ay in (-1, 0, 1):
            new = [
                one if change == 0 else least(one + change, speed) if change > 0 else greatest(one + change, -speed)
                for one, change in ((dx, ax), (dy, ay))
            ]
            outcomes = [(1 - slip, driven(*new)), (slip, driven(dx, dy))]
            m.edge(f"accel0_{ax}_{ay}", guard=~crashed & ~finished, to=[one for one in outcomes if one[0] != 0])
    starts = _places(rows, FREE + START if anywhere else START, "car0_x", "car0_y")
    standing = [] if anywhere else [dx == 0, dy == 0]
    return Instance.of(m, start=every(~crashed, ~finished, *standing, starts), fail=crashed, goal=finished)


def _places(rows: list[str], signs: str, x: str, y: str) -> Term:
    """Return the condition that a place has one of the signs: an interval of columns for each run in a row."""
    by_run: dict[tuple[int, int], list[int]] = {}
    for j, row in enumerate(rows):
        i = 0
        while i < len(row):
            end = i
            while end < len(row) and row[end] in signs:
                end += 1
            if end > i:
                by_run.setdefault((i, end - 1), []).append(j)
            i = end + 1
    column, line = Term.of(x), Term.of(y)
    parts = []
    for (low, high), lines in by_run.items():
        across = column == low if low == high else every(column >= low, column <= high)
        parts.append(every(across, some(*(_between(line, a, b) for a, b in stretches(lines)))))
    return some(*parts)


def _between(value: Term, low: int, high: int) -> Term:
    return value == low if low == high else every(value >= low, value <= high)
