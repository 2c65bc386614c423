"""Finite-memory policies: control states, edges, guards and effects on counters; plain data that knows no algorithm.

Source   Srivastava, "Hierarchical Decompositions and Termination Analysis for Generalized Planning": Definition 1 is
         `Choice` with its `Effect`s, Definition 4 is `FiniteMemoryPolicy`; default edge conditions are the bounds of
         each `Variable`
Differs  an edge may stand several times between two control states (a multigraph); an effect is an interval of
         integers, of which a fixed amount is the special case; several control states may be initial

Semantics. A step from control state `q` with valuation `v` takes an edge from `q` one of whose guard conjunctions
holds in `v`, one of its choices, and for every variable an integer amount within its effect, such that every variable
stays within its bounds. Under *qualitative* semantics only the sign of a fixed effect counts: an increase is any
amount from 1 up, a decrease any amount from 1 up that keeps the variable within its bounds. An interval means its own
integers under every semantics, also where it holds one number only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeVar, get_args

from polvet.errors import InputError, Where, did_you_mean

Operator = Literal[">=", ">", "<=", "<", "==", "!="]
OPERATORS: tuple[str, ...] = get_args(Operator)
Semantics = Literal["deterministic", "qualitative", "mixed"]
SEMANTICS: tuple[str, ...] = get_args(Semantics)
EdgeId = int | str
Valuation = dict[str, int]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Variable:
    """An integer variable and its default bounds; None means unbounded on that side."""

    name: str
    lower: int | None = 0
    upper: int | None = None

    def admits(self, value: int) -> bool:
        """Return whether the value lies within the bounds."""
        return (self.lower is None or value >= self.lower) and (self.upper is None or value <= self.upper)


@dataclass(frozen=True, slots=True)
class Atom:
    """One comparison of a variable with a constant.

    >>> Atom("x", ">=", 1).holds(3)
    True
    """

    variable: str
    operator: str
    value: int

    def holds(self, value: int) -> bool:
        """Return whether the comparison is true when the variable has this value; of a solver's term, the term that says so."""
        match self.operator:
            case ">=":
                return value >= self.value
            case ">":
                return value > self.value
            case "<=":
                return value <= self.value
            case "<":
                return value < self.value
            case "==":
                return value == self.value
            case "!=":
                return value != self.value
        raise ValueError(f"no operator '{self.operator}'")

    def interval(self) -> tuple[int | None, int | None]:
        """Return the smallest interval that holds every value satisfying the atom."""
        match self.operator:
            case ">=":
                return self.value, None
            case ">":
                return self.value + 1, None
            case "<=":
                return None, self.value
            case "<":
                return None, self.value - 1
            case "==":
                return self.value, self.value
        return None, None

    def __str__(self) -> str:
        return f"{self.variable} {self.operator} {self.value}"


Conjunction = tuple[Atom, ...]
Guard = tuple[Conjunction, ...]
ALWAYS: Guard = ((),)
"""The guard of an edge that is always open: one empty conjunction."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a choice adds to one variable: any integer from `low` to `high`; None means unbounded on that side.

    `measured` is a fixed amount that was written as an interval: it is meant exactly, under qualitative semantics, too.
    """

    low: int | None
    high: int | None
    measured: bool = False

    @classmethod
    def exactly(cls, amount: int) -> Effect:
        """Return the effect that adds this amount."""
        return cls(amount, amount)

    @property
    def is_fixed(self) -> bool:
        """Whether the amount is one number."""
        return self.low is not None and self.low == self.high

    def allows(self, amount: int) -> bool:
        """Return whether the effect may add this amount."""
        return (self.low is None or amount >= self.low) and (self.high is None or amount <= self.high)

    def qualitatively(self) -> Effect:
        """Return the effect of which only the sign is known: an amount from 1 up, or from -1 down."""
        if self.measured or not self.is_fixed or self.low == 0:
            return self
        assert self.low is not None
        return Effect(1, None) if self.low > 0 else Effect(None, -1)

    def __str__(self) -> str:
        if self.is_fixed:
            return f"{self.low:+d}"
        low = "-inf" if self.low is None else f"{self.low:+d}"
        high = "inf" if self.high is None else f"{self.high:+d}"
        return f"[{low}, {high}]"


NO_EFFECT = Effect(0, 0)


@dataclass(frozen=True, slots=True)
class Choice:
    """One action of an edge with its effects; a variable that is not named keeps its value."""

    effects: Mapping[str, Effect] = field(default_factory=dict)
    action: str | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """A transition between control states: open where some conjunction of the guard holds, offering its choices."""

    id: EdgeId
    source: str
    target: str
    choices: tuple[Choice, ...] = (Choice(),)
    guard: Guard = ALWAYS

    def is_open(self, valuation: Mapping[str, int]) -> bool:
        """Return whether the guard holds in the valuation."""
        return any(all(atom.holds(valuation[atom.variable]) for atom in atoms) for atoms in self.guard)


@dataclass(frozen=True, slots=True)
class FiniteMemoryPolicy:
    """A finite-memory policy <Q, q0, delta, kappa> over counters, with the default edge conditions of its variables."""

    variables: tuple[Variable, ...]
    control_states: tuple[str, ...]
    initial: tuple[str, ...]
    edges: tuple[Edge, ...]
    semantics: str = "deterministic"
    name: str = "fmp"

    def effect(self, choice: Choice, variable: str) -> Effect:
        """Return what the choice does to the variable under the policy's semantics."""
        effect = choice.effects.get(variable, NO_EFFECT)
        return effect.qualitatively() if self.semantics == "qualitative" else effect

    def edge(self, identity: EdgeId) -> Edge | None:
        """Return the edge with this id, if there is one."""
        return next((edge for edge in self.edges if edge.id == identity), None)


class Unsaid(Where):
    """A place into which nobody looks: names of places are a large part of what reading a large plan takes."""

    __slots__ = ()

    def at(self, key: str | int) -> Where:
        """Return this place."""
        return self


def placed(work: Callable[[Where], Result], where: Where) -> Result:
    """Return what the work makes of its input; it is done again, with places, where something is wrong."""
    try:
        return work(Unsaid(where.file))
    except InputError:
        return work(where)


def check_fmp(fmp: FiniteMemoryPolicy, where: Where | None = None) -> FiniteMemoryPolicy:
    """Return the policy itself if it is well formed, else raise an InputError that names the place.

    Checked: names are unique and known, bounds and intervals are not empty, guards have atoms, some initial control
    state exists. A policy whose initial control states no edge leaves is well formed: it ends at once.
    """
    placed(partial(_check, fmp), where or Where(fmp.name))
    return fmp


def _check(fmp: FiniteMemoryPolicy, where: Where) -> None:
    names = _unique([variable.name for variable in fmp.variables], where.at("variables"), "variable")
    states = _unique(list(fmp.control_states), where.at("control_states"), "control state")
    for index, variable in enumerate(fmp.variables):
        if variable.lower is not None and variable.upper is not None and variable.lower > variable.upper:
            raise InputError(
                f"variable '{variable.name}': the lower bound {variable.lower} is above the upper bound "
                f"{variable.upper}.",
                where.at("variables").at(index),
                "Exchange them.",
            )
    if not states:
        raise InputError("there is no control state.", where.at("control_states"), "Name at least one.")
    if not fmp.initial:
        raise InputError("there is no initial control state.", where.at("initial"), "Name one.")
    for state in fmp.initial:
        _known(state, states, where.at("initial"), "control state")
    seen: dict[EdgeId, int] = {}
    for index, edge in enumerate(fmp.edges):
        place = where.at("edges").at(index)
        if edge.id in seen:
            raise InputError(
                f"the id {edge.id!r} is already taken by edges[{seen[edge.id]}].",
                place.at("id"),
                "Give each edge its own.",
            )
        seen[edge.id] = index
        _known(edge.source, states, place.at("from"), "control state")
        _known(edge.target, states, place.at("to"), "control state")
        _check_guard(edge, names, place.at("guard_dnf"))
        if not edge.choices:
            raise InputError("the edge has no choices.", place.at("choices"), "Give one, if only an empty one: {}.")
        for number, choice in enumerate(edge.choices):
            for variable_name, effect in choice.effects.items():
                if variable_name in names and (effect.low is None or effect.high is None or effect.low <= effect.high):
                    continue
                spot = place.at("choices").at(number).at("effects").at(variable_name)
                _known(variable_name, names, spot, "variable")
                if effect.low is not None and effect.high is not None and effect.low > effect.high:
                    what = f"the interval from {effect.low} to {effect.high} is empty."
                    raise InputError(what, spot, "Exchange its ends.")


def _check_guard(edge: Edge, names: set[str], where: Where) -> None:
    hint = "Leave 'guard_dnf' out for an edge that is always open, or remove the edge."
    if not edge.guard:
        raise InputError("the guard is empty: it is never true.", where, hint)
    for row, atoms in enumerate(edge.guard):
        if not atoms and edge.guard != ALWAYS:
            raise InputError("the guard has an empty conjunction.", where.at(row), hint)
        for column, atom in enumerate(atoms):
            _known(atom.variable, names, where.at(row).at(column), "variable")


def _unique(names: list[str], where: Where, kind: str) -> set[str]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            raise InputError(f"the {kind} '{name}' is named twice.", where.at(index), "Remove one of them.")
        seen.add(name)
    return seen


def _known(name: str, names: Iterable[str], where: Where, kind: str) -> None:
    if name not in names:
        raise InputError(f"no {kind} '{name}'.", where, did_you_mean(name, names) or f"Declare the {kind} first.")
