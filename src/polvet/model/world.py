"""A world as people name it (a file, or an address such as `gym:FrozenLake-v1`), and the format that reads it, as data.

A format tells its files by their content; each ends the file that reads it, and `polvet/worlds/formats.py` lists them. What comes out
is a `World`: the model, and what its language brings besides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from polvet.errors import Where
from polvet.files import read_bytes, read_text
from polvet.model.automata import Model
from polvet.model.expressions import Expression
from polvet.model.infix import parse_expression

OBSERVATION, MASKED = "observation", "masked"
"""Lines of a model's metadata: the variables that an environment shows (none: something else), and how many choices it masks."""
OPENING = 65536
"""How many bytes tell a language."""
Reader = Callable[[str, Where], Expression]
"""How a text over a world's states is read."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a task reads a PDDL problem: between which bounds its numbers are to stay, and whether policies choose schemas."""

    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    schemas: bool = False


AS_WRITTEN = Reading()


class WorldFile:
    """A world's file, and what readers make of it; of an address only its text is there."""

    def __init__(self, path: str | Path, domain: Path | None = None, reading: Reading = AS_WRITTEN) -> None:
        self.path, self.domain, self.reading, self.where = Path(path), domain, reading, Where(str(path))

    @property
    def address(self) -> str:
        """What it is called, as the user wrote it."""
        return str(self.path)

    @property
    def stem(self) -> str:
        """The file's name without its ending, a name for the model."""
        return self.path.stem

    @cached_property
    def opening(self) -> str:
        """The beginning of the text, without a byte order mark and blanks."""
        return read_bytes(self.path)[:OPENING].decode("utf-8-sig", errors="replace").lstrip()

    @cached_property
    def text(self) -> str:
        """The whole text, or an InputError."""
        return read_text(self.path)


@dataclass(frozen=True, slots=True)
class World:
    """A model, and what its language brings: conditions as texts by role, what policies read, and how texts over its states are read."""

    model: Model
    conditions: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[str, ...] | None = None
    condition: Reader = parse_expression
    number: Reader = parse_expression
    max_steps: int | None = None  # after which an environment ends its episodes
    shown: Mapping[int, Any] = field(default_factory=dict)  # what an agent observes there, by the number of the state


def _never(file: WorldFile) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class WorldFormat:
    """A format of worlds; `check_world_format` states the laws it obeys.

    SOUND: reading opens the file and, where there is one, its domain, and nothing else: the task's digest covers exactly these. Of an
    address the digest covers the model, as it is saved. `words` are what properties may say of the world (None: what any model's may).
    """

    name: str
    help: str  # what people call it
    told_by: str
    read: Callable[[WorldFile], World]
    detects: Callable[[WorldFile], bool] = _never
    suffixes: tuple[str, ...] = ()  # how people end the names of its files
    domain: Callable[[Path], Path] | None = None  # where a second file is needed: finds it beside the first
    words: Callable[[WorldFile], Any] | None = None
    is_address: bool = False  # `name:...` is such a world, and no file

    @property
    def cells(self) -> tuple[str, str, str]:
        """Its row in the documents, behind its name."""
        return self.help, self.told_by, ", ".join(f"`{one}`" for one in self.suffixes)
