"""What to send where the checker rejects a certificate of polvet's own: everything that is needed to see it happen again."""

from __future__ import annotations

import json
import platform
import sys
import tempfile
import zipfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from polvet import __version__
from polvet.errors import PolvetError
from polvet.files import read_bytes
from polvet.policy.identity import policy_files
from polvet.sources import read_parts
from polvet.worlds.formats import is_address

if TYPE_CHECKING:
    from polvet.confirm.confirmation import About


def write_bundle(certificate: str, reason: str, about: About, output: Path | None) -> Path | None:
    """Write a zip file beside the output, else in the working directory, else among temporary files; return its path.

    Nothing is overwritten. None: nowhere could it be written.
    """
    story = {
        "version": __version__,
        "python": sys.version,
        "platform": platform.platform(),
        "command": sys.argv,
        "reason": reason,
        "certify": about.command(None),
        "task": str(about.task),
        "task_sha256": about.task_sha256,
        "policy": None if about.policy is None else str(about.policy),
        "policy_sha256": about.policy_sha256,
        "options": {**about.options.to_json(), "avoid": list(about.options.avoid.names)},
    }
    parts = {
        "about.json": json.dumps(story, ensure_ascii=False, indent=1).encode(),
        "certificate.json": certificate.encode(),
    }
    parts |= {f"task/{path.name}": read_bytes(path) for path in _task_files(about)}
    parts |= {f"policy/{path.name}": read_bytes(path) for path in _policy_files(about)}
    for folder in (Path() if output is None else output.parent, Path(), Path(tempfile.gettempdir())):
        try:
            file = _new_file(folder)
        except OSError:
            continue
        path = Path(file.name)
        try:
            with file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
                for name, data in parts.items():
                    bundle.writestr(name, data)
            return path
        except OSError:
            path.unlink(missing_ok=True)
    return None


def _new_file(folder: Path) -> BinaryIO:
    folder.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        try:
            return (folder / f"polvet-bug-{number}.zip").open("xb")
        except FileExistsError:
            continue
    raise AssertionError("numbers do not end")


def _policy_files(about: About) -> tuple[Path, ...]:
    try:
        return () if about.policy is None else policy_files(about.policy)
    except PolvetError:  # the policy of a plan is text that only its own reader knows
        return () if about.policy is None else (about.policy,)


def _task_files(about: About) -> list[Path]:
    if is_address(about.task):
        return []
    if about.is_plan:
        return [about.task]
    parts = read_parts(about.task, about.options)
    named = (about.task, parts.model, parts.domain)
    return list(dict.fromkeys(path for path in named if path is not None and not is_address(path)))
