"""An invariant as a page shows it: the rows that hold, the boxes that are never entered, and a map of them in two dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polvet.errors import Where
from polvet.records.shape import record_from_json
from polvet.report.markup import plural, section, table, text
from polvet.report.page import Part

Box = Mapping[str, tuple[Any, Any]]
MAX_BOXES = 200
MAX_SIDE = 120
CELL = 18.0


@dataclass(frozen=True, slots=True)
class _Row:
    terms: Mapping[str, Any]
    marks: tuple[Any, ...] | None = None
    lower: int | None = None
    upper: int | None = None


@dataclass(frozen=True, slots=True)
class _Invariant:
    rows: tuple[_Row, ...]
    blocked: tuple[Box, ...]


def invariant_part(certificate: Mapping[str, Any], where: Where) -> Part | None:
    """Return the section of an `invariant` certificate; None for every other kind."""
    if certificate.get("kind") != "invariant":
        return None
    invariant = record_from_json(_Invariant, certificate, where)
    rows, blocked = invariant.rows, invariant.blocked
    body = (
        "<p>The invariant is every state that satisfies all rows, is not failing and lies in no blocked box. It holds all start "
        "states, and no step of the policy leaves it.</p>"
    )
    body += _map(blocked)
    if rows:
        shown = [(str(k + 1), text(_formula(row))) for k, row in enumerate(rows[:MAX_BOXES])]
        body += table(("row", "holds"), shown, f"Rows ({plural(len(rows), 'row')})")
    shown = [(str(k + 1), text(_box(box))) for k, box in enumerate(blocked[:MAX_BOXES])]
    left = len(blocked) - len(shown)
    caption = f"Blocked boxes ({len(blocked):,}{f'; {left:,} left out' if left else ''})"
    body += table(("box", "never entered"), shown, caption)
    return Part("invariant", "Invariant", section("invariant", "The invariant", body))


def _formula(row: _Row) -> str:
    terms = " + ".join(f"{value} · {name}" if value != 1 else str(name) for name, value in row.terms.items())
    marks = "".join(" + [mark]" for _ in row.marks or ())
    lower, upper = row.lower, row.upper
    if lower == upper and lower is not None:
        return f"{terms}{marks} = {lower}"
    low = "" if lower is None else f"{lower} <= "
    high = "" if upper is None else f" <= {upper}"
    return f"{low}{terms}{marks}{high}"


def _box(box: Box) -> str:
    parts = []
    for name, (low, high) in box.items():
        parts.append(f"{name} = {low}" if low == high else f"{low} <= {name} <= {high}")
    return ", ".join(parts)


def _map(blocked: Sequence[Box]) -> str:
    """A picture of the boxes where they speak about two variables only."""
    names = list(dict.fromkeys(name for box in blocked for name in box))
    if len(names) != 2 or not all(len(box) == 2 for box in blocked):
        return ""
    x, y = names
    if not all(type(end) is int for box in blocked for ends in box.values() for end in ends):
        return ""
    left, right = min(box[x][0] for box in blocked), max(box[x][1] for box in blocked)
    low, high = min(box[y][0] for box in blocked), max(box[y][1] for box in blocked)
    if max(right - left, high - low) >= MAX_SIDE:
        return ""
    width, height = (right - left + 1) * CELL, (high - low + 1) * CELL
    cells = [f'<rect class="none" x="30" y="4" width="{width:g}" height="{height:g}"/>']
    for box in blocked:
        (x1, x2), (y1, y2) = box[x], box[y]
        place = f'x="{30 + (x1 - left) * CELL:g}" y="{4 + (high - y2) * CELL:g}"'
        size = f'width="{(x2 - x1 + 1) * CELL:g}" height="{(y2 - y1 + 1) * CELL:g}"'
        cells.append(f'<rect class="cell" {place} {size} fill-opacity="0.55"><title>{text(_box(box))}</title></rect>')
    for value, py in ((high, 4 + CELL * 0.7), (low, 4 + height - CELL * 0.3)):
        cells.append(f'<text x="26" y="{py:g}" text-anchor="end">{value}</text>')
    for value, px in ((left, 30 + CELL / 2), (right, 30 + width - CELL / 2)):
        cells.append(f'<text x="{px:g}" y="{height + 18:g}" text-anchor="middle">{value}</text>')
    title = f"Blocked boxes over {x} (across) and {y} (up)"
    return (
        f'<figure class="heat"><svg viewBox="0 0 {width + 36:g} {height + 24:g}" role="img" aria-label="{text(title)}">'
        f"{''.join(cells)}</svg><figcaption>{text(title)}</figcaption></figure>"
    )
