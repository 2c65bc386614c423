"""A region of safe start states as a page shows it: its boxes, and a map of them in two dimensions with start states whose runs fail."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polvet.errors import InputError, Where
from polvet.files import Json
from polvet.model.task import TaskOptions
from polvet.records.shape import record_from_json
from polvet.report.markup import plural, section, table, text
from polvet.report.page import Part

Ends = tuple[Any, Any]
Box = Mapping[str, Ends]
HINT = "Give a certificate as polvet verify --region -o FILE writes it."
MAX_BOXES = 200
DRAWN, RUN_STEPS = 2_000, 1_000
WIDTH, HEIGHT, LEFT, TOP = 560.0, 320.0, 70.0, 6.0


@dataclass(frozen=True, slots=True)
class DrawnStarts:
    """Start states as named numbers, and which of them the executed run leads to `fail`."""

    states: tuple[Json, ...]
    fails: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class _Boxes:
    boxes: tuple[Box, ...]


def drawn_starts(task: Path, policy: Path, options: TaskOptions) -> DrawnStarts:
    """Return start states that are drawn and executed while the page is written."""
    from polvet.kernel.starts import drawable_starts
    from polvet.policy.binding import load_fitted
    from polvet.policy.compiled import compile_policy
    from polvet.policy.runs import End, simulate
    from polvet.sources import load_task

    bound = compile_policy(load_fitted(load_task(task, options), policy))
    states = drawable_starts(bound.task).sample(DRAWN, random.Random(0))
    ended = simulate(bound, bound.compiled.pack(states), max_steps=RUN_STEPS)
    names = [variable.name for variable in bound.task.network.variables]
    named = tuple(dict(zip(names, state, strict=True)) for state in states)
    return DrawnStarts(named, tuple((np.asarray(ended.ends) == End.FAIL).tolist()))


def region_part(certificate: Mapping[str, Any], drawn: DrawnStarts | None, where: Where) -> Part | None:
    """Return the section of a `safe-region` certificate; None for every other kind."""
    if certificate.get("kind") != "safe-region":
        return None
    region = certificate.get("region")
    if not isinstance(region, dict) or len(region) != 1 or not region.keys() <= {"in", "out"}:
        what = "'region' names neither boxes 'in' which starts are safe nor boxes 'out'."
        raise InputError(what, where.at("region"), HINT)
    ((side, listed),) = region.items()
    boxes = record_from_json(_Boxes, {"boxes": listed}, where.at("region")).boxes
    if not all(_is_number(end) for box in boxes for ends in box.values() for end in ends):
        raise InputError("the ends of boxes are no numbers.", where.at("region"), HINT)
    said = "in one of these boxes" if side == "in" else "outside fail and all of these boxes"
    body = f"<p>The start states {said} are safe: no run from them fails. Of other start states nothing is said.</p>"
    if drawn is not None:
        count = sum(drawn.fails)
        body += (
            f"<p>While this page was written, {len(drawn.fails):,} start states were drawn and executed: {count:,} runs fail. "
            "That is a sample, not a proof.</p>"
        )
    body += _map(boxes, side, drawn)
    shown = [(str(k + 1), text(_condition(box))) for k, box in enumerate(boxes[:MAX_BOXES])]
    left = len(boxes) - len(shown)
    caption = f"{plural(len(boxes), 'box', 'boxes')}{f'; {left:,} left out' if left else ''}"
    body += table(("box", "safe" if side == "in" else "not said to be safe"), shown, caption)
    return Part("region", "Region", section("region", "Safe start states", body))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300


def _condition(box: Box) -> str:
    parts = [f"{name} = {low}" if low == high else f"{low} <= {name} <= {high}" for name, (low, high) in box.items()]
    return ", ".join(parts) or "all"


def _map(boxes: Sequence[Box], side: str, drawn: DrawnStarts | None) -> str:
    """A picture where boxes, and what differs between start states, are about two variables."""
    states: Sequence[Json] = () if drawn is None else drawn.states
    names = list(dict.fromkeys(name for box in boxes for name in box))
    names += [n for n in (states[0] if states else {}) if n not in names and len({state[n] for state in states}) > 1]
    if len(names) != 2:
        return ""
    values = {name: [float(state[name]) for state in states] for name in names}
    spans = {}
    for name in names:
        ends = [float(end) for box in boxes if name in box for end in box[name]] + values[name]
        if not ends or min(ends) == max(ends):
            return ""
        spans[name] = min(ends), max(ends)
    (x, (left, right)), (y, (low, high)) = spans.items()

    def across(value: float) -> float:
        return LEFT + WIDTH * (value - left) / (right - left)

    def down(value: float) -> float:
        return TOP + HEIGHT * (high - value) / (high - low)

    parts = [f'<rect class="none" x="{LEFT:g}" y="{TOP:g}" width="{WIDTH:g}" height="{HEIGHT:g}"/>']
    for box in boxes:
        (x1, x2), (y1, y2) = box.get(x, spans[x]), box.get(y, spans[y])
        size = f'width="{max(across(x2) - across(x1), 0.5):.2f}" height="{max(down(y1) - down(y2), 0.5):.2f}"'
        sort = "safe" if side == "in" else "cell"
        parts.append(
            f'<rect class="{sort}" x="{across(x1):.2f}" y="{down(y2):.2f}" {size}><title>{text(_condition(box))}</title></rect>'
        )
    fails = () if drawn is None else drawn.fails
    for px, py, bad in zip(values[x], values[y], fails, strict=True):
        if bad:
            parts.append(f'<circle class="failing" cx="{across(px):.2f}" cy="{down(py):.2f}" r="2"/>')
    for value in (high, low):
        parts.append(
            f'<text x="{LEFT - 4:g}" y="{down(value) + (10 if value == high else 0):.1f}" text-anchor="end">{value:.5g}</text>'
        )
    for value, anchor in ((left, "start"), (right, "end")):
        parts.append(
            f'<text x="{across(value):.1f}" y="{TOP + HEIGHT + 14:g}" text-anchor="{anchor}">{value:.5g}</text>'
        )
    coloured = "Safe start states (filled)" if side == "in" else "What is not said to be safe (filled)"
    dots = "; dots: drawn start states whose run fails" if drawn is not None else ""
    title = f"{coloured} over {x} (across) and {y} (up){dots}"
    return (
        f'<figure class="heat"><svg viewBox="0 0 {LEFT + WIDTH + 8:g} {TOP + HEIGHT + 20:g}" role="img" aria-label="{text(title)}">'
        f"{''.join(parts)}</svg><figcaption>{text(title)}</figcaption></figure>"
    )
