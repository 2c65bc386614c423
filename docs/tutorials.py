"""The tutorials' code, run: `python docs/tutorials.py` runs every block and writes what it printed into the pages.

A block ```console holds commands (`$ polvet ...`, which may end in 10, 20 or 30 as documented) with their output below each; a
block ```python is a cell: a page's cells share their names, as in a notebook, and the block ```text right after one holds what it
prints and the value of its last line. All blocks of a page run in one folder, in order.
With `--check` nothing is written: pages whose output has changed are named, and the exit code is 1. Times are no output.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from difflib import unified_diff
from pathlib import Path

DOCS = Path(__file__).resolve().parent
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
# seconds, speeds, and the looks of threads that tell each other what they know
TIMES = re.compile(r"\b\d+\.\d+ s\b|\b[\d,]+ (?=states/s)|(?<=^  \d )\s+\d+\.\d\d|(?<=expanded=)\d+", re.MULTILINE)


def pages() -> list[Path]:
    """Return the tutorials, and the pages for users of other tools."""
    return [*sorted(DOCS.glob("tutorial-*.md")), *sorted(DOCS.glob("for-*.md"))]


def needed(page: Path) -> list[str]:
    """Return the packages that the page's code needs besides polvet's own: `<!-- needs: gymnasium -->` names them."""
    found = re.search(r"<!-- needs: ([\w ]+) -->", page.read_text(encoding="utf-8"))
    return [] if found is None else found[1].split()


def run_page(text: str) -> str:
    """Return the page with the output of its blocks as it is now."""
    with tempfile.TemporaryDirectory() as folder, _interpreter(Path(folder)) as cells:

        def run(found: re.Match[str]) -> str:
            if found[1] == "console":
                return f"```console\n{_run_commands(found[2], Path(folder))}```\n"
            printed = _run_cell(cells, found[2])
            return f"```python\n{found[2]}```\n" + (f"\n```text\n{printed}```\n" if printed else "")

        return BLOCK.sub(run, text)


CELLS = """
import ast, contextlib, io, json, sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    printed, error = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        try:
            *body, last = ast.parse(json.loads(line)).body
            exec(compile(ast.Module([*body, *([] if isinstance(last, ast.Expr) else [last])], []), "cell", "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
                if value is not None:
                    print(repr(value))
        except Exception:
            error = traceback.format_exc()
    print(json.dumps([printed.getvalue(), error]), flush=True)
"""


def _interpreter(folder: Path) -> subprocess.Popen[str]:
    """Return a process that runs cells, one JSON text a line, and answers each with what it printed and its error."""
    return subprocess.Popen(
        [sys.executable, "-c", CELLS], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _run_cell(cells: subprocess.Popen[str], code: str) -> str:
    assert cells.stdin is not None
    assert cells.stdout is not None
    cells.stdin.write(json.dumps(code) + "\n")
    cells.stdin.flush()
    printed, error = json.loads(cells.stdout.readline())
    if error is not None:
        raise RuntimeError(f"{code}\n{error}")
    return str(printed)


def _run_commands(block: str, folder: Path) -> str:
    lines = []
    for line in block.splitlines():
        if line.startswith("$ "):
            lines.append(line + "\n" + _printed(["sh", "-c", line.removeprefix("$ ")], folder))
    return "".join(lines)


def _printed(command: list[str], folder: Path) -> str:
    here = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": here + os.pathsep + os.environ["PATH"], "COLUMNS": "120"}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    if "Traceback" in done.stderr or done.returncode not in (0, 10, 20, 30):
        raise RuntimeError(f"{command[-1]}\n{done.stderr}")
    return done.stdout + done.stderr


def timeless(text: str) -> str:
    """Return the text without what differs from run to run."""
    return TIMES.sub("_", text)


def main() -> int:
    """Run all pages."""
    changed = 0
    for page in pages():
        before = page.read_text(encoding="utf-8")
        after = run_page(before)
        if timeless(before) == timeless(after):
            continue
        changed += 1
        if "--check" in sys.argv:
            sys.stdout.writelines(unified_diff(before.splitlines(True), after.splitlines(True), page.name, "now"))
        else:
            page.write_text(after, encoding="utf-8")
            sys.stdout.write(f"{page.name} written\n")
    return int("--check" in sys.argv and changed > 0)


if __name__ == "__main__":
    sys.exit(main())
