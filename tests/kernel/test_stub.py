"""The types of the compiled kernels (`_core.pyi`) name what is there: the classes, members and parameters that nanobind tells."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import polvet
from polvet import _core

stubgen = pytest.importorskip("nanobind.stubgen")
Signature = tuple[tuple[str, ...], int]


def members(text: str) -> dict[str, list[Signature]]:
    """Every function, method and value with its overloads: parameter names ("" without one) and how many have defaults."""
    found: dict[str, list[Signature]] = {}

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                found[prefix + node.name] = []
                visit(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef):
                arguments = node.args
                names = ["" for _ in arguments.posonlyargs] + [
                    one.arg for one in (*arguments.args, *arguments.kwonlyargs)
                ]
                if names and names[0] == "self":
                    names[0] = ""
                defaults = len(arguments.defaults) + sum(one is not None for one in arguments.kw_defaults)
                found.setdefault(prefix + node.name, []).append((tuple(names), defaults))
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name):
                    found[prefix + target.id] = []

    visit(ast.parse(text).body, "")
    return found


@pytest.fixture(scope="module")
def told():
    """What the built module says about itself."""
    generator = stubgen.StubGen(_core)
    generator.put(_core)
    return members(generator.get())


@pytest.fixture(scope="module")
def written():
    return members((Path(polvet.__file__).parent / "_core.pyi").read_text(encoding="utf-8"))


def test_the_stub_names_exactly_what_the_module_has(told, written):
    assert sorted(told.keys() - written.keys()) == []
    assert sorted(written.keys() - told.keys()) == []


def test_parameters_have_the_names_and_defaults_of_the_module(told, written):
    """A parameter that C++ gives no name may have any in the stub; a property with a setter may be written as a value."""
    wrong = {}
    for name, overloads in told.items():
        mine = written[name] or [(("",), 0), (("", ""), 0)]
        for names, defaults in overloads:
            if not any(
                len(names) == len(others)
                and count == defaults
                and all(a in ("", b) for a, b in zip(names, others, strict=True))
                for others, count in mine
            ):
                wrong[name] = (names, defaults, mine)
    assert wrong == {}
