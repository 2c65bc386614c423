"""JANI files read into models and written from them; no meaning is given to a model here, and nothing is run."""

from polvet.jani.read import load_model, load_properties, parse_model
from polvet.jani.write import dump_model

__all__ = ["dump_model", "load_model", "load_properties", "parse_model"]
