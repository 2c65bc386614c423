"""JANI files read into models and written from them; no meaning is given to a model here, and nothing is run."""

from polvet.jani.read import load_model, load_properties, parse_model
from polvet.jani.write import dump_model
from polvet.model.world import World, WorldFile, WorldFormat

__all__ = ["JANI", "dump_model", "load_model", "load_properties", "parse_model"]


def _read(file: WorldFile) -> World:
    return World(load_model(file.path))


JANI = WorldFormat("jani", "JANI", "JSON", _read, lambda file: file.opening.startswith(("{", "[")), suffixes=(".jani",))
