"""Named choices: methods and algorithms are data, and help, errors and documents name them from one list.

A `Registry` knows each name with the place of its value, `module:value`, which is imported when it is asked for: a help page lists
names and imports no engine. Other packages bring values of their own by entry points of the registry's `group`; each kind has its laws,
and a `BrokenLaw` is what those find who try them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar

from polvet.errors import InputError, Where, did_you_mean

AUTO = "auto"
"""The choice that leaves it to polvet."""


class Named(Protocol):
    """What can be chosen: it knows its name, and says in one line what it does."""

    @property
    def name(self) -> str:
        """The word that users write."""

    @property
    def help(self) -> str:
        """One line, as the documents show it."""


Value = TypeVar("Value", bound=Named)


def listed(names: Iterable[str], last: str = "or") -> str:
    """Return the names as people list them.

    >>> listed(["auto", "explicit", "bmc"]), listed(["auto"])
    ('auto, explicit or bmc', 'auto')
    """
    *first, end = names
    return f"{', '.join(first)} {last} {end}" if first else end


def explained(meanings: Mapping[str, str]) -> str:
    """Return the words of an option, each with what it means.

    >>> explained({"safe": "take a safe action", "avoid": "not the faulty one"})
    'safe: take a safe action; avoid: not the faulty one.'
    """
    return "; ".join(f"{word}: {meaning}" for word, meaning in meanings.items()) + "."


def one_of(given: str, known: Iterable[str], option: str) -> str:
    """Return the given word if it is known, or raise an InputError that names the option and all the words it takes.

    >>> one_of("tre", ("auto", "tree"), "--method")
    Traceback (most recent call last):
    polvet.errors.InputError: --method: 'tre' is unknown. Did you mean 'tree'? Use auto or tree.
    """
    words = tuple(known)
    if given in words:
        return given
    near = did_you_mean(str(given), words)
    hint = f"{near} " if near else ""
    raise InputError(f"'{given}' is unknown.", Where(option), f"{hint}Use {listed(words)}.")


@dataclass(frozen=True, slots=True)
class Registry(Generic[Value]):
    """Values by name, in the order in which people are told of them; `auto` is a word for none in particular."""

    option: str
    places: Mapping[str, str]
    kind: str = ""  # the class of values that other packages bring, `module:class`
    group: str = ""  # of their entry points; none: nobody else brings any

    @property
    def words(self) -> tuple[str, ...]:
        """Return what the option takes, apart from what other packages bring."""
        return (AUTO, *self.places)

    def __iter__(self) -> Iterator[str]:
        yield from self.places

    def __getitem__(self, name: str) -> Value:
        """Return the value of a known name; it is imported now."""
        if name in self.places:
            value: Value = imported(self.places[name])
            return value
        return self.brought()[name]

    def values(self) -> tuple[Value, ...]:
        """Return all values of polvet's own."""
        return tuple(self[name] for name in self)

    def chosen(self, name: str, option: str | None = None) -> str:
        """Return the name, or raise an InputError with all that can be chosen, `auto` included."""
        if name in self.words:
            return name
        return one_of(name, (*self.words, *self.brought()), option or self.option)

    def brought(self) -> dict[str, Value]:
        """Return what installed packages bring; one that cannot be used is an InputError that names its place."""
        if not self.group:
            return {}
        from importlib.metadata import entry_points

        values: dict[str, Value] = {}
        for entry in entry_points(group=self.group):
            where = Where(f"entry point {entry.name} = {entry.value}")
            try:
                value = entry.load()
            except (ImportError, AttributeError) as error:
                what = f"it cannot be loaded: {error}."
                raise InputError(what, where, "Repair or remove the package that brings it.") from error
            if not isinstance(value, imported(self.kind)) or value.name != entry.name:
                raise InputError(f"it is no {self.kind} of that name.", where, "Make one, with the entry point's name.")
            if entry.name in self.words or entry.name in values:
                raise InputError("the name is taken.", where, "Give the value and its entry point another name.")
            values[entry.name] = value
        return values


@dataclass(frozen=True, slots=True)
class BrokenLaw:
    """A law that what is tried breaks (a policy, a format, a method); of a policy with the first row that shows it."""

    law: str
    row: tuple[float, ...] | None = None

    def __str__(self) -> str:
        return self.law + ("" if self.row is None else f" (row {list(self.row)})")


def imported(place: str) -> Any:
    """Return the value at the place `module:value`."""
    module, value = place.split(":")
    return getattr(import_module(module), value)
