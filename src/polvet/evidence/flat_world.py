"""A network as the items of a flat text: operators multiplied out, arrays and transient variables gone.

What the model says in ways that a flat text lacks becomes expressions: `a[i] := v` assigns each element `(ite (= i k) v a[k])`,
and is an error where `i` is outside of the array or where two assignments meet; computed probabilities are an error where their
sum is further off 1 than roundings of an author explain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import gcd, lcm, prod

from polvet.errors import InputError
from polvet.evidence.flat_text import Piece, Terms, double, is_exact, word
from polvet.model.arithmetic import INT64_MAX, INT64_MIN
from polvet.model.expressions import (
    FALSE,
    TRUE,
    Binary,
    Conditional,
    Expression,
    IntLiteral,
    Name,
    RealLiteral,
    Select,
    Unary,
    conjuncts,
)
from polvet.model.folding import value_of
from polvet.model.network import PROBABILITY_TOLERANCE, Kind, Network, NetworkEdge, Update, Variable
from polvet.model.restrict import reads, targets
from polvet.model.tables import STATE, TableMoves
from polvet.numbers import at_least

MOST_WRITTEN = 2**19
"""So many branches of all operators together are written: some hundred megabytes."""
LEAST, GREATEST = INT64_MIN + 1, INT64_MAX - 1
"""What an integer variable without bounds may hold."""
LARGEST = 2**1000
"""Doubles below it are far from infinite."""
COMBINED: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "min": min,
    "max": max,
}
Span = tuple[Fraction, Fraction]
"""The numbers between two ends."""
Box = Mapping[str, tuple[int, int]]
"""Variables with least and greatest values."""
NO_BOX: Box = {}
FAR = 2**100
WHOLE = 2**53
"""Integers up to it are doubles."""
Writes = list[tuple[Name | Select, int]]
"""The assignments of a stage: targets, and the nodes of their values."""


@dataclass(frozen=True, slots=True)
class _Branch:
    weight: int  # a whole number, or the node of a computed weight
    stages: Mapping[int, Writes]


@dataclass(frozen=True, slots=True)
class _Edge:
    guard: int
    constant: bool
    branches: tuple[_Branch, ...]


class FlatWorld:
    """What a network does, in the words of a flat text."""

    def __init__(self, network: Network, terms: Terms) -> None:
        self.network, self.terms = network, terms
        self._scratch = [one for one in network.scratch if one.name in _needed(network)]
        self._variables = {one.name: one for one in (*network.variables, *self._scratch)}
        self._edges: dict[int, _Edge] = {}
        self._boxes: dict[int, Box | None] = {}
        self._spans = spans_of(network)

    def declarations(self) -> Iterator[list[Piece]]:
        """Yield the items of the variables."""
        for variable in self.network.variables:
            yield [self._declaration(variable)]
        for variable in self._scratch:
            initial = value_of_initial(variable)
            yield [f"(scratch {self._declaration(variable)} {initial})"]

    def _declaration(self, variable: Variable) -> str:
        low, high = ("*" if end is None else end for end in self.bounds(variable))
        kind = "variable" if variable.kind is Kind.BOOL else "real" if variable.kind is Kind.REAL else "integer"
        if variable.lower is not None and variable.upper is not None and kind == "integer":
            kind = "variable"
        return f"({kind} {word(variable.name)} {low} {high})"

    def bounds(self, variable: Variable) -> tuple[str | None, str | None]:
        """Return the ends of the variable's values as they are written; None where there is none."""
        if variable.kind is Kind.BOOL:
            return "0", "1"
        if variable.kind is Kind.REAL:
            return inward(variable.lower, 1), inward(variable.upper, -1)
        low, high = (None if end is None else int(end) for end in (variable.lower, variable.upper))
        if not self.network.disables_out_of_bounds:  # else leaving 64 bits is an error, and leaving the bounds is not
            low, high = max(LEAST, LEAST if low is None else low), min(GREATEST, GREATEST if high is None else high)
        return (None if low is None else str(low)), (None if high is None else str(high))

    def moves(self) -> Iterator[list[Piece]]:
        """Yield the items of the operators, or of the rows."""
        if isinstance(self.network.edges, TableMoves):
            yield from self._rows(self.network.edges)
            return
        joined, count = [], 0  # counted before they are made
        for joint in self.network.joints:
            for numbers in self._together(joint.participants, ()):
                joined.append((joint.label, numbers))
                count += prod(len(self.network.edges[number].branches) for number in numbers)
                if count > MOST_WRITTEN:
                    raise InputError(
                        f"its operators have more than {MOST_WRITTEN:,} branches when automata are joined.",
                        self.network.model.where,
                        "Make the constants smaller, or synchronise fewer automata.",
                    )
        for label, numbers in joined:
            yield self._operator(label, [self._edge(number) for number in numbers], numbers[0])

    def _together(
        self, participants: Sequence[Sequence[int]], chosen: tuple[int, ...], box: Box | None = NO_BOX
    ) -> Iterator[tuple[int, ...]]:
        """Yield the edges that may move together: one of each participant, whose guards do not exclude each other.

        SOUND: a combination is left out only if no guard of it, up to the one that excludes it, can be an error.
        """
        if len(chosen) == len(participants):
            yield chosen
            return
        for number in participants[len(chosen)]:
            met = None if box is None else _met(box, self._box(number))
            if met is None or all(low <= high for low, high in met.values()):
                yield from self._together(participants, (*chosen, number), met)

    def _box(self, number: int) -> Box | None:
        """Return between which values an edge's guard has variables; None where computing the guard may be an error."""
        if number not in self._boxes:
            guard = self.network.edges[number].guard
            self._boxes[number] = _box_of(guard) if _is_sure(guard, self._spans) else None
        return self._boxes[number]

    def _operator(self, label: str | None, edges: Sequence[_Edge], first: int) -> list[Piece]:
        true = self.terms.of(TRUE)
        guard = self.terms.chain("and", [edge.guard for edge in edges if edge.guard != true], "1")
        outcomes = list(product(*(edge.branches for edge in edges)))
        weights: list[Piece]
        if all(edge.constant for edge in edges):
            weights = [str(one) for one in reduced([prod(branch.weight for branch in parts) for parts in outcomes])]
        else:
            weights = [self._weight(parts, edges) for parts in outcomes]
        item: list[Piece] = [f"(operator {word(label)} ", guard]
        for weight, parts in zip(weights, outcomes, strict=True):
            item += ["\n  (branch ", weight]
            for index in sorted({index for part in parts for index in part.stages}):
                writes = [write for part in parts for write in part.stages.get(index, ())]
                item.append(" (then")
                for name, value in self._stage(writes, first):
                    item += [f" ({word(name)} ", value, ")"]
                item.append(")")
            item.append(")")
        return [*item, ")"]

    def _weight(self, parts: Sequence[_Branch], edges: Sequence[_Edge]) -> int:
        whole = prod(part.weight for part, edge in zip(parts, edges, strict=True) if edge.constant)
        factors = [] if whole == 1 else [self.terms.node(str(whole))]
        factors += [part.weight for part, edge in zip(parts, edges, strict=True) if not edge.constant]
        return self.terms.chain("*", factors, "1")

    def _edge(self, number: int) -> _Edge:
        if number not in self._edges:
            edge = self.network.edges[number]
            values = [value_of(branch.probability) for branch in edge.branches]
            shares = [Fraction(value) for value in values if value is not None]
            constant = len(shares) == len(values) and all(share >= 0 for share in shares) and sum(shares) == 1
            weights = reduced(shares) if constant else self._computed(edge)
            branches = [
                _Branch(weight, self._stages(branch.updates))
                for weight, branch in zip(weights, edge.branches, strict=True)
                if weight or not constant
            ]
            self._edges[number] = _Edge(self.terms.of(edge.guard), constant, tuple(branches))
        return self._edges[number]

    def _computed(self, edge: NetworkEdge) -> list[int]:
        """Return the nodes of weights, an error where they are no distribution; only their sum's rounding is forgiven."""
        terms, shares = self.terms, []
        for branch in edge.branches:
            share = terms.of(branch.probability, exact=True)
            shares.append(share if is_exact(branch.probability) else terms.node("exact", share))
        off = terms.node("abs", terms.node("-", terms.chain("+", shares, "0"), terms.node("1")))
        within = terms.node("<=", off, terms.ratio(PROBABILITY_TOLERANCE))
        return [terms.node("ite", within, shares[0], terms.node("error")), *shares[1:]]

    def _stages(self, updates: Sequence[Update]) -> dict[int, Writes]:
        stages: dict[int, Writes] = {}
        for update in updates:
            written = [self._variables[name] for name in targets(update) if name in self._variables]
            if written:
                value = self._stored(written[0], self.terms.of(update.value))
                stages.setdefault(update.index, []).append((update.target, value))
        return stages

    def _stored(self, variable: Variable, value: int) -> int:
        """Return the value, an error where bounds alone do not say so: of 64 bits where leaving bounds disables, of huge doubles."""
        terms, tests = self.terms, []
        disables = self.network.disables_out_of_bounds
        for end, lower in ((variable.lower, True), (variable.upper, False)):
            if variable.kind is Kind.REAL and end is not None and not -WHOLE <= end <= WHOLE and not disables:
                bound = inward(end, 1 if lower else -1)  # integers beyond are not rounded before they are compared
            elif variable.kind is Kind.INT and disables and (end is None or not LEAST <= end <= GREATEST):
                bound = str(LEAST if lower else GREATEST)
            else:
                continue
            sides = [terms.node(str(bound)), value]
            tests.append(terms.node("<=", *(sides if lower else reversed(sides))))
        return terms.node("ite", terms.chain("and", tests, "1"), value, terms.node("error")) if tests else value

    def _stage(self, writes: Writes, first: int) -> Iterator[tuple[str, int]]:
        """Yield the variables that a stage assigns, with the nodes of their values."""
        if not any(isinstance(target, Select) for target, _ in writes):
            self._expect_order([target.name for target, _ in writes if isinstance(target, Name)], first)
            for target, value in writes:
                assert isinstance(target, Name)
                yield target.name, value
            return
        terms = self.terms
        cases: dict[str, list[tuple[int, int]]] = {}  # per variable: where a write meets it, and what it is assigned
        inside: dict[str, list[int]] = {}  # per variable: what must hold so that indices are inside of their arrays
        for target, value in writes:
            if isinstance(target, Name):
                cases.setdefault(target.name, []).append((terms.of(TRUE), value))
                continue
            indices = [terms.of(index) for index in target.indices]
            for place, item in zip(product(*map(range, target.shape)), target.items, strict=True):
                assert isinstance(item, Name)
                here = [terms.node("=", index, terms.node(str(k))) for index, k in zip(indices, place, strict=True)]
                cases.setdefault(item.name, []).append((terms.chain("and", here, "1"), value))
                if not any(place):
                    known = [
                        terms.node(
                            "and",
                            terms.node("<=", terms.node("0"), index),
                            terms.node("<", index, terms.node(str(size))),
                        )
                        for index, size in zip(indices, target.shape, strict=True)
                    ]
                    inside.setdefault(item.name, []).append(terms.chain("and", known, "1"))
        self._expect_order([name for name, met in cases.items() for _ in met], first)
        for name, met in cases.items():
            value = self._after(terms.node(word(name)), met)
            for test in inside.get(name, ()):
                value = terms.node("ite", test, value, terms.node("error"))
            yield name, value

    def _expect_order(self, written: Sequence[str], first: int) -> None:
        """Refuse assignments that may meet where it matters which of two errors happens first."""
        if self.network.disables_out_of_bounds and len(set(written)) < len(written):
            raise InputError(
                f"two assignments of one index may meet in '{max(written, key=written.count)}', and leaving bounds disables an operator: "
                "a flat text cannot say which happens first.",
                self.network.edges[first].where,
                "Give the assignments different indices.",
            )

    def _after(self, own: int, met: Sequence[tuple[int, int]]) -> int:
        """Return the value of a variable after these writes: of the one that meets it, its own without any, an error of two."""
        terms, true, error = self.terms, self.terms.of(TRUE), self.terms.node("error")
        value, later = own, self.terms.of(FALSE)
        for here, written in reversed(met):
            if later != terms.of(FALSE):
                written = error if later == true else terms.node("ite", later, error, written)
                later = true if here == true else terms.node("or", here, later)
            else:
                later = here
            value = written if here == true else terms.node("ite", here, written, value)
        return value

    def _rows(self, moves: TableMoves) -> Iterator[list[Piece]]:
        table, state = moves.table, word(STATE)
        for name, values in table.features.items():
            yield [f"(feature {word(name)} {state} {' '.join(map(str, values))})"]
        if table.events:
            yield [f"(event {state} {' '.join(table.events)})"]
        labels = [word(label) for label in table.labels]
        for source, action, outcomes in table.moves:
            weights = ("1",) if len(outcomes) == 1 else reduced([one.probability for one in outcomes])
            shown = " ".join(
                f"({weight} {one.state})" if one.event is None else f"({weight} {one.state} {one.event})"
                for weight, one in zip(weights, outcomes, strict=True)
            )
            yield [f"(rows {state} ({source} {labels[action]}) {shown})"]


def reduced(shares: Sequence[Fraction] | Sequence[int]) -> list[int]:
    """Return the least whole numbers in the same proportions.

    >>> reduced([Fraction(1, 10), Fraction(9, 10)]), reduced([4, 2])
    ([1, 9], [2, 1])
    """
    common = lcm(*(share.denominator for share in shares))
    wholes = [share.numerator * (common // share.denominator) for share in shares]
    divisor = gcd(*wholes) or 1
    return [whole // divisor for whole in wholes]


def inward(end: int | Fraction | None, direction: int) -> str | None:
    """Return the end of a real variable's values as a double inside of it, so that doubles compare with it as with the end."""
    if end is None:
        return None
    return double(direction * at_least(Fraction(direction * end)))


def value_of_initial(variable: Variable) -> str:
    """Return what a scratch variable holds before the first stage."""
    assert variable.initial is not None
    return double(Fraction(variable.initial)) if variable.kind is Kind.REAL else str(int(variable.initial))


# -- which edges exclude each other


def _box_of(guard: Expression) -> Box:
    """Return the bounds that a guard's conjuncts give integers and truth values by comparing them with numbers."""
    box: dict[str, tuple[int, int]] = {}
    for part in conjuncts(guard):
        match part:
            case Name(name):
                low, high = 1, 1
            case Unary("¬", Name(name)):
                low, high = 0, 0
            case Binary(operator, Name(name), IntLiteral(value)):
                low = value + (operator == ">") if operator in ("=", "≥", ">") else -FAR
                high = value - (operator == "<") if operator in ("=", "≤", "<") else FAR
            case _:
                continue
        least, most = box.get(name, (-FAR, FAR))
        box[name] = max(least, low), min(most, high)
    return box


def _met(box: Box, other: Box | None) -> Box | None:
    if other is None:
        return None
    both = dict(box)
    for name, (low, high) in other.items():
        least, most = both.get(name, (-FAR, FAR))
        both[name] = max(least, low), min(most, high)
    return both


# -- which transient variables matter: those that are read, and those in whose assignments something may go wrong


def _needed(network: Network) -> set[str]:
    """Return the scratch variables that are read, or whose assignments may be an error."""
    scratch = {one.name: one for one in network.scratch}
    if not scratch or isinstance(network.edges, TableMoves):
        return set()  # the rewards of a table are numbers
    spans = spans_of(network)
    updates = [update for edge in network.edges for branch in edge.branches for update in branch.updates]
    needed = _met_twice(network, scratch)
    pending = []
    for update in updates:
        if targets(update) & scratch.keys():
            if not _is_harmless(update, scratch, spans):
                needed |= targets(update)
            pending.append(update)
        else:
            needed |= reads(update) & scratch.keys()
    while more := {name for one in pending if targets(one) & needed for name in reads(one) & scratch.keys()} - needed:
        needed |= more
    return needed


def _met_twice(network: Network, scratch: Mapping[str, Variable]) -> set[str]:
    """Return the scratch variables that two assignments of one index may meet."""
    written = [
        {
            (name, update.index)
            for branch in edge.branches
            for update in branch.updates
            for name in targets(update) & scratch.keys()
        }
        for edge in network.edges
    ]
    twice: set[str] = set()
    for joint in network.joints:
        seen: set[tuple[str, int]] = set()
        for edges in joint.participants:
            here = set().union(*(written[edge] for edge in edges))
            twice |= {name for name, _ in seen & here}
            seen |= here
    for edge in network.edges:
        for branch in edge.branches:
            own = [(name, update.index) for update in branch.updates for name in targets(update) & scratch.keys()]
            twice |= {name for name, index in own if own.count((name, index)) > 1}
    return twice


def _is_harmless(update: Update, scratch: Mapping[str, Variable], spans: Mapping[str, Span]) -> bool:
    """Return whether the assignment surely is no error."""
    if isinstance(update.target, Select):
        return False
    variable, ends = scratch[update.target.name], span_of_value(update.value, spans)
    if variable.kind is Kind.BOOL:
        return _is_sure(update.value, spans)
    if ends is None:
        return False
    bounds = span_of(variable)
    if bounds is None:
        return variable.lower is None and variable.upper is None
    whole = variable.kind is Kind.INT or value_of(update.value) is not None
    return whole and bounds[0] <= ends[0] and ends[1] <= bounds[1]


def spans_of(network: Network) -> dict[str, Span]:
    """Return between which numbers the values of variables are."""
    return {one.name: span for one in network.variables if (span := span_of(one)) is not None}


def span_of(variable: Variable) -> Span | None:
    """Return between which numbers the variable's values are; None where they may be near infinite."""
    if variable.kind is Kind.BOOL:
        return Fraction(0), Fraction(1)
    if variable.kind is Kind.INT:
        low = LEAST if variable.lower is None else max(LEAST, variable.lower)
        high = GREATEST if variable.upper is None else min(GREATEST, variable.upper)
        return Fraction(low), Fraction(high)
    if variable.lower is None or variable.upper is None:
        return None
    ends = Fraction(variable.lower), Fraction(variable.upper)
    return ends if max(map(abs, ends)) <= LARGEST else None


def span_of_value(expression: Expression, spans: Mapping[str, Span]) -> Span | None:
    """Return between which numbers the value surely lies, roundings aside, and that it surely has one; None: not known."""
    ends: list[Fraction] = []
    match expression:
        case IntLiteral(value) | RealLiteral(value):
            ends = [Fraction(value)]
        case Name(name) if name in spans:
            return spans[name]
        case Binary(("+" | "-" | "*" | "min" | "max") as operator, left, right):
            one, other = span_of_value(left, spans), span_of_value(right, spans)
            if one is None or other is None:
                return None
            ends = [COMBINED[operator](a, b) for a in one for b in other]
        case Unary("abs", operand) if (inner := span_of_value(operand, spans)) is not None:
            ends = [max(Fraction(0), inner[0], -inner[1]), max(-inner[0], inner[1])]
        case Conditional(condition, then, otherwise) if _is_sure(condition, spans):
            one, other = span_of_value(then, spans), span_of_value(otherwise, spans)
            ends = [*one, *other] if one is not None and other is not None else []
    return (min(ends), max(ends)) if ends and max(map(abs, ends)) <= LARGEST else None


def _is_sure(condition: Expression, spans: Mapping[str, Span]) -> bool:
    """Return whether a condition surely has a value."""
    match condition:
        case Unary("¬", operand):
            return _is_sure(operand, spans)
        case Binary("∧" | "∨" | "⇒", left, right):
            return _is_sure(left, spans) and _is_sure(right, spans)
        case Binary("=" | "≠" | "<" | "≤" | ">" | "≥", left, right):
            return _is_sure(left, spans) and _is_sure(right, spans)
        case _:
            return condition in (TRUE, FALSE) or span_of_value(condition, spans) is not None
