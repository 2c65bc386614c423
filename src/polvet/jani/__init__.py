"""JANI files read into models and written from them; no meaning is given to a model here, and nothing is run."""

from polvet.jani.read import load_model, load_properties, parse_model
from polvet.jani.write import dump_model
from polvet.model.tables import TABLE_FILE
from polvet.model.world import World, WorldFile, WorldFormat

__all__ = ["JANI", "dump_model", "load_model", "load_properties", "parse_model"]


def _read(file: WorldFile) -> World:
    return World(load_model(file.path))


def _detects(file: WorldFile) -> bool:
    return file.opening.startswith(("{", "[")) and TABLE_FILE.match(file.opening) is None


JANI = WorldFormat("jani", "JANI", "other JSON", _read, _detects, suffixes=(".jani",))
