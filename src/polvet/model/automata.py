"""A model as its author wrote it: constants, variables, functions, automata and how they synchronise (JANI's words).

Nothing here is evaluated. `model.instantiate` fixes the constants and makes a `Network` out of it, which can be run.
Places (`where`) do not take part in comparisons: a model read from two files is the same model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from polvet.errors import NOWHERE as NOWHERE
from polvet.errors import Where
from polvet.model.expressions import Element, Expression, Name

if TYPE_CHECKING:
    from polvet.model.properties import Property
    from polvet.model.types import Type


class ModelType(Enum):
    """The kind of transition system; only discrete time is run, the others are read to be refused by name."""

    LTS = "lts"
    DTMC = "dtmc"
    MDP = "mdp"
    CTMC = "ctmc"
    CTMDP = "ctmdp"
    MA = "ma"
    TA = "ta"
    PTA = "pta"
    STA = "sta"
    HA = "ha"
    PHA = "pha"
    SHA = "sha"


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant; without a value it is open and must be given from outside."""

    name: str
    type: Type
    value: Expression | None = None
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class VariableDeclaration:
    """A variable; without an initial value it starts with any value of its type. Transient ones have no memory."""

    name: str
    type: Type
    initial: Expression | None = None
    transient: bool = False
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Function:
    """A function without side effects; parameters are (name, type)."""

    name: str
    type: Type
    parameters: tuple[tuple[str, Type], ...]
    body: Expression
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Assignment:
    """`target := value`; smaller indices first, equal ones at the same time."""

    target: Name | Element
    value: Expression
    index: int = 0
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where an edge may lead: with which probability (absent: 1), and what it assigns."""

    location: str
    probability: Expression | None = None
    assignments: tuple[Assignment, ...] = ()
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of an automaton; `action` None is silent, `guard` None is true. A rate means continuous time."""

    location: str
    action: str | None
    guard: Expression | None
    destinations: tuple[Destination, ...]
    assignments: tuple[Assignment, ...] = ()
    rate: Expression | None = None
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Location:
    """A location with the values of transient variables while in it."""

    name: str
    transient_values: tuple[Assignment, ...] = ()
    time_progress: Expression | None = None
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Automaton:
    """An automaton: local variables and functions, locations, edges."""

    name: str
    locations: tuple[Location, ...]
    initial_locations: tuple[str, ...]
    edges: Sequence[Edge]  # a tuple, or the rows of a table (model/tables.py)
    variables: tuple[VariableDeclaration, ...] = ()
    functions: tuple[Function, ...] = ()
    restrict_initial: Expression | None = None
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Instance:
    """An automaton taking part in the system; input-enabled for some actions."""

    automaton: str
    input_enable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Synchronisation:
    """One action (or None: not taking part) per instance, and the label of the result (None: silent)."""

    actions: tuple[str | None, ...]
    result: str | None = None
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Composition:
    """The instances and their synchronisations; `synchronisations` None means: every labelled edge moves alone."""

    instances: tuple[Instance, ...]
    synchronisations: tuple[Synchronisation, ...] | None = None
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Model:
    """A whole model.

    `polvet.Model.from_matrix` makes one of transition matrices; the front door puts it here: a model by itself needs no arrays.
    """

    from_matrix: ClassVar[Callable[..., Model]]

    name: str
    type: ModelType
    automata: tuple[Automaton, ...]
    system: Composition
    actions: tuple[str, ...] = ()
    constants: tuple[Constant, ...] = ()
    variables: tuple[VariableDeclaration, ...] = ()
    functions: tuple[Function, ...] = ()
    restrict_initial: Expression | None = None
    properties: tuple[Property, ...] = ()
    features: tuple[str, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    version: int = 1
    where: Where = field(default=NOWHERE, compare=False, repr=False)

    def constant(self, name: str) -> Constant | None:
        """Return the constant of that name, if there is one."""
        return next((constant for constant in self.constants if constant.name == name), None)

    def property_named(self, name: str) -> Property | None:
        """Return the property of that name, if there is one."""
        return next((one for one in self.properties if one.name == name), None)
