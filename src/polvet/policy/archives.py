"""Zip archives from strangers: members are read only within limits, and only by name."""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib

from polvet.errors import InputError, Where
from polvet.files import MAX_BYTES

AGAIN = "The file is damaged: save it again."

MAX_MEMBERS = 10_000
MAX_RATIO = 200


def open_archive(data: bytes, where: Where) -> zipfile.ZipFile:
    """Return the archive, or raise an InputError if it is damaged or would unpack to an absurd size."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, EOFError, OSError, NotImplementedError):
        raise InputError("the zip archive is damaged or truncated.", where, AGAIN) from None
    members = archive.infolist()
    total = sum(member.file_size for member in members)
    if len(members) > MAX_MEMBERS or total > MAX_BYTES or total > MAX_RATIO * max(len(data), 1024):
        raise InputError(
            f"the zip archive would unpack to {len(members)} files of {total} bytes.",
            where,
            f"At most {MAX_MEMBERS} files, {MAX_BYTES} bytes and {MAX_RATIO} times the archive's size are unpacked.",
        )
    return archive


def read_member(archive: zipfile.ZipFile, name: str, where: Where) -> bytes:
    """Return one member's bytes; the size in its header is not believed."""
    try:
        size = archive.getinfo(name).file_size
        with archive.open(name) as stream:
            data = stream.read(size + 1)
    except KeyError:
        raise InputError(f"the archive has no '{name}'.", where, AGAIN) from None
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, ValueError) as error:
        raise InputError(f"'{name}' in the archive is damaged ({error}).", where, AGAIN) from None
    if len(data) > size:
        raise InputError(f"'{name}' in the archive is larger than it says.", where, AGAIN)
    return data
