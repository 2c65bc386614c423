"""Write the types of the compiled kernels, `src/polvet/_core.pyi`, from what the built module says of itself.

Run it from the repository's root: python -m docs.write_stub. A test compares the file with the module.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import nanobind
from nanobind.stubgen import StubGen

from polvet import _core

STUB = Path(__file__).resolve().parent.parent / "src" / "polvet" / "_core.pyi"
WRITER = f"nanobind {nanobind.__version__}"
HEAD = f'''"""Types of the compiled kernels, whose source is `src/_core/`; written by `python -m docs.write_stub` with {WRITER}."""

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy
from numpy.typing import NDArray
'''
GENERIC = {"dict": "dict[str, Any]", "list": "list[Any]", "tuple": "tuple[Any, ...]", "Sequence": "Sequence[Any]"}


class _Plain(ast.NodeTransformer):
    """Without docstrings and memory layouts; containers say what they hold."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id == "Annotated" and isinstance(node.slice, ast.Tuple):
            return node.slice.elts[0]
        node.slice = self.visit(node.slice)
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.parse(GENERIC.get(node.id, node.id), mode="eval").body

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self.generic_visit(node)
        node.body = [part for part in node.body if not _is_docstring(part)] or [ast.Expr(ast.Constant(...))]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.body = [ast.Expr(ast.Constant(...))]
        return node


def _is_docstring(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) and isinstance(part.value.value, str)


def stub_of_module() -> str:
    """Return the types of the built module, not formatted."""
    generator = StubGen(_core)
    generator.put(_core)
    parts = [
        part
        for part in ast.parse(generator.get()).body
        if not isinstance(part, ast.Import | ast.ImportFrom) and not _is_docstring(part)
    ]
    return HEAD + "\n" + ast.unparse(ast.fix_missing_locations(_Plain().visit(ast.Module(parts, []))))


if __name__ == "__main__":
    STUB.write_text(stub_of_module(), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", str(STUB)], check=True)
