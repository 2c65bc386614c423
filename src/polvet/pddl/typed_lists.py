"""Lists with types, `a b - t c - (either u v) d`, and the names in them."""

from __future__ import annotations

from collections.abc import Sequence

from polvet.errors import InputError
from polvet.pddl.lexer import NAME, Group, Tree, Word
from polvet.pddl.syntax import OBJECT

Typed = tuple[Word, tuple[Word, ...]]
"""A name with the types behind its dash; none where it has no dash."""


def read_typed_list(items: Sequence[Tree], what: str, *, variables: bool = False) -> list[Typed]:
    """Return the names of the list with their types; `what` says in messages what is listed."""
    typed: list[Typed] = []
    untyped: list[Word] = []
    place = 0
    while place < len(items):
        item = items[place]
        if not isinstance(item, Word):
            raise InputError(f"'(' stands where {what} should be.", item.where, "Write names, and types behind a dash.")
        if item.text == "-":
            if not untyped:
                raise InputError("'-' has no names before it.", item.where, "Write them, or remove the dash.")
            if place + 1 == len(items):
                raise InputError("'-' has no type behind it.", item.where, "Write the type, or remove the dash.")
            types = _read_types(items[place + 1])
            typed += ((name, types) for name in untyped)
            untyped = []
            place += 2
            continue
        untyped.append(variable_of(item) if variables else name_of(item, what))
        place += 1
    return typed + [(name, ()) for name in untyped]


def _read_types(tree: Tree) -> tuple[Word, ...]:
    if isinstance(tree, Word):
        return (name_of(tree, "a type"),)
    if tree.head != "either" or len(tree.items) < 2:
        raise InputError("this is no type.", tree.where, "Write a name, or (either t1 t2).")
    return tuple(name_of(item, "a type") for item in tree.items[1:])


def name_of(tree: Tree, what: str) -> Word:
    """Return the name, or refuse what stands there instead."""
    if isinstance(tree, Group):
        raise InputError(f"'(' stands where {what} should be.", tree.where, "Write a name there.")
    if not NAME.fullmatch(tree.text):
        hint = "Names are made of letters, digits, - and _."
        raise InputError(f"'{tree.shown[:30]}' stands where {what} should be.", tree.where, hint)
    return tree


def variable_of(tree: Tree) -> Word:
    """Return the variable, or refuse what stands there instead."""
    if isinstance(tree, Group):
        raise InputError("'(' stands where a variable should be.", tree.where, "Write one such as ?x.")
    if not tree.text.startswith("?") or not NAME.fullmatch(tree.text[1:]):
        hint = "Variables start with a question mark: ?x."
        raise InputError(f"'{tree.shown[:30]}' stands where a variable should be.", tree.where, hint)
    return tree


def type_names(types: tuple[Word, ...]) -> tuple[str, ...]:
    """Return the names of the types; no type at all is `object`."""
    return tuple(dict.fromkeys(word.text for word in types)) or (OBJECT,)
