"""The formats of worlds by name, in the order in which they are asked and people are told of them: each ends the file it names.

A package brings one of its own by an entry point of the group `polvet.world_formats`: `name = "module:VALUE"`. It is asked about files
that no format of polvet knows, and about addresses `name:...`; `check_world_format` states the laws.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path

from polvet.choices import Registry, listed
from polvet.errors import InputError, Where
from polvet.model.automata import Model
from polvet.model.signatures import is_jani, is_pddl, is_prism, is_table
from polvet.model.world import AS_WRITTEN, Reading, World, WorldFile, WorldFormat

FORMATS: Registry[WorldFormat] = Registry(
    "world",
    {
        "jani": "polvet.jani:JANI",
        "prism": "polvet.prism:PRISM",
        "pddl": "polvet.pddl:PDDL",
        "table": "polvet.worlds.table_file:TABLE",
        "gym": "polvet.worlds.gym:GYM",
    },
    kind="polvet.model.world:WorldFormat",
    group="polvet.world_formats",
)
ADDRESS = re.compile(r"([\w-]{2,}):")
"""How an address begins; one letter would be a drive."""


def readable() -> str:
    """Return what is read, as errors say it."""
    return f"It reads {listed([one.help for one in _all()])}."


SIGNATURES = {"jani": is_jani, "prism": is_prism, "pddl": is_pddl, "table": is_table}
"""How files of polvet's own formats are told, without their readers."""


def format_of(file: WorldFile) -> WorldFormat:
    """Return the format of the world: told by an address, by the content, else by the name's ending: its reader says what is wrong."""
    if (addressed := find_address(file.path)) is not None:
        return addressed
    for name, is_told in SIGNATURES.items():
        if is_told(file):
            return FORMATS[name]
    for one in _all(SIGNATURES):
        if one.detects(file):
            return one
    for one in _all():
        if file.path.suffix.lower() in one.suffixes:
            return one
    raise InputError("is no world that polvet knows.", file.where, readable())


def find_address(path: str | Path) -> WorldFormat | None:
    """Return the format whose address this is, such as `gym:ID?key=value`; None where it is a file's path."""
    named = ADDRESS.match(str(path))
    if named is None:
        return None
    addressed = FORMATS[named[1]] if named[1] in FORMATS else FORMATS.brought().get(named[1])
    return addressed if addressed is not None and addressed.is_address else None


def is_address(path: str | Path) -> bool:
    """Return whether a world is named that is no file."""
    return find_address(path) is not None


def is_named_like_a_world(path: Path) -> bool:
    """Return whether the file's name ends as those of a format of polvet's do."""
    return any(path.suffix.lower() in FORMATS[name].suffixes for name in FORMATS)


def domain_of(path: str | Path, given: Path | None) -> Path | None:
    """Return the second file that such a world needs: the given one, or that beside it; None where it needs none."""
    file = WorldFile(path)
    beside = format_of(file).domain
    if beside is not None:
        return given or beside(file.path)
    if given is not None:
        what = "a domain is given, but the model is no PDDL problem."
        raise InputError(what, Where(str(path)), "Leave the domain out, or give a problem.")
    return None


def read_world(path: str | Path, domain: Path | None = None, reading: Reading = AS_WRITTEN) -> World:
    """Return the world in the file, or at the address; the domain of a PDDL problem is by default in `domain.pddl` beside it."""
    if is_address(path):
        return _at_address(str(path))
    return format_of(WorldFile(path)).read(WorldFile(path, domain_of(path, domain), reading))


def load_model(path: str | Path, domain: Path | None = None) -> Model:
    """Return the model in the file, or at an address such as `gym:ID?key=value`."""
    return read_world(path, domain).model


@lru_cache(maxsize=4)
def _at_address(address: str) -> World:
    """Return the world at the address; it is read once for its digest and its model."""
    file = WorldFile(address)
    return format_of(file).read(file)


def look_again() -> None:
    """Forget what stood at addresses: whoever asks anew means what is there now, such as an environment that was registered again."""
    _at_address.cache_clear()


def _all(but: Collection[str] = ()) -> Iterator[WorldFormat]:
    """Yield polvet's own formats but some, each imported when it is asked, and then those that packages bring."""
    yield from (FORMATS[name] for name in FORMATS if name not in but)
    yield from FORMATS.brought().values()
