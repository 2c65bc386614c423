"""Worlds: their formats and the laws of these; those that are no files (Gymnasium environments, transition tables); judges nothing."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from polvet.model.world import World, WorldFile, WorldFormat
from polvet.worlds.formats import FORMATS, format_of, read_world

if TYPE_CHECKING:
    from polvet.worlds.laws import check_world_format

__all__ = ["FORMATS", "World", "WorldFile", "WorldFormat", "check_world_format", "format_of", "read_world"]


def __getattr__(name: str) -> Any:
    """Return `check_world_format`, at first use: who reads a world does not load the laws of its format."""
    if name == "check_world_format":
        return getattr(import_module("polvet.worlds.laws"), name)
    raise AttributeError(f"module 'polvet.worlds' has no attribute '{name}'")
