"""Where things live that people hold in memory: files of a folder that is gone when Python ends.

A model or a policy in memory is written there once and read back as any file is, so that what is verified is what would be
saved, and its digest is that of the file `save` writes.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from polvet.files import is_stream, read_bytes, write_whole

if TYPE_CHECKING:
    from polvet.policy.protocol import Policy

_numbers = count()


@cache
def _workplace() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="polvet-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def new_folder() -> Path:
    """Return a new empty folder."""
    folder = _workplace() / str(next(_numbers))
    folder.mkdir()
    return folder


def keep_policy(policy: Policy, name: str, output: str | Path | None) -> Path:
    """Write the policy where it shall go, and return a file that can be read again: one of that name here for none, and for a stream."""
    from polvet.policy.save import save_policy

    file = new_folder() / name if output is None or is_stream(output) else Path(output)
    save_policy(policy, file)
    if output is not None and file != Path(output):
        write_whole(output, read_bytes(file))
    return file


def keep_file(name: str, data: bytes) -> Path:
    """Write the bytes to a file of that name in a folder of its own and return its path."""
    path = new_folder() / name
    path.write_bytes(data)
    return path
