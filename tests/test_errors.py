"""Errors say what is wrong, where, and what to do; and they arrive whole from another process."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest

from polvet.errors import InputError, LimitReached, MissingExtra, ModelError, Where

SOURCE = Path(__file__).resolve().parent.parent / "src" / "polvet"
KINDS = {"InputError", "ModelError"}


def errors_of(file):
    """Every place where the file makes an error for users, with whether it names a next step."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KINDS:
            given = node.args[2:3] + [word.value for word in node.keywords if word.arg == "hint"]
            yes = any(not (isinstance(hint, ast.Constant) and not hint.value) for hint in given)
            yield f"{file.relative_to(SOURCE)}:{node.lineno}", yes


def test_every_input_error_names_a_next_step():
    found = [one for file in sorted(SOURCE.rglob("*.py")) for one in errors_of(file)]
    assert len(found) > 500
    assert [place for place, yes in found if not yes] == []


@pytest.mark.parametrize(
    "error",
    [
        InputError("is odd.", Where("a.jani").at("x"), "Make it even."),
        ModelError("breaks.", Where("a.jani", line=3), "Mend it."),
        MissingExtra("ray", "ray"),
        LimitReached("time limit of 3 s reached", "time"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_arrive_whole_from_another_process(error):
    there = pickle.loads(pickle.dumps(error))
    assert type(there) is type(error)
    assert str(there) == str(error)
    assert vars(there) == vars(error)
