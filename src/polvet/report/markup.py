"""HTML as text. SOUND: every piece of text from files goes through `text`, which leaves no character that is markup."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any


def text(value: object) -> str:
    """Return the value as text that is safe inside an element and inside a quoted attribute.

    >>> text('<b a="1">')
    '&lt;b a=&quot;1&quot;&gt;'
    """
    return escape(show(value), quote=True)


def show(value: object) -> str:
    """Return a value of a state as models write it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value)


def show_state(state: Mapping[str, Any]) -> str:
    """Return the state as `x=3, crashed=false`."""
    return ", ".join(f"{name}={show(value)}" for name, value in state.items())


def around(percent: float, interval: tuple[float, float]) -> str:
    """Return a percentage with its interval, where there is one to see.

    >>> around(5.0, (5.0, 5.0)), around(5.0, (4.0, 6.5))
    ('5.00', '5.00 <span class="interval">[4.00, 6.50]</span>')
    """
    low, high = (f"{end:.2f}" for end in interval)
    return f"{percent:.2f}" + ("" if low == high else f' <span class="interval">[{low}, {high}]</span>')


def embedded(data: Any) -> str:
    """Return JSON that may stand inside a script element: no `<`, so that nothing in it ends the element.

    >>> "<" in embedded({"name": "</script>"}), json.loads(embedded({"name": "</script>"}))
    (False, {'name': '</script>'})
    """
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str, *, numbers: bool = False) -> str:
    """Return a table in a frame that scrolls; the cells are markup already, the caption is text."""
    heads = "".join(f'<th scope="col">{text(name)}</th>' for name in head)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(f"<td>{cell}</td>" for cell in row[1:])}</tr>' for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{text(caption)}">'
        f"<table{' class=numbers' if numbers else ''}><caption>{text(caption)}</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def section(identity: str, title: str, body: str) -> str:
    """Return a section with a heading; the body is markup already."""
    return f'<section id="{identity}" aria-labelledby="{identity}-title"><h2 id="{identity}-title">{text(title)}</h2>{body}</section>'


def card(sort: str, level: str, word: str, body: str) -> str:
    """Return the card on top of a page: how sure the verdict is, and the verdict; the body is markup already."""
    return f'<div class="verdict {sort}"><p class="level">{text(level)}</p><p class="word">{text(word)}</p>{body}</div>'


def code(command: str) -> str:
    """Return a command line to be copied."""
    return f'<pre class="scroll" tabindex="0" role="region" aria-label="Command"><code>{text(command)}</code></pre>'


def plural(count: int, one: str, more: str | None = None) -> str:
    """Return the count with its noun.

    >>> plural(1, "fault"), plural(1234, "fault")
    ('1 fault', '1,234 faults')
    """
    return f"{count:,} {one if count == 1 else more or one + 's'}"
