"""The types of the compiled kernels (`_core.pyi`) are those that the built module says of itself."""

from __future__ import annotations

import ast

import pytest

pytest.importorskip("nanobind.stubgen")
from docs.write_stub import STUB, WRITER, stub_of_module

AGAIN = "run python -m docs.write_stub"


def names(tree):
    """Return the names of classes, functions and methods, and of the parameters of each."""
    inner = {id(part): one.name for one in ast.walk(tree) if isinstance(one, ast.ClassDef) for part in one.body}
    defined = [one for one in ast.walk(tree) if isinstance(one, ast.ClassDef | ast.FunctionDef)]
    return {
        (inner.get(id(one)), one.name, *(part.arg for part in ast.walk(one) if isinstance(part, ast.arg)))
        for one in defined
        if isinstance(one, ast.FunctionDef)
    } | {one.name for one in defined}


def test_the_stub_is_the_one_of_the_module():
    text = STUB.read_text(encoding="utf-8")
    written, said = ast.parse(text), ast.parse(stub_of_module())
    assert names(written) == names(said), AGAIN
    if f"with {WRITER}." in text:  # another version may spell types otherwise
        assert ast.dump(written) == ast.dump(said), AGAIN
