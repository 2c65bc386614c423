"""A file of an npm package, asked for and never kept; tests skip where it cannot be had."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest


def npm_file(cache: Path, package: str, member: str) -> str:
    """Return the text of the package's file, fetched from the npm registry into the tests' cache; skip where that fails."""
    file = cache / member
    if not file.exists():
        if shutil.which("npm") is None:
            pytest.skip(f"npm is needed to fetch {package}")
        fetched = subprocess.run(
            ["npm", "pack", "--silent", package], cwd=cache, capture_output=True, text=True, timeout=120, check=False
        )
        if fetched.returncode != 0:
            pytest.skip(f"{package} could not be fetched: {fetched.stderr.strip()[-200:]}")
        with tarfile.open(cache / fetched.stdout.strip().splitlines()[-1]) as archive:
            archive.extract(member, cache, filter="data")
    return file.read_text(encoding="utf-8")
