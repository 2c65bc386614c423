"""Where a campaign keeps its policies: one file each, or a folder each where a policy is made of several files."""

from __future__ import annotations

from pathlib import Path

from polvet.files import read_bytes, write_whole
from polvet.policy.identity import policy_files


def policy_stem(iteration: int) -> str:
    """Return what the names of an iteration's policy begin with."""
    return f"policies/{iteration}"


def place_of(policy: Path, stem: str) -> str:
    """Return the name in the campaign's folder for a policy like this one.

    Files that name each other keep their names, so that several stand in a folder of their own: nothing of the campaign
    can have the same name there.
    """
    return f"{stem}/{policy.name}" if len(policy_files(policy)) > 1 else f"{stem}{policy.suffix}"


def copy_policy(policy: Path, folder: Path, name: str) -> dict[str, str]:
    """Copy every file of the policy to the place of that name and return them by role."""
    first, *others = policy_files(policy)
    for file in others:
        write_whole((folder / name).parent / file.relative_to(policy.parent), read_bytes(file))
    write_whole(folder / name, read_bytes(first))
    return files_of(folder, name)


def files_of(folder: Path, name: str) -> dict[str, str]:
    """Return the files {role: name in the folder} of the policy there; `policy` is the one that is loaded."""
    _, *others = policy_files(folder / name)
    names = [file.relative_to(folder).as_posix() for file in others]
    return {"policy": name, **{f"policy: {other}": other for other in names}}
