"""How far a state is from `fail`, as an expression that the kernel evaluates like any other.

Source   Korel, Automated software test data generation, TSE 1990, and Tracey and others, 1998: branch distances.
         An atom that fails by d counts d / (d + 1), so that no atom drowns the others; conjunctions add up,
         disjunctions take the least, negations are pushed to the atoms (`distance_to`). Many models write `crashed := true`
         on an edge: then `fail` itself says nothing until it is too late. So the guards of edges that may bring `fail`
         about count as well, taken back over one step (Dijkstra's weakest precondition, 1975; `distance_to_fail`)
Cost     one pass over the condition per state; shared sub-expressions are evaluated each time
Limits   the distance is 0 where the condition holds, and only there (up to a tiny step at strict comparisons of reals);
         it looks at all atoms, also at those that the condition itself does not reach (`y != 0 && x / y > 1`): where it
         cannot be computed, the kernel takes the state to be far away
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from polvet.budget import UNLIMITED, Budget
from polvet.model.expressions import (
    FALSE,
    Binary,
    BoolLiteral,
    Conditional,
    Expression,
    Name,
    RealLiteral,
    Unary,
    names,
    rebuild,
    size,
)
from polvet.model.folding import binary, conditional, unary
from polvet.model.kinds import kind_of
from polvet.model.network import Kind, Network
from polvet.model.tables import TableMoves
from polvet.model.task import Task
from polvet.model.terms import balanced

ZERO, ONE = RealLiteral(Fraction(0)), RealLiteral(Fraction(1))
NEAR = RealLiteral(Fraction(1, 100))
MOST_NODES = 4_000
TINY = RealLiteral(Fraction(1, 10**9))
OPPOSITE = {"=": "≠", "≠": "=", "<": "≥", "≥": "<", ">": "≤", "≤": ">"}
MIRRORED = {">": "<", "≥": "≤"}


def distance_to_fail(task: Task, budget: Budget = UNLIMITED) -> Expression:
    """Return a real expression that is 0 exactly in `fail` and measures how near it is elsewhere.

    >>> from polvet.model.build import ModelBuilder
    >>> from polvet.model.semantics import Semantics
    >>> m = ModelBuilder("m"); x = m.int("x", 0, 9); hit = m.bool("hit")
    >>> m.edge("go", guard=x >= 8, to={hit: True}); task = m.task(fail=hit)
    >>> far = Semantics(task.network).compile(distance_to_fail(task))
    >>> far((3, True)), far((8, False)) < far((7, False)) < far((2, False))
    (0.0, True)
    """
    own = distance_to(task.fail, task.network)
    steps = _steps_to(task.fail, task.network, budget)
    if not steps:
        return own
    nearest = balanced("min", [own, *(Binary("+", NEAR, distance_to(step, task.network)) for step in steps)])
    # SOUND: a state from which the next step may fail is near, but only a state in `fail` has the distance 0.
    return Conditional(task.fail, ZERO, nearest)


def _steps_to(condition: Expression, network: Network, budget: Budget) -> list[Expression]:
    """Return when a step may bring the condition about: one guard with the condition taken back per edge and branch."""
    read = names(condition)
    known = {variable.name for variable in network.variables}  # not transient ones, which a state does not hold
    steps: dict[Expression, None] = {}
    room = MOST_NODES
    writing = network.edges.writing(read) if isinstance(network.edges, TableMoves) else network.edges
    for edge in writing:
        if budget.is_over():
            return []
        for branch in edge.branches:
            values = {u.target.name: u.value for u in branch.updates if isinstance(u.target, Name)}
            if not read & set(values):
                continue
            before = _substituted(condition, values)
            step = binary("∧", edge.guard, before)
            if before != FALSE and step not in steps and names(step) <= known:
                room -= size(step)
                if room < 0:
                    return []  # too much to look at in every state
                steps[step] = None
    return list(steps)


def _substituted(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    match expression:
        case Name(name):
            return values.get(name, expression)
        case Unary(operator, operand):
            return unary(operator, _substituted(operand, values))
        case Binary(operator, left, right):
            return binary(operator, _substituted(left, values), _substituted(right, values))
        case Conditional(choice, then, otherwise):
            parts = (_substituted(part, values) for part in (choice, then, otherwise))
            return conditional(*parts)
        case _:
            return rebuild(expression, lambda part: _substituted(part, values))


def distance_to(condition: Expression, network: Network) -> Expression:
    """Return a real expression over the network's variables that is 0 exactly where the condition holds.

    >>> from polvet.model.build import ModelBuilder
    >>> from polvet.model.semantics import Semantics
    >>> m = ModelBuilder("m"); x = m.int("x", 0, 9); m.edge("stay"); task = m.task(fail=x >= 8)
    >>> far = Semantics(task.network).compile(distance_to(task.fail, task.network))
    >>> far((9,)), far((7,)), far((5,))
    (0.0, 0.5, 0.75)
    """
    kinds = {variable.name: variable.kind for variable in network.variables}
    codes = {variable.name for variable in network.variables if variable.is_location}
    return _Distances(kinds, codes).of(condition, holds=True)


class _Distances:
    def __init__(self, kinds: Mapping[str, Kind], codes: set[str]) -> None:
        self.kinds = kinds
        self.codes = codes  # variables whose numbers are names: locations

    def of(self, condition: Expression, *, holds: bool) -> Expression:
        """Return the distance to the condition being true, or false."""
        match condition:
            case BoolLiteral(value):
                return ZERO if value == holds else ONE
            case Unary("¬", operand):
                return self.of(operand, holds=not holds)
            case Binary("⇒", left, right):
                return self._join(self.of(left, holds=not holds), self.of(right, holds=holds), both=not holds)
            case Binary(("∧" | "∨") as operator, left, right):
                both = (operator == "∧") == holds
                return self._join(self.of(left, holds=holds), self.of(right, holds=holds), both=both)
            case Binary(operator, left, right) if operator in OPPOSITE:
                return self._comparison(operator if holds else OPPOSITE[operator], left, right)
            case Conditional(choice, then, otherwise):
                first = self._join(self.of(choice, holds=True), self.of(then, holds=holds), both=True)
                second = self._join(self.of(choice, holds=False), self.of(otherwise, holds=holds), both=True)
                return self._join(first, second, both=False)
            case _:
                return _step(condition) if holds else _step(Unary("¬", condition))

    def _join(self, left: Expression, right: Expression, *, both: bool) -> Expression:
        if both:
            return right if left == ZERO else left if right == ZERO else Binary("+", left, right)
        if ZERO in (left, right):
            return ZERO
        return Binary("min", left, right)

    def _comparison(self, operator: str, left: Expression, right: Expression) -> Expression:
        if operator in MIRRORED:
            operator, left, right = MIRRORED[operator], right, left
        one, other = kind_of(left, self.kinds), kind_of(right, self.kinds)
        coded = any(isinstance(side, Name) and side.name in self.codes for side in (left, right))
        if operator == "≠" or one is Kind.BOOL or coded:
            return _step(Binary(operator, left, right))
        gap = Binary("-", _real(left), _real(right))
        if operator == "=":
            return _damped(Unary("abs", gap))
        if operator == "≤":
            return _damped(Binary("max", ZERO, gap))
        # SOUND: a strict comparison that fails by nothing is not fulfilled: the distance stays above 0.
        least = ONE if one is other is Kind.INT else TINY
        return Conditional(Binary("<", left, right), ZERO, _damped(Binary("+", Binary("max", ZERO, gap), least)))


def _real(expression: Expression) -> Expression:
    return Binary("+", expression, ZERO)  # differences of large integers do not overflow as reals


def _damped(gap: Expression) -> Expression:
    return Binary("-", ONE, Binary("/", ONE, Binary("+", gap, ONE)))


def _step(condition: Expression) -> Expression:
    return Conditional(condition, ZERO, ONE)
