"""Words, quoted texts and brackets with their places: what the bracketed formats of sketches are made of."""

from __future__ import annotations

import re
from dataclasses import dataclass

from polvet.errors import InputError, Where

MAX_DEPTH = 50

TOKEN = re.compile(r'(?P<space>\s+|[;#][^\n]*)|(?P<bracket>[()])|(?P<quoted>"[^"\n]*")|(?P<word>[^\s()";]+)|(?P<bad>.)')


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word, or what stands between two quotation marks."""

    text: str
    where: Where
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """What stands between two brackets, and the place of the first."""

    items: tuple[Leaf | Group, ...]
    where: Where

    @property
    def head(self) -> str:
        """The first word; empty where the group starts with none."""
        first = self.items[0] if self.items else None
        return first.text if isinstance(first, Leaf) and not first.quoted else ""

    def groups(self) -> tuple[Group, ...]:
        """Return what follows the head; it must be groups alone."""
        for item in self.items[1:]:
            if isinstance(item, Leaf):
                raise InputError(
                    f"'{item.text[:30]}' stands in '({self.head}' without brackets.", item.where, "Write (...)."
                )
        return tuple(item for item in self.items[1:] if isinstance(item, Group))

    def words(self) -> tuple[Leaf, ...]:
        """Return what follows the head; it must be words or quoted texts alone, perhaps in brackets of their own."""
        items = self.items[1:]
        if len(items) == 1 and isinstance(items[0], Group):
            items = items[0].items
        for item in items:
            if isinstance(item, Group):
                raise InputError(f"'(' stands in '({self.head}' where a word should be.", item.where, "Write a word.")
        return tuple(item for item in items if isinstance(item, Leaf))


def read_groups(text: str, where: Where) -> tuple[Group, ...]:
    """Return the groups that the text is made of, or raise an InputError where a bracket or a quotation mark is missing."""
    groups: list[Group] = []
    pending: list[tuple[Where, list[Leaf | Group]]] = []
    line, line_start = 1, 0
    for match in TOKEN.finditer(text):
        word, kind = match.group(), match.lastgroup
        place = Where(where.file, where.path, line, match.start() - line_start + 1)
        if kind == "space":
            if (breaks := word.count("\n")) > 0:
                line, line_start = line + breaks, match.start() + word.rindex("\n") + 1
        elif kind == "bad":
            raise InputError("a quotation mark is not closed on its line.", place, "Write the second one.")
        elif word == "(":
            if len(pending) >= MAX_DEPTH:
                raise InputError(f"brackets nest deeper than {MAX_DEPTH}.", place, "Nest less.")
            pending.append((place, []))
        elif word == ")":
            if not pending:
                raise InputError("')' closes nothing.", place, "Remove it, or write the '(' it should close.")
            start, items = pending.pop()
            (pending[-1][1] if pending else groups).append(Group(tuple(items), start))
        elif not pending:
            raise InputError(f"'{word[:30]}' stands outside brackets.", place, "Write (:policy ...).")
        else:
            pending[-1][1].append(Leaf(word.strip('"'), place, kind == "quoted"))
    if pending:
        raise InputError("this '(' is never closed.", pending[-1][0], "Write the ')' it misses.")
    return tuple(groups)
