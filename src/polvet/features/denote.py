"""What a term means in a state. A concept is a set of objects as bits of an integer, a role one such set for each object.

A distance over which no path leads is `infinity`, a number above all others: a sum of distances has at most as many terms as
there are pairs of objects, each below the number of objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from polvet.features.structure import NO_ROWS, Rows, Structure
from polvet.features.terms import Term

Concept = int
Role = tuple[int, ...]
Denotation = bool | int | Role


def infinity(structure: Structure) -> int:
    """Return the number that stands for no path at all."""
    return len(structure.objects) ** 3 + 1


class View:
    """A state as terms see it: its relations, and what has been computed of it already."""

    __slots__ = ("_known", "_rows", "_structure")

    def __init__(self, structure: Structure, rows: Mapping[str, Rows]) -> None:
        self._structure, self._rows = structure, rows
        self._known: dict[Term, Denotation] = {}

    def boolean(self, term: Term) -> bool:
        """Return the value of a boolean feature."""
        outcome = self.denote(term)
        assert isinstance(outcome, bool)
        return outcome

    def number(self, term: Term) -> int:
        """Return the value of a numerical feature, or the size of a concept or role."""
        outcome = self.denote(term)
        if isinstance(outcome, tuple):
            return sum(row.bit_count() for row in outcome)
        return outcome.bit_count() if term.sort == "c" else int(outcome)

    def denote(self, term: Term) -> Denotation:
        """Return what the term means here."""
        outcome = self._known.get(term)
        if outcome is None:
            outcome = self._known[term] = self._denote(term)
        return outcome

    def _concept(self, term: object) -> Concept:
        assert isinstance(term, Term)
        outcome = self.denote(term)
        assert isinstance(outcome, int)
        return outcome

    def _role(self, term: object) -> Role:
        assert isinstance(term, Term)
        outcome = self.denote(term)
        assert isinstance(outcome, tuple)
        return outcome

    def _denote(self, term: Term) -> Denotation:
        match term.sort:
            case "b":
                return self._boolean(term)
            case "n":
                return self._number(term)
            case "c":
                return self._concept_of(term)
            case _:
                return self._role_of(term)

    def _boolean(self, term: Term) -> bool:
        first, *rest = term.parts
        if term.operator == "b_nullary":
            return bool(self._relation(str(first)))
        if term.operator == "b_empty":
            assert isinstance(first, Term)
            return self.number(first) == 0
        assert isinstance(first, Term)  # b_inclusion
        if first.sort == "c":
            return self._concept(first) & ~self._concept(rest[0]) == 0
        return all(one & ~other == 0 for one, other in zip(self._role(first), self._role(rest[0]), strict=True))

    def _number(self, term: Term) -> int:
        first, *rest = term.parts
        assert isinstance(first, Term)
        if term.operator == "n_count":
            return self.number(first)
        far = infinity(self._structure)
        if term.operator == "n_concept_distance":
            return _distance(self._concept(first), self._role(rest[0]), self._concept(rest[1]), far)
        if term.operator == "n_sum_concept_distance":
            each = ((1 << x, self._concept(rest[1])) for x in _members(self._concept(first)))
        else:  # from where an object's first role leads to where its second does, along the role between
            rows = zip(self._role(first), self._role(rest[1]), strict=True)
            each = ((1 << y, to) for one, to in rows for y in _members(one))
        distances = [_distance(start, self._role(rest[0]), to, far) for start, to in each]
        if term.operator == "n_role_distance":
            return min(distances, default=far)
        return min(far, sum(distances))

    def _concept_of(self, term: Term) -> Concept:
        everything = (1 << len(self._structure.objects)) - 1
        match term.operator, term.parts:
            case "c_top", _:
                return everything
            case "c_bot", _:
                return 0
            case "c_one_of", (str(name),):
                return 1 << self._structure.numbers[name]
            case "c_primitive", (str(name), int(number)):
                return _bits(row[number] for row in self._relation(name))
            case "c_not", (part,):
                return everything & ~self._concept(part)
            case "c_and", (one, other):
                return self._concept(one) & self._concept(other)
            case "c_or", (one, other):
                return self._concept(one) | self._concept(other)
            case "c_diff", (one, other):
                return self._concept(one) & ~self._concept(other)
            case "c_some", (role, part):
                inside = self._concept(part)
                return _bits(x for x, row in enumerate(self._role(role)) if row & inside)
            case "c_all", (role, part):
                outside = everything & ~self._concept(part)
                return _bits(x for x, row in enumerate(self._role(role)) if not row & outside)
            case "c_equal", (one, other):
                pairs = zip(self._role(one), self._role(other), strict=True)
                return _bits(x for x, (a, b) in enumerate(pairs) if a == b)
            case "c_subset", (one, other):
                pairs = zip(self._role(one), self._role(other), strict=True)
                return _bits(x for x, (a, b) in enumerate(pairs) if not a & ~b)
            case "c_projection", (role, int(number)):
                rows = self._role(role)
                if number == 0:
                    return _bits(x for x, row in enumerate(rows) if row)
                outcome = 0
                for row in rows:
                    outcome |= row
                return outcome
        raise AssertionError(term.operator)

    def _role_of(self, term: Term) -> Role:
        size = len(self._structure.objects)
        everything = (1 << size) - 1
        match term.operator, term.parts:
            case "r_top", _:
                return (everything,) * size
            case "r_primitive", (str(name), int(source), int(target)):
                rows = [0] * size
                for terms in self._relation(name):
                    rows[terms[source]] |= 1 << terms[target]
                return tuple(rows)
            case "r_not", (role,):
                return tuple(everything & ~row for row in self._role(role))
            case "r_and", (one, other):
                return tuple(a & b for a, b in zip(self._role(one), self._role(other), strict=True))
            case "r_or", (one, other):
                return tuple(a | b for a, b in zip(self._role(one), self._role(other), strict=True))
            case "r_diff", (one, other):
                return tuple(a & ~b for a, b in zip(self._role(one), self._role(other), strict=True))
            case "r_compose", (one, other):
                second = self._role(other)
                return tuple(_image(row, second) for row in self._role(one))
            case "r_inverse", (role,):
                rows = [0] * size
                for x, row in enumerate(self._role(role)):
                    for y in _members(row):
                        rows[y] |= 1 << x
                return tuple(rows)
            case "r_restrict", (role, part):
                inside = self._concept(part)
                return tuple(row & inside for row in self._role(role))
            case "r_identity", (part,):
                inside = self._concept(part)
                return tuple(inside & 1 << x for x in range(size))
            case ("r_transitive_closure" | "r_transitive_reflexive_closure") as operator, (role,):
                rows = list(self._role(role))
                for middle in range(size):
                    for x in range(size):
                        if rows[x] >> middle & 1:
                            rows[x] |= rows[middle]
                if operator == "r_transitive_reflexive_closure":
                    rows = [row | 1 << x for x, row in enumerate(rows)]
                return tuple(rows)
        raise AssertionError(term.operator)

    def _relation(self, name: str) -> Rows:
        outcome = self._rows.get(name)
        return self._structure.fixed.get(name, NO_ROWS) if outcome is None else outcome


def _members(bits: int) -> Iterable[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def _bits(members: Iterable[int]) -> int:
    outcome = 0
    for member in members:
        outcome |= 1 << member
    return outcome


def _image(bits: int, role: Role) -> int:
    outcome = 0
    for member in _members(bits):
        outcome |= role[member]
    return outcome


def _distance(start: int, role: Role, goal: int, far: int) -> int:
    """Return the length of a shortest path from one set to another."""
    seen, layer, steps = start, start, 0
    while layer:
        if layer & goal:
            return steps
        layer = _image(layer, role) & ~seen
        seen |= layer
        steps += 1
    return far
