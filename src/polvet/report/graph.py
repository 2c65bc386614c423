"""A small directed graph as SVG text: control states in layers by their distance from the initial ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polvet.report.markup import text

COLUMN, ROW, BOX_HEIGHT, MARGIN = 190.0, 96.0, 34.0, 60.0


@dataclass(frozen=True, slots=True)
class Arc:
    """An edge to draw: its ends by number, what stands on it, and the class that colours it."""

    source: int
    target: int
    label: str
    sort: str = ""


def draw_graph(names: Sequence[str], initial: Sequence[int], arcs: Sequence[Arc], title: str) -> str:
    """Return the drawing as a figure; colours come from the page's style."""
    place = _layers(len(names), initial, arcs)
    width = 2 * MARGIN + COLUMN * max((x for x, _ in place), default=0) + 40
    height = 2 * MARGIN + ROW * max((y for _, y in place), default=0) + 40
    at = [(MARGIN + 20 + COLUMN * x, MARGIN + 20 + ROW * y) for x, y in place]
    beside: dict[tuple[int, int], int] = {}
    parts = []
    for arc in arcs:
        number = beside[arc.source, arc.target] = beside.get((arc.source, arc.target), -1) + 1
        parts.append(_edge(arc, at[arc.source], at[arc.target], number))
    for k, name in enumerate(names):
        x, y = at[k]
        shown = name if len(name) <= 16 else name[:15] + "…"
        half = max(22.0, 4.4 * len(shown) + 10)
        sort = "node initial" if k in initial else "node"
        parts.append(
            f'<g class="{sort}"><title>{text(name)}</title><rect x="{x - half:.1f}" y="{y - BOX_HEIGHT / 2:.1f}" '
            f'width="{2 * half:.1f}" height="{BOX_HEIGHT:g}" rx="8"/><text x="{x:.1f}" y="{y + 4.5:.1f}" '
            f'text-anchor="middle">{text(shown)}</text></g>'
        )
    marker = (
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
        'markerUnits="userSpaceOnUse" orient="auto"><path class="arrow" d="M0 0 L10 5 L0 10 z"/></marker></defs>'
    )
    return (
        f'<figure class="graph scroll" tabindex="0" role="group" aria-label="{text(title)}"><svg viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" role="img" aria-label="{text(title)}">{marker}{"".join(parts)}</svg></figure>'
    )


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


def _edge(arc: Arc, start: tuple[float, float], end: tuple[float, float], number: int) -> str:
    (x1, y1), (x2, y2) = start, end
    if arc.source == arc.target:
        top = y1 - BOX_HEIGHT / 2
        rise = 34 + 20 * number
        path = f"M{x1 - 12:.1f} {top:.1f} C{x1 - 34:.1f} {top - rise:.1f} {x1 + 34:.1f} {top - rise:.1f} {x1 + 12:.1f} {top:.1f}"
        tx, ty = x1, top - rise * 0.78
    else:
        dx, dy = x2 - x1, y2 - y1
        length = max(1.0, (dx * dx + dy * dy) ** 0.5)
        bend = 26 + 26 * number
        mx, my = (x1 + x2) / 2 - dy / length * bend, (y1 + y2) / 2 + dx / length * bend
        ax, ay = _border(x1, y1, mx, my)
        bx, by = _border(x2, y2, mx, my)
        path = f"M{ax:.1f} {ay:.1f} Q{mx:.1f} {my:.1f} {bx:.1f} {by:.1f}"
        tx, ty = (x1 + x2) / 4 + mx / 2, (y1 + y2) / 4 + my / 2
    shown = arc.label if len(arc.label) <= 28 else arc.label[:27] + "…"
    return (
        f'<g class="edge {arc.sort}"><title>{text(arc.label)}</title><path d="{path}" marker-end="url(#arrow)"/>'
        f'<text x="{tx:.1f}" y="{ty:.1f}" text-anchor="middle">{text(shown)}</text></g>'
    )


def _border(x: float, y: float, toward_x: float, toward_y: float) -> tuple[float, float]:
    """Where the line from the middle of a box leaves it."""
    dx, dy = toward_x - x, toward_y - y
    scale = min(30 / abs(dx) if dx else 1e9, (BOX_HEIGHT / 2 + 2) / abs(dy) if dy else 1e9)
    return x + dx * scale, y + dy * scale
