"""What the tutorials show is what their code prints."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
_spec = importlib.util.spec_from_file_location("tutorials", DOCS / "tutorials.py")
assert _spec is not None
assert _spec.loader is not None
tutorials = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tutorials)


@pytest.mark.slow
@pytest.mark.parametrize("page", tutorials.pages(), ids=lambda page: page.stem)
def test_a_tutorial_shows_what_its_code_prints(page):
    shown = page.read_text(encoding="utf-8")
    assert tutorials.timeless(tutorials.run_page(shown)) == tutorials.timeless(shown)


def test_there_is_a_tutorial_for_each_capability():
    assert [page.stem.split("-")[2] for page in tutorials.pages()] == [
        "decide",
        "debug",
        "verify",
        "shield",
        "terminates",
        "gym",
    ]


def test_times_are_no_output():
    assert tutorials.timeless("took 1.25 s, 3,000 states/s") == tutorials.timeless("took 9.50 s, 12 states/s")
    assert tutorials.timeless("risk 0.25") != tutorials.timeless("risk 0.5")
