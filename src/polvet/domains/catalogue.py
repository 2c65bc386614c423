"""Which worlds there are, with their parameters; from a name and texts such as `n=6` to a generated instance."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib import import_module
from typing import Any

from polvet.domains.instance import Instance
from polvet.errors import InputError, Where, did_you_mean
from polvet.files import Json


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a generator: an `int`, a `number`, a `flag` or a `text`, with what it may be."""

    name: str
    kind: str
    default: int | Fraction | bool | str
    meaning: str
    least: int | Fraction | None = None
    most: int | Fraction | None = None

    def read(self, given: str | int | float | Fraction | bool, where: Where) -> Any:
        """Return the value in Python's form; anything that does not fit is an InputError."""
        text = str(given).strip()
        if self.kind == "text":
            return text
        if self.kind == "flag":
            if text.lower() not in ("true", "false", "1", "0"):
                raise InputError(
                    f"'{self.name}' is {given}, which is neither true nor false.", where, "Write true or false."
                )
            return text.lower() in ("true", "1")
        try:
            number = Fraction(text)
        except (ValueError, ZeroDivisionError):
            raise InputError(f"'{self.name}' is '{given}', which is no number.", where, "Write a number.") from None
        if self.kind == "int" and number.denominator != 1:
            raise InputError(f"'{self.name}' is {given}, which is no integer.", where, "Write an integer.")
        low, high = self.least is not None and number < self.least, self.most is not None and number > self.most
        if low or high:
            limit = f"at least {self.least}" if low else f"at most {self.most}"
            raise InputError(f"'{self.name}' is {given}.", where, f"It must be {limit}.")
        return int(number) if self.kind == "int" else number

    def describe(self) -> Json:
        """Return the parameter as JSON data."""
        default = str(self.default) if isinstance(self.default, Fraction) else self.default
        limits = {
            key: str(value) if isinstance(value, Fraction) else value
            for key, value in (("least", self.least), ("most", self.most))
            if value is not None
        }
        return {"name": self.name, "kind": self.kind, "default": default, "meaning": self.meaning, **limits}


@dataclass(frozen=True, slots=True)
class Entry:
    """A world of the catalogue: where its generator lives, and its parameters in the papers' order."""

    name: str
    module: str
    paper: str
    summary: str
    parameters: tuple[Parameter, ...]

    @property
    def generator(self) -> Callable[..., Instance]:
        """Return the generator: a function of the parameters by keyword."""
        generator: Callable[..., Instance] = getattr(
            import_module(f"polvet.domains.{self.module}"), self.name.replace("-", "_")
        )
        return generator

    def describe(self) -> Json:
        """Return the entry as JSON data."""
        return {
            "name": self.name,
            "summary": self.summary,
            "paper": self.paper,
            "parameters": [parameter.describe() for parameter in self.parameters],
        }

    def explain(self) -> str:
        """Return what the generator says about itself: the source, and what was decided where the source is silent."""
        return inspect.getdoc(self.generator) or self.summary


ORIGIN = "polvet-domain"
"""The key of a model's metadata under which its world and parameters stand."""
ABSTRACTION = "policy predicate abstraction"
DEBUGGING = "safety debugging"
DECIDING = "deciding state safety"
CONSTRAINED = "safety-constrained reinforcement learning"

TAU = "seconds of one time step"
LINE = (
    Parameter("n", "int", 15, "packages (the first number of the papers' pairs)", 1, 1000),
    Parameter("p", "int", 10, "places on the line (the second number)", 3, 1000),
    Parameter("icy", "flag", False, "some places are icy, and packages may fall off"),
    Parameter("park", "flag", False, "the truck can park at the end"),
    Parameter("ice", "text", "", "the icy places, such as 4,5; absent: the two in the middle"),
)
RACETRACK = (
    Parameter("map", "text", "corner", "a shipped map, or the path of an ASCII map"),
    Parameter("speed", "int", 3, "the greatest speed in each direction", 1, 20),
    Parameter("slip", "number", Fraction(0), "how likely an acceleration has no effect", 0, 1),
    Parameter("anywhere", "flag", False, "start in any free place at any speed"),
)
BLOCKSWORLD = (
    Parameter("n", "int", 6, "blocks", 2, 60),
    Parameter("cost", "int", 12, "the greatest cost of moving one block; 0: no costs", 0, 1000),
    Parameter("failing", "number", Fraction(1, 2), "how likely a move fails", 0, 1),
)
SLIDING_TILES = (
    Parameter("n", "int", 8, "tiles: 3, 5, 8, 11 or 15, ...", 3, 63),
    Parameter("cost", "int", 12, "the greatest cost of moving one tile; 0: no costs", 0, 1000),
    Parameter("failing", "number", Fraction(1, 2), "how likely a move fails", 0, 1),
    Parameter("wrap", "flag", False, "tiles also slide from the end of a row to the next"),
)
TRANSPORT = (
    Parameter("locations", "int", 10, "places on the road", 2, 1000),
    Parameter("packages", "int", 15, "packages", 1, 1000),
    Parameter("empty_backward", "flag", False, "driving backward with a load is unsafe as well"),
)
BELUGA = (Parameter("jigs", "int", 4, "parts", 2, 12), Parameter("racks", "int", 2, "racks", 1, 4))
BALL = (Parameter("tau", "number", Fraction(1, 100), TAU, Fraction(1, 1000), 1),)
PENDULUM = (Parameter("tau", "number", Fraction(1, 10), TAU, Fraction(1, 1000), 1),)
CAR = (Parameter("tau", "number", Fraction(2, 5), TAU, Fraction(1, 1000), 2),)
FLAPPY_BIRD = (
    Parameter("width", "int", 50, "columns", 2, 100_000),
    Parameter("height", "int", 20, "rows", 3, 10_000),
    Parameter("walls", "int", 5, "walls with a gap", 0, 10_000),
    Parameter("seed", "int", 1, "where walls and gaps are", 0, 2**31),
)
LAYERS = (Parameter("d", "int", 8, "layers", 1, 1_000_000),)
JANITOR = (Parameter("width", "int", 5, "columns", 2, 100), Parameter("height", "int", 5, "rows", 2, 100))
FOLLINE = (
    Parameter("length", "int", 30, "positions along the line", 4, 10_000),
    Parameter("width", "int", 15, "deviations seen as different", 3, 201),
    Parameter("stray", "int", 0, "per cent more straying to each side", 0, 20),
)
COMEXP = (
    Parameter("width", "int", 6, "columns", 2, 100),
    Parameter("height", "int", 6, "rows", 2, 100),
    Parameter("distance", "int", 6, "how far the radio reaches", 1, 100),
)

CATALOGUE: Mapping[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("racetrack", "racetrack", ABSTRACTION, "drive a car over a map without hitting a wall", RACETRACK),
        Entry("blocksworld", "blocksworld", ABSTRACTION, "build a tower with little space on the table", BLOCKSWORLD),
        Entry(
            "sliding-tiles", "sliding_tiles", ABSTRACTION, "sort tiles, one of them kept off one place", SLIDING_TILES
        ),
        Entry("transport", "transport", ABSTRACTION, "deliver packages over a bridge that bears one", TRANSPORT),
        Entry(
            "beluga", "beluga", DEBUGGING, "bring parts from an aircraft through racks to a factory in order", BELUGA
        ),
        Entry("one-way-line", "lines", DEBUGGING, "collect packages along a line, driving one way", LINE),
        Entry("two-way-line", "lines", DEBUGGING, "collect packages along a line, driving both ways", LINE),
        Entry("bouncing-ball", "control", DEBUGGING, "keep a ball bouncing by hitting it in time", BALL),
        Entry("inverted-pendulum", "control", DEBUGGING, "keep a pendulum upright", PENDULUM),
        Entry("follow-car", "control", DEBUGGING, "follow a car without hitting it", CAR),
        Entry("flappy-bird", "flappy_bird", DECIDING, "fly through the gaps of walls in gusty wind", FLAPPY_BIRD),
        Entry("layers", "layers", DECIDING, "the family on which policy-iteration oracles differ", LAYERS),
        Entry("janitor", "janitor", CONSTRAINED, "cross a grid past a moving janitor", JANITOR),
        Entry("folline", "folline", CONSTRAINED, "follow a line that is hard to see at speed", FOLLINE),
        Entry("comexp", "comexp", CONSTRAINED, "explore a field while keeping in touch with the base", COMEXP),
    )
}


def find_entry(name: str) -> Entry:
    """Return the entry of that name; an unknown name is an InputError that names a near one."""
    if name not in CATALOGUE:
        hint = did_you_mean(name, CATALOGUE) or f"There are: {', '.join(CATALOGUE)}."
        raise InputError(f"no domain '{name}'.", Where("domains"), hint)
    return CATALOGUE[name]


def generate(name: str, /, **given: str | int | float | Fraction | bool) -> Instance:
    """Return the instance of a world; parameters that are not given have their default.

    >>> generate("janitor", width=3, height=3).model.actions
    ('right', 'up', 'wait')
    """
    entry = find_entry(name)
    where = Where(f"domains {name}")
    known = {parameter.name: parameter for parameter in entry.parameters}
    for key in given:
        if key not in known:
            hint = did_you_mean(key, known) or f"Known are: {', '.join(known)}."
            raise InputError(f"no parameter '{key}'.", where, hint)
    values = {key: parameter.read(given.get(key, parameter.default), where) for key, parameter in known.items()}
    instance = entry.generator(**values)
    return replace(
        instance,
        model=replace(instance.model, metadata=(*instance.model.metadata, (ORIGIN, dump_origin(name, values)))),
    )


def dump_origin(name: str, values: Mapping[str, Any]) -> str:
    """Return the metadata entry that says which world a model is, so that its states can be drawn."""
    plain = {key: str(value) if isinstance(value, Fraction) else value for key, value in values.items()}
    return json.dumps({"name": name, **plain}, ensure_ascii=False)


def find_origin(metadata: Mapping[str, str]) -> tuple[str, Json] | None:
    """Return the name and parameters of the world a model was generated from, where its metadata says so rightly."""
    try:
        values = json.loads(metadata.get(ORIGIN, ""))
        entry = CATALOGUE[values.pop("name")]
        where = Where("metadata")
        return entry.name, {one.name: one.read(values[one.name], where) for one in entry.parameters}
    except (ValueError, KeyError, AttributeError, TypeError, InputError):
        return None  # written by somebody else: then it is just a model


def parse_parameters(texts: Sequence[str]) -> dict[str, str]:
    """Return the parameters in texts such as `n=6`; a bare name is a flag that is set.

    >>> parse_parameters(["n=6", "icy"])
    {'n': '6', 'icy': 'true'}
    """
    values: dict[str, str] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if key in values:
            raise InputError(f"'{key}' is given twice.", Where("domains"), "Give it once.")
        values[key.strip()] = value.strip() if sign else "true"
    return values
