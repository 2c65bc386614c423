"""Checks in bulk of a few states: the checkers do so only where there are many."""

from __future__ import annotations

from contextlib import contextmanager


@contextmanager
def in_bulk(checker):
    """Let the module of a checker treat states in bulk, however few they are."""
    before, checker.FEW = checker.FEW, 0
    try:
        yield
    finally:
        checker.FEW = before
