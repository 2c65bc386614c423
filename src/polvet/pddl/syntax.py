"""A domain and a problem as they are written: what `parse` makes and grounding reads. Names are known, arities fit.

A *term* is an object's name or a variable such as `?x`. Variables of quantifiers have names of their own (`?x.3`), so
that none hides another. `imply` and the empty condition are written with `Or`, `Not` and `And(())`. What grounding looks up again
and again (atoms, their opposites, their changes) are named tuples, hashed and compared by C; no two kinds of them are ever equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from polvet.errors import Where

OBJECT = "object"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable and the types (one of them) that its values have."""

    name: str
    types: tuple[str, ...]


class Atom(NamedTuple):
    """`(predicate term ...)`; ground where its terms are objects."""

    predicate: str
    terms: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.predicate}({','.join(self.terms)})" if self.terms else self.predicate


@dataclass(frozen=True, slots=True)
class Equal:
    """`(= left right)`."""

    left: str
    right: str


class Not(NamedTuple):
    """`(not part)`."""

    part: Condition


@dataclass(frozen=True, slots=True)
class And:
    """`(and part ...)`; of nothing it is true."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """`(or part ...)`; of nothing it is false."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Exists:
    """`(exists (variables) body)`."""

    variables: tuple[Variable, ...]
    body: Condition


@dataclass(frozen=True, slots=True)
class ForAll:
    """`(forall (variables) body)` as a condition."""

    variables: tuple[Variable, ...]
    body: Condition


@dataclass(frozen=True, slots=True)
class Fluent:
    """`(function term ...)`: an integer that may change; ground where its terms are objects."""

    function: str
    terms: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.function}({','.join(self.terms)})" if self.terms else self.function


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`(+ left right)`, `(- left right)` or `(* left right)`."""

    operator: str
    left: Number
    right: Number


@dataclass(frozen=True, slots=True)
class Case:
    """One number where the condition holds, another elsewhere: what conditional effects make."""

    condition: Condition
    then: Number
    otherwise: Number


@dataclass(frozen=True, slots=True)
class Compare:
    """`left operator right` with `<`, `<=`, `=` or `!=`; the opposite of each is one of them."""

    operator: str
    left: Number
    right: Number


Number: TypeAlias = int | Fluent | Arithmetic | Case
Condition: TypeAlias = Atom | Equal | Compare | Not | And | Or | Exists | ForAll
TRUE, FALSE = And(()), Or(())


class Change(NamedTuple):
    """An atom that becomes true (`value`) or false."""

    atom: Atom
    value: bool


@dataclass(frozen=True, slots=True)
class Together:
    """`(and effect ...)`; of nothing it changes nothing."""

    parts: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class When:
    """`(when condition effect)`: the condition is read in the state before."""

    condition: Condition
    effect: Effect


@dataclass(frozen=True, slots=True)
class Every:
    """`(forall (variables) effect)`."""

    variables: tuple[Variable, ...]
    effect: Effect


@dataclass(frozen=True, slots=True)
class Choice:
    """`(oneof effect ...)` with equal probabilities, or `(probabilistic p effect ...)`; the probabilities sum to 1."""

    outcomes: tuple[tuple[Fraction, Effect], ...]


@dataclass(frozen=True, slots=True)
class Shift:
    """A fluent that becomes `amount` (`absolute`), or more by it; `number` tells apart those that are written alike."""

    fluent: Fluent
    amount: Number
    absolute: bool
    where: Where = field(compare=False, repr=False)
    number: int = 0


Effect: TypeAlias = Change | Shift | Together | When | Every | Choice
NOTHING = Together(())


@dataclass(frozen=True, slots=True)
class Predicate:
    """A declared predicate (or numeric function) and the types of its arguments."""

    name: str
    parameters: tuple[Variable, ...]
    where: Where = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Action:
    """An action schema."""

    name: str
    parameters: tuple[Variable, ...]
    precondition: Condition
    effect: Effect
    where: Where = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of a domain (with a problem: all its objects): types with their parents, objects, predicates."""

    parents: Mapping[str, tuple[str, ...]]
    objects: Mapping[str, tuple[str, ...]]  # with their types, in the order of the files
    predicates: Mapping[str, Predicate]
    functions: Mapping[str, Predicate] = field(default_factory=dict)  # of numeric fluents

    def is_below(self, kind: str, types: tuple[str, ...]) -> bool:
        """Return whether the type is one of these, or lies below one."""
        pending, seen = [kind], set()
        while pending:
            one = pending.pop()
            if one in types or OBJECT in types:
                return True
            if one not in seen:
                seen.add(one)
                pending += self.parents.get(one, ())
        return False

    def objects_of(self, types: tuple[str, ...]) -> tuple[str, ...]:
        """Return the objects that have one of the types."""
        return tuple(name for name, own in self.objects.items() if any(self.is_below(one, types) for one in own))


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain."""

    name: str
    words: Vocabulary  # its objects are the constants
    actions: tuple[Action, ...]
    where: Where = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a domain; `words` has the constants and the objects."""

    name: str
    words: Vocabulary
    init: frozenset[Atom]
    goal: Condition
    where: Where = field(compare=False, repr=False)
    numbers: Mapping[Fluent, int] = field(default_factory=dict)


def negated(condition: Condition) -> Condition:
    """Return the opposite, with `Not` in front of atoms and equalities alone.

    >>> negated(Or((Atom("p", ()), Not(Atom("q", ())))))
    And(parts=(Not(part=Atom(predicate='p', terms=())), Atom(predicate='q', terms=())))
    """
    match condition:
        case Not(part):
            return normal(part)
        case And(parts):
            return Or(tuple(map(negated, parts)))
        case Or(parts):
            return And(tuple(map(negated, parts)))
        case Exists(variables, body):
            return ForAll(variables, negated(body))
        case ForAll(variables, body):
            return Exists(variables, negated(body))
        case Compare("=" | "!=" as operator, left, right):
            return Compare("!=" if operator == "=" else "=", left, right)
        case Compare(operator, left, right):
            return Compare("<=" if operator == "<" else "<", right, left)
        case _:
            return Not(condition)


def normal(condition: Condition) -> Condition:
    """Return the same condition, with `Not` in front of atoms and equalities alone."""
    match condition:
        case Not(part):
            return negated(part)
        case And(parts):
            return And(tuple(map(normal, parts)))
        case Or(parts):
            return Or(tuple(map(normal, parts)))
        case Exists(variables, body):
            return Exists(variables, normal(body))
        case ForAll(variables, body):
            return ForAll(variables, normal(body))
        case _:
            return condition


def all_changes(effect: Effect) -> Iterator[Change | Shift]:
    """Yield every change of an atom or of a number that the effect may make, of all its outcomes, as they are written."""
    pending = [effect]
    while pending:
        match pending.pop():
            case (Change() | Shift()) as change:
                yield change
            case Together(parts):
                pending += reversed(parts)
            case When(_, inner) | Every(_, inner):
                pending.append(inner)
            case Choice(outcomes):
                pending += (inner for _, inner in reversed(outcomes))


def changes(effect: Effect) -> Iterator[Change]:
    """Yield every change of an atom."""
    return (one for one in all_changes(effect) if isinstance(one, Change))


def shifts(effect: Effect) -> Iterator[Shift]:
    """Yield every change of a number."""
    return (one for one in all_changes(effect) if isinstance(one, Shift))
