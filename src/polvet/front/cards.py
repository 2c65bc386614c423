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

ROWS = 20
COLOURS = {"good": "#1a7f37", "bad": "#b42318", "open": "#8a6d00"}
GOOD = {"safe", "terminating", "accepted", "no faults", "repaired", "permitted", "passed", "holds", "solved", "done"}
BAD = {"unsafe", "nonterminating", "rejected", "faults", "faults remain", "impossible", "failed", "refuted"}


def result_card(result: Result) -> str:
    """Return the card of a result: its verdict, its reason, its figures, what it lists, and the run it shows."""
    word = result.verdict.value
    colour = COLOURS["good" if word in GOOD else "bad" if word in BAD else "open"]
    lines = [f'<p style="margin:0;font-size:1.3em;font-weight:600;color:{colour}">{text(word)}</p>']
    if result.reason:
        lines.append(f'<p style="margin:.2em 0">{text(result.reason)}</p>')
    claim = getattr(result, "claim", None)
    if claim:
        lines.append(f'<p style="margin:.2em 0">proved: {text(claim)}</p>')
    figures = [(name, value) for name, value in result.figures.items() if isinstance(value, int | float | str)]
    if figures:
        cells = "".join(
            f'<div style="margin-right:1.5em"><div style="opacity:.7">{text(name.replace("_", " "))}</div>'
            f"<div><b>{text(_number(value))}</b></div></div>"
            for name, value in figures
        )
        lines.append(f'<div style="display:flex;flex-wrap:wrap;margin:.4em 0">{cells}</div>')
    if result.certificate is not None:
        kind = result.certificate.get("kind")
        lines.append(f'<p style="margin:.2em 0">evidence: {text(kind)} (save it, then polvet.certify)</p>')
    listed = list(islice(_listed(result), ROWS + 1))
    if listed:
        lines.append(_table(listed[:ROWS]))
        if len(listed) > ROWS:
            lines.append('<p style="margin:.2em 0">... and more: to_dataframe() has all</p>')
    run = getattr(result, "run", None)
    if run is not None:
        lines.append(run_player([run]))
    style = f"border-left:4px solid {colour};padding:.5em 1em;font-family:sans-serif"
    return f'<div class="polvet-card" style="{style}">{"".join(lines)}</div>'


def run_player(runs: Sequence[Run]) -> str:
    """Return the runs as a frame with a slider, the world's picture where it is a built-in one, and the variables."""
    from polvet.report.campaign import ShownRun
    from polvet.report.page import Page, dump_page
    from polvet.report.pictures import Pictures
    from polvet.report.replay import replay_part

    pictures = Pictures(runs[0].world)
    shown = [ShownRun(None, run.states, run.actions, run.end) for run in runs]
    part, data = replay_part(shown, [], pictures, title="Runs")
    page = Page("", "", () if part is None else (part,), {**data, "lines": pictures.lines})
    frame = escape(dump_page(page), quote=True)
    return f'<iframe title="run" style="width:100%;height:50em;border:0" sandbox="allow-scripts" srcdoc="{frame}"></iframe>'


def _listed(result: Result) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of results that list something; figures alone are shown already."""
    if type(result)._rows is not _plain_rows():
        yield from result._rows()


def _plain_rows() -> Any:
    from polvet.front.result import Result

    return Result._rows


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row if not isinstance(row[name], dict | list)))
    head = "".join(f"<th>{text(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{text(show(row.get(name)))}</td>" for name in names) + "</tr>" for row in rows
    )
    return f'<div style="overflow-x:auto"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _number(value: Any) -> str:
    if isinstance(value, bool | str):
        return show(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
