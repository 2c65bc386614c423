"""Flat texts as nested lists of words, and the numbers among the words."""

from __future__ import annotations

import json
import math
import re
import sys
from typing import Any, TypeAlias

Item: TypeAlias = Any  # a word, or a list of items
WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[()]|[^\s()"]+|"')
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?")
sys.set_int_max_str_digits(0)  # integers of any length are read


class Unreadable(Exception):
    """The text is not what its format says: nothing is claimed."""


class Rejected(Exception):
    """The evidence does not show its claim: the obligation, and the place."""


def parse(text: str) -> list[Item]:
    """Return the items of a text. A quoted name keeps its opening quote, so that it is never taken for another word.

    >>> parse('(variable "at(a)" 0 1)')
    [['variable', '"at(a)', '0', '1']]
    """
    now: list[Item] = []
    outer: list[list[Item]] = []
    for word in WORD.findall(text):
        if word == "(":
            outer.append(now)
            now = []
        elif word == ")" and outer:
            outer[-1].append(now)
            now = outer.pop()
        elif word in (")", '"'):
            raise Unreadable(f"a {word} has no partner")
        else:
            now.append('"' + json.loads(word) if word[0] == '"' else word)
    if outer:
        raise Unreadable("a bracket is not closed")
    return now


def name(word: Item) -> str:
    """Return the name that a word is."""
    if not isinstance(word, str) or word in ("*", "error") or NUMBER.fullmatch(word):
        raise Unreadable(f"{str(word)[:60]} is not a name")
    return word.removeprefix('"')


def number(word: Item) -> int | float:
    """Return the integer or the finite double that a word is."""
    if not isinstance(word, str) or not NUMBER.fullmatch(word):
        raise Unreadable(f"{str(word)[:60]} is not a number")
    is_integer = "." not in word and "e" not in word
    if not is_integer and not math.isfinite(float(word)):
        raise Unreadable(f"{word[:60]} is not a finite double")
    return int(word) if is_integer else float(word) + 0.0


def integer(word: Item) -> int:
    """Return the integer that a word is."""
    if not isinstance(value := number(word), int):
        raise Unreadable(f"{word} is not an integer")
    return value
