"""The page around the parts: one file that loads nothing, with its style, its script and its data inside.

SOUND: the content security policy allows this one script (by its hash), this style and pictures that are data; a page
that a hostile name slipped into could neither run nor fetch anything.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from typing import Any

from polvet import __version__
from polvet.report.markup import embedded, text


@dataclass(frozen=True, slots=True)
class Part:
    """A section of a page: its anchor, the word in the navigation, and its markup."""

    anchor: str
    word: str
    markup: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page before it is text: `head` is the markup on top, `data` what the script works on; without a title, parts alone."""

    title: str
    head: str
    parts: tuple[Part, ...]
    data: Any = None


def dump_page(page: Page) -> str:
    """Return the whole HTML file."""
    script, style = _resource("script.js"), _resource("style.css")
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    links = "".join(f'<li><a href="#{part.anchor}">{text(part.word)}</a></li>' for part in page.parts)
    header = f'<header><p class="brand">polvet</p><h1>{text(page.title)}</h1><nav aria-label="Sections"><ul>{links}</ul></nav></header>'
    footer = f"<footer><p>Written by polvet {text(__version__)}. This file loads nothing from anywhere.</p></footer>"
    if not page.title:
        header = footer = ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="polvet {text(__version__)}">
<title>{text(page.title)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
{header}
<main id="content" tabindex="-1">
{page.head}
{"".join(part.markup for part in page.parts)}
</main>
{footer}
<script type="application/json" id="data">{embedded(page.data)}</script>
<script>{script}</script>
</body>
</html>
"""


def _resource(name: str) -> str:
    return (resources.files("polvet.report") / name).read_text(encoding="utf-8")
