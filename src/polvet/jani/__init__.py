"""JANI files read into models and written from them; no meaning is given to a model here, and nothing is run."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from polvet.model.signatures import is_jani
from polvet.model.world import World, WorldFile, WorldFormat

if TYPE_CHECKING:
    from polvet.jani.read import load_model, load_properties, parse_model
    from polvet.jani.write import dump_model

_HOMES = {"dump_model": "write", "load_model": "read", "load_properties": "read", "parse_model": "read"}

__all__ = ["JANI", "dump_model", "load_model", "load_properties", "parse_model"]


def __getattr__(name: str) -> Any:
    """Return a public name from its module, at first use: who reads does not load what writes."""
    if name in _HOMES:
        return getattr(import_module(f"polvet.jani.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'polvet.jani' has no attribute '{name}'")


def _read(file: WorldFile) -> World:
    from polvet.jani.read import load_model

    return World(load_model(file.path))


JANI = WorldFormat("jani", "JANI", "other JSON", _read, is_jani, suffixes=(".jani",))
