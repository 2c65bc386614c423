"""Reading whole files within a size limit, and writing whole files or nothing; knows no format."""

from __future__ import annotations

import ast
import errno
import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import accumulate
from math import isfinite
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, TypeAlias

from polvet.errors import InputError, Where, did_you_mean
from polvet.numbers import MAX_DIGITS

MAX_BYTES = 256 * 1024 * 1024
MAX_DEPTH = 400

Json: TypeAlias = dict[str, Any]
"""A JSON object on its way into or out of a file: who reads it looks at each entry, and what it then becomes has a class."""
Figures: TypeAlias = dict[str, Any]
"""What was counted and measured, by name, as answers and reports write it."""


def read_bytes(path: str | Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of the file, or raise an InputError that says why it cannot be had."""
    file = Path(path)
    try:
        if not file.is_file():
            what = "is a folder, not a file." if file.is_dir() else "no such file."
            raise InputError(what, Where(str(path)), "Check the path.")
        size = file.stat().st_size
        if size > max_bytes:
            what = f"the file has {size} bytes; at most {max_bytes} are read."
            raise InputError(what, Where(str(path)), "Split it, or make the model smaller.")
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror}).", Where(str(path)), "Check the file's rights.") from None


def read_text(path: str | Path, *, max_bytes: int = MAX_BYTES) -> str:
    """Return the file as text; a UTF-8 byte order mark is dropped."""
    data = read_bytes(path, max_bytes=max_bytes)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"is not UTF-8 text (byte {error.start}).", Where(str(path)), "Save the file as UTF-8."
        ) from None


def is_stream(path: str | Path) -> bool:
    """Return whether what the path leads to is written through: a device, a pipe, or where this process prints."""
    try:
        status = os.stat(path)
    except OSError:  # whoever writes there says why not
        return False
    return not (S_ISREG(status.st_mode) or S_ISDIR(status.st_mode)) or _descriptor(status) is not None


def _descriptor(status: os.stat_result) -> int | None:
    """Return which of stdout and stderr that file is."""
    for number in (1, 2):
        with suppress(OSError):  # it is closed
            if os.path.samestat(status, os.fstat(number)):
                return number
    return None


def _write_through(path: str | Path, data: bytes) -> None:
    number = _descriptor(os.stat(path))
    if number == 1 and sys.stdout is not None:
        sys.stdout.flush()
    try:
        with open(path if number is None else os.dup(number), "wb") as stream:
            stream.write(data)
    except BrokenPipeError:  # nobody reads: the end of the command, as for stdout
        raise
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror}).", Where(str(path)), "Choose another path.") from None


def write_whole(path: str | Path, data: str | bytes) -> None:
    """Write the file completely or not at all: a temporary file beside it is renamed at the end.

    Links are followed. What is no regular file is written through.
    """
    data = data.encode() if isinstance(data, str) else data
    if is_stream(path):
        return _write_through(path, data)
    file = Path(os.path.realpath(path))
    try:
        if file.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror}).", Where(str(path)), "Choose another folder.") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, file)
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror}).", Where(str(path)), "Choose another path.") from None
    finally:
        Path(temporary).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def sha256(path: str | Path) -> str:
    """Return the SHA-256 of the file's bytes, in hexadecimal."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def beside(path: str | Path, name: str, where: Where) -> Path:
    """Return the file that another one names, relative to its own folder; nothing outside that folder is ever read."""
    folder = Path(path).parent
    inside = bool(name) and "\0" not in name and not Path(name).is_absolute() and ".." not in Path(name).parts
    if inside and named_function(name) is not None:
        raise InputError(f"names the Python function {name!r} where a file belongs.", where, "No file can name code.")
    if not inside or not (folder / name).resolve().is_relative_to(folder.resolve()):
        what = f"names the file {name!r}, which is not in its own folder."
        raise InputError(what, where, "Nothing outside that folder is read: put the file beside it.")
    return folder / name


def named_function(path: str | Path) -> tuple[Path, str] | None:
    """Return the file and the function's name of `file.py:function`; None where it is no such name.

    >>> named_function("pilots/greedy.py:choose")[1], named_function("policy.onnx")
    ('choose', None)
    """
    file, colon, name = str(path).rpartition(":")
    return (Path(file), name) if colon and file.endswith(".py") and name.isidentifier() else None


def python_files(path: str | Path) -> tuple[Path, ...]:
    """Return the Python file, then those of its folder that its `import` statements name, directly or through each other.

    What is imported by computed names, or read as data, is not seen.
    """
    first = Path(path)
    modules, pending = {first: None}, [first]
    while pending:
        file = pending.pop()
        for name in sorted(_imported_names(file, first.parent)):
            place = first.parent.joinpath(*name.split("."))
            for one in (place.with_suffix(".py"), place / "__init__.py"):
                if one not in modules and one.is_file():
                    modules[one] = None
                    pending.append(one)
    return (first, *sorted(modules.keys() - {first}))


def _imported_names(file: Path, folder: Path) -> set[str]:
    """Return the modules that the file may import, with their packages, by names as seen from the folder."""
    try:
        tree = ast.parse(read_bytes(file))
    except (SyntaxError, ValueError, RecursionError):  # whoever executes it says so
        return set()
    imports: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = file.relative_to(folder).parts[: -node.level] if node.level else ()
            module = ".".join((*above, *([node.module] if node.module else ())))
            imports |= {module, *(f"{module}.{alias.name}" if module else alias.name for alias in node.names)} - {""}
    return {".".join(parts[: k + 1]) for name in imports for parts in [name.split(".")] for k in range(len(parts))}


def depth_of(text: str) -> int:
    """Return how deeply the brackets of a JSON text nest, ignoring those in strings.

    >>> depth_of('{"a": [1, "[[["]}')
    2
    """
    brackets = re.sub(r"[^\[\]{}]+", "", re.sub(r'"(?:[^"\\]|\\.)*"', "", text))
    return max(accumulate(1 if bracket in "[{" else -1 for bracket in brackets), default=0)


def parse_json(text: str, where: Where, **options: Any) -> Any:
    """Return the JSON document, or raise an InputError with the place; NaN, Infinity and double keys are refused."""

    def refuse(constant: str) -> Any:
        raise InputError(f"{constant} is not a JSON number.", where, "Write a finite number.")

    def unique(pairs: list[tuple[str, Any]]) -> Json:
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            keys = [key for key, _ in pairs]
            double = next(key for key in keys if keys.count(key) > 1)
            raise InputError(f"the key '{double}' stands twice in one object.", where, "Remove one of them.")
        return mapping

    def integer(digits: str) -> int:
        if len(digits) > MAX_DIGITS:
            what = f"the integer {digits[:20]}... has {len(digits)} digits; at most {MAX_DIGITS} are read."
            raise InputError(what, where, "Write a number nearer to 1.")
        return int(digits)

    def real(digits: str) -> float:
        value = float(digits)
        if not isfinite(value):
            raise InputError(f"the number {digits[:24]} is beyond the range of doubles.", where, "Write a smaller one.")
        return value

    # SOUND: the parser is recursive, so a hostile document is refused before it can reach the end of the stack.
    if text.count("[") + text.count("{") > MAX_DEPTH and (depth := depth_of(text)) > MAX_DEPTH:
        raise InputError(
            f"the document nests {depth} deep; at most {MAX_DEPTH} is read.",
            where,
            "Split deep expressions into halves.",
        )
    try:
        return json.loads(
            text,
            **{
                "parse_constant": refuse,
                "object_pairs_hook": unique,
                "parse_int": integer,
                "parse_float": real,
                **options,
            },
        )
    except json.JSONDecodeError as error:
        place = Where(where.file, where.path, error.lineno, error.colno)
        raise InputError(f"is not JSON: {error.msg}.", place, "Check the brackets and commas there.") from None


def refuse_unknown_keys(entry: Mapping[str, Any], known: Collection[str], where: Where) -> None:
    """Raise an InputError that names the first key which is not known, and the one that was perhaps meant."""
    for key in entry:
        if key not in known:
            hint = did_you_mean(key, known) or f"Known keys: {', '.join(sorted(known))}."
            raise InputError(f"no key '{key}' belongs here.", where.at(key), hint)


def read_json(path: str | Path, *, max_bytes: int = MAX_BYTES, **options: Any) -> Any:
    """Return the JSON document in the file; options go to `json.loads`."""
    return parse_json(read_text(path, max_bytes=max_bytes), Where(str(path)), **options)
