"""Two pictures as SVG files that stand alone: which actions a shield allows where, and cost bounds per iteration.

The map has one panel per action over two variables of the model; a cell is the darker, the larger the share of listed
states there (all values of the other variables) in which the action is allowed. White cells: no run goes on there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from polvet.errors import InputError, Where
from polvet.report.markup import text
from polvet.report.shields import find_axes
from polvet.shield.file import Shield

CELL, GAP, WIDTH, HEIGHT, MARGIN = 18.0, 34.0, 640.0, 300.0, 56.0
COLOURS = ("#1b6ca8", "#b3541e", "#777777")
STYLE = "<style>text{font:11px sans-serif;fill:#222}.frame{fill:none;stroke:#999}</style>"


def draw_permissions(shield: Shield) -> str:
    """Return the map of allowed actions as SVG text; an InputError where no two variables span a small grid."""
    axes = find_axes(shield)
    if axes is None:
        raise InputError(
            "no two variables of the shield span a small grid.", Where("--picture"), "Leave the picture out."
        )
    x, y = axes
    running: dict[tuple[int, int], int] = {}
    allowed: dict[str, dict[tuple[int, int], int]] = {}
    for key, labels in shield.actions.items():
        if not labels:
            continue
        place = key[x], key[y]
        running[place] = running.get(place, 0) + 1
        for label in labels:
            count = allowed.setdefault("the world moves" if label is None else label, {})
            count[place] = count.get(place, 0) + 1
    if not running:
        raise InputError("no run goes on in any state of the shield.", Where("--picture"), "Leave the picture out.")
    left, right = min(p[0] for p in running), max(p[0] for p in running)
    low, high = min(p[1] for p in running), max(p[1] for p in running)
    width, height = (right - left + 1) * CELL, (high - low + 1) * CELL
    parts = []
    for number, (label, counts) in enumerate(sorted(allowed.items())):
        across = GAP + number * (width + GAP)
        parts.append(f'<text x="{across:g}" y="16">{text(label)}</text>')
        parts.append(f'<rect class="frame" x="{across:g}" y="24" width="{width:g}" height="{height:g}"/>')
        for (column, row), total in sorted(running.items()):
            share = counts.get((column, row), 0) / total
            says = f"{shield.variables[x]}={column}, {shield.variables[y]}={row}: {label} allowed in {share:.1%}"
            parts.append(
                f'<rect x="{across + (column - left) * CELL:g}" y="{24 + (high - row) * CELL:g}" width="{CELL:g}" '
                f'height="{CELL:g}" fill="#1b6ca8" fill-opacity="{0.05 + 0.95 * share:.3f}"><title>{text(says)}</title></rect>'
            )
    foot = f"{shield.variables[x]} across, {shield.variables[y]} up; darkest: allowed in every state there"
    parts.append(f'<text x="{GAP:g}" y="{height + 44:g}">{text(foot)}</text>')
    total_width = max(GAP + len(allowed) * (width + GAP), 7.0 * len(foot))
    return _svg(total_width, height + 56, "Allowed actions", parts)


def draw_bounds(series: Mapping[str, Sequence[float]]) -> str:
    """Return bounds over iterations as SVG text; infinite values are left out."""
    finite = [value for values in series.values() for value in values if math.isfinite(value)]
    top = max(finite, default=1.0) or 1.0
    count = max((len(values) for values in series.values()), default=0)

    def place(k: int, value: float) -> tuple[float, float]:
        share = k / (count - 1) if count > 1 else 0.5
        return MARGIN + (WIDTH - 2 * MARGIN) * share, HEIGHT - 40 - (HEIGHT - 80) * value / top

    parts = []
    for tick in range(5):
        _, py = place(0, top * tick / 4)
        parts.append(
            f'<line x1="{MARGIN:g}" x2="{WIDTH - MARGIN:g}" y1="{py:.1f}" y2="{py:.1f}" stroke="#ddd"/>'
            f'<text x="{MARGIN - 6:g}" y="{py + 4:.1f}" text-anchor="end">{top * tick / 4:.4g}</text>'
        )
    for k in range(0, count, max(1, count // 12)):
        parts.append(f'<text x="{place(k, 0)[0]:.1f}" y="{HEIGHT - 24:g}" text-anchor="middle">{k + 1}</text>')
    parts.append(f'<text x="{WIDTH / 2:g}" y="{HEIGHT - 6:g}" text-anchor="middle">iteration</text>')
    for number, (name, values) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = [(*place(k, value), k, value) for k, value in enumerate(values) if math.isfinite(value)]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py, _, _ in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for px, py, k, value in points:
            says = text(f"{name} after iteration {k + 1}: {value:.6g}")
            parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{colour}"><title>{says}</title></circle>')
        parts.append(f'<text x="{MARGIN + 150 * number:g}" y="18" style="fill:{colour}">{text(name)}</text>')
    return _svg(WIDTH, HEIGHT, "Cost bounds per iteration", parts)


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'role="img"><title>{text(title)}</title>{STYLE}<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n'
    )
