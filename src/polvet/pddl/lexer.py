"""Words and brackets of PDDL with their places: text to a tree of groups, comments dropped.

Letters of either case are the same: a word's `text` is in small letters, `shown` is as it stands in the file. The usual
slip, a forgotten `)`, is told where it shows: at the first `:effect` or `(:action` that stands inside something else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from polvet.errors import InputError, Where

MAX_CHARACTERS = 64_000_000
MAX_DEPTH = 150
MAX_NAME = 200

TOKEN = re.compile(r"(?P<space>[ \t\r\f\v\n]+|;[^\n]*)|(?P<bracket>[()])|(?P<word>[^\s();]+)")
NAME = re.compile(r"[a-z0-9_][a-z0-9_.@+-]*")
FIELDS = (":parameters", ":precondition", ":effect")
SECTIONS = (
    ":requirements", ":types", ":constants", ":predicates", ":functions", ":action", ":domain", ":objects", ":init",
    ":goal", ":metric",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Word:
    """A word in small letters, as it is shown, and its place."""

    text: str
    shown: str
    where: Where


@dataclass(frozen=True, slots=True)
class Group:
    """What stands between two brackets, and the place of the first."""

    items: tuple[Word | Group, ...]
    where: Where

    @property
    def head(self) -> str:
        """The first word in small letters; empty where the group starts with none."""
        return _first(self.items).text


Tree = Word | Group


class _Open:
    """A group whose end has not come yet."""

    def __init__(self, where: Where) -> None:
        self.where = where
        self.items: list[Tree] = []

    @property
    def head(self) -> str:
        return _first(self.items).text

    def shown(self) -> str:
        return f"'({_first(self.items).shown}' of line {self.where.line}"


def _first(items: Sequence[Tree]) -> Word:
    """Return the word that a group starts with; an empty one where it starts with none."""
    return items[0] if items and isinstance(items[0], Word) else Word("", "", Where(""))


def read_tree(text: str, where: Where) -> Group:
    """Return the one group that the text is, or raise an InputError where a bracket is missing or too much."""
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"the text has {len(text)} characters; at most {MAX_CHARACTERS} are read.", where, "Split it.")
    tree: Group | None = None
    pending: list[_Open] = []
    line, line_start, shift = where.line or 1, 0, (where.column or 1) - 1
    for match in TOKEN.finditer(text):
        word = match.group()
        if match.lastgroup == "space":
            if (breaks := word.count("\n")) > 0:
                line += breaks
                line_start, shift = match.start() + word.rindex("\n") + 1, 0
            continue
        place = Where(where.file, where.path, line, match.start() - line_start + 1 + shift)
        if tree is not None and not pending:
            what = "')' closes nothing." if word == ")" else f"'{word[:30]}' stands behind the end."
            raise InputError(what, place, "Remove it, or a ')' before it.")
        if word == "(":
            if len(pending) >= MAX_DEPTH:
                raise InputError(f"brackets nest deeper than {MAX_DEPTH}.", place, "Nest less.")
            pending.append(_Open(place))
        elif word == ")":
            if not pending:
                raise InputError("')' closes nothing.", place, "Remove it, or write the '(' it should close.")
            closed = pending.pop()
            group = Group(tuple(closed.items), closed.where)
            if pending:
                pending[-1].items.append(group)
            else:
                tree = group
        else:
            _take_word(Word(word.lower(), word, place), pending)
    if pending:
        raise InputError(
            f"the text ends, but {pending[-1].shown()} is never closed.", pending[-1].where, "Write the ')' it misses."
        )
    if tree is None:
        raise InputError("there is nothing to read.", where, "Write (define ...).")
    return tree


def _take_word(word: Word, pending: list[_Open]) -> None:
    if not pending:
        raise InputError(f"'{word.shown[:30]}' stands outside brackets.", word.where, "PDDL starts with (define ...")
    if len(word.text) > MAX_NAME:
        what = f"'{word.shown[:30]}...' has {len(word.text)} characters; at most {MAX_NAME} are read."
        raise InputError(what, word.where, "Use a shorter name.")
    inside = pending[-1]
    if word.text in FIELDS and inside.head != ":action" and inside.items:
        _refuse_missing_bracket(f"'{word.shown}'", word.where, inside)
    if word.text in SECTIONS and not inside.items and len(pending) != 2:
        outer = pending[-2] if len(pending) > 2 else None
        if outer is not None:
            _refuse_missing_bracket(f"'({word.shown}'", inside.where, outer)
    inside.items.append(word)


def _refuse_missing_bracket(what: str, place: Where, inside: _Open) -> NoReturn:
    raise InputError(f"{what} stands inside {inside.shown()}, which is not closed.", place, "Write a ')' before it.")
