"""What a checker can ever import: `python -m tests.check.closure` prints a row for each kind of certificate.

Imports are read from the source, those inside of functions and the places of registries included; only what type checkers alone see
is left out.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from polvet.check.checker import CHECKERS

SOURCE = Path(__file__).resolve().parents[2] / "src"


def file_of(module):
    """Return the file of a module of polvet; None for names that are no modules."""
    path = SOURCE.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@cache
def imports_of(file):
    """Return the names of polvet that a file imports anywhere."""
    found, pending = set(), [ast.parse(file.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            pending += node.orelse
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Registry":
            texts = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
            found |= {text.split(":")[0] for text in texts if isinstance(text, str) and text.startswith("polvet.")}
        pending += ast.iter_child_nodes(node)
    return {name for name in found if name.split(".")[0] == "polvet"}


def closure(module):
    """Return every module of polvet that importing this one, and calling anything in it, may load."""
    found, pending = {}, [module]
    while pending:
        parts = pending.pop().split(".")
        for k in range(1, len(parts) + 1):
            name = ".".join(parts[:k])
            file = file_of(name)
            if file is not None and name not in found:
                found[name] = file
                pending += imports_of(file)
    return found


def main():
    """Print modules and lines for each kind."""
    print(f"{'kind':<18} {'modules':>7} {'lines':>7} {'of check/':>9}")
    for kind, home in sorted(CHECKERS.items()):
        found = closure(home.split(":")[0])
        lines = {name: len(file.read_text(encoding="utf-8").splitlines()) for name, file in found.items()}
        own = sum(count for name, count in lines.items() if name.startswith("polvet.check"))
        print(f"{kind:<18} {len(found):>7} {sum(lines.values()):>7,} {own:>9,}")


if __name__ == "__main__":
    main()
