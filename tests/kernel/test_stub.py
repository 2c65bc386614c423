"""The types of the compiled kernels (`_core.pyi`) are those that the built module says of itself."""

from __future__ import annotations

import ast

import pytest

pytest.importorskip("nanobind.stubgen")


def test_the_stub_is_the_one_of_the_module():
    """Else run python -m docs.write_stub."""
    from docs.write_stub import STUB, stub_of_module

    assert ast.dump(ast.parse(STUB.read_text(encoding="utf-8"))) == ast.dump(ast.parse(stub_of_module()))
