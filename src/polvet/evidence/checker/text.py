"""Flat texts as nested lists of words, and the numbers among the words."""

from __future__ import annotations

import json
import math
import re
import sys
from typing import Any, TypeAlias

Item: TypeAlias = Any
"""A word, or a list of items."""
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[()]|[^\s()"]+|"')
_INTEGER = re.compile(r"-?[0-9]+")
_DOUBLE = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?")
sys.set_int_max_str_digits(0)  # integers of any length are read


class Unreadable(Exception):
    """The text is not what its format says; nothing is claimed."""


class Rejected(Exception):
    """The evidence does not show its claim: the obligation, and the place."""


def parse(text: str) -> list[Item]:
    """Return the items of a text. A quoted name keeps its opening quote, so that it is never taken for another word.

    >>> parse('(variable "at(a)" 0 1)')
    [['variable', '"at(a)', '0', '1']]
    """
    now: list[Item] = []
    outer: list[list[Item]] = []
    for word in _WORD.findall(text):
        if word == "(":
            outer.append(now)
            now = []
        elif word == ")":
            if not outer:
                raise Unreadable("a bracket is closed that was not opened")
            outer[-1].append(now)
            now = outer.pop()
        elif word[0] == '"':
            if len(word) < 2:
                raise Unreadable("a quote is not closed")
            now.append('"' + json.loads(word))
        else:
            now.append(word)
    if outer:
        raise Unreadable("a bracket is not closed")
    return now


def name(word: Item) -> str:
    """Return the name that a word is."""
    if not isinstance(word, str) or is_number(word) or word in ("*", "error"):
        raise Unreadable(f"{show(word)} is not a name")
    return word[1:] if word[0] == '"' else word


def is_number(word: str) -> bool:
    """Return whether the word is an integer or a double."""
    return bool(_DOUBLE.fullmatch(word))


def integer(word: Item) -> int:
    """Return the integer that a word is."""
    if not isinstance(word, str) or not _INTEGER.fullmatch(word):
        raise Unreadable(f"{show(word)} is not an integer")
    return int(word)


def double(word: Item) -> float:
    """Return the finite number that a word is, as a double."""
    if not isinstance(word, str) or not is_number(word) or not math.isfinite(value := float(word)):
        raise Unreadable(f"{show(word)} is not a finite number")
    return value + 0.0


def number(word: Item) -> int | float:
    """Return the integer or the double that a word is."""
    return int(word) if isinstance(word, str) and _INTEGER.fullmatch(word) else double(word)


def listed(item: Item, what: str) -> list[Item]:
    """Return the list that an item is."""
    if not isinstance(item, list):
        raise Unreadable(f"{show(item)} is not {what}")
    return item


def show(item: Item) -> str:
    """Return the beginning of an item, for messages."""
    text = str(item)
    return text if len(text) <= 60 else text[:57] + "..."
