"""Which policy this is: the files it is made of, and one SHA-256 of them all.

An ONNX file may keep weights in files beside it, a `.jani2nnet` names its `.nnet`, and a `.nnet` takes the names of its inputs
and outputs from the `.jani2nnet` beside it: each format says which (`PolicyFormat.beside`).
SOUND: every file that a reader opens is listed here. A digest that left one out would call two different policies the same.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from polvet.errors import InputError
from polvet.files import beside, python_files, sha256
from polvet.policy.format import Content
from polvet.policy.functions import function_sha256, named_function
from polvet.policy.load import format_of


def policy_files(path: str | Path) -> tuple[Path, ...]:
    """Return the file itself, then those that it reads, all of them in its folder; a file outside is refused."""
    if (function := named_function(path)) is not None:
        return python_files(function[0])
    return _files(Content.of(path))


def policy_sha256(path: str | Path) -> str:
    """Return the SHA-256 of the file's bytes where the policy is one file, else of the SHA-256 of each, one to a line.

    That of `file.py:function` covers the file, the modules beside it that it imports, and the function's name.
    """
    if (function := named_function(path)) is not None:
        return function_sha256(*function)
    return content_sha256(Content.of(path))


def content_sha256(content: Content) -> str:
    """Return the SHA-256 of the policy in the content: of the very bytes that are read."""
    first = hashlib.sha256(content.data).hexdigest()
    others = [sha256(file) for file in _files(content)[1:]]
    if not others:
        return first
    return hashlib.sha256("".join(f"{one}\n" for one in (first, *others)).encode()).hexdigest()


def _files(content: Content) -> tuple[Path, ...]:
    try:
        names = format_of(content).beside(content)
    except InputError:
        return (content.path,)  # no policy at all: whoever loads it says so
    return (content.path, *(beside(content.path, name, content.where) for name in names))
