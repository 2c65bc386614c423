"""Pictures of states as SVG text: grids, lines, stacks of blocks, tiles, a ball, a pendulum, cars.

`draw(name, state, **parameters)` takes a state by names (as in runs and faults) and the parameters of the generator.
Nothing here is needed to run a world; reports and the gallery use it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from polvet.domains.catalogue import find_entry
from polvet.errors import Where

Values = Mapping[str, Any]
INK, PAPER, GROUND, WALL = "#333333", "#ffffff", "#eeeeee", "#777777"
SAFE, DANGER, HERO, GOODS, COLD = "#5aa469", "#d35d5d", "#3b6fb6", "#e0a24a", "#a9d3f0"


class Canvas:
    """An SVG drawing in the making; y grows downward."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.parts: list[str] = []

    def rect(
        self, x: float, y: float, w: float, h: float, fill: str, *, stroke: str = "none", round_: float = 0
    ) -> None:
        """Add a rectangle."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="{round_:g}" fill="{fill}" stroke="{stroke}"/>'
        )

    def circle(self, x: float, y: float, r: float, fill: str) -> None:
        """Add a disc."""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{r:g}" fill="{fill}"/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str = INK, width: float = 1) -> None:
        """Add a line."""
        ends = f'x1="{x1:.4g}" y1="{y1:.4g}" x2="{x2:.4g}" y2="{y2:.4g}"'
        self.parts.append(f'<line {ends} stroke="{stroke}" stroke-width="{width:g}"/>')

    def text(self, x: float, y: float, text: object, size: float = 12, fill: str = INK) -> None:
        """Add a word centred at the point."""
        escaped = str(text).replace("&", "&amp;").replace("<", "&lt;")
        self.parts.append(
            f'<text x="{x:g}" y="{y + size * 0.35:g}" font-size="{size:g}" text-anchor="middle" fill="{fill}" '
            f'font-family="sans-serif">{escaped}</text>'
        )

    def dump(self) -> str:
        """Return the whole SVG text."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" '
        size = f'width="{self.width:g}" height="{self.height:g}">'
        back = f'<rect width="{self.width:g}" height="{self.height:g}" fill="{PAPER}"/>'
        return "\n".join([head + size, back, *self.parts, "</svg>"]) + "\n"


def draw(name: str, state: Values, **parameters: Any) -> str:
    """Return the picture of a state of a world as SVG text; parameters that are not given have their default."""
    entry = find_entry(name)
    known = {one.name: one.read(parameters.get(one.name, one.default), Where("draw")) for one in entry.parameters}
    return DRAWERS[name](state, known).dump()


def _grid(columns: int, rows: int, fill: Callable[[int, int], str], *, upward: bool = True) -> tuple[Canvas, float]:
    """Return a canvas with cells coloured by (column, row), and the size of a cell."""
    size = max(4.0, min(32.0, 480 / columns))
    canvas = Canvas(columns * size, rows * size)
    for column in range(columns):
        for row in range(rows):
            y = rows - 1 - row if upward else row
            canvas.rect(column * size, y * size, size, size, fill(column, row), stroke=PAPER)
    return canvas, size


def _racetrack(state: Values, parameters: Values) -> Canvas:
    from polvet.domains.racetrack import load_map

    rows = load_map(parameters["map"])
    colours = {"x": WALL, ".": GROUND, "s": COLD, "g": SAFE}
    canvas, size = _grid(len(rows[0]), len(rows), lambda x, y: colours[rows[y][x]], upward=False)
    x, y = (state["car0_x"] + 0.5) * size, (state["car0_y"] + 0.5) * size
    canvas.line(x, y, x + state["car0_dx"] * size, y + state["car0_dy"] * size, HERO, 2)
    canvas.circle(x, y, size * 0.35, DANGER if state["car0_crashed"] else HERO)
    return canvas


def _blocks(state: Values, parameters: Values) -> Canvas:
    from polvet.domains.blocksworld import HAND, TABLE, on

    n = parameters["n"]
    size = 34.0
    canvas = Canvas((n + 0.5) * size, (n + 2) * size)
    canvas.line(0, (n + 1.5) * size, canvas.width, (n + 1.5) * size, INK, 3)

    def block(number: int, x: float, y: float, fill: str) -> None:
        canvas.rect(x + 2, y + 2, size - 4, size - 4, fill, stroke=INK, round_=4)
        canvas.text(x + size / 2, y + size / 2, number, 14)

    stack = 0
    above = {below: b for b in range(n) for below in range(n) if b != below and state[f"block_{b}"] == on(b, below)}
    for b in range(n):
        if state[f"block_{b}"] == HAND:
            block(b, canvas.width - size - 4, 2, COLD)
        elif state[f"block_{b}"] == TABLE:
            level, top = 1, b
            while True:
                block(top, stack * size + 4, (n + 1.5 - level) * size, GOODS)
                if top not in above:
                    break
                top, level = above[top], level + 1
            stack += 1
    return canvas


def _tiles(state: Values, parameters: Values) -> Canvas:
    from polvet.domains.sliding_tiles import board

    n = parameters["n"]
    columns, rows = board(n)
    size = 52.0
    canvas = Canvas(columns * size, rows * size)
    canvas.rect(0, 0, canvas.width, canvas.height, GROUND)
    forbidden = n - 1
    canvas.rect(forbidden % columns * size, forbidden // columns * size, size, size, "#f3c9c9")
    for tile in range(1, n + 1):
        row, column = divmod(state[f"tile_{tile}"], columns)
        canvas.rect(column * size + 4, row * size + 4, size - 8, size - 8, DANGER if tile == 3 else GOODS, round_=6)
        canvas.text((column + 0.5) * size, (row + 0.5) * size, tile, 20, PAPER)
    return canvas


def _road(state: Values, places: int, *, ice: frozenset[int] = frozenset(), bridge: bool = False) -> Canvas:
    size = max(24.0, min(48.0, 640 / places))
    canvas = Canvas(places * size, 110)
    for i in range(places):
        canvas.rect(i * size + 1, 84, size - 2, 16, COLD if i in ice else SAFE if i == places - 1 else GROUND)
        waiting = state[f"location_load_{i}"]
        if waiting:
            canvas.rect(i * size + size * 0.2, 62, size * 0.6, 20, GOODS, round_=3)
            canvas.text((i + 0.5) * size, 72, waiting)
    if bridge:
        canvas.rect((places - 1) * size - size * 0.3, 88, size * 0.6, 8, DANGER)
    x = (state["truck_0"] + 0.5) * size
    canvas.rect(x - size * 0.45, 22, size * 0.9, 26, HERO, round_=4)
    canvas.text(x, 34, state["truck_load_0"], 13, PAPER)
    canvas.circle(x - size * 0.25, 50, 5, INK)
    canvas.circle(x + size * 0.25, 50, 5, INK)
    if "truck_vel_0" in state:
        canvas.line(x, 12, x + state["truck_vel_0"] * size * 0.6, 12, DANGER, 3)
        canvas.text(x, 12, state["truck_vel_0"])
    return canvas


def _transport(state: Values, parameters: Values) -> Canvas:
    return _road(state, parameters["locations"], bridge=True)


def _line(state: Values, parameters: Values) -> Canvas:
    from polvet.domains.lines import ice_on_line

    return _road(
        state, parameters["p"], ice=ice_on_line(p=parameters["p"], icy=parameters["icy"], ice=parameters["ice"])
    )


def _beluga(state: Values, parameters: Values) -> Canvas:
    jigs, racks = parameters["jigs"], parameters["racks"]
    size = 30.0
    canvas = Canvas((jigs + 5) * size, (racks + 2) * size + 36)

    def row(y: float, label: str, numbers: list[int], fill: str) -> None:
        canvas.text(size * 1.5, y + size / 2, label)
        canvas.rect(size * 3, y + 2, (jigs + 1) * size, size - 4, GROUND, round_=4)
        for i, number in enumerate(numbers):
            canvas.rect(size * (3 + i) + 2, y + 4, size - 4, size - 8, fill, round_=4)
            canvas.text(size * (3.5 + i), y + size / 2, number)

    where = {j: state[f"jig_{j}"] for j in range(jigs)}
    row(4, "aircraft", sorted((j for j in where if where[j] < jigs), key=lambda j: where[j]), COLD)
    for r in range(racks):
        chain, j = [], state[f"front_rack_{r}"]
        while j != -1 and j not in chain:
            chain.append(j)
            j = state[f"back_jig_{j}"]
        row(8 + size * (r + 1), f"rack {r}", chain, GOODS)
    moving = [j for j in where if where[j] in (jigs + racks, jigs + racks + 1)]
    row(12 + size * (racks + 1), "on wheels", moving, HERO)
    canvas.text(canvas.width / 2, canvas.height - 10, f"next: {state['next_jig']}, pushes: {state['num_swaps']}")
    return canvas


def _ball(state: Values, parameters: Values) -> Canvas:
    canvas = Canvas(220, 240)
    top = max(12.0, float(state["height"]) * 1.1)

    def y(height: float) -> float:
        return 220 - height / top * 200

    canvas.rect(0, y(9), 220, y(5) - y(9), COLD)
    canvas.line(0, 220, 220, 220, INK, 3)
    canvas.circle(110, y(state["height"]) - 8, 10, HERO)
    canvas.line(110, y(state["height"]) - 8, 110, y(state["height"]) - 8 - state["velocity"] * 3, DANGER, 3)
    return canvas


def _pendulum(state: Values, parameters: Values) -> Canvas:
    canvas = Canvas(240, 160)
    for side in (-1, 1):
        canvas.line(120, 140, 120 + side * 120 * math.sin(0.785), 140 - 120 * math.cos(0.785), DANGER, 1)
    x, y = 120 + 120 * math.sin(state["angle"]), 140 - 120 * math.cos(state["angle"])
    canvas.line(120, 140, x, y, INK, 5)
    canvas.circle(x, y, 10, HERO)
    canvas.circle(120, 140, 6, INK)
    return canvas


def _cars(state: Values, parameters: Values) -> Canvas:
    canvas = Canvas(420, 90)
    canvas.rect(0, 60, 420, 14, GROUND)
    gap = min(state["gap"], 100.0) * 3
    for x, fill in ((60.0, HERO), (100.0 + gap, INK)):
        canvas.rect(x - 40, 36, 40, 20, fill, round_=6)
        canvas.circle(x - 30, 58, 6, INK)
        canvas.circle(x - 10, 58, 6, INK)
    canvas.text(60 + gap / 2, 20, f"{state['gap']:.1f} m, {state['velocity']:.1f} m/s against 28")
    return canvas


def _bird(state: Values, parameters: Values) -> Canvas:
    from polvet.domains.flappy_bird import layout

    places = layout(parameters["width"], parameters["height"], parameters["walls"], parameters["seed"])
    walls = {column: (low, high) for column, low, high in places}

    def fill(x: int, y: int) -> str:
        return WALL if x in walls and not walls[x][0] <= y <= walls[x][1] else GROUND

    canvas, size = _grid(parameters["width"], parameters["height"], fill)
    canvas.circle((state["x"] + 0.5) * size, canvas.height - (state["y"] + 0.5) * size, size * 0.45, HERO)
    return canvas


def _layers(state: Values, parameters: Values) -> Canvas:
    d = min(parameters["d"], 12)
    step = 54.0
    canvas = Canvas((d + 2) * step, 120)

    def at(layer: int, primed: bool) -> tuple[float, float]:
        return (layer + 0.5) * step, 60.0 if layer in (0, d + 1) else 90.0 if primed else 30.0

    pairs = [(layer, primed) for layer in range(d + 2) for primed in (False, True) if not primed or 1 <= layer <= d]
    for layer, primed in pairs:
        for after, other in pairs:
            if after == layer + 1:
                canvas.line(*at(layer, primed), *at(after, other), WALL)
    for layer, primed in pairs:
        here = (layer, primed) == (state["layer"], state["primed"])
        canvas.circle(*at(layer, primed), 9, HERO if here else GOODS)
    return canvas


def _janitor(state: Values, parameters: Values) -> Canvas:
    from polvet.domains.janitor import waiting_cells

    width, height = parameters["width"], parameters["height"]
    waiting = set(waiting_cells(width, height))
    canvas, size = _grid(
        width, height, lambda x, y: SAFE if (x, y) == (width - 1, height - 1) else COLD if (x, y) in waiting else GROUND
    )
    for x, y, fill in (("x", "y", HERO), ("jx", "jy", DANGER)):
        canvas.circle((state[x] + 0.5) * size, canvas.height - (state[y] + 0.5) * size, size * 0.35, fill)
    return canvas


def _folline(state: Values, parameters: Values) -> Canvas:
    reach = parameters["width"] // 2 + 1

    def fill(x: int, y: int) -> str:
        deviation = abs(y - reach)
        return (
            DANGER
            if deviation == reach
            else COLD
            if deviation == 0
            else SAFE
            if x > parameters["length"] - 3
            else GROUND
        )

    canvas, size = _grid(parameters["length"] + 1, 2 * reach + 1, fill)
    y = canvas.height - (state["deviation"] + reach + 0.5) * size
    canvas.circle((state["position"] + 0.5) * size, y, size * 0.45, HERO)
    return canvas


def _comexp(state: Values, parameters: Values) -> Canvas:
    width, height = parameters["width"], parameters["height"]
    special = {(width - 1, height - 1): SAFE, (width // 2, height // 2): GOODS}
    canvas, size = _grid(width, height, lambda x, y: special.get((x, y), COLD if x == 0 else GROUND))
    x, y = (state["x"] + 0.5) * size, canvas.height - (state["y"] + 0.5) * size
    canvas.circle(x, y, size * 0.38, DANGER if state["moved"] == parameters["distance"] - 1 else HERO)
    canvas.text(x, y, state["moved"], size * 0.4, PAPER)
    return canvas


DRAWERS: Mapping[str, Callable[[Values, Values], Canvas]] = {
    "racetrack": _racetrack,
    "blocksworld": _blocks,
    "sliding-tiles": _tiles,
    "transport": _transport,
    "beluga": _beluga,
    "one-way-line": _line,
    "two-way-line": _line,
    "bouncing-ball": _ball,
    "inverted-pendulum": _pendulum,
    "follow-car": _cars,
    "flappy-bird": _bird,
    "layers": _layers,
    "janitor": _janitor,
    "folline": _folline,
    "comexp": _comexp,
}
