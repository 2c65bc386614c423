"""The page of a shield: what it allows, and how risky each place is, as a heat map over two of its variables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polvet.errors import Where
from polvet.report.markup import card, code, plural, section, show, show_state, table, text
from polvet.report.page import Page, Part
from polvet.shield.file import Shield, read_shield

MAX_SIDE, MAX_ROWS = 80, 300
FAVOURITES = (("x", "y"), ("car0_x", "car0_y"), ("position", "deviation"), ("x", "moved"))


def shield_page(path: Path, document: Mapping[str, Any]) -> Page:
    """Return the page of a `shield/1` document."""
    shield = read_shield(document, Where(str(path)))
    choices = sum(len(allowed) for allowed in shield.actions.values())
    exact = document.get("values") == "exact"
    risk = max(shield.values.values())
    body = (
        f"<p>The file claims: however a learner chooses among the allowed actions, it fails with probability at most {text(shield.bound)} "
        f"from the start states{'' if exact else ' (values are proved upper bounds)'}. "
        f"{plural(len(shield.actions), 'state')}, {plural(choices, 'allowed action')}; the riskiest state has {float(risk):.6g}.</p>"
        f"<p>Check it without trusting whoever made it:</p>{code(f'polvet certify {path} --task MODEL')}"
    )
    head = card("good", "Shield", f"At most {show(float(shield.bound))}", body)
    heat = heat_part(shield)
    return Page(f"Shield {path.name}", head, (_states(shield),) if heat is None else (heat, _states(shield)))


def heat_part(shield: Shield) -> Part | None:
    """Return the map of risks over two variables; None where no two span a small grid."""
    axes = find_axes(shield)
    if axes is None:
        return None
    return Part("heat", "Heat map", section("heat", "Risk and permission", _heat(shield, *axes)))


def find_axes(shield: Shield) -> tuple[int, int] | None:
    """Return the places of two integer variables with few values, positions first."""
    values = [{key[k] for key in shield.actions} for k in range(len(shield.variables))]
    fit = [
        k
        for k, seen in enumerate(values)
        if 2 <= len(seen) <= MAX_SIDE and all(type(value) is int for value in seen) and max(seen) - min(seen) < MAX_SIDE
    ]
    names = {shield.variables[k]: k for k in fit}
    for x, y in FAVOURITES:
        if x in names and y in names:
            return names[x], names[y]
    return (fit[0], fit[1]) if len(fit) >= 2 else None


def _heat(shield: Shield, x: int, y: int) -> str:
    worst: dict[tuple[int, int], float] = {}
    fewest: dict[tuple[int, int], int] = {}
    for key, allowed in shield.actions.items():
        place = key[x], key[y]
        worst[place] = max(worst.get(place, 0.0), float(shield.values[key]))
        if allowed:
            fewest[place] = min(fewest.get(place, len(allowed)), len(allowed))
    xs, ys = [place[0] for place in worst], [place[1] for place in worst]
    left, right, low, high = min(xs), max(xs), min(ys), max(ys)
    top = max(worst.values()) or 1.0
    size = 24.0
    width, height = (right - left + 1) * size + 50, (high - low + 1) * size + 40
    cells = []
    for column in range(left, right + 1):
        for row in range(low, high + 1):
            px, py = 40 + (column - left) * size, 6 + (high - row) * size
            box = f'x="{px:g}" y="{py:g}" width="{size:g}" height="{size:g}"'
            if (column, row) not in worst:
                cells.append(f'<rect class="none" {box}/>')
                continue
            risk, count = worst[column, row], fewest.get((column, row))
            says = f"{shield.variables[x]}={column}, {shield.variables[y]}={row}: risk up to {risk:.6g}"
            says += "" if count is None else f", at least {plural(count, 'action')} allowed"
            cells.append(
                f'<rect class="cell" {box} fill-opacity="{0.06 + 0.9 * risk / top:.3f}"><title>{text(says)}</title></rect>'
            )
    step = max(1, (right - left) // 12)
    for column in range(left, right + 1, step):
        cells.append(
            f'<text x="{40 + (column - left + 0.5) * size:g}" y="{height - 20:g}" text-anchor="middle">{column}</text>'
        )
    step = max(1, (high - low) // 12)
    for row in range(low, high + 1, step):
        cells.append(f'<text x="34" y="{6 + (high - row + 0.65) * size:g}" text-anchor="end">{row}</text>')
    middle = 40 + (right - left + 1) * size / 2
    name = text(shield.variables[x])
    cells.append(f'<text x="{middle:g}" y="{height - 4:g}" text-anchor="middle">{name}</text>')
    title = f"Risk over {shield.variables[x]} and {shield.variables[y]}"
    drawn = f'<svg style="max-width:{1.6 * width:g}px" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{text(title)}">'
    return (
        f"<p>Each cell shows the greatest probability of failing in any state with these values of <code>{name}</code> "
        f"(across) and <code>{text(shield.variables[y])}</code> (up); the darkest is {top:.4g}.</p>"
        f'<figure class="heat">{drawn}{"".join(cells)}</svg></figure>'
    )


def _states(shield: Shield) -> Part:
    ranked = sorted(shield.actions, key=lambda key: (-shield.values[key], str(key)))
    rows = [
        (
            text(show_state(dict(zip(shield.variables, key, strict=True)))),
            text(", ".join("the world moves" if one is None else one for one in shield.actions[key]) or "the run ends"),
            f"{float(shield.values[key]):.6g}",
        )
        for key in ranked[:MAX_ROWS]
    ]
    left = len(ranked) - len(rows)
    caption = "Riskiest states first" + (f"; {left:,} left out" if left else "")
    return Part("states", "States", section("states", "States", table(("state", "allowed", "risk"), rows, caption)))
