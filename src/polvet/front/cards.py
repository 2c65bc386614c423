"""Results in a notebook: a card with the verdict, and runs to be stepped through, made of the report's own parts.

A card is a small fragment with its own style; what needs a script (the slider) is a whole page of the report inside a frame,
so that a notebook's own page is never scripted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

from polvet.report.markup import show, text

if TYPE_CHECKING:
    from polvet.front.result import Result, Run
    from polvet.report.page import Part

ROWS, FIRST = 20, 6
CARD = "border:1px solid #8884;border-left:4px solid;border-radius:6px;padding:.7em 1em;margin:.3em 0;font-family:sans-serif"
LINE, CELL = "margin:.3em 0", "padding:.2em .7em;text-align:left;border-bottom:1px solid #8884;white-space:nowrap"
COLOURS = {"good": "#1a7f37", "bad": "#b42318", "open": "#8a6d00"}
GOOD = {"safe", "terminating", "accepted", "no faults", "repaired", "permitted", "passed", "holds", "solved", "done"}
BAD = {"unsafe", "nonterminating", "rejected", "faults", "faults remain", "impossible", "failed", "refuted"}


def result_card(result: Result) -> str:
    """Return the card of a result: its verdict, its reason, its first figures, what it lists, and what it can show of itself."""
    word = result.verdict.value
    colour = COLOURS["good" if word in GOOD else "bad" if word in BAD else "open"]
    named = type(result).__name__
    beside = "" if named.lower() == word else f'<span style="opacity:.65;margin-left:.8em">{text(named)}</span>'
    lines = [f'<p style="margin:0"><b style="font-size:1.3em;color:{colour}">{text(word)}</b>{beside}</p>']
    if result.reason:
        lines.append(f'<p style="{LINE}">{text(result.reason)}</p>')
    claim = getattr(result, "claim", None)
    if claim:
        lines.append(f'<p style="{LINE}">proved: {text(claim)}</p>')
    lines.append(_figures(result))
    if result.certificate is not None:
        lines.append(f'<p style="{LINE}">evidence: {text(result.certificate.get("kind"))}{_checked(result)}</p>')
    pictures = result._pictures()
    listed = [] if pictures else list(islice(_listed(result), ROWS + 1))
    if listed:
        lines.append(_table(listed[:ROWS]))
        if len(listed) > ROWS:
            lines.append(f'<p style="{LINE}">... and more: to_dataframe() has all</p>')
    return f'<div class="polvet-card" style="{CARD};border-left-color:{colour}">{"".join(lines)}{pictures}</div>'


def run_player(runs: Sequence[Run]) -> str:
    """Return the runs as a frame with a slider, the world's picture where it is a built-in one, and the variables."""
    from polvet.report.campaign import ShownRun
    from polvet.report.pictures import Pictures
    from polvet.report.replay import replay_part

    pictures = Pictures(runs[0].world)
    shown = [ShownRun(None, run.states, run.actions, run.end) for run in runs]
    part, data = replay_part(shown, [], pictures, title="Runs")
    lines = min(len(runs[0].states[0]), 14)
    return frame([] if part is None else [part], 30 + 2.4 * lines, {**data, "lines": pictures.lines})


def frame(parts: Sequence[Part], height: float, data: Any = None) -> str:
    """Return parts of a report in a frame of that many lines; what is longer is scrolled there."""
    from polvet.report.page import Page, dump_page

    page = escape(dump_page(Page("", "", tuple(parts), data)), quote=True)
    style = f"width:100%;height:{height:g}em;border:0"
    return f'<iframe title="polvet" style="{style}" sandbox="allow-scripts" srcdoc="{page}"></iframe>'


def _figures(result: Result) -> str:
    """Return the figures: the first ones at once, the others when they are asked for."""
    known = [
        (name, value) for name, value in result.figures.items() if isinstance(value, int | float | str) and value != ""
    ]
    if not known:
        return ""
    first, rest = (known, []) if len(known) <= FIRST + 2 else (known[:FIRST], known[FIRST:])
    more = (
        f'<details style="{LINE}"><summary>{len(rest)} more figures</summary>{_cells(rest)}</details>' if rest else ""
    )
    return _cells(first) + more


def _cells(figures: Sequence[tuple[str, Any]]) -> str:
    cells = "".join(
        f'<div style="margin:.2em 1.6em .2em 0"><div style="opacity:.65;font-size:.85em">{text(name.replace("_", " "))}</div>'
        f"<div><b>{text(_number(value))}</b></div></div>"
        for name, value in figures
    )
    return f'<div style="display:flex;flex-wrap:wrap;margin:.3em 0">{cells}</div>'


def _checked(result: Result) -> str:
    """Return what became of the evidence, behind its kind."""
    if result.checked:
        return ", accepted by the independent checker"
    return "" if result.not_checked is None else f", not checked: {text(result.not_checked)}"


def _listed(result: Result) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of results that list something; figures alone are shown already."""
    if type(result)._rows is not _plain_rows():
        yield from result._rows()


def _plain_rows() -> Any:
    from polvet.front.result import Result

    return Result._rows


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row if not isinstance(row[name], dict | list)))
    head = "".join(f'<th style="{CELL}">{text(name)}</th>' for name in names)
    body = "".join(
        "<tr>" + "".join(f'<td style="{CELL}">{text(show(row.get(name)))}</td>' for name in names) + "</tr>"
        for row in rows
    )
    whole = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div style="overflow-x:auto"><table style="border-collapse:collapse;font-size:.85em">{whole}</table></div>'


def _number(value: Any) -> str:
    if isinstance(value, bool | str):
        return show(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
