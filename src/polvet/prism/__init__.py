"""The PRISM language, programs and properties, read into the same `Model` as JANI; runs and checks nothing."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polvet.errors import Where
from polvet.files import read_text
from polvet.model.automata import Model
from polvet.model.signatures import is_prism
from polvet.model.wellformed import check_model
from polvet.model.world import World, WorldFile, WorldFormat
from polvet.prism.lexer import MAX_CHARACTERS
from polvet.prism.parse import parse_program
from polvet.prism.syntax import Program
from polvet.prism.translate import Vocabulary, translate, vocabulary_of_model, vocabulary_of_program

if TYPE_CHECKING:
    from polvet.prism.properties import PropertyFile, load_properties, parse_property, read_properties, with_properties

_PROPERTIES = ("PropertyFile", "load_properties", "parse_property", "read_properties", "with_properties")

__all__ = [
    "PRISM",
    "Program",
    "PropertyFile",
    "Vocabulary",
    "load_prism",
    "load_properties",
    "parse_program",
    "parse_property",
    "read_prism",
    "read_program",
    "read_properties",
    "translate",
    "vocabulary_of_file",
    "vocabulary_of_model",
    "vocabulary_of_program",
    "with_properties",
]


def __getattr__(name: str) -> Any:
    """Return a name of `polvet.prism.properties`, at first use: who reads a program does not load what reads properties."""
    if name in _PROPERTIES:
        return getattr(import_module("polvet.prism.properties"), name)
    raise AttributeError(f"module 'polvet.prism' has no attribute '{name}'")


def read_program(path: str | Path) -> Program:
    """Return the program in the file, as it is written."""
    return parse_program(_text(path), Where(str(path)))


def read_prism(path: str | Path) -> Model:
    """Return the model of the PRISM program in the file."""
    return load_prism(_text(path), Where(str(path)), Path(path).stem)


def vocabulary_of_file(path: str | Path, model: Model) -> Vocabulary:
    """Return the words for properties of the model in the file: of a PRISM program with its formulas and labels."""
    text = _text(path)
    if text.lstrip().startswith(("{", "[")):
        return vocabulary_of_model(model)
    return vocabulary_of_program(parse_program(text, Where(str(path))))


def load_prism(text: str, where: Where = Where("program"), name: str = "prism") -> Model:
    """Return the model of the PRISM program that the text is.

    >>> load_prism("dtmc module m x : [0..1]; [go] x=0 -> 0.5:(x'=1) + 0.5:true; endmodule").actions
    ('go',)
    """
    model = translate(parse_program(text, where), name)
    check_model(model)
    return model


def _text(path: str | Path) -> str:
    return read_text(path, max_bytes=4 * MAX_CHARACTERS)


def _read(file: WorldFile) -> World:
    return World(load_prism(file.text, file.where, file.stem))


def _words(file: WorldFile) -> Vocabulary:
    return vocabulary_of_program(parse_program(file.text, file.where))


PRISM = WorldFormat(
    "prism",
    "PRISM",
    "one of PRISM's words first: `mdp`, `dtmc`, `const`, `module`, ...",
    _read,
    is_prism,
    suffixes=(".prism", ".pm", ".nm"),
    words=_words,
)
