"""A model that can be run: constants fixed, functions unfolded, arrays made of scalars, automata joined.

A `Network` is what both roads start from: `kernel` compiles it, `symbolic` reasons about it, `semantics` interprets it.
Edges of several automata that move together are not multiplied out here: a `Joint` lists, for each participant, the
edges it may contribute; an *operator* is one edge per participant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from polvet.errors import NOWHERE, InputError, Where
from polvet.model.arithmetic import Value
from polvet.model.automata import ModelType
from polvet.model.expressions import Expression, Name, Select
from polvet.model.options import OutOfBounds as OutOfBounds

if TYPE_CHECKING:
    from polvet.model.automata import Model
    from polvet.model.scope import Scope


MOST_BRANCHES = 2**20
"""How many branches the operators of several edges may have in one state: they are counted before they are made."""
PROBABILITY_TOLERANCE = Fraction(1, 10**6)
"""How far the probabilities of an edge may be off 1, from rounding by its author; they are scaled to sum to 1."""


class Kind(Enum):
    """What a scalar holds."""

    BOOL = "bool"
    INT = "int"
    REAL = "real"


@dataclass(frozen=True, slots=True)
class Variable:
    """A scalar: its name, kind and bounds, never its value. A location variable counts through `locations`."""

    name: str
    kind: Kind
    lower: int | Fraction | None = None
    upper: int | Fraction | None = None
    initial: Value | None = None  # None: any value between the bounds
    locations: tuple[str, ...] | None = None
    where: Where = field(default=NOWHERE, compare=False, repr=False)
    values: tuple[str, ...] | None = None  # the names of its values from 0 on, where the model defines them

    @property
    def is_location(self) -> bool:
        """Return whether this is the location of an automaton."""
        return self.locations is not None


@dataclass(frozen=True, slots=True)
class Update:
    """`target := value`; the target is a variable, or an array element whose index is computed."""

    target: Name | Select
    value: Expression
    index: int = 0
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Branch:
    """One probabilistic outcome of an edge."""

    probability: Expression
    updates: tuple[Update, ...]


@dataclass(frozen=True, slots=True)
class NetworkEdge:
    """An edge with its location folded into guard and updates; `origin` names its automaton."""

    guard: Expression
    branches: tuple[Branch, ...]
    origin: str
    where: Where = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Joint:
    """Edges that move together: one of each participant's edges (numbers into `Network.edges`); None is silent."""

    label: str | None
    participants: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Network:
    """A runnable model. `scratch` are transient variables that edges assign; a state does not hold them."""

    model: Model
    constants: Mapping[str, Value]
    variables: tuple[Variable, ...]
    scratch: tuple[Variable, ...]
    edges: Sequence[NetworkEdge]  # a tuple, or the rows of a table (model/tables.py)
    joints: tuple[Joint, ...]
    labels: tuple[str, ...]  # those of the model, in its order; some may have no joint under these constants
    initial_condition: Expression
    scope: Scope = field(compare=False, repr=False)  # resolves further expressions over this network
    step_scope: Scope = field(compare=False, repr=False)  # likewise, right after a step: transients are scratch
    out_of_bounds: OutOfBounds = OutOfBounds.ERROR
    derived: dict[Any, Any] = field(init=False, default_factory=dict, compare=False, repr=False)
    """What others computed of this network and keep with it; a network made of it by `replace` starts with nothing."""

    @property
    def is_chain(self) -> bool:
        """Return whether this is a Markov chain: the enabled operators of a state are equally likely, and no label is chosen."""
        return self.model.type is ModelType.DTMC

    def require_choices(self, where: Where | None = None) -> None:
        """Raise an InputError where nobody chooses: a Markov chain has no policy."""
        if self.is_chain:
            raise InputError(
                "the model is a Markov chain (dtmc): its enabled operators are equally likely, and nobody chooses among them.",
                where,
                "Ask check or permit how likely something is; make the model an mdp where a policy chooses.",
            )

    @property
    def disables_out_of_bounds(self) -> bool:
        """Return whether operators that would leave a variable's bounds are not enabled."""
        return self.out_of_bounds is OutOfBounds.DISABLE

    def resolve(self, expression: Expression, where: Where = NOWHERE, *, exact: bool = False) -> Expression:
        """Return the expression in terms of this network's scalars; transient variables get their value in a state.

        A condition is computed in doubles, as guards are; a reward, or the bound of a property, is meant exactly.
        """
        return self.scope.scalar(expression, where, exact=exact)

    def resolve_step(self, expression: Expression, where: Where = NOWHERE) -> Expression:
        """Return the expression as it is read right after a step, when scratch variables hold what edges assigned."""
        return self.step_scope.scalar(expression, where, exact=True)

    def index_of(self, name: str) -> int:
        """Return the position of a variable in a state."""
        return next(i for i, variable in enumerate(self.variables) if variable.name == name)
