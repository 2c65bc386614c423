"""What the tests read in a page of the documentation: the files it shows, and the keys that its tables list."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
SHOWN = re.compile(r"^`([\w./-]+)`[^\n]*:\n\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_in(page: str) -> list[tuple[str, str, str]]:
    """Return the page's blocks that are files: name, language and text. A line with the name and a colon stands above each."""
    return SHOWN.findall((DOCS / page).read_text(encoding="utf-8"))


def files_in(page: str) -> dict[str, str]:
    """Return by name the files of the page."""
    return {name: text for name, _, text in blocks_in(page)}


def section(page: str, heading: str) -> str:
    """Return what stands below the heading, up to the next of its kind."""
    found = re.search(
        rf"^#+ {re.escape(heading)}.*?\n(.*?)(?=^## |\Z)", (DOCS / page).read_text(encoding="utf-8"), re.M | re.S
    )
    assert found is not None, f"{page} has no heading {heading}"
    return found[1]


def listed(text: str, header: str = "key") -> set[str]:
    """Return the first column of the table with that header."""
    table = re.search(rf"^\| {header} \|.*?\n(?:\|.*\n)+", text, re.MULTILINE)
    assert table is not None, f"no table of {header}"
    return set(re.findall(r"^\| `([^`]+)` \|", table[0], re.MULTILINE))
