"""Benchmarks follow the library: each script imports what there is."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

SCRIPTS = sorted(Path(__file__).resolve().parent.parent.joinpath("benchmarks").glob("*.py"))


@pytest.mark.parametrize("script", [script.stem for script in SCRIPTS])
def test_every_script_imports(script):
    try:
        importlib.import_module(f"benchmarks.{script}")
    except ModuleNotFoundError as missing:
        if str(missing.name).split(".")[0] in ("polvet", "benchmarks", "tests"):
            raise
        pytest.skip(f"needs {missing.name}")
