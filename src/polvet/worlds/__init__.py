"""Worlds: their formats and the laws of these; those that are no files (Gymnasium environments, transition tables); judges nothing."""

from polvet.model.world import World, WorldFile, WorldFormat
from polvet.worlds.formats import FORMATS, format_of, read_world
from polvet.worlds.laws import check_world_format

__all__ = ["FORMATS", "World", "WorldFile", "WorldFormat", "check_world_format", "format_of", "read_world"]
