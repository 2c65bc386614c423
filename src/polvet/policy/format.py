"""A policy format as data: its name, how a file of it is told from others, read and written, and the words of the documents.

A file is told by its content, never by its name, and nothing in it is ever executed. Each format ends the file that reads it;
`policy/formats.py` lists them. What all of them look at is a `Content`: the bytes, and what is made of them once, when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from polvet.errors import InputError, Where
from polvet.files import parse_json, read_bytes
from polvet.policy.archives import open_archive
from polvet.policy.conditions import ConditionParser, model_condition
from polvet.policy.decimals import nearest_float32
from polvet.policy.protocol import Policy

HEAD = 4096
"""How many bytes tell a format that has a signature."""
REMEMBERED = 1 << 20
"""Up to so many bytes, what was made of a file's content is kept: a command reads its policy many times."""
UBJSON = (b"{L", b"{l", b"{i", b"{U", b"{I")


class Content:
    """The bytes of a policy's file, and what readers make of them."""

    def __init__(self, path: str | Path, data: bytes) -> None:
        self.path, self.data, self.where = Path(path), data, Where(str(path))

    @classmethod
    def of(cls, path: str | Path) -> Content:
        """Return the content of the file; what was made of the same bytes before is not made again, if they are few."""
        data = read_bytes(path)
        return _remembered(str(path), data) if len(data) <= REMEMBERED else cls(path, data)

    @cached_property
    def opening(self) -> bytes:
        """The first bytes, without a byte order mark and blanks."""
        return self.data[:HEAD].removeprefix(b"\xef\xbb\xbf").lstrip()

    @cached_property
    def members(self) -> frozenset[str]:
        """The names in a zip archive; none where it is no archive."""
        if not self.data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            return frozenset()
        return frozenset(open_archive(self.data, self.where).namelist())

    @property
    def is_json(self) -> bool:
        """Whether it begins as a JSON object does."""
        return self.opening.startswith(b"{") and not self.data.startswith(UBJSON)

    @cached_property
    def text(self) -> str:
        """The content as UTF-8 text, or an InputError."""
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"is not UTF-8 text (byte {error.start}).", self.where, "The file is damaged.") from None

    @cached_property
    def document(self) -> Mapping[str, Any]:
        """The JSON object, numbers as Python reads them; nothing in it where the content is no JSON object."""
        # XGBoost writes NaN where a leaf has no threshold; numbers that matter are checked by each reader, with their names.
        return self._parsed(float) if self.is_json else {}

    def rounded_document(self) -> Any:
        """Return the JSON object with every decimal as the float32 nearest to it."""
        return self._parsed(nearest_float32)

    def _parsed(self, number: Callable[[str], float]) -> Any:
        return parse_json(self.text, self.where, parse_constant=float, parse_float=number)


@lru_cache(maxsize=4)
def _remembered(path: str, data: bytes) -> Content:
    return Content(path, data)


@dataclass(frozen=True, slots=True)
class Names:
    """What the caller says of a policy: the names of its columns, where the file's own shall not hold.

    `output` names the value that holds the scores where a file has several, `parse_condition` reads the conditions of rules, and
    `booleans` are the inputs that these see as truth values.
    """

    inputs: Sequence[str] | None = None
    outputs: Sequence[str] | None = None
    output: str | None = None
    parse_condition: ConditionParser = field(default=model_condition)
    booleans: Sequence[str] = ()

    @property
    def both(self) -> tuple[Sequence[str] | None, Sequence[str] | None]:
        """The names of inputs and outputs."""
        return self.inputs, self.outputs


def _never(policy: Policy, path: str) -> bool:
    return False


def _unwritten(policy: Policy, path: str) -> None:
    raise InputError("policies are not written in this format.", Where(path), "Save the policy as .onnx or .json.")


def _alone(content: Content) -> Sequence[str]:
    return ()


def _nothing(content: Content) -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class PolicyFormat:
    """A format of policies' files; `check_policy_format` states the laws it obeys.

    `writes(policy, path)` says whether such a policy is written to a file of that name in this format. `beside` names the other files
    that reading opens, all in the same folder: SOUND, the policy's digest covers exactly these. `facts` are for `polvet info`.
    """

    name: str
    help: str  # what people call it
    told_by: str
    columns: str  # where the names of inputs and outputs come from
    detects: Callable[[Content], bool]
    read: Callable[[Content, Names], Policy]
    writes: Callable[[Policy, str], bool] = _never
    write: Callable[[Policy, str], None] = _unwritten
    saved: str = "no"
    extra: str = ""  # of polvet, without which it is not read
    beside: Callable[[Content], Sequence[str]] = _alone
    facts: Callable[[Content], dict[str, str]] = _nothing

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """Its row in the documents, behind its name."""
        return self.help, self.told_by, self.columns, self.saved, f"`{self.extra}`" if self.extra else ""
