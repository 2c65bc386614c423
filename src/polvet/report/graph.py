"""A small directed graph as SVG text: control states in layers by their distance from the initial ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi, sin

from polvet.report.markup import text

SORTS = ("cycle", "falls", "removed", "gone", "prefix")
COLUMN, ROW, BOX_HEIGHT, MARGIN = 190.0, 96.0, 34.0, 60.0
LONGEST, LETTER = 28, 6.2  # of what stands on an edge: its letters, and the width of one
PEAK = 24.0  # the least height of a curve's middle: room for its label


@dataclass(frozen=True, slots=True)
class Arc:
    """An edge to draw: its ends by number, all that is said of it, the class that colours it, and what stands on it."""

    source: int
    target: int
    label: str
    sort: str = ""
    short: str = ""

    @property
    def shown(self) -> str:
        """What stands on the edge; the rest is in the tooltip."""
        words = self.short or self.label
        return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"


@dataclass(frozen=True, slots=True)
class Drawing:
    """The inside of an SVG, and its size."""

    width: float
    height: float
    body: str

    def svg(self, title: str, style: str = "", *, x: float | None = None, y: float = 0) -> str:
        """Return the drawing as an SVG element; inside another one it stands at a place."""
        place = "" if x is None else f' x="{x:.0f}" y="{y:.0f}"'
        space = ' xmlns="http://www.w3.org/2000/svg"' if style else ""
        sheet = f"<style>{style}</style>" if style else ""
        return (
            f'<svg{space}{place} viewBox="0 0 {self.width:.0f} {self.height:.0f}" width="{self.width:.0f}" height="{self.height:.0f}" '
            f'role="img" aria-label="{text(title)}">{sheet}{self.body}</svg>'
        )


def in_figure(drawing: Drawing, title: str) -> str:
    """Return a drawing as a figure of a page."""
    return f'<figure class="graph scroll" tabindex="0" role="group" aria-label="{text(title)}">{drawing.svg(title)}</figure>'


def graph_drawing(
    names: Sequence[str], initial: Sequence[int], arcs: Sequence[Arc], tooltips: Sequence[str] = ()
) -> Drawing:
    """Return the graph: in layers by the distance from the initial nodes, or around a circle where most are initial."""
    around = len(names) > 2 and 2 * len(initial) > len(names)
    if around:
        at = _circle(len(names))
    else:
        at = [(MARGIN + 20 + COLUMN * x, MARGIN + 20 + ROW * y) for x, y in _layers(len(names), initial, arcs)]
    beside: dict[tuple[int, int], int] = {}
    numbers = []
    for arc in arcs:
        beside[arc.source, arc.target] = beside.get((arc.source, arc.target), -1) + 1
        numbers.append(beside[arc.source, arc.target])
    centre = (sum(x for x, _ in at) / max(1, len(at)), sum(y for _, y in at) / max(1, len(at))) if around else None
    words = [_words_at(at[arc.source], at[arc.target], k, centre) for arc, k in zip(arcs, numbers, strict=True)]
    halves = [LETTER / 2 * len(arc.shown) + 6 for arc in arcs]
    lift = max(0.0, PEAK - min((y for _, y in words), default=PEAK))
    aside = max(0.0, -min((x - half for (x, _), half in zip(words, halves, strict=True)), default=0.0))
    at = [(x + aside, y + lift) for x, y in at]
    width = max((x + half_width(name[:16]) for (x, _), name in zip(at, names, strict=True)), default=0) + 40
    width = max([width, *(x + aside + half for (x, _), half in zip(words, halves, strict=True))])
    height = max(max((y for _, y in at), default=0) + MARGIN + 20, max((y for _, y in words), default=0) + lift + PEAK)
    edges: list[tuple[bool, str]] = []
    middle = None if centre is None else (centre[0] + aside, centre[1] + lift)
    for arc, number in zip(arcs, numbers, strict=True):
        drawn = _edge(arc, at[arc.source], at[arc.target], number, middle)
        edges.append((arc.sort not in ("", "gone"), drawn))
    parts = [drawn for _, drawn in sorted(edges, key=lambda edge: edge[0])]  # what is marked lies on top
    for k, name in enumerate(names):
        parts.append(box(name, *at[k], "node initial" if k in initial else "node", tooltip=(tooltips or names)[k]))
    return Drawing(width, height, ARROWS + "".join(parts))


_HEADS = "".join(
    f'<marker id="arrow{sort}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
    f'markerUnits="userSpaceOnUse" orient="auto"><path class="arrow {sort}" d="M0 0 L10 5 L0 10 z"/></marker>'
    for sort in ("", *SORTS)
)
ARROWS = f"<defs>{_HEADS}</defs>"
"""Heads of edges, one for each colour."""


def box(name: str, x: float, y: float, sort: str, longest: int = 16, tooltip: str = "") -> str:
    """Return a name in a box around a point; long ones are cut, and whole in the tooltip, if that says nothing else."""
    shown = name if len(name) <= longest else name[: longest - 1] + "…"
    half = half_width(shown)
    return (
        f'<g class="{sort}"><title>{text(tooltip or name)}</title><rect x="{x - half:.1f}" y="{y - BOX_HEIGHT / 2:.1f}" '
        f'width="{2 * half:.1f}" height="{BOX_HEIGHT:g}" rx="8"/><text x="{x:.1f}" y="{y + 4.5:.1f}" '
        f'text-anchor="middle">{text(shown)}</text></g>'
    )


def half_width(shown: str) -> float:
    """Return half the width of a box around the text."""
    return max(22.0, 4.4 * len(shown) + 10)


def _circle(count: int) -> list[tuple[float, float]]:
    radius = max(125.0, 22.0 * count)
    middle = radius + MARGIN + 20
    turns = [2 * pi * k / count - pi / 2 for k in range(count)]
    return [(middle + 1.15 * radius * cos(turn) + 0.15 * radius, middle + radius * sin(turn)) for turn in turns]


def _layers(count: int, initial: Sequence[int], arcs: Sequence[Arc]) -> list[tuple[int, int]]:
    """The column and row of each node: its distance from the initial ones, and its turn among those as far."""
    after: Mapping[int, list[int]] = {k: [arc.target for arc in arcs if arc.source == k] for k in range(count)}
    depth: dict[int, int] = dict.fromkeys(initial, 0)
    queue = list(initial)
    for node in queue:
        for target in after[node]:
            if target not in depth:
                depth[target] = depth[node] + 1
                queue.append(target)
    beyond = max(depth.values(), default=-1) + 1
    filled: dict[int, int] = {}
    place = []
    for node in range(count):
        column = depth.get(node, beyond)
        filled[column] = filled.get(column, -1) + 1
        place.append((column, filled[column]))
    return place


def _edge(
    arc: Arc, start: tuple[float, float], end: tuple[float, float], number: int, middle: tuple[float, float] | None
) -> str:
    """Return an edge as a curve; a loop rises above its node, or points away from the middle of a circle."""
    (x1, y1), (x2, y2) = start, end
    tx, ty = _words_at(start, end, number, middle)
    if arc.source == arc.target:
        top, rise = _loop(start, number, middle)
        wide = 34 + 26 * number
        path = f"M{x1 - 12:.1f} {top:.1f} C{x1 - wide:.1f} {top - rise:.1f} {x1 + wide:.1f} {top - rise:.1f} {x1 + 12:.1f} {top:.1f}"
    else:
        aside, down_by = _bow(start, end, number, middle is not None)
        mx, my = (x1 + x2) / 2 + aside, (y1 + y2) / 2 + down_by
        ax, ay = _border(x1, y1, mx, my)
        bx, by = _border(x2, y2, mx, my)
        path = f"M{ax:.1f} {ay:.1f} Q{mx:.1f} {my:.1f} {bx:.1f} {by:.1f}"
    head = arc.sort if arc.sort in SORTS else ""
    return (
        f'<g class="edge {arc.sort}"><title>{text(arc.label)}</title><path d="{path}" marker-end="url(#arrow{head})"/>'
        f'<text x="{tx:.1f}" y="{ty:.1f}" text-anchor="middle">{text(arc.shown)}</text></g>'
    )


def _words_at(
    start: tuple[float, float], end: tuple[float, float], number: int, middle: tuple[float, float] | None
) -> tuple[float, float]:
    """Where the middle of an edge's words stands."""
    if start == end:
        top, rise = _loop(start, number, middle)
        return start[0], top - rise * 0.78 + (6 if rise < 0 else 0)
    aside, down_by = _bow(start, end, number, middle is not None)
    return (start[0] + end[0] + aside) / 2, (start[1] + end[1] + down_by) / 2


def _loop(at: tuple[float, float], number: int, middle: tuple[float, float] | None) -> tuple[float, float]:
    """Where a loop leaves its node's box, and how far it rises from there; below the middle of a circle it falls."""
    if middle is not None and at[1] > middle[1]:
        return at[1] + BOX_HEIGHT / 2, -34.0 - 20 * number
    return at[1] - BOX_HEIGHT / 2, 34.0 + 20 * number


def _bow(start: tuple[float, float], end: tuple[float, float], number: int, around: bool) -> tuple[float, float]:
    """How far a curve's handle lies off the straight line; in layers, edges that pass other columns pass above or below their nodes."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = max(1.0, (dx * dx + dy * dy) ** 0.5)
    passed = 0.0 if around else max(0.0, abs(dx) / COLUMN - 1)
    bend = 26 + 26 * number + 48 * passed
    return -dy / length * bend, dx / length * bend


def _border(x: float, y: float, toward_x: float, toward_y: float) -> tuple[float, float]:
    """Where the line from the middle of a box leaves it."""
    dx, dy = toward_x - x, toward_y - y
    scale = min(30 / abs(dx) if dx else 1e9, (BOX_HEIGHT / 2 + 2) / abs(dy) if dy else 1e9)
    return x + dx * scale, y + dy * scale
