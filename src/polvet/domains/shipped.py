"""The tasks and trained policies that come with polvet, for the demo and first steps (`policies/README.md`)."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "policies"


def shipped_files() -> list[Path]:
    """Return the files: a model, its task and its policies for each instance."""
    return sorted(file for file in FOLDER.iterdir() if file.suffix in (".jani", ".toml", ".json", ".onnx"))
