"""What all tests share: where other people's benchmark files are, the same random examples on every run of CI, and a watch.

The watch looks at every InputError that polvet makes while tests run, also inside commands: each says what to do about it.
"""

import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

from polvet.errors import InputError

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "shared" / "benchmarks"

settings.register_profile("repeatable", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("repeatable")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells start what runs in the background so, and whatever it starts: tests of Ctrl-C would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)

QUICK_EXAMPLES, QUICK_CASES = 5, 1
SOURCE = str(Path(__file__).resolve().parent.parent / "src" / "polvet")
_unhelpful: list[str] = []
_make = InputError.__init__


def _watched(self, what, where=None, hint=None):
    _make(self, what, where, hint)
    caller = sys._getframe(1).f_code
    if caller.co_filename.startswith(SOURCE) and not (hint and hint.strip() and what.strip()):
        _unhelpful.append(f"{caller.co_filename}, {caller.co_name}: {self}")


InputError.__init__ = _watched  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def _every_error_has_a_next_step():
    _unhelpful.clear()
    yield
    assert not _unhelpful, "errors without a next step: " + "; ".join(_unhelpful)


def pytest_collection_modifyitems(config, items):
    """With POLVET_QUICK (`make quick`) a test has few cases and few random examples; the whole suite has all of them."""
    if not os.environ.get("POLVET_QUICK"):
        return
    cases: Counter[str] = Counter()
    left_out = []
    for item in items:
        name = item.nodeid.partition("[")[0]
        cases[name] += 1
        if cases[name] > QUICK_CASES:
            left_out.append(item)
        wanted = getattr(getattr(item, "obj", None), "_hypothesis_internal_use_settings", None)
        if wanted is not None:
            few = settings(wanted, max_examples=min(wanted.max_examples, QUICK_EXAMPLES))
            item.obj._hypothesis_internal_use_settings = few
    gone = set(left_out)
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in gone]
