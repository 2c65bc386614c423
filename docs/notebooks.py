"""The tutorials as notebooks: `python docs/notebooks.py` writes `tutorial-*.ipynb` beside the pages, `--run FOLDER` runs them as well.

Each block of a page becomes a cell: Python as it is, commands with `!` before them. Outputs are not kept: what a cell shows is made
where it is run. Everything that the cells write goes to a new folder.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```\n(?:\n```text\n.*?^```\n)?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([\w-]+)\.md")
FOLDER = "import os\nimport tempfile\n\nos.chdir(tempfile.mkdtemp())  # everything below is written there"


def notebook(page: Path) -> dict[str, Any]:
    """Return the page as a notebook (nbformat 4.5)."""
    text = page.read_text(encoding="utf-8")
    cells: list[tuple[str, str]] = []
    end = 0
    for block in BLOCK.finditer(text):
        cells += [("markdown", text[end : block.start()]), ("code", _code(block[1], block[2]))]
        end = block.end()
    cells.append(("markdown", text[end:]))
    first = next(place for place, (kind, _) in enumerate(cells) if kind == "code")
    cells.insert(first, ("code", FOLDER))
    shown = [(kind, body.strip("\n")) for kind, body in cells]
    return {
        "cells": [_cell(f"{place}", kind, body) for place, (kind, body) in enumerate(shown) if body],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _code(language: str, body: str) -> str:
    if language == "python":
        return body
    return "\n".join("!" + line.removeprefix("$ ") for line in body.splitlines() if line.startswith("$ "))


def _cell(name: str, kind: str, body: str) -> dict[str, Any]:
    body = LINK.sub(r"](\1.html", body) if kind == "markdown" else body
    cell: dict[str, Any] = {"cell_type": kind, "id": name, "metadata": {}, "source": body.splitlines(keepends=True)}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def written(page: Path) -> str:
    """Return the text of the page's notebook."""
    return json.dumps(notebook(page), indent=1, ensure_ascii=False) + "\n"


def run(page: Path, folder: Path) -> Path:
    """Run the page's notebook and write it with its outputs to the folder; a cell that raises is an error."""
    import nbformat
    from nbclient import NotebookClient

    done = nbformat.reads(written(page), as_version=4)
    NotebookClient(done, timeout=300, kernel_name="python3").execute()
    path = folder / f"{page.stem}.ipynb"
    nbformat.write(done, path)
    return path


def main() -> None:
    """Write the notebooks."""
    for page in sorted(DOCS.glob("tutorial-*.md")):
        page.with_suffix(".ipynb").write_text(written(page), encoding="utf-8")
        if "--run" in sys.argv:
            folder = Path(sys.argv[sys.argv.index("--run") + 1])
            folder.mkdir(parents=True, exist_ok=True)
            sys.stdout.write(f"{run(page, folder)}\n")


if __name__ == "__main__":
    main()
