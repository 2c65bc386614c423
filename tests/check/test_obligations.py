"""Every kind discharges every obligation: the function that the list names is called when a true certificate of the kind is checked."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from polvet.check.checker import CHECKERS, Accepted, Subjects, check
from polvet.errors import Where
from tests.check.kinds import make_all
from tests.check.obligations import BY_KIND, OBLIGATIONS, WITHOUT


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """Return the words after `polvet certify` by kind."""
    return make_all(tmp_path_factory.mktemp("obligations"))


def called(certificate, subjects):
    """Return the answer, and the functions of the checkers that were called."""
    found = set()

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and Path(code.co_filename).parent.name == "check":
            found.add(f"{Path(code.co_filename).stem}.{code.co_qualname}")

    sys.setprofile(note)
    try:
        return check(certificate, subjects, Where("claim")), found
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("kind", sorted(CHECKERS))
def test_every_obligation_is_discharged_by_the_function_that_is_named(certified, kind):
    assert OBLIGATIONS.keys() == BY_KIND[kind].keys() | {what for name, what in WITHOUT if name == kind}
    words = certified[kind]
    options = dict(zip(words[1::2], words[2::2], strict=True))
    files = (None if path is None else Path(path) for path in (options.get("--task"), options.get("--policy")))
    answer, functions = called(json.loads(Path(words[0]).read_text()), Subjects(*files, options=None))
    assert isinstance(answer, Accepted), answer
    missing = {what: name for what, name in BY_KIND[kind].items() if name not in functions}
    assert missing == {}, "these are not called"


def test_nothing_else_is_listed():
    assert BY_KIND.keys() == CHECKERS.keys()
    assert not {(kind, what) for kind, what in WITHOUT if what in BY_KIND[kind]}
