"""A region of start states as certificates and people have it: boxes by names, what is proved about them, and the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, nextafter
from typing import Any

from polvet.files import Json
from polvet.model.expressions import Binary, Expression, IntLiteral, Name, RealLiteral, Unary, conjunction
from polvet.model.network import Kind, Network
from polvet.policy.runs import Run

NamedBox = Mapping[str, Sequence[int | float]]
"""The variables that a box restricts, with its ends; truth values are 0 and 1, locations their number."""


@dataclass(frozen=True, slots=True)
class Rest:
    """A box with start states that are not proved safe: with an unsafe run from one of them, or open, and why."""

    box: NamedBox
    run: Run | None = None
    reason: str | None = None  # of an open one
    starts: int | None = None  # how many it holds; None: not counted


@dataclass(frozen=True, slots=True)
class Volume:
    """Shares of the volume of real-valued start states: proved safe, in parts of which a start is known to fail, and open.

    `drawn`: from how many drawn start states the shares are estimated; None: they are the volumes of boxes.
    """

    proved: float
    unsafe: float
    open: float
    drawn: int | None = None


@dataclass(frozen=True, slots=True)
class Region:
    """What is known of the start states. `side` says whether the proved ones are those `in` the boxes, or `out` of them.

    Counts are None where start states are too many to be counted; `proof` is None where nothing is proved.
    """

    side: str
    boxes: tuple[NamedBox, ...]
    proof: Mapping[str, Any] | None
    rest: tuple[Rest, ...]
    method: str
    starts: int | None = None
    proved: int | None = None
    failing: int | None = None
    reason: str | None = None  # why something is open
    figures: Mapping[str, Any] = field(default_factory=dict)
    volume: Volume | None = None  # where start states are real-valued

    @property
    def is_everything(self) -> bool:
        """Return whether nothing is left of the start states."""
        return self.proof is not None and not self.rest

    @property
    def is_unsafe(self) -> bool:
        """Return whether a run from some start state fails."""
        return any(one.run is not None for one in self.rest)


def region_json(region: Region) -> Json:
    """Return the region as certificates hold it."""
    return {region.side: [{name: list(ends) for name, ends in box.items()} for box in region.boxes]}


def condition_of_box(network: Network, box: NamedBox) -> Expression:
    """Return that a state is in the box, as people read and write it."""
    parts: list[Expression] = []
    variables = {variable.name: variable for variable in network.variables}
    for name, (low, high) in box.items():
        variable = variables[name]
        if variable.kind is Kind.BOOL:
            if low == high:
                parts.append(Name(name) if low else Unary("¬", Name(name)))
            continue
        if low == high:
            parts.append(Binary("=", Name(name), _number(low)))
            continue
        if variable.lower is None or low > variable.lower:
            parts.append(Binary("≥", Name(name), _number(low)))
        if variable.upper is None or high < variable.upper:
            parts.append(_up_to(name, high))
    return conjunction(*parts)


def _up_to(name: str, high: int | float) -> Expression:
    """Return that a value is at most `high`, or that it is below the next double where that is shorter."""
    if isinstance(high, float) and len(repr(after := nextafter(high, inf))) < len(repr(high)):
        return Binary("<", Name(name), _number(after))
    return Binary("≤", Name(name), _number(high))


def _number(value: int | float) -> Expression:
    """Return the number; of a double the shortest decimal that models read as this double."""
    return RealLiteral(Fraction(repr(value))) if isinstance(value, float) else IntLiteral(value)


def named_box(network: Network, lower: Sequence[int], upper: Sequence[int], bounds: Sequence[Any]) -> NamedBox:
    """Return the box by names, without ends that are the variables' own."""
    return {
        variable.name: [low, high]
        for variable, low, high, own in zip(network.variables, lower, upper, bounds, strict=True)
        if (low, high) != tuple(own)
    }
